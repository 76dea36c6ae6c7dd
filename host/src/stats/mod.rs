//! Statistics as pure functions over slices: no store, no clock, no text.
//!
//! Times are nanoseconds as the board stamped them (`i64`); derived series are `f64`. A function
//! that cannot answer from what it was given returns `None`, never a zero.

pub mod autocorrelation;
pub mod bimodal;
pub mod bootstrap;
pub mod bound;
pub mod discovery;
pub mod interval;
pub mod judge;
pub mod mean;
pub mod outlier;
pub mod power;
pub mod quantile;
pub mod random;
pub mod rate;
pub mod ratio;
pub mod session;
pub mod shift;
pub mod simulate;
pub mod steady;
pub mod summary;
pub mod value;
pub mod windows;
