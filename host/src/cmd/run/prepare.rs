//! From the command line to a plan that is known to be sound.

use std::path::{Path, PathBuf};

use edgedyno_shared::case::{Case, Condition, ModelRef};
use edgedyno_shared::device::DeviceInfo;
use edgedyno_shared::ids::Sha256;
use edgedyno_shared::order::{ColdStart, OutputWish};

use super::inventory::{Inquiry, find_board};
use super::{RunArgs, outputs};
use crate::board::content::Content;
use crate::cmd::block_on;
use crate::exit::CommandError;
use crate::model::error::ModelError;
use crate::model::{identify, inspect};
use crate::plan::backend::{self, RuntimeWish};
use crate::plan::check;
use crate::plan::feed::{self, Feed};
use crate::plan::fixed::Conduct;

/// A run that can be ordered.
pub(super) struct Prepared {
    pub(super) board: String,
    pub(super) device: DeviceInfo,
    pub(super) cases: Vec<Case>,
    pub(super) conduct: Conduct,
    pub(super) contents: Vec<Content>,
    /// Path on the board of the library to load.
    pub(super) library: Option<String>,
    pub(super) save_outputs: Option<PathBuf>,
    pub(super) notes: Vec<String>,
}

/// The model file by name and content.
struct Model {
    path: PathBuf,
    reference: ModelRef,
    content: Content,
}

pub(super) fn prepare(args: &RunArgs) -> Result<Prepared, CommandError> {
    let path = args.model.as_deref().unwrap_or(Path::new(""));
    let model = read_model(path)?;
    let scenario = check::scenario(&args.scenario)?;
    let shapes = args.shapes.sorted()?;
    let options = args.runtime.sorted()?;
    let feed = Feed::resolve(&args.inputs)?;
    let (reference, reference_contents) = match &args.reference {
        Some(folder) => feed::references(folder)?,
        None => Default::default(),
    };
    if let Some(folder) = &args.save_outputs {
        outputs::check_folder(folder)?;
    }
    let wish = args.runtime.runtime.as_deref();
    let wish = wish.map(RuntimeWish::parse).transpose()?;

    let board = find_board(&args.board)?;
    let named = args.runtime.backend.as_deref();
    let (device, chosen) = block_on(async {
        let mut inquiry = Inquiry::open(&board).await?;
        let device = inquiry.device().await?;
        let chosen = choose(&device, named, wish.as_ref(), &mut inquiry).await?;
        Ok((device, chosen))
    })?;
    let cpus = args.placement.cpus.as_ref().map(|list| list.0.clone());
    if let Some(cpus) = &cpus {
        check::cpus(&device, cpus)?;
    }
    let batch = args.shapes.batch.map(std::num::NonZero::get);
    if !chosen.simulated {
        check_model(&model, batch)?;
    }
    let case = Case {
        board: args.board.clone(),
        model: model.reference,
        backend: chosen.backend,
        runtime: chosen.runtime.as_ref().map(|(_, runtime)| runtime.clone()),
        options,
        parameters: Vec::new(),
        shapes,
        batch,
        threads: args.placement.threads(),
        cpus,
        precision: None,
        scenario,
        io: args.runtime.io.into(),
        condition: Condition::idle(),
        inputs: feed.spec,
    };
    let mut contents = vec![model.content];
    contents.extend(feed.contents);
    contents.extend(reference_contents);
    Ok(Prepared {
        board: args.board.clone(),
        device,
        cases: vec![case],
        conduct: Conduct {
            repeats: args.rules.repeat.get(),
            rules: args.rules.rules(),
            limits: args.limits.limits(),
            cold: match args.cold {
                Some(super::ColdChoice::PageCache) => ColdStart::PageCache,
                None => ColdStart::FreshProcess,
            },
            outputs: OutputWish {
                save: args.save_outputs.is_some(),
                reference,
            },
            seed: args.inputs.seed,
        },
        contents,
        library: chosen.runtime.map(|(path, _)| path),
        save_outputs: args.save_outputs.clone(),
        notes: chosen.note.into_iter().collect(),
    })
}

/// Backend and library, as chosen.
struct Chosen {
    backend: String,
    simulated: bool,
    runtime: Option<(String, edgedyno_shared::case::RuntimeRef)>,
    note: Option<String>,
}

async fn choose(
    device: &DeviceInfo,
    named: Option<&str>,
    wish: Option<&RuntimeWish>,
    inquiry: &mut Inquiry,
) -> Result<Chosen, CommandError> {
    let chosen = backend::choose_backend(device, named, wish)?;
    let probed = match wish {
        Some(RuntimeWish::File(path)) if !chosen.built_in => {
            Some(inquiry.probe(&chosen.name, path).await?)
        }
        _ => None,
    };
    let runtime = backend::choose_runtime(chosen, wish, probed.as_ref())?;
    Ok(Chosen {
        backend: chosen.name.clone(),
        simulated: chosen.simulated,
        runtime: runtime.map(|(path, runtime)| (path.to_owned(), runtime)),
        note: backend::built_in_note(chosen, named),
    })
}

fn read_model(path: &Path) -> Result<Model, CommandError> {
    let identity = identify::identify(path).map_err(model_error)?;
    let sha256 = Sha256(*identity.sha256.as_bytes());
    let files: Vec<(String, PathBuf)> = identity
        .files
        .into_iter()
        .map(|file| (file.name, file.path))
        .collect();
    let name = files
        .first()
        .map_or_else(String::new, |(name, _)| name.clone());
    Ok(Model {
        path: path.to_owned(),
        reference: ModelRef { name, sha256 },
        content: Content { sha256, files },
    })
}

/// What only the file can tell: whether it is a model at all, and takes the batch asked for.
fn check_model(model: &Model, batch: Option<u32>) -> Result<(), CommandError> {
    let facts = inspect::inspect(&model.path).map_err(model_error)?;
    batch.map_or(Ok(()), |batch| check::batch(&facts, batch))
}

pub(super) fn model_error(error: ModelError) -> CommandError {
    let hint = error.hint();
    let usage = CommandError::usage(error.to_string()).hint(hint);
    match std::error::Error::source(&error) {
        Some(source) => usage.cause(source.to_string()),
        None => usage,
    }
}
