//! A report: one HTML file that opens from a disk, with no network and no server.
//!
//! The first screen answers what was measured, on what, how sure, and what limits it; findings follow, then
//! every figure, and below them everything they were made from.

mod compared;
mod data;
mod gather;
mod glance;
mod lanes;
mod loads;
mod page;
mod pass;
mod sections;
mod table;

#[cfg(test)]
mod tests;

pub use compared::Compared;
pub use data::Trials;
pub use gather::{Chapter, Part, Room, gather};
pub use loads::Load;
pub use page::page;
