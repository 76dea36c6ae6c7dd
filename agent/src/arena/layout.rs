//! Where things lie in an arena: one page of header, then sixteen chunks of slots.
//!
//! Header words (8 bytes each): 8 published, 16 consumed, 24 stalls; each on its own cache line. A slot
//! is one i64 for each column. Slots do not cross chunks.

/// Bytes of one chunk of slots.
pub const CHUNK_BYTES: usize = 512 * 1024;

/// Chunks of the ring.
pub const CHUNKS: usize = 16;

const HEADER_BYTES: usize = 4096;

/// Bytes of the file, whatever the schema.
pub const FILE_BYTES: usize = HEADER_BYTES + CHUNKS * CHUNK_BYTES;

/// Word of the number of slots published since the start; written by the worker.
pub const PUBLISHED: usize = 8;
/// Word of the number of slots the agent has taken; written by the agent.
pub const CONSUMED: usize = 16;
/// Word that counts how often the worker waited for the agent.
pub const STALLS: usize = 24;

/// The arithmetic of slots for a number of columns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Layout {
    columns: usize,
}

impl Layout {
    /// # Panics
    /// When a slot does not fit a chunk, which a checked schema rules out.
    pub fn new(columns: usize) -> Self {
        assert!(
            (1..=CHUNK_BYTES / 8).contains(&columns),
            "columns of a checked schema"
        );
        Self { columns }
    }

    pub fn columns(self) -> usize {
        self.columns
    }

    pub fn slots_per_chunk(self) -> usize {
        CHUNK_BYTES / 8 / self.columns
    }

    pub fn ring_slots(self) -> u64 {
        (self.slots_per_chunk() * CHUNKS) as u64
    }

    /// First word of a slot, counted from the start of the file.
    pub fn word_of(self, slot: u64) -> usize {
        let in_ring = (slot % self.ring_slots()) as usize;
        let chunk = in_ring / self.slots_per_chunk();
        let in_chunk = in_ring % self.slots_per_chunk();
        (HEADER_BYTES + chunk * CHUNK_BYTES) / 8 + in_chunk * self.columns
    }

    /// Slots from `slot` on that lie behind each other in the file.
    pub fn contiguous(self, slot: u64) -> u64 {
        let per_chunk = self.slots_per_chunk() as u64;
        per_chunk - (slot % self.ring_slots()) % per_chunk
    }
}

#[cfg(test)]
mod tests {
    use edgedyno_shared::columns::MAX_COLUMNS;
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn slots_stay_inside_the_file_and_apart(columns in 1..=MAX_COLUMNS, slot in 0_u64..1 << 40) {
            let layout = Layout::new(columns);
            let (first, next) = (layout.word_of(slot), layout.word_of(slot + 1));
            prop_assert!(first * 8 >= HEADER_BYTES && (first + columns) * 8 <= FILE_BYTES);
            prop_assert!(next >= first + columns || next < first);
            if layout.contiguous(slot) > 1 {
                prop_assert_eq!(next, first + columns);
            }
        }
    }

    #[test]
    fn the_widest_schema_still_has_sixteen_slots_a_chunk() {
        assert_eq!(Layout::new(MAX_COLUMNS).slots_per_chunk(), 16);
        assert_eq!(Layout::new(8).slots_per_chunk(), 8192);
    }
}
