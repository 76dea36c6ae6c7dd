//! `explain`: what a field or a finding means.

use clap::Args;

use crate::cli::Global;
use crate::documents;
use crate::exit::{CommandResult, Exit};
use crate::fields::{self, Field, SUBJECTS};
use crate::findings::{self, Rule};
use crate::ui::print;
use crate::ui::table::{Table, WIDTH};
use crate::ui::wrap::wrapped;

const EXAMPLES: &str = "\
examples:
  edgedyno explain                 all fields
  edgedyno explain latency_p99_ms  unit, definition and source of one
  edgedyno explain not_steady      what a finding means";

#[derive(Debug, Clone, Args)]
#[command(after_help = EXAMPLES)]
pub struct ExplainArgs {
    /// The field or finding; without it all fields are listed
    pub field: Option<String>,
}

pub fn run(args: &ExplainArgs, global: &Global) -> CommandResult {
    let named = args.field.as_deref();
    if let Some(rule) = named.and_then(|name| findings::rules().find(|rule| rule.code == name)) {
        match global.json {
            true => print::json(&documents::explain_finding(rule)),
            false => print::result(describe_finding(rule)),
        }
        return Ok(Exit::GOOD);
    }
    let field = named.map(fields::find).transpose()?;
    match (field, global.json) {
        (Some(field), true) => print::json(&documents::explain(&[field])),
        (None, true) => print::json(&documents::explain(&fields::all().collect::<Vec<_>>())),
        (Some(field), false) => print::result(describe(field)),
        (None, false) => print::result(list()),
    }
    Ok(Exit::GOOD)
}

fn describe_finding(rule: &Rule) -> String {
    let said = [("level", rule.level.name()), ("meaning", rule.meaning)];
    described(rule.code, &said)
}

fn describe(field: &Field) -> String {
    let said = [
        ("unit", field.unit.name()),
        ("definition", field.definition),
        ("source", field.source),
    ];
    described(field.name, &said)
}

fn described(name: &str, said: &[(&str, &str)]) -> String {
    let lines = said
        .iter()
        .map(|(what, text)| wrapped(&format!("  {what}: {text}"), usize::from(WIDTH), 4));
    let lines: Vec<String> = [name.to_owned()].into_iter().chain(lines).collect();
    lines.join("\n")
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
