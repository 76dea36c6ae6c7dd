//! Whether a window was steady: how far it drifted, and where it changed most.
//!
//! Figures only. What counts as too much is a finding's business. Both tests work on medians of
//! consecutive blocks, so that a few slow trials do not read as a change and neighbouring trials
//! may depend on each other; dependence longer than a block makes both p-values too small.

use statrs::function::erf::erfc;

use super::quantile;

/// Most and fewest blocks, and the fewest trials in one.
const BLOCKS: usize = 50;
const FEWEST_BLOCKS: usize = 10;
const SHORTEST_BLOCK: usize = 5;

/// What a window's steadiness can be judged from.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Steadiness {
    /// Blocks that the window was cut into.
    pub blocks: usize,
    pub drift: Drift,
    pub change: ChangePoint,
}

/// A slope over the window and how surprising the trend is.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Drift {
    /// Change from the first block to the last along the Theil–Sen line, as a share of the median:
    /// +0.03 is 3 % slower at the end.
    pub over_window: f64,
    /// Two-sided p-value of the Mann–Kendall test against no trend.
    pub p_value: f64,
}

/// The most likely place of one step, and how surprising it is.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ChangePoint {
    /// Index of the first trial after the step, to the block.
    pub at: usize,
    /// Median after over median before, less 1.
    pub shift: f64,
    /// Two-sided p-value of Pettitt's test against no change.
    pub p_value: f64,
}

/// Tests the trials of one window in the order they ran.
///
/// `None` below 50 trials (10 blocks of 5), or where a median is not above zero, since the figures
/// are shares of it.
pub fn test(trials: &[i64]) -> Option<Steadiness> {
    let blocks = BLOCKS.min(trials.len() / SHORTEST_BLOCK);
    if blocks < FEWEST_BLOCKS {
        return None;
    }
    let edge = |block: usize| block * trials.len() / blocks;
    let median_of = |block: usize| quantile::of(&trials[edge(block)..edge(block + 1)], 0.5);
    let medians: Vec<f64> = (0..blocks).map(median_of).collect::<Option<_>>()?;
    let (step, p_value) = pettitt(&medians);
    let (before, after) = medians.split_at(step);
    Some(Steadiness {
        blocks,
        drift: Drift {
            over_window: theil_sen(&medians)? * (blocks - 1) as f64 / positive_median(&medians)?,
            p_value: mann_kendall(&medians),
        },
        change: ChangePoint {
            at: edge(step),
            shift: positive_median(after)? / positive_median(before)? - 1.0,
            p_value,
        },
    })
}

/// The trend of a short series of independent values, such as a sentinel's medians.
///
/// `None` below 8 values, where the normal limit of Mann and Kendall's test is not yet good, or where the
/// median is not above zero.
pub fn drift(series: &[f64]) -> Option<Drift> {
    if series.len() < 8 {
        return None;
    }
    Some(Drift {
        over_window: theil_sen(series)? * (series.len() - 1) as f64 / positive_median(series)?,
        p_value: mann_kendall(series),
    })
}

fn positive_median(values: &[f64]) -> Option<f64> {
    quantile::of(values, 0.5).filter(|&median| median > 0.0)
}

/// Slope for each step: the median of (xⱼ − xᵢ) / (j − i) over all i < j (Theil 1950, Sen 1968).
fn theil_sen(series: &[f64]) -> Option<f64> {
    let slopes: Vec<f64> = pairs(series.len())
        .map(|(i, j)| (series[j] - series[i]) / (j - i) as f64)
        .collect();
    quantile::of(&slopes, 0.5)
}

/// Two-sided p-value of S = Σ sgn(xⱼ − xᵢ), i < j, by its normal limit with tie and continuity
/// correction: Var S = (n(n − 1)(2n + 5) − Σ t(t − 1)(2t + 5)) / 18 (Mann 1945, Kendall 1975).
fn mann_kendall(series: &[f64]) -> f64 {
    let s: f64 = pairs(series.len())
        .map(|(i, j)| sign(series[j] - series[i]))
        .sum();
    let spread = |n: f64| n * (n - 1.0) * (2.0 * n + 5.0);
    let mut sorted = series.to_vec();
    sorted.sort_by(f64::total_cmp);
    let ties: f64 = sorted
        .chunk_by(|a, b| a == b)
        .map(|tied| spread(tied.len() as f64))
        .sum();
    let variance = (spread(series.len() as f64) - ties) / 18.0;
    if variance <= 0.0 {
        return 1.0;
    }
    let z = (s.abs() - 1.0).max(0.0) / variance.sqrt();
    erfc(z / std::f64::consts::SQRT_2)
}

/// Length of the part before the most likely step and its p-value: the largest |Uₜ| with
/// Uₜ = Σ sgn(xⱼ − xᵢ) over i < t ≤ j, and p ≈ 2 exp(−6U² / (n³ + n²)) (Pettitt 1979).
fn pettitt(series: &[f64]) -> (usize, f64) {
    let n = series.len();
    let u = |t: usize| {
        let (before, after) = series.split_at(t);
        let against = |x: f64| after.iter().map(move |y| sign(y - x)).sum::<f64>();
        before.iter().map(|&x| against(x)).sum::<f64>().abs()
    };
    let all = (1..n).map(|t| (t, u(t)));
    // The first of equals, so that the answer does not depend on how ties are searched.
    let first_largest =
        |best: (usize, f64), next: (usize, f64)| if next.1 > best.1 { next } else { best };
    let (step, largest) = all.fold((1, 0.0), first_largest);
    let cube = (n * n * n + n * n) as f64;
    (
        step,
        (2.0 * (-6.0 * largest * largest / cube).exp()).min(1.0),
    )
}

fn pairs(n: usize) -> impl Iterator<Item = (usize, usize)> {
    (0..n).flat_map(move |i| (i + 1..n).map(move |j| (i, j)))
}

/// −1, 0 or 1; unlike `f64::signum`, which has no zero.
fn sign(difference: f64) -> f64 {
    f64::from(i8::from(difference > 0.0) - i8::from(difference < 0.0))
}

#[cfg(test)]
mod tests {
    use super::super::simulate::latencies;
    use super::*;

    #[test]
    fn a_short_series_that_only_rises_has_the_trend_of_its_line() {
        // 100 … 107: slope 1 over 7 steps, median 103.5; S = 28, Var S = 8·7·21/18, z = 27/√65.33.
        let series: Vec<f64> = (0..8).map(|i| 100.0 + f64::from(i)).collect();
        let found = drift(&series).unwrap();
        assert!((found.over_window - 7.0 / 103.5).abs() < 1e-12);
        assert!((found.p_value - 0.000_84).abs() < 1e-5, "{}", found.p_value);
        assert_eq!(drift(&series[..7]), None);
    }

    #[test]
    fn mann_kendall_matches_a_hand_worked_value() {
        // 1..=10 rises throughout: S = 45, Var = 125, z = 44 / sqrt(125) = 3.9355.
        let rising: Vec<f64> = (1..=10).map(f64::from).collect();
        assert!((mann_kendall(&rising) - 8.303e-5).abs() < 1e-7);
        // Ties: 1 1 2 2 has S = 4, Var = (4*3*13 - 2*2*1*9) / 18 = 20/3, z = 1.1619.
        assert!((mann_kendall(&[1.0, 1.0, 2.0, 2.0]) - 0.2453).abs() < 1e-4);
        assert_eq!(mann_kendall(&[3.0; 12]), 1.0);
    }

    #[test]
    fn theil_sen_ignores_one_wild_block() {
        assert_eq!(
            theil_sen(&[1.0, 3.0, 5.0, 7.0, 900.0, 11.0, 13.0]),
            Some(2.0)
        );
    }

    #[test]
    fn pettitt_finds_a_hand_worked_step() {
        // Five of 1, five of 2: |U| = 25 at t = 5, p = 2 exp(-6 * 625 / 1100) = 0.0662.
        let series: Vec<f64> = (0..10).map(|i| if i < 5 { 1.0 } else { 2.0 }).collect();
        let (step, p_value) = pettitt(&series);
        assert_eq!(step, 5);
        assert!((p_value - 0.0662).abs() < 1e-4, "{p_value}");
    }

    #[test]
    fn a_steady_window_shows_neither_drift_nor_change() {
        let (mut drifts, mut changes) = (0, 0);
        for seed in 0..400 {
            let steady = test(&latencies(2_000, 1e6, 0.05, seed)).unwrap();
            drifts += u32::from(steady.drift.p_value < 0.05);
            changes += u32::from(steady.change.p_value < 0.05);
        }
        // 20 expected; Pettitt's limit is known to be on the careful side.
        assert!((6..=36).contains(&drifts), "{drifts}");
        assert!(changes <= 30, "{changes}");
    }

    #[test]
    fn a_heating_board_drifts() {
        let cold = latencies(1_000, 1e6, 0.02, 4);
        let heating: Vec<i64> = (0..).zip(&cold).map(|(i, x)| x + i * 100).collect();
        let drift = test(&heating).unwrap().drift;
        assert!(
            (drift.over_window - 0.095).abs() < 0.02,
            "{}",
            drift.over_window
        );
        assert!(drift.p_value < 1e-6);
    }

    #[test]
    fn a_throttled_window_changes_where_it_was_throttled() {
        let mut trials = latencies(1_000, 1e6, 0.02, 4);
        trials.extend(latencies(3_000, 1.3e6, 0.02, 5));
        let change = test(&trials).unwrap().change;
        // The step fell inside the block 960..1040.
        assert!(change.at == 960 || change.at == 1_040, "{}", change.at);
        assert!((change.shift - 0.3).abs() < 0.02, "{}", change.shift);
        assert!(change.p_value < 1e-4);
    }

    #[test]
    fn too_short_a_window_is_not_tested() {
        assert_eq!(test(&[1_000; 49]), None);
        assert_eq!(test(&[0; 100]), None);
        let flat = test(&[1_000; 50]).unwrap();
        assert_eq!((flat.drift.over_window, flat.drift.p_value), (0.0, 1.0));
        assert_eq!((flat.change.shift, flat.change.p_value), (0.0, 1.0));
    }
}
