//! The worker's side of the arena: slots, published one by one.

use std::io;
use std::os::fd::BorrowedFd;
use std::sync::atomic::Ordering;

use edgedyno_shared::columns::{FIXED_COLUMNS, Role};
use edgedyno_shared::units::Nanos;
use edgedyno_sys::kernel::mapping::SharedWords;

use super::layout::{CONSUMED, FILE_BYTES, Layout, PUBLISHED, STALLS};

/// Writes trials. Makes no system call and allocates nothing after it was opened.
#[derive(Debug)]
pub struct ArenaWriter {
    words: SharedWords,
    layout: Layout,
    published: u64,
    /// What the agent had taken when we last looked; looked up again only when the ring seems full.
    consumed: u64,
    stalls: u64,
}

impl ArenaWriter {
    /// Maps the arena and brings all its pages in.
    pub fn open(file: BorrowedFd<'_>, columns: usize) -> io::Result<Self> {
        let words = SharedWords::map(file, FILE_BYTES)?;
        words.touch();
        Ok(Self {
            words,
            layout: Layout::new(columns),
            published: 0,
            consumed: 0,
            stalls: 0,
        })
    }

    /// Trials published so far.
    pub fn published(&self) -> u64 {
        self.published
    }

    /// Waits, between two trials, until the next slot is free.
    #[inline]
    pub fn reserve(&mut self) {
        if self.published - self.consumed >= self.layout.ring_slots() {
            self.wait_for_room();
        }
    }

    #[cold]
    fn wait_for_room(&mut self) {
        self.consumed = self.words.load(CONSUMED, Ordering::Acquire) as u64;
        if self.published - self.consumed < self.layout.ring_slots() {
            return;
        }
        self.stalls += 1;
        self.words
            .store(STALLS, self.stalls as i64, Ordering::Relaxed);
        while self.published - self.consumed >= self.layout.ring_slots() {
            std::hint::spin_loop();
            self.consumed = self.words.load(CONSUMED, Ordering::Acquire) as u64;
        }
    }

    /// Fills the reserved slot and makes it visible.
    #[inline]
    pub fn publish(&mut self, role: Role, start: Nanos, end: Nanos, status: i64, extra: &[i64]) {
        let first = self.layout.word_of(self.published);
        let slot = &self.words[first..first + self.layout.columns()];
        let fixed = [role.code(), start.0, end.0, status];
        for (word, value) in slot.iter().zip(fixed.iter().chain(extra)) {
            word.store(*value, Ordering::Relaxed);
        }
        debug_assert_eq!(slot.len(), FIXED_COLUMNS.len() + extra.len());
        self.published += 1;
        // The agent's acquire fence after reading this counter pairs with this release.
        self.words
            .store(PUBLISHED, self.published as i64, Ordering::Release);
    }
}
