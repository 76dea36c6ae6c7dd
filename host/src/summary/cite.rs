//! One line that says what was measured, where, with what, and how often.

use crate::ui::units;

use super::CaseSummary;

pub(super) fn line(summary: &CaseSummary) -> String {
    let case = &summary.case;
    let mark = if summary.simulated { "SIMULATED: " } else { "" };
    let runtime = summary.runtime.as_ref().map(|runtime| &runtime.version);
    let runtime = runtime.map_or(String::new(), |version| format!(" {version}"));
    format!(
        "{mark}{} on {}{runtime} ({}), {}: {}; EdgeDyno {}, {}/{}",
        case.model.name,
        case.backend,
        settings(summary),
        place(summary),
        result(summary),
        summary.run.tool_version,
        summary.run.id,
        &summary.key.to_string()[..8],
    )
}

fn settings(summary: &CaseSummary) -> String {
    let case = &summary.case;
    let threads = match (
        summary.placement.threads_requested,
        summary.placement.threads_busy,
    ) {
        (Some(1), _) => "1 thread".into(),
        (Some(asked), _) => format!("{asked} threads"),
        (None, Some(1)) => "1 busy thread".into(),
        (None, Some(busy)) => format!("{busy} busy threads"),
        (None, None) => "threads not known".into(),
    };
    let batch = case.batch.map(|batch| format!("batch {batch}"));
    let condition = (case.condition != "idle").then(|| case.condition.clone());
    let parts = [Some(threads), batch, condition];
    parts.into_iter().flatten().collect::<Vec<_>>().join(", ")
}

fn place(summary: &CaseSummary) -> String {
    let environment = &summary.environment;
    let cpu = environment.fact("cpu_model").map(str::to_owned);
    let kernel = environment
        .fact("kernel_release")
        .map(|release| format!("kernel {release}"));
    let governor = environment
        .facts_of("governor")
        .map(|name| format!("governor {name}"));
    let known: Vec<String> = [cpu, kernel, governor].into_iter().flatten().collect();
    match known.is_empty() {
        true => format!("board {}", environment.board),
        false => known.join(", "),
    }
}

fn result(summary: &CaseSummary) -> String {
    let Some(latency) = &summary.latency else {
        return "no trial measured".into();
    };
    let distribution = &latency.distribution;
    let quantile = |name: &str, q: &crate::stats::summary::Quantile| {
        let mark = if q.enough { "" } else { " (too few trials)" };
        format!("{name} {}{mark}", units::nanoseconds(q.value))
    };
    let failed = match summary.counts.repeats_failed {
        0 => String::new(),
        n => format!(" ({n} repeats failed)"),
    };
    format!(
        "{}, {}, n {}{failed}",
        quantile("p50", &distribution.p50),
        quantile("p99", &distribution.p99),
        latency.count_text(),
    )
}
