//! A long run: what the first minute promised, what was kept up, and what heat had to do with it.
//!
//! A pure function over trials and samples as they were stored.

mod heat;
mod signs;

use serde::Serialize;

use crate::stats::quantile;
use crate::store::rows::{ChannelRow, SamplesRow};
use crate::view::Span;

pub use heat::Heat;
pub use signs::Sign;
pub(crate) use signs::{
    Kind, NVML_THROTTLED, cooler, kind_of, rail_alarm, slowing_trip, slows_down,
};

/// Slices of a soak at most, and trials that one has at least.
const SLICES: usize = 60;
const FEWEST: usize = 11;

/// The first stretch is a minute, and no more than this share of the whole.
const FIRST_SHARE: f64 = 0.1;
const MINUTE_NS: i64 = 60_000_000_000;

/// What is kept up is what the last part of the window shows, this share of it.
const LAST_SHARE: f64 = 0.25;

/// A rate below this share of the first stretch's is a slower one.
pub const SLOWER: f64 = 0.95;

/// What a soak came to.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Soak {
    pub window_seconds: f64,
    pub first: Stretch,
    pub sustained: Stretch,
    /// When the rate fell for good below 95 % of the first stretch's.
    pub slowed_after_seconds: Option<f64>,
    /// The first sign that the board was held back.
    pub throttled: Option<Sign>,
    /// How long after the last trial every sign was gone; none where it was not, or there was none.
    pub recovered_after_seconds: Option<f64>,
    /// How long the board was watched for that.
    pub watched_after_seconds: f64,
    pub heat: Option<Heat>,
    pub slices: Vec<Slice>,
}

/// Trials of a part of the window.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Stretch {
    pub seconds: f64,
    pub trials: usize,
    pub p50_ms: f64,
    pub rate_hz: f64,
}

/// One of equal parts of the window.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Slice {
    pub from_seconds: f64,
    pub trials: usize,
    pub p50_ms: Option<f64>,
    pub rate_hz: f64,
    /// Mean of the sensor that `heat` names.
    pub celsius: Option<f64>,
}

/// Looks at measured trials in the order they ran, with all channels of the repeat.
pub fn of(trials: &[Span], channels: &[(ChannelRow, SamplesRow)]) -> Option<Soak> {
    let window = Span {
        start_ns: trials.first()?.start_ns,
        end_ns: trials.last()?.end_ns,
    };
    let length = window.length_ns();
    let first_ns = MINUTE_NS.min((length as f64 * FIRST_SHARE) as i64);
    let last_ns = (length as f64 * LAST_SHARE) as i64;
    let first = stretch(trials, window.start_ns, window.start_ns + first_ns)?;
    let sustained = stretch(trials, window.end_ns - last_ns, window.end_ns)?;
    let sensor = heat::hottest(channels, window);
    let slices = slices(trials, window, sensor.map(|(_, samples)| samples));
    let signs = signs::of(channels, window);
    let end_of_samples = channels
        .iter()
        .filter_map(|(_, s)| s.at_ns.last().copied())
        .max();
    let watched_after = end_of_samples.map_or(0, |at| (at - window.end_ns).max(0));
    Some(Soak {
        window_seconds: seconds(length),
        slowed_after_seconds: slowed_after(&slices, first.rate_hz),
        throttled: signs.first,
        recovered_after_seconds: signs.gone_at_ns.map(|at| seconds(at - window.end_ns)),
        watched_after_seconds: seconds(watched_after),
        heat: sensor.and_then(|(channel, _)| heat::against(&channel.name, &slices)),
        first,
        sustained,
        slices,
    })
}

fn seconds(ns: i64) -> f64 {
    ns as f64 / 1e9
}

/// Trials that began within a part of the window; none where too few did for a median.
fn stretch(trials: &[Span], from_ns: i64, to_ns: i64) -> Option<Stretch> {
    let inside = between(trials, from_ns, to_ns);
    let (first, last) = (inside.first()?, inside.last()?);
    let took = seconds(last.end_ns - first.start_ns);
    Some(Stretch {
        seconds: seconds(to_ns - from_ns),
        trials: inside.len(),
        p50_ms: p50_ms(inside)?,
        rate_hz: inside.len() as f64 / took,
    })
}

fn between(trials: &[Span], from_ns: i64, to_ns: i64) -> &[Span] {
    let from = trials.partition_point(|trial| trial.start_ns < from_ns);
    let to = trials.partition_point(|trial| trial.start_ns < to_ns);
    &trials[from..to.max(from)]
}

fn p50_ms(trials: &[Span]) -> Option<f64> {
    let mut lengths: Vec<i64> = trials.iter().map(|trial| trial.length_ns()).collect();
    lengths.sort_unstable();
    quantile::of_sorted(&lengths, 0.5)
        .filter(|_| lengths.len() >= FEWEST)
        .map(|ns| ns / 1e6)
}

fn slices(trials: &[Span], window: Span, sensor: Option<&SamplesRow>) -> Vec<Slice> {
    let count = SLICES.min(trials.len() / FEWEST).max(1);
    let edge = |i: usize| {
        window.start_ns + (window.length_ns() as i128 * i as i128 / count as i128) as i64
    };
    let slice = |i: usize| {
        let (from, to) = (edge(i), edge(i + 1));
        let inside = between(trials, from, to);
        Slice {
            from_seconds: seconds(from - window.start_ns),
            trials: inside.len(),
            p50_ms: p50_ms(inside),
            rate_hz: inside.len() as f64 / seconds(to - from),
            celsius: sensor.and_then(|samples| heat::mean_celsius(samples, from, to)),
        }
    };
    (0..count).map(slice).collect()
}

/// The begin of the first slice from which on every one is slower.
fn slowed_after(slices: &[Slice], first_rate_hz: f64) -> Option<f64> {
    let slow = slices
        .iter()
        .rev()
        .take_while(|slice| slice.rate_hz < SLOWER * first_rate_hz);
    slow.last().map(|slice| slice.from_seconds)
}

#[cfg(test)]
mod tests {
    use edgedyno_shared::telemetry::Quality;

    use super::*;
    use crate::store::rows::KindRow;
    use crate::telemetry::tests::channel;

    const S: i64 = 1_000_000_000;
    const MS: i64 = 1_000_000;

    pub(super) fn samples(cells: impl IntoIterator<Item = (i64, i64)>) -> SamplesRow {
        let (at_ns, value): (Vec<i64>, Vec<i64>) = cells.into_iter().unzip();
        SamplesRow {
            quality: vec![Quality::Ok.code(); at_ns.len()],
            at_ns,
            value,
        }
    }

    /// A hundred seconds: 10 ms a trial, after 40 s 20 ms.
    fn trials() -> Vec<Span> {
        let mut at = 0;
        let mut out = Vec::new();
        while at < 100 * S {
            let length = if at < 40 * S { 10 * MS } else { 20 * MS };
            out.push(Span {
                start_ns: at,
                end_ns: at + length,
            });
            at += length;
        }
        out
    }

    /// Each second: 50 °C, after 40 s 90 °C, and cool again from 103 s on.
    fn board() -> Vec<(ChannelRow, SamplesRow)> {
        let heat = |at: i64| {
            if (40..103).contains(&at) {
                90_000
            } else {
                50_000
            }
        };
        let state = |at: i64| i64::from((42..103).contains(&at)) * 3;
        vec![
            (
                channel("therm.cpu.temp", "millicelsius", KindRow::Gauge),
                samples((-2..120).map(|at| (at * S, heat(at)))),
            ),
            (
                channel("cool.thermal_cpufreq_0.state", "steps", KindRow::State),
                samples((-2..120).map(|at| (at * S, state(at)))),
            ),
        ]
    }

    #[test]
    fn first_and_sustained_match_hand_worked_values() {
        let soak = of(&trials(), &board()).unwrap();
        // A tenth of a hundred seconds; a thousand trials of 10 ms.
        assert_eq!((soak.first.seconds, soak.first.trials), (10.0, 1000));
        assert!((soak.first.rate_hz - 100.0).abs() < 1e-9);
        assert!((soak.first.p50_ms - 10.0).abs() < 1e-9);
        // The last quarter: 1 250 trials of 20 ms.
        assert_eq!(
            (soak.sustained.seconds, soak.sustained.trials),
            (25.0, 1250)
        );
        assert!((soak.sustained.rate_hz - 50.0).abs() < 1e-9);
        assert!((soak.sustained.p50_ms - 20.0).abs() < 1e-9);
    }

    #[test]
    fn it_is_told_when_it_throttled_slowed_and_recovered() {
        let soak = of(&trials(), &board()).unwrap();
        let sign = soak.throttled.unwrap();
        assert_eq!(sign.channel, "cool.thermal_cpufreq_0.state");
        assert!((sign.after_seconds - 42.0).abs() < 1e-9);
        // Slices of 100/60 s: the one from 40 s on is the first that is slow.
        assert!((soak.slowed_after_seconds.unwrap() - 40.0).abs() < 1e-6);
        // The last trial ends at 100 s, the sign is gone at 103 s.
        assert!((soak.recovered_after_seconds.unwrap() - 3.0).abs() < 1e-9);
        assert!((soak.watched_after_seconds - 19.0).abs() < 1e-9);
    }

    #[test]
    fn latency_goes_with_the_temperature() {
        let soak = of(&trials(), &board()).unwrap();
        let heat = soak.heat.unwrap();
        // Two clouds, at 50 °C and 10 ms and at 90 °C and 20 ms: a quarter of a millisecond a degree.
        assert!((heat.p50_ms_per_celsius - 0.25).abs() < 1e-9, "{heat:?}");
        assert!((heat.correlation.unwrap() - 1.0).abs() < 1e-9);
        assert_eq!(heat.channel, "therm.cpu.temp");
    }

    #[test]
    fn a_steady_board_has_nothing_to_recover_from() {
        let steady: Vec<Span> = (0..5000)
            .map(|i| Span {
                start_ns: i * 20 * MS,
                end_ns: (i + 1) * 20 * MS,
            })
            .collect();
        let calm = vec![(
            channel("therm.cpu.temp", "millicelsius", KindRow::Gauge),
            samples((0..100).map(|at| (at * S, 45_000))),
        )];
        let soak = of(&steady, &calm).unwrap();
        assert_eq!(soak.throttled, None);
        assert_eq!(
            (soak.slowed_after_seconds, soak.recovered_after_seconds),
            (None, None)
        );
        assert_eq!(soak.heat, None, "a flat temperature explains nothing");
        assert_eq!(of(&[], &[]), None);
    }

    #[test]
    fn a_board_that_stays_held_back_has_not_recovered() {
        let mut board = board();
        board[1]
            .1
            .value
            .iter_mut()
            .skip(50)
            .for_each(|state| *state = 1);
        let soak = of(&trials(), &board).unwrap();
        assert!(soak.throttled.is_some());
        assert_eq!(soak.recovered_after_seconds, None);
    }
}
