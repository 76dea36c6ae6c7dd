//! The host's one clock. No model is timed here.

use std::time::SystemTime;

use nix::time::{ClockId, clock_gettime};

/// Nanoseconds by the clock that an agent on this machine stamps with, for telling what a read of it
/// costs; 0 where there is none.
pub fn monotonic_ns() -> i64 {
    let now = clock_gettime(ClockId::CLOCK_MONOTONIC);
    now.map_or(0, |now| now.tv_sec() * 1_000_000_000 + now.tv_nsec())
}

/// Nanoseconds since 1970 by this machine's clock.
#[expect(clippy::disallowed_methods, reason = "this is the one place that may")]
pub fn unix_ns() -> i64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    since.map_or(0, |since| since.as_nanos() as i64)
}
