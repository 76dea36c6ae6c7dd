//! `get`: one figure, bare, for scripts.

use clap::Args;

use super::read::{ReadOptions, labels};
use crate::cli::Global;
use crate::documents;
use crate::exit::{CommandResult, Exit};
use crate::fields::{self, Field};
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
        None if global.json => print::json(&crate::summary::to_json(&summaries)),
        None => print::result(list(&summaries)),
    }
    Ok(Exit::GOOD)
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

/// All fields: a column of values for each case.
fn list(summaries: &[CaseSummary]) -> String {
    let mut table = Table::new().text("field").text("unit");
    for summary in summaries {
        table = table.text(&summary.key.to_string()[..8]);
    }
    for field in fields::all() {
        let values = summaries
            .iter()
            .map(|summary| (field.get)(summary).to_string());
        let head = [field.name.to_owned(), field.unit.name().to_owned()];
        table.row(head.into_iter().chain(values));
    }
    table.render()
}
