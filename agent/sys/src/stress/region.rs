//! Memory of its own for a kernel: in large pages where the kernel gives them, touched before use.

use std::fs;
use std::io;
use std::num::NonZeroUsize;
use std::ptr::NonNull;
use std::slice;

use nix::sys::mman::{MapFlags, MmapAdvise, ProtFlags, madvise, mmap_anonymous, munmap};

/// What a large page measures on the machines we know; also the alignment of a region.
pub const HUGE_PAGE: usize = 2 << 20;

/// Zeroed, writable memory that nothing else has, aligned to [`HUGE_PAGE`].
#[derive(Debug)]
pub struct Region {
    /// What was mapped, which is larger, so that an aligned part lies within.
    mapped: NonNull<u8>,
    mapped_bytes: usize,
    start: NonNull<u8>,
    bytes: usize,
}

impl Region {
    /// Maps memory, asks for large pages, and writes to every page.
    ///
    /// `bytes` is rounded up to whole large pages.
    ///
    /// # Errors
    /// When there is not so much address space or memory.
    pub fn new(bytes: usize) -> io::Result<Self> {
        let too_much = || io::Error::from(io::ErrorKind::OutOfMemory);
        let bytes = bytes
            .max(1)
            .checked_next_multiple_of(HUGE_PAGE)
            .ok_or_else(too_much)?;
        let mapped_bytes = bytes.checked_add(HUGE_PAGE).ok_or_else(too_much)?;
        let length = NonZeroUsize::new(mapped_bytes).ok_or_else(too_much)?;
        let access = ProtFlags::PROT_READ | ProtFlags::PROT_WRITE;
        // SAFETY: a new mapping at an address of the kernel's choice replaces nothing of ours.
        let address = unsafe { mmap_anonymous(None, length, access, MapFlags::MAP_PRIVATE) }?;
        let mapped: NonNull<u8> = address.cast();
        let past = mapped.as_ptr().align_offset(HUGE_PAGE);
        let start = mapped.map_addr(|at| at.saturating_add(past));
        let mut region = Self {
            mapped,
            mapped_bytes,
            start,
            bytes,
        };
        // A kernel without large pages says so here; what was given is read back in any case.
        // SAFETY: the range lies within our mapping, and the advice changes no content.
        let _ = unsafe { madvise(start.cast(), bytes, MmapAdvise::MADV_HUGEPAGE) };
        region.touch();
        Ok(region)
    }

    /// Its words, of 64 bits each.
    pub fn words(&self) -> &[u64] {
        // SAFETY: mapped and initialised by the kernel with zeros, aligned, and lives as long as `self`.
        unsafe { slice::from_raw_parts(self.start.cast().as_ptr(), self.bytes / 8) }
    }

    /// Its words, to be written.
    pub fn words_mut(&mut self) -> &mut [u64] {
        // SAFETY: as above, and `self` is borrowed for as long as the slice.
        unsafe { slice::from_raw_parts_mut(self.start.cast().as_ptr(), self.bytes / 8) }
    }

    /// Its bytes, to be written to a file.
    pub fn as_bytes(&self) -> &[u8] {
        // SAFETY: as in `words`; every bit pattern is a valid byte.
        unsafe { slice::from_raw_parts(self.start.as_ptr(), self.bytes) }
    }

    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Bytes of it that lie in large pages (proc_pid_smaps(5), `AnonHugePages`); none where the kernel
    /// does not say.
    pub fn huge_bytes(&self) -> Option<u64> {
        let smaps = fs::read_to_string("/proc/self/smaps").ok()?;
        let (from, to) = (
            self.start.addr().get(),
            self.start.addr().get() + self.bytes,
        );
        let mut inside = false;
        let mut kibibytes = None;
        for line in smaps.lines() {
            if let Some((first, last)) = addresses(line) {
                // The kernel may join neighbouring mappings of ours, or split one by its advice.
                inside = first < to && last > from;
            } else if let Some(size) = line.strip_prefix("AnonHugePages:").filter(|_| inside) {
                let size: u64 = size.trim().trim_end_matches("kB").trim().parse().ok()?;
                kibibytes = Some(kibibytes.unwrap_or(0) + size);
            }
        }
        let bytes = kibibytes? * 1024;
        Some(bytes.min(self.bytes as u64))
    }

    fn touch(&mut self) {
        for word in self.words_mut().iter_mut().step_by(4096 / 8) {
            *word = std::hint::black_box(0);
        }
    }
}

/// First and last address of a mapping's first line in `smaps`.
fn addresses(line: &str) -> Option<(usize, usize)> {
    let (first, rest) = line.split_once('-')?;
    let (last, _) = rest.split_once(' ')?;
    let address = |text| usize::from_str_radix(text, 16).ok();
    Some((address(first)?, address(last)?))
}

impl Drop for Region {
    fn drop(&mut self) {
        // SAFETY: exactly the range that mmap gave out; no reference to it outlives `self`.
        let unmapped = unsafe { munmap(self.mapped.cast(), self.mapped_bytes) };
        debug_assert!(unmapped.is_ok(), "munmap of our own mapping: {unmapped:?}");
    }
}

// SAFETY: the memory belongs to the process, not to a thread, and is reached through `self` only.
unsafe impl Send for Region {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_region_is_aligned_zeroed_and_whole_pages() {
        let region = Region::new(HUGE_PAGE + 1).unwrap();
        assert_eq!(region.bytes(), 2 * HUGE_PAGE);
        assert_eq!(region.as_bytes().as_ptr() as usize % HUGE_PAGE, 0);
        assert!(region.words().iter().all(|word| *word == 0));
        assert!(region.huge_bytes().is_some_and(|huge| huge <= 4 << 20));
        assert!(Region::new(usize::MAX - 5).is_err());
    }
}
