//! The worker: one process for each repeat, in which vendor code runs.
//!
//! [`spawn`] starts it from the daemon, [`entry`] is what it does, [`message`] what the two say to each
//! other, and [`supervise`] watches it to its end, whatever that is.

pub mod artifacts;
mod bindings;
mod cost;
pub mod entry;
pub(crate) mod group;
pub mod intake;
pub mod job;
pub mod memory;
pub mod message;
pub mod placement;
pub mod probe;
pub mod spawn;
pub(crate) mod streams;
pub mod supervise;
pub mod tail;
pub mod verdict;
mod watched;
