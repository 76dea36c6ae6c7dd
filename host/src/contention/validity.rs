//! Which repeats of a loaded case count: those whose load was what it was meant to be, on a board that
//! stayed what it was.

use serde::Serialize;

use super::achieved::{Achieved, OFF_TARGET, STARVED};
use crate::findings::{holds_its_clock, throttling};
use crate::view::RepeatView;

/// A clock that moved by more than this made another board of it.
pub const CLOCK_MOVED: f64 = 0.01;

/// Fewer trials in a window say little of a steady state.
pub const FEWEST_TRIALS: usize = 30;

/// Why a repeat does not count, or is to be taken with care.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Mark {
    pub code: &'static str,
    pub text: String,
    /// It takes the repeat out; others are only said.
    pub invalid: bool,
}

impl Mark {
    fn invalid(code: &'static str, text: String) -> Self {
        Self {
            code,
            text,
            invalid: true,
        }
    }
}

/// What is wrong with a repeat.
pub fn marks(repeat: &RepeatView) -> Vec<Mark> {
    let mut out = Vec::new();
    for row in &repeat.row.stress {
        of_load(&Achieved::of(row), &mut out);
    }
    if let Some(how) = throttling(repeat) {
        out.push(Mark::invalid("throttled", how));
    }
    out.extend(moved_clock(repeat));
    let trials = repeat.trials.measured.len();
    if trials < FEWEST_TRIALS {
        out.push(Mark {
            code: "few_trials",
            text: format!("{trials} trials in the window"),
            invalid: false,
        });
    }
    out
}

fn of_load(achieved: &Achieved, out: &mut Vec<Mark>) {
    let name = &achieved.stressor;
    if achieved.cpu_share.is_none() {
        out.push(Mark::invalid(
            "load_unknown",
            format!("what {name} did was not seen"),
        ));
        return;
    }
    if !achieved.placed {
        out.push(Mark::invalid(
            "load_moved",
            format!("{name} was not on its CPU"),
        ));
    }
    if let Some(error) = achieved.error().filter(|error| error.abs() > OFF_TARGET) {
        let text = format!("{name} was {:+.1} % off its target", error * 100.0);
        out.push(Mark::invalid("load_off_target", text));
    }
    if let Some(lack) = achieved.starvation().filter(|lack| *lack > STARVED) {
        let text = format!(
            "{name} was kept from running for {:.1} % of the window",
            lack * 100.0
        );
        out.push(Mark::invalid("load_starved", text));
    }
}

/// A clock that was not the same at the repeat's end as at its beginning. Only a fixed clock is expected
/// to stay: one that a governor moves is at its lowest whenever it is asked.
fn moved_clock(repeat: &RepeatView) -> Option<Mark> {
    let clocks = |facts: &[crate::store::rows::FactRow]| {
        let clock = |fact: &crate::store::rows::FactRow| {
            let name = fact.name.strip_prefix("clock_khz.")?;
            Some((name.to_owned(), fact.value.as_deref()?.parse::<f64>().ok()?))
        };
        facts
            .iter()
            .filter_map(clock)
            .collect::<Vec<(String, f64)>>()
    };
    if !holds_its_clock(repeat) {
        return None;
    }
    let before = clocks(&repeat.row.start.as_ref()?.environment);
    let after = clocks(&repeat.row.end.as_ref()?.environment);
    before.iter().find_map(|(name, before)| {
        let (_, after) = after.iter().find(|(other, _)| other == name)?;
        let moved = after / before - 1.0;
        let text = format!("clock of {name} moved by {:+.1} %", moved * 100.0);
        (moved.abs() > CLOCK_MOVED).then(|| Mark::invalid("clock_moved", text))
    })
}

#[cfg(test)]
mod tests {
    use super::super::achieved::tests::row;
    use super::*;
    use crate::store::rows::EffortRow;

    fn codes(row: &crate::store::rows::StressRow) -> Vec<&'static str> {
        let mut out = Vec::new();
        of_load(&Achieved::of(row), &mut out);
        assert!(out.iter().all(|mark| mark.invalid));
        out.iter().map(|mark| mark.code).collect()
    }

    #[test]
    fn a_load_on_target_that_ran_all_the_time_counts() {
        assert!(codes(&row("mem_read", EffortRow::PerSecond(1_000), 975, 960)).is_empty());
        assert!(codes(&row("spin", EffortRow::Full, 0, 999)).is_empty());
    }

    #[test]
    fn what_was_starved_moved_or_off_target_does_not() {
        let rate = EffortRow::PerSecond(1_000);
        assert_eq!(
            codes(&row("mem_read", rate, 940, 1_000)),
            ["load_off_target"]
        );
        assert_eq!(codes(&row("mem_read", rate, 500, 500)), ["load_starved"]);
        let mut moved = row("mem_read", rate, 1_000, 1_000);
        moved.threads[0].cpus_at_end = Some(vec![0, 1]);
        assert_eq!(codes(&moved), ["load_moved"]);
        moved.threads[0].window = None;
        assert_eq!(codes(&moved), ["load_unknown"]);
    }
}
