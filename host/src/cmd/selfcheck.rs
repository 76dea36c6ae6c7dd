//! `selfcheck`: what the tool costs on a board, and how small a difference can be seen there.

use std::collections::BTreeMap;
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
use crate::compare::arm::{Arm, ArmRepeat};
use crate::compare::matching::{Matched, Pair};
use crate::compare::metric::{self, DEFAULT};
use crate::compare::report::{Ask, Comparison, Named};
use crate::compare::rule::Pairing;
use crate::compare::sessions::Sessions;
use crate::drive::DriveEnd;
use crate::exit::{CommandError, CommandResult, Exit};
use crate::model::make::{self, Options, Size};
use crate::options::lease::LeaseOptions;
use crate::options::rules::{for_at_least, until_steady};
use crate::plan::axes::case_key;
use crate::plan::check;
use crate::plan::plain;
use crate::plan::schedule::Schedule;
use crate::runtime::cache::Cache;
use crate::selfcheck::{self, Detours, Perturbation, ROUND, Round, Sight, Stamps, Timer, Turn};
use crate::source::Source;
use crate::stats::quantile;
use crate::store::rows::CaseEntry;
use crate::ui::print;
use crate::ui::selfcheck::{self as text, Report};
use crate::view::CaseView;

const EXAMPLES: &str = "\
examples:
  edgedyno selfcheck                 a minute on this machine
  edgedyno selfcheck --repeat 10     a surer answer
  edgedyno summary last              what it measured, like any other run";

/// Decides what each repeat of a round is for.
const COIN: u64 = 0x5e1f;

/// The channel of the thread that watches.
const SAMPLER: &str = "sampler.cpu";

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
    /// Rounds in which a small network is held against itself, and the board watched against not watched
    #[arg(long, value_name = "N", default_value = "5")]
    pub repeat: NonZeroU32,
    /// Name the run; may be repeated
    #[arg(long = "tag", value_name = "NAME")]
    pub tags: Vec<String>,
    /// Exit with 0 although findings make the result invalid
    #[arg(long)]
    pub force: bool,
    #[command(flatten)]
    pub lease: LeaseOptions,
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
        prepared.conduct.repeats * 4,
    ));
    let how = Begin::New {
        command: "selfcheck",
        tags: &args.tags,
    };
    let (source, end) = execute::execute(&prepared, &how, &args.lease.wish(), global)?;
    let cases = source.cases()?;
    let case_of = |backend: &str| cases.iter().find(|entry| entry.case.backend == backend);
    let summaries = read::summaries(&source, &cases)?;
    let stamps = match case_of("null") {
        Some(entry) => stamps(&source, entry)?,
        None => Vec::new(),
    };
    let network = case_of(&runtime.name).map(|entry| source.view(entry.key));
    let network = network.transpose()?;
    let comparison = network.as_ref().map(|view| against_itself(view, args));
    let comparison = comparison.transpose()?;
    let summary_of = |backend: &str| summaries.iter().find(|s| s.case.backend == backend);
    let null = summary_of("null");
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
        allocator_calls: null.and_then(|summary| summary.tool.allocator_calls),
        system_calls: null.and_then(|summary| summary.tool.system_calls),
        perturbation: network.as_ref().and_then(|view| perturbation(view, args)),
        sampler_cpu_share: summary_of(&runtime.name).and_then(|s| s.board.sampler_share),
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
    check::repeats(2, ROUND.saturating_mul(args.repeat.get()))?;
    let model = network()?;
    let case = |backend: &str| plain::case(&args.board, &model.reference, backend);
    let rules = Rules {
        warmup: until_steady(WARMUP),
        measure: for_at_least(WINDOW),
    };
    let network = case(&runtime.name);
    let key = case_key(&network);
    let unwatched = (0..).zip(turns(args));
    let unwatched = unwatched.filter(|(_, turn)| *turn == Turn::Unwatched);
    Ok(Prepared {
        board: args.board.clone(),
        device,
        schedule: Schedule {
            unwatched: unwatched.map(|(repeat, _)| (key, repeat)).collect(),
            ..Schedule::default()
        },
        cases: vec![case("null"), network],
        conduct: plain::conduct(ROUND.saturating_mul(args.repeat.get()), rules, COIN),
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

/// What each repeat of the network is for.
fn turns(args: &SelfcheckArgs) -> Vec<Turn> {
    selfcheck::turns(args.repeat.get(), COIN)
}

/// The network with the board watched, against itself: its repeats dealt out to two sides.
fn against_itself(view: &CaseView, args: &SelfcheckArgs) -> Result<Comparison, CommandError> {
    let metrics = vec![metric::find(DEFAULT)?];
    let whole = Arm::of(view, &metrics);
    let turns = turns(args);
    let arm = |wanted: Turn| {
        let is_meant = |repeat: &ArmRepeat| turns.get(repeat.repeat as usize) == Some(&wanted);
        let repeats = whole.repeats.iter().filter(|repeat| is_meant(repeat));
        Arm {
            repeats: repeats
                .map(|repeat| ArmRepeat {
                    repeat: repeat.repeat / ROUND,
                    ..repeat.clone()
                })
                .collect(),
            ..whole.clone()
        }
    };
    let matched = Matched {
        pairs: vec![Pair {
            a: arm(Turn::First),
            b: arm(Turn::Second),
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
    let run = Some(view.run.id.0.clone());
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

/// Rounds of which all three repeats came through, each watched or not as it was meant to be.
fn perturbation(view: &CaseView, args: &SelfcheckArgs) -> Option<Perturbation> {
    let turns = turns(args);
    let mut rounds: BTreeMap<u32, [Option<f64>; ROUND as usize]> = BTreeMap::new();
    for repeat in view.counting() {
        let number = repeat.row.key.repeat;
        let turn = *turns.get(number as usize)?;
        // What was asked for is not what happened: the thread that watches tells of itself.
        let was_watched = repeat
            .telemetry
            .iter()
            .any(|channel| channel.channel.name == SAMPLER);
        if was_watched == (turn == Turn::Unwatched) {
            continue;
        }
        rounds.entry(number / ROUND).or_default()[turn as usize] =
            quantile::of(&repeat.trials.measured, 0.5);
    }
    let whole = rounds.into_values().filter_map(|round| {
        let [first, second, unwatched] = round;
        Some(Round {
            watched: [first?, second?],
            unwatched: unwatched?,
        })
    });
    Perturbation::of(&whole.collect::<Vec<_>>())
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
