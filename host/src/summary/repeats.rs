//! Repeats one by one: how many, how each ended, what each measured, what failed.

use edgedyno_shared::order::Pass;

use crate::stats::steady::{self, Steadiness};
use crate::stats::{mean, quantile};
use crate::store::rows::{ClockExchangeRow, FailureRow, OutcomeKind, StageName};
use crate::view::{CaseView, RepeatView, Trials};

use super::latency::rate_hz;

/// How much was planned, tried and measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counts {
    pub repeats_planned: Option<u32>,
    /// Repeats whose trials count.
    pub repeats_complete: u32,
    /// Repeats of the honest pass that have rows but no complete attempt.
    pub repeats_failed: u32,
    /// Attempts of all passes.
    pub attempts: u32,
    /// Measured trials that ended well, in counting repeats.
    pub trials: u64,
    /// Trials that the backend failed or whose slot made no sense, in all attempts.
    pub trials_failed: u64,
}

impl Counts {
    pub fn of(view: &CaseView) -> Self {
        let honest = || {
            view.repeats
                .iter()
                .filter(|r| r.row.key.pass == Pass::Honest)
        };
        let complete: Vec<u32> = view.counting().map(|r| r.row.key.repeat).collect();
        let mut failed: Vec<u32> = honest().map(|r| r.row.key.repeat).collect();
        failed.dedup();
        failed.retain(|repeat| !complete.contains(repeat));
        Self {
            repeats_planned: view.entry.rules.repeats,
            repeats_complete: complete.len() as u32,
            repeats_failed: failed.len() as u32,
            attempts: view.repeats.len() as u32,
            trials: view
                .counting()
                .map(|r| r.trials.measured.len() as u64)
                .sum(),
            trials_failed: view
                .repeats
                .iter()
                .map(|r| r.trials.failed + r.trials.corrupt)
                .sum(),
        }
    }
}

/// Warm-up of the counting repeats.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Warmup {
    /// Trials, the mean over repeats.
    pub trials: Option<f64>,
    /// Time, the mean over repeats.
    pub time_ns: Option<f64>,
    /// False when any repeat reached its maximum before it was steady; none when that was not asked.
    pub steady: Option<bool>,
}

impl Warmup {
    pub fn of(view: &CaseView) -> Self {
        let counting = || view.counting();
        let trials: Vec<f64> = counting().map(|r| r.trials.warmup_trials as f64).collect();
        let spans = counting().map(|r| r.trials.warmup.map(|span| span.length_ns() as f64));
        let asked = view.entry.rules.warmup_until_steady && !trials.is_empty();
        Self {
            trials: mean::arithmetic(&trials),
            time_ns: mean::arithmetic(&spans.flatten().collect::<Vec<_>>()),
            steady: asked.then(|| view.counting().all(warmup_was_steady)),
        }
    }
}

pub(crate) fn warmup_was_steady(repeat: &RepeatView) -> bool {
    let said = |code: &str| repeat.row.events.iter().any(|event| event.code == code);
    !said("warmup_not_steady")
}

/// One attempt in figures, in nanoseconds.
#[derive(Debug, Clone, PartialEq)]
pub struct RepeatFigures {
    pub repeat: u32,
    pub attempt: u32,
    pub pass: Pass,
    pub outcome: OutcomeKind,
    pub counts: bool,
    pub trials: u64,
    pub trials_failed: u64,
    pub window_ns: Option<i64>,
    pub rate_hz: Option<f64>,
    pub p50_ns: Option<f64>,
    pub p99_ns: Option<f64>,
    pub mean_ns: Option<f64>,
    pub warmup_trials: u64,
    pub steadiness: Option<Steadiness>,
    pub wall_unix_ns: Option<i64>,
    pub clock_exchanges: Vec<ClockExchangeRow>,
    /// Readings of the board's own clocks.
    pub clock_readings: u64,
}

impl RepeatFigures {
    pub fn of(repeat: &RepeatView) -> Self {
        let RepeatView { row, trials, .. } = repeat;
        let quantiles = quantile::select(&mut trials.measured.clone(), [0.5, 0.99]);
        Self {
            repeat: row.key.repeat,
            attempt: row.key.attempt,
            pass: row.key.pass,
            outcome: row.outcome,
            counts: row.counts,
            trials: trials.measured.len() as u64,
            trials_failed: trials.failed + trials.corrupt,
            window_ns: trials.window.map(|window| window.length_ns()),
            rate_hz: rate_hz(repeat),
            p50_ns: quantiles.map(|[p50, _]| p50),
            p99_ns: quantiles.map(|[_, p99]| p99),
            mean_ns: mean::arithmetic(&trials.measured),
            warmup_trials: trials.warmup_trials,
            steadiness: steady::test(&trials.measured),
            wall_unix_ns: row.start.as_ref().map(|start| start.wall_unix_ns),
            clock_exchanges: row.clock_exchanges.clone(),
            clock_readings: row.clock_readings.len() as u64,
        }
    }
}

/// An attempt that did not complete, and what it had measured by then.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failed {
    pub repeat: u32,
    pub attempt: u32,
    pub pass: Pass,
    pub outcome: OutcomeKind,
    pub stage: Option<StageName>,
    pub failure: Option<FailureRow>,
    /// Trials of all roles before it failed.
    pub trials: u64,
    /// The end of what the worker wrote to its standard error.
    pub stderr: Option<String>,
}

pub(super) fn failures(view: &CaseView) -> Vec<Failed> {
    let incomplete = |repeat: &&RepeatView| repeat.row.outcome != OutcomeKind::Complete;
    view.repeats
        .iter()
        .filter(incomplete)
        .map(Failed::of)
        .collect()
}

impl Failed {
    fn of(repeat: &RepeatView) -> Self {
        let RepeatView { row, trials, .. } = repeat;
        let trials: &Trials = trials;
        let tail = row.events.iter().find(|event| event.code == "stderr_tail");
        Self {
            repeat: row.key.repeat,
            attempt: row.key.attempt,
            pass: row.key.pass,
            outcome: row.outcome,
            stage: row.stage,
            failure: row.failure.clone(),
            trials: trials.all,
            stderr: tail.map(|event| event.text.clone()),
        }
    }
}
