//! Runs as rows that can leave a store and come into another: what bundles and `runs push` are made of.
//!
//! A run goes in pieces, each small enough to be held at once: a head, cases in hundreds, one piece for
//! each attempt of a repeat, one for each artifact's content. [`tables`] lists what is copied, `read`
//! takes pieces out, `merge` takes them in. Numbers that only count within a store (a repeat's id) and
//! names that the piece implies (the run) are not part of it.

mod calibrations;
mod digest;
mod merge;
mod read;
mod stores;
pub mod tables;

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use serde_json::{Map, Value};

pub use calibrations::CalibrationRow;
pub use merge::{Merge, Merged, Origin};
pub use read::Copied;
pub use stores::{StoresMerged, merge_stores};

/// One row: columns by name, JSON as JSON, bytes as their number.
pub type Row = Map<String, Value>;

/// Rows of a run that travel together.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Piece {
    /// By table, each in the order in which it was stored.
    pub rows: BTreeMap<String, Vec<Row>>,
    /// What the columns of bytes hold, table by table, row by row, column by column.
    pub blobs: Vec<Vec<u8>>,
}

impl Piece {
    /// Rows of one table.
    pub fn of(&self, table: &str) -> &[Row] {
        self.rows.get(table).map_or(&[], Vec::as_slice)
    }

    /// The one row of a table that has one.
    pub fn only(&self, table: &str) -> Option<&Row> {
        match self.of(table) {
            [row] => Some(row),
            _ => None,
        }
    }
}

/// What a piece is, and with it which tables it holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PieceKind {
    /// The run itself, its tags, boards and stored findings.
    Head,
    Cases,
    /// One attempt of one repeat with its trials and telemetry.
    Repeat,
    /// The bytes of artifacts.
    Content,
}
