//! A file mapped into memory that another process reads at the same time.
//!
//! The worker maps the arena and writes trials through [`SharedWords`]; the agent never maps it and
//! reads the same file with pread. All access is atomic, so that whatever the other side does to the
//! file is a wrong value here and never undefined behaviour.

use std::io;
use std::num::NonZeroUsize;
use std::ops::Deref;
use std::os::fd::{AsFd, BorrowedFd};
use std::ptr::NonNull;
use std::slice;
use std::sync::atomic::{AtomicI64, Ordering};

use nix::fcntl::{FallocateFlags, fallocate};
use nix::sys::mman::{MapFlags, ProtFlags, mmap, munmap};
use nix::sys::stat::fstat;

use super::pages::page_size;

const WORD: usize = size_of::<AtomicI64>();

/// Words of 64 bits in a file, shared with every other process that has it open.
///
/// If the file is made shorter while it is mapped, the kernel ends the process with SIGBUS at the
/// next access. The agent makes the file with [`reserve`] and never shortens it.
#[derive(Debug)]
pub struct SharedWords {
    start: NonNull<AtomicI64>,
    words: usize,
    mapped_bytes: usize,
}

impl SharedWords {
    /// Maps the first `bytes` bytes of a file for reading and writing.
    ///
    /// # Errors
    ///
    /// When `bytes` is no positive multiple of eight, when the file is shorter than that (touching the
    /// part beyond its end would be a signal), or when the kernel refuses.
    pub fn map(file: BorrowedFd<'_>, bytes: usize) -> io::Result<Self> {
        let length = checked_length(file, bytes)?;
        let access = ProtFlags::PROT_READ | ProtFlags::PROT_WRITE;
        // SAFETY: a new mapping at an address of the kernel's choice replaces nothing of ours.
        let address = unsafe { mmap(None, length, access, MapFlags::MAP_SHARED, file, 0) }?;
        Ok(Self {
            start: address.cast(),
            words: bytes / WORD,
            mapped_bytes: bytes,
        })
    }

    /// Reads one word.
    ///
    /// # Panics
    ///
    /// When `index` is outside the mapping.
    #[inline]
    pub fn load(&self, index: usize, order: Ordering) -> i64 {
        self[index].load(order)
    }

    /// Writes one word.
    ///
    /// # Panics
    ///
    /// When `index` is outside the mapping.
    #[inline]
    pub fn store(&self, index: usize, value: i64, order: Ordering) {
        self[index].store(value, order);
    }

    /// Brings every page into memory, writable, without changing what is in it.
    ///
    /// A first write to a page costs a fault of some microseconds: it is paid here, before the first
    /// trial. A plain read would not do, since a shared page is mapped read-only until it is written.
    pub fn touch(&self) {
        for first_word in self.iter().step_by(page_size() / WORD) {
            // An exchange of equal values that the compiler cannot see are equal: an addition of zero
            // would be made into a read, or into nothing.
            let held = first_word.load(Ordering::Relaxed);
            let same = std::hint::black_box(held);
            let kept =
                first_word.compare_exchange(held, same, Ordering::Relaxed, Ordering::Relaxed);
            // Another process may have written meanwhile, which touched the page as well.
            std::hint::black_box(kept.is_ok());
        }
    }
}

impl Deref for SharedWords {
    type Target = [AtomicI64];

    #[inline]
    fn deref(&self) -> &[AtomicI64] {
        // SAFETY: the mapping starts on a page boundary, is `words` words long, lives as long as
        // `self`, and any bit pattern is a valid i64; other processes' writes meet only atomic reads.
        unsafe { slice::from_raw_parts(self.start.as_ptr(), self.words) }
    }
}

impl Drop for SharedWords {
    fn drop(&mut self) {
        // SAFETY: exactly the range that mmap gave out; no reference to it outlives `self`.
        let unmapped = unsafe { munmap(self.start.cast(), self.mapped_bytes) };
        debug_assert!(unmapped.is_ok(), "munmap of our own mapping: {unmapped:?}");
    }
}

// SAFETY: the mapping belongs to the process, not to a thread.
unsafe impl Send for SharedWords {}

// SAFETY: shared references give out atomics only.
unsafe impl Sync for SharedWords {}

/// Makes a file `bytes` long with all its blocks in place.
///
/// A file that is only made longer gets its memory at the first write, and on a full tmpfs that write
/// is a SIGBUS in the middle of a measurement. Here it is an error before anything starts.
///
/// # Errors
///
/// `ENOSPC` on a full file system, `EOPNOTSUPP` on one that cannot reserve, or what else the kernel says.
pub fn reserve(file: impl AsFd, bytes: u64) -> io::Result<()> {
    let length = libc::off_t::try_from(bytes)
        .map_err(|_| invalid("length is beyond what a file can have"))?;
    Ok(fallocate(file, FallocateFlags::empty(), 0, length)?)
}

fn checked_length(file: BorrowedFd<'_>, bytes: usize) -> io::Result<NonZeroUsize> {
    let length = NonZeroUsize::new(bytes)
        .filter(|length| length.get() % WORD == 0)
        .ok_or_else(|| invalid("length is not a positive multiple of eight"))?;
    let file_bytes = u64::try_from(fstat(file)?.st_size).unwrap_or(0);
    if file_bytes < bytes as u64 {
        return Err(invalid("file is shorter than the mapping asked for"));
    }
    Ok(length)
}

fn invalid(reason: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, reason)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::fd::AsFd;

    use super::*;

    #[test]
    fn touching_brings_every_page_in_and_changes_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("words");
        let file = fs::File::options()
            .read(true)
            .write(true)
            .create_new(true)
            .open(&path)
            .unwrap();
        let bytes = 64 * page_size();
        reserve(&file, bytes as u64).unwrap();
        let words = SharedWords::map(file.as_fd(), bytes).unwrap();
        words.store(3, 7, Ordering::Relaxed);
        words.touch();
        assert_eq!(
            resident_kibibytes(&path.to_string_lossy()),
            bytes as u64 / 1024
        );
        assert_eq!(
            (
                words.load(3, Ordering::Relaxed),
                words.load(4, Ordering::Relaxed)
            ),
            (7, 0)
        );
    }

    /// `Rss` of the mapping of that file (proc_pid_smaps(5)).
    fn resident_kibibytes(path: &str) -> u64 {
        let smaps = fs::read_to_string("/proc/self/smaps").unwrap();
        let mapping = smaps.lines().skip_while(|line| !line.ends_with(path));
        let line = mapping
            .into_iter()
            .find_map(|line| line.strip_prefix("Rss:"))
            .unwrap();
        line.trim().trim_end_matches(" kB").parse().unwrap()
    }
}
