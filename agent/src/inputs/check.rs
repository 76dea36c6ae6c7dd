//! Looks at outputs once after the window: are they finite, and are they those of the reference?

use edgedyno_shared::repeat::{Comparison, OutputCheck};

use super::{DType, Tensor, half};

/// Checks every output, against its reference where there is one of the same type and shape.
pub fn check_outputs(outputs: &[Tensor], references: &[Option<Tensor>]) -> Vec<OutputCheck> {
    let reference = |at: usize| references.get(at).and_then(Option::as_ref);
    outputs
        .iter()
        .enumerate()
        .map(|(at, output)| OutputCheck {
            name: output.name.clone(),
            dtype: output.dtype.name().into(),
            shape: output.shape.clone(),
            sha256: output.sha256(),
            elements: (output.bytes.len() / output.dtype.size()) as u64,
            nonfinite: numbers(output).filter(|n| !n.real().is_finite()).count() as u64,
            compared: reference(at).and_then(|reference| compare(output, reference)),
        })
        .collect()
}

/// The difference of two tensors; none when they are not of one type and shape.
pub fn compare(output: &Tensor, reference: &Tensor) -> Option<Comparison> {
    if (output.dtype, &output.shape) != (reference.dtype, &reference.shape) {
        return None;
    }
    let (mut lowest, mut highest) = (f64::INFINITY, f64::NEG_INFINITY);
    let (mut largest, mut dot, mut squares, mut reference_squares) = (0.0_f64, 0.0, 0.0, 0.0);
    for (a, b) in numbers(output).zip(numbers(reference)) {
        largest = largest.max(a.distance(b));
        let (a, b) = (a.real(), b.real());
        dot += a * b;
        squares += a * a;
        reference_squares += b * b;
        if b.is_finite() {
            (lowest, highest) = (lowest.min(b), highest.max(b));
        }
    }
    let norm = squares.sqrt() * reference_squares.sqrt();
    Some(Comparison {
        max_abs_error_bits: largest.to_bits(),
        reference_range_bits: (highest - lowest).max(0.0).to_bits(),
        cosine_bits: (norm > 0.0).then(|| (dot / norm).to_bits()),
    })
}

/// An element, kept whole where f64 would round it.
#[derive(Clone, Copy)]
enum Number {
    Real(f64),
    Whole(i128),
}

impl Number {
    fn real(self) -> f64 {
        match self {
            Self::Real(value) => value,
            Self::Whole(value) => value as f64,
        }
    }

    /// Two equal infinities and two NaNs agree; any other of them is infinitely far.
    fn distance(self, other: Self) -> f64 {
        match (self, other) {
            (Self::Whole(a), Self::Whole(b)) => (a - b).unsigned_abs() as f64,
            (a, b) if a.real() == b.real() || (a.real().is_nan() && b.real().is_nan()) => 0.0,
            (a, b) => match (a.real() - b.real()).abs() {
                far if far.is_nan() => f64::INFINITY,
                near => near,
            },
        }
    }
}

/// The elements of a tensor in order.
fn numbers(tensor: &Tensor) -> impl Iterator<Item = Number> {
    let dtype = tensor.dtype;
    tensor
        .bytes
        .chunks_exact(dtype.size())
        .map(move |cell| number(dtype, cell))
}

fn number(dtype: DType, cell: &[u8]) -> Number {
    let mut wide = [0; 8];
    wide[..cell.len()].copy_from_slice(cell);
    let raw = u64::from_le_bytes(wide);
    match dtype {
        DType::F16 => Number::Real(half::from_bits(raw as u16).into()),
        DType::F32 => Number::Real(f32::from_bits(raw as u32).into()),
        DType::F64 => Number::Real(f64::from_bits(raw)),
        DType::I8 => Number::Whole((raw as i8).into()),
        DType::I16 => Number::Whole((raw as i16).into()),
        DType::I32 => Number::Whole((raw as i32).into()),
        DType::I64 => Number::Whole((raw as i64).into()),
        DType::U8 | DType::U16 | DType::U32 | DType::U64 | DType::Bool => Number::Whole(raw.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn floats(values: &[f32]) -> Tensor {
        Tensor {
            name: "y".into(),
            dtype: DType::F32,
            shape: vec![values.len() as u64],
            bytes: values.iter().flat_map(|v| v.to_le_bytes()).collect(),
        }
    }

    fn longs(values: &[i64]) -> Tensor {
        let bytes = values.iter().flat_map(|v| v.to_le_bytes()).collect();
        Tensor {
            dtype: DType::I64,
            shape: vec![values.len() as u64],
            bytes,
            name: "y".into(),
        }
    }

    fn figures(a: &Tensor, b: &Tensor) -> (f64, Option<f64>) {
        let compared = compare(a, b).unwrap();
        let cosine = compared.cosine_bits.map(f64::from_bits);
        (f64::from_bits(compared.max_abs_error_bits), cosine)
    }

    #[test]
    fn error_and_cosine_are_those_worked_out_by_hand() {
        // (3, 4) and (4, 3): cosine 24 / 25, largest difference 1.
        assert_eq!(
            figures(&floats(&[3.0, 4.0]), &floats(&[4.0, 3.0])),
            (1.0, Some(0.96))
        );
        assert_eq!(figures(&floats(&[1.0]), &floats(&[0.0])), (1.0, None));
    }

    #[test]
    fn the_range_is_that_of_the_finite_reference() {
        let range = |reference: &[f32]| {
            let output = floats(&vec![0.0; reference.len()]);
            let compared = compare(&output, &floats(reference)).unwrap();
            f64::from_bits(compared.reference_range_bits)
        };
        assert_eq!(range(&[3.0, f32::INFINITY, -1.0]), 4.0);
        assert_eq!(range(&[2.0, 2.0]), 0.0);
        assert_eq!(range(&[f32::NAN]), 0.0);
    }

    #[test]
    fn nan_against_a_number_is_infinitely_far() {
        let (error, _) = figures(&floats(&[f32::NAN, 1.0]), &floats(&[0.0, 1.0]));
        assert_eq!(error, f64::INFINITY);
        let special = floats(&[f32::NAN, f32::INFINITY]);
        assert_eq!(figures(&special, &special).0, 0.0);
        assert_eq!(check_outputs(&[special], &[])[0].nonfinite, 2);
    }

    #[test]
    fn large_integers_are_compared_exactly() {
        assert_eq!(figures(&longs(&[i64::MAX]), &longs(&[i64::MAX - 1])).0, 1.0);
        assert_eq!(
            figures(&longs(&[i64::MIN]), &longs(&[i64::MAX])).0,
            2.0_f64.powi(64)
        );
    }

    #[test]
    fn a_check_tells_the_output_and_compares_only_what_fits() {
        let output = floats(&[1.0, 2.0]);
        let checks = check_outputs(
            &[output.clone(), output.clone()],
            &[Some(output.clone()), Some(floats(&[1.0]))],
        );
        assert_eq!(checks[0].elements, 2);
        assert_eq!(checks[0].sha256, output.sha256());
        assert!(checks[0].compared.is_some() && checks[1].compared.is_none());
    }
}
