//! What a load does to a case: how much was achieved, which points count, and the curve through them.
//!
//! Pure functions over what was stored, so that every figure can be worked out again with no board.

pub mod achieved;
pub mod axis;
pub mod clocks;
pub mod curve;
pub mod emc;
pub mod gap;
pub mod incomplete;
pub mod knee;
pub mod ladder;
pub mod levels;
pub mod limit;
mod measured;
pub mod read;
pub mod recovery;
pub mod report;
mod rounds;
pub mod tenant;
mod traffic;
pub mod trials;
pub mod validity;
pub mod verdict;
pub mod worst;

#[cfg(test)]
pub(crate) mod testing;
