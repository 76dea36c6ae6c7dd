//! What the agent itself spends while a worker measures.

use edgedyno_shared::repeat::WindowCalls;
use edgedyno_shared::units::Nanos;

use crate::clock::{self, Clock, Monotonic};

/// What the daemon itself did from the begin of the window to its end.
#[derive(Default)]
pub(super) struct Cost {
    began: Option<(Nanos, Nanos, u64)>,
    pub(super) progress_bytes: u64,
    pub(super) spent: Option<Spent>,
    /// By the worker's own count.
    pub(super) calls: WindowCalls,
}

#[derive(Clone, Copy)]
pub(super) struct Spent {
    pub(super) cpu_time: Nanos,
    pub(super) wall: Nanos,
    pub(super) arena_reads: u64,
    pub(super) progress_bytes: u64,
}

impl Cost {
    pub(super) fn begin(&mut self, reads: u64) {
        self.progress_bytes = 0;
        self.began = Some((clock::process_cpu_time(), Monotonic.now(), reads));
    }

    pub(super) fn end(&mut self, reads: u64) {
        self.spent = self.began.map(|(cpu, wall, before)| Spent {
            cpu_time: clock::process_cpu_time() - cpu,
            wall: Monotonic.now() - wall,
            arena_reads: reads.saturating_sub(before),
            progress_bytes: self.progress_bytes,
        });
    }
}
