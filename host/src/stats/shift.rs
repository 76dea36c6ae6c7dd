//! Hodges–Lehmann estimates: a shift that a few wild repeats cannot move.
//!
//! Shown beside the mean of logarithms, never judged by: where the two disagree, a repeat stands out.

use super::quantile;

/// The median of the Walsh averages (dᵢ + dⱼ)/2, i ≤ j, of paired differences.
///
/// Hodges and Lehmann, *Estimates of Location Based on Rank Tests* (1963).
pub fn of_pairs(differences: &[f64]) -> Option<f64> {
    let n = differences.len();
    let averages: Vec<f64> = (0..n)
        .flat_map(|i| (i..n).map(move |j| (differences[i] + differences[j]) / 2.0))
        .collect();
    quantile::of(&averages, 0.5)
}

/// The median of all bⱼ − aᵢ, by the same source.
pub fn between(a: &[f64], b: &[f64]) -> Option<f64> {
    let all: Vec<f64> = a
        .iter()
        .flat_map(|a| b.iter().map(move |b| b - a))
        .collect();
    quantile::of(&all, 0.5)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[expect(clippy::approx_constant, reason = "a score of 3.14 is no circle")]
    fn pairs_match_r() {
        // R: wilcox.test(c(1.83, 0.50, 1.62, 2.48, 1.68, 1.88, 1.55, 3.06, 1.30) -
        //   c(0.878, 0.647, 0.598, 2.05, 1.06, 1.29, 1.06, 3.14, 1.29), conf.int = TRUE): 0.46
        let x = [1.83, 0.50, 1.62, 2.48, 1.68, 1.88, 1.55, 3.06, 1.30];
        let y = [0.878, 0.647, 0.598, 2.05, 1.06, 1.29, 1.06, 3.14, 1.29];
        let d: Vec<f64> = x.iter().zip(y).map(|(x, y)| x - y).collect();
        assert!((of_pairs(&d).unwrap() - 0.46).abs() < 1e-9);
    }

    #[test]
    fn groups_match_a_hand_worked_value() {
        // Differences 3 4 9, 2 3 8, 1 2 7: sorted 1 2 2 3 3 4 7 8 9.
        assert_eq!(between(&[1.0, 2.0, 3.0], &[4.0, 5.0, 10.0]), Some(3.0));
        assert_eq!(between(&[], &[1.0]), None);
        assert_eq!(of_pairs(&[]), None);
    }

    #[test]
    fn one_wild_repeat_does_not_move_it() {
        let shift = of_pairs(&[0.01, 0.011, 0.009, 0.01, 0.5]).unwrap();
        assert!((shift - 0.0105).abs() < 0.001, "{shift}");
    }
}
