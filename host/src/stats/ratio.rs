//! The ratio of two arms from their repeats: a difference of logarithms, its standard error and the
//! degrees of freedom behind it.
//!
//! Everything is taken over repeats. Trials of one process depend on each other and on that process;
//! fresh processes do not, and it is to them that a comparison has to generalise (Kalibera and Jones,
//! *Rigorous Benchmarking in Reasonable Time*, 2013). Logarithms make "2 % slower" and "2 % faster"
//! mirror images and turn noise that grows with the latency into noise that does not.

use statrs::distribution::{ContinuousCDF, StudentsT};

use super::interval::student_t;
use super::mean::{arithmetic, deviation, logarithms};

/// ln(B / A) as estimated: everything an interval or a p-value needs.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LogRatio {
    /// ln of the ratio of geometric means; above zero when B is larger.
    pub point: f64,
    pub standard_error: f64,
    /// Degrees of freedom; fractional for Welch's.
    pub degrees: f64,
}

impl LogRatio {
    /// Paired by position: the differences dᵢ = ln bᵢ − ln aᵢ, their mean, s/√n, and n − 1 degrees
    /// (Gosset 1908).
    ///
    /// For arms whose repeats took turns: whatever drifts slowly meets both of a pair alike and
    /// cancels. `None` unless there are two pairs or more, all above zero.
    pub fn paired(a: &[f64], b: &[f64]) -> Option<Self> {
        let differences = differences(a, b)?;
        Some(Self {
            point: arithmetic(&differences)?,
            standard_error: deviation(&differences)? / (differences.len() as f64).sqrt(),
            degrees: (differences.len() - 1) as f64,
        })
    }

    /// Two independent groups of unequal variance: mean ln b − mean ln a, √(s²ₐ/nₐ + s²ᵦ/nᵦ), and the
    /// degrees of Welch (1947) and Satterthwaite (1946).
    ///
    /// `None` unless both groups have two values or more, all above zero.
    pub fn welch(a: &[f64], b: &[f64]) -> Option<Self> {
        let (a, b) = (logarithms(a)?, logarithms(b)?);
        let of_mean = |logs: &[f64]| Some(deviation(logs)?.powi(2) / logs.len() as f64);
        let (of_a, of_b) = (of_mean(&a)?, of_mean(&b)?);
        let rest = |part: f64, n: usize| part * part / (n - 1) as f64;
        let degrees = match of_a + of_b > 0.0 {
            true => (of_a + of_b).powi(2) / (rest(of_a, a.len()) + rest(of_b, b.len())),
            false => (a.len() + b.len() - 2) as f64,
        };
        Some(Self {
            point: arithmetic(&b)? - arithmetic(&a)?,
            standard_error: (of_a + of_b).sqrt(),
            degrees,
        })
    }

    /// t(1 − α/2) · standard error.
    pub fn half_width(&self, level: f64) -> Option<f64> {
        Some(student_t(self.degrees, level)? * self.standard_error)
    }

    /// Two-sided p-value against no difference. Arms without any spread differ surely or not at all.
    pub fn p_value(&self) -> Option<f64> {
        two_sided(self.point, self.standard_error, self.degrees)
    }
}

/// dᵢ = ln bᵢ − ln aᵢ; `None` when the arms do not pair up or a logarithm is missing.
pub fn differences(a: &[f64], b: &[f64]) -> Option<Vec<f64>> {
    let (a, b) = (logarithms(a)?, logarithms(b)?);
    (a.len() == b.len()).then(|| a.iter().zip(&b).map(|(a, b)| b - a).collect())
}

/// P(|T| ≥ |point / scale|) for Student's t.
pub(super) fn two_sided(point: f64, scale: f64, degrees: f64) -> Option<f64> {
    if scale == 0.0 {
        return Some(f64::from(u8::from(point == 0.0)));
    }
    let law = StudentsT::new(0.0, 1.0, degrees).ok()?;
    Some((2.0 * law.sf((point / scale).abs())).min(1.0))
}

#[cfg(test)]
mod tests {
    use super::super::random::Random;
    use super::*;
    use proptest::prelude::*;

    /// Gosset's own data: hours of additional sleep under two drugs (Cushny and Peebles 1905).
    const FIRST: [f64; 10] = [0.7, -1.6, -0.2, -1.2, -0.1, 3.4, 3.7, 0.8, 0.0, 2.0];
    const SECOND: [f64; 10] = [1.9, 0.8, 1.1, 0.1, -0.1, 4.4, 5.5, 1.6, 4.6, 3.4];

    fn exponentials(values: &[f64]) -> Vec<f64> {
        values.iter().map(|x| x.exp()).collect()
    }

    #[test]
    fn the_paired_test_matches_r() {
        // R: t.test(extra ~ group, data = sleep, paired = TRUE)
        // t = -4.0621, df = 9, p-value = 0.002833, 95 % interval -2.4598858 -0.7001142, mean -1.58
        let ratio = LogRatio::paired(&exponentials(&FIRST), &exponentials(&SECOND)).unwrap();
        assert!((ratio.point - 1.58).abs() < 1e-12);
        assert_eq!(ratio.degrees, 9.0);
        assert!((ratio.point / ratio.standard_error - 4.0621).abs() < 5e-5);
        assert!((ratio.p_value().unwrap() - 0.002_833).abs() < 5e-7);
        let half = ratio.half_width(0.95).unwrap();
        assert!((ratio.point - half - 0.700_114_2).abs() < 1e-6);
        assert!((ratio.point + half - 2.459_885_8).abs() < 1e-6);
    }

    #[test]
    fn the_welch_test_matches_r() {
        // R: t.test(extra ~ group, data = sleep)
        // t = -1.8608, df = 17.776, p-value = 0.07939, 95 % interval -3.3654832 0.2054832
        let ratio = LogRatio::welch(&exponentials(&FIRST), &exponentials(&SECOND)).unwrap();
        assert!((ratio.point / ratio.standard_error - 1.8608).abs() < 5e-5);
        assert!((ratio.degrees - 17.776).abs() < 5e-4);
        assert!((ratio.p_value().unwrap() - 0.079_39).abs() < 5e-6);
        let half = ratio.half_width(0.95).unwrap();
        assert!((ratio.point + half - 3.365_483_2).abs() < 1e-5);
        assert!((ratio.point - half + 0.205_483_2).abs() < 1e-5);
    }

    #[test]
    fn what_cannot_be_compared_is_none() {
        assert_eq!(LogRatio::paired(&[1.0], &[1.0]), None);
        assert_eq!(LogRatio::paired(&[1.0, 2.0], &[1.0]), None);
        assert_eq!(LogRatio::welch(&[1.0], &[1.0, 2.0]), None);
        assert_eq!(LogRatio::welch(&[0.0, 1.0], &[1.0, 2.0]), None);
    }

    #[test]
    fn arms_without_spread_differ_surely_or_not_at_all() {
        let same = LogRatio::welch(&[4.0, 4.0], &[4.0, 4.0]).unwrap();
        assert_eq!(
            (same.p_value(), same.half_width(0.95)),
            (Some(1.0), Some(0.0))
        );
        let other = LogRatio::paired(&[4.0, 4.0], &[8.0, 8.0]).unwrap();
        assert_eq!(other.p_value(), Some(0.0));
    }

    #[test]
    fn a_drift_that_both_arms_share_cancels_in_pairs_only() {
        let mut random = Random::seeded(2);
        let drift = |i: usize| (0.02 * i as f64).exp();
        let mut arm = |shift: f64| -> Vec<f64> {
            let noise = |i| shift * drift(i) * (0.002 * random.normal()).exp();
            (0..8).map(noise).collect()
        };
        let (a, b) = (arm(1.0), arm(1.01));
        let paired = LogRatio::paired(&a, &b).unwrap();
        assert!(paired.p_value().unwrap() < 0.001, "{paired:?}");
        assert!(LogRatio::welch(&a, &b).unwrap().p_value().unwrap() > 0.5);
    }

    proptest! {
        #[test]
        fn changing_sides_changes_the_sign_only(
            a in prop::collection::vec(0.1_f64..10.0, 3..9), b in prop::collection::vec(0.1_f64..10.0, 3..9),
        ) {
            let (there, back) = (LogRatio::welch(&a, &b).unwrap(), LogRatio::welch(&b, &a).unwrap());
            prop_assert!((there.point + back.point).abs() < 1e-9);
            prop_assert!((there.standard_error - back.standard_error).abs() < 1e-9);
            prop_assert!((there.p_value().unwrap() - back.p_value().unwrap()).abs() < 1e-9);
        }

        #[test]
        fn the_interval_excludes_no_difference_exactly_when_p_is_small(
            a in prop::collection::vec(0.5_f64..2.0, 3..9), b in prop::collection::vec(0.5_f64..2.0, 3..9), level in 0.5_f64..0.999,
        ) {
            let ratio = LogRatio::welch(&a, &b).unwrap();
            let (p, half) = (ratio.p_value().unwrap(), ratio.half_width(level).unwrap());
            prop_assume!((p - (1.0 - level)).abs() > 1e-6);
            prop_assert_eq!(ratio.point.abs() > half, p < 1.0 - level);
        }
    }
}
