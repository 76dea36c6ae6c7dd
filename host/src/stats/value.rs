//! What a statistic can be taken of.

use std::cmp::Ordering;

/// A number that can be ordered and averaged: a stamped time (`i64`) or a derived figure (`f64`).
pub trait Value: Copy {
    /// The value as a float; exact for times below 2^53 ns (104 days).
    fn to_f64(self) -> f64;

    /// A total order (for floats that of IEEE 754 `totalOrder`, so a NaN cannot break a sort).
    fn order(&self, other: &Self) -> Ordering;
}

impl Value for i64 {
    fn to_f64(self) -> f64 {
        self as f64
    }

    fn order(&self, other: &Self) -> Ordering {
        self.cmp(other)
    }
}

impl Value for f64 {
    fn to_f64(self) -> f64 {
        self
    }

    fn order(&self, other: &Self) -> Ordering {
        self.total_cmp(other)
    }
}
