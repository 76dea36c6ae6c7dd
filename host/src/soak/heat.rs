//! Latency against temperature.

use edgedyno_shared::telemetry::Quality;
use serde::Serialize;

use super::Slice;
use crate::store::rows::{ChannelRow, SamplesRow};
use crate::view::Span;

/// Fewer slices with a temperature, or a smaller range of it, explain nothing.
const FEWEST: usize = 5;
const RANGE_CELSIUS: f64 = 2.0;

/// How p50 of the slices goes with the mean of a sensor.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Heat {
    pub channel: String,
    pub from_celsius: f64,
    pub to_celsius: f64,
    /// Slope of the line of least squares.
    pub p50_ms_per_celsius: f64,
    /// Pearson's coefficient; none where p50 never moved. It does not say which is the reason of which.
    pub correlation: Option<f64>,
}

/// The sensor that showed the most within the window.
pub(super) fn hottest(
    channels: &[(ChannelRow, SamplesRow)],
    window: Span,
) -> Option<(&ChannelRow, &SamplesRow)> {
    let sensors = channels
        .iter()
        .filter(|(channel, _)| channel.unit == "millicelsius" && channel.name.ends_with(".temp"));
    let most = sensors.filter_map(|(channel, samples)| {
        let most = good(samples, window.start_ns, window.end_ns).max()?;
        Some((most, (channel, samples)))
    });
    // Of equal ones the first, as in the list.
    most.reduce(|a, b| if b.0 > a.0 { b } else { a })
        .map(|(_, sensor)| sensor)
}

pub(super) fn mean_celsius(samples: &SamplesRow, from_ns: i64, to_ns: i64) -> Option<f64> {
    let (sum, count) =
        good(samples, from_ns, to_ns).fold((0.0, 0.0), |(s, n), v| (s + v as f64, n + 1.0));
    (count > 0.0).then(|| sum / count / 1e3)
}

fn good(samples: &SamplesRow, from_ns: i64, to_ns: i64) -> impl Iterator<Item = i64> + '_ {
    let cells = samples
        .at_ns
        .iter()
        .zip(&samples.value)
        .zip(&samples.quality);
    cells
        .filter(move |((at, _), quality)| {
            (from_ns..to_ns).contains(*at) && **quality == Quality::Ok.code()
        })
        .map(|((_, value), _)| *value)
}

pub(super) fn against(channel: &str, slices: &[Slice]) -> Option<Heat> {
    let pairs = slices
        .iter()
        .filter_map(|slice| Some((slice.celsius?, slice.p50_ms?)));
    let pairs: Vec<(f64, f64)> = pairs.collect();
    let n = pairs.len() as f64;
    let low = pairs.iter().map(|(x, _)| *x).fold(f64::INFINITY, f64::min);
    let high = pairs
        .iter()
        .map(|(x, _)| *x)
        .fold(f64::NEG_INFINITY, f64::max);
    if pairs.len() < FEWEST || high - low < RANGE_CELSIUS {
        return None;
    }
    let mean = |of: fn(&(f64, f64)) -> f64| pairs.iter().map(of).sum::<f64>() / n;
    let (x, y) = (mean(|p| p.0), mean(|p| p.1));
    let sum =
        |of: &dyn Fn(f64, f64) -> f64| pairs.iter().map(|p| of(p.0 - x, p.1 - y)).sum::<f64>();
    let (xx, yy, xy) = (
        sum(&|dx, _| dx * dx),
        sum(&|_, dy| dy * dy),
        sum(&|dx, dy| dx * dy),
    );
    Some(Heat {
        channel: channel.into(),
        from_celsius: low,
        to_celsius: high,
        p50_ms_per_celsius: xy / xx,
        correlation: (yy > 0.0).then(|| xy / (xx * yy).sqrt()),
    })
}
