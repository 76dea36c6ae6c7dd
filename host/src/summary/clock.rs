//! How the host's clock stood to the board's, and whether the board's wall clock was moved.

use crate::store::RepeatRow;
use crate::store::rows::{ClockExchangeRow, ClockMomentRow, ClockReadingRow};
use crate::view::CaseView;

/// Of the counting repeats. None is not known: no host was there, or it did not answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ClockSeen {
    /// To be added to the board's monotonic clock to get the host's: the latest.
    pub offset_ns: Option<i64>,
    /// The largest bound of all exchanges.
    pub bound_ns: Option<i64>,
    /// The drift furthest from zero, and its own bound.
    pub drift_ppb: Option<i64>,
    pub drift_bound_ppb: Option<i64>,
    /// To be added to the board's wall clock to get the host's: the latest.
    pub wall_offset_ns: Option<i64>,
    /// Exchanges that were answered.
    pub answered: u64,
    /// How far the wall clock was moved within a repeat, the furthest.
    pub wall_step_ns: Option<i64>,
    /// How long the board slept within repeats, in all.
    pub suspended_ns: Option<i64>,
}

impl ClockSeen {
    pub fn of(view: &CaseView) -> Self {
        let mut seen = Self::default();
        for repeat in view.counting() {
            seen.take(&repeat.row);
        }
        seen
    }

    fn take(&mut self, row: &RepeatRow) {
        for exchange in &row.clock_exchanges {
            self.answered += u64::from(exchange.offset_ns.is_some());
            self.offset_ns = exchange.offset_ns.or(self.offset_ns);
            self.bound_ns = self.bound_ns.max(exchange.bound_ns);
            if further(exchange.drift_ppb, self.drift_ppb) {
                self.drift_ppb = exchange.drift_ppb;
                self.drift_bound_ppb = exchange.drift_bound_ppb;
            }
            let reading = match exchange.moment {
                ClockMomentRow::Before => row.clock_readings.first(),
                ClockMomentRow::After => row.clock_readings.last(),
            };
            let wall = reading.and_then(|reading| wall_offset(exchange, reading));
            self.wall_offset_ns = wall.or(self.wall_offset_ns);
        }
        let step = wall_step(&row.clock_readings);
        if further(step, self.wall_step_ns) {
            self.wall_step_ns = step;
        }
        let slept = suspended(&row.clock_readings);
        self.suspended_ns = match (self.suspended_ns, slept) {
            (Some(before), Some(slept)) => Some(before + slept),
            (before, slept) => before.or(slept),
        };
    }
}

fn further(new: Option<i64>, old: Option<i64>) -> bool {
    new.map(i64::unsigned_abs) > old.map(i64::unsigned_abs)
}

/// The host's wall clock less the board's at the moment of an answer. The board's is worked out from a
/// reading close by, by the monotonic clock.
fn wall_offset(exchange: &ClockExchangeRow, reading: &ClockReadingRow) -> Option<i64> {
    let on_board = exchange.answered_ns?.checked_sub(exchange.offset_ns?)?;
    let since = on_board.checked_sub(reading.monotonic_ns)?;
    let board = reading.realtime_ns?.checked_add(since)?;
    exchange.host_unix_ns?.checked_sub(board)
}

/// The largest change of the wall clock against the steady one between a reading and the next; where there
/// is one that goes on while the board sleeps, against that.
pub(crate) fn wall_step(readings: &[ClockReadingRow]) -> Option<i64> {
    let against = |reading: &ClockReadingRow| {
        let steady = reading.boottime_ns.unwrap_or(reading.monotonic_ns);
        reading.realtime_ns?.checked_sub(steady)
    };
    let steps = readings.windows(2).filter_map(|pair| {
        let (one, next) = (against(&pair[0])?, against(&pair[1])?);
        next.checked_sub(one)
    });
    steps.max_by_key(|step| step.unsigned_abs())
}

/// What the clock that counts sleep gained on the one that does not. Reading them one after the other can
/// feign no more than that took.
pub(crate) fn suspended(readings: &[ClockReadingRow]) -> Option<i64> {
    let (first, last) = (readings.first()?, readings.last()?);
    let against =
        |reading: &ClockReadingRow| reading.boottime_ns?.checked_sub(reading.monotonic_ns);
    let gained = against(last)?.checked_sub(against(first)?)?;
    let feigned = first.took_ns.saturating_add(last.took_ns);
    Some(if gained > feigned { gained } else { 0 })
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: i64 = 1_000_000_000;

    fn reading(monotonic_ns: i64, realtime_ns: i64, boottime_ns: i64) -> ClockReadingRow {
        ClockReadingRow {
            monotonic_ns,
            boottime_ns: Some(boottime_ns),
            realtime_ns: Some(realtime_ns),
            raw_ns: Some(monotonic_ns),
            took_ns: 400,
        }
    }

    #[test]
    fn a_wall_clock_set_back_by_an_hour_shows_and_slewing_is_small() {
        let hour = 3_600 * SECOND;
        let readings = [
            reading(0, 100 * hour, 0),
            reading(10 * SECOND, 100 * hour + 10 * SECOND + 2_000, 10 * SECOND),
            reading(20 * SECOND, 99 * hour + 20 * SECOND, 20 * SECOND),
        ];
        assert_eq!(wall_step(&readings[..2]), Some(2_000));
        assert_eq!(wall_step(&readings), Some(-hour - 2_000));
        assert_eq!(wall_step(&readings[..1]), None);
    }

    #[test]
    fn sleep_is_what_the_boot_clock_gained() {
        let readings = [reading(0, 0, 5), reading(10 * SECOND, 0, 70 * SECOND)];
        assert_eq!(suspended(&readings), Some(60 * SECOND - 5));
        let awake = [reading(0, 0, 5), reading(10 * SECOND, 0, 10 * SECOND + 300)];
        assert_eq!(suspended(&awake), Some(0));
        assert_eq!(suspended(&[]), None);
    }

    #[test]
    fn the_board_s_wall_clock_is_held_against_the_host_s_at_one_moment() {
        let exchange = ClockExchangeRow {
            moment: ClockMomentRow::Before,
            state: "answered".into(),
            rounds: 1,
            asked_ns: Some(0),
            received_ns: Some(1_050),
            answered_ns: Some(1_060),
            heard_ns: Some(110),
            host_clock: Some("7".into()),
            host_unix_ns: Some(9 * SECOND),
            offset_ns: Some(1_000),
            bound_ns: Some(51),
            drift_ppb: None,
            drift_bound_ppb: None,
        };
        // Answered at 60 by the board's clock; its wall clock said 8 s at 500.
        let wall = wall_offset(&exchange, &reading(500, 8 * SECOND, 0));
        assert_eq!(wall, Some(SECOND + 440));
    }
}
