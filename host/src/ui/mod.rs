//! The only room that makes text for people.

pub mod table;
pub mod units;
