//! `selfcheck`: what the tool costs on a board, and how small a difference can be seen there.

use std::num::NonZeroU32;

use clap::Args;
use edgedyno_shared::columns::Role;
use edgedyno_shared::device::{BackendInfo, DeviceInfo};
use edgedyno_shared::order::Rules;
use edgedyno_shared::units::Nanos;

use super::run::execute::{self, Begin};
use super::run::inventory::{Inquiry, find_board};
use super::run::prepare::{Model, Prepared, read_model};
use super::{block_on, read, summary};
use crate::board::local;
use crate::cli::Global;
use crate::clock;
use crate::compare::arm::Arm;
use crate::compare::load;
use crate::compare::matching::{Matched, Pair};
use crate::compare::metric::{self, DEFAULT};
use crate::compare::report::{Ask, Comparison, Named};
use crate::compare::rule::Pairing;
use crate::compare::sessions::Sessions;
use crate::drive::{DriveEnd, LeaseWish};
use crate::exit::{CommandError, CommandResult, Exit};
use crate::model::make::{self, Options, Size};
use crate::options::rules::{for_at_least, until_steady};
use crate::plan::plain;
use crate::runtime::cache::Cache;
use crate::selfcheck::{Detours, Sight, Stamps, Timer};
use crate::source::Source;
use crate::stats::quantile;
use crate::store::rows::CaseEntry;
use crate::ui::print;
use crate::ui::selfcheck::{self as text, Report};

const EXAMPLES: &str = "\
examples:
  edgedyno selfcheck                 half a minute on this machine
  edgedyno selfcheck --repeat 10     a surer answer
  edgedyno summary last              what it measured, like any other run";

/// Decides which of two repeats in a row goes to which side.
const COIN: u64 = 0x5e1f;

/// Windows that are long enough for a board to show its ways, and short enough to wait for.
const WINDOW: Nanos = Nanos::from_secs(1);
const WARMUP: Nanos = Nanos::from_secs(1);

/// A network that a small board runs in a few milliseconds.
const NETWORK: (&str, Size) = (
    "conv",
    Size {
        channels: Some(16),
        depth: Some(8),
        image: Some(64),
        width: None,
    },
);

#[derive(Debug, Clone, Args)]
#[command(after_help = EXAMPLES)]
pub struct SelfcheckArgs {
    /// Board to look at
    #[arg(long, value_name = "NAME", default_value = local::NAME)]
    pub board: String,
    /// Pairs of repeats in which one case is held against itself
    #[arg(long, value_name = "N", default_value = "5")]
    pub repeat: NonZeroU32,
    /// Name the run; may be repeated
    #[arg(long = "tag", value_name = "NAME")]
    pub tags: Vec<String>,
    /// Exit with 0 although findings make the result invalid
    #[arg(long)]
    pub force: bool,
}

/// Measures, stores, and says what can be seen here.
pub fn run(args: &SelfcheckArgs, global: &Global) -> CommandResult {
    let board = find_board(&args.board)?;
    let device = block_on(async { Inquiry::open(&board).await?.device().await })?;
    let runtime = runtime(&device)?.clone();
    let prepared = prepare(args, device, &runtime)?;
    print::note(format_args!(
        "{} repeats of `null` and of a small network on {}, about {} s",
        prepared.conduct.repeats,
        runtime.name,
        prepared.conduct.repeats * 3,
    ));
    let how = Begin::New {
        command: "selfcheck",
        tags: &args.tags,
    };
    let (source, end) = execute::execute(&prepared, &how, &LeaseWish::plain(), global)?;
    let cases = source.cases()?;
    let case_of = |backend: &str| cases.iter().find(|entry| entry.case.backend == backend);
    let summaries = read::summaries(&source, &cases)?;
    let stamps = match case_of("null") {
        Some(entry) => stamps(&source, entry)?,
        None => Vec::new(),
    };
    let comparison = case_of(&runtime.name).map(|entry| against_itself(&source, entry));
    let comparison = comparison.transpose()?;
    let null = summaries
        .iter()
        .find(|summary| summary.case.backend == "null");
    let report = Report {
        run: source.run()?.id.0,
        board: args.board.clone(),
        runtime: runtime.name.clone(),
        simulated: runtime.simulated,
        timer: Timer::of(&stamps),
        two_clock_reads_ns: (args.board == local::NAME).then(two_clock_reads).flatten(),
        detours: Detours::of(&stamps),
        stream_ns_per_trial: null.and_then(|summary| {
            let trials = summary.counts.trials;
            let cost = summary.tool.cpu_ns? as f64;
            (trials > 0).then(|| cost / trials as f64)
        }),
        tool_cpu_share: null.and_then(|summary| summary.tool.cpu_share()),
        sight: comparison.as_ref().and_then(Sight::of),
        comparison,
    };
    match global.json {
        true => print::json(&report.to_json()),
        false => print::result(text::text(&report)),
    }
    let interrupted = (end == DriveEnd::Interrupted).then_some(Exit::INTERRUPTED);
    let measured = summary::verdict(&summaries, args.force);
    Ok(Exit::of_all(interrupted.into_iter().chain([measured])))
}

/// What real work runs on: the built-in runtime, or the scripted stand-in where there is none.
fn runtime(device: &DeviceInfo) -> Result<&BackendInfo, CommandError> {
    let built_in = device.backends.iter().find(|b| b.built_in && !b.simulated);
    let fake = || device.backends.iter().find(|b| b.name == "fake");
    built_in.or_else(fake).ok_or_else(|| {
        CommandError::usage("no backend of this board can be checked with")
            .hint("update its agent: `edgedyno-agent` comes with a built-in runtime")
    })
}

fn prepare(
    args: &SelfcheckArgs,
    device: DeviceInfo,
    runtime: &BackendInfo,
) -> Result<Prepared, CommandError> {
    let model = network()?;
    let case = |backend: &str| plain::case(&args.board, &model.reference, backend);
    let rules = Rules {
        warmup: until_steady(WARMUP),
        measure: for_at_least(WINDOW),
    };
    Ok(Prepared {
        board: args.board.clone(),
        device,
        cases: vec![case("null"), case(&runtime.name)],
        conduct: plain::conduct(2 * args.repeat.get(), rules, COIN),
        contents: vec![model.content],
        unpacked: Vec::new(),
        library: None,
        save_outputs: None,
        built_in_note: None,
    })
}

fn network() -> Result<Model, CommandError> {
    let folder = Cache::from_environment()?.models().join("selfcheck");
    std::fs::create_dir_all(&folder).map_err(|why| {
        CommandError::usage(format!("`{}` cannot be made", folder.display()))
            .because(why)
            .hint("EDGEDYNO_CACHE names another folder for models and runtimes")
    })?;
    let path = folder.join(format!("{}.onnx", NETWORK.0));
    let options = Options {
        size: NETWORK.1,
        ..Options::default()
    };
    make::find(NETWORK.0)?.make(&options, &path)?;
    read_model(&path)
}

/// Start and end of every measured trial, repeat by repeat.
fn stamps(source: &Source, entry: &CaseEntry) -> Result<Vec<Stamps>, CommandError> {
    let view = source.view(entry.key)?;
    let mut all = Vec::new();
    for repeat in view.counting() {
        let columns = source.columns(&repeat.row, 0)?;
        let of = |name: &str| columns.column(name);
        let (Some(starts), Some(ends)) = (of("start_ns"), of("end_ns")) else {
            continue;
        };
        let trials = columns.trials_of(Role::Measure);
        all.push(trials.map(|at| (starts[at], ends[at])).unzip());
    }
    Ok(all)
}

/// One case, its repeats dealt out to two sides.
fn against_itself(source: &Source, entry: &CaseEntry) -> Result<Comparison, CommandError> {
    let metrics = vec![metric::find(DEFAULT)?];
    let arms = load::arms(source, std::slice::from_ref(entry), &metrics)?;
    let (a, b) = arms
        .first()
        .map(|arm: &Arm| arm.halves(COIN))
        .ok_or_else(|| CommandError::new(Exit::NOTHING_MEASURED, "the check measured nothing"))?;
    let matched = Matched {
        pairs: vec![Pair {
            a,
            b,
            compared: Vec::new(),
            pairing: Pairing::Interleaved,
            halves: true,
        }],
        ..Matched::default()
    };
    let ask = Ask {
        metrics,
        rule: None,
        min_effect: None,
        allowed: Vec::new(),
        force: false,
    };
    let run = Some(source.run()?.id.0);
    let side = |name: &str| Named {
        name: name.into(),
        run: run.clone(),
    };
    let none = Sessions::default();
    Ok(Comparison::of(
        side("one half"),
        side("the other"),
        matched,
        ask,
        &none,
    ))
}

/// What two reads of this machine's clock cost: the median over blocks of a thousand pairs.
fn two_clock_reads() -> Option<f64> {
    const PAIRS: i64 = 1_000;
    let block = |_| {
        let begin = clock::monotonic_ns();
        for _ in 0..PAIRS {
            std::hint::black_box((clock::monotonic_ns(), clock::monotonic_ns()));
        }
        clock::monotonic_ns() - begin
    };
    let blocks: Vec<i64> = (0..200).map(block).collect();
    Some(quantile::of(&blocks, 0.5)? / PAIRS as f64)
}
