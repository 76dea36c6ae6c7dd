//! A text summary in the manner of process monitors: how many, how fast, how much CPU and memory.

use crate::source::Source;
use crate::store::rows::CaseEntry;
use crate::summary::{CaseSummary, summarise};
use crate::ui::units::{self, UNKNOWN};

use super::output::while_writing;
use super::{ExportError, Exporter, Output};

pub(super) struct Monitor;

const FILE: &str = "monitor.txt";

impl Exporter for Monitor {
    fn name(&self) -> &'static str {
        "monitor"
    }

    fn about(&self) -> &'static str {
        "a short text for each case: count, mean, fastest, slowest, CPU and memory of the worker"
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
            for (i, case) in cases.iter().enumerate() {
                let gap = if i == 0 { "" } else { "\n" };
                let text = text(&summarise(&source.view(case.key)?));
                write!(to, "{gap}{text}").map_err(while_writing(FILE))?;
            }
            Ok(())
        })
    }
}

/// One case, a figure a line.
fn text(summary: &CaseSummary) -> String {
    let latency = summary.latency.as_ref();
    let distribution = latency.map(|latency| &latency.distribution);
    let board = &summary.board;
    let memory_share = board
        .worker_rss_mean_bytes
        .zip(board.memory_total_bytes)
        .map(|(used, total)| used / total as f64);
    let gpu_memory = board.gpu_memory.as_ref().map(|memory| {
        let bytes = units::bytes(memory.mean_bytes);
        match memory.is_workers {
            true => bytes,
            false => format!("{bytes}, everybody's"),
        }
    });
    let ms = |ns: Option<f64>| units::nanoseconds(ns);
    let rows = [
        ("model", summary.case.model.name.clone()),
        ("backend", summary.case.backend.clone()),
        (
            "count",
            latency.map_or_else(|| UNKNOWN.to_owned(), crate::summary::Latency::count_text),
        ),
        ("mean", ms(distribution.map(|d| d.mean))),
        ("fastest", ms(distribution.map(|d| d.min as f64))),
        ("slowest", ms(distribution.map(|d| d.max as f64))),
        ("mean CPU, of one", units::percent(board.cpu_share)),
        ("mean CPU, of all", units::percent(board.cpu_share_of_board)),
        ("mean memory", units::bytes(board.worker_rss_mean_bytes)),
        ("mean memory, of all", units::percent(memory_share)),
        (
            "peak memory",
            units::bytes(summary.memory.peak_bytes.map(|b| b as f64)),
        ),
        (
            "mean GPU memory",
            gpu_memory.unwrap_or_else(|| UNKNOWN.to_owned()),
        ),
    ];
    let lines = rows
        .iter()
        .map(|(name, value)| format!("{name:20} {value}\n"));
    lines.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::sample::{MS, repeat, watched};
    use crate::summary::tests::view_of;

    #[test]
    fn a_case_is_a_figure_a_line_and_what_is_not_known_a_dash() {
        let mut records = repeat(&[2 * MS, 4 * MS]);
        let gib = 1_i64 << 30;
        let end = records.len() - 1;
        // The worker has half a CPU, and 1 GiB of 8.
        let channels = [
            watched(
                1,
                "worker.cpu",
                "ns",
                &[(0, Some(0)), (1000, Some(500 * MS))],
            ),
            watched(
                2,
                "worker.rss",
                "bytes",
                &[(101, Some(gib)), (104, Some(gib))],
            ),
            watched(3, "mem.total", "bytes", &[(101, Some(8 * gib))]),
        ];
        records.splice(end..end, channels.into_iter().flatten());
        let text = text(&summarise(&view_of(&records)));
        let value = |name: &str| {
            let line = text.lines().find(|line| line.starts_with(name)).unwrap();
            line[20..].trim().to_owned()
        };
        assert_eq!(value("mean  "), "3 ms");
        assert_eq!(value("fastest"), "2 ms");
        assert_eq!(value("slowest"), "4 ms");
        assert_eq!(value("mean CPU, of one"), "50 %");
        assert_eq!(value("mean CPU, of all"), UNKNOWN);
        assert_eq!(value("mean memory  "), "1 GiB");
        assert_eq!(value("mean memory, of all"), "12.5 %");
        assert_eq!(value("mean GPU memory"), UNKNOWN);
    }

    #[test]
    fn memory_of_a_gpu_says_when_it_is_everybodys() {
        let line = |channel: &str| {
            let mut records = repeat(&[2 * MS, 4 * MS]);
            let end = records.len() - 1;
            let cells = [(101, Some(1_i64 << 31)), (104, Some(1_i64 << 31))];
            records.splice(end..end, watched(1, channel, "bytes", &cells));
            let text = text(&summarise(&view_of(&records)));
            let line = text.lines().find(|line| line.starts_with("mean GPU"));
            line.unwrap()[20..].trim().to_owned()
        };
        assert_eq!(line("worker.drm.memory"), "2 GiB");
        assert_eq!(line("nvml.0.memory_used"), "2 GiB, everybody's");
    }
}
