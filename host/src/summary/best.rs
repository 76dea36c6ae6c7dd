//! The best case of a sweep by each metric, and how sure that is.

use std::collections::BTreeSet;

use edgedyno_shared::ids::Sha256;
use serde_json::{Value, json};

use super::CaseSummary;
use crate::findings::sweep::WRONG_OUTPUTS;
use crate::plan::schedule::Order;
use crate::stats::ratio::LogRatio;
use crate::stats::session::SessionSpread;

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
    /// Whether there are independent trials enough to claim it.
    pub enough: bool,
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
    /// There are too few independent trials for the percentile.
    FewTrials,
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

    /// Whether a percentile may be claimed; other metrics always may.
    fn is_enough(self, summary: &CaseSummary) -> bool {
        let distribution = summary.latency.as_ref().map(|latency| latency.distribution);
        distribution.is_some_and(|distribution| match self {
            Self::P50 => distribution.p50.enough,
            Self::P99 => distribution.p99.enough,
            Self::Rate | Self::Items | Self::Memory => true,
        })
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
/// The order says what repeats of two cases share: a round, the whole time of the sweep, or nothing.
pub fn best(cases: &[CaseSummary], order: Order) -> Vec<Best> {
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
                found.extend(best_by(metric, &of_model, order));
            }
        }
    }
    found
}

fn best_by(metric: Metric, cases: &[&CaseSummary], order: Order) -> Option<Best> {
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
        enough: metric.is_enough(case),
        others: others.len(),
        next,
        sureness: sureness(metric, case, &others, order),
    })
}

/// Holds the best against every other; the level is shared out over the comparisons (Bonferroni), since
/// the best of many was picked for being the best.
fn sureness(metric: Metric, best: &CaseSummary, others: &[&CaseSummary], order: Order) -> Sureness {
    if others.is_empty() {
        return Sureness::Alone;
    }
    if !metric.is_enough(best) {
        return Sureness::FewTrials;
    }
    let level = 1.0 - ALPHA / others.len() as f64;
    let own = metric.by_repeat(best);
    let mut undecided = Vec::new();
    let mut known = false;
    for other in others {
        let found = least_ratio(metric, &own, &metric.by_repeat(other), order, level);
        known |= found.is_some();
        if !metric.is_enough(other) || !found.is_some_and(|low| low > 1.0) {
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
///
/// Cases that took turns are paired by round, those shuffled together are two groups. Cases measured one
/// after the other do not share their time: a board that became slower meanwhile looks like a slower case,
/// so what two sessions differ by is in the interval, as in a comparison of separate runs.
fn least_ratio(
    metric: Metric,
    own: &[(u32, f64)],
    other: &[(u32, f64)],
    order: Order,
    level: f64,
) -> Option<f64> {
    let (values, others): (Vec<f64>, Vec<f64>) = match order {
        Order::Interleaved => {
            let pairs = own.iter().filter_map(|(repeat, value)| {
                let (_, other) = other.iter().find(|(number, _)| number == repeat)?;
                Some((*value, *other))
            });
            pairs.unzip()
        }
        Order::Random | Order::Blocked => {
            let values = |all: &[(u32, f64)]| all.iter().map(|(_, value)| *value).collect();
            (values(own), values(other))
        }
    };
    let (worse, better) = match metric.more_is_better() {
        true => (others, values),
        false => (values, others),
    };
    let ratio = match order {
        Order::Interleaved => LogRatio::paired(&worse, &better)?,
        Order::Random | Order::Blocked => LogRatio::welch(&worse, &better)?,
    };
    let mut margin = ratio.half_width(level)?;
    if order == Order::Blocked {
        let unknown = SessionSpread::Unknown { sessions: 0 };
        margin = margin.max(unknown.half_width(level)?);
    }
    Some((ratio.point - margin).exp())
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
            Sureness::Unknown | Sureness::FewTrials => (None, Vec::new()),
        };
        json!({
            "metric": self.metric.name(),
            "model": self.model,
            "case": self.case.to_string(),
            "value": value,
            "enough": self.enough,
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
        let least = |order| least_ratio(Metric::P50, &own, &other, order, 0.95).unwrap();
        let paired = least(Order::Interleaved);
        assert!(paired > 1.04, "{paired}");
        let unpaired = least(Order::Random);
        assert!(unpaired < 1.0, "{unpaired}");
    }

    #[test]
    fn a_rate_is_better_when_it_is_higher() {
        let own = by_repeat(&[200.0, 202.0, 198.0]);
        let other = by_repeat(&[100.0, 101.0, 99.0]);
        for order in Order::ALL {
            let low = least_ratio(Metric::Rate, &own, &other, order, 0.95).unwrap();
            assert!((1.9..=2.0).contains(&low), "{low}");
        }
    }

    /// Two cases 1 % apart, each with next to no noise of its own.
    #[test]
    fn cases_measured_one_after_the_other_are_as_far_apart_as_sessions_at_least() {
        let own = by_repeat(&[100.0, 100.01, 99.99]);
        let other = by_repeat(&[101.0, 101.01, 100.99]);
        let least = |order| least_ratio(Metric::P50, &own, &other, order, 0.95).unwrap();
        assert!(least(Order::Random) > 1.009);
        // 1.01 / 1.03: what is not known of sessions is taken as 3 %.
        let blocked = least(Order::Blocked);
        assert!((blocked - 1.01 / 1.03).abs() < 1e-6, "{blocked}");
    }

    #[test]
    fn one_repeat_tells_nothing() {
        let one = by_repeat(&[100.0]);
        for order in Order::ALL {
            assert_eq!(least_ratio(Metric::P50, &one, &one, order, 0.95), None);
        }
    }

    #[test]
    fn a_percentile_without_the_trials_for_it_makes_no_case_surely_the_best() {
        use super::super::tests::summary_of;
        // Each case: three repeats of 30 trials, ten times as slow as the one before.
        let cases: Vec<CaseSummary> = [1, 10]
            .map(|ms| summary_of(&[ms, ms, ms].map(|ms| vec![ms * 1_000_000; 30])))
            .into();
        let found = best(&cases, Order::Interleaved);
        let of = |metric| found.iter().find(|b| b.metric == metric).unwrap();
        assert_eq!(of(Metric::P50).sureness, Sureness::Sure);
        assert_eq!(of(Metric::P99).sureness, Sureness::FewTrials);
        assert!(of(Metric::P50).enough && !of(Metric::P99).enough);
    }
}
