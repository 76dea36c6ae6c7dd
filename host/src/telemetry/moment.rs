//! What was unusual while one trial ran.

use crate::store::rows::SamplesRow;
use crate::view::Span;

use super::digest::{Digest, digest};

/// Channels are looked at this far around a trial: one period of the normal tier and a half.
const AROUND_NS: i64 = 150_000_000;

/// A channel is unusual when it is this many times what it is over the window, or half of it.
const UNUSUAL: f64 = 1.5;

/// So many channels are told of a moment.
const TOLD: usize = 4;

/// A slow trial and the channels that were unlike themselves meanwhile.
#[derive(Debug, Clone, PartialEq)]
pub struct Moment {
    /// Where the trial stands among the measured ones.
    pub trial: u64,
    pub span: Span,
    around: Span,
    pub seen: Vec<Seen>,
}

/// A channel around a trial and over the window: values of a gauge, growth in a second of a counter.
#[derive(Debug, Clone, PartialEq)]
pub struct Seen {
    pub channel: String,
    pub unit: String,
    pub is_rate: bool,
    pub then: f64,
    pub usually: f64,
}

/// `window`: what lies before and after it, where a worker starts and ends, is no part of any moment.
pub(super) fn of(slowest: &[(u64, Span)], window: Option<Span>) -> Vec<Moment> {
    let moment = |(trial, span): &(u64, Span)| {
        let (start_ns, end_ns) = (span.start_ns - AROUND_NS, span.end_ns + AROUND_NS);
        Moment {
            trial: *trial,
            span: *span,
            around: Span {
                start_ns: window.map_or(start_ns, |window| start_ns.max(window.start_ns)),
                end_ns: window.map_or(end_ns, |window| end_ns.min(window.end_ns)),
            },
            seen: Vec::new(),
        }
    };
    slowest.iter().map(moment).collect()
}

impl Moment {
    /// Takes in a channel where it was unusual. `whole` is the channel over the window.
    pub(super) fn look(&mut self, whole: &Digest, samples: &SamplesRow) {
        let then = digest(&whole.channel, samples, Some(self.around));
        let pick = |digest: &Digest| match digest.is_counter() {
            true => digest.per_second(),
            false => digest.mean(),
        };
        let (Some(then), Some(usually)) = (pick(&then), pick(whole)) else {
            return;
        };
        let seen = Seen {
            channel: whole.channel.name.clone(),
            unit: whole.channel.unit.clone(),
            is_rate: whole.is_counter(),
            then,
            usually,
        };
        if seen.points_to_slower() && seen.is_unusual() {
            self.seen.push(seen);
        }
    }

    /// Keeps the most unusual channels, the most unusual first.
    pub(super) fn settle(&mut self) {
        self.seen
            .sort_by(|a, b| b.strength().total_cmp(&a.strength()));
        self.seen.truncate(TOLD);
    }
}

/// Which way a channel has to be unlike itself to be a sign that a trial was slow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Sign {
    More,
    Less,
}

impl Sign {
    /// None where neither way is one: what the worker does itself, what follows from how much is done, and what
    /// has no natural zero, of which so many times as much means nothing.
    fn of(channel: &str, unit: &str) -> Option<Self> {
        let name = channel.rsplit('.').next().unwrap_or(channel);
        let is_own = channel.starts_with("worker.drm.")
            || [
                "worker.cpu",
                "worker.user",
                "worker.cycles",
                "worker.instructions",
            ]
            .contains(&channel);
        let says_nothing = is_own
            || name.starts_with("at_")
            || ["cached", "occupancy"].contains(&name)
            || name.ends_with("total");
        match unit {
            _ if says_nothing => None,
            "millicelsius" | "cpu" => None,
            "microwatt" | "microjoule" | "microampere" | "rpm" => None,
            "hz" | "microvolt" => Some(Self::Less),
            "bytes" if name == "available" || name.ends_with("free") => Some(Self::Less),
            _ => Some(Self::More),
        }
    }
}

impl Seen {
    fn points_to_slower(&self) -> bool {
        match Sign::of(&self.channel, &self.unit) {
            Some(Sign::More) => self.then > self.usually,
            Some(Sign::Less) => self.then < self.usually,
            None => false,
        }
    }

    fn is_unusual(&self) -> bool {
        let is_much = match self.unit.as_str() {
            // Less than this much of a second is noise of the ticks.
            "ns" => self.then.max(self.usually) > 1e7,
            _ => self.then.max(self.usually) >= 1.0,
        };
        is_much && self.strength() >= UNUSUAL.ln()
    }

    /// How far apart the two are, as a logarithm; a rise from nothing is large and finite.
    fn strength(&self) -> f64 {
        let floor = match self.unit.as_str() {
            "ns" => 1e6,
            _ => 1e-3,
        };
        (self.then.max(floor) / self.usually.max(floor)).ln().abs()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::rows::KindRow;
    use crate::telemetry::digest::tests::channel;

    const SECOND: i64 = 1_000_000_000;

    #[test]
    fn what_was_unlike_itself_around_a_trial_is_seen() {
        let span = Span {
            start_ns: 5 * SECOND,
            end_ns: 5 * SECOND + 50_000_000,
        };
        let window = Some(Span {
            start_ns: 0,
            end_ns: 10 * SECOND,
        });
        // A second a second for a tenth of a second, and nothing before and after.
        let grown = |at: i64| (at - 5 * SECOND).clamp(0, SECOND / 10);
        let at_ns: Vec<i64> = (0..=100).map(|i| i * SECOND / 10).collect();
        let busy = SamplesRow {
            value: at_ns.iter().map(|at| grown(*at)).collect(),
            quality: vec![0; at_ns.len()],
            at_ns: at_ns.clone(),
        };
        let steady = SamplesRow {
            value: at_ns.clone(),
            quality: vec![0; at_ns.len()],
            at_ns,
        };
        let mut moment = of(&[(7, span)], window).remove(0);
        // From CPU 0 to 1 and back is no rise.
        let moved = SamplesRow {
            value: (0..=100).map(|i| i64::from(i == 50)).collect(),
            ..steady.clone()
        };
        for (name, unit, kind, samples) in [
            ("cpu.1.busy", "ns", KindRow::Counter, &busy),
            ("cpu.0.busy", "ns", KindRow::Counter, &steady),
            ("worker.on_cpu", "cpu", KindRow::Gauge, &moved),
        ] {
            let channel = channel(name, unit, kind);
            moment.look(&digest(&channel, samples, window), samples);
        }
        moment.settle();
        let names: Vec<&str> = moment
            .seen
            .iter()
            .map(|seen| seen.channel.as_str())
            .collect();
        assert_eq!(names, ["cpu.1.busy"]);
        // 100 ms within 350 ms around the trial, and within 10 s of the window.
        let seen = &moment.seen[0];
        assert!((seen.then / 1e9 - 0.1 / 0.35).abs() < 1e-6);
        assert!((seen.usually / 1e9 - 0.01).abs() < 1e-6);
    }

    /// A worker that starts has little memory yet: that is nothing to tell of a trial soon after.
    #[test]
    fn what_was_before_the_window_is_no_part_of_a_moment() {
        let at_ns: Vec<i64> = (0..20).map(|i| i * SECOND / 10).collect();
        let samples = SamplesRow {
            value: at_ns
                .iter()
                .map(|at| if *at < SECOND { 16 } else { 40_000 })
                .collect(),
            quality: vec![0; at_ns.len()],
            at_ns,
        };
        let window = Some(Span {
            start_ns: SECOND,
            end_ns: 2 * SECOND,
        });
        let first = Span {
            start_ns: SECOND + 10_000_000,
            end_ns: SECOND + 12_000_000,
        };
        let mut moment = of(&[(0, first)], window).remove(0);
        let channel = channel("worker.pss", "bytes", KindRow::Gauge);
        moment.look(&digest(&channel, &samples, window), &samples);
        assert_eq!(moment.seen, []);
    }

    /// A clock that rose and a neighbour that paused are no reasons for a slow trial.
    #[test]
    fn only_what_points_to_slower_is_a_sign() {
        let points = |channel: &str, unit: &str, then: f64, usually: f64| {
            let seen = Seen {
                channel: channel.into(),
                unit: unit.into(),
                is_rate: false,
                then,
                usually,
            };
            seen.points_to_slower()
        };
        for (channel, unit) in [
            ("cpu.1.busy", "ns"),
            ("worker.run_delay", "ns"),
            ("ddr.mc0.read_bytes", "bytes"),
            ("worker.preempted", "count"),
            ("cool.cpufreq-0.state", "steps"),
            ("devfreq.gpu.load", "ppm"),
        ] {
            assert!(points(channel, unit, 4.0, 1.0), "{channel}");
            assert!(!points(channel, unit, 1.0, 4.0), "{channel}");
        }
        for (channel, unit) in [
            ("cpu.policy0.freq", "hz"),
            ("devfreq.dmc.freq_max", "hz"),
            ("mem.available", "bytes"),
            ("mem.cma_free", "bytes"),
        ] {
            assert!(points(channel, unit, 1.0, 4.0), "{channel}");
            assert!(!points(channel, unit, 4.0, 1.0), "{channel}");
        }
        for (channel, unit) in [
            ("worker.cpu", "ns"),
            ("cpu.policy0.at_1800000", "ns"),
            ("rail.VDD_IN.power", "microwatt"),
            ("mem.cma_total", "bytes"),
            ("therm.cpu.temp", "millicelsius"),
        ] {
            assert!(!points(channel, unit, 4.0, 1.0), "{channel}");
            assert!(!points(channel, unit, 1.0, 4.0), "{channel}");
        }
    }
}
