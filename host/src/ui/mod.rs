//! The only room that makes text for people and prints it. Results go to stdout, everything else to
//! stderr.

pub mod board;
pub mod busy;
pub mod cases;
pub mod compare;
pub mod demo;
pub mod error;
pub mod fetch;
pub mod findings;
pub mod keys;
pub mod model;
pub mod print;
pub mod progress;
pub mod runtime;
pub mod selfcheck;
pub mod soak;
pub mod stress;
pub mod summary;
pub mod sweep;
pub mod table;
pub mod telemetry;
pub mod top;
pub mod units;
pub mod waiting;
pub mod windows;
pub(crate) mod wrap;
