//! What an experiment says in one word.

use serde::Serialize;

use super::recovery::{Board, Recovery};
use super::report::{METRICS, Point};
use crate::plan::condition::Condition;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// The idle board, or every condition, was not what it was meant to be.
    Invalid,
    /// The board at the end was another than before.
    BoardChanged,
    /// A condition surely slows p50: beyond its control where it has one, else beyond the idle board.
    Slowed,
    NotShown,
}

impl Verdict {
    pub(super) fn of(baseline: bool, points: &[Point], recovery: Option<&Recovery>) -> Self {
        let mut valid = points.iter().filter(|point| point.valid);
        if !baseline || valid.clone().next().is_none() {
            return Self::Invalid;
        }
        if recovery.is_some_and(|recovery| recovery.board == Board::Other) {
            return Self::BoardChanged;
        }
        match valid.any(slows) {
            true => Self::Slowed,
            false => Self::NotShown,
        }
    }

    /// In a sentence, for the terminal.
    pub const fn words(self) -> &'static str {
        match self {
            Self::Invalid => "invalid: the idle board or every condition was not what it was to be",
            Self::BoardChanged => "not to be trusted: the board at the end was another than before",
            Self::Slowed => "it is slowed down",
            Self::NotShown => "no slowdown is shown",
        }
    }
}

/// Whether a load surely slows p50; a control is no load.
fn slows(point: &Point) -> bool {
    let condition = Condition::parse(&point.condition).unwrap_or_default();
    let is_load = !super::report::is_spin(&condition);
    let over_spin = point.over_spin.get(METRICS[0]);
    let ratio = over_spin.or(point.slowdown.get(METRICS[0]));
    is_load
        && ratio
            .and_then(|ratio| ratio.ci95)
            .is_some_and(|(low, _)| low > 1.0)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::super::curve::Ratio;
    use super::super::testing::point;
    use super::*;

    fn ratio(low: f64) -> BTreeMap<String, Ratio> {
        let ratio = Ratio {
            ratio: low + 0.1,
            ci95: Some((low, low + 0.2)),
            rounds: 5,
            enough: true,
        };
        BTreeMap::from([(METRICS[0].to_owned(), ratio)])
    }

    fn slowed(condition: &str, over_idle: f64, over_spin: Option<f64>) -> Point {
        Point {
            slowdown: ratio(over_idle),
            over_spin: over_spin.map(ratio).unwrap_or_default(),
            ..point(condition)
        }
    }

    #[test]
    fn a_load_slows_beyond_its_control_and_a_control_is_no_load() {
        let of = |points: &[Point]| Verdict::of(true, points, None);
        assert_eq!(of(&[slowed("mem_read:cpu1", 1.1, None)]), Verdict::Slowed);
        assert_eq!(
            of(&[slowed("mem_read:cpu1", 1.1, Some(0.95))]),
            Verdict::NotShown
        );
        assert_eq!(of(&[slowed("spin:cpu1", 1.1, None)]), Verdict::NotShown);
        let invalid = Point {
            valid: false,
            ..slowed("mem_read:cpu1", 1.1, None)
        };
        assert_eq!(of(&[invalid]), Verdict::Invalid);
        let good = [slowed("mem_read:cpu1", 1.1, None)];
        assert_eq!(Verdict::of(false, &good, None), Verdict::Invalid);
        let other = Recovery {
            ratio: Some(1.2),
            ci95: Some((1.1, 1.3)),
            repeats: 3,
            valid_repeats: 3,
            board: Board::Other,
            marks: Vec::new(),
        };
        assert_eq!(
            Verdict::of(true, &good, Some(&other)),
            Verdict::BoardChanged
        );
    }
}
