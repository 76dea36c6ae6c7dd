//! `rerun`: the plan of a stored run again, later or on another board.

use clap::Args;

use super::open_for_reading;
use super::run::execute::Begin;
use super::stress::calibrate;
use super::sweep::{execute, prepare::Prepared, resume, show};
use crate::cli::Global;
use crate::drive::DriveEnd;
use crate::exit::{CommandResult, Exit};
use crate::options::lease::LeaseOptions;
use crate::ui::print;

const EXAMPLES: &str = "\
examples:
  edgedyno rerun last
  edgedyno rerun before-upgrade --tag after-upgrade
  edgedyno rerun last --board local --dry-run";

#[derive(Debug, Clone, Args)]
#[command(after_help = EXAMPLES)]
pub struct RerunArgs {
    /// The run whose plan is measured again: its id, the beginning of it, a tag, or `last`
    pub run: String,
    /// Measure on this board instead
    #[arg(long, value_name = "NAME")]
    pub board: Option<String>,
    /// Show cases, order and expected time, and stop there
    #[arg(long)]
    pub dry_run: bool,
    /// Name the new run; may be repeated
    #[arg(long = "tag", value_name = "NAME")]
    pub tags: Vec<String>,
    /// Exit with 0 although findings make a result invalid
    #[arg(long)]
    pub force: bool,
    #[command(flatten)]
    pub lease: LeaseOptions,
}

/// Measures, stores as a run of its own, and shows what came out.
pub fn run(args: &RerunArgs, global: &Global) -> CommandResult {
    let mut prepared = again(args, global)?;
    prepared.lease = args.lease;
    if args.dry_run {
        show::plan(&prepared, global.json);
        return Ok(Exit::GOOD);
    }
    calibrate::ensure(&mut prepared, false, global)?;
    let how = Begin::New {
        command: "rerun",
        tags: &args.tags,
    };
    let swept = execute::execute(&prepared, &how, global)?;
    let shown = show::outcome(&swept, &prepared, args.force, global.json)?;
    if let Some(failed) = swept.failed {
        return Err(failed);
    }
    show::how_to_go_on(&swept)?;
    let interrupted = (swept.end == DriveEnd::Interrupted).then_some(Exit::INTERRUPTED);
    Ok(Exit::of_all(interrupted.into_iter().chain([shown])))
}

fn again(args: &RerunArgs, global: &Global) -> Result<Prepared, crate::exit::CommandError> {
    let store = open_for_reading(global)?;
    let run = store.run(&store.resolve(&args.run)?)?;
    let mut prepared = resume::recall(&store, &run, args.board.as_deref())?;
    if prepared.name.is_none() {
        prepared.name = Some(format!("again: {}", run.id));
    }
    print::note(format_args!("measuring the plan of run {} again", run.id));
    Ok(prepared)
}
