//! Trials far from the rest: counted, never dropped. A slow trial is a result.

use super::quantile;
use super::value::Value;

/// Modified z-scores beyond this are outliers (Iglewicz and Hoaglin 1993).
pub const LIMIT: f64 = 3.5;
/// The 0.75 quantile of the standard normal, which makes the MAD estimate a standard deviation.
const NORMAL_MAD: f64 = 0.6745;
/// √(π/2), which does the same for the mean absolute deviation.
const NORMAL_MEAN_DEVIATION: f64 = 1.253_314;

/// Counts of far-away trials, and what they were measured against.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Outliers {
    /// Trials looked at.
    pub n: usize,
    pub median: f64,
    /// Median absolute deviation from the median, not scaled.
    pub mad: f64,
    /// Trials with a modified z-score below −[`LIMIT`].
    pub low: usize,
    /// Trials with a modified z-score above [`LIMIT`].
    pub high: usize,
}

impl Outliers {
    /// Outliers as a share of all trials.
    pub fn share(&self) -> f64 {
        (self.low + self.high) as f64 / self.n as f64
    }
}

/// What a sample's modified z-scores are measured by.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Scale {
    pub median: f64,
    /// Median absolute deviation from the median, not scaled.
    pub mad: f64,
    /// What one z-score is worth.
    unit: f64,
}

impl Scale {
    /// By the modified z-score 0.6745 (x − median) / MAD (Iglewicz and Hoaglin, *How to Detect and
    /// Handle Outliers*, 1993).
    ///
    /// Where more than half of the trials tie and the MAD is 0, the mean absolute deviation stands in,
    /// (x − median) / (1.253314 · mean |x − median|), by the same source. `None` when empty.
    pub fn of<V: Value>(trials: &[V]) -> Option<Self> {
        let median = quantile::of(trials, 0.5)?;
        let mut distances: Vec<f64> = trials.iter().map(|x| (x.to_f64() - median).abs()).collect();
        let sum: f64 = distances.iter().sum();
        let [mad] = quantile::select(&mut distances, [0.5])?;
        let unit = if mad > 0.0 {
            mad / NORMAL_MAD
        } else {
            NORMAL_MEAN_DEVIATION * sum / trials.len() as f64
        };
        Some(Self { median, mad, unit })
    }

    /// The score of a trial; none where all trials are equal.
    pub fn score(&self, trial: f64) -> Option<f64> {
        (self.unit > 0.0).then(|| (trial - self.median) / self.unit)
    }

    pub fn is_outlier(&self, trial: f64) -> bool {
        (trial - self.median).abs() > LIMIT * self.unit
    }
}

/// Counts trials by their modified z-scores; `None` when empty.
pub fn count<V: Value>(trials: &[V]) -> Option<Outliers> {
    let scale = Scale::of(trials)?;
    let count_where = |is_far: fn(f64, f64) -> bool| {
        let far = trials
            .iter()
            .map(|x| x.to_f64())
            .filter(|x| scale.is_outlier(*x));
        far.filter(|x| is_far(*x, scale.median)).count()
    };
    Some(Outliers {
        n: trials.len(),
        median: scale.median,
        mad: scale.mad,
        low: count_where(|x, median| x < median),
        high: count_where(|x, median| x > median),
    })
}

#[cfg(test)]
mod tests {
    use super::super::simulate::latencies;
    use super::*;

    #[test]
    fn counts_match_a_hand_worked_example() {
        // Median 10, distances 3 2 1 0 1 2 30 and so MAD 2: z(40) = 0.6745 * 30 / 2 = 10.1.
        let outliers = count(&[7_i64, 8, 9, 10, 11, 12, 40]).unwrap();
        assert_eq!((outliers.median, outliers.mad), (10.0, 2.0));
        assert_eq!((outliers.low, outliers.high), (0, 1));
        assert!((outliers.share() - 1.0 / 7.0).abs() < 1e-12);
        let scale = Scale::of(&[7_i64, 8, 9, 10, 11, 12, 40]).unwrap();
        assert!((scale.score(40.0).unwrap() - 0.6745 * 15.0).abs() < 1e-12);
        assert!(scale.is_outlier(40.0) && !scale.is_outlier(12.0));
    }

    #[test]
    fn a_trial_at_the_limit_is_not_beyond_it() {
        // MAD 1, so the limit is 3.5 / 0.6745 = 5.189 away.
        let outliers = count(&[-6.0, -1.0, 0.0, 0.0, 1.0, 1.0, 5.18]).unwrap();
        assert_eq!((outliers.mad, outliers.low, outliers.high), (1.0, 1, 0));
    }

    #[test]
    fn a_coarse_clock_falls_back_to_the_mean_deviation() {
        let mut trials = vec![100_i64; 99];
        trials.push(200);
        let outliers = count(&trials).unwrap();
        assert_eq!((outliers.mad, outliers.high), (0.0, 1));
        let equal = count(&[100_i64; 9]).unwrap();
        assert_eq!((equal.low, equal.high), (0, 0));
        assert_eq!(Scale::of(&[100_i64; 9]).unwrap().score(100.0), None);
        assert_eq!(count::<i64>(&[]), None);
    }

    #[test]
    fn a_normal_sample_has_next_to_none() {
        // |z| > 3.5 has probability 0.00047.
        let outliers = count(&latencies(100_000, 1e6, 0.01, 8)).unwrap();
        assert!(
            (20..90).contains(&(outliers.low + outliers.high)),
            "{outliers:?}"
        );
    }
}
