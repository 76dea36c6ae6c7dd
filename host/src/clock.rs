//! The host's one clock. No model is timed here.

use std::sync::OnceLock;
use std::time::SystemTime;

use nix::time::{ClockId, clock_gettime};

/// Nanoseconds by a steady clock, on this machine the one that its agent stamps with; 0 where there is none.
pub fn monotonic_ns() -> i64 {
    let now = clock_gettime(ClockId::CLOCK_MONOTONIC);
    now.map_or(0, |now| now.tv_sec() * 1_000_000_000 + now.tv_nsec())
}

/// Names the steady clock of this process: what two processes say of theirs is not compared, since they may
/// run on two machines.
pub fn own_id() -> u64 {
    static ID: OnceLock<u64> = OnceLock::new();
    *ID.get_or_init(|| {
        let mut bytes = [0; 8];
        // Without chance the process and the moment are as good as unique.
        if getrandom::fill(&mut bytes).is_err() {
            return u64::from(std::process::id()) ^ monotonic_ns() as u64;
        }
        u64::from_le_bytes(bytes)
    })
}

/// Nanoseconds since 1970 by this machine's clock.
#[expect(clippy::disallowed_methods, reason = "this is the one place that may")]
pub fn unix_ns() -> i64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    since.map_or(0, |since| since.as_nanos() as i64)
}
