//! A folder with everything: manifest, trials, summaries, files made on the board.

use serde_json::{Value, json};

use crate::fields;
use crate::source::Source;
use crate::store::rows::{ArtifactRow, CaseEntry};
use crate::summary::{self, CaseSummary, summarise};
use crate::view::RepeatView;

use super::csv;
use super::jsonl::Jsonl;
use super::output::{Written, while_writing};
use super::profile::write_json;
use super::{ExportError, Exporter, Output};

pub(super) struct Dir;

/// Names the form of the manifest; a later form has another number.
const DOCUMENT: &str = "edgedyno/export/1";

const MANIFEST: &str = "manifest.json";

impl Exporter for Dir {
    fn name(&self) -> &'static str {
        "dir"
    }

    fn about(&self) -> &'static str {
        "a folder: manifest.json, records.jsonl and records.csv (trials), summary.json and summary.csv (cases), artifacts"
    }

    fn makes_folder(&self) -> bool {
        true
    }

    fn write(
        &self,
        source: &Source,
        cases: &[&CaseEntry],
        output: &mut Output,
    ) -> Result<(), ExportError> {
        Jsonl.write(source, cases, output)?;
        csv::Csv.write(source, cases, output)?;
        let mut summaries = Vec::new();
        for case in cases {
            let view = source.view(case.key)?;
            summaries.push(summarise(&view));
            for repeat in &view.repeats {
                write_artifacts(source, repeat, output)?;
            }
        }
        let document = summary::to_json(&summaries);
        output.file("summary.json", |to| {
            write_json(to, &document, "summary.json")
        })?;
        write_summary_csv(&summaries, output)?;
        let manifest = manifest(source, cases, output.written())?;
        output.file(MANIFEST, |to| write_json(to, &manifest, MANIFEST))
    }
}

fn manifest(
    source: &Source,
    cases: &[&CaseEntry],
    written: &[Written],
) -> Result<Value, ExportError> {
    let devices = source.devices()?.into_iter();
    let devices = devices.map(|(board, info)| json!({"board": board, "device": info}));
    let file = |w: &Written| json!({"name": w.name, "bytes": w.bytes, "sha256": w.sha256});
    Ok(json!({
        "document": DOCUMENT,
        "exported_by": edgedyno_shared::VERSION,
        "run": source.run()?,
        "boards": devices.collect::<Vec<_>>(),
        "cases": cases,
        "files": written.iter().map(file).collect::<Vec<_>>(),
    }))
}

/// One line a case, one column a field.
fn write_summary_csv(summaries: &[CaseSummary], output: &mut Output) -> Result<(), ExportError> {
    let name = "summary.csv";
    output.file(name, |to| {
        let failed = while_writing(name);
        csv::line(to, fields::all().map(|field| field.name.to_owned())).map_err(&failed)?;
        for summary in summaries {
            let cells = fields::all().map(|field| csv::text(&(&(field.get)(summary)).into()));
            csv::line(to, cells).map_err(&failed)?;
        }
        Ok(())
    })
}

fn write_artifacts(
    source: &Source,
    repeat: &RepeatView,
    output: &mut Output,
) -> Result<(), ExportError> {
    let key = &repeat.row.key;
    let folder = format!(
        "artifacts/{}/{}-{}-{}",
        &key.case.to_string()[..16],
        key.pass.name(),
        key.repeat,
        key.attempt,
    );
    for artifact in &repeat.row.artifacts {
        let ArtifactRow { name, number, .. } = artifact;
        let Some(bytes) = source.content(artifact)? else {
            continue;
        };
        // Names come from the board; the number keeps two of one name apart.
        let file = format!("{folder}/{number}-{}", name.replace(['/', '\\'], "_"));
        output.file(&file, |to| {
            to.write_all(&bytes).map_err(while_writing(&file))
        })?;
    }
    Ok(())
}
