//! Rules about the load of a case: whether it was what its condition says.

use crate::contention::achieved::{Achieved, STARVED};
use crate::contention::validity::marks;
use crate::telemetry::engines::Used;
use crate::view::RepeatView;

use super::{Evidence, Hit, Level, Rule};

pub(super) const RULES: &[Rule] = &[
    Rule {
        code: "load_starved",
        level: Level::Invalid,
        meaning: "A stressor was kept from running for more than 5 % of the window: something else used its CPU, so the load was lower than the condition says. Its figure by CPU time tells what it would have been. A tool of others, which may wait by itself, was kept from running as far as its CPU time lacks and its threads stood ready.",
        check: starved,
    },
    Rule {
        code: "load_off_target",
        level: Level::Invalid,
        meaning: "A stressor missed its target by more than 3 %: by CPU time where it spins, by the wall where it sleeps or waits for a disk, and of a share of the time by what it worked between its rests. The target may be more than the memory gives beside the model.",
        check: off_target,
    },
    Rule {
        code: "load_moved",
        level: Level::Invalid,
        meaning: "The kernel did not keep a stressor's thread on its one CPU.",
        check: moved,
    },
    marked(
        "load_unknown",
        "What a stressor did in the window was not seen, or on which CPU it did it, or, of one that sleeps between two pieces of work, how long it was kept from running: nobody can say which load the case had.",
    ),
    marked(
        "load_failed",
        "A stressor failed before the repeat was over; its record has the reason, what it had done, and how its process ended.",
    ),
    marked(
        "tenant_failed",
        "Another model of the condition failed, or trials of it did: for a part of the window at least the case ran without it.",
    ),
    marked(
        "tenant_off_rate",
        "Another model of the condition ran more than 3 % off the rate it was asked for. A rate is more than it can do when its latency beside the case is longer than its period.",
    ),
    marked(
        "tenant_moved",
        "A thread of another model of the condition was not on its CPUs when the window was over.",
    ),
    marked(
        "tenant_unknown",
        "Another model of the condition began fewer than two trials in the window, or nobody read on which CPUs it was: what load it was cannot be said. A longer window has more trials.",
    ),
    Rule {
        code: "load_on_own_cpu",
        level: Level::Warning,
        meaning: "A stressor or another model had a CPU of the model: what is measured is how the two share it.",
        check: on_own_cpu,
    },
];

/// A rule that fires where an experiment marks a repeat with the same code.
const fn marked(code: &'static str, meaning: &'static str) -> Rule {
    Rule {
        code,
        level: Level::Invalid,
        meaning,
        check: of_marks,
    }
}

/// What each stressor of a counting repeat achieved.
fn achieved<'a>(e: &'a Evidence<'_>) -> impl Iterator<Item = (&'a RepeatView, Achieved)> {
    let repeats = e.counting();
    repeats.flat_map(|repeat| {
        let rows = repeat.row.stress.iter();
        rows.map(move |row| (repeat, Achieved::of(row)))
    })
}

/// Marks of tenants and failed stressors, as an experiment has them.
fn of_marks(e: &Evidence<'_>) -> Vec<Hit> {
    let used = Used::of_case(&e.view.entry.case);
    let of_repeat = |repeat| {
        let marks = marks(repeat, used).into_iter();
        marks.map(move |mark| (repeat, mark))
    };
    let marks = e.counting().flat_map(of_repeat);
    let of_code = marks.filter(|(_, mark)| mark.code == e.code);
    of_code
        .map(|(repeat, mark)| Hit::of(repeat, mark.text))
        .collect()
}

fn starved(e: &Evidence<'_>) -> Vec<Hit> {
    let hit = |(repeat, achieved): (&RepeatView, Achieved)| {
        let lack = achieved.starvation().filter(|lack| *lack > STARVED)?;
        let text = format!(
            "{} was kept from running for {:.1} % of the window",
            achieved.stressor,
            lack * 100.0
        );
        Some(Hit::of(repeat, text).figure("kept_from_running_share", lack))
    };
    achieved(e).filter_map(hit).collect()
}

fn off_target(e: &Evidence<'_>) -> Vec<Hit> {
    let hit = |(repeat, achieved): (&RepeatView, Achieved)| {
        let error = achieved.off_target()?;
        let text = format!(
            "{} was {:+.1} % off its target",
            achieved.stressor,
            error * 100.0
        );
        let hit = Hit::of(repeat, text);
        Some(match achieved.target_duty {
            Some(target) => hit
                .figure("target_duty_share", target)
                .figure("achieved_duty_share", achieved.duty),
            None => hit
                .figure("target_per_second", achieved.target_per_second)
                .figure("achieved_per_second", achieved.paced()),
        })
    };
    achieved(e).filter_map(hit).collect()
}

fn moved(e: &Evidence<'_>) -> Vec<Hit> {
    let elsewhere = achieved(e).filter(|(_, achieved)| achieved.placed == Some(false));
    let hit = |(repeat, achieved): (&RepeatView, Achieved)| {
        Hit::of(repeat, format!("{} was not on its CPU", achieved.stressor))
    };
    elsewhere.map(hit).collect()
}

/// One finding for the case: every repeat of it has the same CPUs.
fn on_own_cpu(e: &Evidence<'_>) -> Vec<Hit> {
    let shared = e.counting().find_map(|repeat| {
        let own = &repeat.row.placements.last()?.wanted;
        let stress = repeat.row.stress.iter().flat_map(|row| &row.cpus);
        let tenants = repeat.row.tenants.iter();
        let tenants = tenants.flat_map(|row| &row.tenant.cpus);
        stress.chain(tenants).copied().find(|cpu| own.contains(cpu))
    });
    let text = |cpu: u16| format!("CPU {cpu} runs the model and something of its load");
    shared
        .map(|cpu| Hit::new(text(cpu)).figure("cpu", cpu))
        .into_iter()
        .collect()
}
