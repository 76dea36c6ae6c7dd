//! Quantities that carry their unit in their type.

use std::fmt;

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

/// For people, by powers of 1024 and with four digits: `64 MiB`, `1.5 KiB`.
impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut size = self.0 as f64;
        let mut unit = "B";
        for larger in ["KiB", "MiB", "GiB", "TiB"] {
            // What would be written as 1024 is one of the next.
            if size < 1023.5 {
                break;
            }
            size /= 1024.0;
            unit = larger;
        }
        let decimals = match size {
            _ if unit == "B" => 0,
            size if size < 9.9995 => 3,
            size if size < 99.995 => 2,
            size if size < 999.95 => 1,
            _ => 0,
        };
        let digits = format!("{size:.decimals$}");
        let digits = match digits.contains('.') {
            true => digits.trim_end_matches('0').trim_end_matches('.'),
            false => &digits,
        };
        write!(f, "{digits} {unit}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_take_the_unit_that_fits() {
        let each = [
            (0, "0 B"),
            (1023, "1023 B"),
            (1024, "1 KiB"),
            (1536, "1.5 KiB"),
            // 10 000 / 1024 are 9.765625.
            (10_000, "9.766 KiB"),
            (1_048_575, "1 MiB"),
            (8 << 20, "8 MiB"),
            (1000 << 20, "1000 MiB"),
            (4 << 30, "4 GiB"),
            (3 << 40, "3 TiB"),
            (2048 << 40, "2048 TiB"),
        ];
        for (bytes, written) in each {
            assert_eq!(Bytes(bytes).to_string(), written);
        }
    }
}
