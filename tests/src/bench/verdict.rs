//! Intervals of ratios, and the rule that judges them.

use std::fmt;

use edgedyno::stats::interval;

const LEVEL: f64 = 0.95;

/// A 95 % interval of a number above zero.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Interval {
    pub point: f64,
    pub low: f64,
    pub high: f64,
}

impl Interval {
    /// Geometric mean and Student t over logarithms; `None` for fewer than two values.
    pub fn over(values: &[f64]) -> Option<Self> {
        let estimate = interval::over_repeats(values, LEVEL)?;
        Some(Self {
            point: estimate.point,
            low: estimate.low,
            high: estimate.high,
        })
    }

    /// Half of its width on the logarithmic scale: 0.005 is half a percent up and down.
    pub fn half_width(&self) -> f64 {
        (self.high / self.low).ln() / 2.0
    }

    fn holds(&self, value: f64) -> bool {
        self.low <= value && value <= self.high
    }
}

/// What a number is to reach.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Goal {
    AtMost(f64),
    AtLeast(f64),
    /// A ratio with 1 inside.
    Between(f64, f64),
}

impl Goal {
    fn is_reached(self, measured: &Interval) -> bool {
        match self {
            Self::AtMost(limit) => measured.high <= limit,
            Self::AtLeast(limit) => measured.low >= limit,
            Self::Between(low, high) => low <= measured.low && measured.high <= high,
        }
    }

    /// Where a ratio of exactly 1 to the goal lies.
    fn even(self) -> f64 {
        match self {
            Self::AtMost(limit) | Self::AtLeast(limit) => limit,
            Self::Between(..) => 1.0,
        }
    }
}

impl fmt::Display for Goal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::AtMost(limit) => write!(f, "at most {limit}"),
            Self::AtLeast(limit) => write!(f, "at least {limit}"),
            Self::Between(low, high) => write!(f, "{low} to {high}"),
        }
    }
}

/// What became of a goal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    Met,
    /// The machine varies as much by itself.
    NotShown,
    NotMet,
    /// One sample has no interval.
    NotJudged,
}

impl Verdict {
    pub fn words(self) -> &'static str {
        match self {
            Self::Met => "met",
            Self::NotShown => "not shown on this machine",
            Self::NotMet => "not met",
            Self::NotJudged => "not judged: too few samples for an interval",
        }
    }
}

/// Judges a number; `control` is the interval of a ratio of the same thing to itself.
pub fn judge(measured: Option<&Interval>, goal: Goal, control: Option<&Interval>) -> Verdict {
    let Some(measured) = measured else {
        return Verdict::NotJudged;
    };
    let is_as_wide = |control: &Interval| control.half_width() >= measured.half_width();
    if goal.is_reached(measured) {
        Verdict::Met
    } else if measured.holds(goal.even()) && control.is_some_and(is_as_wide) {
        Verdict::NotShown
    } else {
        Verdict::NotMet
    }
}

/// Ratios of each value to the one before it, pair by pair: the control of a single arm.
pub fn neighbours(values: &[f64]) -> Vec<f64> {
    let (pairs, _) = values.as_chunks::<2>();
    pairs.iter().map(|[first, second]| second / first).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn interval(low: f64, high: f64) -> Interval {
        Interval {
            point: (low * high).sqrt(),
            low,
            high,
        }
    }

    fn verdict(low: f64, high: f64, goal: Goal, control: (f64, f64)) -> Verdict {
        let control = interval(control.0, control.1);
        judge(Some(&interval(low, high)), goal, Some(&control))
    }

    #[test]
    fn an_interval_inside_the_limit_is_met_whatever_the_control() {
        let quiet = (1.0, 1.0);
        assert_eq!(
            verdict(90.0, 100.0, Goal::AtMost(100.0), quiet),
            Verdict::Met
        );
        assert_eq!(verdict(5.0, 6.0, Goal::AtLeast(5.0), quiet), Verdict::Met);
        let even = Goal::Between(0.995, 1.005);
        assert_eq!(verdict(0.996, 1.004, even, quiet), Verdict::Met);
    }

    #[test]
    fn an_interval_around_the_limit_is_not_shown_only_where_the_control_is_as_wide() {
        let even = Goal::Between(0.995, 1.005);
        for (control, expected) in [
            ((0.98, 1.02), Verdict::NotShown),
            ((0.999, 1.001), Verdict::NotMet),
        ] {
            assert_eq!(verdict(0.99, 1.01, even, control), expected);
            assert_eq!(verdict(99.0, 101.0, Goal::AtMost(100.0), control), expected);
        }
    }

    #[test]
    fn an_interval_beyond_the_limit_is_not_met_even_on_a_noisy_machine() {
        let noisy = (0.5, 2.0);
        assert_eq!(
            verdict(101.0, 120.0, Goal::AtMost(100.0), noisy),
            Verdict::NotMet
        );
        assert_eq!(
            verdict(1.006, 1.02, Goal::Between(0.995, 1.005), noisy),
            Verdict::NotMet
        );
    }

    #[test]
    fn one_sample_is_not_judged() {
        assert_eq!(Interval::over(&[7.0]), None);
        assert_eq!(judge(None, Goal::AtMost(1.0), None), Verdict::NotJudged);
    }

    #[test]
    fn neighbours_are_taken_in_pairs() {
        assert_eq!(neighbours(&[1.0, 2.0, 4.0, 2.0, 9.0]), [2.0, 0.5]);
    }
}
