//! Trials as comma-separated values (RFC 4180), one a line, with a heading.

use std::io::{self, Write};

use serde_json::Value;

use crate::records::{self, LEADING, LaneRecords};
use crate::source::Source;
use crate::store::rows::CaseEntry;

use super::output::while_writing;
use super::{ExportError, Exporter, Output};

pub(super) struct Csv;

pub(super) const FILE: &str = "records.csv";

impl Exporter for Csv {
    fn name(&self) -> &'static str {
        "csv"
    }

    fn about(&self) -> &'static str {
        "trials of all roles, one a line, with a heading; an empty cell was not measured"
    }

    fn makes_folder(&self) -> bool {
        false
    }

    fn write(
        &self,
        source: &Source,
        cases: &[&CaseEntry],
        output: &mut Output,
    ) -> Result<(), ExportError> {
        let own = own_labels(source, cases)?;
        output.file(FILE, |to| {
            let failed = while_writing(FILE);
            let heading = LEADING
                .iter()
                .map(|name| (*name).to_owned())
                .chain(own.clone());
            line(to, heading).map_err(&failed)?;
            for case in cases {
                records::each_lane(source, case.key, |lane| {
                    write_lane(to, lane, &own).map_err(&failed)
                })?;
            }
            Ok(())
        })
    }
}

/// Columns of all lanes, each once, in the order in which they first appear.
pub(super) fn own_labels(
    source: &Source,
    cases: &[&CaseEntry],
) -> Result<Vec<String>, ExportError> {
    let mut own: Vec<String> = Vec::new();
    for case in cases {
        records::each_lane(source, case.key, |lane| {
            let new: Vec<String> = lane.labels();
            own.extend(
                new.into_iter()
                    .filter(|label| !own.contains(label))
                    .collect::<Vec<_>>(),
            );
            Ok::<(), ExportError>(())
        })?;
    }
    Ok(own)
}

fn write_lane(to: &mut dyn Write, lane: &LaneRecords, own: &[String]) -> io::Result<()> {
    let labels = lane.labels();
    let places: Vec<Option<usize>> = own
        .iter()
        .map(|label| labels.iter().position(|l| l == label))
        .collect();
    for record in lane.records() {
        let values: Vec<Option<i64>> = record.own().collect();
        let cells = places.iter().map(|place| place.and_then(|at| values[at]));
        let cells = cells.map(|cell| cell.map_or_else(String::new, |cell| cell.to_string()));
        line(to, record.leading().iter().map(text).chain(cells))?;
    }
    Ok(())
}

/// One line of cells.
pub(super) fn line(to: &mut dyn Write, cells: impl Iterator<Item = String>) -> io::Result<()> {
    for (i, cell) in cells.enumerate() {
        if i > 0 {
            to.write_all(b",")?;
        }
        to.write_all(quoted(cell).as_bytes())?;
    }
    to.write_all(b"\n")
}

/// A JSON value as a cell: text without quotation marks, nothing for null.
pub(super) fn text(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

fn quoted(cell: String) -> String {
    match cell.contains(['"', ',', '\n', '\r']) {
        true => format!("\"{}\"", cell.replace('"', "\"\"")),
        false => cell,
    }
}
