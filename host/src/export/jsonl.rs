//! Trials as JSON, one a line.

use std::io::Write;

use crate::records;
use crate::source::Source;
use crate::store::rows::CaseEntry;

use super::output::while_writing;
use super::{ExportError, Exporter, Output};

pub(super) struct Jsonl;

pub(super) const FILE: &str = "records.jsonl";

impl Exporter for Jsonl {
    fn name(&self) -> &'static str {
        "jsonl"
    }

    fn about(&self) -> &'static str {
        "trials of all roles, one JSON object a line"
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
        output.file(FILE, |to| write_lines(source, cases, to))
    }
}

fn write_lines(
    source: &Source,
    cases: &[&CaseEntry],
    to: &mut dyn Write,
) -> Result<(), ExportError> {
    for case in cases {
        records::each_lane(source, case.key, |lane| {
            for record in lane.records() {
                writeln!(to, "{}", record.to_json()).map_err(while_writing(FILE))?;
            }
            Ok::<(), ExportError>(())
        })?;
    }
    Ok(())
}
