//! Which repeats of a loaded case count: those whose load was what it was meant to be, on a board that
//! stayed what it was.

use serde::Serialize;

use super::achieved::{Achieved, STARVED};
use super::{clocks, tenant};
use crate::findings::{throttling, would_tell_throttling};
use crate::telemetry::engines::Used;
use crate::view::RepeatView;

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
    pub(super) fn invalid(code: &'static str, text: String) -> Self {
        Self {
            code,
            text,
            invalid: true,
        }
    }

    pub(super) fn note(code: &'static str, text: String) -> Self {
        Self {
            code,
            text,
            invalid: false,
        }
    }
}

/// What is wrong with a repeat, and what nobody can say of it.
pub fn marks(repeat: &RepeatView, used: Used) -> Vec<Mark> {
    let mut out = Vec::new();
    for row in &repeat.row.stress {
        of_load(&Achieved::of(row), &mut out);
    }
    out.extend(tenant::of(repeat).flat_map(|seen| seen.marks()));
    match throttling(repeat) {
        Some(how) => out.push(Mark::invalid("throttled", how)),
        // A virtual machine shows neither clock nor heat: its points count, and say so.
        None if !would_tell_throttling(repeat) => out.push(Mark::note(
            "throttling_unknown",
            "nothing was seen within the window that would show the board being held back".into(),
        )),
        None => {}
    }
    out.extend(clocks::moved(repeat, used));
    out.extend(clocks::unknown(repeat));
    let trials = repeat.trials.measured.len();
    if trials < FEWEST_TRIALS {
        let text = format!("{trials} trials in the window");
        out.push(Mark::note("few_trials", text));
    }
    out
}

fn of_load(achieved: &Achieved, out: &mut Vec<Mark>) {
    let name = &achieved.stressor;
    if let Some(why) = &achieved.failure {
        out.push(Mark::invalid("load_failed", format!("{name}: {why}")));
    }
    if achieved.cpu_share.is_none() {
        out.push(Mark::invalid(
            "load_unknown",
            format!("what {name} did was not seen"),
        ));
        return;
    }
    if let Some(own) = &achieved.own_count {
        let text = match own.as_slice() {
            [] => format!("{name} printed no figure of what it did"),
            own => format!("{name} says of all its life: {}", own.join(", ")),
        };
        out.push(Mark::note("load_uncounted", text));
    }
    match achieved.placed {
        Some(true) => {}
        Some(false) => {
            let text = format!("{name} was not on its CPU");
            out.push(Mark::invalid("load_moved", text));
        }
        None => {
            let text = format!("nobody read on which CPU {name} was");
            out.push(Mark::invalid("load_unknown", text));
        }
    }
    if achieved.starvation().is_none() {
        // Kernels without scheduler statistics never tell it.
        let text = format!("how long {name} stood ready and did not run was not seen");
        out.push(Mark::note("starvation_unknown", text));
    }
    if let Some(error) = achieved.off_target() {
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

/// Below this share of what was calibrated, full effort is told to have been less.
const LESS: f64 = 0.97;

/// Full effort has no target that it could miss. It is told where it did less than when it was calibrated,
/// which the model's own traffic may well do.
pub(super) fn below_calibrated(stressor: &str, share: f64) -> Option<Mark> {
    (share < LESS).then(|| {
        let text = format!(
            "{stressor} at full effort did {:.1} % of what it did when it was calibrated",
            share * 100.0
        );
        Mark::note("load_below_calibrated", text)
    })
}

#[cfg(test)]
mod tests {
    use edgedyno_shared::telemetry::ChannelKind;

    use super::super::achieved::tests::row;
    use super::super::testing::{digest, watched};
    use super::*;
    use crate::store::rows::{EffortRow, ThrottleRow, UnitRow};

    fn codes(row: &crate::store::rows::StressRow) -> Vec<&'static str> {
        let mut out = Vec::new();
        of_load(&Achieved::of(row), &mut out);
        let invalid = |mark: &Mark| {
            mark.invalid || matches!(mark.code, "load_uncounted" | "starvation_unknown")
        };
        assert!(out.iter().all(invalid));
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

    #[test]
    fn a_tool_is_judged_by_its_cpu_time_and_its_own_figure_stays_its_own() {
        let mut tool = row("stress-ng", EffortRow::Full, 0, 990);
        tool.unit = UnitRow::Own;
        assert_eq!(codes(&tool), ["load_uncounted"]);
        let achieved = Achieved::of(&tool);
        assert_eq!((achieved.per_wall_second, achieved.error()), (None, None));
        let window = tool.threads[0].window.as_mut().unwrap();
        window.cpu_time_ns /= 2;
        // It waited by itself for nearly all of that, then for others.
        assert_eq!(codes(&tool), ["load_uncounted"]);
        tool.threads[0].window.as_mut().unwrap().run_delay_ns = Some(600_000_000);
        tool.cpus = vec![1, 2];
        tool.threads[0].cpus_at_start = Some(vec![1, 2]);
        tool.threads[0].cpus_at_end = Some(vec![1, 2]);
        assert_eq!(codes(&tool), ["load_uncounted", "load_starved"]);
    }

    #[test]
    fn what_nobody_read_is_not_taken_for_good() {
        let rate = EffortRow::PerSecond(1_000);
        let mut unread = row("mem_read", rate, 1_000, 1_000);
        unread.threads[0].cpus_at_end = None;
        assert_eq!(codes(&unread), ["load_unknown"]);
        let mut sleeper = row("mem_read", rate, 1_000, 400);
        sleeper.throttle = ThrottleRow::Sleep;
        let window = sleeper.threads[0].window.as_mut().unwrap();
        window.run_delay_ns = Some(10_000_000);
        assert!(codes(&sleeper).is_empty());
        sleeper.threads[0].window.as_mut().unwrap().run_delay_ns = None;
        assert_eq!(codes(&sleeper), ["starvation_unknown"]);
        // One that spins is judged by its CPU time, which is known.
        let mut spinner = row("mem_read", rate, 1_000, 1_000);
        spinner.threads[0].window.as_mut().unwrap().run_delay_ns = None;
        assert!(codes(&spinner).is_empty());
    }

    #[test]
    fn a_machine_that_shows_neither_clock_nor_heat_counts_with_two_notes() {
        let repeat = watched(vec![digest("cpu.0.busy", ChannelKind::Counter, &[1, 2])]);
        let found: Vec<(&str, bool)> = marks(&repeat, Used::ALL)
            .iter()
            .map(|mark| (mark.code, mark.invalid))
            .collect();
        assert_eq!(
            found,
            [("throttling_unknown", false), ("clock_unknown", false)]
        );
        let gauge = ChannelKind::Gauge;
        let telling = vec![
            digest("cpu.policy0.freq", gauge, &[2_000, 2_000]),
            digest("cool.thermal-cpufreq-0.state", gauge, &[0, 0]),
        ];
        assert!(marks(&watched(telling), Used::ALL).is_empty());
    }

    #[test]
    fn full_effort_is_told_where_it_was_less_than_calibrated() {
        assert_eq!(below_calibrated("mem_read", 0.98), None);
        let mark = below_calibrated("mem_read", 0.9).unwrap();
        assert!(!mark.invalid && mark.text.contains("90.0 %"), "{mark:?}");
    }

    #[test]
    fn a_slow_down_that_was_counted_takes_the_repeat_out() {
        let codes = |name: &str, values: &[i64]| {
            let counted = digest(name, ChannelKind::Counter, values);
            let all = marks(&watched(vec![counted]), Used::ALL).into_iter();
            let all = all.filter(|mark| mark.code.starts_with("throttl"));
            all.map(|mark| (mark.code, mark.invalid))
                .collect::<Vec<_>>()
        };
        for name in [
            "cpu.0.throttles",
            "cpu.0.package_throttles",
            "power.over_current.3",
        ] {
            assert_eq!(codes(name, &[5, 5, 6]), [("throttled", true)], "{name}");
            assert_eq!(codes(name, &[5, 5, 5]), [], "{name}");
            // What was set back tells nothing.
            let unknown = [("throttling_unknown", false)];
            assert_eq!(codes(name, &[5, 9, 6]), unknown, "{name}");
        }
    }
}
