//! The worker: one process for each repeat, in which vendor code runs.

pub mod job;
