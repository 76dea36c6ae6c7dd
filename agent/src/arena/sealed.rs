//! Trials taken out of the ring, kept beside the arena on tmpfs until the window is over.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use edgedyno_shared::columns::{Chunk, MAX_ROWS};

use super::layout::Layout;
use crate::disk;

/// tmpfs is memory of the board: beyond this, trials go to the spool's disk.
const TMPFS_LIMIT: u64 = 64 * 1024 * 1024;

/// An append-only file of slots, in the order they were measured, in two parts: tmpfs, then disk.
#[derive(Debug)]
pub struct Sealed {
    near: File,
    near_bytes: u64,
    far_path: PathBuf,
    far: Option<File>,
    far_bytes: u64,
}

impl Sealed {
    /// Opens or makes both parts; `far` is made only when it is needed.
    pub fn open(near: &Path, far: &Path) -> io::Result<Self> {
        let open = |path: &Path, create| {
            OpenOptions::new()
                .read(true)
                .append(true)
                .create(create)
                .mode(0o600)
                .open(path)
        };
        let near = open(near, true)?;
        let far_file = match open(far, false) {
            Ok(file) => Some(file),
            Err(why) if why.kind() == io::ErrorKind::NotFound => None,
            Err(why) => return Err(why),
        };
        let far_bytes = far_file
            .as_ref()
            .map_or(Ok(0), |f| f.metadata().map(|m| m.len()))?;
        let near_bytes = near.metadata()?.len();
        Ok(Self {
            near,
            near_bytes,
            far_path: far.into(),
            far: far_file,
            far_bytes,
        })
    }

    /// Whole slots held; what a crash cut short at the end does not count.
    pub fn slots(&self, columns: usize) -> u64 {
        (self.near_bytes + self.far_bytes) / (columns as u64 * 8)
    }

    /// Bytes that did not fit on tmpfs.
    pub fn spilled(&self) -> u64 {
        self.far_bytes
    }

    /// Cuts off what a crash left of a slot, so that what follows is not shifted.
    pub fn trim(&mut self, columns: usize) -> io::Result<()> {
        let slot = columns as u64 * 8;
        // The far part begins only after a whole slot, so at most the last part is torn.
        match self.far.as_mut() {
            Some(far) => {
                self.far_bytes -= self.far_bytes % slot;
                far.set_len(self.far_bytes)
            }
            None => {
                self.near_bytes -= self.near_bytes % slot;
                self.near.set_len(self.near_bytes)
            }
        }
    }

    pub fn append(&mut self, slots: &[i64]) -> io::Result<()> {
        let bytes: Vec<u8> = slots.iter().flat_map(|cell| cell.to_le_bytes()).collect();
        if self.far.is_none() && self.near_bytes + bytes.len() as u64 <= TMPFS_LIMIT {
            match self.near.write_all(&bytes) {
                Ok(()) => {
                    self.near_bytes += bytes.len() as u64;
                    return Ok(());
                }
                Err(why) => {
                    // Half a slot would shift all that follow.
                    self.near.set_len(self.near_bytes)?;
                    let is_full = matches!(
                        why.kind(),
                        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded
                    );
                    // A full tmpfs: go on on the disk.
                    if !is_full {
                        return Err(why);
                    }
                }
            }
        }
        self.append_far(&bytes)
    }

    fn append_far(&mut self, bytes: &[u8]) -> io::Result<()> {
        if self.far.is_none() {
            let file = OpenOptions::new()
                .read(true)
                .append(true)
                .create(true)
                .mode(0o600)
                .open(&self.far_path)?;
            self.far = Some(file);
        }
        let far = self.far.as_mut().expect("opened above");
        if let Err(why) = far.write_all(bytes) {
            far.set_len(self.far_bytes)?;
            let folder = self.far_path.parent().unwrap_or(Path::new("."));
            return Err(disk::room(folder, Some(bytes.len()))(why));
        }
        self.far_bytes += bytes.len() as u64;
        Ok(())
    }

    /// Hands all slots over as coded chunks, in order; returns how many there were.
    pub fn for_each_chunk(
        &mut self,
        columns: usize,
        mut give: impl FnMut(Chunk) -> io::Result<()>,
    ) -> io::Result<u32> {
        let rows = Layout::new(columns).slots_per_chunk().min(MAX_ROWS);
        self.near.seek(SeekFrom::Start(0))?;
        let mut parts: Box<dyn Read> = match self.far.as_mut() {
            Some(far) => {
                far.seek(SeekFrom::Start(0))?;
                Box::new((&self.near).chain(&*far))
            }
            None => Box::new(&self.near),
        };
        let mut left = (self.near_bytes + self.far_bytes) / (columns as u64 * 8);
        let mut number = 0;
        while left > 0 {
            let take = left.min(rows as u64) as usize;
            let mut bytes = vec![0; take * columns * 8];
            parts.read_exact(&mut bytes)?;
            let slots: Vec<i64> = bytes
                .as_chunks::<8>()
                .0
                .iter()
                .map(|w| i64::from_le_bytes(*w))
                .collect();
            give(Chunk::from_slots(0, number, columns, &slots))?;
            number += 1;
            left -= take as u64;
        }
        Ok(number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_come_back_in_chunks_and_a_torn_end_does_not_shift_them() {
        let folder = tempfile::tempdir().unwrap();
        let (near, far) = (folder.path().join("near"), folder.path().join("far"));
        let mut sealed = Sealed::open(&near, &far).unwrap();
        let columns = 4;
        let slots: Vec<i64> = (0..40_000 * columns as i64).collect();
        sealed.append(&slots[..39_999 * columns]).unwrap();
        sealed.append(&[1, 2]).unwrap();
        drop(sealed);
        let mut sealed = Sealed::open(&near, &far).unwrap();
        assert_eq!(sealed.slots(columns), 39_999);
        sealed.trim(columns).unwrap();
        sealed.append(&slots[39_999 * columns..]).unwrap();
        let mut back = Vec::new();
        let chunks = sealed.for_each_chunk(columns, |chunk| {
            back.extend(chunk.columns().unwrap()[0].clone());
            Ok(())
        });
        assert_eq!(chunks.unwrap(), 3);
        let expected: Vec<i64> = (0..40_000).map(|i| i * 4).collect();
        assert_eq!(back, expected);
    }
}
