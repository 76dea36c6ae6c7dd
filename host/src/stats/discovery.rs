//! Many comparisons at once: which of them count, and at which level their intervals then stand.

/// The share of false verdicts that is accepted among those of one comparison.
pub const FALSE_DISCOVERIES: f64 = 0.05;

/// Which of m comparisons were selected.
#[derive(Debug, Clone, PartialEq)]
pub struct Selection {
    pub selected: Vec<bool>,
    /// How many were.
    pub count: usize,
}

impl Selection {
    /// Level of the interval of comparison `i`: 1 − 0.05 R/m where it was selected, else 95 %.
    ///
    /// Intervals of what was selected because it stood out must be wider to keep their promise: with
    /// R of m selected at rate q, those at level 1 − qR/m miss in a share q of the selected on average
    /// (Benjamini and Yekutieli, *False Discovery Rate–Adjusted Multiple Confidence Intervals*, 2005).
    /// They exclude 0 exactly where the comparison was selected.
    pub fn level(&self, i: usize) -> f64 {
        let m = self.selected.len().max(1) as f64;
        match self.selected.get(i) {
            Some(true) => 1.0 - FALSE_DISCOVERIES * self.count as f64 / m,
            _ => 1.0 - FALSE_DISCOVERIES,
        }
    }
}

/// Benjamini–Hochberg at rate [`FALSE_DISCOVERIES`]: the largest R such that the R-th smallest p-value
/// is at most 0.05 R/m; the comparisons with the R smallest are selected.
///
/// Benjamini and Hochberg, *Controlling the False Discovery Rate* (1995). With one comparison it is
/// the plain test at 5 %.
pub fn select(p_values: &[f64]) -> Selection {
    let m = p_values.len() as f64;
    let mut sorted = p_values.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    let passes = |&i: &usize| sorted[i] <= FALSE_DISCOVERIES * (i + 1) as f64 / m;
    let count = (0..sorted.len()).rev().find(passes).map_or(0, |i| i + 1);
    let limit = count.checked_sub(1).map(|last| sorted[last]);
    let selected = p_values
        .iter()
        .map(|&p| limit.is_some_and(|limit| p <= limit));
    Selection {
        selected: selected.collect(),
        count,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn selection_matches_the_example_of_its_authors() {
        // Benjamini and Hochberg 1995, 4.1: 15 p-values; Bonferroni takes three, this takes four.
        let p = [
            0.0001, 0.0004, 0.0019, 0.0095, 0.0201, 0.0278, 0.0298, 0.0344, 0.0459, 0.3240, 0.4262,
            0.5719, 0.6528, 0.7590, 1.0000,
        ];
        let selection = select(&p);
        assert_eq!(selection.count, 4);
        assert_eq!(
            selection.selected,
            [[true; 4].as_slice(), &[false; 11]].concat()
        );
        assert!((selection.level(0) - (1.0 - 0.05 * 4.0 / 15.0)).abs() < 1e-12);
        assert!((selection.level(9) - 0.95).abs() < 1e-12);
    }

    #[test]
    fn a_larger_p_value_may_carry_smaller_ones() {
        // 0.04 > 0.05/2 alone, and both are at most 0.05 * 2/2.
        assert_eq!(select(&[0.04, 0.045]).count, 2);
        assert_eq!(select(&[0.04, 0.06]).count, 0);
    }

    #[test]
    fn one_comparison_is_a_plain_test() {
        assert_eq!(select(&[0.05]).selected, [true]);
        assert!((select(&[0.05]).level(0) - 0.95).abs() < 1e-12);
        assert_eq!(select(&[0.051]).selected, [false]);
        assert_eq!(select(&[]).count, 0);
    }

    proptest! {
        #[test]
        fn what_is_selected_lies_below_its_level(p in prop::collection::vec(0.0_f64..1.0, 1..40)) {
            let selection = select(&p);
            prop_assert_eq!(selection.selected.iter().filter(|s| **s).count(), selection.count);
            for (i, &p) in p.iter().enumerate() {
                // Selected at level L means p <= 1 - L: the interval at L excludes no difference.
                prop_assert_eq!(selection.selected[i], selection.count > 0
                    && p <= FALSE_DISCOVERIES * selection.count as f64 / selection.selected.len() as f64 + 1e-15);
            }
        }
    }
}
