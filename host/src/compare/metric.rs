//! What can be compared: figures that every repeat has one of.

use crate::fields;
use crate::near;
use crate::stats::{mean, quantile};
use crate::store::rows::{MomentRow, StageName};
use crate::summary::{rate_hz, stage_ns, total_ns};
use crate::view::RepeatView;

/// One figure of a repeat.
#[derive(Debug, Clone, Copy)]
pub struct Metric {
    /// Its field's name.
    pub name: &'static str,
    /// As the table calls it.
    pub title: &'static str,
    pub quantity: Quantity,
    /// The quantile it is, if it is one: it needs trials enough.
    pub quantile: Option<f64>,
    pub better: Better,
    /// In the quantity's base unit: nanoseconds, hertz, bytes.
    pub of: fn(&RepeatView) -> Option<f64>,
}

/// What a figure counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Quantity {
    Time,
    Rate,
    Memory,
}

/// Which way is better, with the words for both.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Better {
    Less,
    More,
}

/// Compared unless others are named.
pub const DEFAULT: &str = "latency_p50_ms";

/// The metrics.
pub const METRICS: &[Metric] = &[
    quantile_of("latency_p50_ms", "p50", 0.5, |r| at(r, 0.5)),
    quantile_of("latency_p90_ms", "p90", 0.9, |r| at(r, 0.9)),
    quantile_of("latency_p95_ms", "p95", 0.95, |r| at(r, 0.95)),
    quantile_of("latency_p99_ms", "p99", 0.99, |r| at(r, 0.99)),
    quantile_of("latency_p99_9_ms", "p99.9", 0.999, |r| at(r, 0.999)),
    quantile_of("latency_p99_99_ms", "p99.99", 0.9999, |r| at(r, 0.9999)),
    time("latency_mean_ms", "mean", |r| {
        mean::arithmetic(&r.trials.measured)
    }),
    Metric {
        quantity: Quantity::Rate,
        better: Better::More,
        ..time("rate_hz", "rate", rate_hz)
    },
    time("cold_load_ms", "cold load", |r| {
        stage_ns(r, StageName::Load).map(|ns| ns as f64)
    }),
    time("cold_first_ms", "first run", |r| {
        r.trials.cold.first().map(|ns| *ns as f64)
    }),
    time("cold_total_ms", "cold total", |r| {
        total_ns(r).map(|ns| ns as f64)
    }),
    Metric {
        quantity: Quantity::Memory,
        ..time("rss_peak_bytes", "rss peak", rss_peak)
    },
];

const fn time(
    name: &'static str,
    title: &'static str,
    of: fn(&RepeatView) -> Option<f64>,
) -> Metric {
    Metric {
        name,
        title,
        quantity: Quantity::Time,
        quantile: None,
        better: Better::Less,
        of,
    }
}

const fn quantile_of(
    name: &'static str,
    title: &'static str,
    level: f64,
    of: fn(&RepeatView) -> Option<f64>,
) -> Metric {
    Metric {
        quantile: Some(level),
        ..time(name, title, of)
    }
}

fn at(repeat: &RepeatView, level: f64) -> Option<f64> {
    quantile::of(&repeat.trials.measured, level)
}

fn rss_peak(repeat: &RepeatView) -> Option<f64> {
    let rows = repeat.row.memory.iter();
    let after = rows.filter(|row| row.moment == MomentRow::AfterWindow);
    after
        .filter_map(|row| row.rss_peak_bytes)
        .max()
        .map(|bytes| bytes as f64)
}

/// A name that no metric has, and what to do about it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{wanted}` cannot be compared")]
pub struct UnknownMetric {
    pub wanted: String,
    pub hint: String,
}

/// The metric of that name: a field's, or short as in conditions (`p50`, `mean`, `rate`).
pub fn find(wanted: &str) -> Result<&'static Metric, UnknownMetric> {
    let field = fields::find_for_condition(wanted).map(|field| field.name);
    let name = field.unwrap_or(wanted);
    METRICS
        .iter()
        .find(|metric| metric.name == name)
        .ok_or_else(|| {
            let known = || METRICS.iter().map(|metric| metric.name);
            let near = near::matches(wanted, known());
            UnknownMetric {
                wanted: wanted.into(),
                hint: match near.first() {
                    Some(near) => format!("did you mean {near}?"),
                    None => format!("one of {}", known().collect::<Vec<_>>().join(", ")),
                },
            }
        })
}

impl Metric {
    /// The word for B being larger than A.
    pub fn larger(&self) -> &'static str {
        match (self.quantity, self.better) {
            (Quantity::Memory, _) => "larger",
            (_, Better::Less) => "slower",
            (_, Better::More) => "faster",
        }
    }

    /// The word for B being smaller than A.
    pub fn smaller(&self) -> &'static str {
        match (self.quantity, self.better) {
            (Quantity::Memory, _) => "smaller",
            (_, Better::Less) => "faster",
            (_, Better::More) => "slower",
        }
    }

    /// Name of the base unit, as JSON has it.
    pub fn unit(&self) -> &'static str {
        match self.quantity {
            Quantity::Time => "ns",
            Quantity::Rate => "Hz",
            Quantity::Memory => "bytes",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_metric_is_a_field_with_its_own_name() {
        for metric in METRICS {
            assert_eq!(fields::find(metric.name).unwrap().name, metric.name);
            assert_eq!(find(metric.name).unwrap().name, metric.name);
        }
        assert_eq!(find("p99.9").unwrap().name, "latency_p99_9_ms");
        assert_eq!(find("rate").unwrap().larger(), "faster");
        assert_eq!(find("p50").unwrap().larger(), "slower");
    }

    #[test]
    fn what_is_no_metric_is_refused_with_a_hint() {
        let slip = find("latency_p5_ms").unwrap_err();
        assert!(slip.hint.contains("latency_p5"), "{slip:?}");
        assert!(find("run_id").unwrap_err().hint.contains("one of"));
    }
}
