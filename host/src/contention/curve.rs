//! How much slower: ratios of one condition to another, paired by the round in which both took their turn.

use serde::Serialize;

use crate::stats::mean;
use crate::stats::ratio::LogRatio;

/// A figure of one repeat, by the number of its round.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct OfRound {
    pub round: u32,
    pub value: f64,
}

/// A ratio with its 95 % interval.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Ratio {
    pub ratio: f64,
    /// None with fewer than two rounds.
    pub ci95: Option<(f64, f64)>,
    pub rounds: usize,
    /// False where it is one of percentiles that rest on too few trials on either side.
    pub enough: bool,
}

/// The loaded figure over the one without, over rounds that have both.
pub fn slowdown(without: &[OfRound], loaded: &[OfRound]) -> Option<Ratio> {
    let pairs = pairs(without, loaded);
    let (a, b): (Vec<f64>, Vec<f64>) = pairs.iter().map(|pair| (pair.0, pair.1)).unzip();
    let rounds = pairs.len();
    match LogRatio::paired(&a, &b) {
        Some(ratio) => {
            let half = ratio.half_width(0.95);
            Some(Ratio {
                ratio: ratio.point.exp(),
                ci95: half.map(|half| ((ratio.point - half).exp(), (ratio.point + half).exp())),
                rounds,
                enough: true,
            })
        }
        None => Some(Ratio {
            ratio: mean::over_repeats(&b)? / mean::over_repeats(&a)?,
            ci95: None,
            rounds,
            enough: true,
        }),
    }
    .filter(|ratio| ratio.ratio.is_finite())
}

/// Figures of rounds that both have, the one without first.
pub fn pairs(without: &[OfRound], loaded: &[OfRound]) -> Vec<(f64, f64)> {
    let partner = |of: &OfRound| {
        let found = without.iter().find(|other| other.round == of.round)?;
        Some((found.value, of.value))
    };
    loaded.iter().filter_map(partner).collect()
}

/// The centre of some repeats with its 95 % interval.
pub fn centre(values: &[f64]) -> Option<(f64, Option<(f64, f64)>)> {
    let point = mean::over_repeats(values)?;
    let logs = mean::logarithms(values)?;
    let half = mean::deviation(&logs).and_then(|deviation| {
        let n = logs.len() as f64;
        Some(crate::stats::interval::student_t(n - 1.0, 0.95)? * deviation / n.sqrt())
    });
    let interval = half.map(|half| (point * (-half).exp(), point * half.exp()));
    Some((point, interval.filter(|_| values.len() > 1)))
}

#[cfg(test)]
mod tests {
    use super::*;

    pub(crate) fn rounds(values: &[f64]) -> Vec<OfRound> {
        let numbered = values.iter().zip(0..);
        numbered
            .map(|(value, round)| OfRound {
                round,
                value: *value,
            })
            .collect()
    }

    #[test]
    fn a_drift_that_meets_both_alike_is_no_noise() {
        let idle = rounds(&[10.0, 11.0, 12.0, 13.0]);
        let loaded = rounds(&[12.0, 13.2, 14.4, 15.6]);
        let found = slowdown(&idle, &loaded).unwrap();
        let (low, high) = found.ci95.unwrap();
        assert!((found.ratio - 1.2).abs() < 1e-12);
        assert!(low > 1.199_999 && high < 1.200_001, "{low} {high}");
        assert_eq!(found.rounds, 4);
    }

    #[test]
    fn rounds_without_a_partner_are_left_out() {
        let idle = rounds(&[10.0, 10.0]);
        let mut loaded = rounds(&[20.0, 999.0]);
        loaded[1].round = 7;
        let found = slowdown(&idle, &loaded).unwrap();
        assert_eq!((found.ratio, found.ci95, found.rounds), (2.0, None, 1));
        assert_eq!(slowdown(&idle, &[]), None);
    }

    #[test]
    fn the_interval_is_that_of_the_paired_test() {
        // Logarithms of the ratios: 0.1, 0.2, 0.3; mean 0.2, s = 0.1, t(2) = 4.302653.
        let idle = rounds(&[1.0, 1.0, 1.0]);
        let loaded = rounds(&[0.1_f64.exp(), 0.2_f64.exp(), 0.3_f64.exp()]);
        let (low, high) = slowdown(&idle, &loaded).unwrap().ci95.unwrap();
        let half = 4.302_653 * 0.1 / 3_f64.sqrt();
        assert!((low.ln() - (0.2 - half)).abs() < 1e-5);
        assert!((high.ln() - (0.2 + half)).abs() < 1e-5);
    }
}
