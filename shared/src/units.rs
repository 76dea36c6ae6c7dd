//! Quantities that carry their unit in their type.

use serde::{Deserialize, Serialize};

/// A span or a moment of the board's monotonic clock, in nanoseconds.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize,
)]
pub struct Nanos(pub i64);

impl Nanos {
    pub const ZERO: Self = Self(0);

    pub const fn from_secs(seconds: i64) -> Self {
        Self(seconds * 1_000_000_000)
    }

    pub const fn from_millis(millis: i64) -> Self {
        Self(millis * 1_000_000)
    }

    /// The nearest nanosecond of a number of seconds; what does not fit is cut to the range.
    pub fn from_secs_f64(seconds: f64) -> Self {
        Self((seconds * 1e9).round() as i64)
    }

    pub fn as_secs_f64(self) -> f64 {
        self.0 as f64 / 1e9
    }

    /// The same span for the standard library; a negative one is zero.
    pub fn as_duration(self) -> std::time::Duration {
        std::time::Duration::from_nanos(self.0.max(0) as u64)
    }
}

impl std::ops::Sub for Nanos {
    type Output = Self;
    fn sub(self, other: Self) -> Self {
        Self(self.0 - other.0)
    }
}

impl std::ops::Add for Nanos {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        Self(self.0 + other.0)
    }
}

/// A number of bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Bytes(pub u64);
