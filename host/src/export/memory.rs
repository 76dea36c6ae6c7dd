//! Memory over a batch, frames or shape: one line a case, in the columns of LingBot-Map's
//! `benchmark_gct_memory.py` (reference notes, formats 2.3).

use crate::findings::sweep::SHAPE_ALIGNED;
use crate::source::Source;
use crate::store::rows::{CaseEntry, OutcomeKind};
use crate::summary::{CaseSummary, Failed, summarise};
use crate::view::CaseView;

use super::csv::line;
use super::output::while_writing;
use super::{ExportError, Exporter, Output};

pub(super) struct Memory;

const FILE: &str = "memory.csv";

const COLUMNS: [&str; 12] = [
    "frames",
    "status",
    "requested_height",
    "requested_width",
    "effective_height",
    "effective_width",
    "backend",
    "dtype",
    "seconds",
    "peak_allocated_gib",
    "peak_reserved_gib",
    "error",
];

/// Characters of an error that are kept.
const LONGEST_ERROR: usize = 500;

impl Exporter for Memory {
    fn name(&self) -> &'static str {
        "memory"
    }

    fn about(&self) -> &'static str {
        "peak memory of each case of a sweep over batch, frames or shape, one a line"
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
        output.file(FILE, |to| {
            let failed = while_writing(FILE);
            line(to, COLUMNS.iter().map(|name| (*name).to_owned())).map_err(&failed)?;
            for case in cases {
                let view = source.view(case.key)?;
                for cells in rows(&summarise(&view), &view) {
                    line(to, cells.into_iter()).map_err(&failed)?;
                }
            }
            Ok(())
        })
    }
}

/// The cells of a case, once for each size that was asked for and became it; none when it was never tried.
fn rows(summary: &CaseSummary, view: &CaseView) -> Vec<[String; 12]> {
    let last = summary.failures.iter().rev();
    let failed = last.into_iter().find(|f| f.outcome == OutcomeKind::Failed);
    let (status, error) = match (&summary.latency, failed) {
        (Some(_), _) => ("ok".to_owned(), String::new()),
        (None, Some(failed)) => (status(failed), message(failed)),
        (None, None) => return Vec::new(),
    };
    let is_ok = status == "ok";
    let (requested, effective) = sizes(summary, view);
    let [effective_height, effective_width] = effective;
    let peak = summary.memory.peak_bytes.filter(|_| is_ok);
    let row = |[requested_height, requested_width]: [String; 2]| {
        [
            frames(summary),
            status.clone(),
            requested_height,
            requested_width,
            effective_height.clone(),
            effective_width.clone(),
            summary.case.backend.clone(),
            dtype(summary),
            seconds(summary),
            peak.map_or_else(String::new, gib),
            // What an allocator keeps without using it is known to no backend that is built.
            String::new(),
            error.clone(),
        ]
    };
    requested.into_iter().map(row).collect()
}

/// `frames` of the workload, else the batch.
fn frames(summary: &CaseSummary) -> String {
    let frames = summary.case.parameters.get("frames").cloned();
    frames.unwrap_or_else(|| summary.case.batch.unwrap_or(1).to_string())
}

/// `oom` where memory ran out, else the code of the failure.
fn status(failed: &Failed) -> String {
    match failed.failure.as_ref().map(|failure| failure.code.as_str()) {
        Some("out_of_memory") => "oom".into(),
        Some(code) => code.into(),
        None => failed.outcome.name().into(),
    }
}

fn message(failed: &Failed) -> String {
    let detail = failed
        .failure
        .as_ref()
        .map(|failure| failure.detail.as_str());
    let one_line = detail.unwrap_or_default().replace(['\n', '\r'], " ");
    one_line.chars().take(LONGEST_ERROR).collect()
}

/// Height and width as asked for and as measured: the last two of the first input that has two.
fn sizes(summary: &CaseSummary, view: &CaseView) -> (Vec<[String; 2]>, [String; 2]) {
    let last_two = |dims: &[u64]| match dims {
        [.., height, width] => [height.to_string(), width.to_string()],
        _ => Default::default(),
    };
    let asked = summary
        .case
        .shapes
        .iter()
        .find(|shape| shape.dims.len() >= 2);
    let of_model = || {
        let inputs = summary.model.iter().flat_map(|model| &model.inputs);
        let mut dims = inputs.filter_map(|input| input.effective.as_deref());
        dims.find(|dims| dims.len() >= 2)
    };
    let Some(dims) = asked.map(|shape| shape.dims.as_slice()).or_else(of_model) else {
        return (vec![Default::default()], Default::default());
    };
    let effective = last_two(dims);
    let input = asked.map(|shape| shape.input.as_str());
    let notes = view.notes.iter();
    let notes =
        notes.filter(|note| note.code == SHAPE_ALIGNED && note.figures["input"].as_str() == input);
    let requested = notes.filter_map(|note| {
        let text = note.figures["requested"].as_str()?;
        let dims: Option<Vec<u64>> = text.split('x').map(|size| size.parse().ok()).collect();
        Some(last_two(&dims?))
    });
    let mut requested: Vec<[String; 2]> = requested.collect();
    if requested.is_empty() {
        requested.push(effective.clone());
    }
    (requested, effective)
}

fn dtype(summary: &CaseSummary) -> String {
    let input = summary.model.iter().flat_map(|model| &model.inputs).next();
    let of_model = input.map(|input| input.dtype.clone());
    summary
        .case
        .precision
        .clone()
        .or(of_model)
        .unwrap_or_default()
}

/// Of the whole window, the centre over repeats; four decimals.
fn seconds(summary: &CaseSummary) -> String {
    let counting = summary.repeats.iter().filter(|repeat| repeat.counts);
    let windows: Vec<f64> = counting
        .filter_map(|repeat| repeat.window_ns.map(|ns| ns as f64 / 1e9))
        .collect();
    let centre = crate::stats::mean::over_repeats(&windows);
    centre.map_or_else(String::new, |seconds| format!("{seconds:.4}"))
}

/// Bytes by 2^30, four decimals.
fn gib(bytes: u64) -> String {
    format!("{:.4}", bytes as f64 / f64::from(1 << 30))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_gibibytes_of_four_decimals() {
        assert_eq!(gib(1 << 30), "1.0000");
        assert_eq!(gib(1_610_612_736), "1.5000");
        assert_eq!(gib(107_374), "0.0001");
    }
}
