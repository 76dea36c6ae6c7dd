//! What ran where: threads of the worker, the CPU it was seen on, and the loads beside it.

use std::collections::BTreeMap;

use super::{Content, Group, Mark, Slice};
use crate::store::rows::{EffortRow, MomentRow, SamplesRow, StressRow};
use crate::ui::units;
use crate::view::RepeatView;

/// Puts a line for each thread of the worker: what share of the window it was on a CPU.
pub(super) fn threads(group: &mut Group, repeat: &RepeatView) {
    let Some(window) = repeat.trials.window else {
        return;
    };
    let at = |moment: MomentRow| {
        let mut placements = repeat.row.placements.iter().rev();
        placements.find(|placement| placement.moment == moment)
    };
    let Some(after) = at(MomentRow::AfterWindow) else {
        return;
    };
    let before = at(MomentRow::BeforeWindow);
    for (number, thread) in after.threads.iter().enumerate() {
        let earlier = before.and_then(|b| b.threads.iter().find(|other| other.tid == thread.tid));
        let spent = earlier.and_then(|e| Some(thread.cpu_time_ns? - e.cpu_time_ns?));
        let share = spent.map(|ns| ns as f64 / window.length_ns().max(1) as f64);
        let name = match share {
            Some(share) => format!("{} of the window on a CPU", units::percent(share)),
            None => "on a CPU for an unknown share of the window".into(),
        };
        let slice = Slice {
            name,
            start_ns: window.start_ns,
            end_ns: window.end_ns,
            notes: vec![
                ("thread", thread.tid.to_string()),
                ("may run on CPUs", crate::plan::axes::cpu_list(&thread.cpus)),
            ],
            flow: None,
        };
        let whose = if number == 0 { "main thread" } else { "thread" };
        let name = format!("{whose} {}", thread.tid);
        group.put(
            name,
            Some("threads of the worker"),
            Content::Slices(vec![slice]),
        );
    }
}

/// Puts a line for each CPU that the worker's main thread was seen on: from one sample to the next.
pub(super) fn cpus(group: &mut Group, samples: &SamplesRow) {
    let read = samples
        .at_ns
        .iter()
        .zip(&samples.value)
        .zip(&samples.quality);
    let read: Vec<(i64, i64)> = read
        .filter(|(_, quality)| **quality == 0)
        .map(|((at, cpu), _)| (*at, *cpu))
        .collect();
    let mut by_cpu: BTreeMap<i64, Vec<Slice>> = BTreeMap::new();
    for pair in read.windows(2) {
        let [(from, cpu), (to, _)] = [pair[0], pair[1]];
        let slices = by_cpu.entry(cpu).or_default();
        match slices.last_mut() {
            Some(last) if last.end_ns == from => last.end_ns = to,
            _ => slices.push(Slice {
                name: "main thread seen here".into(),
                start_ns: from,
                end_ns: to,
                ..Slice::default()
            }),
        }
    }
    for (cpu, slices) in by_cpu {
        group.put(
            "worker",
            Some(&format!("CPU {cpu}")),
            Content::Slices(slices),
        );
    }
}

/// Puts a line for each load, and marks where it began and ended.
pub(super) fn loads(group: &mut Group, loads: &[StressRow]) {
    for load in loads {
        let Some((from, to)) = load.started_ns.zip(load.stopped_ns) else {
            continue;
        };
        let cpus = crate::plan::axes::cpu_list(&load.cpus);
        let slice = Slice {
            name: format!("{} {}", load.stressor, level(load)),
            start_ns: from,
            end_ns: to.max(from),
            notes: vec![("CPUs", cpus.clone())],
            flow: None,
        };
        let name = format!("{} on CPU {cpus}", load.stressor);
        group.put(name, Some("loads"), Content::Slices(vec![slice]));
    }
}

/// Marks of the begin and end of loads.
pub(super) fn load_marks(loads: &[StressRow]) -> impl Iterator<Item = Mark> + '_ {
    loads.iter().flat_map(|load| {
        let mark = |what: &str, at_ns: i64| Mark {
            name: format!("load {what}"),
            at_ns,
            notes: vec![
                ("load", load.stressor.clone()),
                ("level", level(load)),
                ("CPUs", crate::plan::axes::cpu_list(&load.cpus)),
            ],
        };
        let begins = load.started_ns.map(|at| mark("begins", at));
        let ends = load.stopped_ns.map(|at| mark("ends", at));
        begins.into_iter().chain(ends)
    })
}

fn level(load: &StressRow) -> String {
    match load.effort {
        EffortRow::Full => "at full effort".into(),
        EffortRow::DutyPpm(ppm) => format!("{} of the time", units::percent(f64::from(ppm) / 1e6)),
        EffortRow::PerSecond(rate) => match load.unit.name() {
            "bytes" => format!("{}/s", units::bytes(rate as f64)),
            unit => format!("{} {unit}/s", units::figure(rate as f64)),
        },
    }
}
