//! `demo`: two networks, cold and warm, on every runtime this machine has or can fetch.

use std::path::{Path, PathBuf};

use clap::Args;
use edgedyno_shared::case::{
    Case, Condition, Generator, InputPolicy, InputSource, InputSpec, Io, Scenario, Threads,
};
use edgedyno_shared::device::{BackendInfo, DeviceInfo, RuntimeVerdict};
use edgedyno_shared::order::{ColdStart, Limits, OutputWish, Rules};
use edgedyno_shared::units::Nanos;

use super::run::execute::{self, Begin};
use super::run::inventory::{Inquiry, find_board};
use super::run::prepare::{Chosen, Model, Prepared, choose, read_model};
use super::{block_on, here, read, summary};
use crate::board::local;
use crate::cli::Global;
use crate::drive::DriveEnd;
use crate::exit::{CommandError, CommandResult, Exit};
use crate::model::make::{self, Options, Size};
use crate::options::rules::{for_at_least, until_steady};
use crate::plan::fixed::Conduct;
use crate::runtime::cache::Cache;
use crate::runtime::install::Installer;
use crate::runtime::offer::{Consent, Occasion, Offered, runtime_offer};
use crate::source::Source;
use crate::store::Store;
use crate::summary::{CaseSummary, to_json};
use crate::ui::fetch::Terminal;
use crate::ui::{cases, print};

const EXAMPLES: &str = "\
examples:
  edgedyno demo
  edgedyno demo --offline   fetch nothing";

/// Repeats, windows and warm-ups that keep all of it within 90 s.
const REPEATS: u32 = 2;

const WINDOW: Nanos = Nanos::from_secs(1);
const WARMUP: Nanos = Nanos::from_secs(2);

#[derive(Debug, Clone, Args)]
#[command(after_help = EXAMPLES)]
pub struct DemoArgs {
    /// Fetch nothing
    #[arg(long)]
    pub offline: bool,
}

/// Runtimes to measure on, and what was left out and why.
struct Runtimes {
    chosen: Vec<Chosen>,
    left_out: Vec<String>,
}

pub fn run(args: &DemoArgs, global: &Global) -> CommandResult {
    let folder = Store::find_or_new(global.store(), &here()?).join("demo");
    let models = make_models(&folder)?;
    let board = find_board(local::NAME)?;
    let (device, runtimes) = block_on(async {
        let mut inquiry = Inquiry::open(&board).await?;
        find_runtimes(args.offline, &mut inquiry).await
    })?;
    for left_out in &runtimes.left_out {
        print::note(format_args!("left out: {left_out}"));
    }
    let prepared = prepare(device, &models, &runtimes);
    let repeats = prepared.cases.len() * REPEATS as usize;
    print::note(format_args!(
        "measuring {} cases {REPEATS} times each, about {} s",
        prepared.cases.len(),
        repeats * 3
    ));
    let how = Begin::New {
        command: "demo",
        tags: &[],
    };
    let (source, end) = execute::execute(&prepared, &how, global)?;
    let summaries = read::summaries(&source, &source.cases()?)?;
    match global.json {
        true => print::json(&to_json(&summaries)),
        false => print::result(text(&source, &summaries, &models, &runtimes.left_out)?),
    }
    let interrupted = (end == DriveEnd::Interrupted).then_some(Exit::INTERRUPTED);
    let shown = summary::verdict(&summaries);
    Ok(Exit::of_all(interrupted.into_iter().chain([shown])))
}

/// A compute-bound and a memory-bound network.
fn make_models(folder: &Path) -> Result<Vec<Model>, CommandError> {
    std::fs::create_dir_all(folder).map_err(|why| {
        CommandError::usage(format!("`{}` cannot be made", folder.display()))
            .because(why)
            .hint("choose another place with --store DIR")
    })?;
    let sizes = [("conv", Size::default()), ("matmul", Size::default())];
    let make = |(name, size): (&str, Size)| {
        let options = Options {
            size,
            ..Options::default()
        };
        let path = folder.join(format!("{name}.onnx"));
        make::find(name)?.make(&options, &path)?;
        read_model(&path)
    };
    sizes.into_iter().map(make).collect()
}

/// Every runtime that can be used, after fetching one where none is there.
async fn find_runtimes(
    offline: bool,
    inquiry: &mut Inquiry,
) -> Result<(DeviceInfo, Runtimes), CommandError> {
    let mut device = inquiry.device().await?;
    let mut left_out = Vec::new();
    match fetch(&device, offline)? {
        Offered::Fetched(_) => device = inquiry.device().await?,
        Offered::Not(Some(why)) => left_out.push(why),
        Offered::Not(None) | Offered::NotNeeded => {}
    }
    let mut chosen = Vec::new();
    for backend in device.backends.iter().filter(|backend| !backend.simulated) {
        if backend.built_in || has_usable(backend) {
            chosen.push(choose(&device, Some(&backend.name), None, inquiry).await?);
        } else if left_out.is_empty() {
            left_out.push(format!(
                "{}: none is found, and nothing is fetched",
                backend.name
            ));
        }
    }
    if chosen.is_empty() {
        return Err(CommandError::usage("there is no runtime to measure on")
            .hint("`edgedyno runtime install onnxruntime`"));
    }
    Ok((device, Runtimes { chosen, left_out }))
}

/// To start the demo is to agree, so nothing is asked; what is fetched is said.
fn fetch(device: &DeviceInfo, offline: bool) -> Result<Offered, CommandError> {
    let installer = Installer::new(Cache::from_environment()?);
    let consent = match offline {
        true => Consent::Never,
        false => Consent::Given,
    };
    let occasion = Occasion {
        board: local::NAME,
        is_chosen: false,
        is_onnx: true,
    };
    Ok(runtime_offer(
        device,
        occasion,
        consent,
        &installer,
        &mut Terminal,
    ))
}

fn has_usable(backend: &BackendInfo) -> bool {
    let usable = |verdict: &RuntimeVerdict| matches!(verdict, RuntimeVerdict::Usable(_));
    backend.runtimes.iter().any(|found| usable(&found.verdict))
}

fn prepare(device: DeviceInfo, models: &[Model], runtimes: &Runtimes) -> Prepared {
    let most = device.allowed_cpus.len().clamp(1, 2) as u32;
    let mut all = Vec::new();
    for model in models {
        for chosen in &runtimes.chosen {
            all.extend((1..=most).map(|threads| case(model, chosen, threads)));
        }
    }
    Prepared {
        board: local::NAME.into(),
        device,
        cases: all,
        conduct: conduct(),
        contents: models.iter().map(|model| model.content.clone()).collect(),
        unpacked: Vec::new(),
        library: None,
        save_outputs: None,
        built_in_note: None,
    }
}

fn case(model: &Model, chosen: &Chosen, threads: u32) -> Case {
    Case {
        board: local::NAME.into(),
        model: model.reference.clone(),
        backend: chosen.backend.clone(),
        runtime: chosen.runtime.as_ref().map(|(_, runtime)| runtime.clone()),
        options: Vec::new(),
        parameters: Vec::new(),
        shapes: Vec::new(),
        batch: None,
        threads: Threads {
            intra: threads,
            inter: 1,
        },
        cpus: None,
        precision: None,
        scenario: Scenario::Single,
        io: Io::Resident,
        condition: Condition::idle(),
        inputs: InputSpec {
            source: InputSource::Generated {
                generator: Generator::Normal,
                seed: 1,
            },
            policy: InputPolicy::Fixed,
        },
    }
}

fn conduct() -> Conduct {
    Conduct {
        repeats: REPEATS,
        rules: Rules {
            warmup: until_steady(WARMUP),
            measure: for_at_least(WINDOW),
        },
        limits: Limits {
            load: Nanos::from_secs(30),
            compile: Nanos::from_secs(30),
            trial: Nanos::from_secs(10),
            trial_factor: 50,
            memory: None,
        },
        cold: ColdStart::FreshProcess,
        outputs: OutputWish {
            save: false,
            reference: Vec::new(),
        },
        seed: 1,
    }
}

/// The table and where to look next.
fn text(
    source: &Source,
    summaries: &[CaseSummary],
    models: &[Model],
    left_out: &[String],
) -> Result<String, CommandError> {
    let run = source.run()?.id;
    let key = summaries.first().map(|s| s.key.to_string()[..8].to_owned());
    let model: PathBuf = models.first().map(|m| m.path.clone()).unwrap_or_default();
    let mut lines = vec![
        cases::text(summaries),
        String::new(),
        "first run: cold, in a fresh process; p50 and p99: warm; * too few trials for it".into(),
    ];
    lines.extend(left_out.iter().map(|what| format!("left out: {what}")));
    lines.extend([
        String::new(),
        "look next:".into(),
        format!("  edgedyno summary {run}/{}", key.unwrap_or_default()),
        format!("  edgedyno get {run} latency_p50_ms"),
        format!("  edgedyno run {} --threads 2", model.display()),
        "  edgedyno run YOUR_MODEL.onnx".into(),
    ]);
    Ok(lines.join("\n"))
}
