//! A disk that can be full: a small file system in memory, which only root can make.
//!
//! It is mounted where only the thread that made it sees it, and what that thread starts: it is gone with
//! them, also when a test is killed.

use std::cell::Cell;
use std::fs::{self, File};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use nix::sched::{CloneFlags, unshare};

thread_local! {
    /// Whether this thread has mounts of its own.
    static HAS_OWN_MOUNTS: Cell<bool> = const { Cell::new(false) };
}

/// A file system of its own at a folder; it goes when this is dropped. Where none can be made, the folder
/// itself, which is never full.
#[derive(Debug)]
pub struct SmallDisk {
    folder: PathBuf,
    is_mounted: bool,
}

impl SmallDisk {
    /// `size` as tmpfs takes it: `2m`.
    ///
    /// # Panics
    /// When the folder cannot be made.
    pub fn new(folder: &Path, size: &str) -> Self {
        fs::create_dir_all(folder).expect("a folder for a disk");
        let options = format!("size={size},mode=0700");
        let is_root = nix::unistd::geteuid().is_root();
        let is_mounted = is_root && own_mounts() && mount(&options, folder);
        Self {
            folder: folder.to_owned(),
            is_mounted,
        }
    }

    /// Where it is.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Whether it can be full.
    pub fn is_mounted(&self) -> bool {
        self.is_mounted
    }

    /// Leaves no room; false where that cannot be.
    pub fn fill(&self) -> bool {
        if !self.is_mounted {
            return false;
        }
        let Ok(mut ballast) = File::create(self.ballast()) else {
            // Not even for a name: it is full.
            return true;
        };
        for size in [1 << 16, 1 << 12, 1] {
            let piece = vec![0; size];
            while ballast.write_all(&piece).is_ok() {}
        }
        true
    }

    /// Makes room again.
    pub fn empty(&self) {
        let _ = fs::remove_file(self.ballast());
    }

    fn ballast(&self) -> PathBuf {
        self.folder.join("ballast")
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        if self.is_mounted {
            // Lazily: a killed process may hold a file for a moment.
            let _ = quiet(Command::new("umount").arg("-l").arg(&self.folder));
        }
    }
}

/// Gives this thread mounts of its own, which nobody outside sees.
fn own_mounts() -> bool {
    let has = HAS_OWN_MOUNTS.get()
        || unshare(CloneFlags::CLONE_NEWNS).is_ok()
            && quiet(Command::new("mount").args(["--make-rprivate", "/"]));
    HAS_OWN_MOUNTS.set(has);
    has
}

fn mount(options: &str, folder: &Path) -> bool {
    let mut mount = Command::new("mount");
    mount
        .args(["-t", "tmpfs", "-o", options, "none"])
        .arg(folder);
    quiet(&mut mount)
}

fn quiet(command: &mut Command) -> bool {
    let silent = command.stdout(Stdio::null()).stderr(Stdio::null());
    silent.status().is_ok_and(|status| status.success())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_disk_takes_nothing_until_there_is_room() {
        let base = tempfile::tempdir().unwrap();
        let disk = SmallDisk::new(&base.path().join("disk"), "64k");
        let file = disk.folder().join("file");
        if disk.fill() {
            assert!(fs::write(&file, [0; 4096]).is_err());
        } else {
            assert!(!disk.is_mounted());
        }
        disk.empty();
        fs::write(&file, [0; 4096]).unwrap();
        let is_mounted = disk.is_mounted();
        drop(disk);
        assert_eq!(file.exists(), !is_mounted, "it went with its files");
    }

    #[test]
    fn no_other_thread_sees_it_so_that_a_killed_test_leaves_nothing_mounted() {
        let base = tempfile::tempdir().unwrap();
        let sees = || {
            let mounts = fs::read_to_string("/proc/thread-self/mounts").unwrap();
            mounts.contains(base.path().to_str().unwrap())
        };
        std::thread::scope(|scope| {
            let made = scope.spawn(|| {
                let disk = SmallDisk::new(base.path(), "64k");
                let inside = sees();
                // Who was there before, and is not this thread's child.
                (disk.is_mounted(), inside, disk)
            });
            let (is_mounted, inside, disk) = made.join().unwrap();
            assert_eq!(inside, is_mounted);
            assert!(!sees());
            // Its own thread would have taken it away.
            std::mem::forget(disk);
        });
    }
}
