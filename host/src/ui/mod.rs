//! The only room that prints. Results go to stdout, everything else to stderr.

pub mod error;
pub mod print;
pub mod progress;
