//! What a self-check came to, as text and as JSON.

use serde_json::{Value, json};

use super::table::{Table, WIDTH};
use super::units;
use super::wrap::wrapped;
use crate::compare::report::Comparison;
use crate::selfcheck::{Detours, MOST_PERTURBATION, Perturbation, Promise, Sight, Timer};

/// Everything that was looked at; what could not be is none.
#[derive(Debug, Clone)]
pub struct Report {
    pub run: String,
    pub board: String,
    /// The backend that the network ran on.
    pub runtime: String,
    pub simulated: bool,
    pub timer: Option<Timer>,
    pub two_clock_reads_ns: Option<f64>,
    pub detours: Option<Detours>,
    pub stream_ns_per_trial: Option<f64>,
    pub tool_cpu_share: Option<f64>,
    /// Of the measuring thread in all windows of null.
    pub allocator_calls: Option<u64>,
    pub system_calls: Option<u64>,
    pub perturbation: Option<Perturbation>,
    /// CPU time of the threads that watch, by their own count.
    pub sampler_cpu_share: Option<f64>,
    pub sight: Option<Sight>,
    pub comparison: Option<Comparison>,
}

/// Why a board may not tell them. The test agent/tests/window.rs counts both with tools of its own.
const NO_ALLOCATOR_CALLS: &str = "the board's agent was built with another allocator than its own";
const NO_SYSTEM_CALLS: &str = "the agent's worker may not count them: that takes root and tracefs \
    (`mount -t tracefs nodev /sys/kernel/tracing`)";

pub fn text(report: &Report) -> String {
    let mut parts = vec![
        format!("board {}, run {}", report.board, report.run),
        cost(report),
        report.detours.as_ref().map_or_else(
            || "scheduling: not measured here: no trial of null".into(),
            detours,
        ),
        sight(report),
        perturbation(report),
    ];
    parts.extend(not_here(report));
    parts.join("\n\n")
}

fn cost(report: &Report) -> String {
    let timer = report.timer.as_ref();
    let ns = |value: Option<f64>| units::nanoseconds(value);
    let mut table = Table::new()
        .text("the tool's own cost")
        .figure("")
        .text("from");
    let trials = timer.map(|t| t.trials as u64);
    let from = format!("{} trials of null", units::count(trials));
    table
        .row([
            "clock resolution",
            &ns(timer.map(|t| t.resolution_ns as f64)),
            "what all steps between stamps have in common",
        ])
        .row([
            "empty trial",
            &ns(timer.map(|t| t.empty_trial_ns)),
            "stamp to stamp: one clock read and the call",
        ])
        .row(["period of the loop", &ns(timer.map(|t| t.period_ns)), &from])
        .row([
            "two clock reads",
            &ns(report.two_clock_reads_ns),
            "blocks of 1000, in this process",
        ])
        .row([
            "agent, for each trial",
            &ns(report.stream_ns_per_trial),
            "its CPU time in the windows of null, on its own CPU",
        ])
        .row([
            "agent, share of a CPU",
            &units::percent(report.tool_cpu_share),
            "the same, with null running as fast as it can",
        ])
        .row([
            "calls of the allocator",
            &units::count(report.allocator_calls),
            "by the measuring thread, in all windows of null",
        ])
        .row([
            "system calls",
            &units::count(report.system_calls),
            "the same",
        ]);
    table.render()
}

fn detours(found: &Detours) -> String {
    let mut table = Table::new()
        .text("the CPU was elsewhere for")
        .figure("times")
        .figure("in a second")
        .figure("of the time");
    let seconds = found.observed_ns as f64 / 1e9;
    let names = ["1 to 10 µs", "10 to 100 µs", "0.1 to 1 ms", "1 ms and more"];
    for ((_, count, time), name) in found.buckets.iter().zip(names) {
        table.row([
            name.to_owned(),
            units::count(*count),
            units::figure(*count as f64 / seconds),
            units::percent(*time as f64 / found.observed_ns as f64),
        ]);
    }
    format!(
        "{}\nlooked at for {}; {} of it went elsewhere",
        table.render(),
        units::nanoseconds(found.observed_ns as f64),
        units::percent(found.lost_share()),
    )
}

fn sight(report: &Report) -> String {
    let (Some(comparison), Some(sight)) = (&report.comparison, &report.sight) else {
        return "one case against itself: not measured here: too few repeats came through".into();
    };
    let cell = &comparison.cells[0];
    let change = cell.change().map_or(0.0, |share| share * 100.0);
    let mut lines = vec![format!(
        "one case against itself on {}, {} pairs: {change:+.2} %, {}",
        report.runtime,
        sight.pairs,
        cell.verdict.words(cell.metric),
    )];
    if cell.verdict.is_difference() {
        lines.push(
            "equal arms differ: something on this board comes and goes; look at the findings of this run".into(),
        );
    }
    for (pairs, share) in &sight.visible {
        lines.push(format!(
            "differences under {} cannot be seen here with {pairs} repeats of each arm, taking turns",
            percent(*share)
        ));
    }
    if report.simulated {
        lines.push(
            "SIMULATED: the stand-in spins by the clock and does not feel the CPU's own".into(),
        );
    }
    lines.join("\n")
}

fn perturbation(report: &Report) -> String {
    let Some(found) = &report.perturbation else {
        return "watching the board: not measured here: too few rounds came through".into();
    };
    let change = |ratio: f64| format!("{:+.2} %", (ratio - 1.0) * 100.0);
    let mut table = Table::new()
        .text("what watching the board does to p50")
        .figure("")
        .text("95 % interval");
    for (name, estimate) in [
        ("watched against not watched", &found.ratio),
        ("watched against watched", &found.control),
    ] {
        let interval = format!("{} to {}", change(estimate.low), change(estimate.high));
        table.row([name.to_owned(), change(estimate.point), interval]);
    }
    let limit = units::percent(MOST_PERTURBATION);
    let said = match found.promise() {
        Promise::Kept => format!("less than {limit}: met"),
        Promise::NotShown => format!(
            "less than {limit}: not shown on this machine: equals differ by as much; more --repeat \
             narrows both"
        ),
        Promise::Broken => format!(
            "less than {limit}: NOT met: measure with --telemetry off where that matters, and look at \
             the findings of this run"
        ),
    };
    let watching = format!(
        "{} rounds on {}; the threads that watch used {} of a CPU",
        found.rounds,
        report.runtime,
        units::percent(report.sampler_cpu_share),
    );
    [
        table.render(),
        wrapped(&said, usize::from(WIDTH), 2),
        watching,
    ]
    .join("\n")
}

/// Two digits: a figure like this is not known to four.
fn percent(share: f64) -> String {
    match share * 100.0 {
        p if p < 10.0 => format!("{p:.1} %"),
        p => format!("{p:.0} %"),
    }
}

/// What this board does not tell, and why.
fn not_measured(report: &Report) -> Vec<(&'static str, &'static str)> {
    let reasons = [
        (
            report.allocator_calls.is_none(),
            "calls of the allocator in the window",
            NO_ALLOCATOR_CALLS,
        ),
        (
            report.system_calls.is_none(),
            "system calls in the window",
            NO_SYSTEM_CALLS,
        ),
        (
            report.two_clock_reads_ns.is_none(),
            "two clock reads",
            "only its agent can read the clock of another board",
        ),
    ];
    let missing = reasons.into_iter().filter(|(is_missing, ..)| *is_missing);
    missing.map(|(_, what, why)| (what, why)).collect()
}

fn not_here(report: &Report) -> Option<String> {
    let lines = not_measured(report).into_iter().map(|(what, why)| {
        let line = format!("{what}: not measured here: {why}");
        wrapped(&line, usize::from(WIDTH), 2)
    });
    let lines: Vec<String> = lines.collect();
    (!lines.is_empty()).then(|| lines.join("\n"))
}

impl Report {
    pub fn to_json(&self) -> Value {
        let comparison = self.comparison.as_ref().map(crate::compare::json::document);
        json!({
            "document": "edgedyno/selfcheck/1",
            "run": self.run,
            "board": self.board,
            "runtime": self.runtime,
            "simulated": self.simulated,
            "clock_resolution_ns": self.timer.map(|t| t.resolution_ns),
            "empty_trial_ns": self.timer.map(|t| t.empty_trial_ns),
            "loop_period_ns": self.timer.map(|t| t.period_ns),
            "two_clock_reads_ns": self.two_clock_reads_ns,
            "agent_cpu_ns_per_trial": self.stream_ns_per_trial,
            "agent_cpu_share": self.tool_cpu_share,
            "detours": self.detours.as_ref().map(|found| json!({
                "observed_ns": found.observed_ns,
                "lost_share": found.lost_share(),
                "buckets": found.buckets.iter().map(|(from, count, time)| json!({
                    "from_ns": from, "count": count, "time_ns": time,
                })).collect::<Vec<_>>(),
            })),
            "against_itself": comparison,
            "visible": self.sight.as_ref().map(|sight| sight.visible.iter().map(|(pairs, share)| json!({
                "repeats": pairs, "share": share,
            })).collect::<Vec<_>>()),
            "visible_here_share": self.sight.as_ref().and_then(Sight::here),
            "sampler_cpu_share": self.sampler_cpu_share,
            "perturbation": self.perturbation.as_ref().map(|found| json!({
                "ratio": found.ratio.point,
                "low": found.ratio.low,
                "high": found.ratio.high,
                "control_ratio": found.control.point,
                "control_low": found.control.low,
                "control_high": found.control.high,
                "level": found.ratio.level,
                "rounds_count": found.rounds,
                "limit_share": MOST_PERTURBATION,
                "outcome": found.promise().name(),
            })),
            "allocator_calls": self.allocator_calls,
            "system_calls": self.system_calls,
            "not_measured": not_measured(self).iter()
                .map(|(what, why)| json!({ "what": what, "why": why }))
                .collect::<Vec<_>>(),
        })
    }
}
