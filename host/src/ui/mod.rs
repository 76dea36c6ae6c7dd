//! The only room that makes text for people.

pub mod units;
