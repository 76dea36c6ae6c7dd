//! The text of `demo`: what is measured, one table, and where to look next.

use edgedyno_shared::ids::RunId;
use serde::Serialize;

use super::table::Table;
use super::units::{self, UNKNOWN};
use crate::findings::Level;
use crate::model::make::Made;
use crate::plan::fixed::Conduct;
use crate::stats::summary::Quantile;
use crate::summary::{CaseSummary, Latency};

/// Follows a percentile that has too few trials.
const MARK: &str = "*";

/// Everything a demo came to.
pub struct Shown<'a> {
    pub run: &'a RunId,
    pub networks: &'a [&'a Made],
    pub cases: &'a [CaseSummary],
    pub left_out: &'a [LeftOut],
}

/// Something that was not measured.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct LeftOut {
    pub what: String,
    pub why: String,
    pub hint: Option<String>,
}

/// What is about to be measured, and how long it takes.
pub fn plan(cases: usize, conduct: &Conduct) -> String {
    let rules = &conduct.rules;
    let repeats = conduct.repeats as usize;
    let most = rules.warmup.max_time.0 + rules.measure.duration.0;
    let seconds = (cases * repeats) as f64 * most as f64 / 1e9;
    format!(
        "measuring {cases} cases in {repeats} fresh processes each: warm-up until steady, then {}; \
         at most about {seconds:.0} s",
        units::nanoseconds(rules.measure.duration.0 as f64)
    )
}

/// The result.
pub fn text(shown: &Shown<'_>) -> String {
    let mut parts = vec![networks(shown.networks), table(shown.cases), legend(shown)];
    let failed: Vec<String> = shown.cases.iter().flat_map(failures).collect();
    if !failed.is_empty() {
        parts.push(failed.join("\n"));
    }
    if !shown.left_out.is_empty() {
        let said: Vec<String> = shown.left_out.iter().map(left_out).collect();
        parts.push(said.join("\n"));
    }
    parts.push(next(shown));
    parts.join("\n\n")
}

fn networks(networks: &[&Made]) -> String {
    let line = |made: &&Made| {
        let dims: Vec<String> = made.input_dims.iter().map(u64::to_string).collect();
        format!(
            "{}: {} multiply-accumulates, {} of weights, input {}",
            name_of(made),
            units::count(made.macs),
            units::bytes(made.parameter_bytes as f64),
            dims.join("x"),
        )
    };
    networks.iter().map(line).collect::<Vec<_>>().join("\n")
}

fn name_of(made: &Made) -> String {
    let name = made.path.file_stem().unwrap_or_default();
    name.to_string_lossy().into_owned()
}

/// One line a case; what is to be compared stands one below the other.
fn table(cases: &[CaseSummary]) -> String {
    let mut table = Table::new()
        .text("network")
        .figure("threads")
        .text("runtime");
    for title in ["cold first", "p50", "p99", "rate", "memory"] {
        table = table.figure(title);
    }
    for summary in cases {
        let case = &summary.case;
        let head = [
            case.model.name.trim_end_matches(".onnx").to_owned(),
            case.threads.intra.to_string(),
            runtime(summary),
        ];
        table.row(head.into_iter().chain(figures(summary)).collect::<Vec<_>>());
    }
    table.render()
}

fn runtime(summary: &CaseSummary) -> String {
    let version = summary.runtime.as_ref().map(|runtime| &runtime.version);
    let version = version.or(summary
        .case
        .runtime
        .as_ref()
        .map(|runtime| &runtime.version));
    match version {
        Some(version) => format!("{} {version}", summary.case.backend),
        None => summary.case.backend.clone(),
    }
}

fn figures(summary: &CaseSummary) -> [String; 5] {
    let latency = summary.latency.as_ref();
    let quantile = |pick: fn(&Latency) -> Quantile| {
        latency
            .map(pick)
            .map_or_else(|| UNKNOWN.to_owned(), quantile)
    };
    [
        units::nanoseconds(summary.cold.first_ns),
        quantile(|latency| latency.distribution.p50),
        quantile(|latency| latency.distribution.p99),
        units::hertz(latency.and_then(|latency| latency.rate_hz)),
        units::bytes(summary.memory.peak_bytes.map(|bytes| bytes as f64)),
    ]
}

fn quantile(quantile: Quantile) -> String {
    let mark = if quantile.enough { "" } else { MARK };
    format!("{}{mark}", units::nanoseconds(quantile.value))
}

fn legend(shown: &Shown<'_>) -> String {
    let mut lines =
        vec!["cold first: the first run of a fresh process, others: warm; memory: the peak of its process".to_owned()];
    let percentiles = shown
        .cases
        .iter()
        .filter_map(|summary| summary.latency.as_ref());
    let is_marked = |latency: &Latency| {
        let distribution = &latency.distribution;
        !(distribution.p50.enough && distribution.p99.enough)
    };
    if percentiles.into_iter().any(is_marked) {
        lines.push(format!(
            "{MARK} not enough independent trials in so short a window for this percentile"
        ));
    }
    let is_telling = |summary: &&CaseSummary| {
        let mut findings = summary.findings.iter();
        findings.any(|finding| finding.level != Level::Note)
    };
    match shown.cases.iter().filter(is_telling).count() {
        0 => {}
        cases => lines.push(format!(
            "{cases} of {} cases have findings to read before the figures: \
             `edgedyno summary {}/KEY`",
            shown.cases.len(),
            shown.run
        )),
    }
    lines.join("\n")
}

fn failures(summary: &CaseSummary) -> Vec<String> {
    let case = &summary.case;
    let told = summary.failures.iter().map(|failed| {
        let why = failed.failure.as_ref();
        format!(
            "failed: {}, {} threads, {}, repeat {}: {}",
            case.model.name,
            case.threads.intra,
            case.backend,
            failed.repeat + 1,
            why.map_or_else(|| failed.outcome.to_string(), |f| f.detail.clone())
        )
    });
    told.collect()
}

fn left_out(left_out: &LeftOut) -> String {
    let LeftOut { what, why, hint } = left_out;
    let hint = hint.iter().map(|hint| format!("\n  hint: {hint}"));
    format!(
        "left out: {what}\n  cause: {why}{}",
        hint.collect::<String>()
    )
}

fn next(shown: &Shown<'_>) -> String {
    let key = shown.cases.first().map(|summary| summary.key.to_string());
    let key = key.as_deref().map_or("KEY", |key| &key[..8]);
    let run = shown.run;
    let lines = [
        (
            "edgedyno summary last".to_owned(),
            "every case again, with its key",
        ),
        (
            format!("edgedyno summary {run}/{key}"),
            "one case in full: stages, settings, findings",
        ),
        (
            format!("edgedyno get {run}/{key} latency_p50_ms"),
            "one figure, for scripts",
        ),
        (
            "edgedyno explain latency_p50_ms".to_owned(),
            "what a figure means, and from where",
        ),
        (
            "edgedyno run YOUR_MODEL.onnx".to_owned(),
            "your own network",
        ),
        (
            "docs/cli.md, docs/fields.md".to_owned(),
            "every command, every field",
        ),
    ];
    let width = lines.iter().map(|(what, _)| what.len()).max().unwrap_or(0);
    let lines = lines.map(|(what, why)| format!("  {what:width$}   {why}"));
    format!("where to look next:\n{}", lines.join("\n"))
}

#[cfg(test)]
mod tests {
    use edgedyno_shared::ids::RunId;

    use super::*;
    use crate::summary::summarise;
    use crate::summary::tests::{hand_worked, view};

    #[test]
    fn a_demo_shows_one_table_and_where_to_go() {
        let (_folder, store) = hand_worked();
        let summary = summarise(&view(&store));
        let made = Made {
            path: "/cache/models/conv.onnx".into(),
            data: None,
            parameters: 21_000,
            macs: 69_000_000,
            parameter_bytes: 84_000,
            bytes: 86_000,
            input: "input".into(),
            input_dims: vec![1, 3, 64, 64],
        };
        let shown = Shown {
            run: &RunId("7k2m9x0abc".into()),
            networks: &[&made],
            cases: &[summary],
            left_out: &[LeftOut {
                what: "onnxruntime".into(),
                why: "nothing is fetched with --offline".into(),
                hint: Some("`edgedyno runtime install onnxruntime`".into()),
            }],
        };
        insta::assert_snapshot!(text(&shown));
    }
}
