//! `query`: a question in SQL.

use clap::Args;
use serde_json::{Value, json};

use super::{open_for_reading, read};
use crate::cli::Global;
use crate::exit::{CommandError, CommandResult, Exit};
use crate::fields;
use crate::source::Source;
use crate::store::query::{Answer, Cell, WorkedOut};
use crate::store::{Store, StoreError};
use crate::ui::print;
use crate::ui::table::Table;
use crate::ui::units::UNKNOWN;

const EXAMPLES: &str = "\
examples:
  edgedyno query \"select run, command, tags from runs\"
  edgedyno query \"select case_key, outcome, count(*) from repeats group by 1, 2\" --csv
  edgedyno query --run last \"select * from figures where field = 'latency_p50_ms'\"

views: runs, cases, repeats, findings, figures; docs/query.md describes their columns";

#[derive(Debug, Clone, Args)]
#[command(after_help = EXAMPLES)]
pub struct QueryArgs {
    /// One SELECT
    #[arg(value_name = "SQL")]
    pub question: String,
    /// Runs whose figures and findings are asked for; may be repeated [default: last]
    #[arg(long = "run", value_name = "RUN")]
    pub runs: Vec<String>,
    /// Print commas between values instead of a table
    #[arg(long, conflicts_with = "json")]
    pub csv: bool,
}

pub fn run(args: &QueryArgs, global: &Global) -> CommandResult {
    let store = open_for_reading(global)?;
    let question = args.question.to_ascii_lowercase();
    let wants = |name: &str| question.contains(name);
    let beside = match wants("figures") || wants("findings") {
        true => worked_out(&store, &args.runs)?,
        false => WorkedOut::default(),
    };
    let answer = store.query(&args.question, &beside)?;
    match (global.json, args.csv) {
        (true, _) => print::json(&document(&answer)),
        (false, true) => print::raw(csv(&answer).as_bytes()),
        (false, false) => print::result(table(&answer)),
    }
    Ok(Exit::GOOD)
}

/// Every field and every finding of every case of these runs.
fn worked_out(store: &Store, names: &[String]) -> Result<WorkedOut, CommandError> {
    let newest = ["last".to_owned()];
    let names = if names.is_empty() { &newest } else { names };
    let mut out = WorkedOut::default();
    for name in names {
        let run = match store.resolve(name) {
            // A store without a run answers with no rows.
            Err(StoreError::NoSuchRun { .. }) if name == "last" => continue,
            run => run?,
        };
        let source = Source::Stored {
            store: Store::open_reading(store.dir())?,
            run: run.clone(),
        };
        for summary in read::summaries(&source, &source.cases()?)? {
            let case = summary.key.to_string();
            let row = |field: &'static fields::Field| {
                let value: Value = (&(field.get)(&summary)).into();
                (run.0.clone(), case.clone(), field.name, value)
            };
            out.figures.extend(fields::all().map(row));
            let told = summary.findings.iter().map(|finding| {
                let (code, level) = (finding.code, finding.level.name());
                (
                    run.0.clone(),
                    case.clone(),
                    code,
                    level,
                    finding.text.clone(),
                )
            });
            out.findings.extend(told);
        }
    }
    Ok(out)
}

fn document(answer: &Answer) -> Value {
    let value = |cell: &Cell| match cell {
        Cell::Null => Value::Null,
        Cell::Integer(number) => (*number).into(),
        Cell::Real(number) => (*number).into(),
        Cell::Text(text) => text.as_str().into(),
        Cell::Bytes(bytes) => json!({ "bytes": bytes }),
    };
    let row = |row: &Vec<Cell>| row.iter().map(value).collect::<Vec<_>>();
    json!({
        "document": "edgedyno/query/1",
        "columns": answer.columns,
        "rows": answer.rows.iter().map(row).collect::<Vec<_>>(),
    })
}

fn shown(cell: &Cell) -> String {
    match cell {
        Cell::Null => String::new(),
        Cell::Integer(number) => number.to_string(),
        Cell::Real(number) => number.to_string(),
        Cell::Text(text) => text.clone(),
        Cell::Bytes(bytes) => format!("({bytes} bytes)"),
    }
}

fn table(answer: &Answer) -> String {
    let is_number = |at: usize| {
        let mut cells = answer.rows.iter().map(|row| &row[at]);
        cells.all(|cell| matches!(cell, Cell::Integer(_) | Cell::Real(_) | Cell::Null))
    };
    let mut table = Table::new();
    for (at, column) in answer.columns.iter().enumerate() {
        table = match is_number(at) {
            true => table.figure(column),
            false => table.text(column),
        };
    }
    for row in &answer.rows {
        let cells = row.iter().map(|cell| match cell {
            Cell::Null => UNKNOWN.to_owned(),
            known => shown(known),
        });
        table.row(cells.collect::<Vec<_>>());
    }
    table.render()
}

/// RFC 4180, with line feeds alone.
fn csv(answer: &Answer) -> String {
    let quoted = |text: String| match text.contains([',', '"', '\n', '\r']) {
        true => format!("\"{}\"", text.replace('"', "\"\"")),
        false => text,
    };
    let line = |cells: Vec<String>| format!("{}\n", cells.join(","));
    let head = answer.columns.iter().cloned().map(quoted);
    let mut out = line(head.collect());
    for row in &answer.rows {
        out.push_str(&line(row.iter().map(|cell| quoted(shown(cell))).collect()));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_with_commas_are_quoted() {
        let answer = Answer {
            columns: vec!["a".into(), "b,c".into()],
            rows: vec![vec![Cell::Text("say \"x\", y".into()), Cell::Null]],
        };
        assert_eq!(csv(&answer), "a,\"b,c\"\n\"say \"\"x\"\", y\",\n");
        assert!(table(&answer).contains(UNKNOWN));
        assert_eq!(document(&answer)["rows"][0][1], Value::Null);
    }
}
