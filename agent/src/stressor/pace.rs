//! When the next piece of work is due. Pure: time comes as an argument.

use edgedyno_shared::load::{Effort, Throttle};
use edgedyno_shared::units::Nanos;

/// A stressor that sleeps and was kept from running makes up for no more than this.
const MOST_LAG: Nanos = Nanos::from_millis(20);

/// One turn of work and rest, for a share of the time.
const PERIOD: i64 = 10_000_000;

/// An absolute schedule: what is due is reckoned from the beginning, so that errors do not add up.
#[derive(Debug, Clone)]
pub(super) struct Pace {
    effort: Effort,
    /// The beginning, on the clock that paces.
    began: Nanos,
    catches_up: bool,
}

impl Pace {
    /// The share of one of `threads` threads. A stressor that spins is paced by its own CPU time, since it
    /// needs the CPU for every piece: kept from running, it falls behind by wall time, and does not
    /// rush afterwards. One that sleeps is paced by wall time.
    pub(super) fn new(effort: Effort, throttle: Throttle, threads: usize, now: Nanos) -> Self {
        let effort = match effort {
            Effort::Rate { per_second } => Effort::Rate {
                per_second: (per_second / threads.max(1) as u64).max(1),
            },
            other => other,
        };
        Self {
            effort,
            began: now,
            catches_up: throttle == Throttle::Spin,
        }
    }

    /// When the piece after `done` may begin; a time that is over means now.
    pub(super) fn due(&mut self, done: u64, now: Nanos) -> Nanos {
        match self.effort {
            Effort::Full => now,
            Effort::Rate { per_second } => {
                let planned = u128::from(done) * 1_000_000_000 / u128::from(per_second);
                let planned = Nanos(i64::try_from(planned).unwrap_or(i64::MAX / 2));
                let lag = now - (self.began + planned);
                if !self.catches_up && lag > MOST_LAG {
                    self.began = self.began + (lag - MOST_LAG);
                }
                self.began + planned
            }
            Effort::Duty { ppm } => {
                let busy = PERIOD * i64::from(ppm) / 1_000_000;
                let since = (now - self.began).0;
                let into = since % PERIOD;
                if into < busy {
                    now
                } else {
                    self.began + Nanos(since - into + PERIOD)
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const START: Nanos = Nanos(5_000);

    fn rate(per_second: u64, throttle: Throttle) -> Pace {
        Pace::new(Effort::Rate { per_second }, throttle, 1, START)
    }

    /// Units done in `span` by pieces of `piece` units that take `takes` each.
    fn done_in(pace: &mut Pace, span: i64, piece: u64, takes: i64) -> u64 {
        let (mut now, mut done) = (START, 0);
        while now.0 < START.0 + span {
            now = Nanos(now.0.max(pace.due(done, now).0)) + Nanos(takes);
            done += piece;
        }
        done
    }

    #[test]
    fn a_rate_is_shared_by_threads() {
        let mut pace = Pace::new(Effort::Rate { per_second: 4_000 }, Throttle::Spin, 4, START);
        assert_eq!(pace.due(500, START), START + Nanos(500_000_000));
    }

    proptest! {
        #[test]
        fn a_rate_below_what_can_be_done_is_kept_exactly(share in 5_u64..95) {
            // A piece of 1000 units takes 1 ms, so 1 000 000 a second can be done.
            let mut pace = rate(10_000 * share, Throttle::Spin);
            let done = done_in(&mut pace, 2_000_000_000, 1000, 1_000_000);
            prop_assert!(done.abs_diff(20_000 * share) <= 1000, "{done}");
        }

        #[test]
        fn a_duty_is_a_share_of_the_time(percent in 1_u32..100) {
            let mut pace = Pace::new(Effort::Duty { ppm: percent * 10_000 }, Throttle::Spin, 1, START);
            // Pieces of 10 µs: a turn is overrun by one at most.
            let busy = done_in(&mut pace, 1_000_000_000, 10, 10_000) * 1000;
            let wanted = u64::from(percent) * 10_000_000;
            prop_assert!(busy.abs_diff(wanted) <= 100 * 10_000 + 10_000, "{busy} {wanted}");
        }
    }

    #[test]
    fn a_sleeper_that_was_held_up_makes_up_for_little() {
        let mut pace = rate(1_000_000_000, Throttle::Sleep);
        let late = START + Nanos::from_secs(1);
        // Nothing done in a second: 20 ms of it are caught up.
        assert_eq!(pace.due(0, late), late - MOST_LAG);
        assert_eq!(pace.due(20_000_000, late), late);
    }

    #[test]
    fn full_effort_never_waits() {
        let mut pace = Pace::new(Effort::Full, Throttle::Spin, 1, START);
        assert_eq!(pace.due(u64::MAX, Nanos(77)), Nanos(77));
    }
}
