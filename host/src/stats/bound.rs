//! The conservative bound beside each point percentile: a value that the true quantile stays below
//! in at least 99 of 100 experiments, whatever the distribution.
//!
//! Of n independent trials, the number above the p-quantile is Binomial(n, 1 − p). The (n − t)-th
//! smallest value lies below that quantile only when at most t trials reached it, so
//! P(Binomial(n, 1 − p) ≤ t) ≤ 0.01 makes it an upper bound at 99 % (order-statistic limit: David
//! and Nagaraja, *Order Statistics*, 2003, 7.1). MLPerf LoadGen counts its "early stopping" the same
//! way. t ≥ 1 keeps the worst trial of all from being the bound.

use statrs::function::factorial::ln_binomial;

use super::quantile::put_in_place;
use super::value::Value;

/// The largest probability that the true quantile lies above the bound.
pub const MISS: f64 = 0.01;

/// How many trials may lie above the bound: the largest t ≥ 1 with
/// P(Binomial(n, 1 − p) ≤ t) ≤ [`MISS`]; `None` below the minimum count.
pub fn spare(n: u64, p: f64) -> Option<u64> {
    if !is_inside(p) || lower_tail(n, 1.0 - p, 1) > MISS {
        return None;
    }
    // At the mean the tail is near one half, so the answer lies between 1 and there.
    let (mut within, mut beyond) = (1, (n as f64 * (1.0 - p)).floor() as u64 + 1);
    while beyond - within > 1 {
        let t = within + (beyond - within) / 2;
        if lower_tail(n, 1.0 - p, t) <= MISS {
            within = t;
        } else {
            beyond = t;
        }
    }
    Some(within)
}

/// The smallest count at which a bound exists: the least n with
/// pⁿ + n(1 − p)pⁿ⁻¹ ≤ [`MISS`] (the case t = 1); `None` unless 0 < p < 1.
pub fn minimum_count(p: f64) -> Option<u64> {
    let q = 1.0 - p;
    let enough = |n: u64| lower_tail(n, q, 1) <= MISS;
    if !is_inside(p) {
        return None;
    }
    let mut high = 2_u64;
    while !enough(high) {
        high = high.checked_mul(2)?;
    }
    let mut low = high / 2;
    while high - low > 1 {
        let n = low + (high - low) / 2;
        if enough(n) { high = n } else { low = n }
    }
    Some(high)
}

/// Rank (from 1) of the bound among `n` pooled trials worth `effective` independent ones:
/// ⌈n (n_eff − t) / n_eff⌉; `None` below the minimum count.
///
/// A part of a trial earns nothing: t is that of ⌊n_eff⌋. More effective trials than trials is
/// taken as no more than there are.
pub fn rank(n: usize, effective: f64, p: f64) -> Option<usize> {
    let n = n as f64;
    let effective = effective.min(n);
    let t = spare(effective.floor() as u64, p)? as f64;
    Some((n * (effective - t) / effective).ceil() as usize)
}

/// The bound itself: the pooled trial at [`rank`]; reorders the slice.
pub fn upper<V: Value>(pooled: &mut [V], effective: f64, p: f64) -> Option<f64> {
    let index = rank(pooled.len(), effective, p)? - 1;
    put_in_place(pooled, vec![index]);
    Some(pooled[index].to_f64())
}

/// The bound on the other side: a value that the true quantile stays above in at least 99 of 100
/// experiments, at rank ⌊n t / n_eff⌋ + 1 with the largest t such that P(Binomial(n_eff, p) ≤ t) ≤ [`MISS`];
/// reorders the slice.
///
/// The same limit read from below: a value lies above the p-quantile only where at most as many trials as
/// are smaller than it fell below that quantile (David and Nagaraja, 2003, 7.1). `None` where t ≥ 1 has
/// too few trials.
pub fn lower<V: Value>(pooled: &mut [V], effective: f64, p: f64) -> Option<f64> {
    let n = pooled.len() as f64;
    let effective = effective.min(n);
    let t = spare(effective.floor() as u64, 1.0 - p)? as f64;
    let index = (n * t / effective).floor() as usize;
    if index >= pooled.len() {
        return None;
    }
    put_in_place(pooled, vec![index]);
    Some(pooled[index].to_f64())
}

/// P(Binomial(n, q) ≤ t) for t below the mean.
///
/// Sums down from t by P(k − 1) = P(k) · k(1 − q) / ((n − k + 1)q), whose terms shrink there. The
/// regularised incomplete beta function would be the closed form, but its continued fraction stops
/// after 140 steps in statrs 0.19 and needs O(√n) of them.
fn lower_tail(n: u64, q: f64, t: u64) -> f64 {
    if t >= n {
        return 1.0;
    }
    let (count, top) = (n as f64, t as f64);
    let mut term = (ln_binomial(n, t) + top * q.ln() + (count - top) * (-q).ln_1p()).exp();
    let (mut sum, mut k) = (term, top);
    while k > 0.0 && term > sum * f64::EPSILON {
        term *= k * (1.0 - q) / ((count - k + 1.0) * q);
        sum += term;
        k -= 1.0;
    }
    sum.min(1.0)
}

fn is_inside(p: f64) -> bool {
    p > 0.0 && p < 1.0
}

#[cfg(test)]
mod tests {
    use super::super::quantile::LEVELS;
    use super::super::random::Random;
    use super::*;
    use proptest::prelude::*;
    use statrs::function::beta::beta_reg;

    #[test]
    fn minimum_counts_are_those_of_the_design() {
        let counts = LEVELS.map(|p| minimum_count(p).unwrap());
        assert_eq!(counts, [11, 64, 130, 662, 6_636, 66_381]);
    }

    #[test]
    fn one_trial_fewer_than_the_minimum_has_no_bound() {
        for p in LEVELS {
            let n = minimum_count(p).unwrap();
            assert_eq!(spare(n, p), Some(1), "p = {p}");
            assert_eq!(spare(n - 1, p), None, "p = {p}");
        }
        assert_eq!(spare(0, 0.5), None);
        assert_eq!(spare(100, 1.0), None);
    }

    #[test]
    fn the_tail_matches_hand_worked_values() {
        // P(Binomial(11, 1/2) <= 1) = 12 / 2^11, P(Binomial(20, 1/2) <= 4) = 6196 / 2^20
        assert!((lower_tail(11, 0.5, 1) - 12.0 / 2048.0).abs() < 1e-15);
        assert!((lower_tail(20, 0.5, 4) - 6196.0 / 1_048_576.0).abs() < 1e-15);
        assert_eq!(spare(20, 0.5), Some(4));
    }

    #[test]
    fn a_million_trials_follow_the_normal_approximation() {
        // t + 1/2 is about nq - 2.326 sqrt(npq).
        let t = spare(1_000_000, 0.5).unwrap() as f64;
        assert!((t - (500_000.0 - 2.3263 * 500.0)).abs() < 2.0, "t = {t}");
    }

    #[test]
    fn dependence_lowers_the_number_of_spare_trials_not_the_share() {
        assert_eq!(rank(20, 20.0, 0.5), Some(16));
        // 200 trials worth 20: 200 * 16 / 20.
        assert_eq!(rank(200, 20.0, 0.5), Some(160));
        assert_eq!(rank(200, 20.9, 0.5), Some(162));
        assert_eq!(rank(200, 10.9, 0.5), None);
        assert_eq!(rank(20, 1e9, 0.5), Some(16));
        assert_eq!(rank(0, 0.0, 0.5), None);
    }

    #[test]
    fn the_bound_is_the_value_at_its_rank() {
        let mut values: Vec<i64> = (1..=20).rev().collect();
        assert_eq!(upper(&mut values, 20.0, 0.5), Some(16.0));
        assert_eq!(upper(&mut values, 20.0, 0.9), None);
    }

    #[test]
    fn the_bound_covers_the_quantile_in_99_of_100_experiments() {
        for (n, p) in [(11, 0.5), (100, 0.5), (64, 0.9), (500, 0.9), (700, 0.99)] {
            let experiments = 4_000;
            let mut random = Random::seeded(7);
            let covered = (0..experiments)
                .filter(|_| {
                    let mut sample: Vec<f64> = (0..n).map(|_| random.uniform()).collect();
                    upper(&mut sample, n as f64, p).unwrap() >= p
                })
                .count();
            // Three standard errors of a share of 0.99 in 4 000 are 0.0047.
            assert!(
                covered as f64 / f64::from(experiments) > 0.9853,
                "n = {n}, p = {p}"
            );
        }
    }

    #[test]
    fn the_lower_bound_matches_a_hand_worked_value_and_mirrors_the_upper() {
        // P(Binomial(20, 1/2) <= 4) = 0.0059: four trials may lie below, so it is the fifth.
        let mut values: Vec<i64> = (1..=20).rev().collect();
        assert_eq!(lower(&mut values, 20.0, 0.5), Some(5.0));
        assert_eq!(upper(&mut values, 20.0, 0.5), Some(16.0));
        // P(Binomial(100, 0.99) <= 95) = 0.0034 and <= 96 = 0.0184.
        let mut hundred: Vec<i64> = (1..=100).collect();
        assert_eq!(lower(&mut hundred, 100.0, 0.99), Some(96.0));
        // 200 trials worth 20: as the fifth of 20, so many tenths of the way.
        let mut many: Vec<i64> = (1..=200).collect();
        assert_eq!(lower(&mut many, 20.0, 0.5), Some(41.0));
        assert_eq!(lower(&mut [1_i64, 2, 3], 3.0, 0.5), None);
    }

    #[test]
    fn the_quantile_is_above_the_lower_bound_in_99_of_100_experiments() {
        for (n, p) in [(11, 0.5), (100, 0.9), (100, 0.99), (700, 0.99)] {
            let experiments = 4_000;
            let mut random = Random::seeded(17);
            let above = (0..experiments)
                .filter(|_| {
                    let mut sample: Vec<f64> = (0..n).map(|_| random.uniform()).collect();
                    lower(&mut sample, n as f64, p).unwrap() <= p
                })
                .count();
            // Three standard errors of a share of 0.99 in 4 000 are 0.0047.
            assert!(
                above as f64 / f64::from(experiments) > 0.9853,
                "n = {n}, p = {p}: {above}"
            );
        }
    }

    proptest! {
        #[test]
        fn the_tail_agrees_with_the_incomplete_beta(n in 2_u64..2_000, q in 0.001..0.6, share in 0.0..1.0) {
            let t = (n as f64 * q * share) as u64;
            prop_assume!(t < n);
            let closed = beta_reg((n - t) as f64, t as f64 + 1.0, 1.0 - q);
            prop_assert!((lower_tail(n, q, t) - closed).abs() < 1e-9);
        }

        #[test]
        fn spare_is_the_largest_that_holds(n in 11_u64..300_000, p in 0.5..0.9999) {
            if let Some(t) = spare(n, p) {
                prop_assert!(lower_tail(n, 1.0 - p, t) <= MISS);
                prop_assert!(lower_tail(n, 1.0 - p, t + 1) > MISS);
            }
        }

        #[test]
        fn the_rank_grows_with_p(n in 11_usize..100_000, a in 0.5..0.9999, b in 0.5..0.9999) {
            let (low, high) = if a < b { (a, b) } else { (b, a) };
            if let (Some(lower), Some(upper)) = (rank(n, n as f64, low), rank(n, n as f64, high)) {
                prop_assert!(lower <= upper);
            }
        }

        #[test]
        fn dependence_never_lowers_the_bound(n in 700_usize..100_000, tau in 1.0..8.0) {
            let independent = rank(n, n as f64, 0.9).unwrap();
            if let Some(dependent) = rank(n, n as f64 / tau, 0.9) {
                prop_assert!(dependent + 1 >= independent);
            }
        }
    }
}
