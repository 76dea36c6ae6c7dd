//! Where a stressor's threads write what they have done, and the daemon reads it: a file in memory, one
//! row of eight words for each thread.
//!
//! A row is written between two increments of its first word and read by pread until that word is even
//! and the same twice, as the arena is; the daemon never maps it and takes nothing in it for granted.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::fence;

use edgedyno_shared::units::Nanos;
use edgedyno_sys::kernel::mapping::{SharedWords, reserve};
use nix::sys::memfd::{MFdFlags, memfd_create};

const ROW: usize = 8;
const SEQUENCE: usize = 0;
const AT: usize = 1;
const WORK: usize = 2;
const CPU_TIME: usize = 3;
const TID: usize = 4;
const WORKED: usize = 5;

/// In the place of a time that nobody took.
const NONE: i64 = -1;

/// Reads of a row that is being written before it is given up.
const TRIES: usize = 100;

/// What a thread has done since it started.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Count {
    /// When it was written, by the monotonic clock.
    pub at: Nanos,
    pub work: u64,
    pub cpu_time: Nanos,
    /// CPU time of its turns of work, where it works a share of the time.
    pub worked: Option<Nanos>,
    pub tid: u32,
}

/// An empty board.
///
/// # Errors
/// When the kernel has no memory for it.
pub fn create(threads: usize) -> io::Result<File> {
    let file: OwnedFd = memfd_create("edgedyno-stress", MFdFlags::MFD_CLOEXEC)?;
    reserve(&file, bytes(threads) as u64)?;
    Ok(File::from(file))
}

fn bytes(threads: usize) -> usize {
    threads.max(1) * ROW * 8
}

/// The stressor's side.
#[derive(Debug)]
pub struct Writer {
    words: SharedWords,
}

impl Writer {
    /// # Errors
    /// When the file is not a board for so many threads.
    pub fn open(file: &File, threads: usize) -> io::Result<Self> {
        let words = SharedWords::map(file.as_fd(), bytes(threads))?;
        words.touch();
        Ok(Self { words })
    }

    /// Writes the row of one thread; each row has one writer.
    pub fn publish(&self, thread: usize, count: &Count) {
        let row = &self.words[thread * ROW..(thread + 1) * ROW];
        let sequence = row[SEQUENCE].load(Relaxed);
        row[SEQUENCE].store(sequence.wrapping_add(1), Relaxed);
        fence(Release);
        row[AT].store(count.at.0, Relaxed);
        row[WORK].store(count.work as i64, Relaxed);
        row[CPU_TIME].store(count.cpu_time.0, Relaxed);
        row[TID].store(i64::from(count.tid), Relaxed);
        row[WORKED].store(count.worked.map_or(NONE, |worked| worked.0), Relaxed);
        row[SEQUENCE].store(sequence.wrapping_add(2), Release);
    }
}

/// Reads the row of one thread; none when it was never written, or makes no sense.
pub fn read(file: &File, thread: usize) -> Option<Count> {
    let offset = (thread * ROW * 8) as u64;
    for _ in 0..TRIES {
        let first = words(file, offset)?;
        fence(Acquire);
        let again = words(file, offset)?;
        if first == again && first[SEQUENCE] % 2 == 0 {
            return Some(Count {
                at: Nanos(first[AT]),
                work: u64::try_from(first[WORK]).ok()?,
                cpu_time: Nanos(first[CPU_TIME]),
                worked: Some(Nanos(first[WORKED])).filter(|worked| worked.0 >= 0),
                tid: u32::try_from(first[TID]).ok()?,
            })
            .filter(|_| first[SEQUENCE] > 0);
        }
    }
    None
}

fn words(file: &File, offset: u64) -> Option<[i64; ROW]> {
    let mut bytes = [0; ROW * 8];
    file.read_exact_at(&mut bytes, offset).ok()?;
    let mut words = [0; ROW];
    for (word, bytes) in words.iter_mut().zip(bytes.chunks_exact(8)) {
        *word = i64::from_ne_bytes(bytes.try_into().ok()?);
    }
    Some(words)
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicBool;

    use super::*;

    fn count(n: i64) -> Count {
        Count {
            at: Nanos(n),
            work: n as u64 * 3,
            cpu_time: Nanos(n * 5),
            worked: Some(Nanos(n * 2)),
            tid: 7,
        }
    }

    #[test]
    fn rows_are_read_as_they_were_written_and_an_unwritten_one_is_none() {
        let file = create(3).unwrap();
        let writer = Writer::open(&file, 3).unwrap();
        writer.publish(1, &count(4));
        writer.publish(1, &count(9));
        assert_eq!(read(&file, 1), Some(count(9)));
        let without = Count {
            worked: None,
            ..count(9)
        };
        writer.publish(1, &without);
        assert_eq!(read(&file, 1), Some(without), "unknown is not zero");
        assert_eq!(
            (read(&file, 0), read(&file, 2), read(&file, 3)),
            (None, None, None)
        );
    }

    #[test]
    fn a_row_is_never_half_of_two() {
        let file = create(1).unwrap();
        let writer = Writer::open(&file, 1).unwrap();
        let stop = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let mut n = 0;
                while !stop.load(Relaxed) {
                    n += 1;
                    writer.publish(0, &count(n));
                }
            });
            let mut last = 0;
            for _ in 0..2_000 {
                // A row that is always being written may be missed, but never mixed.
                let Some(found) = read(&file, 0) else {
                    continue;
                };
                assert_eq!(found, count(found.at.0));
                assert!(found.at.0 >= last);
                last = found.at.0;
            }
            stop.store(true, Relaxed);
        });
    }

    #[test]
    fn nonsense_is_none() {
        let file = create(1).unwrap();
        let mut row = [0_u8; 64];
        row[..8].copy_from_slice(&2_i64.to_ne_bytes());
        row[16..24].copy_from_slice(&(-1_i64).to_ne_bytes());
        file.write_all_at(&row, 0).unwrap();
        assert_eq!(read(&file, 0), None);
    }
}
