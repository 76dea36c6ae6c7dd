//! The one place of the agent that reads time.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use edgedyno_shared::units::Nanos;
use nix::time::ClockId;

/// Reads a steady clock; the timed loop knows no other source of time.
pub trait Clock {
    fn now(&self) -> Nanos;
}

/// CLOCK_MONOTONIC, which the vDSO answers without a system call on the machines we know.
#[derive(Debug, Clone, Copy, Default)]
pub struct Monotonic;

impl Clock for Monotonic {
    #[inline]
    fn now(&self) -> Nanos {
        read(ClockId::CLOCK_MONOTONIC)
    }
}

#[inline]
fn read(clock: ClockId) -> Nanos {
    // A clock that the kernel lists does not fail; zero would show as a negative span.
    clock.now().map_or(Nanos::ZERO, |t| {
        Nanos(t.tv_sec() * 1_000_000_000 + t.tv_nsec())
    })
}

/// CPU time of this process, all threads.
pub fn process_cpu_time() -> Nanos {
    read(ClockId::CLOCK_PROCESS_CPUTIME_ID)
}

/// CPU time of the calling thread. A system call.
pub fn thread_cpu_time() -> Nanos {
    read(ClockId::CLOCK_THREAD_CPUTIME_ID)
}

/// Nanoseconds since 1970 by this machine's own wall clock.
pub fn wall_unix_ns() -> i64 {
    #[expect(clippy::disallowed_methods, reason = "this is the clock of the crate")]
    let now = SystemTime::now();
    now.duration_since(UNIX_EPOCH)
        .unwrap_or(Duration::ZERO)
        .as_nanos() as i64
}

/// Waits on the calling thread; never used by a session.
pub fn pause(span: Duration) {
    std::thread::sleep(span);
}
