//! The daemon's side of the arena: reads by pread, and believes nothing.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;
use std::sync::atomic::{Ordering, fence};

use edgedyno_shared::columns::{END, ROLE, Role, START, STATUS, Status};
use edgedyno_sys::kernel::mapping::reserve;

use super::layout::{CONSUMED, FILE_BYTES, Layout, PUBLISHED, STALLS};

/// Makes an arena file with all its blocks in place.
///
/// # Errors
/// `ENOSPC` on a full tmpfs, which would be a signal in the worker later.
pub fn create(path: &Path) -> io::Result<File> {
    let file = OpenOptions::new()
        .read(true)
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(path)?;
    reserve(&file, FILE_BYTES as u64)?;
    Ok(file)
}

/// Takes published slots out of an arena.
#[derive(Debug)]
pub struct ArenaReader {
    file: File,
    layout: Layout,
    /// Slots that the worker may use again.
    consumed: u64,
    /// Slots read, and not yet known to be safe elsewhere beyond `consumed`.
    taken: u64,
    reads: u64,
}

/// What the worker's counter says cannot be.
#[derive(Debug, thiserror::Error)]
pub enum ArenaError {
    #[error("arena cannot be read: {0}")]
    Io(#[from] io::Error),
    #[error("arena says {published} slots after {consumed} of {ring} were taken")]
    Counter {
        published: u64,
        consumed: u64,
        ring: u64,
    },
}

impl ArenaReader {
    /// `consumed`: slots that were taken before, after a restart.
    pub fn new(file: File, columns: usize, consumed: u64) -> Self {
        Self {
            file,
            layout: Layout::new(columns),
            consumed,
            taken: consumed,
            reads: 0,
        }
    }

    pub fn layout(&self) -> Layout {
        self.layout
    }

    pub fn consumed(&self) -> u64 {
        self.consumed
    }

    /// Times the arena was looked at.
    pub fn reads(&self) -> u64 {
        self.reads
    }

    /// Appends all slots published since the last release to `out`, checked. They stay in the ring, and
    /// are taken again, until [`Self::release`]: what could not be put away is not lost.
    pub fn take(&mut self, out: &mut Vec<i64>) -> Result<u64, ArenaError> {
        self.reads += 1;
        let published = self.published()?;
        let (consumed, ring) = (self.consumed, self.layout.ring_slots());
        if published < consumed || published - consumed > ring {
            return Err(ArenaError::Counter {
                published,
                consumed,
                ring,
            });
        }
        let from = out.len();
        let mut slot = consumed;
        while slot < published {
            let run = self.layout.contiguous(slot).min(published - slot);
            self.read_words(
                self.layout.word_of(slot),
                run as usize * self.layout.columns(),
                out,
            )?;
            slot += run;
        }
        for slot in out[from..].chunks_exact_mut(self.layout.columns()) {
            check_slot(slot);
        }
        self.taken = published;
        Ok(published - consumed)
    }

    /// Lets the worker reuse what was taken, once it is safe elsewhere.
    pub fn release(&mut self) -> io::Result<()> {
        // The slots are read before the worker sees that it may use them again.
        fence(Ordering::Release);
        self.consumed = self.taken;
        self.file
            .write_all_at(&self.consumed.to_le_bytes(), CONSUMED as u64 * 8)
    }

    /// Times the worker waited for room.
    pub fn stalls(&self) -> io::Result<u64> {
        self.word(STALLS).map(|n| n as u64)
    }

    /// The counter: read twice, and the earlier value taken when the two can follow each other. A fast
    /// worker moves on between two reads, so waiting for equal ones could take for ever.
    fn published(&self) -> io::Result<u64> {
        let mut first = self.word(PUBLISHED)? as u64;
        for _ in 0..3 {
            let second = self.word(PUBLISHED)? as u64;
            if second
                .checked_sub(first)
                .is_some_and(|more| more <= self.layout.ring_slots())
            {
                break;
            }
            first = second;
        }
        fence(Ordering::Acquire);
        Ok(first)
    }

    fn word(&self, index: usize) -> io::Result<i64> {
        let mut bytes = [0; 8];
        self.file.read_exact_at(&mut bytes, index as u64 * 8)?;
        Ok(i64::from_le_bytes(bytes))
    }

    fn read_words(&self, first: usize, count: usize, out: &mut Vec<i64>) -> io::Result<()> {
        let mut bytes = vec![0; count * 8];
        self.file.read_exact_at(&mut bytes, first as u64 * 8)?;
        out.extend(
            bytes
                .as_chunks::<8>()
                .0
                .iter()
                .map(|word| i64::from_le_bytes(*word)),
        );
        Ok(())
    }
}

/// Marks a slot that makes no sense; what is kept of it is what the worker wrote.
fn check_slot(slot: &mut [i64]) {
    let sound = Role::from_code(slot[ROLE]).is_some()
        && slot[START] >= 0
        && slot[END] >= slot[START]
        && (slot[STATUS] == Status::Ok.code() || slot[STATUS] == Status::Error.code());
    if !sound {
        slot[STATUS] = Status::Corrupt.code();
    }
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd;

    use edgedyno_shared::units::Nanos;
    use proptest::prelude::*;

    use super::super::ArenaWriter;
    use super::*;

    fn arena() -> (tempfile::TempDir, File) {
        let folder = tempfile::tempdir().unwrap();
        let file = create(&folder.path().join("arena")).unwrap();
        (folder, file)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(24))]
        #[test]
        fn every_published_trial_is_read_once_in_order(
            extra in 0_usize..6,
            bursts in proptest::collection::vec(0_usize..9000, 1..8),
        ) {
            let (_folder, file) = arena();
            let mut writer = ArenaWriter::open(file.as_fd(), 4 + extra).unwrap();
            let mut reader = ArenaReader::new(file, 4 + extra, 0);
            let (mut out, mut written) = (Vec::new(), 0_i64);
            for burst in bursts {
                for _ in 0..burst {
                    writer.reserve();
                    let cells = vec![written; extra];
                    writer.publish(Role::Measure, Nanos(written), Nanos(written + 1), 0, &cells);
                    written += 1;
                }
                reader.take(&mut out).unwrap();
                reader.release().unwrap();
            }
            prop_assert_eq!(out.len(), written as usize * (4 + extra));
            for (i, slot) in out.chunks_exact(4 + extra).enumerate() {
                let i = i as i64;
                prop_assert_eq!(&slot[..4], &[3, i, i + 1, 0][..]);
                prop_assert!(slot[4..].iter().all(|cell| *cell == i));
            }
        }

        #[test]
        fn a_hostile_counter_is_refused(published: u64) {
            let (_folder, file) = arena();
            file.write_all_at(&published.to_le_bytes(), PUBLISHED as u64 * 8).unwrap();
            let mut reader = ArenaReader::new(file, 4, 7);
            let taken = reader.take(&mut Vec::new());
            let fits = (7..=7 + Layout::new(4).ring_slots()).contains(&published);
            prop_assert_eq!(taken.is_ok(), fits);
        }
    }

    #[test]
    fn what_was_not_released_is_taken_again() {
        let (_folder, file) = arena();
        let mut writer = ArenaWriter::open(file.as_fd(), 4).unwrap();
        let mut reader = ArenaReader::new(file, 4, 0);
        let mut publish = |at: i64| {
            writer.reserve();
            writer.publish(Role::Measure, Nanos(at), Nanos(at), 0, &[]);
        };
        publish(1);
        // As when the sealed file has no room.
        assert_eq!(reader.take(&mut Vec::new()).unwrap(), 1);
        publish(2);
        let mut out = Vec::new();
        assert_eq!(reader.take(&mut out).unwrap(), 2);
        reader.release().unwrap();
        publish(3);
        assert_eq!(reader.take(&mut out).unwrap(), 1);
        let starts: Vec<i64> = out.chunks_exact(4).map(|slot| slot[1]).collect();
        assert_eq!(starts, [1, 2, 3]);
    }

    #[test]
    fn slots_without_sense_are_marked_corrupt() {
        for slot in [[9, 1, 2, 0], [3, 2, 1, 0], [3, -1, 1, 0], [3, 1, 2, 7]] {
            let mut checked = slot;
            check_slot(&mut checked);
            assert_eq!(checked[STATUS], Status::Corrupt.code(), "{slot:?}");
        }
        let mut sound = [3, 1, 1, 1];
        check_slot(&mut sound);
        assert_eq!(sound, [3, 1, 1, 1]);
    }

    #[test]
    fn a_full_ring_makes_the_writer_wait_and_counts_it() {
        let (_folder, file) = arena();
        let columns = 4096;
        let mut writer = ArenaWriter::open(file.as_fd(), columns).unwrap();
        let mut reader = ArenaReader::new(file, columns, 0);
        let extra = vec![0; columns - 4];
        let ring = reader.layout().ring_slots();
        for _ in 0..ring {
            writer.reserve();
            writer.publish(Role::Measure, Nanos(1), Nanos(2), 0, &extra);
        }
        let waiting = std::thread::spawn(move || {
            writer.reserve();
            writer.publish(Role::Measure, Nanos(1), Nanos(2), 0, &extra);
        });
        while reader.stalls().unwrap() == 0 {
            std::thread::yield_now();
        }
        let mut out = Vec::new();
        assert_eq!(reader.take(&mut out).unwrap(), ring);
        reader.release().unwrap();
        waiting.join().unwrap();
        assert_eq!(reader.take(&mut out).unwrap(), 1);
    }
}
