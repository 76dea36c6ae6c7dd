//! Shapes that a model takes only in multiples: what was asked for, and what is measured.

/// How sizes are brought to a multiple.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Align {
    pub multiple: u64,
    pub mode: Mode,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// The next smaller multiple, at least one.
    Floor,
    /// The next larger one.
    Ceil,
    /// A size that is none is an error.
    Error,
}

impl Mode {
    pub const ALL: [Self; 3] = [Self::Floor, Self::Ceil, Self::Error];

    pub fn name(self) -> &'static str {
        match self {
            Self::Floor => "floor",
            Self::Ceil => "ceil",
            Self::Error => "error",
        }
    }

    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|mode| mode.name() == name)
    }
}

impl Align {
    /// `14:floor`; without a mode it is an error where it does not fit.
    pub fn parse(text: &str) -> Result<Self, String> {
        let needed = || "a multiple such as 14:floor, 14:ceil or 14:error is needed".to_owned();
        let (multiple, mode) = text.split_once(':').unwrap_or((text, "error"));
        let multiple = multiple.parse().ok().filter(|n| *n > 0);
        Ok(Self {
            multiple: multiple.ok_or_else(needed)?,
            mode: Mode::from_name(mode).ok_or_else(needed)?,
        })
    }

    /// The two last dimensions, height and width, as multiples; others stay.
    ///
    /// # Errors
    /// Where the mode says so: the size that does not fit.
    pub fn apply(self, dims: &[u64]) -> Result<Vec<u64>, String> {
        let image = dims.len().saturating_sub(2);
        let sizes = dims.iter().enumerate();
        sizes
            .map(|(at, size)| match at < image {
                true => Ok(*size),
                false => self.size(*size),
            })
            .collect()
    }

    fn size(self, size: u64) -> Result<u64, String> {
        let floor = size / self.multiple * self.multiple;
        match self.mode {
            _ if floor == size => Ok(size),
            Mode::Floor => Ok(floor.max(self.multiple)),
            Mode::Ceil => floor
                .checked_add(self.multiple)
                .ok_or_else(|| format!("no multiple of {} above {size} fits", self.multiple)),
            Mode::Error => Err(format!("{size} is no multiple of {}", self.multiple)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 384 x 518 by 14: 378 x 518, as gct_profile does it (formats 2.3).
    #[test]
    fn sizes_become_multiples_by_floor_ceil_or_not_at_all() {
        let apply = |text: &str, dims: &[u64]| Align::parse(text).unwrap().apply(dims);
        assert_eq!(
            apply("14:floor", &[1, 3, 384, 518]),
            Ok(vec![1, 3, 378, 518])
        );
        assert_eq!(
            apply("14:ceil", &[1, 3, 384, 518]),
            Ok(vec![1, 3, 392, 518])
        );
        assert_eq!(apply("14:floor", &[1, 3, 5, 14]), Ok(vec![1, 3, 14, 14]));
        assert!(apply("14", &[1, 3, 384, 518]).unwrap_err().contains("384"));
        let huge = apply("14:ceil", &[u64::MAX, 14]).unwrap_err();
        assert!(huge.contains("no multiple of 14"), "{huge}");
        assert_eq!(apply("14:error", &[1, 3, 28, 42]), Ok(vec![1, 3, 28, 42]));
        for wrong in ["0:floor", "x", "14:round"] {
            assert!(Align::parse(wrong).is_err(), "{wrong}");
        }
    }
}
