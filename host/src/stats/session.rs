//! How far two sessions on one board lie apart though nothing was changed.
//!
//! Repeats of one run share a boot, a temperature, a layout of memory and whatever else runs. Two runs
//! do not, and intervals over the repeats of each know nothing of it.

use statrs::distribution::{ContinuousCDF, Normal};

use super::interval::student_t;
use super::mean::{arithmetic, deviation};
use super::ratio::two_sided;

/// Half-width at 95 % that stands in where fewer than [`FEWEST_SESSIONS`] sessions are known.
pub const UNKNOWN_SPREAD: f64 = 0.03;
/// Sessions that a spread needs.
pub const FEWEST_SESSIONS: usize = 3;

/// What is known of the difference between two sessions.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum SessionSpread {
    Measured {
        /// Standard deviation of one session's log figure.
        deviation: f64,
        degrees: f64,
        sessions: usize,
        /// They are of another case, which was measured again and again to watch the board.
        sentinel: bool,
    },
    /// Too few sessions: [`UNKNOWN_SPREAD`] stands in.
    Unknown { sessions: usize },
}

impl SessionSpread {
    /// From the log figures of earlier sessions, in groups that are each of one and the same case.
    ///
    /// The pooled within-group deviation s = √(Σ(nᵢ − 1)s²ᵢ / Σ(nᵢ − 1)), with Σ(nᵢ − 1) degrees, at
    /// least two of them.
    pub fn of(groups: &[Vec<f64>]) -> Self {
        let told = groups.iter().filter(|group| group.len() > 1);
        let mut squares = 0.0;
        let (mut degrees, mut sessions) = (0, 0);
        for group in told {
            let (Some(spread), Some(_)) = (deviation(group), arithmetic(group)) else {
                continue;
            };
            squares += spread.powi(2) * (group.len() - 1) as f64;
            degrees += group.len() - 1;
            sessions += group.len();
        }
        if degrees + 1 < FEWEST_SESSIONS {
            let sessions = groups.iter().map(Vec::len).max().unwrap_or(0);
            return Self::Unknown { sessions };
        }
        Self::Measured {
            deviation: (squares / degrees as f64).sqrt(),
            degrees: degrees as f64,
            sessions,
            sentinel: false,
        }
    }

    /// The same from the sessions of a sentinel, for cases that have too few of their own.
    pub fn of_sentinels(groups: &[Vec<f64>]) -> Self {
        match Self::of(groups) {
            Self::Measured {
                deviation,
                degrees,
                sessions,
                ..
            } => Self::Measured {
                deviation,
                degrees,
                sessions,
                sentinel: true,
            },
            unknown => unknown,
        }
    }

    /// t · s · √2, the half-width of the difference between two sessions (Mandel, *The Statistical
    /// Analysis of Experimental Data*, 1964: repeatability limits).
    ///
    /// Where it is not known, 3 % at 95 %, and at other levels as a normal law of that width has it.
    pub fn half_width(&self, level: f64) -> Option<f64> {
        match *self {
            Self::Measured {
                deviation, degrees, ..
            } => Some(student_t(degrees, level)? * deviation * std::f64::consts::SQRT_2),
            Self::Unknown { .. } => {
                Some(UNKNOWN_SPREAD.ln_1p() * normal_quantile(level)? / normal_quantile(0.95)?)
            }
        }
    }

    /// Two-sided p-value of a log ratio against what sessions differ by anyway.
    pub fn p_value(&self, point: f64) -> Option<f64> {
        match *self {
            Self::Measured {
                deviation, degrees, ..
            } => two_sided(point, deviation * std::f64::consts::SQRT_2, degrees),
            Self::Unknown { .. } => {
                let scale = UNKNOWN_SPREAD.ln_1p() / normal_quantile(0.95)?;
                let law = Normal::new(0.0, 1.0).ok()?;
                Some(2.0 * law.sf((point / scale).abs()))
            }
        }
    }
}

/// Two-sided critical value of the standard normal: 1.96 at 95 %.
fn normal_quantile(level: f64) -> Option<f64> {
    let law = Normal::new(0.0, 1.0).ok()?;
    (level > 0.0 && level < 1.0).then(|| law.inverse_cdf(0.5 + level / 2.0))
}

#[cfg(test)]
mod tests {
    use super::super::random::Random;
    use super::*;

    #[test]
    fn three_sessions_match_a_hand_worked_spread() {
        // Logs 0, 0.01, 0.02: s = 0.01, t(0.975, 2) = 4.302653, so 4.302653 * 0.01 * 1.414214.
        let spread = SessionSpread::of(&[vec![0.0, 0.01, 0.02]]);
        assert!((spread.half_width(0.95).unwrap() - 0.060_848_7).abs() < 1e-6);
        assert!(matches!(
            spread,
            SessionSpread::Measured { sessions: 3, .. }
        ));
        // At the half-width itself the p-value is 5 %.
        assert!((spread.p_value(0.060_848_7).unwrap() - 0.05).abs() < 1e-5);
    }

    #[test]
    fn groups_pool_around_their_own_means() {
        // Two groups far apart, each with s = 0.01 / sqrt(2): pooled the same, with 2 degrees.
        let spread = SessionSpread::of(&[vec![0.0, 0.01], vec![5.0, 5.01]]);
        let SessionSpread::Measured {
            deviation,
            degrees,
            sessions,
            ..
        } = spread
        else {
            panic!("{spread:?}");
        };
        assert!((deviation - 0.01 / 2.0_f64.sqrt()).abs() < 1e-12);
        assert_eq!((degrees, sessions), (2.0, 4));
    }

    #[test]
    fn too_few_sessions_are_taken_as_three_percent() {
        let unknown = SessionSpread::of(&[vec![0.0, 0.5]]);
        assert_eq!(unknown, SessionSpread::Unknown { sessions: 2 });
        assert!((unknown.half_width(0.95).unwrap() - 1.03_f64.ln()).abs() < 1e-12);
        assert!((unknown.p_value(1.03_f64.ln()).unwrap() - 0.05).abs() < 1e-9);
        assert!(unknown.half_width(0.99).unwrap() > unknown.half_width(0.95).unwrap());
        assert_eq!(
            SessionSpread::of(&[]),
            SessionSpread::Unknown { sessions: 0 }
        );
    }

    #[test]
    fn two_new_sessions_differ_by_more_in_one_of_twenty() {
        let mut random = Random::seeded(8);
        let experiments = 4_000;
        let beyond = (0..experiments).filter(|_| {
            let mut session = || 0.02 * random.normal();
            let known: Vec<f64> = (0..5).map(|_| session()).collect();
            let difference = session() - session();
            let reach = SessionSpread::of(&[known]).half_width(0.95).unwrap();
            difference.abs() > reach
        });
        // Three standard errors of 0.05 in 4 000 are 0.0103.
        let share = beyond.count() as f64 / f64::from(experiments);
        assert!((share - 0.05).abs() < 0.0104, "{share}");
    }
}
