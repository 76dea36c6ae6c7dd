//! Threads and CPUs: asked for, and seen.

use std::collections::BTreeSet;

use crate::store::rows::{MomentRow, PlacementRow, ThreadRow};
use crate::view::{CaseView, RepeatView};

/// A thread is busy when it was on a CPU for at least this share of the window ...
const BUSY: f64 = 0.05;

/// ... or for at least this share of the busiest thread's time: many threads on few CPUs, or a machine
/// that does something else besides, leave each of them little of the window.
const BUSY_BESIDE: f64 = 0.25;

/// The kernel accounts CPU time at its ticks; a shorter window says nothing about a thread.
const SHORTEST_WINDOW_NS: i64 = 50_000_000;

/// What was asked for and what the kernel said, the latest telling repeat speaking for all.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct PlacementSeen {
    /// Threads inside an operator as asked for; none leaves it to the runtime.
    pub threads_requested: Option<u32>,
    /// Threads of the worker after the window, or when it was last looked at.
    pub threads_observed: Option<u32>,
    /// Threads that worked during the window.
    pub threads_busy: Option<u32>,
    /// CPU time of all threads together during the window, in windows: 2 are two CPUs all the time.
    pub cpu_share: Option<f64>,
    /// CPUs asked for by the user; none leaves it to the agent.
    pub cpus_requested: Option<Vec<u16>>,
    /// CPUs the agent told every thread to use.
    pub cpus_wanted: Option<Vec<u16>>,
    /// CPUs that any thread was allowed to use then.
    pub cpus_observed: Option<Vec<u16>>,
}

impl PlacementSeen {
    pub fn of(view: &CaseView) -> Self {
        let case = &view.entry.case;
        let latest = view.telling().last();
        // The reading after the window; the last there is of a repeat that did not come so far.
        let last = latest.and_then(|repeat| repeat.row.placements.last());
        let after = latest.and_then(|repeat| last_at(repeat, MomentRow::AfterWindow));
        let seen = after.or(last);
        Self {
            threads_requested: Some(case.threads.intra).filter(|&n| n > 0),
            threads_observed: seen.map(|placement| placement.threads.len() as u32),
            threads_busy: latest.and_then(busy_threads),
            cpu_share: latest.and_then(cpu_share),
            cpus_requested: case.cpus.clone(),
            cpus_wanted: last.map(|placement| placement.wanted.clone()),
            cpus_observed: seen.map(all_cpus),
        }
    }
}

/// Threads whose CPU time grew between the readings around the window, as far as [`BUSY`] asks.
fn busy_threads(repeat: &RepeatView) -> Option<u32> {
    let shares = shares(repeat)?;
    let busiest = shares.iter().copied().fold(0.0, f64::max);
    let least = BUSY.min(busiest * BUSY_BESIDE);
    let busy = shares
        .iter()
        .filter(|share| **share > 0.0 && **share >= least);
    Some(busy.count() as u32)
}

fn cpu_share(repeat: &RepeatView) -> Option<f64> {
    Some(shares(repeat)?.iter().sum())
}

/// CPU time of each thread during the window, in windows.
fn shares(repeat: &RepeatView) -> Option<Vec<f64>> {
    let window_ns = repeat.trials.window?.length_ns();
    if window_ns < SHORTEST_WINDOW_NS {
        return None;
    }
    let before = last_at(repeat, MomentRow::BeforeWindow)?;
    let after = last_at(repeat, MomentRow::AfterWindow)?;
    let share = |thread: &ThreadRow| {
        let earlier = before.threads.iter().find(|t| t.tid == thread.tid);
        let used_before = earlier.map_or(Some(0), |t| t.cpu_time_ns)?;
        Some((thread.cpu_time_ns? - used_before) as f64 / window_ns as f64)
    };
    after.threads.iter().map(share).collect()
}

/// Bound threads may be read twice at one moment; the last reading is the one that held.
fn last_at(repeat: &RepeatView, moment: MomentRow) -> Option<&PlacementRow> {
    let placements = repeat.row.placements.iter();
    placements
        .rev()
        .find(|placement| placement.moment == moment)
}

fn all_cpus(placement: &PlacementRow) -> Vec<u16> {
    let cpus: BTreeSet<u16> = placement
        .threads
        .iter()
        .flat_map(|thread| thread.cpus.iter().copied())
        .collect();
    cpus.into_iter().collect()
}
