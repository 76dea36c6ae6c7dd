//! CPUs that a repeat was measured on, and the clocks that drive them.

use crate::telemetry::{Digest, Policies};
use crate::view::RepeatView;

/// A CPU that worked for this share of the window was at work.
const AT_WORK: f64 = 0.5;

/// CPUs that the worker was bound to in the window.
pub(crate) fn measured_cpus(repeat: &RepeatView) -> impl Iterator<Item = u16> + '_ {
    let last = repeat.row.placements.last();
    last.into_iter()
        .flat_map(|placement| placement.wanted.iter().copied())
}

/// Clock policies of those CPUs, by number.
pub(crate) fn policies_of(repeat: &RepeatView) -> Vec<u16> {
    policies(repeat).of_cpus(measured_cpus(repeat))
}

/// The same of those that were at work for half of the window and more, or of which that is not known: a CPU
/// that idles may rest.
pub(super) fn busy_policies_of(repeat: &RepeatView) -> Vec<u16> {
    let is_busy = |cpu: &u16| {
        let name = format!("cpu.{cpu}.busy");
        let mut channels = repeat.telemetry.iter();
        let busy = channels.find(|digest| digest.channel.name == name);
        let busy_ns = busy.and_then(Digest::per_second);
        busy_ns.is_none_or(|ns| ns / 1e9 >= AT_WORK)
    };
    policies(repeat).of_cpus(measured_cpus(repeat).filter(is_busy))
}

fn policies(repeat: &RepeatView) -> Policies {
    let channels = repeat.telemetry.iter();
    let channels = channels.map(|digest| digest.channel.name.as_str());
    Policies::of(start_facts(repeat), channels)
}

/// Facts that could be read when a repeat began, name and value.
pub(super) fn start_facts(repeat: &RepeatView) -> impl Iterator<Item = (&str, &str)> {
    let start = repeat.row.start.iter();
    start
        .flat_map(|start| &start.environment)
        .filter_map(|fact| Some((fact.name.as_str(), fact.value.as_deref()?)))
}
