//! The best case of a sweep by each metric, and how sure that is.

use std::collections::BTreeSet;

use edgedyno_shared::ids::Sha256;
use serde_json::{Value, json};

use super::CaseSummary;
use crate::findings::sweep::WRONG_OUTPUTS;
use crate::stats::interval::{self, student_t};
use crate::stats::mean::{arithmetic, deviation, logarithms};

/// Error rate of all comparisons of one best case together.
const ALPHA: f64 = 0.05;

/// What cases are ranked by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Metric {
    P50,
    P99,
    Rate,
    /// Rate times batch, where cases differ in batch.
    Items,
    Memory,
}

/// The best case of one model by one metric.
#[derive(Debug, Clone, PartialEq)]
pub struct Best {
    pub metric: Metric,
    pub model: String,
    pub case: Sha256,
    /// Nanoseconds, trials or items for each second, or bytes.
    pub value: f64,
    /// Cases that it was compared with.
    pub others: usize,
    /// The second best and by what ratio the best is better: above 1 always.
    pub next: Option<(Sha256, f64)>,
    pub sureness: Sureness,
}

/// How sure it is that no other case is better.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Sureness {
    /// There is no other case.
    Alone,
    /// Every other case is worse, at 95 % for all comparisons together.
    Sure,
    /// These may be as good.
    Undecided(Vec<Sha256>),
    /// The metric has one value a case, or there is one repeat only.
    Unknown,
}

impl Metric {
    pub const ALL: [Self; 5] = [Self::P50, Self::P99, Self::Rate, Self::Items, Self::Memory];

    pub fn name(self) -> &'static str {
        match self {
            Self::P50 => "latency_p50_ms",
            Self::P99 => "latency_p99_ms",
            Self::Rate => "rate_hz",
            Self::Items => "items_per_second",
            Self::Memory => "rss_peak_bytes",
        }
    }

    fn more_is_better(self) -> bool {
        matches!(self, Self::Rate | Self::Items)
    }

    /// The value that is shown.
    fn value(self, summary: &CaseSummary) -> Option<f64> {
        let latency = summary.latency.as_ref()?;
        match self {
            Self::P50 => Some(latency.distribution.p50.value),
            Self::P99 => Some(latency.distribution.p99.value),
            Self::Rate => latency.rate_hz,
            Self::Items => Some(latency.rate_hz? * f64::from(summary.case.batch.unwrap_or(1))),
            Self::Memory => summary.memory.peak_bytes.map(|bytes| bytes as f64),
        }
    }

    /// By repeat, the value of each that counts.
    fn by_repeat(self, summary: &CaseSummary) -> Vec<(u32, f64)> {
        let counting = summary.repeats.iter().filter(|repeat| repeat.counts);
        let value = |repeat: &super::RepeatFigures| {
            let value = match self {
                Self::P50 => repeat.p50_ns,
                Self::P99 => repeat.p99_ns,
                Self::Rate | Self::Items => repeat.rate_hz,
                Self::Memory => None,
            };
            let batch = match self {
                Self::Items => f64::from(summary.case.batch.unwrap_or(1)),
                _ => 1.0,
            };
            Some((repeat.repeat, value? * batch))
        };
        counting.filter_map(value).collect()
    }
}

/// The best case of each model by each metric; cases without a result or with wrong outputs are none.
///
/// `is_paired`: repeats of one number were measured in one round, close in time.
pub fn best(cases: &[CaseSummary], is_paired: bool) -> Vec<Best> {
    let right = |summary: &&CaseSummary| {
        let is_wrong = summary.findings.iter().any(|f| f.code == WRONG_OUTPUTS);
        summary.latency.is_some() && !is_wrong
    };
    let models: BTreeSet<&str> = cases.iter().map(|c| c.case.model.name.as_str()).collect();
    let mut found = Vec::new();
    for model in models {
        let of_model: Vec<&CaseSummary> = cases
            .iter()
            .filter(|c| c.case.model.name == model)
            .filter(right)
            .collect();
        let batches: BTreeSet<_> = of_model.iter().map(|c| c.case.batch).collect();
        for metric in Metric::ALL {
            if metric != Metric::Items || batches.len() > 1 {
                found.extend(best_by(metric, &of_model, is_paired));
            }
        }
    }
    found
}

fn best_by(metric: Metric, cases: &[&CaseSummary], is_paired: bool) -> Option<Best> {
    let valued = |case: &&CaseSummary| metric.value(case).filter(|value| *value > 0.0);
    let mut ranked: Vec<(f64, &CaseSummary)> = cases
        .iter()
        .filter_map(|case| Some((valued(case)?, *case)))
        .collect();
    ranked.sort_by(|a, b| match metric.more_is_better() {
        true => b.0.total_cmp(&a.0),
        false => a.0.total_cmp(&b.0),
    });
    let ((value, case), others) = ranked.split_first()?;
    let better = |other: f64| match metric.more_is_better() {
        true => value / other,
        false => other / value,
    };
    let others: Vec<&CaseSummary> = others.iter().map(|(_, case)| *case).collect();
    let next = others.first().copied();
    let next = next.and_then(|next| Some((next.key, better(metric.value(next)?))));
    Some(Best {
        metric,
        model: case.case.model.name.clone(),
        case: case.key,
        value: *value,
        others: others.len(),
        next,
        sureness: sureness(metric, case, &others, is_paired),
    })
}

/// Holds the best against every other; the level is shared out over the comparisons (Bonferroni), since
/// the best of many was picked for being the best.
fn sureness(
    metric: Metric,
    best: &CaseSummary,
    others: &[&CaseSummary],
    is_paired: bool,
) -> Sureness {
    if others.is_empty() {
        return Sureness::Alone;
    }
    let level = 1.0 - ALPHA / others.len() as f64;
    let own = metric.by_repeat(best);
    let mut undecided = Vec::new();
    let mut known = false;
    for other in others {
        let found = least_ratio(metric, &own, &metric.by_repeat(other), is_paired, level);
        known |= found.is_some();
        if !found.is_some_and(|low| low > 1.0) {
            undecided.push(other.key);
        }
    }
    match (known, undecided.is_empty()) {
        (false, _) => Sureness::Unknown,
        (true, true) => Sureness::Sure,
        (true, false) => Sureness::Undecided(undecided),
    }
}

/// The lower end of the interval of how many times better one case is than another.
fn least_ratio(
    metric: Metric,
    own: &[(u32, f64)],
    other: &[(u32, f64)],
    is_paired: bool,
    level: f64,
) -> Option<f64> {
    let better = |own: f64, other: f64| match metric.more_is_better() {
        true => own / other,
        false => other / own,
    };
    if is_paired {
        let pairs = own.iter().filter_map(|(repeat, value)| {
            let (_, other) = other.iter().find(|(number, _)| number == repeat)?;
            Some(better(*value, *other))
        });
        let ratios: Vec<f64> = pairs.collect();
        return interval::over_repeats(&ratios, level).map(|estimate| estimate.low);
    }
    let values = |all: &[(u32, f64)]| all.iter().map(|(_, value)| *value).collect::<Vec<_>>();
    let difference = welch(&values(own), &values(other), level)?;
    let low = match metric.more_is_better() {
        true => difference.0,
        false => -difference.1,
    };
    Some(low.exp())
}

/// Interval of the difference of mean logarithms, variances not assumed equal (Welch 1947).
fn welch(a: &[f64], b: &[f64], level: f64) -> Option<(f64, f64)> {
    let (a, b) = (logarithms(a)?, logarithms(b)?);
    let variance = |logs: &[f64]| Some(deviation(logs)?.powi(2) / logs.len() as f64);
    let (va, vb) = (variance(&a)?, variance(&b)?);
    let difference = arithmetic(&a)? - arithmetic(&b)?;
    if va + vb == 0.0 {
        return Some((difference, difference));
    }
    let of = |v: f64, n: usize| v.powi(2) / (n - 1) as f64;
    let degrees = (va + vb).powi(2) / (of(va, a.len()) + of(vb, b.len()));
    let margin = student_t(degrees, level)? * (va + vb).sqrt();
    Some((difference - margin, difference + margin))
}

impl Best {
    pub fn to_json(&self) -> Value {
        let value = match self.metric {
            Metric::P50 | Metric::P99 => self.value / 1e6,
            Metric::Rate | Metric::Items | Metric::Memory => self.value,
        };
        let (sure, undecided) = match &self.sureness {
            Sureness::Alone | Sureness::Sure => (Some(true), Vec::new()),
            Sureness::Undecided(keys) => (Some(false), keys.clone()),
            Sureness::Unknown => (None, Vec::new()),
        };
        json!({
            "metric": self.metric.name(),
            "model": self.model,
            "case": self.case.to_string(),
            "value": value,
            "others_count": self.others,
            "next_case": self.next.map(|(case, _)| case.to_string()),
            "next_ratio": self.next.map(|(_, ratio)| ratio),
            "sure": sure,
            "undecided": undecided.iter().map(Sha256::to_string).collect::<Vec<_>>(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn by_repeat(values: &[f64]) -> Vec<(u32, f64)> {
        (0..).zip(values.iter().copied()).collect()
    }

    #[test]
    fn pairs_of_one_round_tell_what_a_drift_would_hide() {
        // The board becomes 10 % slower each round; one case is 5 % slower than the other throughout.
        let own = by_repeat(&[100.0, 110.0, 121.0]);
        let other = by_repeat(&[105.0, 115.6, 127.0]);
        let paired = least_ratio(Metric::P50, &own, &other, true, 0.95).unwrap();
        assert!(paired > 1.04, "{paired}");
        let unpaired = least_ratio(Metric::P50, &own, &other, false, 0.95).unwrap();
        assert!(unpaired < 1.0, "{unpaired}");
    }

    #[test]
    fn a_rate_is_better_when_it_is_higher() {
        let own = by_repeat(&[200.0, 202.0, 198.0]);
        let other = by_repeat(&[100.0, 101.0, 99.0]);
        let low = least_ratio(Metric::Rate, &own, &other, true, 0.95).unwrap();
        assert!((1.9..=2.0).contains(&low), "{low}");
        let low = least_ratio(Metric::Rate, &own, &other, false, 0.95).unwrap();
        assert!((1.9..=2.0).contains(&low), "{low}");
    }

    #[test]
    fn one_repeat_tells_nothing() {
        let one = by_repeat(&[100.0]);
        assert_eq!(least_ratio(Metric::P50, &one, &one, true, 0.95), None);
        assert_eq!(least_ratio(Metric::P50, &one, &one, false, 0.95), None);
    }

    #[test]
    fn the_interval_of_welch_matches_a_hand_worked_one() {
        // Logs 0, 1, 2 and 0, 0.5, 1: variances of the means 1/3 and 1/12, difference 0.5,
        // degrees (5/12)² / (1/18 + 1/288) = 2.9412, t = 3.2141 (R: qt(0.975, 50/17)).
        let a: Vec<f64> = [0.0_f64, 1.0, 2.0].iter().map(|x| x.exp()).collect();
        let b: Vec<f64> = [0.0_f64, 0.5, 1.0].iter().map(|x| x.exp()).collect();
        let (low, high) = welch(&a, &b, 0.95).unwrap();
        assert!(((low + high) / 2.0 - 0.5).abs() < 1e-9);
        let margin = (high - low) / 2.0;
        assert!(
            (margin / (5.0_f64 / 12.0).sqrt() - 3.214).abs() < 0.01,
            "{margin}"
        );
    }
}
