//! What watching the board cost it.

use crate::view::RepeatView;

use super::board::rate;

/// CPU time of everything that watched, as a share of one CPU: both threads of the agent, and processes that
/// they ask. None where the first of the threads is not known; what else is not known is left out.
pub(super) fn share(watched: &[&RepeatView]) -> Option<f64> {
    let first = rate(watched, THREADS[0])?;
    let last = watched.last()?;
    let names = last.telemetry.iter().map(|digest| &digest.channel.name);
    let others = names.filter(|name| *name == THREADS[1] || is_process(name));
    let others: f64 = others.filter_map(|name| rate(watched, name)).sum();
    Some((first + others) / 1e9)
}

const THREADS: [&str; 2] = ["sampler.cpu", "sampler_slow.cpu"];

/// `sensor.NAME.cpu`.
fn is_process(name: &str) -> bool {
    name.starts_with("sensor.") && name.ends_with(".cpu")
}

#[cfg(test)]
mod tests {
    use crate::store::sample::{MS, repeat, watched};
    use crate::summary::summarise;
    use crate::summary::tests::view_of;

    /// The share of a case whose only repeat has these counters, of which each grows by so much in a second.
    fn share(counters: &[(&str, i64)]) -> Option<f64> {
        let mut records = repeat(&[20 * MS; 100]);
        for (id, (name, by)) in counters.iter().enumerate() {
            let cells: Vec<(i64, Option<i64>)> = (0..6)
                .map(|second| (second * 1000, Some(second * by)))
                .collect();
            let end = records.len() - 1;
            let channel = watched(id as u16, name, "ns", &cells);
            drop(records.splice(end..end, channel));
        }
        summarise(&view_of(&records)).board.sampler_share
    }

    #[test]
    fn all_that_watches_is_added_up() {
        let thread = ("sampler.cpu", 3_000_000);
        let second = ("sampler_slow.cpu", 1_000_000);
        let tool = ("sensor.tegrastats.cpu", 20_000_000);
        let others = [("worker.cpu", 900_000_000), ("cpu.0.busy", 1_000_000_000)];
        let near = |counters: &[(&str, i64)], expected: f64| {
            let share = share(counters).unwrap();
            assert!((share - expected).abs() < 1e-9, "{share}");
        };
        near(&[thread, others[0], others[1]], 0.003);
        near(&[thread, second, others[0]], 0.004);
        near(&[thread, second, tool, others[1]], 0.024);
        assert_eq!(share(&[second, tool]), None, "a part is no whole");
        assert_eq!(share(&others), None);
    }
}
