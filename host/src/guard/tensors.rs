//! How far one tensor is from another.

use std::fmt;

use crate::model::array::{Array, DType};
use crate::plan::sweep::Tolerance;

/// What tells two tensors of one type and shape apart.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Difference {
    /// None where one side is all zero.
    pub cosine: Option<f64>,
    /// Infinite where only one side is finite.
    pub max_abs: f64,
    /// From the smallest to the largest finite element of the reference.
    pub range: f64,
}

/// Compares elements as f64; none for another type or shape.
pub fn difference(found: &Array, expected: &Array) -> Option<Difference> {
    if (found.dtype(), found.dims()) != (expected.dtype(), expected.dims()) {
        return None;
    }
    let (mut dot, mut squares, mut expected_squares, mut max_abs) = (0.0, 0.0, 0.0, 0.0_f64);
    let (mut low, mut high) = (f64::INFINITY, f64::NEG_INFINITY);
    for (a, b) in numbers(found).zip(numbers(expected)) {
        max_abs = max_abs.max(distance(a, b));
        if b.is_finite() {
            low = low.min(b);
            high = high.max(b);
        }
        if a.is_finite() && b.is_finite() {
            dot += a * b;
            squares += a * a;
            expected_squares += b * b;
        }
    }
    let norm = f64::sqrt(squares) * f64::sqrt(expected_squares);
    Some(Difference {
        cosine: (norm > 0.0).then(|| dot / norm),
        max_abs,
        range: (high - low).max(0.0),
    })
}

/// Equal infinities and two NaNs agree; any other of them is infinitely far.
fn distance(a: f64, b: f64) -> f64 {
    match (a.is_finite(), b.is_finite()) {
        (true, true) => (a - b).abs(),
        _ if a == b || (a.is_nan() && b.is_nan()) => 0.0,
        _ => f64::INFINITY,
    }
}

impl Difference {
    /// Whether it is what other arithmetic of the same kind may bring.
    pub fn is_within(self, tolerance: Tolerance, is_integer: bool) -> bool {
        if self.max_abs == 0.0 {
            return true;
        }
        let (cosine, max_abs) = match is_integer {
            true => (tolerance.cosine_int8, f64::MAX),
            false => (tolerance.cosine, tolerance.max_abs * self.range),
        };
        // All of one side zero: there is no direction to compare, only the distance.
        let is_close = self.cosine.is_none_or(|found| found >= cosine);
        is_close && self.max_abs <= max_abs
    }
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.cosine {
            Some(cosine) => write!(f, "cosine {cosine:.6}")?,
            None => f.write_str("no cosine")?,
        }
        write!(
            f,
            ", largest error {:.4e} of a range of {:.4e}",
            self.max_abs, self.range
        )
    }
}

/// Elements as f64; 64-bit integers beyond 2^53 are rounded.
fn numbers(array: &Array) -> Box<dyn Iterator<Item = f64> + '_> {
    macro_rules! of {
        ($type:ty) => {
            Box::new(array.data().chunks_exact(size_of::<$type>()).map(|bytes| {
                let bytes = bytes.try_into().expect("chunks are of this size");
                <$type>::from_le_bytes(bytes) as f64
            }))
        };
    }
    match array.dtype() {
        DType::F32 => of!(f32),
        DType::F64 => of!(f64),
        DType::F16 => {
            let halves = array.data().chunks_exact(2);
            Box::new(halves.map(|pair| half(u16::from_le_bytes([pair[0], pair[1]]))))
        }
        DType::I8 => of!(i8),
        DType::U8 | DType::Bool => of!(u8),
        DType::I16 => of!(i16),
        DType::I32 => of!(i32),
        DType::I64 => of!(i64),
    }
}

/// IEEE 754 binary16: sign, five bits of exponent, ten of fraction.
fn half(bits: u16) -> f64 {
    let sign = if bits >> 15 == 1 { -1.0 } else { 1.0 };
    let (exponent, fraction) = (i32::from(bits >> 10 & 31), f64::from(bits & 1023));
    sign * match exponent {
        0 => fraction * f64::powi(2.0, -24),
        31 if fraction == 0.0 => f64::INFINITY,
        31 => f64::NAN,
        _ => (1.0 + fraction / 1024.0) * f64::powi(2.0, exponent - 15),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn array(values: &[f32]) -> Array {
        let data = values
            .iter()
            .flat_map(|value| value.to_le_bytes())
            .collect();
        Array::new(DType::F32, vec![values.len() as u64], data).unwrap()
    }

    #[test]
    fn a_difference_matches_hand_worked_values() {
        // (3, 4) and (4, 3): dot 24, norms 5 and 5.
        let found = difference(&array(&[3.0, 4.0]), &array(&[4.0, 3.0])).unwrap();
        assert_eq!(found.cosine, Some(24.0 / 25.0));
        assert_eq!((found.max_abs, found.range), (1.0, 1.0));
        assert!(!found.is_within(Tolerance::USUAL, false));
        assert!(!found.is_within(Tolerance::USUAL, true));
        assert_eq!(difference(&array(&[1.0]), &array(&[1.0, 2.0])), None);
    }

    #[test]
    fn f32_must_be_close_in_direction_and_in_value() {
        let expected = array(&[0.0, 100.0, -100.0]);
        let within = |found: &[f32], is_integer| {
            let difference = difference(&array(found), &expected).unwrap();
            difference.is_within(Tolerance::USUAL, is_integer)
        };
        // The range is 200, so 0.2 is the most.
        assert!(within(&[0.19, 100.0, -100.0], false));
        assert!(!within(&[0.21, 100.0, -100.0], false));
        // Integer arithmetic is judged by direction alone.
        assert!(within(&[5.0, 100.0, -100.0], true));
        assert!(!within(&[50.0, 100.0, -100.0], true));
    }

    #[test]
    fn what_is_not_finite_agrees_only_with_its_like() {
        let compare = |a: f32, b: f32| difference(&array(&[a, 1.0]), &array(&[b, 1.0])).unwrap();
        assert_eq!(compare(f32::NAN, f32::NAN).max_abs, 0.0);
        assert_eq!(compare(f32::INFINITY, f32::INFINITY).max_abs, 0.0);
        for (a, b) in [
            (f32::NAN, 0.0),
            (0.0, f32::INFINITY),
            (f32::INFINITY, f32::NEG_INFINITY),
        ] {
            assert!(!compare(a, b).is_within(Tolerance::USUAL, true), "{a} {b}");
        }
    }

    #[test]
    fn all_zero_agrees_with_all_zero_and_with_nothing_else() {
        let zeros = array(&[0.0, 0.0]);
        let same = difference(&zeros, &zeros).unwrap();
        assert!(same.cosine.is_none() && same.is_within(Tolerance::USUAL, false));
        let other = difference(&array(&[0.0, 1.0]), &zeros).unwrap();
        assert!(!other.is_within(Tolerance::USUAL, false));
    }

    #[test]
    fn halves_are_read_exactly() {
        for (bits, value) in [
            (0x3c00, 1.0),
            (0xc000, -2.0),
            (0x3555, 0.333_251_953_125),
            (0x0001, 5.960_464_477_539_063e-8),
            (0x7bff, 65504.0),
            (0x7c00, f64::INFINITY),
        ] {
            assert_eq!(half(bits), value, "{bits:#x}");
        }
        assert!(half(0x7e00).is_nan());
    }
}
