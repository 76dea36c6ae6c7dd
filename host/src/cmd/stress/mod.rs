//! `stress`: how much other work on the board slows a model down.

pub(super) mod calibrate;
mod ladder;
mod learn;

use std::collections::BTreeMap;
use std::num::NonZeroU32;
use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use edgedyno_shared::case::Case;
use edgedyno_shared::load::Throttle;
use edgedyno_shared::order::{ColdStart, Rules, WarmupRule};
use edgedyno_shared::units::Nanos;

use super::run::execute::Begin;
use super::run::inventory::{Inquiry, find_board};
use super::sweep::{execute, prepare, show};
use super::{block_on, preflight, read, summary};
use crate::board::local;
use crate::cli::Global;
use crate::contention::limit::Limit;
use crate::contention::read::Found;
use crate::contention::{self, report};
use crate::drive::DriveEnd;
use crate::exit::{CommandError, CommandResult, Exit};
use crate::options::inputs::InputOptions;
use crate::options::limits::LimitOptions;
use crate::options::parse;
use crate::options::placement::PlacementOptions;
use crate::options::rules::{for_at_least, warmup};
use crate::options::runtime::RuntimeOptions;
use crate::options::shapes::ShapeOptions;
use crate::options::telemetry::TelemetryOptions;
use crate::plan::axes::{cpu_list, dims};
use crate::plan::condition::Condition;
use crate::plan::schedule::{Order, Recovery, Sentinel};
use crate::plan::sweep::file::model_name;
use crate::plan::sweep::{Axis, Definition, InputWish, ModelFiles, Tolerance};
use crate::source::{Opened, Source};
use crate::ui::print;
use crate::ui::stress as text;

const EXAMPLES: &str = "\
examples:
  edgedyno stress model.onnx                          idle, spin, and memory load in seven steps
  edgedyno stress model.onnx --slo p99=33ms           how much traffic p99 bears
  edgedyno stress model.onnx --stressor mem_write_nt --levels 50,100 --stress-cpus 2-3
  edgedyno stress model.onnx --worst                  which stressor on which CPUs slows it most
  edgedyno stress a.onnx --condition model:b.onnx@10Hz:cpu0   what two models cost each other
  edgedyno stress model.onnx --gap 0,10ms,100ms,2s    what idle time between trials costs
  edgedyno stress --show last                         a stored experiment again
  edgedyno export last --format contention --output contention.json";

/// Idle repeats at the end of a plan.
const RECOVERY: u32 = 3;

/// Repeats between two looks at the idle board beside those of each round.
const SENTINEL: u32 = 8;

#[derive(Debug, Clone, Args)]
#[command(after_help = EXAMPLES)]
pub struct StressArgs {
    /// The model to run
    #[arg(required_unless_present = "show", conflicts_with = "show")]
    pub model: Option<PathBuf>,
    /// Board to measure on
    #[arg(long, value_name = "NAME", default_value = local::NAME)]
    pub board: String,
    #[command(flatten)]
    pub load: LoadOptions,
    #[command(flatten)]
    pub runtime: RuntimeOptions,
    #[command(flatten)]
    pub shapes: ShapeOptions,
    #[command(flatten)]
    pub inputs: InputOptions,
    #[command(flatten)]
    pub placement: PlacementOptions,
    #[command(flatten)]
    pub rules: StressRules,
    #[command(flatten)]
    pub limits: LimitOptions,
    #[command(flatten)]
    pub telemetry: TelemetryOptions,
    #[command(flatten)]
    pub conduct: StressConduct,
}

/// What disturbs the model.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Load")]
pub struct LoadOptions {
    /// Stressors, each at every level [default: mem_copy_nt,mem_read]
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    pub stressor: Vec<String>,
    /// Conditions of your own instead, such as model:b.onnx@10Hz:cpu0; may be repeated. With --stressor both
    #[arg(long, value_name = "CONDITION", value_parser = Condition::parse, conflicts_with_all = ["worst", "gap"])]
    pub condition: Vec<Condition>,
    /// Values of an option of every model that --condition names, such as its quota of an accelerator: a ladder
    #[arg(long, value_name = "KEY=VALUES", value_parser = parse::pair, requires = "condition")]
    pub tenant_option: Option<(String, String)>,
    /// Levels in percent of what the stressor can do on this board [default: 10,25,40,55,70,85,100]
    #[arg(long, value_name = "PERCENT", value_delimiter = ',', allow_hyphen_values = true, value_parser = level, conflicts_with_all = ["worst", "gap"])]
    pub levels: Vec<f64>,
    /// CPUs of the load; without it all but the model's and one for the agent
    #[arg(long, value_name = "LIST", value_parser = parse::cpus, conflicts_with = "gap")]
    pub stress_cpus: Option<parse::CpuList>,
    /// What a stressor does between two pieces of work [default: spin]
    #[arg(long, value_name = "HOW", conflicts_with_all = ["worst", "gap"])]
    pub throttle: Option<ThrottleChoice>,
    /// Memory that the stressors of a condition go through together, such as 512MiB [default: four times the
    /// caches]
    #[arg(long, value_name = "BYTES", value_parser = parse::bytes, conflicts_with = "gap")]
    pub working_set: Option<edgedyno_shared::units::Bytes>,
    /// How long a load runs before warm-up begins
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = parse::span, conflicts_with = "gap")]
    pub settle: Nanos,
    /// Looks for the stressor and the CPUs that slow the model most, all at full effort
    #[arg(long, conflicts_with_all = ["stressor", "gap"])]
    pub worst: bool,
    /// No load, but idle time between trials: a list such as 0,10ms,100ms,2s
    #[arg(long, value_name = "TIMES", value_delimiter = ',', conflicts_with_all = ["stressor", "slo"])]
    pub gap: Vec<String>,
    /// A limit that every condition is held to, such as p99=33ms; kept with the run
    #[arg(long, value_name = "FIGURE=TIME", value_parser = slo)]
    pub slo: Option<Limit>,
    /// Calibrate again, whatever is stored
    #[arg(long, conflicts_with_all = ["gap", "worst"])]
    pub recalibrate: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum ThrottleChoice {
    /// Keeps its CPU: occupancy is the same at every level
    Spin,
    /// Leaves its CPU, as work that waits does
    Sleep,
}

#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Rules")]
pub struct StressRules {
    /// `steady` (at most 10 s), `steady:2s` (at most 2 s), trials such as 20, a time such as 2s, `none`
    #[arg(long, value_name = "RULE", default_value = "steady:3s", value_parser = warmup)]
    pub warmup: WarmupRule,
    /// Measures this long under each condition, and at least 11 trials
    #[arg(long, value_name = "TIME", default_value = "3s", value_parser = parse::positive_span)]
    pub duration: Nanos,
    /// Rounds: in each, every condition is measured once in a fresh process, in an order of its own
    #[arg(long, value_name = "N", default_value = "5")]
    pub repeat: NonZeroU32,
}

#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Run")]
pub struct StressConduct {
    /// Show a stored experiment again: a run's id, the beginning of it, a tag, or `last`
    #[arg(long, value_name = "RUN")]
    pub show: Option<String>,
    /// Show conditions, order and expected time, and stop there
    #[arg(long)]
    pub dry_run: bool,
    /// Name the run; may be repeated
    #[arg(long = "tag", value_name = "NAME")]
    pub tags: Vec<String>,
    /// Exit with 0 although findings make the result invalid
    #[arg(long)]
    pub force: bool,
}

/// A share of what a stressor can do, in percent.
fn level(text: &str) -> Result<f64, String> {
    let level = text.trim().parse::<f64>();
    let level = level.ok().filter(|level| (0.0..=100.0).contains(level));
    level.ok_or_else(|| "a level is a share from 0 to 100 percent".to_owned())
}

impl LoadOptions {
    /// What says how stressors are to be driven says nothing of conditions, which say so themselves.
    fn check(&self) -> Result<(), CommandError> {
        if self.condition.is_empty() || !self.stressor.is_empty() {
            return Ok(());
        }
        let given = [
            ("--levels", !self.levels.is_empty()),
            ("--throttle", self.throttle.is_some()),
            ("--working-set", self.working_set.is_some()),
            ("--stress-cpus", self.stress_cpus.is_some()),
        ];
        match given.iter().find(|(_, is_given)| *is_given) {
            None => Ok(()),
            Some((option, _)) => {
                let what = format!("{option} says nothing of a --condition");
                Err(CommandError::usage(what).hint(
                    "a condition has its own: mem_read:cpu1@50%/sleep/ws=64MiB; or name a --stressor beside it",
                ))
            }
        }
    }
}

fn slo(text: &str) -> Result<Limit, String> {
    let needed = || "a figure and a time, such as p99=33ms, are needed".to_owned();
    let (name, time) = text.split_once('=').ok_or_else(needed)?;
    let metric = crate::compare::metric::find(name.trim()).map_err(|why| why.hint)?;
    if !report::METRICS.contains(&metric.name) {
        return Err(format!("one of {} is needed", report::METRICS.join(", ")));
    }
    let time = parse::positive_span(time.trim())?;
    Ok(Limit {
        metric: metric.name.to_owned(),
        ns: time.0 as f64,
    })
}

/// Measures, stores, and shows what the load did.
pub fn run(args: &StressArgs, global: &Global) -> CommandResult {
    let Some(model) = &args.model else {
        let name = args.conduct.show.clone().unwrap_or_default();
        let Opened { source, .. } = Source::open(&name, global.store(), &super::here()?)?;
        return outcome(&source, args, global.json);
    };
    args.telemetry.check()?;
    let definition = definition(args, model)?;
    let mut prepared = prepare::prepare(&definition, global)?;
    arrange(&mut prepared, args);
    if let Some(note) = &prepared.note {
        print::note(format_args!("note: {note}"));
    }
    if args.conduct.dry_run {
        show::plan(&prepared, global.json);
        return Ok(Exit::GOOD);
    }
    for (board, device) in &prepared.devices {
        let cases: Vec<Case> = prepared
            .cases
            .iter()
            .map(|planned| planned.case.clone())
            .collect();
        preflight::look(board, device, &cases, &args.telemetry)?;
    }
    calibrate::ensure(&mut prepared, args.load.recalibrate, global)?;
    let how = Begin::New {
        command: "stress",
        tags: &args.conduct.tags,
    };
    let swept = execute::execute(&prepared, &how, global)?;
    learn::memory_controllers(&swept.source, global)?;
    let shown = outcome(&swept.source, args, global.json)?;
    if let Some(failed) = swept.failed {
        return Err(failed);
    }
    let interrupted = (swept.end == DriveEnd::Interrupted).then_some(Exit::INTERRUPTED);
    let quiet = preflight::was_quiet(&swept.source, &args.telemetry)?;
    Ok(Exit::of_all(interrupted.into_iter().chain([shown, quiet])))
}

/// Looks at the idle board often, and once more at the end; keeps what was asked with the plan.
fn arrange(prepared: &mut prepare::Prepared, args: &StressArgs) {
    let is_base = |case: &Case| {
        case.condition.0 == "idle" && case.parameters.iter().all(|(_, value)| value == "0s")
    };
    let base = prepared.cases.iter().find(|planned| is_base(&planned.case));
    if let Some(base) = base {
        prepared.schedule.sentinel = Some(Sentinel {
            case: base.key,
            every: SENTINEL,
        });
        prepared.schedule.recovery = Some(Recovery {
            case: base.key,
            repeats: RECOVERY,
        });
    }
    prepared.schedule.settle = Some(args.load.settle);
    prepared.slo = args.load.slo.clone();
}

fn definition(args: &StressArgs, model: &Path) -> Result<Definition, CommandError> {
    let name = model_name(model)
        .ok_or_else(|| CommandError::usage(format!("`{}` names no file", model.display())))?;
    let mut axes: Vec<Axis> = Vec::new();
    let mut axis = |name: &str, values: Vec<String>| {
        axes.push(Axis {
            name: name.to_owned(),
            values,
            ..Axis::default()
        });
    };
    axis("model", vec![name.clone()]);
    axis("board", vec![args.board.clone()]);
    if let Some(backend) = &args.runtime.backend {
        axis("backend", vec![backend.clone()]);
    }
    if let Some(runtime) = &args.runtime.runtime {
        axis("runtime", vec![runtime.clone()]);
    }
    for (key, value) in args.runtime.sorted()? {
        axis(&format!("option.{key}"), vec![value]);
    }
    axis("io", vec![args.runtime.io().name().to_owned()]);
    axis("threads", vec![args.placement.threads.to_string()]);
    axis(
        "inter_threads",
        vec![args.placement.inter_threads.to_string()],
    );
    for shape in args.shapes.sorted()? {
        axis(&format!("shape.{}", shape.input), vec![dims(&shape.dims)]);
    }
    if let Some(batch) = args.shapes.batch {
        axis("batch", vec![batch.to_string()]);
    }
    let (worker, conditions) = conditions(args)?;
    axis("cpus", vec![cpu_list(&worker)]);
    match args.load.gap.as_slice() {
        [] => axis("condition", conditions),
        gaps => axis("param.gap", gaps_of(gaps)?),
    }
    Ok(Definition {
        name: None,
        folder: PathBuf::new(),
        models: BTreeMap::from([(name, ModelFiles::One(model.to_owned()))]),
        places: BTreeMap::new(),
        axes,
        zip: Vec::new(),
        variants: Vec::new(),
        include: Vec::new(),
        exclude: Vec::new(),
        order: Order::Interleaved,
        seed: 1,
        repeats: args.rules.repeat.get(),
        within: None,
        max_attempts: args.rules.repeat.get(),
        time_budget: None,
        sentinel: None,
        reference: None,
        tolerance: Tolerance::USUAL,
        goal: None,
        rules: Rules {
            warmup: args.rules.warmup.clone(),
            measure: for_at_least(args.rules.duration),
        },
        limits: args.limits.limits(),
        cold: ColdStart::FreshProcess,
        telemetry: args.telemetry.mode(),
        preparation: args.telemetry.preparation(),
        inputs: InputWish {
            files: args.inputs.inputs.clone(),
            policy: args.inputs.input_policy.map(Into::into),
            generator: args.inputs.generator.clone(),
            seed: args.inputs.seed,
        },
    })
}

/// CPUs of the model, and the conditions it is measured under.
fn conditions(args: &StressArgs) -> Result<(Vec<u16>, Vec<String>), CommandError> {
    args.load.check()?;
    let board = find_board(&args.board)?;
    let device = block_on(async { Inquiry::open(&board).await?.device().await })?;
    let list = |list: &Option<parse::CpuList>| list.as_ref().map(|list| list.0.clone());
    if !args.load.gap.is_empty() {
        let worker = list(&args.placement.cpus);
        let threads = args.placement.threads.max(1) as usize;
        let allowed = &device.allowed_cpus;
        let last = || allowed[allowed.len().saturating_sub(threads)..].to_vec();
        return Ok((worker.unwrap_or_else(last), Vec::new()));
    }
    let own = &args.load.condition;
    let named: Vec<u16> = own.iter().flat_map(Condition::cpus).collect();
    let named = (!named.is_empty()).then_some(named);
    let (worker, stress) = ladder::share_cpus(
        &device,
        args.placement.threads,
        list(&args.placement.cpus),
        list(&args.load.stress_cpus).or(named),
    )?;
    let usual = || vec!["mem_copy_nt".to_owned(), "mem_read".to_owned()];
    let wish = ladder::Wish {
        stressors: match args.load.stressor.as_slice() {
            [] if own.is_empty() => usual(),
            named => named.to_vec(),
        },
        levels: match args.load.levels.as_slice() {
            [] => ladder::LEVELS.to_vec(),
            levels => levels.to_vec(),
        },
        cpus: stress,
        throttle: match args.load.throttle {
            None | Some(ThrottleChoice::Spin) => Throttle::Spin,
            Some(ThrottleChoice::Sleep) => Throttle::Sleep,
        },
        working_set: args.load.working_set.map(|bytes| bytes.0),
    };
    let options = args.load.tenant_option.as_ref();
    let own = own.iter().flat_map(|own| ladder::over_option(own, options));
    let own: Vec<Condition> = own.collect();
    let conditions = match (args.load.worst, own.as_slice()) {
        (true, _) => {
            let (conditions, left_out) = ladder::worst(&wish, &device)?;
            if let Some(left_out) = left_out {
                print::note(format_args!("note: {left_out}"));
            }
            conditions
        }
        (false, own) => ladder::with_own(&wish, own)?,
    };
    Ok((worker, conditions))
}

fn gaps_of(gaps: &[String]) -> Result<Vec<String>, CommandError> {
    let one = |text: &String| {
        crate::plan::sweep::axis::canonical("param.gap", text.trim()).map_err(|fault| {
            let why = match fault {
                crate::plan::sweep::axis::Fault::Value(why) => why,
                crate::plan::sweep::axis::Fault::Unknown { hint } => hint,
            };
            CommandError::usage(format!("`{text}` is no gap: {why}"))
                .hint("such as --gap 0,10ms,2s")
        })
    };
    let mut all = gaps.iter().map(one).collect::<Result<Vec<String>, _>>()?;
    if !all.iter().any(|gap| gap == "0s") {
        all.insert(0, "0s".to_owned());
    }
    Ok(all)
}

/// Shows what came out, and says whether it counts.
fn outcome(source: &Source, args: &StressArgs, as_json: bool) -> CommandResult {
    let entries = source.cases()?;
    let found = contention::read::read(source, &entries, args.load.slo.clone())?;
    check_asked(args.load.slo.as_ref(), &found)?;
    let summaries = read::summaries(source, &entries)?;
    match as_json {
        true => print::json(&report::document(&found)),
        false => print::result(text::text(&found, &summaries)),
    }
    let invalid = !found.is_valid();
    let exit = (invalid && !args.conduct.force).then_some(Exit::INVALID);
    let measured = summary::verdict(&summaries, args.conduct.force);
    Ok(Exit::of_all(exit.into_iter().chain([measured])))
}

/// A limit is one of conditions: gaps have none to hold to it.
fn check_asked(asked: Option<&Limit>, found: &Found) -> Result<(), CommandError> {
    if asked.is_none() || !found.experiments.is_empty() || found.gaps.is_empty() {
        return Ok(());
    }
    let what = format!(
        "--slo says nothing of run {}: it has gaps and no load",
        found.run
    );
    Err(CommandError::usage(what).hint("leave it out; a limit holds conditions of a load"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contention::gap::Gaps;
    use crate::contention::testing;

    #[test]
    fn a_limit_is_a_figure_and_a_time() {
        let limit = |metric: &str, ns| {
            Ok(Limit {
                metric: metric.into(),
                ns,
            })
        };
        assert_eq!(slo("p99=33ms"), limit("latency_p99_ms", 33e6));
        assert_eq!(slo("p50 = 2s"), limit("latency_p50_ms", 2e9));
        for wrong in ["p99", "p99=fast", "rate=30", "p99=-1ms"] {
            assert!(slo(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_level_is_a_share_and_nothing_below_it() {
        assert_eq!(level("12.5"), Ok(12.5));
        assert_eq!(level("0"), Ok(0.0));
        for wrong in ["-10", "NaN", "inf", "101", "", "ten"] {
            assert!(level(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn gaps_have_one_form_and_nothing_to_compare_with_is_added() {
        let gaps = |all: &[&str]| gaps_of(&all.iter().map(|g| (*g).to_owned()).collect::<Vec<_>>());
        assert_eq!(gaps(&["10ms", "2s"]).unwrap(), ["0s", "10ms", "2s"]);
        assert_eq!(gaps(&["0", "10ms"]).unwrap(), ["0s", "10ms"]);
        assert!(gaps(&["soon"]).is_err() && gaps(&["10s"]).is_err());
    }

    #[test]
    fn a_limit_is_refused_of_gaps_and_of_nothing_else() {
        let limit = slo("p99=33ms").unwrap();
        let found = |gaps: Vec<Gaps>| Found {
            run: "r".into(),
            incomplete: None,
            slo: None,
            experiments: Vec::new(),
            gaps,
        };
        let gaps = found(vec![testing::gaps()]);
        let refused = check_asked(Some(&limit), &gaps).unwrap_err();
        assert_eq!(refused.exit, Exit::USAGE);
        assert!(refused.what.contains("has gaps and no load"), "{refused:?}");
        assert!(check_asked(None, &gaps).is_ok());
        // Of a run without anything to compare it is said that nothing can tell.
        assert!(check_asked(Some(&limit), &found(Vec::new())).is_ok());
    }
}
