//! Trials as columns: the schema a worker declares, the chunks it fills, and their one codec.
//!
//! A trial is one i64 for each column. Chunks hold whole trials, column after column, and keep the
//! same bytes in the spool, on the wire and in the store.

use serde::{Deserialize, Serialize};

/// The value of a cell that was not measured.
pub const NULL: i64 = i64::MIN;

/// A schema of more columns is refused.
pub const MAX_COLUMNS: usize = 4096;

/// Trials of one chunk at most: what 512 KiB hold of the narrowest schema.
pub const MAX_ROWS: usize = 512 * 1024 / 8 / FIXED_COLUMNS.len();

/// The columns every schema begins with, in this order.
pub const FIXED_COLUMNS: [(&str, &str); 4] = [
    ("role", "code"),
    ("start_ns", "ns"),
    ("end_ns", "ns"),
    ("status", "code"),
];

/// Positions of the fixed columns.
pub const ROLE: usize = 0;
pub const START: usize = 1;
pub const END: usize = 2;
pub const STATUS: usize = 3;

/// What a trial is for; the code is what the column holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Role {
    Cold,
    Rehearsal,
    Warmup,
    Measure,
}

impl Role {
    pub const fn code(self) -> i64 {
        match self {
            Self::Cold => 0,
            Self::Rehearsal => 1,
            Self::Warmup => 2,
            Self::Measure => 3,
        }
    }

    pub const fn from_code(code: i64) -> Option<Self> {
        match code {
            0 => Some(Self::Cold),
            1 => Some(Self::Rehearsal),
            2 => Some(Self::Warmup),
            3 => Some(Self::Measure),
            _ => None,
        }
    }

    pub const fn name(self) -> &'static str {
        match self {
            Self::Cold => "cold",
            Self::Rehearsal => "rehearsal",
            Self::Warmup => "warmup",
            Self::Measure => "measure",
        }
    }
}

/// How a trial ended; the code is what the column holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Status {
    Ok,
    /// The backend reported an error.
    Error,
    /// The slot did not make sense to the agent (role, order of stamps).
    Corrupt,
}

impl Status {
    pub const fn code(self) -> i64 {
        match self {
            Self::Ok => 0,
            Self::Error => 1,
            Self::Corrupt => 2,
        }
    }

    pub const fn name(code: i64) -> &'static str {
        match code {
            0 => "ok",
            1 => "error",
            2 => "corrupt",
            _ => "unknown",
        }
    }
}

/// One column: a name of the field table, its unit, and which occurrence of a repeated phase it is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ColumnSpec {
    pub name: String,
    pub unit: String,
    pub occurrence: Option<u32>,
}

impl ColumnSpec {
    pub fn new(name: &str, unit: &str) -> Self {
        Self {
            name: name.into(),
            unit: unit.into(),
            occurrence: None,
        }
    }

    /// The name as shown: `step[3]` for a repeated phase.
    pub fn label(&self) -> String {
        self.occurrence
            .map_or_else(|| self.name.clone(), |i| format!("{}[{i}]", self.name))
    }
}

/// The columns of one lane of a repeat.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TrialSchema {
    pub columns: Vec<ColumnSpec>,
}

/// Why a declared schema was refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SchemaError {
    #[error("a trial schema of {0} columns is more than the {MAX_COLUMNS} allowed")]
    TooWide(usize),
    #[error("a trial schema begins with role, start_ns, end_ns, status; this one has `{0}`")]
    WrongStart(String),
    #[error("column `{0}` is declared twice")]
    Duplicate(String),
}

impl TrialSchema {
    /// The fixed columns followed by a backend's own.
    pub fn with(extra: Vec<ColumnSpec>) -> Self {
        let fixed = FIXED_COLUMNS.iter().map(|(n, u)| ColumnSpec::new(n, u));
        Self {
            columns: fixed.chain(extra).collect(),
        }
    }

    pub fn check(&self) -> Result<(), SchemaError> {
        if self.columns.len() > MAX_COLUMNS {
            return Err(SchemaError::TooWide(self.columns.len()));
        }
        for (i, (name, _)) in FIXED_COLUMNS.iter().enumerate() {
            let found = self.columns.get(i).map(ColumnSpec::label);
            if found.as_deref() != Some(name) {
                return Err(SchemaError::WrongStart(found.unwrap_or_default()));
            }
        }
        let mut seen = std::collections::BTreeSet::new();
        for column in &self.columns {
            if !seen.insert(column.label()) {
                return Err(SchemaError::Duplicate(column.label()));
            }
        }
        Ok(())
    }

    pub fn position(&self, name: &str) -> Option<usize> {
        self.columns.iter().position(|c| c.label() == name)
    }
}

/// Codec bytes of a chunk: how `bytes` holds the cells, column after column.
pub mod codec {
    /// Little-endian i64.
    pub const PLAIN: u8 = 0;
    /// The difference to the cell above, zigzag, as LEB128; the first cell's above is 0.
    pub const DELTA: u8 = 1;
}

/// Some trials of one lane, in order.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Chunk {
    pub lane: u16,
    /// Counts from 0 without gaps.
    pub number: u32,
    pub rows: u32,
    pub columns: u32,
    pub codec: u8,
    pub bytes: Vec<u8>,
}

/// Why a chunk could not be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ChunkError {
    #[error("chunk codec {0} is unknown")]
    UnknownCodec(u8),
    #[error("chunk of {rows} rows and {columns} columns is outside the limits")]
    OutsideLimits { rows: u32, columns: u32 },
    #[error("chunk ends after {at} of {bytes} bytes")]
    Truncated { at: usize, bytes: usize },
    #[error("chunk has {0} bytes left over")]
    LeftOver(usize),
}

impl Chunk {
    /// Packs cells given trial after trial, as slots of an arena hold them.
    pub fn from_slots(lane: u16, number: u32, columns: usize, slots: &[i64]) -> Self {
        let rows = slots.len().checked_div(columns).unwrap_or(0);
        let mut bytes = Vec::with_capacity(slots.len() * 3);
        for column in 0..columns {
            let mut above = 0_i64;
            for row in 0..rows {
                let cell = slots[row * columns + column];
                push_varint(&mut bytes, zigzag(cell.wrapping_sub(above)));
                above = cell;
            }
        }
        Self {
            lane,
            number,
            rows: rows as u32,
            columns: columns as u32,
            codec: codec::DELTA,
            bytes,
        }
    }

    /// Cells by column, each of `rows` values.
    pub fn columns(&self) -> Result<Vec<Vec<i64>>, ChunkError> {
        let mut out = vec![Vec::new(); self.checked_columns()?];
        self.append_to(&mut out)?;
        Ok(out)
    }

    /// Appends this chunk's cells to columns collected so far.
    ///
    /// # Panics
    /// When `out` has another number of columns.
    pub fn append_to(&self, out: &mut [Vec<i64>]) -> Result<(), ChunkError> {
        assert_eq!(out.len(), self.checked_columns()?, "columns of one schema");
        let mut rest = Cursor {
            bytes: &self.bytes,
            at: 0,
        };
        for column in out.iter_mut() {
            match self.codec {
                codec::PLAIN => rest.plain(self.rows, column)?,
                codec::DELTA => rest.delta(self.rows, column)?,
                other => return Err(ChunkError::UnknownCodec(other)),
            }
        }
        match self.bytes.len() - rest.at {
            0 => Ok(()),
            left => Err(ChunkError::LeftOver(left)),
        }
    }

    /// The number of columns, once limits and length allow what the header claims.
    fn checked_columns(&self) -> Result<usize, ChunkError> {
        let (rows, columns) = (self.rows, self.columns);
        let cells = u64::from(rows) * u64::from(columns);
        if columns as usize > MAX_COLUMNS || rows as usize > MAX_ROWS {
            return Err(ChunkError::OutsideLimits { rows, columns });
        }
        // A cell is at least one byte in every codec, so a short chunk cannot claim many cells.
        if cells > self.bytes.len() as u64 {
            return Err(ChunkError::Truncated {
                at: self.bytes.len(),
                bytes: self.bytes.len(),
            });
        }
        Ok(columns as usize)
    }
}

struct Cursor<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl Cursor<'_> {
    fn plain(&mut self, rows: u32, out: &mut Vec<i64>) -> Result<(), ChunkError> {
        let end = self.at + rows as usize * 8;
        let cells = self.bytes.get(self.at..end).ok_or(self.truncated())?;
        out.extend(
            cells
                .chunks_exact(8)
                .map(|c| i64::from_le_bytes(c.try_into().expect("chunks of eight bytes"))),
        );
        self.at = end;
        Ok(())
    }

    fn delta(&mut self, rows: u32, out: &mut Vec<i64>) -> Result<(), ChunkError> {
        out.reserve(rows as usize);
        let mut above = 0_i64;
        for _ in 0..rows {
            above = above.wrapping_add(unzigzag(self.varint()?));
            out.push(above);
        }
        Ok(())
    }

    fn varint(&mut self) -> Result<u64, ChunkError> {
        let mut value = 0_u64;
        for shift in (0..64).step_by(7) {
            let byte = *self.bytes.get(self.at).ok_or(self.truncated())?;
            self.at += 1;
            value |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Ok(value);
            }
        }
        Err(self.truncated())
    }

    fn truncated(&self) -> ChunkError {
        ChunkError::Truncated {
            at: self.at,
            bytes: self.bytes.len(),
        }
    }
}

fn zigzag(value: i64) -> u64 {
    ((value << 1) ^ (value >> 63)) as u64
}

fn unzigzag(value: u64) -> i64 {
    ((value >> 1) as i64) ^ -((value & 1) as i64)
}

fn push_varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn slots_come_back_as_columns(columns in 1_usize..9, rows in 0_usize..50, seed: Vec<i64>) {
            let cell = |i: usize| seed.get(i % seed.len().max(1)).map_or(NULL, |s| s.wrapping_mul(i as i64));
            let slots: Vec<i64> = (0..columns * rows).map(cell).collect();
            let chunk = Chunk::from_slots(0, 0, columns, &slots);
            let back = chunk.columns().unwrap();
            for (c, column) in back.iter().enumerate() {
                let expected: Vec<i64> = (0..rows).map(|r| slots[r * columns + c]).collect();
                prop_assert_eq!(column, &expected);
            }
        }

        #[test]
        fn hostile_chunks_are_refused_without_panic(rows: u32, columns: u32, codec in 0_u8..4, bytes: Vec<u8>) {
            let chunk = Chunk { lane: 0, number: 0, rows, columns, codec, bytes };
            let _ = chunk.columns();
        }
    }

    #[test]
    fn a_known_chunk_has_known_bytes() {
        // Two trials of two columns: (3, 100), (3, 40): deltas 3, 0 and 100, -60.
        let chunk = Chunk::from_slots(0, 0, 2, &[3, 100, 3, 40]);
        assert_eq!(chunk.bytes, [6, 0, 0xc8, 0x01, 0x77]);
    }

    #[test]
    fn plain_cells_read_as_little_endian() {
        let mut bytes = Vec::new();
        for cell in [1_i64, NULL] {
            bytes.extend(cell.to_le_bytes());
        }
        let chunk = Chunk {
            lane: 0,
            number: 0,
            rows: 2,
            columns: 1,
            codec: codec::PLAIN,
            bytes,
        };
        assert_eq!(chunk.columns().unwrap(), [vec![1, NULL]]);
    }

    #[test]
    fn a_schema_begins_with_the_fixed_columns() {
        assert_eq!(
            TrialSchema::with(vec![ColumnSpec::new("device_ns", "ns")]).check(),
            Ok(())
        );
        let wrong = TrialSchema {
            columns: vec![ColumnSpec::new("status", "code")],
        };
        assert_eq!(wrong.check(), Err(SchemaError::WrongStart("status".into())));
        let wide = TrialSchema::with(
            (0..MAX_COLUMNS)
                .map(|i| ColumnSpec::new(&format!("c{i}"), "ns"))
                .collect(),
        );
        assert!(matches!(wide.check(), Err(SchemaError::TooWide(_))));
    }
}
