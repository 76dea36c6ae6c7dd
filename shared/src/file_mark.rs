//! What tells a file from another, or from what it was before, without reading it.

use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;

use serde::{Deserialize, Serialize};

/// Device, inode, length and time of change of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct FileMark {
    pub device: u64,
    pub inode: u64,
    pub bytes: u64,
    /// The later of the change of its contents, which a program may set back, and that of its inode,
    /// which none may; in nanoseconds since 1970.
    pub changed_ns: i64,
}

impl FileMark {
    pub fn of(found: &Metadata) -> Self {
        let ns =
            |seconds: i64, rest: i64| seconds.saturating_mul(1_000_000_000).saturating_add(rest);
        let contents = ns(found.mtime(), found.mtime_nsec());
        let inode = ns(found.ctime(), found.ctime_nsec());
        Self {
            device: found.dev(),
            inode: found.ino(),
            bytes: found.len(),
            changed_ns: contents.max(inode),
        }
    }

    /// Whether it is the file of another mark, which may have been written since.
    pub fn is_same_file(self, other: Self) -> bool {
        (self.device, self.inode) == (other.device, other.inode)
    }
}
