//! `run`: measure a model.

pub(super) mod execute;
pub(super) mod inventory;
mod outputs;
pub(super) mod prepare;
mod record;
pub(super) mod resume;

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use edgedyno_shared::units::Nanos;

use self::execute::Begin;
use crate::cli::Global;
use crate::cmd::{preflight, summary};
use crate::drive::DriveEnd;
use crate::exit::{CommandResult, Exit};
use crate::options::inputs::InputOptions;
use crate::options::lease::LeaseOptions;
use crate::options::limits::LimitOptions;
use crate::options::parse;
use crate::options::placement::PlacementOptions;
use crate::options::rules::RuleOptions;
use crate::options::runtime::RuntimeOptions;
use crate::options::shapes::ShapeOptions;
use crate::options::telemetry::TelemetryOptions;
use crate::plan::condition::Condition;
use crate::source::Source;
use crate::ui::print;

const EXAMPLES: &str = "\
examples:
  edgedyno run model.onnx
  edgedyno run model.onnx --threads 2 --duration 10s --repeat 5
  edgedyno run model.onnx --backend onnxruntime --runtime 1.22 --option session.use_env_allocators=1
  edgedyno run model.onnx --shape images=1x3x640x640 --input images=photos/ --tag before-upgrade
  edgedyno run a.onnx --cpus 2 --condition model:b.onnx@10Hz:cpu3   two models on one board
  edgedyno run model.onnx --soak 30m --idle-power 10s
  edgedyno run --resume last";

#[derive(Debug, Clone, Args)]
#[command(after_help = EXAMPLES)]
pub struct RunArgs {
    /// The model file
    #[arg(required_unless_present = "resume", conflicts_with = "resume")]
    pub model: Option<PathBuf>,
    /// Board to measure on
    #[arg(long, value_name = "NAME", default_value = crate::board::local::NAME)]
    pub board: String,
    #[command(flatten)]
    pub runtime: RuntimeOptions,
    #[command(flatten)]
    pub placement: PlacementOptions,
    #[command(flatten)]
    pub shapes: ShapeOptions,
    #[command(flatten)]
    pub inputs: InputOptions,
    #[command(flatten)]
    pub rules: RuleOptions,
    /// One long window instead, watched until the board has recovered: first minute, sustained rate, when
    /// it was held back, latency against heat
    #[arg(long, value_name = "TIME", value_parser = parse::positive_span, help_heading = "Rules",
          conflicts_with_all = ["trials", "duration", "repeat", "warmup", "no_telemetry"])]
    pub soak: Option<Nanos>,
    /// How work arrives
    #[arg(long, value_name = "NAME", default_value = "single")]
    pub scenario: String,
    /// What else the board does meanwhile, such as mem_read:cpu1@2GB/s or model:b.onnx@10Hz:cpu1
    #[arg(long, value_name = "CONDITION", default_value = "idle", value_parser = Condition::parse)]
    pub condition: Condition,
    /// What is emptied before each repeat, so that cold is cold
    #[arg(long, value_name = "WHAT")]
    pub cold: Option<ColdChoice>,
    #[command(flatten)]
    pub limits: LimitOptions,
    /// Keep the outputs of the last trial as .npy files in this folder
    #[arg(long, value_name = "DIR", help_heading = "Outputs")]
    pub save_outputs: Option<PathBuf>,
    /// Compare the outputs with the tensors of this folder, named after the outputs
    #[arg(long, value_name = "DIR", help_heading = "Outputs")]
    pub reference: Option<PathBuf>,
    #[command(flatten)]
    pub telemetry: TelemetryOptions,
    #[command(flatten)]
    pub conduct: ConductOptions,
    #[command(flatten)]
    pub lease: LeaseOptions,
}

/// What makes a plan, and would be ignored where there is one. Each flattened struct is a group.
const PLANNING: [&str; 15] = [
    "model",
    "board",
    "RuntimeOptions",
    "PlacementOptions",
    "ShapeOptions",
    "InputOptions",
    "RuleOptions",
    "soak",
    "scenario",
    "condition",
    "cold",
    "LimitOptions",
    "save_outputs",
    "reference",
    "TelemetryOptions",
];

#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Run")]
pub struct ConductOptions {
    /// Go on with an unfinished run by its plan: its id, the beginning of it, a tag, or `last`
    #[arg(long, value_name = "RUN", conflicts_with_all = PLANNING)]
    pub resume: Option<String>,
    /// Show what would be measured, and stop there
    #[arg(long)]
    pub dry_run: bool,
    /// Name the run; may be repeated
    #[arg(long = "tag", value_name = "NAME", conflicts_with = "resume")]
    pub tags: Vec<String>,
    /// Withhold percentiles that have too few samples
    #[arg(long)]
    pub strict: bool,
    /// Exit with 0 although findings make the result invalid
    #[arg(long)]
    pub force: bool,
    /// Answer yes to what would be asked
    #[arg(long)]
    pub yes: bool,
    /// Download nothing
    #[arg(long)]
    pub offline: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum ColdChoice {
    /// Cached pages of model and library
    PageCache,
}

/// Measures, stores, and shows what came out.
pub fn run(args: &RunArgs, global: &Global) -> CommandResult {
    args.telemetry.check()?;
    let options = &args.conduct;
    let (prepared, resumed) = match &options.resume {
        Some(run) => {
            let (prepared, run) = resume::resume(run, global)?;
            (prepared, Some(run))
        }
        None => (prepare::prepare(args, global)?, None),
    };
    if let Some(note) = &prepared.built_in_note {
        print::note(format_args!("note: {note}"));
    }
    if options.dry_run {
        record::show_plan(&prepared, global.json);
        return Ok(Exit::GOOD);
    }
    if resumed.is_none() {
        let (board, device) = (&prepared.board, &prepared.device);
        preflight::look(board, device, &prepared.cases, &args.telemetry)?;
    }
    let how = match resumed {
        Some(run) => Begin::Resume(run),
        None => Begin::New {
            command: "run",
            tags: &options.tags,
        },
    };
    let (source, end) = execute::execute(&prepared, &how, &args.lease.wish(), global)?;
    let shown = summary::show(&source, options.strict, options.force, global.json)?;
    if let (Some(folder), Source::Stored { store, run }) = (&prepared.save_outputs, &source) {
        outputs::save(store, run, folder)?;
    }
    if end == DriveEnd::Interrupted {
        let run = &source.run()?.id;
        print::note(format_args!("go on with `edgedyno run --resume {run}`"));
    }
    let quiet = preflight::was_quiet(&source, &args.telemetry)?;
    let interrupted = (end == DriveEnd::Interrupted).then_some(Exit::INTERRUPTED);
    Ok(Exit::of_all(interrupted.into_iter().chain([shown, quiet])))
}
