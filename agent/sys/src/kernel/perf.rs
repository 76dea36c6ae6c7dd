//! Counters of processor and memory controller (perf_event_open(2)).

use std::io::{self, Read};
use std::os::fd::{AsFd, BorrowedFd, FromRawFd, OwnedFd};

/// What is counted: a source by its number, and the words that choose the event.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Event {
    pub source: u32,
    pub config: [u64; 3],
    /// Only outside the kernel, which needs the fewest rights.
    pub exclude_kernel: bool,
    /// Threads that the process starts later are counted too.
    pub inherit: bool,
}

/// A running counter.
#[derive(Debug)]
pub struct Counter(std::fs::File);

/// What a counter shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Count {
    pub value: u64,
    /// Nanoseconds for which it was to count, and for which it did: fewer where counters take turns.
    pub enabled: u64,
    pub running: u64,
}

/// `struct perf_event_attr` up to its second version (`PERF_ATTR_SIZE_VER1` and the word before).
#[repr(C)]
#[derive(Default)]
struct Attributes {
    source: u32,
    size: u32,
    config: u64,
    sample_period: u64,
    sample_type: u64,
    read_format: u64,
    flags: u64,
    wakeup_events: u32,
    breakpoint_type: u32,
    config1: u64,
    config2: u64,
}

const INHERIT: u64 = 1 << 1;
const EXCLUDE_KERNEL: u64 = 1 << 5;
const EXCLUDE_HYPERVISOR: u64 = 1 << 6;
/// `PERF_FORMAT_TOTAL_TIME_ENABLED | PERF_FORMAT_TOTAL_TIME_RUNNING`.
const TIMES: u64 = 1 | 2;
/// `PERF_FLAG_FD_CLOEXEC`.
const CLOSE_ON_EXEC: libc::c_ulong = 8;

impl Counter {
    /// Starts to count for a process wherever it runs, or for whoever runs on a CPU.
    ///
    /// # Errors
    ///
    /// `ENOENT` where there is no such counter, `EACCES` where the kernel does not let this user count
    /// (`/proc/sys/kernel/perf_event_paranoid`), or what else it says.
    pub fn open(event: Event, process: Option<i32>, cpu: Option<i32>) -> io::Result<Self> {
        let set = |flag: u64, is_set: bool| if is_set { flag } else { 0 };
        let attributes = Attributes {
            source: event.source,
            size: size_of::<Attributes>() as u32,
            config: event.config[0],
            config1: event.config[1],
            config2: event.config[2],
            read_format: TIMES,
            flags: set(INHERIT, event.inherit)
                | set(EXCLUDE_KERNEL | EXCLUDE_HYPERVISOR, event.exclude_kernel),
            ..Attributes::default()
        };
        let pointer: *const Attributes = &raw const attributes;
        let (process, cpu) = (process.unwrap_or(-1), cpu.unwrap_or(-1));
        let no_group: libc::c_int = -1;
        let call = libc::SYS_perf_event_open;
        // SAFETY: the kernel reads `size` bytes behind the pointer, which are ours and outlive the call.
        let opened = unsafe { libc::syscall(call, pointer, process, cpu, no_group, CLOSE_ON_EXEC) };
        if opened < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the kernel just opened this number for us, and nobody else knows it.
        let owned = unsafe { OwnedFd::from_raw_fd(opened as libc::c_int) };
        Ok(Self(owned.into()))
    }

    /// One that another process started and handed over: it counts on, whoever reads it.
    pub fn handed_over(file: OwnedFd) -> Self {
        Self(file.into())
    }

    /// What it shows now.
    ///
    /// # Errors
    ///
    /// What the kernel says.
    pub fn read(&mut self) -> io::Result<Count> {
        let mut words = [0_u8; 24];
        self.0.read_exact(&mut words)?;
        let word = |at: usize| {
            let bytes = words[at..at + 8].first_chunk::<8>();
            bytes.map_or(0, |bytes| u64::from_ne_bytes(*bytes))
        };
        Ok(Count {
            value: word(0),
            enabled: word(8),
            running: word(16),
        })
    }
}

impl AsFd for Counter {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `PERF_TYPE_SOFTWARE`, `PERF_COUNT_SW_TASK_CLOCK`: nanoseconds of CPU time, on every kernel.
    const TASK_CLOCK: Event = Event {
        source: 1,
        config: [1, 0, 0],
        exclude_kernel: true,
        inherit: true,
    };

    #[test]
    fn attributes_have_the_size_of_their_version() {
        assert_eq!(size_of::<Attributes>(), 72);
    }

    #[test]
    fn cpu_time_of_this_process_is_counted() {
        let mut counter = match Counter::open(TASK_CLOCK, Some(0), None) {
            Ok(counter) => counter,
            // A container may forbid the call altogether.
            Err(why) => {
                assert!(matches!(
                    why.raw_os_error(),
                    Some(libc::EACCES | libc::EPERM | libc::ENOSYS)
                ));
                return;
            }
        };
        let before = counter.read().unwrap();
        let mut sum = 0_u64;
        for i in 0..2_000_000_u64 {
            sum = std::hint::black_box(sum.wrapping_add(i * i));
        }
        std::hint::black_box(sum);
        let after = counter.read().unwrap();
        assert!(after.value > before.value);
        assert!(after.enabled >= after.running && after.running > 0);
    }

    #[test]
    fn an_event_that_is_not_there_is_an_error() {
        let nowhere = Event {
            source: 0xffff,
            ..TASK_CLOCK
        };
        assert!(Counter::open(nowhere, Some(0), None).is_err());
    }
}
