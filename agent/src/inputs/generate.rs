//! Generated inputs: the same bytes for the same seed on every machine.
//!
//! | dtype | normal, uniform | zeros | integers low..high |
//! |---|---|---|---|
//! | f16, f32, f64 | as named | 0 | whole numbers of the range |
//! | u8, i8, i16, u16 | the whole range of the type | 0 | the range |
//! | i32, i64, u32, u64, bool | 0 or 1 | 0 | the range |
//!
//! The wide integers are kept to 0 and 1 because models use them as indices (token, class, length):
//! a value beyond a table's end is an error or a crash of the runtime, not a measurement.

use edgedyno_shared::case::Generator;
use edgedyno_shared::wire::failure::{Failure, FailureCode};

use super::random::Random;
use super::{DType, half};

/// Fills `out` with elements of `dtype`, drawn from stream `stream` of `seed`.
///
/// # Errors
/// [`FailureCode::InputInvalid`] when an integer range does not fit the type.
pub fn fill(
    out: &mut [u8],
    dtype: DType,
    generator: &Generator,
    seed: u64,
    stream: u64,
) -> Result<(), Failure> {
    let law = Law::new(dtype, generator)?;
    let mut random = Random::new(seed, stream);
    match law {
        Law::Zeros => out.fill(0),
        Law::Whole { low, high } => fill_whole(out, dtype, &mut random, low, high),
        Law::Normal => fill_real(out, dtype, || random.normal()),
        Law::Uniform => fill_real(out, dtype, || random.uniform()),
    }
    Ok(())
}

/// How the elements of one tensor are drawn.
enum Law {
    Zeros,
    Normal,
    Uniform,
    Whole { low: i128, high: i128 },
}

impl Law {
    fn new(dtype: DType, generator: &Generator) -> Result<Self, Failure> {
        Ok(match (generator, default_range(dtype)) {
            (Generator::Zeros, _) => Self::Zeros,
            (Generator::Integers { low, high }, _) => {
                let (low, high) = (i128::from(*low), i128::from(*high));
                check_range(dtype, low, high)?;
                Self::Whole { low, high }
            }
            (Generator::Normal | Generator::Uniform, Some((low, high))) => {
                Self::Whole { low, high }
            }
            (Generator::Normal, None) => Self::Normal,
            (Generator::Uniform, None) => Self::Uniform,
        })
    }
}

/// What whole numbers stand in for a real distribution; none for real types.
fn default_range(dtype: DType) -> Option<(i128, i128)> {
    match dtype {
        DType::F16 | DType::F32 | DType::F64 => None,
        DType::I8 | DType::U8 | DType::I16 | DType::U16 => type_range(dtype),
        DType::I32 | DType::I64 | DType::U32 | DType::U64 | DType::Bool => Some((0, 1)),
    }
}

/// All values of a whole-number type; none for real types.
fn type_range(dtype: DType) -> Option<(i128, i128)> {
    Some(match dtype {
        DType::Bool => (0, 1),
        DType::I8 => (i8::MIN.into(), i8::MAX.into()),
        DType::U8 => (0, u8::MAX.into()),
        DType::I16 => (i16::MIN.into(), i16::MAX.into()),
        DType::U16 => (0, u16::MAX.into()),
        DType::I32 => (i32::MIN.into(), i32::MAX.into()),
        DType::U32 => (0, u32::MAX.into()),
        DType::I64 => (i64::MIN.into(), i64::MAX.into()),
        DType::U64 => (0, u64::MAX.into()),
        DType::F16 | DType::F32 | DType::F64 => return None,
    })
}

fn check_range(dtype: DType, low: i128, high: i128) -> Result<(), Failure> {
    let invalid = |detail: String| Err(Failure::new(FailureCode::InputInvalid, detail));
    if low > high {
        return invalid(format!("integer range {low}..{high} is empty"));
    }
    match type_range(dtype) {
        Some((min, max)) if low < min || high > max => invalid(format!(
            "integer range {low}..{high} does not fit {}, which holds {min}..{max}",
            dtype.name()
        )),
        _ => Ok(()),
    }
}

fn fill_whole(out: &mut [u8], dtype: DType, random: &mut Random, low: i128, high: i128) {
    if type_range(dtype).is_none() {
        return fill_real(out, dtype, || random.whole(low, high) as f64);
    }
    for cell in out.chunks_exact_mut(dtype.size()) {
        // Two's complement: the lower bytes are the value in every width.
        cell.copy_from_slice(&random.whole(low, high).to_le_bytes()[..dtype.size()]);
    }
}

fn fill_real(out: &mut [u8], dtype: DType, mut draw: impl FnMut() -> f64) {
    match dtype {
        DType::F64 => each(out, || draw().to_le_bytes()),
        DType::F16 => each(out, || half::to_bits(draw() as f32).to_le_bytes()),
        _ => each(out, || (draw() as f32).to_le_bytes()),
    }
}

fn each<const N: usize>(out: &mut [u8], mut cell: impl FnMut() -> [u8; N]) {
    out.as_chunks_mut::<N>()
        .0
        .iter_mut()
        .for_each(|c| *c = cell());
}

#[cfg(test)]
mod tests {
    use sha2::{Digest, Sha256};

    use super::*;

    fn bytes(dtype: DType, generator: &Generator, elements: usize) -> Vec<u8> {
        let mut out = vec![0xaa; elements * dtype.size()];
        fill(&mut out, dtype, generator, 42, 0).unwrap();
        out
    }

    #[test]
    fn all_types_and_generators_give_the_bytes_they_always_gave() {
        let generators = [
            Generator::Normal,
            Generator::Uniform,
            Generator::Zeros,
            Generator::Integers { low: 0, high: 1 },
        ];
        let mut hash = Sha256::new();
        for dtype in DType::ALL {
            for generator in &generators {
                hash.update(bytes(dtype, generator, 1000));
            }
        }
        let hex: String = hash.finalize().iter().map(|b| format!("{b:02x}")).collect();
        assert_eq!(
            hex,
            "784cacd9bab95bc59e671550840eaf99d008fd7cdc7c3cf1f2a335b8b71500f8"
        );
    }

    #[test]
    fn index_like_types_stay_at_zero_and_one() {
        for dtype in [DType::I64, DType::U32, DType::Bool] {
            let out = bytes(dtype, &Generator::Normal, 500);
            let sum: u64 = out.iter().map(|b| u64::from(*b)).sum();
            assert!(
                out.iter().all(|b| *b <= 1) && (200..300).contains(&sum),
                "{sum}"
            );
        }
    }

    #[test]
    fn small_types_use_their_whole_range() {
        let out = bytes(DType::U8, &Generator::Uniform, 10_000);
        let distinct: std::collections::BTreeSet<u8> = out.into_iter().collect();
        assert_eq!(distinct.len(), 256);
    }

    #[test]
    fn a_range_of_numbers_is_kept_in_every_type() {
        let generator = Generator::Integers { low: -3, high: 100 };
        let out = bytes(DType::I32, &generator, 2000);
        let values: Vec<i32> = out
            .as_chunks()
            .0
            .iter()
            .map(|c| i32::from_le_bytes(*c))
            .collect();
        assert_eq!(
            (values.iter().min(), values.iter().max()),
            (Some(&-3), Some(&100))
        );
        let out = bytes(DType::F32, &generator, 2000);
        let whole = |c: &[u8; 4]| f32::from_le_bytes(*c).fract() == 0.0;
        assert!(out.as_chunks().0.iter().all(whole));
    }

    #[test]
    fn a_range_that_does_not_fit_is_refused() {
        let refused = |dtype, low, high| {
            let generator = Generator::Integers { low, high };
            fill(&mut [0; 8], dtype, &generator, 0, 0)
                .unwrap_err()
                .detail
        };
        assert_eq!(
            refused(DType::U8, 0, 256),
            "integer range 0..256 does not fit u8, which holds 0..255"
        );
        assert_eq!(refused(DType::F32, 2, 1), "integer range 2..1 is empty");
        refused(DType::U64, -1, 0);
    }
}
