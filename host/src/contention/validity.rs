//! Which repeats of a loaded case count: those whose load was what it was meant to be, on a board that
//! stayed what it was.

use serde::Serialize;

use super::achieved::{Achieved, STARVED};
use super::tenant;
use crate::findings::throttling;
use crate::telemetry::Digest;
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
    pub(super) fn invalid(code: &'static str, text: String) -> Self {
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
    out.extend(tenant::of(repeat).flat_map(|seen| seen.marks()));
    if let Some(how) = throttling(repeat) {
        out.push(Mark::invalid("throttled", how));
    }
    of_telemetry(&repeat.telemetry, &mut out);
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
        out.push(Mark {
            code: "load_uncounted",
            text,
            invalid: false,
        });
    }
    if !achieved.placed {
        out.push(Mark::invalid(
            "load_moved",
            format!("{name} was not on its CPU"),
        ));
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

/// What telemetry of the window says: a clock that did not stay, a limit that sank, a core that was slowed.
fn of_telemetry(telemetry: &[Digest], out: &mut Vec<Mark>) {
    for digest in telemetry {
        let name = &digest.channel.name;
        let figures = digest.figures.filter(|figures| figures.max > 0);
        if name.ends_with("throttles") {
            let times = digest.growth.map_or(0.0, |growth| growth.by);
            if times > 0.0 {
                let text = format!("{name} counted {times:.0} times in the window");
                out.push(Mark::invalid("throttled", text));
            }
        }
        let is_clock =
            name.starts_with("cpu.") && (name.ends_with(".freq") || name.ends_with(".freq_max"));
        if let Some(figures) = figures.filter(|_| is_clock) {
            let moved = 1.0 - figures.min as f64 / figures.max as f64;
            if moved > CLOCK_MOVED {
                let text = format!("{name} moved by {:.1} % in the window", moved * 100.0);
                out.push(Mark::invalid("clock_moved", text));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use edgedyno_shared::telemetry::ChannelKind;

    use super::super::achieved::tests::row;
    use super::super::testing::digest;
    use super::*;
    use crate::store::rows::{EffortRow, UnitRow};

    fn codes(row: &crate::store::rows::StressRow) -> Vec<&'static str> {
        let mut out = Vec::new();
        of_load(&Achieved::of(row), &mut out);
        let invalid = |mark: &Mark| mark.invalid || mark.code == "load_uncounted";
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
        assert_eq!(codes(&tool), ["load_uncounted", "load_starved"]);
    }

    #[test]
    fn a_clock_that_moved_and_a_core_that_was_slowed_take_the_repeat_out() {
        let codes = |name: &str, kind, values: &[i64]| {
            let mut out = Vec::new();
            of_telemetry(&[digest(name, kind, values)], &mut out);
            out.iter().map(|mark| mark.code).collect::<Vec<_>>()
        };
        let gauge = ChannelKind::Gauge;
        assert!(codes("cpu.policy0.freq", gauge, &[1_000_000, 995_000, 1_000_000]).is_empty());
        assert_eq!(
            codes("cpu.policy0.freq", gauge, &[1_000_000, 980_000]),
            ["clock_moved"]
        );
        assert_eq!(
            codes("cpu.policy0.freq_max", gauge, &[2_000, 1_000]),
            ["clock_moved"]
        );
        assert!(codes("gpu.freq", gauge, &[2_000, 1_000]).is_empty());
        let counter = ChannelKind::Counter;
        assert_eq!(codes("cpu.0.throttles", counter, &[5, 5, 6]), ["throttled"]);
        assert!(codes("cpu.0.throttles", counter, &[5, 5, 5]).is_empty());
    }
}
