//! How many repeats would do, and what can be seen with those there are.

use super::interval::student_t;

/// The chance with which a difference shall be found.
pub const POWER: f64 = 0.9;
/// No plan is made beyond this many repeats.
pub const MOST_REPEATS: usize = 1_000;

/// The smallest log ratio that `repeats` find with [`POWER`] at this level, when one repeat (or one
/// pair) has deviation `spread`: (t(1 − α/2, n − 1) + t(power, n − 1)) s/√n.
///
/// The usual approximation to the noncentral t (Lachin, *Introduction to Sample Size Determination*,
/// 1981, with t for z). `None` below two repeats.
pub fn detectable(spread: f64, repeats: usize, level: f64) -> Option<f64> {
    let degrees = repeats.checked_sub(1).filter(|n| *n > 0)? as f64;
    // t(power) as a one-sided quantile is the two-sided one at level 2 power - 1.
    let reach = student_t(degrees, level)? + student_t(degrees, 2.0 * POWER - 1.0)?;
    Some(reach * spread / (repeats as f64).sqrt())
}

/// The least number of repeats that finds a log ratio of `effect` with [`POWER`] at this level.
///
/// `None` when no number up to [`MOST_REPEATS`] does.
pub fn repeats_for(spread: f64, effect: f64, level: f64) -> Option<usize> {
    let does = |n: usize| detectable(spread, n, level).is_some_and(|least| least <= effect);
    if !does(MOST_REPEATS) {
        return None;
    }
    // What is detectable falls with n, so the answer can be halved in on.
    let (mut short, mut enough) = (1, MOST_REPEATS);
    while enough - short > 1 {
        let n = short + (enough - short) / 2;
        if does(n) { enough = n } else { short = n }
    }
    Some(enough)
}

/// Repeats that would decide an undecided comparison, if its point is right.
///
/// At or beyond the minimum effect, those that find the point; below it, those whose interval then fits
/// inside ± the minimum effect. `floor` is a half-width that repeats do not narrow, such as the spread
/// between sessions. `None` when no number of repeats decides it.
pub fn repeats_to_decide(
    point: f64,
    spread: f64,
    floor: f64,
    min_effect: f64,
    level: f64,
) -> Option<usize> {
    let bound = min_effect.ln_1p();
    let room = match point.abs() >= bound {
        true => point.abs(),
        false => bound - point.abs(),
    };
    if floor >= room {
        return None;
    }
    repeats_for(spread, room, level)
}

#[cfg(test)]
mod tests {
    use super::super::random::Random;
    use super::super::ratio::LogRatio;
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn ten_pairs_at_one_percent_match_a_hand_worked_value() {
        // t(0.975, 9) = 2.262157, t(0.9, 9) = 1.383029; 3.645186 * 0.01 * sqrt(2) / sqrt(10).
        let least = detectable(0.01 * 2.0_f64.sqrt(), 10, 0.95).unwrap();
        assert!((least - 0.016_301_8).abs() < 1e-6, "{least}");
        assert_eq!(repeats_for(0.01 * 2.0_f64.sqrt(), least, 0.95), Some(10));
        assert_eq!(detectable(0.01, 1, 0.95), None);
    }

    #[test]
    fn what_is_planned_for_is_found_as_often_as_promised() {
        let mut random = Random::seeded(12);
        let effect = detectable(0.02, 6, 0.95).unwrap();
        let experiments = 4_000;
        let found = (0..experiments).filter(|_| {
            let ratios: Vec<f64> = (0..6)
                .map(|_| (effect + 0.02 * random.normal()).exp())
                .collect();
            let ratio = LogRatio::paired(&[1.0; 6], &ratios).unwrap();
            ratio.p_value().unwrap() < 0.05
        });
        // The approximation is good to 0.02 at six repeats; three standard errors are 0.014.
        let share = found.count() as f64 / f64::from(experiments);
        assert!((share - POWER).abs() < 0.035, "{share}");
    }

    #[test]
    fn no_number_of_repeats_beats_the_spread_between_sessions() {
        assert_eq!(repeats_to_decide(0.02, 0.01, 0.03, 0.03, 0.95), None);
        assert!(repeats_to_decide(0.05, 0.01, 0.03, 0.03, 0.95).is_some());
        assert_eq!(repeats_to_decide(0.0, 1e9, 0.0, 0.01, 0.95), None);
    }

    proptest! {
        #[test]
        fn one_repeat_fewer_would_not_do(spread in 0.001_f64..0.2, effect in 0.005_f64..0.3) {
            if let Some(n) = repeats_for(spread, effect, 0.95) {
                prop_assert!(detectable(spread, n, 0.95).unwrap() <= effect);
                prop_assert!(detectable(spread, n - 1, 0.95).is_none_or(|least| least > effect));
            }
        }
    }
}
