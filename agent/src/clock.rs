//! The one place of the agent that reads time.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use edgedyno_shared::clocks::ClockReading;
use edgedyno_shared::units::Nanos;
use nix::time::ClockId;
use nix::unistd::Pid;

/// Reads a steady clock; the timed loop knows no other source of time.
pub trait Clock {
    fn now(&self) -> Nanos;

    /// Nanoseconds since 1970 by the wall clock, which anybody may set: for people, and for nothing that is
    /// decided.
    fn wall_unix_ns(&self) -> i64 {
        wall_unix_ns()
    }
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
    read_if_there(clock).unwrap_or(Nanos::ZERO)
}

#[inline]
fn read_if_there(clock: ClockId) -> Option<Nanos> {
    let now = clock.now().ok()?;
    Some(Nanos(now.tv_sec() * 1_000_000_000 + now.tv_nsec()))
}

/// All of this machine's clocks, one after the other.
pub fn read_all() -> ClockReading {
    let monotonic = Monotonic.now();
    ClockReading {
        monotonic,
        boottime: read_if_there(ClockId::CLOCK_BOOTTIME),
        realtime: read_if_there(ClockId::CLOCK_REALTIME),
        raw: read_if_there(ClockId::CLOCK_MONOTONIC_RAW),
        took: Monotonic.now() - monotonic,
    }
}

/// CPU time of this process, all threads.
pub fn process_cpu_time() -> Nanos {
    read(ClockId::CLOCK_PROCESS_CPUTIME_ID)
}

/// CPU time of the calling thread. A system call.
pub fn thread_cpu_time() -> Nanos {
    read(ClockId::CLOCK_THREAD_CPUTIME_ID)
}

/// CPU time of another process so far, all its threads: exact, and a system call, not a file. None when there is
/// no such process.
pub fn cpu_time_of(process: u32) -> Option<Nanos> {
    // The number becomes a part of the clock's: a larger one would name another clock. No kernel has larger ones
    // (PID_MAX_LIMIT).
    let process = i32::try_from(process).ok();
    let process = process.filter(|number| (1..=1 << 22).contains(number))?;
    read_if_there(ClockId::pid_cpu_clock_id(Pid::from_raw(process)).ok()?)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_clocks_are_read_close_together() {
        let reading = read_all();
        assert!(reading.took >= Nanos::ZERO && reading.took < Nanos::from_secs(5));
        // Suspension is counted by one of them only.
        let boottime = reading.boottime.unwrap();
        assert!(boottime + reading.took >= reading.monotonic);
        assert!(reading.raw.unwrap() > Nanos::ZERO);
        let apart = reading.realtime.unwrap().0 - wall_unix_ns();
        assert!(apart.abs() < Nanos::from_secs(5).0, "{apart}");
    }

    #[test]
    fn the_cpu_time_of_a_process_is_its_own() {
        let before = process_cpu_time();
        let by_number = cpu_time_of(std::process::id()).unwrap();
        assert!(before <= by_number && by_number <= process_cpu_time());
        // No process has these, and by some of them the call would mean the caller.
        for nobody in [0, 1 << 22, (1 << 22) + 1, i32::MAX as u32, u32::MAX] {
            assert_eq!(cpu_time_of(nobody), None, "{nobody}");
        }
    }
}
