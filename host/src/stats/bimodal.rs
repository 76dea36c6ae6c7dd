//! Whether latencies fall into two groups: one figure then stands for neither.
//!
//! Figures only, like [`steady`](super::steady): what counts as two is the caller's to say, with
//! [`Bimodality::is_clear`] as the usual answer.

use super::quantile;
use super::value::Value;

/// Fewest values that are looked at.
const FEWEST: usize = 50;
/// A group smaller than this share is a tail, not a mode.
const SMALLEST_GROUP: f64 = 0.05;
/// Of more values than this, so many are looked at: shares of a few per cent need no more.
const MOST: usize = 20_000;
/// Share of the variance that lies between the groups: 2/π = 0.64 for a normal law, 0.75 for a
/// uniform one, near 1 for two narrow groups.
const SEPARATED: f64 = 0.8;
/// Values in the valley for each one in the lower mode, on stretches of equal length.
const DEEP: f64 = 0.5;

/// The best cut of a sample into two groups.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Bimodality {
    /// Mean of the lower group and of the upper one.
    pub low: f64,
    pub high: f64,
    /// Values in the upper group, as a share of all.
    pub upper_share: f64,
    /// Variance between the groups, as a share of the whole variance.
    pub separation: f64,
    /// How filled the valley is: values there for each one in the lower mode.
    pub valley: f64,
}

impl Bimodality {
    /// Two groups that no single law would give.
    pub fn is_clear(&self) -> bool {
        let smaller = self.upper_share.min(1.0 - self.upper_share);
        smaller >= SMALLEST_GROUP && self.separation >= SEPARATED && self.valley <= DEEP
    }
}

/// Cuts the values between the 1st and the 99th percentile where the variance between the two groups is
/// largest (Otsu, *A Threshold Selection Method from Gray-Level Histograms*, 1979), which for one
/// dimension is the best clustering in two (Fisher 1958), and looks how deep the valley between them is.
///
/// `None` for fewer than 50 values, or when all are equal.
pub fn test<V: Value>(values: &[V]) -> Option<Bimodality> {
    if values.len() < FEWEST {
        return None;
    }
    let mut sorted = picked(values);
    sorted.sort_unstable_by(f64::total_cmp);
    let (from, to) = (sorted.len() / 100, sorted.len() - sorted.len() / 100);
    let kept = &sorted[from..to];
    let (cut, separation) = best_cut(kept)?;
    let (below, above) = kept.split_at(cut);
    let mean = |group: &[f64]| group.iter().sum::<f64>() / group.len() as f64;
    let (low, high) = (mean(below), mean(above));
    Some(Bimodality {
        low,
        high,
        upper_share: above.len() as f64 / kept.len() as f64,
        separation,
        valley: valley(kept, low, high)?,
    })
}

/// All values, or [`MOST`] of them spread so evenly that no period of theirs is met (multiples of the
/// golden ratio; Weyl 1916).
fn picked<V: Value>(values: &[V]) -> Vec<f64> {
    const GOLDEN: f64 = 0.618_033_988_749_894_9;
    let n = values.len();
    if n <= MOST {
        return values.iter().map(|value| value.to_f64()).collect();
    }
    let place = |i: usize| ((i as f64 * GOLDEN).fract() * n as f64) as usize;
    let picked = (0..MOST).map(|i| values[place(i).min(n - 1)].to_f64());
    picked.collect()
}

/// Where to cut, and the share of variance between the groups: n₁n₂(x̄₂ − x̄₁)² / (n Σ(x − x̄)²).
fn best_cut(sorted: &[f64]) -> Option<(usize, f64)> {
    let n = sorted.len() as f64;
    let mean = sorted.iter().sum::<f64>() / n;
    let total: f64 = sorted.iter().map(|x| (x - mean).powi(2)).sum();
    if total <= 0.0 {
        return None;
    }
    let (mut sum, mut best) = (0.0, (0, 0.0));
    for i in 1..sorted.len() {
        sum += sorted[i - 1] - mean;
        let between = sum * sum * n / (i as f64 * (n - i as f64));
        if between > best.1 {
            best = (i, between);
        }
    }
    Some((best.0, best.1 / total))
}

/// The emptiest of nine stretches between the means, against the fuller of the stretches around each
/// mean, of which the lower counts. A stretch is a fifth of the distance between the means.
fn valley(sorted: &[f64], low: f64, high: f64) -> Option<f64> {
    let width = (high - low) / 5.0;
    let around = |centre: f64| {
        let begin = sorted.partition_point(|x| *x < centre - width / 2.0);
        sorted.partition_point(|x| *x <= centre + width / 2.0) - begin
    };
    let between = (1..10).map(|i| around(low + (high - low) * f64::from(i) / 10.0));
    let emptiest = between.min()? as f64;
    // The mean of a skewed group is not its peak: the fullest stretch of its half is.
    let fullest = |from: f64| {
        let steps = (0..=10).map(|i| around(from + (f64::from(i) - 5.0) * width / 5.0));
        steps.max()
    };
    let mode = fullest(low)?.min(fullest(high)?) as f64;
    (mode > 0.0).then_some(emptiest / mode)
}

/// The median of a sample without its upper group, for a caller that wants to name both.
pub fn modes<V: Value>(values: &[V], found: &Bimodality) -> Option<(f64, f64)> {
    let middle = f64::midpoint(found.low, found.high);
    let (below, above): (Vec<f64>, Vec<f64>) = values
        .iter()
        .map(|value| value.to_f64())
        .partition(|x| *x < middle);
    Some((quantile::of(&below, 0.5)?, quantile::of(&above, 0.5)?))
}

#[cfg(test)]
mod tests {
    use super::super::random::Random;
    use super::super::simulate::latencies;
    use super::*;

    fn two(share: f64, apart: f64, seed: u64) -> Vec<i64> {
        let mut random = Random::seeded(seed);
        (0..1_000)
            .map(|_| {
                let mode = if random.uniform() < share { apart } else { 1.0 };
                (1e6 * mode * (0.02 * random.normal()).exp()) as i64
            })
            .collect()
    }

    #[test]
    fn two_clocks_are_two_modes() {
        for share in [0.1, 0.3, 0.5, 0.9] {
            let found = test(&two(share, 1.3, 4)).unwrap();
            assert!(found.is_clear(), "{share}: {found:?}");
            assert!((found.upper_share - share).abs() < 0.05, "{found:?}");
            assert!((found.high / found.low - 1.3).abs() < 0.02, "{found:?}");
            let (low, high) = modes(&two(share, 1.3, 4), &found).unwrap();
            assert!((high / low - 1.3).abs() < 0.02);
        }
    }

    #[test]
    fn one_law_is_one_mode() {
        let mut random = Random::seeded(9);
        let mut wrong = 0;
        for seed in 0..300 {
            let normal = latencies(500, 1e6, 0.03, seed);
            let skewed = latencies(500, 1e6, 0.8, seed);
            let flat: Vec<f64> = (0..500).map(|_| random.uniform()).collect();
            wrong += u32::from(test(&normal).unwrap().is_clear());
            wrong += u32::from(test(&skewed).unwrap().is_clear());
            wrong += u32::from(test(&flat).unwrap().is_clear());
        }
        assert!(wrong <= 9, "{wrong} of 900");
    }

    #[test]
    fn a_few_slow_trials_are_a_tail() {
        let mut trials = two(0.0, 1.0, 2);
        for trial in trials.iter_mut().step_by(40) {
            *trial *= 2;
        }
        assert!(!test(&trials).unwrap().is_clear());
    }

    #[test]
    fn of_very_many_values_some_are_enough() {
        let mut random = Random::seeded(3);
        let many: Vec<f64> = (0..300_000)
            .map(|i| if i % 4 == 0 { 2.0 } else { 1.0 } + 0.01 * random.normal())
            .collect();
        let found = test(&many).unwrap();
        assert!(found.is_clear());
        assert!((found.upper_share - 0.25).abs() < 0.01, "{found:?}");
    }

    #[test]
    fn too_few_or_equal_values_say_nothing() {
        assert_eq!(test(&[1_i64; 49]), None);
        assert_eq!(test(&[1_i64; 100]), None);
    }

    #[test]
    fn the_share_between_groups_matches_a_hand_worked_value() {
        // 0 0 1 9 9 9: mean 28/6, total 113.333; cut at 3: means 1/3 and 9, 3*3/6 * (26/3)^2 = 112.667.
        let (cut, share) = best_cut(&[0.0, 0.0, 1.0, 9.0, 9.0, 9.0]).unwrap();
        assert_eq!(cut, 3);
        assert!((share - 112.666_667 / 113.333_333).abs() < 1e-6);
    }
}
