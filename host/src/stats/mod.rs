//! Statistics as pure functions over slices: no store, no clock, no text.
//!
//! Times are nanoseconds as the board stamped them (`i64`); derived series are `f64`. A function
//! that cannot answer from what it was given returns `None`, never a zero.

pub mod autocorrelation;
pub mod bound;
pub mod interval;
pub mod mean;
pub mod outlier;
pub mod quantile;
pub mod rate;
pub mod steady;
pub mod summary;
pub mod value;
pub mod windows;

#[cfg(test)]
mod simulate;
