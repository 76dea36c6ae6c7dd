//! Rules about the board: what changed, what was busy, what held it back.

use std::collections::BTreeMap;

use crate::store::rows::FactRow;
use crate::summary::{is_lasting, subject_of, suspended, wall_step};
use crate::view::RepeatView;

use super::{Evidence, Hit, Level, Rule, held_back, load};
use crate::ui::units;

/// A clock that moved by more than this share under a governor that holds it.
const CLOCK_MOVED: f64 = 0.02;

/// A one-minute load for each online CPU above this is told.
const LOAD_HIGH: f64 = 0.5;

/// Stolen time above this share of one CPU is told.
const STOLEN: f64 = 0.01;

/// A wall clock that moved further than this against the monotonic one was set, not slewed: in ten seconds
/// the kernel slews by 5 ms at most (500 parts in a million).
const WALL_STEP_NS: i64 = 50_000_000;

/// Ticks of /proc/stat in a second (USER_HZ, the same on every Linux architecture we build for).
const TICKS: f64 = 100.0;

/// Time of an accelerator's engines for others above this share of the repeat is told.
const SHARED: f64 = 0.05;

pub(super) const RULES: &[Rule] = &[
    Rule {
        code: "throttled",
        level: Level::Invalid,
        meaning: "The board was held back (in a `--soak` it is told as soak_throttled): its highest allowed clock fell between the begin and the end of a repeat, or within the window a device that cools by slowing down was at work, or the processor or a power rail counted a slow-down, or a rail stood beyond a limit of its monitor, or the firmware told of one; on a board that shows no such device, a zone at the trip where the kernel slows down.",
        check: throttled,
    },
    Rule {
        code: "environment_changed",
        level: Level::Warning,
        meaning: "A lasting fact (governor, clock limits, kernel, SMT, huge pages), or the clock under a governor that holds it, was not the same at the end of a repeat as at its begin, or in a later repeat.",
        check: environment_changed,
    },
    Rule {
        code: "load_high",
        level: Level::Warning,
        meaning: "The one-minute load average was above 0.5 for each online CPU before the first repeat began: something else was running.",
        check: load_high,
    },
    Rule {
        code: "steal_time",
        level: Level::Warning,
        meaning: "A hypervisor took more than 0.5 % of a CPU's time from the measured CPUs within the window, or, where that was not watched, more than 1 % from the board while the repeat ran.",
        check: steal_time,
    },
    Rule {
        code: "accelerator_shared",
        level: Level::Warning,
        meaning: "Others used an accelerator while a repeat ran: engines worked for them for more than 5 % of its time, or, where the driver counts no time, another process had the device open when the repeat began. Processes of other users are seen by root only.",
        check: accelerator_shared,
    },
    Rule {
        code: "wall_clock_set",
        level: Level::Note,
        meaning: "The board's wall clock was set while a repeat ran. Latencies are of another clock and stay right; the times of day stored with the repeat do not fit together.",
        check: wall_clock_set,
    },
    Rule {
        code: "board_slept",
        level: Level::Warning,
        meaning: "The board was suspended while a repeat ran. Its clock of trials stood still meanwhile, and caches and clocks of the processor did not.",
        check: board_slept,
    },
];

fn wall_clock_set(e: &Evidence<'_>) -> Vec<Hit> {
    let of_repeat = |repeat: &RepeatView| {
        let moved = wall_step(&repeat.row.clock_readings)?;
        let ms = moved as f64 / 1e6;
        let text = format!("the board's wall clock was set by {ms:.0} ms during the repeat");
        let hit = Hit::of(repeat, text).figure("wall_step_ms", ms);
        (moved.abs() > WALL_STEP_NS).then_some(hit)
    };
    e.counting().filter_map(of_repeat).collect()
}

fn board_slept(e: &Evidence<'_>) -> Vec<Hit> {
    let of_repeat = |repeat: &RepeatView| {
        let slept = suspended(&repeat.row.clock_readings).filter(|ns| *ns > 0)?;
        let ms = slept as f64 / 1e6;
        let text = format!("the board slept for {ms:.0} ms during the repeat");
        Some(Hit::of(repeat, text).figure("suspended_ms", ms))
    };
    e.counting().filter_map(of_repeat).collect()
}

fn throttled(e: &Evidence<'_>) -> Vec<Hit> {
    match e.view.entry.rules.is_soak() {
        true => Vec::new(),
        false => held_back(e),
    }
}

pub(super) fn held_back(e: &Evidence<'_>) -> Vec<Hit> {
    let of_repeat = |repeat: &RepeatView| -> Vec<Hit> {
        let changes = changes(repeat).into_iter();
        changes
            .filter(Change::is_throttling)
            .map(|change| change.hit(repeat))
            .chain(held_back::throttled(repeat))
            .collect()
    };
    e.counting().flat_map(of_repeat).collect()
}

/// How the board was held back during a repeat; none when it was not, or when that is not known.
pub(crate) fn throttling(repeat: &RepeatView) -> Option<String> {
    let mut changes = changes(repeat).into_iter();
    let told = changes.find(Change::is_throttling).map(|change| {
        let Change {
            name,
            before,
            after,
        } = change;
        format!("{name} was {before} and then {after}")
    });
    let seen = || held_back::throttled(repeat).into_iter().next();
    told.or_else(|| seen().map(|hit| hit.text))
}

/// Whether anything was seen within the window that would show the board being held back. Limits that facts tell
/// before and after a repeat say that it was, never that it was not.
pub(crate) fn would_tell_throttling(repeat: &RepeatView) -> bool {
    held_back::would_tell_throttling(repeat)
}

fn environment_changed(e: &Evidence<'_>) -> Vec<Hit> {
    let within = |repeat: &RepeatView| -> Vec<Hit> {
        let holds = holds_its_clock(repeat);
        let counts = |change: &Change| {
            is_lasting(&change.name)
                || (holds && change.is_clock() && change.moved_by() > CLOCK_MOVED)
        };
        changes(repeat)
            .into_iter()
            .filter(|change| counts(change) && !change.is_throttling())
            .map(|change| change.hit(repeat))
            .collect()
    };
    let mut hits: Vec<Hit> = e.counting().flat_map(within).collect();
    let begun: Vec<&RepeatView> = e.counting().filter(|r| r.row.start.is_some()).collect();
    for pair in begun.windows(2) {
        let between = differences(start_facts(pair[0]), start_facts(pair[1]));
        let lasting = between
            .into_iter()
            .filter(|change| is_lasting(&change.name));
        hits.extend(lasting.map(|change| change.hit(pair[1])));
    }
    hits.dedup();
    hits
}

fn load_high(e: &Evidence<'_>) -> Vec<Hit> {
    let Some(first) = e
        .view
        .repeats
        .iter()
        .find(|repeat| repeat.row.start.is_some())
    else {
        return Vec::new();
    };
    let value = value_of(start_facts(first), "load_average");
    let load: Option<f64> = value.and_then(|v| v.split_whitespace().next()?.parse().ok());
    let cpus = e.summary.environment.cpus.filter(|&n| n > 0);
    let (Some(load), Some(cpus)) = (load, cpus) else {
        return Vec::new();
    };
    if load / f64::from(cpus) <= LOAD_HIGH {
        return Vec::new();
    }
    let text = format!("the load average was {load} on {cpus} CPUs before the first repeat");
    vec![
        Hit::of(first, text)
            .figure("load", load)
            .figure("cpus", cpus),
    ]
}

fn steal_time(e: &Evidence<'_>) -> Vec<Hit> {
    let stolen = |repeat: &RepeatView| -> Option<Hit> {
        if let Some(share) = load::stolen(repeat) {
            let text = format!(
                "a hypervisor took {} of a CPU from the measured CPUs",
                units::percent(share)
            );
            let hit = || Hit::of(repeat, text).figure("share_of_one_cpu", share);
            return (share > load::STOLEN).then(hit);
        }
        let (start, end) = (repeat.row.start.as_ref()?, repeat.row.end.as_ref()?);
        let ticks = |facts: &[FactRow]| value_of(facts, "steal_ticks")?.parse::<f64>().ok();
        let taken = (ticks(&end.environment)? - ticks(&start.environment)?) / TICKS;
        let seconds = (end.mono_ns - start.mono_ns) as f64 / 1e9;
        let share = Some(taken / seconds).filter(|share| seconds > 0.0 && *share > STOLEN)?;
        let text = format!("a hypervisor took {taken:.2} s of CPU time in {seconds:.1} s");
        Some(Hit::of(repeat, text).figure("share_of_one_cpu", share))
    };
    e.counting().filter_map(stolen).collect()
}

fn accelerator_shared(e: &Evidence<'_>) -> Vec<Hit> {
    let of_repeat = |repeat: &RepeatView| {
        let (start, end) = (repeat.row.start.as_ref()?, repeat.row.end.as_ref()?);
        let users = value_of(&start.environment, "accelerator_users");
        let users = users.filter(|users| *users != "none");
        let ns = |facts: &[FactRow]| {
            value_of(facts, "accelerator_foreign_ns")?
                .parse::<f64>()
                .ok()
        };
        let spent = ns(&start.environment).zip(ns(&end.environment));
        let Some((before, after)) = spent else {
            let users = users?;
            let text = format!("others had an accelerator open: {users}");
            return Some(Hit::of(repeat, text).figure("users", users));
        };
        let share = (after - before) / (end.mono_ns - start.mono_ns) as f64;
        (share > SHARED).then(|| {
            let by = users.map_or_else(String::new, |users| format!(" ({users})"));
            let text = format!(
                "engines of an accelerator worked for others for {} of the repeat{by}",
                units::percent(share)
            );
            Hit::of(repeat, text).figure("share_of_repeat", share)
        })
    };
    e.counting().filter_map(of_repeat).collect()
}

/// A fact that was one thing and is another.
struct Change {
    name: String,
    before: String,
    after: String,
}

impl Change {
    fn is_throttling(&self) -> bool {
        let lowered = self.figures().is_some_and(|(before, after)| after < before);
        subject_of(&self.name) == "clock_max_khz" && lowered
    }

    fn is_clock(&self) -> bool {
        subject_of(&self.name) == "clock_khz"
    }

    /// How far the figure moved, as a share of what it was; 0 when it is not a figure.
    fn moved_by(&self) -> f64 {
        let figures = self.figures().filter(|(before, _)| *before > 0.0);
        figures.map_or(0.0, |(before, after)| (after / before - 1.0).abs())
    }

    fn figures(&self) -> Option<(f64, f64)> {
        Some((self.before.parse().ok()?, self.after.parse().ok()?))
    }

    fn hit(self, repeat: &RepeatView) -> Hit {
        let Self {
            name,
            before,
            after,
        } = self;
        Hit::of(repeat, format!("{name} was {before} and then {after}"))
            .figure("fact", name)
            .figure("before", before)
            .figure("after", after)
    }
}

/// Facts of a repeat that were not the same at its end as at its begin.
fn changes(repeat: &RepeatView) -> Vec<Change> {
    match &repeat.row.end {
        Some(end) => differences(start_facts(repeat), &end.environment),
        None => Vec::new(),
    }
}

/// Facts with a value on both sides that differ; what could not be read says nothing.
fn differences(before: &[FactRow], after: &[FactRow]) -> Vec<Change> {
    let after: BTreeMap<&str, &str> = after.iter().filter_map(known).collect();
    let changed = before.iter().filter_map(known).filter_map(|(name, value)| {
        let now = *after.get(name)?;
        (now != value).then(|| Change {
            name: name.into(),
            before: value.into(),
            after: now.into(),
        })
    });
    changed.collect()
}

fn known(fact: &FactRow) -> Option<(&str, &str)> {
    Some((&fact.name, fact.value.as_deref()?))
}

fn start_facts(repeat: &RepeatView) -> &[FactRow] {
    let start = repeat.row.start.as_ref();
    start.map_or(&[], |start| start.environment.as_slice())
}

fn value_of<'a>(facts: &'a [FactRow], name: &str) -> Option<&'a str> {
    facts
        .iter()
        .find(|fact| fact.name == name)?
        .value
        .as_deref()
}

/// Every governor of the board keeps the clock where it is.
fn holds_its_clock(repeat: &RepeatView) -> bool {
    let governors = start_facts(repeat)
        .iter()
        .filter(|fact| subject_of(&fact.name) == "governor")
        .filter_map(|fact| fact.value.as_deref());
    let mut governors = governors.peekable();
    governors.peek().is_some() && governors.all(|name| matches!(name, "performance" | "userspace"))
}
