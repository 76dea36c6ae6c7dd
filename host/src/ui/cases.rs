//! Several cases, one line each: what tells them apart, and the figures to compare them by.

use std::collections::{BTreeMap, BTreeSet};

use edgedyno_shared::case::Case;

use super::table::Table;
use super::units;
use crate::findings::Level;
use crate::plan::axes::axes;
use crate::summary::CaseSummary;

/// A table of cases; axes on which all agree are left out.
pub fn text(cases: &[CaseSummary]) -> String {
    let axes: Vec<BTreeMap<String, String>> = cases.iter().map(axes_of).collect();
    let telling = telling(&axes);
    let mut table = Table::new().text("case");
    for axis in &telling {
        table = table.text(axis);
    }
    for title in ["first run", "n", "p50", "p99", "warn"] {
        table = table.figure(title);
    }
    for (summary, axes) in cases.iter().zip(&axes) {
        let own = telling.iter().map(|axis| value(axes, axis));
        let key = summary.key.to_string()[..8].to_owned();
        let row = std::iter::once(key).chain(own).chain(figures(summary));
        table.row(row.collect::<Vec<_>>());
    }
    table.render()
}

/// Axes, with the version of a runtime behind the name of its backend: one column says both.
fn axes_of(summary: &CaseSummary) -> BTreeMap<String, String> {
    let case = Case::from(&summary.case);
    let mut axes: BTreeMap<String, String> = axes(&case).into_iter().collect();
    if let Some(version) = axes.remove("runtime") {
        let named = format!("{} {version}", case.backend);
        axes.insert("backend".into(), named);
    }
    axes
}

/// Names of axes on which the cases differ.
fn telling(axes: &[BTreeMap<String, String>]) -> Vec<String> {
    let names: BTreeSet<&String> = axes.iter().flat_map(BTreeMap::keys).collect();
    let differs = |name: &&String| {
        let values: BTreeSet<Option<&String>> = axes.iter().map(|of| of.get(*name)).collect();
        values.len() > 1
    };
    names.into_iter().filter(differs).cloned().collect()
}

pub(super) fn value(axes: &BTreeMap<String, String>, axis: &str) -> String {
    axes.get(axis)
        .cloned()
        .unwrap_or_else(|| units::UNKNOWN.into())
}

fn figures(summary: &CaseSummary) -> [String; 5] {
    let latency = summary.latency.as_ref();
    let quantile = |pick: fn(&crate::summary::Latency) -> crate::stats::summary::Quantile| {
        let Some(q) = latency.map(pick) else {
            return units::UNKNOWN.to_owned();
        };
        let mark = if q.enough { "" } else { "*" };
        format!("{}{mark}", units::nanoseconds(q.value))
    };
    [
        units::nanoseconds(summary.cold.first_ns),
        match (latency, summary.counts.attempts) {
            (Some(latency), _) => latency.count_text(),
            (None, 0) => "not run".into(),
            (None, _) => "failed".into(),
        },
        quantile(|l| l.distribution.p50),
        quantile(|l| l.distribution.p99),
        findings(summary),
    ]
}

fn findings(summary: &CaseSummary) -> String {
    let count = |level: Level| summary.findings.iter().filter(|f| f.level == level).count();
    match (count(Level::Invalid), count(Level::Warning)) {
        (0, warnings) => warnings.to_string(),
        _ => "invalid".into(),
    }
}
