//! `summary`: what a run came to.

use clap::Args;

use super::read::{self, ReadOptions};
use crate::cli::Global;
use crate::exit::{CommandResult, Exit};
use crate::findings::Level;
use crate::source::Source;
use crate::summary::{CaseSummary, to_json, withheld};
use crate::ui::summary::{self as text, Wish};
use crate::ui::{cases, findings, print};

const EXAMPLES: &str = "\
examples:
  edgedyno summary last
  edgedyno summary before-upgrade --case threads=2
  edgedyno summary last --findings
  edgedyno summary 7k2m9x0abc/3f2a --json
  edgedyno summary profile.json";

#[derive(Debug, Clone, Args)]
#[command(after_help = EXAMPLES)]
pub struct SummaryArgs {
    #[command(flatten)]
    pub read: ReadOptions,
    /// Withhold percentiles that have too few samples
    #[arg(long)]
    pub strict: bool,
    /// Tell every finding, those of one kind too, and of several cases theirs
    #[arg(long)]
    pub findings: bool,
    /// Exit with 0 although findings make the result invalid
    #[arg(long)]
    pub force: bool,
}

pub fn run(args: &SummaryArgs, global: &Global) -> CommandResult {
    let picked = args.read.open(global)?;
    let summaries = picked.summaries()?;
    let wish = Wish {
        strict: args.strict,
        every_finding: args.findings,
    };
    print_all(&summaries, wish, global.json);
    if !global.json
        && let Some(limit) = read::limit(&picked.source)?
    {
        print::result(format_args!("\n{limit}"));
    }
    Ok(verdict(&summaries, args.force))
}

/// Shows a run that has just been measured.
pub(super) fn show(source: &Source, strict: bool, force: bool, json: bool) -> CommandResult {
    let summaries = read::summaries(source, &source.cases()?)?;
    let wish = Wish {
        strict,
        ..Wish::default()
    };
    print_all(&summaries, wish, json);
    Ok(verdict(&summaries, force))
}

fn print_all(summaries: &[CaseSummary], wish: Wish, json: bool) {
    match summaries {
        _ if json && wish.strict => print::json(&withheld(to_json(summaries))),
        _ if json => print::json(&to_json(summaries)),
        [one] => print::result(text::text(one, wish)),
        several => {
            print::result(cases::text(several));
            if wish.every_finding
                && let Some(told) = findings::of_cases(several)
            {
                print::result(format_args!("\n{told}"));
            }
        }
    }
}

/// What the rows of these cases come to. `force` makes an invalid result good; a failed case stays failed.
pub(super) fn verdict(summaries: &[CaseSummary], force: bool) -> Exit {
    let measured = summaries.iter().filter(|s| s.latency.is_some()).count();
    let invalid = |s: &CaseSummary| s.findings.iter().any(|f| f.level == Level::Invalid);
    let mut codes = Vec::new();
    if measured == 0 {
        codes.push(Exit::NOTHING_MEASURED);
    } else if summaries.iter().any(has_only_failures) {
        codes.push(Exit::SOME_FAILED);
    }
    if !force && summaries.iter().any(invalid) {
        codes.push(Exit::INVALID);
    }
    Exit::of_all(codes)
}

/// A case that was never tried has not failed.
fn has_only_failures(summary: &CaseSummary) -> bool {
    summary.latency.is_none() && summary.counts.attempts > 0
}
