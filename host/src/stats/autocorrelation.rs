//! How many independent trials a run of dependent ones is worth: n / τ.
//!
//! τ = 1 + 2 Σ ρ(k) is the integrated autocorrelation time, the factor by which dependence inflates
//! the variance of a mean. The sum stops at the smallest W ≥ 5 τ(W), the automatic window of Sokal,
//! *Monte Carlo Methods in Statistical Mechanics* (1997), 3; beyond it the sum adds only noise.
//! Autocovariances are the biased ones, 1/n Σ (xᵢ − x̄)(xᵢ₊ₖ − x̄) (Priestley 1981, 5.3).
//!
//! A window that needs too many lags is continued on sums of neighbouring values, which keep the
//! long-run variance and shorten the series (Goodman, *acor*, 2009). One limit remains: dependence
//! that begins only after five or more uncorrelated lags is missed.

use super::mean::arithmetic;
use super::value::Value;

/// Window length in units of τ.
const WINDOW: f64 = 5.0;
/// How many products one window may cost before the series is shortened.
const BUDGET: usize = 2_000_000;
/// Neighbours summed at each shortening.
const SHORTENING: usize = 8;
/// A series is not shortened below this many values.
const SHORTEST: usize = 64;

/// τ ≥ 1 of the exceedance indicator at `threshold`, 1 where trial i is above it and 0 elsewhere.
///
/// The count of exceedances is what a quantile's error comes from (Raftery and Lewis 1992). Where
/// ties leave no trial above the threshold, those at it count. A constant series has τ = 1.
pub fn exceedance_time<V: Value>(trials: &[V], threshold: f64) -> f64 {
    let mut indicator = Bits::pack(trials, |value| value > threshold);
    if indicator.ones == 0 {
        indicator = Bits::pack(trials, |value| value >= threshold);
    }
    let variance = indicator.covariance(0);
    if variance <= 0.0 {
        return 1.0;
    }
    let lags = affordable_lags(indicator.len, indicator.words.len());
    let window = Window::close(lags, |lag| indicator.covariance(lag) / variance);
    let time = if window.is_closed || indicator.words.len() < SHORTEST {
        window.time
    } else {
        long_run_variance(indicator.word_sums()) / (64.0 * variance)
    };
    time.max(1.0)
}

/// τ ≥ 1 of any series; 1 when it is constant or empty.
pub fn integrated_time(series: &[f64]) -> f64 {
    let Some(variance) = covariance_of(series).map(|covariance| covariance(0)) else {
        return 1.0;
    };
    if variance <= 0.0 {
        return 1.0;
    }
    (long_run_variance(series.to_vec()) / variance).max(1.0)
}

/// C(0) + 2 Σ C(k), the variance of the series' sum for each value of it.
fn long_run_variance(mut series: Vec<f64>) -> f64 {
    let mut summed = 1.0;
    loop {
        let Some(covariance) = covariance_of(&series) else {
            return 0.0;
        };
        let variance = covariance(0);
        if variance <= 0.0 {
            return 0.0;
        }
        let lags = affordable_lags(series.len(), series.len());
        let window = Window::close(lags, |lag| covariance(lag) / variance);
        if window.is_closed || series.len() / SHORTENING < SHORTEST {
            return window.time * variance / summed;
        }
        let sums = series.chunks_exact(SHORTENING).map(|run| run.iter().sum());
        series = sums.collect();
        summed *= SHORTENING as f64;
    }
}

/// Lags that one window over `len` values may look at, when a lag costs `cost` products.
fn affordable_lags(len: usize, cost: usize) -> usize {
    (BUDGET / cost.max(1)).min(len / 2)
}

/// Biased autocovariance of a series as a function of the lag.
fn covariance_of(series: &[f64]) -> Option<impl Fn(usize) -> f64 + use<>> {
    let mean = arithmetic(series)?;
    let centred: Vec<f64> = series.iter().map(|x| x - mean).collect();
    Some(move |lag: usize| {
        let pairs = centred.iter().zip(&centred[lag..]);
        pairs.map(|(a, b)| a * b).sum::<f64>() / centred.len() as f64
    })
}

/// A sum of autocorrelations up to where it closed, or up to the lags there were.
struct Window {
    time: f64,
    is_closed: bool,
}

impl Window {
    fn close(lags: usize, correlation: impl Fn(usize) -> f64) -> Self {
        let mut time = 1.0;
        for lag in 1..=lags {
            time += 2.0 * correlation(lag);
            if lag as f64 >= WINDOW * time {
                return Self {
                    time,
                    is_closed: true,
                };
            }
        }
        Self {
            time,
            is_closed: false,
        }
    }
}

/// A series of zeros and ones, 64 to the word: a lag of a million trials costs 16 000 operations.
struct Bits {
    /// The bits, then one word of zeros.
    words: Vec<u64>,
    len: usize,
    ones: u32,
}

impl Bits {
    fn pack<V: Value>(values: &[V], is_one: impl Fn(f64) -> bool) -> Self {
        let pack_word = |word: &[V]| {
            let bits = word.iter().enumerate();
            bits.fold(0, |packed, (i, v)| {
                packed | u64::from(is_one(v.to_f64())) << i
            })
        };
        let mut words: Vec<u64> = values.chunks(64).map(pack_word).collect();
        words.push(0);
        Self {
            ones: words.iter().map(|word| word.count_ones()).sum(),
            len: values.len(),
            words,
        }
    }

    /// Biased autocovariance: with a and b the ones of the first and last n − k values,
    /// (Σ xᵢxᵢ₊ₖ − x̄(a + b) + (n − k)x̄²) / n.
    fn covariance(&self, lag: usize) -> f64 {
        if self.len <= lag {
            return 0.0;
        }
        let n = self.len as f64;
        let mean = f64::from(self.ones) / n;
        let leading = f64::from(self.ones_before(self.len - lag));
        let trailing = f64::from(self.ones - self.ones_before(lag));
        let overlap = (self.len - lag) as f64;
        let pairs = f64::from(self.pairs_at(lag));
        (pairs - mean * (leading + trailing) + overlap * mean * mean) / n
    }

    /// Σ xᵢxᵢ₊ₖ.
    fn pairs_at(&self, lag: usize) -> u32 {
        let (skip, shift) = (lag / 64, lag % 64);
        let ahead = self.words[skip..].windows(2);
        let shifted = ahead.map(|pair| pair[0] >> shift | pair[1] << 1 << (63 - shift));
        let both = self
            .words
            .iter()
            .zip(shifted)
            .map(|(word, moved)| word & moved);
        both.map(u64::count_ones).sum()
    }

    fn ones_before(&self, index: usize) -> u32 {
        let whole: u32 = self.words[..index / 64]
            .iter()
            .map(|word| word.count_ones())
            .sum();
        let part = self.words[index / 64] & ((1 << (index % 64)) - 1);
        whole + part.count_ones()
    }

    /// Ones in each full word, the series summed by 64.
    fn word_sums(&self) -> Vec<f64> {
        let full = self.words[..self.len / 64].iter();
        full.map(|word| f64::from(word.count_ones())).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::super::quantile;
    use super::super::simulate::{ar1, white};
    use super::*;
    use proptest::prelude::*;

    fn time_at(series: &[f64], p: f64) -> f64 {
        exceedance_time(series, quantile::of(series, p).unwrap())
    }

    #[test]
    fn independent_trials_have_a_time_of_about_one() {
        for (n, p) in [
            (10_000, 0.5),
            (100_000, 0.9),
            (100_000, 0.99),
            (1_000_000, 0.999),
        ] {
            let time = time_at(&white(n, 3), p);
            assert!((1.0..1.1).contains(&time), "n = {n}, p = {p}: {time}");
        }
    }

    #[test]
    fn an_ar1_series_has_the_time_of_the_theory() {
        // tau = (1 + phi) / (1 - phi)
        for (phi, n) in [
            (0.5, 100_000),
            (0.9, 200_000),
            (0.99, 400_000),
            (0.999, 1_000_000),
        ] {
            let expected = (1.0 + phi) / (1.0 - phi);
            let time = integrated_time(&ar1(n, phi, 11));
            assert!((time / expected - 1.0).abs() < 0.25, "phi = {phi}: {time}");
        }
    }

    #[test]
    fn the_median_indicator_of_an_ar1_series_follows_the_arcsine_law() {
        // A Gaussian clipped at its median has rho(k) = 2/pi asin(phi^k) (Van Vleck).
        for (phi, n) in [(0.5_f64, 100_000), (0.9, 200_000), (0.999, 1_000_000)] {
            let clipped = |k| 2.0 / std::f64::consts::PI * phi.powi(k).asin();
            let expected = 1.0 + 2.0 * (1..20_000).map(clipped).sum::<f64>();
            let time = time_at(&ar1(n, phi, 5), 0.5);
            assert!(
                (time / expected - 1.0).abs() < 0.25,
                "phi = {phi}: {time}, {expected}"
            );
        }
    }

    #[test]
    fn repeated_blocks_have_the_time_of_their_length() {
        // m equal values in a row: rho(k) = 1 - k/m, so tau = 1 + (m - 1).
        for m in [4_usize, 40, 400] {
            let blocks = white(2_000, 9);
            let series: Vec<f64> = blocks
                .iter()
                .flat_map(|&x| std::iter::repeat_n(x, m))
                .collect();
            let time = time_at(&series, 0.5);
            assert!((time / m as f64 - 1.0).abs() < 0.2, "m = {m}: {time}");
        }
    }

    #[test]
    fn a_drift_leaves_few_independent_trials() {
        for n in [1_000_usize, 10_000, 1_000_000] {
            let ramp: Vec<i64> = (0..n as i64).collect();
            let worth = n as f64 / exceedance_time(&ramp, n as f64 / 2.0);
            assert!(worth < 11.0, "n = {n}: {worth}");
        }
    }

    #[test]
    fn ties_at_the_top_still_show_dependence() {
        let steps: Vec<i64> = (0..10_000).map(|i| i64::from(i > 7_000)).collect();
        assert!(exceedance_time(&steps, 1.0) > 100.0);
    }

    #[test]
    fn alternation_is_not_worth_more_than_independence() {
        let flips: Vec<i64> = (0..1_000).map(|i| i % 2).collect();
        assert_eq!(exceedance_time(&flips, 0.5), 1.0);
        assert_eq!(exceedance_time(&[5_i64; 100], 5.0), 1.0);
        assert_eq!(exceedance_time::<i64>(&[], 0.0), 1.0);
        assert_eq!(integrated_time(&[]), 1.0);
        assert_eq!(integrated_time(&[2.0; 9]), 1.0);
    }

    proptest! {
        #[test]
        fn packed_covariance_equals_the_plain_one(
            series in prop::collection::vec(any::<bool>(), 1..700), lag in 0_usize..350,
        ) {
            let plain: Vec<f64> = series.iter().map(|&x| f64::from(u8::from(x))).collect();
            prop_assume!(lag < plain.len());
            let packed = Bits::pack(&plain, |x| x > 0.5).covariance(lag);
            let expected = covariance_of(&plain).unwrap()(lag);
            prop_assert!((packed - expected).abs() < 1e-9);
        }
    }
}
