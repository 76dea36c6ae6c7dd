//! Which pages of a file are in the page cache.

use std::fs::File;
use std::io;
use std::num::NonZeroUsize;
use std::ptr::NonNull;

use nix::sys::mman::{MapFlags, ProtFlags, mmap, munmap};

/// Bytes of a file that are cached now, in whole pages (mincore(2)).
///
/// # Errors
///
/// What the kernel says; an empty file has none.
pub fn resident_bytes(file: &File) -> io::Result<u64> {
    let Some(length) = NonZeroUsize::new(usize::try_from(file.metadata()?.len()).unwrap_or(0))
    else {
        return Ok(0);
    };
    let mapping = Mapping::of(file, length)?;
    let page = page_size();
    let mut states = vec![0_u8; length.get().div_ceil(page)];
    let (address, states_at) = (mapping.start.as_ptr(), states.as_mut_ptr());
    // SAFETY: the range is mapped as long as `mapping` lives, and `states` has a byte for each page.
    let result = unsafe { libc::mincore(address, length.get(), states_at) };
    if result != 0 {
        return Err(io::Error::last_os_error());
    }
    let resident = states.iter().filter(|state| **state & 1 != 0).count();
    Ok((resident * page) as u64)
}

/// A mapping that is only asked about, never read.
struct Mapping {
    start: NonNull<libc::c_void>,
    length: NonZeroUsize,
}

impl Mapping {
    fn of(file: &File, length: NonZeroUsize) -> io::Result<Self> {
        // SAFETY: a new mapping at an address of the kernel's choice replaces nothing of ours.
        let start = unsafe {
            mmap(
                None,
                length,
                ProtFlags::PROT_READ,
                MapFlags::MAP_SHARED,
                file,
                0,
            )
        }?;
        Ok(Self { start, length })
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: exactly the range that mmap gave out; nothing refers to it.
        let unmapped = unsafe { munmap(self.start, self.length.get()) };
        debug_assert!(unmapped.is_ok(), "munmap of our own mapping: {unmapped:?}");
    }
}

/// Bytes of a page.
pub fn page_size() -> usize {
    // SAFETY: sysconf reads a constant and touches no memory of ours.
    let bytes = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
    usize::try_from(bytes).unwrap_or(4096)
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    #[test]
    fn a_file_just_written_is_cached() {
        let mut file = tempfile::tempfile().unwrap();
        assert_eq!(resident_bytes(&file).unwrap(), 0);
        file.write_all(&vec![1; 3 * page_size() + 1]).unwrap();
        assert_eq!(resident_bytes(&file).unwrap(), 4 * page_size() as u64);
    }
}
