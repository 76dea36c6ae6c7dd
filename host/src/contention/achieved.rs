//! What the stressors of a repeat achieved in its window, by their own count.

use serde::Serialize;

use crate::store::rows::{EffortRow, StressRow, UnitRow};

/// A stressor must reach its target within this share.
pub const OFF_TARGET: f64 = 0.03;

/// Figures by wall and by CPU time must agree within this share.
pub const STARVED: f64 = 0.05;

/// One stressor's window.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Achieved {
    pub stressor: String,
    pub cpus: Vec<u16>,
    pub unit: &'static str,
    pub throttle: &'static str,
    /// Units a second asked for; none at full effort, or where only a share of the time was asked.
    pub target_per_second: Option<f64>,
    /// Units for each second of the wall, all threads together; none where no window was seen.
    pub per_wall_second: Option<f64>,
    /// The same for each second of CPU time of the thread that did it.
    pub per_cpu_second: Option<f64>,
    /// CPU time as a share of the window, the least of its threads.
    pub cpu_share: Option<f64>,
    /// Time ready to run but not running, as a share of the window, the most of its threads.
    pub run_delay_share: Option<f64>,
    /// Every thread was where it was told to be, at its start and at its end; none where that was not read.
    pub placed: Option<bool>,
    /// Why it did not do what it was told to the end.
    pub failure: Option<String>,
    /// Of a tool that counts for itself: what it says it did, in its own currency.
    pub own_count: Option<Vec<String>>,
}

impl Achieved {
    pub fn of(row: &StressRow) -> Self {
        let windows = row.threads.iter().map(|thread| thread.window);
        let windows: Option<Vec<_>> = windows.collect();
        let windows = windows.filter(|all| !all.is_empty());
        let wall = |w: &crate::store::rows::StressWindowRow| (w.end_ns - w.start_ns) as f64 / 1e9;
        let cpu = |w: &crate::store::rows::StressWindowRow| w.cpu_time_ns as f64 / 1e9;
        let sum = |seconds: &dyn Fn(&crate::store::rows::StressWindowRow) -> f64| {
            let rates = windows.as_ref()?.iter();
            let rates = rates.map(|w| w.work as f64 / seconds(w));
            let sum: f64 = rates.sum();
            let is_counted = matches!(row.unit, UnitRow::Bytes | UnitRow::Operations);
            (is_counted && sum.is_finite()).then_some(sum)
        };
        let shares = |of: &dyn Fn(&crate::store::rows::StressWindowRow) -> Option<f64>| {
            let windows = windows.as_ref()?.iter();
            windows
                .map(|w| Some(of(w)? / wall(w)))
                .collect::<Option<Vec<f64>>>()
        };
        let delay = |w: &crate::store::rows::StressWindowRow| Some(w.run_delay_ns? as f64 / 1e9);
        Self {
            stressor: row.stressor.clone(),
            cpus: row.cpus.clone(),
            unit: row.unit.name(),
            throttle: row.throttle.name(),
            target_per_second: match row.effort {
                EffortRow::PerSecond(per_second) => Some(per_second as f64),
                EffortRow::Full | EffortRow::DutyPpm(_) => None,
            },
            per_wall_second: sum(&wall),
            per_cpu_second: sum(&cpu),
            cpu_share: shares(&|w| Some(cpu(w))).and_then(|all| all.into_iter().reduce(f64::min)),
            run_delay_share: shares(&delay).and_then(|all| all.into_iter().reduce(f64::max)),
            placed: placed(row),
            failure: row.failure.as_ref().map(|failure| failure.detail.clone()),
            own_count: (row.unit == UnitRow::Own).then(|| {
                let figures = row.tool.iter().flat_map(|tool| &tool.figures);
                figures.map(|f| format!("{} {}", f.value, f.unit)).collect()
            }),
        }
    }

    /// The figure that its target is held against: by CPU time where it spins, by the wall where it sleeps.
    pub fn paced(&self) -> Option<f64> {
        match self.throttle {
            "sleep" => self.per_wall_second,
            _ => self.per_cpu_second,
        }
    }

    /// How far it is from its target, as a share of it.
    pub fn error(&self) -> Option<f64> {
        Some(self.paced()? / self.target_per_second? - 1.0)
    }

    /// How much of the window it was kept from running: what lacks of its CPU time, or, where it sleeps,
    /// how long it stood ready. A tool of others may wait by itself, which lacks and is nobody's doing, and
    /// its threads may stand behind each other, which lacks nothing: what is both was taken from it.
    pub fn starvation(&self) -> Option<f64> {
        let lack = self.cpu_share.map(|share| (1.0 - share).max(0.0));
        match self.throttle {
            "sleep" => self.run_delay_share,
            _ if self.own_count.is_some() => lack
                .zip(self.run_delay_share)
                .map(|(lack, ready)| lack.min(ready))
                .or(lack),
            _ => lack,
        }
    }
}

/// One thread that was elsewhere decides, however little is known of the others.
fn placed(row: &StressRow) -> Option<bool> {
    let in_place = |cpu: u16, seen: &[u16]| match row.unit {
        // A tool places its own workers, on the CPUs of all of them.
        UnitRow::Own => seen == row.cpus,
        _ => seen == [cpu],
    };
    let read = row.threads.iter().flat_map(|thread| {
        let both = [&thread.cpus_at_start, &thread.cpus_at_end];
        both.map(|seen| Some(in_place(thread.cpu, seen.as_ref()?)))
    });
    let read: Vec<Option<bool>> = read.collect();
    match read.contains(&Some(false)) {
        true => Some(false),
        false => (!read.is_empty() && !read.contains(&None)).then_some(true),
    }
}

/// Bytes a second of all stressors of a repeat by the wall, which is what the board's memory saw; zero
/// where none of them moves any; none where one of them is a tool that counts for itself.
pub fn bytes_per_second(rows: &[StressRow]) -> Option<f64> {
    bytes(rows, |achieved| achieved.per_wall_second)
}

/// The same for each second of the CPU time of the threads that moved them.
pub fn bytes_per_cpu_second(rows: &[StressRow]) -> Option<f64> {
    bytes(rows, |achieved| achieved.per_cpu_second)
}

fn bytes(rows: &[StressRow], of: fn(&Achieved) -> Option<f64>) -> Option<f64> {
    if rows.iter().any(|row| row.unit == UnitRow::Own) {
        return None;
    }
    let moving = rows
        .iter()
        .filter(|row| row.unit == UnitRow::Bytes && row.stressor != "io");
    let rates: Option<Vec<f64>> = moving.map(|row| of(&Achieved::of(row))).collect();
    // From zero: the sum of nothing is minus zero otherwise.
    Some(rates?.iter().fold(0.0, |sum, rate| sum + rate))
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::store::rows::{StressThreadRow, StressWindowRow, ThrottleRow};

    /// One thread that did `work` in a second of the wall and this much CPU time.
    pub(crate) fn row(stressor: &str, effort: EffortRow, work: u64, cpu_ms: i64) -> StressRow {
        StressRow {
            stressor: stressor.into(),
            cpus: vec![1],
            effort,
            throttle: ThrottleRow::Spin,
            unit: match stressor {
                "spin" => UnitRow::Nothing,
                _ => UnitRow::Bytes,
            },
            working_set_bytes: Some(64 << 20),
            huge_page_bytes: None,
            notes: Vec::new(),
            ready_ns: Some(1),
            started_ns: Some(2),
            stopped_ns: Some(3),
            failure: None,
            exit: None,
            tool: None,
            threads: vec![StressThreadRow {
                cpu: 1,
                tid: 7,
                cpus_at_start: Some(vec![1]),
                cpus_at_end: Some(vec![1]),
                window: Some(StressWindowRow {
                    start_ns: 1_000_000_000,
                    end_ns: 2_000_000_000,
                    work,
                    cpu_time_ns: cpu_ms * 1_000_000,
                    run_delay_ns: Some((1_000 - cpu_ms) * 1_000_000),
                }),
            }],
        }
    }

    #[test]
    fn a_starved_stressor_shows_by_the_wall_and_not_by_its_cpu_time() {
        let achieved = Achieved::of(&row("mem_read", EffortRow::PerSecond(8_000), 2_000, 250));
        assert_eq!(achieved.per_wall_second, Some(2_000.0));
        assert_eq!(achieved.per_cpu_second, Some(8_000.0));
        assert_eq!(achieved.error(), Some(0.0));
        assert_eq!(achieved.starvation(), Some(0.75));
        assert_eq!(achieved.run_delay_share, Some(0.75));
        assert_eq!(achieved.placed, Some(true));
    }

    #[test]
    fn a_sleeper_is_judged_by_the_wall() {
        let mut row = row("mem_read", EffortRow::PerSecond(2_000), 2_000, 250);
        row.throttle = ThrottleRow::Sleep;
        row.threads[0].window.as_mut().unwrap().run_delay_ns = Some(10_000_000);
        let achieved = Achieved::of(&row);
        assert_eq!(achieved.error(), Some(0.0));
        assert_eq!(achieved.starvation(), Some(0.01));
    }

    #[test]
    fn a_tool_is_starved_as_far_as_it_stood_ready_and_did_not_run() {
        // (CPU time, time ready) of a second, in ms; half of the CPU lacks, or all was had.
        let starved = |cpu_ms, ready_ms: Option<i64>| {
            let mut tool = row("stressapptest", EffortRow::Full, 0, cpu_ms);
            tool.unit = UnitRow::Own;
            let window = tool.threads[0].window.as_mut().unwrap();
            window.run_delay_ns = ready_ms.map(|ms| ms * 1_000_000);
            Achieved::of(&tool).starvation().unwrap()
        };
        assert!(
            (starved(900, Some(20)) - 0.02).abs() < 1e-12,
            "it waited by itself"
        );
        assert!((starved(500, Some(800)) - 0.5).abs() < 1e-12, "others ran");
        assert_eq!(
            starved(1_000, Some(300)),
            0.0,
            "its threads waited for each other"
        );
        // An agent of before, or a kernel that does not tell.
        assert!((starved(900, None) - 0.1).abs() < 1e-12);
    }

    #[test]
    fn threads_add_up_and_a_missing_window_is_unknown() {
        let mut both = row("mem_read", EffortRow::Full, 3_000, 1_000);
        both.threads.push(both.threads[0].clone());
        both.threads[1].cpu = 2;
        let achieved = Achieved::of(&both);
        assert_eq!(achieved.per_wall_second, Some(6_000.0));
        assert_eq!((achieved.target_per_second, achieved.error()), (None, None));
        assert_eq!(achieved.placed, Some(false), "the second was seen on CPU 1");
        both.threads[1].window = None;
        assert_eq!(Achieved::of(&both).per_wall_second, None);
        assert_eq!(bytes_per_second(&[both.clone()]), None);
        let nothing = bytes_per_second(&[row("spin", EffortRow::Full, 0, 1_000)]);
        assert_eq!(nothing.map(f64::to_bits), Some(0));
        let mixed = [
            row("spin", EffortRow::Full, 0, 900),
            row("chase", EffortRow::Full, 64, 900),
        ];
        assert_eq!(bytes_per_second(&mixed), Some(64.0));
    }

    #[test]
    fn a_place_that_was_not_read_is_unknown_and_one_elsewhere_is_known() {
        let placed = |start: Option<Vec<u16>>, end: Option<Vec<u16>>| {
            let mut row = row("mem_read", EffortRow::Full, 1, 1_000);
            row.threads[0].cpus_at_start = start;
            row.threads[0].cpus_at_end = end;
            Achieved::of(&row).placed
        };
        let (here, there) = (Some(vec![1]), Some(vec![0, 1]));
        assert_eq!(placed(here.clone(), here.clone()), Some(true));
        assert_eq!(placed(here.clone(), None), None);
        assert_eq!(placed(None, None), None);
        assert_eq!(placed(None, there), Some(false));
        let mut none = row("mem_read", EffortRow::Full, 1, 1_000);
        none.threads.clear();
        assert_eq!(Achieved::of(&none).placed, None, "nothing is not all");
    }

    #[test]
    fn what_a_tool_moves_beside_others_nobody_knows() {
        let mut tool = row("stressapptest", EffortRow::Full, 0, 500);
        tool.unit = UnitRow::Own;
        let both = [tool, row("mem_read", EffortRow::Full, 3_000, 500)];
        for of in [bytes_per_second, bytes_per_cpu_second] {
            assert_eq!(of(&both[..1]), None, "not zero");
            assert_eq!(of(&both), None);
        }
        assert_eq!(bytes_per_second(&both[1..]), Some(3_000.0));
        assert_eq!(bytes_per_cpu_second(&both[1..]), Some(6_000.0));
    }
}
