//! Rules about threads, CPUs and settings: requested is not observed.

use crate::store::rows::{MomentRow, PlacementRow, ShapeRow};
use crate::summary::PlacementSeen;
use crate::view::RepeatView;

use super::clocks::is_clock;
use super::{Evidence, Hit, Level, Rule};

pub(super) const RULES: &[Rule] = &[
    Rule {
        code: "placement_outside_mask",
        level: Level::Warning,
        meaning: "The kernel let a thread of the worker run on CPUs outside the set asked for. Before the window such threads are bound again; after it they ran where they should not.",
        check: placement_outside_mask,
    },
    Rule {
        code: "threads_fewer",
        level: Level::Warning,
        meaning: "Fewer threads worked during the window than were asked for. One that works was on a CPU for at least 5 % of it, or for a quarter of the busiest thread's time.",
        check: threads_fewer,
    },
    Rule {
        code: "threads_more",
        level: Level::Warning,
        meaning: "More threads worked during the window than were asked for, and together they used more CPU time than that many could. Threads that take turns are not meant.",
        check: threads_more,
    },
    Rule {
        code: "threads_share_cpus",
        level: Level::Warning,
        meaning: "More threads were asked for than the worker had CPUs: they took turns, and waiting for one another is in the latency.",
        check: threads_share_cpus,
    },
    Rule {
        code: "effective_differs",
        level: Level::Warning,
        meaning: "A setting or shape read back from the loaded runtime is not the one asked for.",
        check: effective_differs,
    },
];

fn placement_outside_mask(e: &Evidence<'_>) -> Vec<Hit> {
    let of_repeat = |repeat: &RepeatView| -> Vec<Hit> {
        let placements = repeat.row.placements.iter();
        placements
            .filter_map(|placement| outside(repeat, placement))
            .collect()
    };
    e.view.repeats.iter().flat_map(of_repeat).collect()
}

fn outside(repeat: &RepeatView, placement: &PlacementRow) -> Option<Hit> {
    let strays = |cpu: &&u16| !placement.wanted.contains(cpu);
    let astray: Vec<_> = placement
        .threads
        .iter()
        .filter(|thread| thread.cpus.iter().any(|cpu| strays(&cpu)))
        .collect();
    let mut cpus: Vec<u16> = astray
        .iter()
        .flat_map(|thread| thread.cpus.iter().filter(strays).copied())
        .collect();
    cpus.sort_unstable();
    cpus.dedup();
    let after = placement.moment == MomentRow::AfterWindow;
    let then = if after {
        "the window ran so"
    } else {
        "they were bound again before the window"
    };
    let text = format!(
        "{} of {} threads could run on CPUs {cpus:?} outside {:?} ({}); {then}",
        astray.len(),
        placement.threads.len(),
        placement.wanted,
        placement.moment.name(),
    );
    (!astray.is_empty()).then(|| {
        Hit::of(repeat, text)
            .figure("threads", astray.len())
            .figure("cpus", cpus.clone())
            .figure("moment", placement.moment.name())
    })
}

fn threads_fewer(e: &Evidence<'_>) -> Vec<Hit> {
    compare_threads(&e.summary.placement, 0, |busy, asked| busy < asked)
}

/// Threads between operators may work besides those inside one.
/// CPU time beyond what the threads asked for could use, over the kernel's own inexactness.
const MORE: f64 = 1.05;

fn threads_more(e: &Evidence<'_>) -> Vec<Hit> {
    let inter = e.summary.case.threads.inter;
    let besides = if inter > 1 { inter } else { 0 };
    let share = e.summary.placement.cpu_share.unwrap_or(f64::INFINITY);
    let beyond = |most: u32| share > f64::from(most) * MORE;
    compare_threads(&e.summary.placement, besides, |busy, most| {
        busy > most && beyond(most)
    })
}

fn compare_threads(
    placement: &PlacementSeen,
    besides: u32,
    differs: impl Fn(u32, u32) -> bool,
) -> Vec<Hit> {
    let (Some(asked), Some(busy)) = (placement.threads_requested, placement.threads_busy) else {
        return Vec::new();
    };
    if !differs(busy, asked + besides) {
        return Vec::new();
    }
    let hit = Hit::new(format!(
        "{busy} threads worked, {} were asked for",
        asked + besides
    ));
    vec![
        hit.figure("requested", asked + besides)
            .figure("busy", busy),
    ]
}

fn threads_share_cpus(e: &Evidence<'_>) -> Vec<Hit> {
    let placement = &e.summary.placement;
    let (Some(threads), Some(cpus)) = (placement.threads_requested, &placement.cpus_wanted) else {
        return Vec::new();
    };
    if threads as usize <= cpus.len() || cpus.is_empty() {
        return Vec::new();
    }
    let text = format!(
        "{threads} threads were asked for and had {} CPUs",
        cpus.len()
    );
    vec![
        Hit::new(text)
            .figure("threads", threads)
            .figure("cpus", cpus.len()),
    ]
}

fn effective_differs(e: &Evidence<'_>) -> Vec<Hit> {
    // Held clocks have a rule of their own.
    let settings = e.summary.settings.iter();
    let settings = settings.filter(|setting| !is_clock(&setting.name));
    let settings = settings.filter_map(|setting| {
        let (asked, found) = (setting.requested.as_ref()?, setting.observed.as_ref()?);
        let text = format!("{} is {found}, {asked} was asked for", setting.name);
        let hit = Hit::new(text)
            .figure("requested", asked.as_str())
            .figure("observed", found.as_str());
        (asked != found).then_some(hit)
    });
    let shapes = e
        .summary
        .case
        .shapes
        .iter()
        .filter_map(|asked| shape_differs(e, asked));
    settings.chain(shapes).collect()
}

fn shape_differs(e: &Evidence<'_>, asked: &ShapeRow) -> Option<Hit> {
    let model = e.summary.model.as_ref()?;
    let input = model
        .inputs
        .iter()
        .find(|input| input.name == asked.input)?;
    let found = input.effective.as_ref()?;
    let text = format!(
        "input {} has shape {found:?}, {:?} was asked for",
        asked.input, asked.dims
    );
    let hit = Hit::new(text)
        .figure("requested", asked.dims.clone())
        .figure("observed", found.clone());
    (*found != asked.dims).then_some(hit)
}
