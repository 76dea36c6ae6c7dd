//! Rules about EdgeDyno itself: where it may have disturbed what it measured.

use crate::store::rows::CostRow;
use crate::view::RepeatView;

use super::{Evidence, Hit, Level, Rule};

pub(super) const RULES: &[Rule] = &[
    Rule {
        code: "no_spare_cpu",
        level: Level::Warning,
        meaning: "The agent could not keep away from the worker's CPUs: none was left for it. What it did inside the window is in the latencies, and counted under the tool's own cost.",
        check: no_spare_cpu,
    },
    Rule {
        code: "arena_stall",
        level: Level::Warning,
        meaning: "The worker waited between two trials because the agent had not yet read the ring. No trial is longer for it, but the rate is lower and caches may have cooled.",
        check: arena_stall,
    },
    Rule {
        code: "arena_spilled",
        level: Level::Warning,
        meaning: "Trials did not fit on tmpfs and were written to a disk while the repeat ran.",
        check: arena_spilled,
    },
    Rule {
        code: "arena_on_disk",
        level: Level::Warning,
        meaning: "There was no tmpfs for the arena, so trials went to a file on a disk; its write-back may disturb the window.",
        check: arena_on_disk,
    },
];

fn no_spare_cpu(e: &Evidence<'_>) -> Vec<Hit> {
    let crowded = |cost: &CostRow| cost.wall_ns > 0 && cost.cpus.is_empty();
    let hit = costs(e, crowded).next().map(|(repeat, cost)| {
        let share = cost.cpu_time_ns as f64 / cost.wall_ns as f64;
        let text = "no CPU was left for the agent beside the worker's";
        let hit = Hit::of(repeat, text).figure("agent_cpu_share", share);
        // Every repeat of a case has the same CPUs, so one finding says it for all.
        Hit {
            repeat: None,
            ..hit
        }
    });
    hit.into_iter().collect()
}

fn arena_stall(e: &Evidence<'_>) -> Vec<Hit> {
    costs(e, |cost| cost.arena_stalls > 0)
        .map(|(repeat, cost)| {
            let text = format!(
                "the worker waited {} times for the agent",
                cost.arena_stalls
            );
            Hit::of(repeat, text).figure("stalls", cost.arena_stalls)
        })
        .collect()
}

fn arena_spilled(e: &Evidence<'_>) -> Vec<Hit> {
    costs(e, |cost| cost.spilled_bytes > 0)
        .map(|(repeat, cost)| {
            let text = format!(
                "{} bytes of trials went to a disk meanwhile",
                cost.spilled_bytes
            );
            Hit::of(repeat, text).figure("bytes", cost.spilled_bytes)
        })
        .collect()
}

fn arena_on_disk(e: &Evidence<'_>) -> Vec<Hit> {
    let said = |repeat: &&RepeatView| repeat.row.events.iter().any(|x| x.code == "arena_on_disk");
    e.counting()
        .filter(said)
        .map(|repeat| Hit::of(repeat, "the arena was a file on a disk"))
        .collect()
}

/// Costs of counting repeats that a rule is about.
fn costs<'a>(
    e: &'a Evidence<'_>,
    concerns: impl Fn(&CostRow) -> bool + 'a,
) -> impl Iterator<Item = (&'a RepeatView, &'a CostRow)> {
    e.counting()
        .filter_map(|repeat| Some((repeat, repeat.row.cost.as_ref()?)))
        .filter(move |(_, cost)| concerns(cost))
}
