//! `contention.json`: what loads did to a case, with intervals and marks.

use crate::contention::read;
use crate::source::Source;
use crate::store::rows::CaseEntry;

use super::profile::write_json;
use super::{ExportError, Exporter, Output};

pub(super) struct Contention;

impl Exporter for Contention {
    fn name(&self) -> &'static str {
        "contention"
    }

    fn about(&self) -> &'static str {
        "one JSON file: slowdown under each load and gap, with intervals, marks, knee and sensitivity"
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
        let entries: Vec<CaseEntry> = cases.iter().map(|case| (*case).clone()).collect();
        let document = read::document(source, &entries, None)?;
        output.file("contention.json", |to| {
            write_json(to, &document, "contention.json")
        })
    }
}
