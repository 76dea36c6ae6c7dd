//! `get`: one figure, bare, for scripts.

use clap::Args;

use super::read::{ReadOptions, labels};
use crate::cli::Global;
use crate::documents;
use crate::exit::{CommandResult, Exit};
use crate::fields::{self, Field, Value};
use crate::summary::CaseSummary;
use crate::ui::{print, table::Table};

const EXAMPLES: &str = "\
examples:
  edgedyno get last                  fields and their values
  edgedyno get last latency_p50_ms   one bare value
  edgedyno get last/3f2a rss_peak_bytes --json";

#[derive(Debug, Clone, Args)]
#[command(after_help = EXAMPLES)]
pub struct GetArgs {
    #[command(flatten)]
    pub read: ReadOptions,
    /// The field; without it all fields are listed
    pub field: Option<String>,
}

pub fn run(args: &GetArgs, global: &Global) -> CommandResult {
    // An unknown field is an error before anything is read.
    let field = args.field.as_deref().map(fields::find).transpose()?;
    let picked = args.read.open(global)?;
    let summaries = picked.summaries()?;
    let run = picked.source.run()?.id;
    match field {
        Some(field) if global.json => print::json(&documents::get(&run, field, &summaries)),
        Some(field) => {
            let labels = labels(&picked.cases);
            print_values(field, &summaries, |key| labels.get(key).cloned());
        }
        None if global.json => print::json(&documents::get_all(&run, &summaries)),
        None => print::result(list(&summaries)),
    }
    field.map_or(Ok(Exit::GOOD), |field| Ok(verdict(field, &summaries)))
}

/// A figure that nobody measured is no good end for a script; one with too few trials is said to be so.
fn verdict(field: &Field, summaries: &[CaseSummary]) -> Exit {
    let unknown = |s: &CaseSummary| matches!((field.get)(s), Value::Unknown);
    if summaries.iter().all(|s| unknown(s) && s.latency.is_none()) {
        return Exit::NOTHING_MEASURED;
    }
    let enough = field
        .name
        .strip_suffix("_ms")
        .map(|name| format!("{name}_enough"));
    let enough = enough.and_then(|name| fields::find(&name).ok());
    let few = |s: &CaseSummary| {
        enough.is_some_and(|enough| matches!((enough.get)(s), Value::Flag(false)))
    };
    for summary in summaries.iter().filter(|s| few(s)) {
        let key = &summary.key.to_string()[..8];
        print::note(format_args!(
            "note: case {key} has too few independent trials to claim {}",
            field.name
        ));
    }
    Exit::GOOD
}

/// The bare value of one case; several each behind their label.
fn print_values(field: &Field, summaries: &[CaseSummary], label: impl Fn(&str) -> Option<String>) {
    let several = summaries.len() > 1;
    for summary in summaries {
        let value = (field.get)(summary);
        let key = summary.key.to_string();
        match several {
            true => {
                let label = label(&key[..8]).unwrap_or_else(|| key[..8].to_owned());
                print::result(format_args!("{label}\t{value}"));
            }
            false => print::result(value),
        }
    }
}

/// All fields, a table for each case.
fn list(summaries: &[CaseSummary]) -> String {
    let tables: Vec<String> = summaries.iter().map(list_one).collect();
    tables.join("\n\n")
}

fn list_one(summary: &CaseSummary) -> String {
    let case = format!("case {}", &summary.key.to_string()[..8]);
    let mut table = Table::new().text("field").text("unit").text(&case);
    for field in fields::all() {
        let value = (field.get)(summary).to_string();
        table.row([field.name, field.unit.name(), value.as_str()]);
    }
    table.render()
}
