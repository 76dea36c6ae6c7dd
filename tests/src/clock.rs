//! The harness's one clock: how long a test may still wait.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// How often a wait looks again.
const POLL: Duration = Duration::from_millis(5);

/// A point in time after which a wait is given up.
#[derive(Clone, Copy, Debug)]
pub struct Deadline {
    began: Instant,
    limit: Duration,
}

impl Deadline {
    /// Starts counting now.
    pub fn after(limit: Duration) -> Self {
        Self {
            began: now(),
            limit,
        }
    }

    /// Time since the start.
    pub fn elapsed(&self) -> Duration {
        now().duration_since(self.began)
    }

    /// Whether the limit is over.
    pub fn is_over(&self) -> bool {
        self.elapsed() >= self.limit
    }

    /// Asks again and again until there is an answer or the limit is over. Asks at least once.
    pub fn poll<T>(&self, mut ask: impl FnMut() -> Option<T>) -> Option<T> {
        loop {
            if let Some(answer) = ask() {
                return Some(answer);
            }
            if self.is_over() {
                return None;
            }
            std::thread::sleep(POLL);
        }
    }
}

#[expect(clippy::disallowed_methods, reason = "this is the crate's one clock")]
fn now() -> Instant {
    Instant::now()
}

/// Seconds since 1970, for a machine that has no clock of its own.
///
/// # Panics
/// When this machine's clock stands before 1970.
#[expect(clippy::disallowed_methods, reason = "this is the crate's one clock")]
pub fn wall_seconds() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    now.expect("a clock that was set").as_secs()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_poll_asks_once_even_with_no_time_left() {
        assert_eq!(Deadline::after(Duration::ZERO).poll(|| Some(7)), Some(7));
    }

    #[test]
    fn a_poll_ends_with_its_limit() {
        let deadline = Deadline::after(Duration::from_millis(20));
        assert_eq!(deadline.poll(|| None::<()>), None);
        assert!(deadline.elapsed() >= Duration::from_millis(20));
    }
}
