//! What an interval of a log ratio allows to be said: larger, smaller, no difference shown, undecided.

/// The least effect that is told of arms that took turns.
pub const MIN_EFFECT_INTERLEAVED: f64 = 0.01;
/// The same of arms measured at different times.
pub const MIN_EFFECT_SEPARATE: f64 = 0.03;

/// What was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Judgement {
    /// B is larger than A, by at least the minimum effect.
    Larger,
    /// B is smaller than A, by at least the minimum effect.
    Smaller,
    /// If there is a difference, it is smaller than the minimum effect.
    NoDifference,
    Undecided,
}

/// An interval of ln(B / A) against a minimum effect, a share of one (0.01 is 1 %).
///
/// *Larger* when the interval lies above 0 and the point is at least ln(1 + effect); *smaller* its
/// mirror image, so that 2 % slower and its reverse are one verdict. *No difference shown* when the
/// interval lies inside ± ln(1 + effect), which is equivalence by interval inclusion (Westlake 1976;
/// the two one-sided tests of Schuirmann 1987, here at 2.5 % a side because the interval is the one
/// that is printed). A difference that is sure but below the minimum effect is *no difference shown*
/// where the interval ends below it, and *undecided* where it does not.
pub fn judge(point: f64, half_width: f64, min_effect: f64) -> Judgement {
    let bound = min_effect.ln_1p();
    let excludes_zero = point.abs() > half_width;
    // A millionth of the effect is rounding: 3 % of effect is reached by a ratio of 1.03.
    let reaches = point.abs() >= bound * (1.0 - 1e-9);
    if excludes_zero && reaches {
        return match point > 0.0 {
            true => Judgement::Larger,
            false => Judgement::Smaller,
        };
    }
    match point.abs() + half_width <= bound {
        true => Judgement::NoDifference,
        false => Judgement::Undecided,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn verdicts_match_hand_worked_cases() {
        let of = |point: f64, half: f64| judge(point.ln_1p(), half, 0.03);
        assert_eq!(of(0.05, 0.02), Judgement::Larger);
        assert_eq!(of(0.03, 0.02), Judgement::Larger);
        assert_eq!(of(-0.05, 0.02), Judgement::Smaller);
        // Sure, and too small to be told: the interval reaches beyond 3 %.
        assert_eq!(of(0.025, 0.02), Judgement::Undecided);
        // Sure, too small, and surely too small.
        assert_eq!(of(0.01, 0.005), Judgement::NoDifference);
        assert_eq!(of(0.0, 0.029), Judgement::NoDifference);
        assert_eq!(of(0.0, 0.031), Judgement::Undecided);
        // Large, and the interval reaches 0.
        assert_eq!(of(0.05, 0.06), Judgement::Undecided);
    }

    proptest! {
        #[test]
        fn changing_sides_mirrors_the_verdict(point in -0.2_f64..0.2, half in 0.0_f64..0.2, effect in 0.001_f64..0.1) {
            let mirrored = match judge(-point, half, effect) {
                Judgement::Larger => Judgement::Smaller,
                Judgement::Smaller => Judgement::Larger,
                other => other,
            };
            prop_assert_eq!(judge(point, half, effect), mirrored);
        }

        #[test]
        fn a_narrower_interval_never_takes_a_verdict_back(point in -0.2_f64..0.2, half in 0.0_f64..0.2, effect in 0.001_f64..0.1) {
            let verdict = judge(point, half, effect);
            prop_assume!(verdict != Judgement::Undecided);
            prop_assert_eq!(judge(point, half * 0.9, effect), verdict);
        }
    }
}
