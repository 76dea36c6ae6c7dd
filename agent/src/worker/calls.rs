//! What the measuring thread asks of allocator and kernel inside the window.

use std::fs;

use edgedyno_shared::repeat::WindowCalls;
use edgedyno_sys::kernel::allocations::calls_of_this_thread;
use edgedyno_sys::kernel::perf::{Counter, Event};

/// Where the kernel tells the number of the event that every system call passes by.
const TRACEPOINTS: [&str; 2] = [
    "/sys/kernel/tracing/events/raw_syscalls/sys_enter/id",
    "/sys/kernel/debug/tracing/events/raw_syscalls/sys_enter/id",
];

/// `PERF_TYPE_TRACEPOINT`.
const TRACEPOINT: u32 = 2;

/// Counts from [`Calls::begin`] to [`Begun::end`].
pub(super) struct Calls {
    kernel: Option<Counter>,
}

pub(super) struct Begun {
    kernel: Option<(Counter, u64)>,
    allocator: u64,
}

impl Calls {
    /// System calls are counted where the tool measures itself, with `null`: while anybody counts them,
    /// those of every process on the board take longer.
    pub(super) fn of(backend: &str) -> Self {
        let kernel = (backend == "null").then(counter).flatten();
        Self { kernel }
    }

    pub(super) fn begin(self) -> Begun {
        let kernel = self.kernel.and_then(|mut counter| {
            let before = counter.read().ok()?.value;
            Some((counter, before))
        });
        Begun {
            kernel,
            allocator: calls_of_this_thread(),
        }
    }
}

impl Begun {
    pub(super) fn end(self) -> WindowCalls {
        let now = calls_of_this_thread();
        let kernel = self.kernel.and_then(|(mut counter, before)| {
            let after = counter.read().ok()?.value;
            // This second read has passed by the event as well.
            (after - before).checked_sub(1)
        });
        WindowCalls {
            // Binding allocates: a program whose allocator does not count has counted nothing so far.
            allocator: (now > 0).then_some(now - self.allocator),
            kernel,
        }
    }
}

/// A counter of this thread's system calls, where this user may have one.
fn counter() -> Option<Counter> {
    let number = TRACEPOINTS
        .iter()
        .find_map(|path| fs::read_to_string(path).ok())?;
    let event = Event {
        source: TRACEPOINT,
        config: [number.trim().parse().ok()?, 0, 0],
        exclude_kernel: false,
        inherit: false,
    };
    Counter::open(event, Some(0), None).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_system_call_is_counted_and_counting_is_not() {
        // Where nobody may count, nothing is known, which is not zero.
        let is_known = counter().is_some();
        let count = |made: u32| {
            let begun = Calls::of("null").begin();
            for _ in 0..made {
                std::thread::yield_now();
            }
            begun.end().kernel
        };
        assert_eq!(count(0), is_known.then_some(0));
        assert_eq!(count(100), is_known.then_some(100));
    }

    #[test]
    fn system_calls_are_counted_where_the_tool_measures_itself() {
        assert!(Calls::of("onnxruntime").kernel.is_none());
    }

    /// The test program's allocator is the system's own.
    #[test]
    fn an_allocator_that_does_not_count_is_not_one_that_was_not_called() {
        assert_eq!(Calls::of("fake").begin().end().allocator, None);
    }
}
