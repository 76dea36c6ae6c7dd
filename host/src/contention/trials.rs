//! Whether a percentile rests on trials enough to be claimed, as `summary` has it.

use serde::Serialize;

use crate::stats::bound::minimum_count;
use crate::stats::{autocorrelation::exceedance_time, quantile};

/// What the trials behind a percentile are worth.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Worth {
    /// Of all repeats that the figure is made of.
    pub trials: u64,
    /// Independent trials that they are worth at this percentile, Σ n/τ over repeats.
    pub independent: f64,
    /// The fewest of them with which it can be bounded.
    pub needed: u64,
    pub enough: bool,
}

impl Worth {
    /// Of the trials of some repeats at a level; none where no level needs any.
    pub fn of<'a>(repeats: impl IntoIterator<Item = &'a [i64]>, level: f64) -> Option<Self> {
        let needed = minimum_count(level)?;
        let (mut trials, mut independent) = (0, 0.0);
        for repeat in repeats {
            let Some(threshold) = quantile::of(repeat, level) else {
                continue;
            };
            trials += repeat.len() as u64;
            independent += repeat.len() as f64 / exceedance_time(repeat, threshold);
        }
        Some(Self {
            trials,
            independent,
            needed,
            enough: independent >= needed as f64,
        })
    }

    /// `not enough trials for p99: 300 of 662`.
    pub fn lack(&self, metric: &str) -> Option<String> {
        let name = metric.trim_start_matches("latency_");
        let name = name.trim_end_matches("_ms").replace('_', ".");
        // No more than there are, however they were weighed.
        let had = self.independent.floor().min(self.trials as f64);
        (!self.enough).then(|| format!("not enough trials for {name}: {had:.0} of {}", self.needed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every value once, in an order in which none says anything of the next.
    fn independent(n: i64) -> Vec<i64> {
        (0..n).map(|i| i * 7_919 % n).collect()
    }

    #[test]
    fn a_percentile_needs_as_many_trials_as_its_bound_does() {
        let repeat = independent(140);
        let of = |repeats: usize, level| {
            Worth::of(std::iter::repeat_n(repeat.as_slice(), repeats), level).unwrap()
        };
        // 11, 130 and 662, as the statistics have them; 5 × 140 = 700.
        assert_eq!(
            [of(1, 0.5), of(1, 0.95), of(1, 0.99)].map(|w| w.needed),
            [11, 130, 662]
        );
        assert!(of(1, 0.5).enough);
        assert!(!of(1, 0.99).enough && !of(4, 0.99).enough);
        assert_eq!(of(4, 0.99).trials, 560);
        let none = Worth::of([], 0.99).unwrap();
        assert_eq!((none.trials, none.enough), (0, false));
    }

    #[test]
    fn what_lacks_is_said_by_the_name_of_the_percentile() {
        let worth = Worth {
            trials: 450,
            independent: 300.7,
            needed: 662,
            enough: false,
        };
        let said = worth.lack("latency_p99_ms").unwrap();
        assert_eq!(said, "not enough trials for p99: 300 of 662");
        assert_eq!(
            Worth {
                enough: true,
                ..worth
            }
            .lack("latency_p99_ms"),
            None
        );
    }
}
