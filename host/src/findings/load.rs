//! Rules about who else used CPUs and memory, by what was watched during the window.

use crate::store::rows::UnitRow;
use crate::telemetry::{Digest, Figures};
use crate::ui::units;
use crate::view::RepeatView;

use super::{Evidence, Hit, Level, Rule, measured_cpus};

/// Shorter windows are too few ticks of the kernel's clock for a share.
const SHORTEST_NS: i64 = 500_000_000;

/// CPU time of others on measured CPUs above this share of one CPU is told.
const FOREIGN: f64 = 0.05;

/// Waiting for a CPU above this share of the window is told.
const RUN_DELAY: f64 = 0.01;

/// Stolen time above this share of one CPU is told.
pub(super) const STOLEN: f64 = 0.005;

/// Less available memory than this share of all is told.
const LOW_MEMORY: f64 = 0.05;

/// A worker that grew by this share and by this much within the window.
const GREW: f64 = 0.05;
const GREW_BYTES: i64 = 8 << 20;

pub(super) const RULES: &[Rule] = &[
    Rule {
        code: "foreign_load",
        level: Level::Warning,
        meaning: "Others used more than 5 % of one CPU on the measured CPUs during the window: their busy time less the CPU time of the worker, of stressors that the condition puts there, and of the agent where it had no CPU of its own. Beside another model on the measured CPUs it is not known. The kernel counts busy time in ticks of 10 ms, so windows under half a second tell nothing.",
        check: foreign_load,
    },
    Rule {
        code: "run_queue_delay",
        level: Level::Warning,
        meaning: "Threads of the worker wanted to run and waited for a CPU for more than 1 % of the window, all threads together. Windows under half a second tell nothing: one wait is too large a share of them.",
        check: run_queue_delay,
    },
    Rule {
        code: "memory_near_full",
        level: Level::Warning,
        meaning: "Less than 5 % of the board's memory was available at some moment of the window.",
        check: memory_near_full,
    },
    Rule {
        code: "swapping",
        level: Level::Warning,
        meaning: "Pages went to swap or came back from it during the window.",
        check: swapping,
    },
    Rule {
        code: "memory_growth",
        level: Level::Warning,
        meaning: "The worker's resident memory grew by more than 5 % and 8 MiB within the window: something keeps what each trial makes.",
        check: memory_growth,
    },
];

fn foreign_load(e: &Evidence<'_>) -> Vec<Hit> {
    e.counting().filter_map(foreign).collect()
}

fn foreign(repeat: &RepeatView) -> Option<Hit> {
    let share = foreign_share(repeat)?;
    (share > FOREIGN).then(|| {
        let text = format!(
            "others used {} of a CPU on the measured CPUs",
            units::percent(share)
        );
        Hit::of(repeat, text).figure("share_of_one_cpu", share)
    })
}

/// What others used of the measured CPUs, as a share of one CPU.
pub(crate) fn foreign_share(repeat: &RepeatView) -> Option<f64> {
    let window = long_window(repeat)?;
    let cpus: Vec<u16> = measured_cpus(repeat).collect();
    let busy = cpus
        .iter()
        .map(|cpu| growth(repeat, &format!("cpu.{cpu}.busy")))
        .sum::<Option<f64>>()
        .filter(|_| !cpus.is_empty())?;
    let worker = growth(repeat, "worker.cpu")?;
    // Where the agent could not keep away, what it used is told as the tool's own cost.
    let own = repeat.row.cost.as_ref().filter(|cost| cost.cpus.is_empty());
    let own = own.map_or(0.0, |cost| cost.cpu_time_ns as f64);
    let load = load_on(repeat, &cpus, window)?;
    // Ticks may fall short of what was used.
    Some(((busy - worker - own - load) / window).max(0.0))
}

/// CPU time that what the condition asks for took on these CPUs in the window: the case's load, and nobody
/// else's. None where it is not known: a tool may be on any of its CPUs, and of another model it is not counted.
fn load_on(repeat: &RepeatView, cpus: &[u16], window_ns: f64) -> Option<f64> {
    let is_here = |cpu: &u16| cpus.contains(cpu);
    let mut tenants = repeat.row.tenants.iter();
    if tenants.any(|row| row.tenant.cpus.iter().any(is_here)) {
        return None;
    }
    let mut load = 0.0;
    for row in repeat
        .row
        .stress
        .iter()
        .filter(|row| row.cpus.iter().any(is_here))
    {
        let stays = row.unit != UnitRow::Own;
        if row.threads.is_empty() || (!stays && !row.cpus.iter().all(is_here)) {
            return None;
        }
        for thread in row.threads.iter().filter(|t| !stays || is_here(&t.cpu)) {
            let seen = thread.window?;
            // Its window and that of the trials begin and end a moment apart.
            let share = seen.cpu_time_ns as f64 / (seen.end_ns - seen.start_ns) as f64;
            load += share * window_ns;
        }
    }
    Some(load).filter(|load| load.is_finite())
}

fn run_queue_delay(e: &Evidence<'_>) -> Vec<Hit> {
    let delayed = |repeat: &RepeatView| {
        let share = run_delay(repeat)?;
        (share > RUN_DELAY).then(|| {
            let text = format!(
                "threads of the worker waited for a CPU for {} of the window",
                units::percent(share)
            );
            Hit::of(repeat, text).figure("share_of_window", share)
        })
    };
    e.counting().filter_map(delayed).collect()
}

/// How long threads of the worker waited for a CPU, all together, as a share of the window.
pub(super) fn run_delay(repeat: &RepeatView) -> Option<f64> {
    Some(growth(repeat, "worker.run_delay")? / long_window(repeat)?)
}

/// Stolen time on the measured CPUs as a share of one CPU, where it was watched.
pub(super) fn stolen(repeat: &RepeatView) -> Option<f64> {
    let window = long_window(repeat)?;
    let cpus: Vec<u16> = measured_cpus(repeat).collect();
    let each = cpus
        .iter()
        .map(|cpu| growth(repeat, &format!("cpu.{cpu}.steal")));
    let stolen: f64 = each.sum::<Option<f64>>()?;
    (!cpus.is_empty()).then_some(stolen / window)
}

fn memory_near_full(e: &Evidence<'_>) -> Vec<Hit> {
    let low = |repeat: &RepeatView| {
        let (least, share) = memory_left(repeat)?;
        (share < LOW_MEMORY).then(|| {
            let text = format!(
                "only {} of memory was available at some moment",
                units::bytes(least as f64)
            );
            Hit::of(repeat, text)
                .figure("available_bytes", least)
                .figure("share", share)
        })
    };
    e.counting().filter_map(low).collect()
}

/// The least memory that was available within the window, in bytes and as a share of all.
pub(super) fn memory_left(repeat: &RepeatView) -> Option<(i64, f64)> {
    let least = figures(repeat, "mem.available")?.min;
    let total = figures_of_all(repeat, "mem.total")?;
    Some((least, least as f64 / total.max(1.0)))
}

fn swapping(e: &Evidence<'_>) -> Vec<Hit> {
    let swapped = |repeat: &RepeatView| {
        let pages = |name: &str| growth(repeat, name).map(f64::round);
        let (out, back) = (pages("mem.swapped_out"), pages("mem.swapped_in"));
        let moved = out.unwrap_or(0.0) + back.unwrap_or(0.0);
        let shown = |pages: Option<f64>| pages.map_or("unknown".into(), |n| format!("{n:.0}"));
        (moved >= 1.0).then(|| {
            let text = format!(
                "pages that went to swap: {}, that came back: {}",
                shown(out),
                shown(back)
            );
            Hit::of(repeat, text)
                .figure("pages_out", out)
                .figure("pages_in", back)
        })
    };
    e.counting().filter_map(swapped).collect()
}

fn memory_growth(e: &Evidence<'_>) -> Vec<Hit> {
    let grown = |repeat: &RepeatView| {
        long_window(repeat)?;
        let Figures { first, last, .. } = figures(repeat, "worker.rss")?;
        let by = last - first;
        let share = by as f64 / (first as f64).max(1.0);
        (share > GREW && by > GREW_BYTES).then(|| {
            let text = format!(
                "the worker's memory grew by {} within the window",
                units::bytes(by as f64)
            );
            Hit::of(repeat, text)
                .figure("bytes", by)
                .figure("share", share)
        })
    };
    e.counting().filter_map(grown).collect()
}

/// Length of the window in nanoseconds, where it is long enough for shares.
fn long_window(repeat: &RepeatView) -> Option<f64> {
    let length = repeat.trials.window?.length_ns();
    (length >= SHORTEST_NS).then_some(length as f64)
}

fn find<'a>(repeat: &'a RepeatView, name: &str) -> Option<&'a Digest> {
    repeat
        .telemetry
        .iter()
        .find(|digest| digest.channel.name == name)
}

/// How much a counter grew within the window.
fn growth(repeat: &RepeatView, name: &str) -> Option<f64> {
    find(repeat, name)?.growth.map(|growth| growth.by)
}

fn figures(repeat: &RepeatView, name: &str) -> Option<Figures> {
    find(repeat, name)?.figures
}

/// The latest value, also from outside the window.
fn figures_of_all(repeat: &RepeatView, name: &str) -> Option<f64> {
    let digest = find(repeat, name)?;
    digest.latest.map(|value| value as f64)
}
