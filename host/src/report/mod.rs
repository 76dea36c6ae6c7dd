//! A report: one HTML file that opens from a disk, with no network and no server.
//!
//! Findings come first, then what was measured and how sure that is, then the figures, and below them
//! everything they were made from.

mod compared;
mod data;
mod gather;
mod page;
mod sections;
mod table;

#[cfg(test)]
mod tests;

pub use compared::Compared;
pub use data::Trials;
pub use gather::{Chapter, Part, Room, gather};
pub use page::page;
