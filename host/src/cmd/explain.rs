//! `explain`: what a field means.

use clap::Args;

use crate::cli::Global;
use crate::documents;
use crate::exit::{CommandResult, Exit};
use crate::fields::{self, Field, SUBJECTS};
use crate::ui::{print, table::Table};

const EXAMPLES: &str = "\
examples:
  edgedyno explain                 all fields
  edgedyno explain latency_p99_ms  unit, definition and source of one";

#[derive(Debug, Clone, Args)]
#[command(after_help = EXAMPLES)]
pub struct ExplainArgs {
    /// The field; without it all are listed
    pub field: Option<String>,
}

pub fn run(args: &ExplainArgs, global: &Global) -> CommandResult {
    let field = args.field.as_deref().map(fields::find).transpose()?;
    match (field, global.json) {
        (Some(field), true) => print::json(&documents::explain(&[field])),
        (None, true) => print::json(&documents::explain(&fields::all().collect::<Vec<_>>())),
        (Some(field), false) => print::result(describe(field)),
        (None, false) => print::result(list()),
    }
    Ok(Exit::GOOD)
}

fn describe(field: &Field) -> String {
    format!(
        "{}\n  unit: {}\n  definition: {}\n  source: {}",
        field.name,
        field.unit.name(),
        field.definition,
        field.source
    )
}

fn list() -> String {
    let sections = SUBJECTS.iter().map(|subject| {
        let mut table = Table::new().text(subject.title).text("unit").text("");
        for field in subject.fields {
            table.row([field.name, field.unit.name(), field.definition]);
        }
        table.render()
    });
    sections.collect::<Vec<_>>().join("\n\n")
}
