//! The host's one clock. Nothing that is measured is timed here.

use std::time::SystemTime;

/// Nanoseconds since 1970 by this machine's clock.
#[expect(clippy::disallowed_methods, reason = "this is the one place that may")]
pub fn unix_ns() -> i64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    since.map_or(0, |since| since.as_nanos() as i64)
}
