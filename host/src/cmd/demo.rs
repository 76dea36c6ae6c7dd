//! `demo`: two networks, cold and warm, on every runtime that this machine has or can fetch.

use std::fs;
use std::path::Path;

use clap::Args;
use edgedyno_shared::case::{Case, Threads};
use edgedyno_shared::device::{DeviceInfo, RuntimeVerdict};
use edgedyno_shared::order::Rules;
use edgedyno_shared::units::Nanos;

use super::run::execute::{self, Begin};
use super::run::inventory::{Inquiry, find_board};
use super::run::prepare::{Chosen, Model, Prepared, choose, read_model};
use super::{block_on, read, summary};
use crate::board::local;
use crate::cli::Global;
use crate::documents;
use crate::drive::{DriveEnd, LeaseWish};
use crate::exit::{CommandError, CommandResult, Exit};
use crate::model::make::{self, Made, Options, Size};
use crate::options::rules::{for_at_least, until_steady};
use crate::plan::fixed::Conduct;
use crate::plan::plain;
use crate::plan::schedule::Schedule;
use crate::runtime::Spec;
use crate::runtime::cache::Cache;
use crate::runtime::error::RuntimeError;
use crate::runtime::install::{Installer, Outcome};
use crate::runtime::offer::{self, Consent, OFFERED, Occasion, Offered, runtime_offer};
use crate::ui::demo::{self as text, LeftOut, Shown};
use crate::ui::fetch::Terminal;
use crate::ui::print;

const EXAMPLES: &str = "\
examples:
  edgedyno demo             about a minute; fetches an ONNX Runtime if there is none
  edgedyno demo --offline   fetches nothing";

/// Repeats, windows and warm-ups that keep all of it within 90 s.
const REPEATS: u32 = 2;
const WINDOW: Nanos = Nanos::from_secs(1);
const WARMUP: Nanos = Nanos::from_secs(2);
const MOST_THREADS: u32 = 2;

#[derive(Debug, Clone, Args)]
#[command(after_help = EXAMPLES)]
pub struct DemoArgs {
    /// Fetch nothing
    #[arg(long)]
    pub offline: bool,
    /// Fetch what is missing without a question
    #[arg(long, conflicts_with = "offline")]
    pub yes: bool,
}

/// Measures, stores, and shows a table and where to look next.
pub fn run(args: &DemoArgs, global: &Global) -> CommandResult {
    let cache = Cache::from_environment()?;
    let networks = make_networks(&cache.models().join("demo"))?;
    let board = find_board(local::NAME)?;
    let (device, runtimes) = block_on(async {
        let mut inquiry = Inquiry::open(&board).await?;
        let consent = consent(args, print::can_ask());
        find_runtimes(&mut inquiry, consent, &Installer::new(cache)).await
    })?;
    let threads = MOST_THREADS.min(device.allowed_cpus.len().max(1) as u32);
    let prepared = prepare(device, &networks, &runtimes.chosen, threads);
    print::note(text::plan(prepared.cases.len(), &prepared.conduct));
    let how = Begin::New {
        command: "demo",
        tags: &[],
    };
    let (source, end) = execute::execute(&prepared, &how, &LeaseWish::plain(), global)?;
    let cases = read::summaries(&source, &source.cases()?)?;
    let made: Vec<&Made> = networks.iter().map(|network| &network.made).collect();
    let shown = Shown {
        run: &source.run()?.id,
        networks: &made,
        cases: &cases,
        left_out: &left_out(runtimes.left_out, threads),
    };
    match global.json {
        true => print::json(&documents::demo(&shown)),
        false => print::result(text::text(&shown)),
    }
    let interrupted = (end == DriveEnd::Interrupted).then_some(Exit::INTERRUPTED);
    // It shows what the tool does; what is wrong with this machine is for the reader of its findings.
    let measured = summary::verdict(&cases, true);
    Ok(Exit::of_all(interrupted.into_iter().chain([measured])))
}

/// A network of the demo, and the file it was made into.
struct DemoNetwork {
    made: Made,
    model: Model,
}

/// A compute-bound and a memory-bound one, small enough for many trials in a second.
const NETWORKS: [(&str, Size); 2] = [
    (
        "conv",
        Size {
            channels: Some(16),
            depth: Some(8),
            image: Some(64),
            width: None,
        },
    ),
    (
        "matmul",
        Size {
            channels: None,
            depth: Some(8),
            image: None,
            width: Some(1024),
        },
    ),
];

fn make_networks(folder: &Path) -> Result<Vec<DemoNetwork>, CommandError> {
    fs::create_dir_all(folder).map_err(|why| {
        CommandError::usage(format!("`{}` cannot be made", folder.display()))
            .because(why)
            .hint("EDGEDYNO_CACHE names another folder for models and runtimes")
    })?;
    let made = NETWORKS.iter().map(|(name, size)| {
        let options = Options {
            size: *size,
            ..Options::default()
        };
        let path = folder.join(format!("{name}.onnx"));
        let made = make::find(name)?.make(&options, &path)?;
        let model = read_model(&path)?;
        Ok(DemoNetwork { made, model })
    });
    made.collect()
}

/// Runtimes to measure on, and what was left out and why.
struct Runtimes {
    chosen: Vec<Chosen>,
    left_out: Option<LeftOut>,
}

/// Who starts a demo where nobody can be asked wants to see all of it.
fn consent(args: &DemoArgs, can_ask: bool) -> Consent {
    match (args.offline, args.yes || !can_ask) {
        (true, _) => Consent::Never,
        (false, true) => Consent::Given,
        (false, false) => Consent::Ask,
    }
}

async fn find_runtimes(
    inquiry: &mut Inquiry,
    consent: Consent,
    installer: &Installer,
) -> Result<(DeviceInfo, Runtimes), CommandError> {
    let mut device = inquiry.device().await?;
    let occasion = Occasion {
        board: local::NAME,
        is_chosen: false,
        is_onnx: true,
    };
    let mut left_out = None;
    match runtime_offer(&device, occasion, consent, installer, &mut Announced) {
        Offered::NotNeeded => {}
        Offered::Fetched(_) => device = inquiry.device().await?,
        Offered::Not(why) => left_out = Some(not_fetched(why, consent)),
    }
    let mut chosen = Vec::new();
    for backend in &device.backends {
        let usable = |verdict: &RuntimeVerdict| matches!(verdict, RuntimeVerdict::Usable(_));
        let has_library = backend.runtimes.iter().any(|r| usable(&r.verdict));
        if !backend.simulated && (backend.built_in || has_library) {
            chosen.push(choose((local::NAME, &device), Some(&backend.name), None, inquiry).await?);
        }
    }
    if chosen.is_empty() {
        return Err(CommandError::usage("there is no runtime to measure on")
            .hint("`edgedyno runtime install onnxruntime`"));
    }
    // The slower one first: below it, the other reads as what it gains.
    chosen.sort_by_key(|chosen| chosen.runtime.is_some());
    Ok((device, Runtimes { chosen, left_out }))
}

fn not_fetched(why: Option<RuntimeError>, consent: Consent) -> LeftOut {
    let (why, hint) = match (why, consent) {
        (Some(why), _) => (why.to_string(), why.hint().to_owned()),
        (None, Consent::Never) => ("nothing is fetched with --offline".into(), later()),
        (None, Consent::Ask | Consent::Given) => ("you said no to fetching it".into(), later()),
    };
    LeftOut {
        what: OFFERED.into(),
        why,
        hint: Some(hint),
    }
}

fn later() -> String {
    format!("`edgedyno runtime install {OFFERED}` fetches it at any time")
}

/// Says what is fetched where nobody is asked.
struct Announced;

impl offer::Conversation for Announced {
    fn asks(&mut self, question: &str) -> bool {
        Terminal.asks(question)
    }

    fn fetches(&mut self, installer: &Installer, spec: &Spec) -> Result<Outcome, RuntimeError> {
        print::note(format_args!(
            "no ONNX Runtime is found: fetching {} with pip; --offline leaves it out",
            offer::what_is_fetched(&installer.architecture)
        ));
        Terminal.fetches(installer, spec)
    }
}

fn left_out(runtime: Option<LeftOut>, threads: u32) -> Vec<LeftOut> {
    let threads = (threads < MOST_THREADS).then(|| LeftOut {
        what: format!("{MOST_THREADS} threads"),
        why: "there is one CPU to run on".into(),
        hint: None,
    });
    [runtime, threads].into_iter().flatten().collect()
}

fn prepare(
    device: DeviceInfo,
    networks: &[DemoNetwork],
    runtimes: &[Chosen],
    threads: u32,
) -> Prepared {
    let mut cases = Vec::new();
    for network in networks {
        for threads in 1..=threads {
            let on = |runtime| case(&network.model, runtime, threads);
            cases.extend(runtimes.iter().map(on));
        }
    }
    let contents = networks.iter().map(|network| network.model.content.clone());
    Prepared {
        board: local::NAME.into(),
        device,
        cases,
        conduct: conduct(),
        schedule: Schedule::default(),
        contents: contents.collect(),
        unpacked: Vec::new(),
        library: None,
        save_outputs: None,
        built_in_note: None,
    }
}

fn case(model: &Model, runtime: &Chosen, threads: u32) -> Case {
    Case {
        runtime: runtime.runtime.as_ref().map(|(_, runtime)| runtime.clone()),
        threads: Threads {
            intra: threads,
            inter: 1,
        },
        ..plain::case(local::NAME, &model.reference, &runtime.backend)
    }
}

fn conduct() -> Conduct {
    let rules = Rules {
        warmup: until_steady(WARMUP),
        measure: for_at_least(WINDOW),
    };
    plain::conduct(REPEATS, rules, 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_demo_asks_where_somebody_is_and_goes_ahead_where_nobody_is() {
        let flags = |offline, yes| DemoArgs { offline, yes };
        assert_eq!(consent(&flags(false, false), true), Consent::Ask);
        assert_eq!(consent(&flags(false, false), false), Consent::Given);
        assert_eq!(consent(&flags(false, true), true), Consent::Given);
        assert_eq!(consent(&flags(true, false), true), Consent::Never);
        assert_eq!(consent(&flags(true, false), false), Consent::Never);
    }

    #[test]
    fn both_networks_are_made_into_the_folder_and_made_again() {
        let folder = tempfile::tempdir().unwrap();
        let models = folder.path().join("deep/models");
        let hashes = || {
            let networks = make_networks(&models).unwrap();
            let hash = |network: &DemoNetwork| network.model.reference.sha256;
            networks.iter().map(hash).collect::<Vec<_>>()
        };
        assert_eq!(hashes(), hashes());
        assert!(models.join("matmul.onnx").is_file());
    }

    #[test]
    fn what_is_left_out_is_said_with_a_way_to_have_it() {
        assert!(left_out(None, 2).is_empty());
        let said = left_out(Some(not_fetched(None, Consent::Never)), 1);
        assert!(said[0].why.contains("--offline"));
        assert!(
            said[0]
                .hint
                .as_ref()
                .unwrap()
                .contains("runtime install onnxruntime")
        );
        assert_eq!(said[1].what, "2 threads");
        let no_pip = RuntimeError::NoPip {
            program: "python3".into(),
        };
        let said = not_fetched(Some(no_pip), Consent::Given);
        assert!(said.hint.unwrap().contains("python3-pip"));
    }
}
