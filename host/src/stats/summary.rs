//! One case's latencies as the few numbers that are printed everywhere.

use super::quantile::LEVELS;
use super::{autocorrelation, bound, mean, quantile};

/// A summary of the measured trials of one case, in the unit of the trials (nanoseconds).
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Distribution {
    /// Trials, over all repeats.
    pub n: usize,
    /// Repeats that have a trial.
    pub repeats: usize,
    /// Geometric mean over repeats of the arithmetic mean.
    pub mean: f64,
    /// Geometric mean over repeats of the sample standard deviation; `None` without two trials in
    /// one repeat.
    pub std: Option<f64>,
    /// Smallest trial of all.
    pub min: i64,
    /// Largest trial of all.
    pub max: i64,
    pub p50: Quantile,
    pub p90: Quantile,
    pub p95: Quantile,
    pub p99: Quantile,
    pub p99_9: Quantile,
    pub p99_99: Quantile,
}

/// One percentile, and whether there are trials enough to claim it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Quantile {
    /// Geometric mean over repeats of the type-7 quantile.
    pub value: f64,
    /// Upper bound at 99 % from the pooled trials, see [`bound`]; `None` below the minimum count.
    pub bound: Option<f64>,
    /// Independent trials that the measured ones are worth at this quantile, Σ n/τ over repeats.
    pub n_eff: f64,
    /// Whether `n_eff` reaches [`bound::minimum_count`]; if not, the value is printed with a mark.
    pub enough: bool,
}

/// How far a bound must lie below its point, as a share, to be more than rounding.
const ROUNDING: f64 = 1e-9;

impl Quantile {
    /// Whether the bound lies below the value, which only repeats that differ can do: the value is the mean
    /// of what each repeat says, and slow repeats raise it; the bound is that of all trials as one sample, of
    /// which those repeats are a part. The rank of a bound is above that of the quantile in every sample, so
    /// one repeat alone, or equal ones, never show it.
    pub fn repeats_differ(&self) -> bool {
        self.bound
            .is_some_and(|bound| bound < self.value * (1.0 - ROUNDING))
    }
}

impl Distribution {
    /// The percentiles with their levels, in ascending order.
    pub fn quantiles(&self) -> [(f64, Quantile); 6] {
        let all = [
            self.p50,
            self.p90,
            self.p95,
            self.p99,
            self.p99_9,
            self.p99_99,
        ];
        std::array::from_fn(|i| (LEVELS[i], all[i]))
    }
}

/// Summarises the measured trials of each repeat, in the order they ran.
///
/// The point is the geometric mean over repeats of the per-repeat statistic
/// ([`mean::over_repeats`], which says what happens to values not above zero). Bound and mark come
/// from the pooled trials, with n_eff = Σ n/τ and each τ taken inside its repeat at the repeat's
/// own quantile, so that a slower process does not read as dependence (design 4.4). A repeat
/// without trials is left out; `None` when none has any.
pub fn over_repeats(repeats: &[&[i64]]) -> Option<Distribution> {
    let repeats: Vec<&[i64]> = repeats.iter().copied().filter(|r| !r.is_empty()).collect();
    let mut pooled = repeats.concat();
    let (min, max) = (*pooled.iter().min()?, *pooled.iter().max()?);
    let points = quantiles_of_repeats(&mut pooled, &repeats)?;
    let [p50, p90, p95, p99, p99_9, p99_99] = quantiles(&mut pooled, &repeats, &points)?;
    Some(Distribution {
        n: pooled.len(),
        repeats: repeats.len(),
        mean: centre(&repeats, mean::arithmetic)?,
        std: centre(&repeats, mean::deviation),
        min,
        max,
        p50,
        p90,
        p95,
        p99,
        p99_9,
        p99_99,
    })
}

/// A statistic's centre over the repeats that have it.
fn centre(repeats: &[&[i64]], statistic: impl Fn(&[i64]) -> Option<f64>) -> Option<f64> {
    let known: Vec<f64> = repeats
        .iter()
        .filter_map(|repeat| statistic(repeat))
        .collect();
    mean::over_repeats(&known)
}

/// Quantiles of each repeat, taken inside its stretch of the pooled trials, which saves a copy.
fn quantiles_of_repeats(pooled: &mut [i64], repeats: &[&[i64]]) -> Option<Vec<[f64; 6]>> {
    let mut rest = pooled;
    let select = |repeat: &&[i64]| {
        let (stretch, after) = std::mem::take(&mut rest).split_at_mut(repeat.len());
        rest = after;
        quantile::select(stretch, LEVELS)
    };
    repeats.iter().map(select).collect()
}

fn quantiles(pooled: &mut [i64], repeats: &[&[i64]], points: &[[f64; 6]]) -> Option<[Quantile; 6]> {
    let effective: [f64; 6] =
        std::array::from_fn(|i| effective_count(repeats, points.iter().map(|point| point[i])));
    let bounds = bounds(pooled, effective);
    let all = (0..LEVELS.len()).map(|i| {
        let over: Vec<f64> = points.iter().map(|point| point[i]).collect();
        Some(Quantile {
            value: mean::over_repeats(&over)?,
            bound: bounds[i],
            n_eff: effective[i],
            enough: bounds[i].is_some(),
        })
    });
    all.collect::<Option<Vec<_>>>()?.try_into().ok()
}

/// Σ n/τ over repeats, τ at each repeat's own threshold.
fn effective_count(repeats: &[&[i64]], thresholds: impl Iterator<Item = f64>) -> f64 {
    let worth = |(repeat, threshold): (&&[i64], f64)| {
        repeat.len() as f64 / autocorrelation::exceedance_time(repeat, threshold)
    };
    repeats.iter().zip(thresholds).map(worth).sum()
}

/// The bound at each level, all ranks placed in one go.
fn bounds(pooled: &mut [i64], effective: [f64; 6]) -> [Option<f64>; 6] {
    let ranks: [Option<usize>; 6] =
        std::array::from_fn(|i| bound::rank(pooled.len(), effective[i], LEVELS[i]));
    let indices = ranks.iter().flatten().map(|rank| rank - 1);
    quantile::put_in_place(pooled, indices.collect());
    ranks.map(|rank| rank.map(|rank| pooled[rank - 1] as f64))
}

#[cfg(test)]
mod tests {
    use super::super::simulate::{ar1, latencies};
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn one_repeat_matches_hand_worked_values() {
        let trials: Vec<i64> = (1..=11).map(|i| i * 100).collect();
        let summary = over_repeats(&[&trials]).unwrap();
        assert_eq!((summary.n, summary.repeats), (11, 1));
        assert_eq!((summary.min, summary.max), (100, 1_100));
        assert!((summary.mean - 600.0).abs() < 1e-9);
        assert!((summary.std.unwrap() - 110_000.0_f64.sqrt()).abs() < 1e-9);
        assert!((summary.p50.value - 600.0).abs() < 1e-9);
        assert!((summary.p95.value - 1_050.0).abs() < 1e-9);
    }

    #[test]
    fn the_point_is_the_geometric_mean_over_repeats() {
        let summary = over_repeats(&[&[100; 20], &[400; 80]]).unwrap();
        assert!((summary.p50.value - 200.0).abs() < 1e-9);
        assert!((summary.mean - 200.0).abs() < 1e-9);
        // All deviations are 0, which has no logarithm: the arithmetic mean stands in.
        assert_eq!(summary.std, Some(0.0));
        assert_eq!(summary.p50.bound, Some(400.0));
    }

    /// Nine repeats of 1 and one of 100: p50 of a repeat is 1 nine times and 100 once, 100^(1/10) = 1.585 in the
    /// geometric mean. Of all trials together nine in ten are 1, and so is the bound of their p50.
    #[test]
    fn a_bound_below_its_point_says_that_repeats_differ() {
        let (quick, slow) = ([1_i64; 200], [100_i64; 200]);
        let mut repeats = vec![&quick[..]; 9];
        repeats.push(&slow[..]);
        let summary = over_repeats(&repeats).unwrap();
        assert!((summary.p50.value - 100_f64.powf(0.1)).abs() < 1e-9);
        assert_eq!(summary.p50.bound, Some(1.0));
        assert!(summary.p50.repeats_differ());
        // One in ten trials is a 100, so the bound of p95 is one of them.
        assert_eq!(summary.p95.bound, Some(100.0));
        assert!(!summary.p95.repeats_differ());

        let equal = over_repeats(&[&quick[..]; 9]).unwrap();
        let all = equal.quantiles();
        assert!(all.iter().all(|(_, quantile)| !quantile.repeats_differ()));
        let few = over_repeats(&[&[7]]).unwrap();
        assert!(!few.p50.repeats_differ(), "there is no bound");
    }

    #[test]
    fn too_few_trials_are_marked_and_have_no_bound() {
        let trials = latencies(400, 1e6, 0.1, 1);
        let summary = over_repeats(&[&trials]).unwrap();
        assert!(summary.p90.enough && summary.p90.bound.unwrap() > summary.p90.value);
        assert!(!summary.p99.enough && summary.p99.bound.is_none());
        assert!(summary.p99.value > summary.p90.value);
    }

    #[test]
    fn empty_repeats_are_left_out() {
        assert_eq!(over_repeats(&[]), None);
        assert_eq!(over_repeats(&[&[], &[]]), None);
        let summary = over_repeats(&[&[], &[7]]).unwrap();
        assert_eq!((summary.n, summary.repeats, summary.std), (1, 1, None));
        assert_eq!(summary.p50.value, 7.0);
    }

    #[test]
    fn dependent_trials_count_for_less() {
        let slow: Vec<i64> = ar1(20_000, 0.95, 3)
            .iter()
            .map(|z| (1e6 + 1e5 * z) as i64)
            .collect();
        let summary = over_repeats(&[&slow, &slow]).unwrap();
        assert!(summary.p50.n_eff < 5_000.0, "{}", summary.p50.n_eff);
        assert!(summary.p50.n_eff > 500.0, "{}", summary.p50.n_eff);
    }

    #[test]
    fn the_bound_covers_the_quantile_of_a_dependent_series() {
        // The 0.9 quantile of a standard normal.
        let truth = 1e6 + 1e5 * 1.281_551_6;
        let experiments = 1_000_u64;
        let covered = (0..experiments).filter(|&seed| {
            let z = ar1(4_000, 0.9, seed);
            let trials: Vec<i64> = z.iter().map(|z| (1e6 + 1e5 * z) as i64).collect();
            let bound = over_repeats(&[&trials]).unwrap().p90.bound;
            bound.is_some_and(|bound| bound >= truth)
        });
        // An estimated tau costs a little of the nominal 99 %.
        let covered = covered.count();
        assert!(covered > 970, "{covered} of {experiments}");
    }

    proptest! {
        #[test]
        fn quantiles_and_extremes_are_in_order(trials in prop::collection::vec(1_i64..1_000_000, 1..300)) {
            let summary = over_repeats(&[&trials]).unwrap();
            let values = summary.quantiles().map(|(_, quantile)| quantile.value);
            prop_assert!(values.is_sorted_by(|a, b| *a <= b + 1e-6));
            prop_assert!(summary.min as f64 <= values[0] + 1e-6);
            prop_assert!(values[5] <= summary.max as f64 + 1e-6);
            for (_, quantile) in summary.quantiles() {
                prop_assert!(quantile.n_eff <= trials.len() as f64);
                prop_assert_eq!(quantile.enough, quantile.bound.is_some());
                prop_assert!(!quantile.repeats_differ(), "there is one repeat: {quantile:?}");
            }
        }
    }

    #[test]
    #[ignore = "prints how long a million trials take; run with --release -- --ignored --nocapture"]
    #[expect(clippy::disallowed_methods, reason = "prints a time, asserts none")]
    fn time_of_a_million_trials() {
        let independent = latencies(1_000_000, 5e6, 0.05, 1);
        let drifting: Vec<i64> = (0..).zip(&independent).map(|(i, x)| x + i).collect();
        let slow: Vec<i64> = ar1(1_000_000, 0.999, 3)
            .iter()
            .map(|z| (1e6 + 1e5 * z) as i64)
            .collect();
        for (name, trials) in [
            ("independent", independent),
            ("drifting", drifting),
            ("slow", slow),
        ] {
            let start = std::time::Instant::now();
            let summary = over_repeats(&[&trials]).unwrap();
            println!(
                "{name}: {:?}, n_eff at p50 {:.0}",
                start.elapsed(),
                summary.p50.n_eff
            );
            let start = std::time::Instant::now();
            let time = autocorrelation::exceedance_time(&trials, summary.p50.value);
            println!("{name}: {:?} for tau {time:.1} at p50", start.elapsed());
        }
    }
}
