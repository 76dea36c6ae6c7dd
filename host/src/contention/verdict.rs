//! What an experiment says in one word.

use serde::Serialize;

use super::curve::Ratio;
use super::recovery::{Board, Recovery};
use super::report::{METRICS, Point};
use crate::plan::condition::Condition;
use crate::stats::interval::student_t;

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
        let valid = points.iter().filter(|point| point.valid);
        if !baseline || valid.clone().next().is_none() {
            return Self::Invalid;
        }
        if recovery.is_some_and(|recovery| recovery.board == Board::Other) {
            return Self::BoardChanged;
        }
        let loads: Vec<&Point> = valid.filter(|point| is_load(point)).collect();
        match loads.iter().any(|point| slows(point, loads.len())) {
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

/// A control is none.
fn is_load(point: &Point) -> bool {
    let condition = Condition::stored(&point.condition).unwrap_or_default();
    !super::report::is_spin(&condition)
}

/// Whether a load surely slows p50, one of so many that were tried: of a dozen that do nothing, the interval
/// of one lies beyond 1 in every fifth experiment. So the interval of each is as much wider as that takes
/// (Bonferroni): all of them hold together in 95 of 100 experiments.
fn slows(point: &Point, loads: usize) -> bool {
    let over_spin = point.over_spin.get(METRICS[0]);
    let ratio = over_spin.or(point.slowdown.get(METRICS[0]));
    ratio
        .and_then(|ratio| low_of_many(ratio, loads))
        .is_some_and(|low| low > 1.0)
}

/// The lower end of the interval of a ratio of paired rounds when it is one of so many.
fn low_of_many(ratio: &Ratio, of: usize) -> Option<f64> {
    let (low, high) = ratio.ci95?;
    let freedom = ratio.rounds as f64 - 1.0;
    let alone = student_t(freedom, 0.95)?;
    let together = student_t(freedom, 1.0 - 0.05 / of as f64)?;
    let half = (high / low).ln() / 2.0 * together / alone;
    Some((low * high).sqrt() * (-half).exp())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

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
    fn one_of_many_loads_needs_more_than_its_own_interval() {
        let of = |count: usize, low: f64| {
            let mut all: Vec<Point> = (1..count)
                .map(|_| slowed("mem_read:cpu1", 0.9, None))
                .collect();
            all.push(slowed("mem_copy:cpu1", low, None));
            Verdict::of(true, &all, None)
        };
        assert_eq!(of(1, 1.001), Verdict::Slowed);
        assert_eq!(of(14, 1.001), Verdict::NotShown);
        // t of 4 degrees is 2.776 at 95 %, 5.60 at 1 - 0.05/14: the half-width of 0.087 doubles.
        assert_eq!(of(14, 1.2), Verdict::Slowed);
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
