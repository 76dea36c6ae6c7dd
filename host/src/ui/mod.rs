//! The only room that makes text for people and prints it. Results go to stdout, everything else to
//! stderr.

pub mod error;
pub mod print;
pub mod progress;
pub mod table;
pub mod units;
