//! Which files of a repeat are kept. One that there is no room for is refused before its first byte: without
//! room the log of the repeat could not go on, and what was measured would be lost with it.

use std::collections::BTreeMap;

use edgedyno_shared::artifact::{Artifact, ArtifactPart};

/// Left free where the repeat's log lies, for what is logged after its files.
const MEMORY_RESERVE: u64 = 8 << 20;

/// Left free on the disk, for results.
const DISK_RESERVE: u64 = 64 << 20;

/// Free bytes where the log of a repeat lies, and where the repeat will wait for its host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Room {
    pub memory: u64,
    pub disk: u64,
}

/// Files of one repeat, as its worker gives them.
#[derive(Debug)]
pub(super) struct Artifacts {
    /// What the files of one repeat may take together.
    quota: u64,
    kept: u64,
    /// Bytes still to come, by number; nothing is taken beyond what was announced.
    coming: BTreeMap<u32, u64>,
}

impl Artifacts {
    pub(super) fn new(quota: u64) -> Self {
        Self {
            quota,
            kept: 0,
            coming: BTreeMap::new(),
        }
    }

    /// # Errors
    /// In words, when the file is not kept.
    pub(super) fn announce(&mut self, artifact: &Artifact, room: Room) -> Result<(), String> {
        // What is kept already lies in memory, and has still to find its place on the disk.
        let memory = room.memory.saturating_sub(MEMORY_RESERVE);
        let disk = room.disk.saturating_sub(DISK_RESERVE + self.kept);
        let left = memory.min(disk).min(self.quota.saturating_sub(self.kept));
        if artifact.bytes > left {
            return Err(format!(
                "{} is not kept: it has {} bytes, and there is room for {left} on the board",
                artifact.name, artifact.bytes
            ));
        }
        self.kept += artifact.bytes;
        self.coming.insert(artifact.number, artifact.bytes);
        Ok(())
    }

    /// Whether a part belongs to a file that is kept.
    pub(super) fn takes(&mut self, part: &ArtifactPart) -> bool {
        let bytes = part.bytes.len() as u64;
        match self.coming.get_mut(&part.number) {
            Some(left) if *left >= bytes => {
                *left -= bytes;
                true
            }
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use edgedyno_shared::ids::Sha256;

    use super::*;

    const MIB: u64 = 1 << 20;

    fn file(number: u32, bytes: u64) -> Artifact {
        Artifact {
            number,
            name: format!("{number}.npy"),
            kind: "output_tensor".into(),
            sha256: Sha256([0; 32]),
            bytes,
        }
    }

    fn part(number: u32, bytes: usize) -> ArtifactPart {
        ArtifactPart {
            number,
            bytes: vec![0; bytes],
        }
    }

    #[test]
    fn a_file_without_room_in_memory_or_on_disk_or_in_the_quota_is_refused_before_its_first_byte() {
        let wide = Room {
            memory: 1 << 40,
            disk: 1 << 40,
        };
        let memory = Room {
            memory: 18 * MIB,
            ..wide
        };
        let disk = Room {
            disk: 74 * MIB,
            ..wide
        };
        for (quota, room) in [(10 * MIB, wide), (1 << 40, memory), (1 << 40, disk)] {
            let mut artifacts = Artifacts::new(quota);
            let why = artifacts.announce(&file(0, 10 * MIB + 1), room);
            let why = why.unwrap_err();
            assert!(
                why.contains("10485761 bytes") && why.contains("for 10485760"),
                "{why}"
            );
            assert!(!artifacts.takes(&part(0, 1)));
            assert_eq!(artifacts.announce(&file(1, 10 * MIB), room), Ok(()));
        }
    }

    #[test]
    fn what_is_kept_already_counts_against_quota_and_disk() {
        let room = Room {
            memory: 1 << 40,
            disk: 80 * MIB,
        };
        let mut artifacts = Artifacts::new(1 << 40);
        artifacts.announce(&file(0, 10 * MIB), room).unwrap();
        assert!(artifacts.announce(&file(1, 6 * MIB + 1), room).is_err());
        assert!(artifacts.announce(&file(1, 6 * MIB), room).is_ok());
        let mut artifacts = Artifacts::new(100);
        artifacts.announce(&file(0, 60), room).unwrap();
        assert!(artifacts.announce(&file(1, 41), room).is_err());
        assert!(artifacts.announce(&file(1, 40), room).is_ok());
    }

    #[test]
    fn no_more_is_taken_than_was_announced() {
        let room = Room {
            memory: 1 << 40,
            disk: 1 << 40,
        };
        let mut artifacts = Artifacts::new(1 << 40);
        assert!(!artifacts.takes(&part(0, 1)), "nobody spoke of it");
        artifacts.announce(&file(0, 5), room).unwrap();
        assert!(artifacts.takes(&part(0, 3)));
        assert!(!artifacts.takes(&part(0, 3)));
        assert!(artifacts.takes(&part(0, 2)));
        assert!(!artifacts.takes(&part(0, 1)));
    }
}
