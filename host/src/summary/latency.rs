//! Warm latency and rate.

use crate::stats::interval::{self, Estimate};
use crate::stats::outlier::{self, Outliers};
use crate::stats::summary::{Distribution, over_repeats};
use crate::stats::{quantile, rate};
use crate::view::{CaseView, RepeatView};

use super::centre;

/// Warm latency in nanoseconds and trials for each second.
#[derive(Debug, Clone, PartialEq)]
pub struct Latency {
    pub distribution: Distribution,
    /// 95 % interval of p50: over repeats, or within the run where there is one repeat only.
    pub p50_interval: Option<Estimate>,
    /// Trials for each second of the window, gaps included.
    pub rate_hz: Option<f64>,
    /// Far-away trials, counted repeat by repeat.
    pub outliers: Option<Outliers>,
    /// Measured trials of each counting repeat.
    pub per_repeat: Vec<u64>,
}

impl Latency {
    pub fn of(view: &CaseView) -> Option<Self> {
        let repeats: Vec<&RepeatView> = view
            .counting()
            .filter(|repeat| !repeat.trials.measured.is_empty())
            .collect();
        let measured: Vec<&[i64]> = repeats
            .iter()
            .map(|repeat| repeat.trials.measured.as_slice())
            .collect();
        Some(Self {
            distribution: over_repeats(&measured)?,
            p50_interval: p50_interval(&measured),
            rate_hz: centre(repeats.iter().map(|repeat| rate_hz(repeat))),
            outliers: outliers(&measured),
            per_repeat: measured.iter().map(|trials| trials.len() as u64).collect(),
        })
    }

    /// The count as shown everywhere: `3x890`, or `3x880–912` where repeats differ.
    pub fn count_text(&self) -> String {
        let (fewest, most) = (self.per_repeat.iter().min(), self.per_repeat.iter().max());
        let repeats = self.per_repeat.len();
        match (fewest, most) {
            (Some(fewest), Some(most)) if fewest != most => format!("{repeats}x{fewest}–{most}"),
            (Some(each), _) => format!("{repeats}x{each}"),
            _ => "0".into(),
        }
    }
}

pub(crate) fn rate_hz(repeat: &RepeatView) -> Option<f64> {
    let window = repeat.trials.window?;
    rate::per_second(repeat.trials.measured.len(), window.length_ns())
}

fn p50_interval(measured: &[&[i64]]) -> Option<Estimate> {
    let median = |trials: &[i64]| quantile::of(trials, 0.5);
    match measured {
        [one] => interval::within_run(one, median, 0.95),
        several => {
            let medians: Vec<f64> = several.iter().filter_map(|trials| median(trials)).collect();
            interval::over_repeats(&medians, 0.95)
        }
    }
}

/// Counts over all repeats; median and spread are those of the first.
fn outliers(measured: &[&[i64]]) -> Option<Outliers> {
    let counted = measured.iter().filter_map(|trials| outlier::count(trials));
    counted.reduce(|all, one| Outliers {
        n: all.n + one.n,
        low: all.low + one.low,
        high: all.high + one.high,
        ..all
    })
}
