//! The store: runs, cases, repeats and their trials in one SQLite file.
//!
//! The driver writes here what an agent replays, one repeat a transaction, before it acknowledges
//! it; every reading command, export and report reads from here and needs no board. SQL keeps to what
//! PostgreSQL shares; parameters are `$1`, `$2` in order of appearance, since SQLite counts them so.

mod calibrations;
mod columns;
pub mod copy;
mod emc_scales;
mod error;
mod open;
mod place;
pub mod query;
mod reader;
mod repeat_writer;
pub mod rows;
mod runs;
mod samples;
mod segment;

#[cfg(test)]
pub(crate) mod sample;
#[cfg(test)]
mod tests;

pub use calibrations::{Calibration, WIDE, ceilings, fingerprint};
pub use columns::Columns;
pub use emc_scales::EmcScaleRow;
pub use error::{ErrorClass, StoreError};
pub use open::Store;
pub use place::FOLDER;
pub use reader::RepeatRow;
pub use runs::{FirstRows, NewCase, NewRun};
pub use segment::{Committed, Received, Segment};

/// What a store call gives back.
pub type Result<T> = std::result::Result<T, StoreError>;
