//! `summary`: what a run came to.

use clap::Args;
use edgedyno_shared::ids::RunId;

use super::open_for_reading;
use super::pick::{CaseOption, Picked};
use crate::cli::Global;
use crate::exit::{CommandError, CommandResult, Exit};
use crate::findings::Level;
use crate::store::Store;
use crate::summary::{CaseSummary, summarise, to_json};
use crate::ui::{cases, print, summary as text};
use crate::view::CaseView;

const EXAMPLES: &str = "\
examples:
  edgedyno summary last
  edgedyno summary before-upgrade --case threads=2
  edgedyno summary 7k2m9x0abc/3f2a --json";

#[derive(Debug, Clone, Args)]
#[command(after_help = EXAMPLES)]
pub struct SummaryArgs {
    /// The run: its id, the beginning of it, a tag, or `last`; RUN/CASE for one case of it
    pub run: String,
    #[command(flatten)]
    pub case: CaseOption,
    /// Withhold percentiles that have too few samples
    #[arg(long)]
    pub strict: bool,
    /// Exit with 0 although findings make the result invalid
    #[arg(long)]
    pub force: bool,
}

pub fn run(args: &SummaryArgs, global: &Global) -> CommandResult {
    let store = open_for_reading(global)?;
    let picked = Picked::find(&store, &args.run, &args.case)?;
    let summaries = read(&store, &picked)?;
    print_all(&summaries, args.strict, global.json);
    Ok(pardon(verdict(&summaries), args.force))
}

/// Shows a run that has just been measured.
pub(super) fn show(store: &Store, run: &RunId, strict: bool, json: bool) -> CommandResult {
    let picked = Picked {
        run: run.clone(),
        cases: store.cases(run)?,
    };
    let summaries = read(store, &picked)?;
    print_all(&summaries, strict, json);
    Ok(verdict(&summaries))
}

/// Reads and summarises the cases picked.
pub(super) fn read(store: &Store, picked: &Picked) -> Result<Vec<CaseSummary>, CommandError> {
    let cases = picked.cases.iter();
    let summaries = cases.map(|entry| {
        let view = CaseView::read(store, &picked.run, entry.key)?;
        Ok(summarise(&view))
    });
    summaries.collect()
}

fn print_all(summaries: &[CaseSummary], strict: bool, json: bool) {
    match summaries {
        _ if json => print::json(&to_json(summaries)),
        [one] => print::result(text::text(one, strict)),
        several => print::result(cases::text(several)),
    }
}

/// What the rows of these cases come to.
pub(super) fn verdict(summaries: &[CaseSummary]) -> Exit {
    let measured = summaries.iter().filter(|s| s.latency.is_some()).count();
    let invalid = |s: &CaseSummary| s.findings.iter().any(|f| f.level == Level::Invalid);
    let mut codes = Vec::new();
    if measured == 0 {
        codes.push(Exit::NOTHING_MEASURED);
    } else if measured < summaries.len() {
        codes.push(Exit::SOME_FAILED);
    }
    if summaries.iter().any(invalid) {
        codes.push(Exit::INVALID);
    }
    Exit::of_all(codes)
}

/// `--force` makes an invalid result good; nothing else.
pub(super) fn pardon(exit: Exit, force: bool) -> Exit {
    match (exit, force) {
        (Exit::INVALID, true) => Exit::GOOD,
        (other, _) => other,
    }
}
