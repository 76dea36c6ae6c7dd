//! Trials at a fixed rate: a grid of points in time that errors do not add up on. Pure: time comes as an
//! argument.

use std::ops::RangeInclusive;

use edgedyno_shared::case::{Case, Scenario};
use edgedyno_shared::columns::ColumnSpec;
use edgedyno_shared::units::Nanos;

/// The column of when a trial was due.
pub const COLUMN: (&str, &str) = ("scheduled_ns", "ns");

/// A longer period would pass for a worker that hangs; a shorter one no clock keeps.
pub const PERIODS: RangeInclusive<Nanos> = Nanos(10_000)..=Nanos(100_000_000_000);

/// The time between two trials of a case that has a rate.
pub fn period(case: &Case) -> Option<Nanos> {
    match case.scenario {
        Scenario::Rate { millihertz: 0 } => Some(Nanos(i64::MAX)),
        Scenario::Rate { millihertz } => {
            // Rounded to the nearest: at most half a nanosecond a trial.
            let period = (1_000_000_000_000 + millihertz / 2) / millihertz;
            Some(Nanos(i64::try_from(period).unwrap_or(i64::MAX)))
        }
        _ => None,
    }
}

/// The column as a schema declares it.
pub fn column() -> ColumnSpec {
    ColumnSpec::new(COLUMN.0, COLUMN.1)
}

/// When trials are due. One that is late begins at once; points that were missed altogether are left
/// out, as a camera drops frames, so that nothing is ever hurried to catch up.
#[derive(Debug, Clone, Copy)]
pub struct Grid {
    period: Nanos,
    last: Option<Nanos>,
}

impl Grid {
    pub fn new(period: Nanos) -> Self {
        Self {
            period: Nanos(period.0.max(1)),
            last: None,
        }
    }

    /// The point of the next trial: the first one is now, and none is later than one period from now.
    pub fn next(&mut self, now: Nanos) -> Nanos {
        let due = match self.last {
            None => now,
            Some(last) => {
                let next = last + self.period;
                let missed = (now.0 - next.0).max(0) / self.period.0;
                next + Nanos(missed * self.period.0)
            }
        };
        self.last = Some(due);
        due
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::inputs::testing;

    #[test]
    fn a_rate_is_a_period_to_the_nanosecond() {
        let of = |millihertz| {
            let mut case = testing::job().order.case;
            case.scenario = Scenario::Rate { millihertz };
            period(&case).unwrap()
        };
        assert_eq!(period(&testing::job().order.case), None);
        assert_eq!(of(10_000), Nanos::from_millis(100));
        assert_eq!(of(30_000), Nanos(33_333_333));
        assert_eq!(of(500), Nanos::from_secs(2));
        assert!(!PERIODS.contains(&of(0)) && !PERIODS.contains(&of(1_000_000_000)));
    }

    #[test]
    fn points_that_were_missed_are_left_out_and_the_grid_stays() {
        let mut grid = Grid::new(Nanos(100));
        assert_eq!(grid.next(Nanos(1_000)), Nanos(1_000));
        // In time, a little late, and late by more than two periods.
        assert_eq!(grid.next(Nanos(1_040)), Nanos(1_100));
        assert_eq!(grid.next(Nanos(1_260)), Nanos(1_200));
        assert_eq!(grid.next(Nanos(1_580)), Nanos(1_500));
        assert_eq!(grid.next(Nanos(1_590)), Nanos(1_600));
    }

    proptest! {
        #[test]
        fn every_point_is_on_the_grid_and_after_the_last(period in 1_i64..1_000, takes in prop::collection::vec(0_i64..5_000, 1..50)) {
            let mut grid = Grid::new(Nanos(period));
            let first = grid.next(Nanos(7));
            let (mut now, mut last) = (first, first);
            for took in takes {
                now = Nanos(now.0.max(last.0) + took);
                let due = grid.next(now);
                prop_assert!(due > last && (due.0 - first.0) % period == 0);
                prop_assert!(due.0 > now.0 - period && due.0 <= now.0.max(last.0 + period));
                last = due;
            }
        }
    }
}
