//! What the stressors of a repeat achieved in its window, by their own count.

use edgedyno_shared::load::{DUTY_TURN, IO_PIECE, Kind, kind_of};
use serde::Serialize;

use crate::store::rows::{EffortRow, StressRow, StressWindowRow, ThrottleRow, UnitRow};

/// A stressor must reach its target within this share.
pub const OFF_TARGET: f64 = 0.03;

/// Figures by wall and by CPU time must agree within this share.
pub const STARVED: f64 = 0.05;

/// What the edges of a window may move a figure by at most.
const MOST_EDGES: f64 = 0.2;

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
    /// The same for each second of CPU time of the thread that did it; of a rate, which all threads share, for
    /// each second of their mean CPU time.
    pub per_cpu_second: Option<f64>,
    /// Share of the time asked for; none where something else was.
    pub target_duty: Option<f64>,
    /// Share of the time in which its threads worked and did not rest, of their CPU time, or of the wall where
    /// they leave the CPU to rest; none where no share was asked.
    pub duty: Option<f64>,
    /// How long it was watched, in seconds: the least of its threads.
    pub window_s: Option<f64>,
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
    /// It leaves its CPU between two pieces of work, or while it waits for one to be done.
    #[serde(skip)]
    is_by_wall: bool,
}

fn wall(window: &StressWindowRow) -> f64 {
    (window.end_ns - window.start_ns) as f64 / 1e9
}

fn cpu(window: &StressWindowRow) -> f64 {
    window.cpu_time_ns as f64 / 1e9
}

/// Units a second, each thread by its own time.
fn rates(windows: &[StressWindowRow], time: fn(&StressWindowRow) -> f64) -> f64 {
    windows.iter().map(|w| w.work as f64 / time(w)).sum()
}

/// Units for each second of the CPU time that threads had in the mean.
fn by_mean_cpu(windows: &[StressWindowRow]) -> f64 {
    let work: f64 = windows.iter().map(|w| w.work as f64).sum();
    let time: f64 = windows.iter().map(cpu).sum();
    work * windows.len() as f64 / time
}

/// The share of their time that threads worked, in the mean.
fn duty(windows: &[StressWindowRow], time: fn(&StressWindowRow) -> f64) -> Option<f64> {
    let shares = windows
        .iter()
        .map(|w| Some(w.worked_ns? as f64 / 1e9 / time(w)));
    let shares: Vec<f64> = shares.collect::<Option<_>>()?;
    crate::stats::mean::arithmetic(&shares).filter(|duty| duty.is_finite())
}

impl Achieved {
    pub fn of(row: &StressRow) -> Self {
        let windows = row.threads.iter().map(|thread| thread.window);
        let windows: Option<Vec<StressWindowRow>> = windows.collect();
        let windows = windows.filter(|all| !all.is_empty());
        let is_counted = matches!(row.unit, UnitRow::Bytes | UnitRow::Operations);
        let figure = |of: &dyn Fn(&[StressWindowRow]) -> f64| {
            let figure = of(windows.as_ref()?);
            (is_counted && figure.is_finite()).then_some(figure)
        };
        // Which thread of a rate takes a piece is chance, and one that had less of its CPU takes fewer.
        let by_cpu: fn(&[StressWindowRow]) -> f64 = match row.effort {
            EffortRow::PerSecond(_) => by_mean_cpu,
            EffortRow::Full | EffortRow::DutyPpm(_) => |windows| rates(windows, cpu),
        };
        let shares = |of: &dyn Fn(&StressWindowRow) -> Option<f64>| {
            let windows = windows.as_ref()?.iter();
            windows
                .map(|w| Some(of(w)? / wall(w)))
                .collect::<Option<Vec<f64>>>()
        };
        let delay = |w: &StressWindowRow| Some(w.run_delay_ns? as f64 / 1e9);
        let waits = kind_of(&row.stressor).is_some_and(Kind::waits);
        let is_by_wall = waits || row.throttle == ThrottleRow::Sleep;
        Self {
            stressor: row.stressor.clone(),
            cpus: row.cpus.clone(),
            unit: row.unit.name(),
            throttle: row.throttle.name(),
            target_per_second: match row.effort {
                EffortRow::PerSecond(per_second) => Some(per_second as f64),
                EffortRow::Full | EffortRow::DutyPpm(_) => None,
            },
            per_wall_second: figure(&|windows| rates(windows, wall)),
            per_cpu_second: figure(&by_cpu),
            target_duty: match row.effort {
                EffortRow::DutyPpm(ppm) => Some(f64::from(ppm) / 1e6),
                EffortRow::Full | EffortRow::PerSecond(_) => None,
            },
            duty: windows.as_ref().and_then(|windows| {
                let time = if is_by_wall { wall } else { cpu };
                duty(windows, time)
            }),
            window_s: windows
                .as_ref()
                .and_then(|all| all.iter().map(wall).reduce(f64::min)),
            is_by_wall,
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

    /// The figure that its target is held against: by CPU time where it spins, by the wall where it sleeps or
    /// waits for something else.
    pub fn paced(&self) -> Option<f64> {
        match self.is_by_wall {
            true => self.per_wall_second,
            false => self.per_cpu_second,
        }
    }

    /// Whether it leaves its CPU between two pieces of work, or while it waits for one to be done.
    pub fn is_by_wall(&self) -> bool {
        self.is_by_wall
    }

    /// How far it is from its target, as a share of it.
    pub fn error(&self) -> Option<f64> {
        let of_duty = || Some(self.duty? / self.target_duty?);
        let of_rate = || Some(self.paced()? / self.target_per_second?);
        Some(of_rate().or_else(of_duty)? - 1.0)
    }

    /// The same where its target was not kept. A window may begin and end within a turn of work and rest, or
    /// within a piece that each thread writes to a disk, which by itself moves the figure a little.
    pub fn off_target(&self) -> Option<f64> {
        let turns = self.target_duty.zip(self.window_s);
        let turns = turns.map_or(0.0, |(duty, window)| {
            DUTY_TURN.as_secs_f64() * (1.0 - duty) / window
        });
        let pieces = self.target_per_second.zip(self.window_s);
        let pieces = pieces.filter(|_| kind_of(&self.stressor).is_some_and(Kind::waits));
        let pieces = pieces.map_or(0.0, |(rate, window)| {
            (IO_PIECE * self.cpus.len() as u64) as f64 / (rate * window)
        });
        // Where that is more than this, the window holds too few pieces to tell anything.
        let edges = (turns + pieces).min(MOST_EDGES);
        self.error()
            .filter(|error| error.abs() > OFF_TARGET + edges)
    }

    /// How much of the window it was kept from running: what lacks of its CPU time, or, where it sleeps,
    /// how long it stood ready. A tool of others may wait by itself, which lacks and is nobody's doing, and
    /// its threads may stand behind each other, which lacks nothing: what is both was taken from it.
    pub fn starvation(&self) -> Option<f64> {
        let lack = self.cpu_share.map(|share| (1.0 - share).max(0.0));
        match self.is_by_wall {
            true => self.run_delay_share,
            false if self.own_count.is_some() => lack
                .zip(self.run_delay_share)
                .map(|(lack, ready)| lack.min(ready))
                .or(lack),
            false => lack,
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

/// Bytes a second of all stressors of a repeat by the wall, which is what the board's memory saw. Zero where
/// none of them moves any: a disk's are none, nor are those that a cache holds. None where one of them is a
/// tool that counts for itself.
pub fn bytes_per_second(rows: &[StressRow]) -> Option<f64> {
    bytes(rows, |achieved| achieved.per_wall_second)
}

/// The same for each second of the CPU time of the threads that moved them.
pub fn bytes_per_cpu_second(rows: &[StressRow]) -> Option<f64> {
    bytes(rows, |achieved| achieved.per_cpu_second)
}

/// Whether what it counts is traffic of the board's memory.
pub fn moves_memory(row: &StressRow) -> bool {
    kind_of(&row.stressor).is_some_and(Kind::moves_memory)
}

fn bytes(rows: &[StressRow], of: fn(&Achieved) -> Option<f64>) -> Option<f64> {
    if rows.iter().any(|row| row.unit == UnitRow::Own) {
        return None;
    }
    let moving = rows.iter().filter(|row| moves_memory(row));
    let rates: Option<Vec<f64>> = moving.map(|row| of(&Achieved::of(row))).collect();
    // From zero: the sum of nothing is minus zero otherwise.
    Some(rates?.iter().fold(0.0, |sum, rate| sum + rate))
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::store::rows::StressThreadRow;

    /// One thread that did `work` in a second of the wall and this much CPU time.
    pub(crate) fn row(stressor: &str, effort: EffortRow, work: u64, cpu_ms: i64) -> StressRow {
        StressRow {
            stressor: stressor.into(),
            cpus: vec![1],
            effort,
            throttle: ThrottleRow::Spin,
            unit: match stressor {
                "spin" => UnitRow::Nothing,
                _ if stressor.starts_with("cpu_") => UnitRow::Operations,
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
                    worked_ns: None,
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
    fn what_waits_for_a_disk_is_judged_by_the_wall_and_was_not_kept_from_running() {
        // 2000 bytes in a second, of which it had the CPU for 50 ms and stood ready for 10.
        let mut row = row("io", EffortRow::PerSecond(2_000), 2_000, 50);
        row.threads[0].window.as_mut().unwrap().run_delay_ns = Some(10_000_000);
        let achieved = Achieved::of(&row);
        assert_eq!(achieved.throttle, "spin");
        assert_eq!(achieved.paced(), Some(2_000.0));
        assert_eq!((achieved.error(), achieved.off_target()), (Some(0.0), None));
        assert_eq!(achieved.starvation(), Some(0.01));
        assert_eq!(bytes_per_second(&[row]), Some(0.0), "it is no memory");
    }

    #[test]
    fn what_a_cache_holds_is_no_traffic_of_the_memory() {
        let thrash = row("cache_thrash", EffortRow::Full, 128_000, 1_000);
        assert_eq!(Achieved::of(&thrash).per_wall_second, Some(128_000.0));
        let read = row("mem_read", EffortRow::Full, 64, 1_000);
        assert_eq!(bytes_per_second(&[thrash, read]), Some(64.0));
    }

    #[test]
    fn a_rate_belongs_to_all_threads_however_they_share_it() {
        // A fast CPU did three quarters of it; the slow one had 90 % of its time.
        let mut both = row("mem_read", EffortRow::PerSecond(4_000), 3_000, 1_000);
        both.threads
            .push(row("mem_read", EffortRow::Full, 800, 900).threads.remove(0));
        let achieved = Achieved::of(&both);
        assert_eq!(achieved.per_wall_second, Some(3_800.0));
        // 3800 in a mean of 0.95 s.
        let error = achieved.error().unwrap();
        assert!(error.abs() < 1e-12, "{error}");
        both.effort = EffortRow::Full;
        let each = Achieved::of(&both).per_cpu_second.unwrap();
        assert!((each - (3_000.0 + 800.0 / 0.9)).abs() < 1e-9, "{each}");
    }

    #[test]
    fn a_share_of_the_time_is_held_against_the_work_between_rests() {
        let worked = |ppm, worked_ms: Option<i64>, cpu_ms| {
            let mut row = row("cpu_int", EffortRow::DutyPpm(ppm), 7, cpu_ms);
            let window = row.threads[0].window.as_mut().unwrap();
            window.worked_ns = worked_ms.map(|ms| ms * 1_000_000);
            row
        };
        let of = |row| Achieved::of(&row);
        let kept = of(worked(250_000, Some(250), 1_000));
        assert_eq!((kept.target_duty, kept.duty), (Some(0.25), Some(0.25)));
        assert_eq!((kept.error(), kept.target_per_second), (Some(0.0), None));
        // Edges of a second bear 7.5 ms of 250: 3 % and 0.75 %.
        assert_eq!(of(worked(250_000, Some(259), 1_000)).off_target(), None);
        let missed = of(worked(250_000, Some(260), 1_000)).off_target().unwrap();
        assert!((missed - 0.04).abs() < 1e-12, "{missed}");
        // One that spins had less of its CPU, and worked its share of what it had.
        assert_eq!(of(worked(500_000, Some(400), 800)).error(), Some(0.0));
        let mut sleeps = worked(500_000, Some(400), 410);
        sleeps.throttle = ThrottleRow::Sleep;
        assert_eq!(of(sleeps).duty, Some(0.4));
        let before = of(worked(250_000, None, 1_000));
        assert_eq!(
            (before.duty, before.error()),
            (None, None),
            "an older agent"
        );
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
