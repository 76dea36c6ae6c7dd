//! A folder that stays open and is listed again and again without a copy of any name.
//!
//! The threads of a process are looked at beside its window, where nothing of ours may allocate; every
//! listing of the standard library and of nix makes a string of each entry.

use std::ffi::{CStr, CString};
use std::io;
use std::os::fd::BorrowedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::ptr::NonNull;

/// An open folder.
#[derive(Debug)]
pub struct Folder(NonNull<libc::DIR>);

// SAFETY: a DIR may be used by any thread, by one at a time; `Folder` is neither shared nor copied.
unsafe impl Send for Folder {}

impl Folder {
    /// # Errors
    /// When it is not there, no folder, or may not be read.
    pub fn open(path: &Path) -> io::Result<Self> {
        let path = CString::new(path.as_os_str().as_bytes())?;
        // SAFETY: the path is a string that ends with a zero and lives through the call.
        let opened = unsafe { libc::opendir(path.as_ptr()) };
        NonNull::new(opened)
            .map(Self)
            .ok_or_else(io::Error::last_os_error)
    }

    /// Hands out the name of each entry, as the folder is now. Allocates nothing.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn each(&mut self, mut take: impl FnMut(&[u8])) -> io::Result<()> {
        // SAFETY: the DIR is open for as long as `self` lives.
        unsafe { libc::rewinddir(self.0.as_ptr()) };
        loop {
            // Only errno tells an error from the end (readdir(3)).
            nix::errno::Errno::clear();
            // SAFETY: the DIR is open, and `&mut self` keeps others from reading it meanwhile.
            let entry = unsafe { libc::readdir64(self.0.as_ptr()) };
            let Some(entry) = NonNull::new(entry) else {
                return match nix::errno::Errno::last_raw() {
                    0 => Ok(()),
                    code => Err(io::Error::from_raw_os_error(code)),
                };
            };
            // SAFETY: the kernel's entry is valid until the next call of readdir on this DIR. Its name is
            // taken by address: the entry may be shorter than its type.
            let name = unsafe { &raw const (*entry.as_ptr()).d_name };
            // SAFETY: a name ends with a zero, and lives as long as the entry.
            let name = unsafe { CStr::from_ptr(name.cast()) };
            take(name.to_bytes());
        }
    }

    /// How many names it has among folders, as far as its file system counts: two and one for each folder in
    /// it; of `/proc/PID/task` two and one for each thread (`proc_task_getattr` in the kernel's fs/proc/base.c).
    ///
    /// # Errors
    /// What the kernel says.
    pub fn links(&self) -> io::Result<u64> {
        // SAFETY: the DIR is open for as long as `self` lives.
        let number = unsafe { libc::dirfd(self.0.as_ptr()) };
        // SAFETY: the descriptor of an open DIR is open, and it is borrowed for less than `self` lives.
        let place = unsafe { BorrowedFd::borrow_raw(number) };
        let found = nix::sys::stat::fstat(place)?;
        #[expect(
            clippy::useless_conversion,
            reason = "the field's width differs between targets"
        )]
        Ok(u64::from(found.st_nlink))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // SAFETY: it was opened by us and is closed once. Nothing can be done about a failure.
        unsafe { libc::closedir(self.0.as_ptr()) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_of_a_process_are_counted_without_a_list() {
        let folder = Folder::open(Path::new("/proc/self/task")).unwrap();
        let mut listed = Folder::open(Path::new("/proc/self/task")).unwrap();
        // Other tests begin and end threads meanwhile.
        let is_alike = (0..100).any(|_| {
            let mut count = 0;
            listed
                .each(|name| count += u64::from(!name.starts_with(b".")))
                .unwrap();
            folder.links().unwrap() == 2 + count
        });
        assert!(is_alike);
    }

    #[test]
    fn a_folder_is_listed_as_it_is_now() {
        let place = tempfile::tempdir().unwrap();
        let mut folder = Folder::open(place.path()).unwrap();
        let mut names = || {
            let mut found = Vec::new();
            folder.each(|name| found.push(name.to_vec())).unwrap();
            found.retain(|name| !name.starts_with(b"."));
            found.sort();
            found
        };
        assert!(names().is_empty());
        std::fs::write(place.path().join("12"), "").unwrap();
        std::fs::write(place.path().join("a"), "").unwrap();
        assert_eq!(names(), [b"12".to_vec(), b"a".to_vec()]);
        std::fs::remove_file(place.path().join("12")).unwrap();
        assert_eq!(names(), [b"a".to_vec()]);
        assert!(Folder::open(&place.path().join("a")).is_err());
    }
}
