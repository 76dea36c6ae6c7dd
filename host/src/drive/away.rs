//! When to knock again at a board that is away. A state machine: time comes in as an argument.

use std::time::Duration;

/// The first pause; each is twice the one before,
const FIRST: Duration = Duration::from_millis(100);

/// up to this while the board has orders of ours,
const BUSY: Duration = Duration::from_secs(1);

/// and to this while it has none.
const IDLE: Duration = Duration::from_secs(5);

/// A board that was reached once may be away this long before the run is given up. What it has orders for
/// it measures meanwhile; what it measured it keeps.
const PATIENCE: Duration = Duration::from_secs(3600);

/// How long a board has been away, and how often it was looked for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Away {
    since: Option<Duration>,
    tries: u32,
}

impl Away {
    /// How long to wait before the next try, `now` being a steady time; none when patience is at an end.
    pub(super) fn pause(&mut self, now: Duration, has_orders: bool) -> Option<Duration> {
        let since = *self.since.get_or_insert(now);
        if now.saturating_sub(since) > PATIENCE {
            return None;
        }
        let most = if has_orders { BUSY } else { IDLE };
        let pause = FIRST.saturating_mul(1 << self.tries.min(16)).min(most);
        self.tries += 1;
        Some(pause)
    }

    pub(super) fn is_back(&mut self) {
        *self = Self::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pauses(has_orders: bool) -> Vec<u64> {
        let mut away = Away::default();
        let pause = |_| away.pause(Duration::ZERO, has_orders).unwrap().as_millis() as u64;
        (0..8).map(pause).collect()
    }

    #[test]
    fn pauses_double_to_a_second_with_orders_and_to_five_without() {
        assert_eq!(pauses(true), [100, 200, 400, 800, 1000, 1000, 1000, 1000]);
        assert_eq!(pauses(false), [100, 200, 400, 800, 1600, 3200, 5000, 5000]);
    }

    #[test]
    fn patience_ends_after_an_hour_and_begins_anew_when_the_board_was_back() {
        let mut away = Away::default();
        let at = Duration::from_secs;
        assert!(away.pause(at(10), true).is_some());
        assert!(away.pause(at(10 + 3600), true).is_some());
        assert_eq!(away.pause(at(10 + 3601), true), None);
        away.is_back();
        assert_eq!(away.pause(at(9999), true), Some(FIRST));
    }
}
