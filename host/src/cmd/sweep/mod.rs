//! `sweep`: many cases from a plan file or from flags, in an order that does not fool.

pub(super) mod execute;
mod finish;
mod flags;
pub(super) mod prepare;
mod record;
pub(super) mod resume;
pub(super) mod show;

use std::path::{Path, PathBuf};

use clap::{Arg, Args, Command};
use edgedyno_shared::case::Case;

use self::flags::PlanFlags;
use super::run::execute::Begin;
use super::stress::calibrate;
use crate::cli::Global;
use crate::cmd::preflight;
use crate::drive::DriveEnd;
use crate::exit::{CommandError, CommandResult, Exit};
use crate::options::lease::LeaseOptions;
use crate::plan::sweep::{Definition, file};
use crate::ui::print;

const EXAMPLES: &str = "\
examples:
  edgedyno sweep model.onnx --axis threads=1,2,4
  edgedyno sweep model.onnx --axis backend=rten,onnxruntime --axis batch=1,4 --duration 2s
  edgedyno sweep plan.toml --dry-run
  edgedyno sweep plan.toml
  edgedyno sweep --resume last

a plan file:
  repeats = 5
  [axes]
  model = \"model.onnx\"
  backend = [\"rten\", \"onnxruntime\"]
  threads = [1, 2, 4]
  [rules]
  duration = \"2s\"";

#[derive(Debug, Clone, Args)]
#[command(after_help = EXAMPLES)]
pub struct SweepArgs {
    /// A plan file (.toml), or models to sweep over the axes that flags give
    #[arg(
        value_name = "PLAN.toml|MODEL",
        required_unless_present = "resume",
        conflicts_with = "resume"
    )]
    pub what: Vec<PathBuf>,
    #[command(flatten)]
    pub plan: PlanFlags,
    #[command(flatten)]
    pub conduct: ConductOptions,
    #[command(flatten)]
    pub lease: LeaseOptions,
}

#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Run")]
pub struct ConductOptions {
    /// Go on with an unfinished sweep: its id, the beginning of it, a tag, or `last`
    #[arg(long, value_name = "RUN")]
    pub resume: Option<String>,
    /// Show cases, order and expected time, and stop there
    #[arg(long)]
    pub dry_run: bool,
    /// Name the run; may be repeated
    #[arg(long = "tag", value_name = "NAME", conflicts_with = "resume")]
    pub tags: Vec<String>,
    /// Exit with 0 although findings make a result invalid
    #[arg(long)]
    pub force: bool,
}

/// Measures every case, stores, and shows what came out.
pub fn run(args: &SweepArgs, global: &Global) -> CommandResult {
    args.plan.telemetry.check()?;
    let options = &args.conduct;
    let (mut prepared, resumed) = match &options.resume {
        Some(name) => {
            refuse_flags("the plan of the sweep that is resumed decides")?;
            let (prepared, run) = resume::resume(name, global)?;
            (prepared, Some(run))
        }
        None => (prepare::prepare(&definition(args)?, global)?, None),
    };
    prepared.lease = args.lease;
    if let Some(note) = &prepared.note {
        print::note(format_args!("note: {note}"));
    }
    if options.dry_run {
        show::plan(&prepared, global.json);
        return Ok(Exit::GOOD);
    }
    let how = match resumed {
        Some(run) => Begin::Resume(run),
        None => {
            calibrate::ensure(&mut prepared, false, global)?;
            notice(&prepared, global)?;
            for (board, device) in &prepared.devices {
                let planned = prepared.cases.iter().map(|planned| &planned.case);
                let cases = planned.filter(|case| case.board == *board).cloned();
                let cases: Vec<Case> = cases.collect();
                preflight::look(board, device, &cases, &args.plan.telemetry)?;
            }
            Begin::New {
                command: "sweep",
                tags: &options.tags,
            }
        }
    };
    let swept = execute::execute(&prepared, &how, global)?;
    let shown = show::outcome(&swept, &prepared, options.force, global.json)?;
    if let Some(failed) = swept.failed {
        return Err(failed);
    }
    show::how_to_go_on(&swept)?;
    let interrupted = (swept.end == DriveEnd::Interrupted).then_some(Exit::INTERRUPTED);
    let quiet = preflight::was_quiet(&swept.source, &args.plan.telemetry)?;
    Ok(Exit::of_all(interrupted.into_iter().chain([shown, quiet])))
}

/// What the command line asks for: a file, or models and flags.
fn definition(args: &SweepArgs) -> Result<Definition, CommandError> {
    let is_plan = |path: &Path| path.extension().is_some_and(|ending| ending == "toml");
    match args.what.as_slice() {
        [plan] if is_plan(plan) => {
            refuse_flags("a plan file decides all of it")?;
            file::read(plan)
        }
        models if models.iter().any(|path| is_plan(path)) => Err(CommandError::usage(
            "a plan file is given together with something else",
        )
        .hint("name one plan file, or models and --axis")),
        models => args.plan.definition(models),
    }
}

/// Flags that would be ignored are refused, also where they say what is usual.
fn refuse_flags(why: &str) -> Result<(), CommandError> {
    let planning = PlanFlags::augment_args(Command::new("sweep"));
    let names: Vec<&str> = planning.get_arguments().filter_map(Arg::get_long).collect();
    let words = std::env::args_os().skip(1);
    let given = words.filter_map(|word| {
        let word = word.to_string_lossy().into_owned();
        let (name, _) = word.split_once('=').unwrap_or((&word, ""));
        let name = name.strip_prefix("--")?;
        names.contains(&name).then(|| format!("--{name}"))
    });
    let given: Vec<String> = given.collect();
    if given.is_empty() {
        return Ok(());
    }
    let what = format!("{} beside a plan would plan it twice", given.join(" and "));
    Err(CommandError::usage(what)
        .cause(why)
        .hint("change the plan file, or leave it out and give models and flags"))
}

/// Says that the same sweep was begun before and not ended.
fn notice(prepared: &prepare::Prepared, global: &Global) -> Result<(), CommandError> {
    if let Some((run, attempts)) = resume::unfinished(prepared, global)? {
        print::note(format_args!(
            "note: sweep {run} of this plan is unfinished, with {attempts} attempts stored; \
             `edgedyno sweep --resume {run}` goes on with it"
        ));
    }
    Ok(())
}
