//! From the command line to a plan that is known to be sound.

use std::path::{Path, PathBuf};

use edgedyno_shared::case::{Case, Condition, ModelRef, RuntimeRef};
use edgedyno_shared::device::DeviceInfo;
use edgedyno_shared::ids::Sha256;
use edgedyno_shared::order::{ColdStart, OutputWish, Preparation, Rules};
use edgedyno_shared::telemetry::TelemetryMode;

use super::inventory::{Inquiry, find_board};
use super::{RunArgs, outputs};
use crate::board::Board;
use crate::board::content::Content;
use crate::cli::Global;
use crate::cmd::{block_on, here};
use crate::exit::{CommandError, Exit};
use crate::model::{identify, inspect};
use crate::options::rules;
use crate::plan::backend::{self, RuntimeWish};
use crate::plan::check;
use crate::plan::condition::Condition as Wished;
use crate::plan::feed::{self, Feed, Unpacked};
use crate::plan::fixed::Conduct;
use crate::plan::schedule::Schedule;
use crate::plan::tenant;
use crate::runtime::cache::Cache;
use crate::runtime::install::Installer;
use crate::runtime::offer::{Consent, Occasion, Offered, runtime_offer};
use crate::store::Store;
use crate::ui::fetch::Terminal;
use crate::ui::print;

/// A run that can be ordered.
pub(in crate::cmd) struct Prepared {
    pub(in crate::cmd) board: String,
    pub(in crate::cmd) device: DeviceInfo,
    pub(in crate::cmd) cases: Vec<Case>,
    pub(in crate::cmd) conduct: Conduct,
    pub(in crate::cmd) schedule: Schedule,
    pub(in crate::cmd) contents: Vec<Content>,
    /// Files of contents that are still to be written.
    pub(in crate::cmd) unpacked: Vec<Unpacked>,
    /// Path on the board of the library to load.
    pub(in crate::cmd) library: Option<String>,
    pub(in crate::cmd) save_outputs: Option<PathBuf>,
    /// Why the built-in runtime is used although nobody chose it.
    pub(in crate::cmd) built_in_note: Option<String>,
}

/// The model file by name and content.
pub(in crate::cmd) struct Model {
    pub(in crate::cmd) path: PathBuf,
    pub(in crate::cmd) reference: ModelRef,
    pub(in crate::cmd) content: Content,
}

pub(super) fn prepare(args: &RunArgs, global: &Global) -> Result<Prepared, CommandError> {
    let path = args.model.as_deref().unwrap_or(Path::new(""));
    let model = read_model(path)?;
    let scenario = check::scenario(&args.scenario)?;
    let shapes = args.shapes.sorted()?;
    let options = args.runtime.sorted()?;
    let inputs = Store::find_or_new(global.store(), &here()?).join("inputs");
    let feed = Feed::resolve(&args.inputs, &inputs)?;
    let (reference, reference_contents) = match &args.reference {
        Some(folder) => feed::references(folder)?,
        None => Default::default(),
    };
    if let Some(folder) = &args.save_outputs {
        outputs::check_folder(folder)?;
    }
    let named = args.runtime.backend.as_deref();
    let board = find_board(&args.board)?;
    let wish = wish(args.runtime.runtime.as_deref(), named, board.is_remote())?;
    let (device, chosen) = block_on(async {
        let mut inquiry = Inquiry::open(&board).await?;
        let mut device = inquiry.device().await?;
        match offer_runtime(args, named.is_some() || wish.is_some(), &device) {
            Offered::Fetched(_) => device = inquiry.device().await?,
            Offered::Not(Some(why)) => print::note(format_args!("note: {why}; {}", why.hint())),
            Offered::Not(None) | Offered::NotNeeded => {}
        }
        let chosen = choose((&args.board, &device), named, wish.as_ref(), &mut inquiry).await?;
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
    check::cpus(&device, &args.condition.cpus().collect::<Vec<u16>>())?;
    check::repeats(1, args.rules.repeat.get())?;
    let mut case = Case {
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
        io: args.runtime.io(),
        condition: Condition::idle(),
        tenants: Vec::new(),
        inputs: feed.spec,
    };
    let mut contents = vec![model.content];
    contents.extend(add_condition(&mut case, &args.condition, chosen.simulated)?);
    contents.extend(feed.contents);
    contents.extend(reference_contents);
    let mut cases = vec![case];
    cases.extend(tenant::baselines(&cases));
    let (repeats, rules, preparation) = conduct_of(args)?;
    Ok(Prepared {
        board: args.board.clone(),
        device,
        cases,
        conduct: Conduct {
            repeats,
            rules,
            limits: args.limits.limits(),
            cold: match args.cold {
                Some(super::ColdChoice::PageCache) => ColdStart::PageCache,
                None => ColdStart::FreshProcess,
            },
            outputs: OutputWish {
                save: args.save_outputs.is_some(),
                reference,
            },
            telemetry: args.telemetry.mode(),
            preparation,
            seed: args.inputs.seed,
        },
        schedule: Schedule::default(),
        contents,
        unpacked: feed.unpacked,
        library: chosen.runtime.map(|(path, _)| path),
        save_outputs: args.save_outputs.clone(),
        built_in_note: chosen.note,
    })
}

/// Writes a condition into a case; returns the contents of the models that it names.
fn add_condition(
    case: &mut Case,
    condition: &Wished,
    is_simulated: bool,
) -> Result<Vec<Content>, CommandError> {
    let mut condition = condition.clone();
    let mut tenants = Vec::new();
    for mut term in std::mem::take(&mut condition.tenants) {
        if term.backend.is_some() || term.runtime.is_some() {
            let what = format!("`{term}` asks for a backend or a runtime of its own");
            return Err(CommandError::usage(what)
                .hint("`edgedyno sweep` takes such a condition: --axis \"condition=...\""));
        }
        let model = read_model(Path::new(&term.model))?;
        if !is_simulated {
            check_model(&model, None)?;
        }
        term.model.clone_from(&model.reference.name);
        tenants.push((term, model));
    }
    tenants.sort_by_key(|(term, _)| term.to_string());
    let mut contents = Vec::new();
    for (term, model) in tenants {
        let (backend, runtime) = (&case.backend, case.runtime.clone());
        case.tenants
            .push(term.resolved(model.reference, backend, runtime));
        condition.tenants.push(term);
        contents.push(model.content);
    }
    case.condition = Condition(condition.to_string());
    Ok(contents)
}

/// Repeats, rules and preparation: those asked for, or those of a soak.
fn conduct_of(args: &RunArgs) -> Result<(u32, Rules, Preparation), CommandError> {
    let preparation = args.telemetry.preparation();
    let Some(soak) = args.soak else {
        return Ok((args.rules.repeat.get(), args.rules.rules(), preparation));
    };
    if args.telemetry.mode() == TelemetryMode::Off {
        let what = "--soak watches the board, and --telemetry off leaves that out";
        return Err(CommandError::new(Exit::USAGE, what).hint("leave one of them out"));
    }
    let preparation = Preparation {
        watch_after: rules::recovery(soak),
        ..preparation
    };
    Ok((1, rules::soak(soak), preparation))
}

/// Offers an ONNX Runtime where one would be used and none is there.
fn offer_runtime(args: &RunArgs, is_chosen: bool, device: &DeviceInfo) -> Offered {
    let Ok(cache) = Cache::from_environment() else {
        return Offered::Not(None);
    };
    let path = args.model.as_deref().unwrap_or(Path::new(""));
    let occasion = Occasion {
        board: &args.board,
        is_chosen,
        is_onnx: inspect::inspect(path).is_ok(),
    };
    let conduct = &args.conduct;
    let may_fetch = !(conduct.offline || conduct.dry_run);
    let consent = Consent::of(conduct.yes, may_fetch, print::can_ask());
    let installer = Installer::new(cache);
    runtime_offer(device, occasion, consent, &installer, &mut Terminal)
}

/// The library asked for: by name, else on this machine by the environment, which says nothing of another.
pub(in crate::cmd) fn wish(
    asked: Option<&str>,
    backend: Option<&str>,
    is_remote: bool,
) -> Result<Option<RuntimeWish>, CommandError> {
    match asked {
        Some(wish) => RuntimeWish::parse(wish, is_remote).map(Some),
        None if is_remote => Ok(None),
        None => backend::wish_of_environment(backend, |name| std::env::var_os(name)),
    }
}

/// Backend and library, as chosen.
pub(in crate::cmd) struct Chosen {
    pub(in crate::cmd) backend: String,
    pub(in crate::cmd) simulated: bool,
    /// Path on the board, and which it is.
    pub(in crate::cmd) runtime: Option<(String, RuntimeRef)>,
    pub(in crate::cmd) note: Option<String>,
}

pub(in crate::cmd) async fn choose(
    (board, device): (&str, &DeviceInfo),
    named: Option<&str>,
    wish: Option<&RuntimeWish>,
    inquiry: &mut Inquiry,
) -> Result<Chosen, CommandError> {
    let chosen = backend::choose_backend(device, named, wish, board)?;
    let probed = match wish {
        Some(RuntimeWish::File(path)) if !chosen.built_in => {
            Some(inquiry.probe(&chosen.name, path).await?)
        }
        _ => None,
    };
    let runtime = backend::choose_runtime(chosen, wish, probed.as_ref(), board)?;
    Ok(Chosen {
        backend: chosen.name.clone(),
        simulated: chosen.simulated,
        runtime: runtime.map(|(path, runtime)| (path.to_owned(), runtime)),
        note: backend::built_in_note(chosen, named, board),
    })
}

pub(in crate::cmd) fn read_model(path: &Path) -> Result<Model, CommandError> {
    let identity = identify::identify(path)?;
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
pub(in crate::cmd) fn check_model(model: &Model, batch: Option<u32>) -> Result<(), CommandError> {
    let facts = inspect::inspect(&model.path)?;
    batch.map_or(Ok(()), |batch| check::batch(&facts, batch))
}
