//! Comparing: which of two arms is better, by how much, how sure that is, and when it cannot be said.
//!
//! `arm` gathers what was measured of a case, `matching` brings arms together, `conditions` says whether
//! they may be compared, `rule` and `cell` make the verdict, `gate` what a build server makes of it.

pub mod arm;
pub mod baseline;
pub mod cell;
pub mod conditions;
pub mod gate;
pub mod json;
pub mod load;
pub mod matching;
pub mod metric;
pub mod page;
pub mod report;
pub mod rule;
pub mod sessions;

#[cfg(test)]
mod tests;
