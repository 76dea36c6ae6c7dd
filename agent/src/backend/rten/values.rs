//! Between our tensors and rten's values.
//!
//! rten computes in f32, i32, i8 and u8. It takes an ONNX i64 or bool as i32 and an f64 or f16 as
//! f32; here the inputs are narrowed and the outputs widened again, so that a repeat has the types
//! of the model whatever runs it.

use edgedyno_shared::wire::failure::{Failure, FailureCode};
use rten::Value;
use rten_tensor::prelude::*;

use crate::inputs::{DType, Tensor, half};

/// True for the element types that an input may have.
pub(super) fn takes(dtype: DType) -> bool {
    !matches!(dtype, DType::I16 | DType::U16 | DType::U32 | DType::U64)
}

/// The value that rten gets for a tensor.
///
/// # Errors
/// [`FailureCode::InputInvalid`] for a type that rten does not take, or an i64 beyond i32.
pub(super) fn from_tensor(tensor: &Tensor) -> Result<Value, Failure> {
    let bytes = tensor.bytes.as_slice();
    let shape = &tensor.shape;
    match tensor.dtype {
        DType::F32 => value(shape, cells(bytes, f32::from_le_bytes)),
        DType::F64 => value(shape, cells(bytes, |c| f64::from_le_bytes(c) as f32)),
        DType::F16 => value(
            shape,
            cells(bytes, |c| half::from_bits(u16::from_le_bytes(c))),
        ),
        DType::I8 => value(shape, cells(bytes, i8::from_le_bytes)),
        DType::U8 => value(shape, bytes.to_vec()),
        DType::I32 => value(shape, cells(bytes, i32::from_le_bytes)),
        DType::Bool => value(
            shape,
            bytes.iter().map(|b| i32::from(*b != 0)).collect::<Vec<_>>(),
        ),
        DType::I64 => {
            let narrow = |c: &[u8; 8]| i32::try_from(i64::from_le_bytes(*c));
            let narrowed: Result<Vec<i32>, _> = bytes.as_chunks().0.iter().map(narrow).collect();
            let too_large = |_| {
                invalid(format!(
                    "input `{}` has an i64 that does not fit i32, in which rten computes",
                    tensor.name
                ))
            };
            value(shape, narrowed.map_err(too_large)?)
        }
        other => Err(invalid(format!(
            "rten does not take {} (input `{}`)",
            other.name(),
            tensor.name
        ))),
    }
}

/// A value of rten's as the tensor that the model declares; without a declared type as it is.
pub(super) fn to_tensor(
    name: &str,
    declared: Option<DType>,
    value: &Value,
) -> Result<Tensor, Failure> {
    let shape = value.shape().iter().map(|d| *d as u64).collect();
    let (dtype, bytes) = match (value, declared) {
        (Value::FloatTensor(t), Some(DType::F64)) => (
            DType::F64,
            bytes(t.to_vec(), |v| f64::from(v).to_le_bytes()),
        ),
        (Value::FloatTensor(t), Some(DType::F16)) => (
            DType::F16,
            bytes(t.to_vec(), |v| half::to_bits(v).to_le_bytes()),
        ),
        (Value::FloatTensor(t), _) => (DType::F32, bytes(t.to_vec(), f32::to_le_bytes)),
        (Value::Int32Tensor(t), Some(DType::I64)) => (
            DType::I64,
            bytes(t.to_vec(), |v| i64::from(v).to_le_bytes()),
        ),
        (Value::Int32Tensor(t), Some(DType::Bool)) => {
            (DType::Bool, bytes(t.to_vec(), |v| [u8::from(v != 0)]))
        }
        (Value::Int32Tensor(t), _) => (DType::I32, bytes(t.to_vec(), i32::to_le_bytes)),
        (Value::Int8Tensor(t), _) => (DType::I8, bytes(t.to_vec(), i8::to_le_bytes)),
        (Value::UInt8Tensor(t), _) => (DType::U8, t.to_vec()),
        (_, _) => {
            let detail = format!("output `{name}` is no tensor");
            return Err(Failure::new(FailureCode::Unsupported, detail));
        }
    };
    Ok(Tensor {
        name: name.into(),
        dtype,
        shape,
        bytes,
    })
}

/// Copies the elements into a value of the same type and shape; makes it so when it is not.
pub(super) fn copy(to: &mut Value, from: &Value) {
    let copied = match (&mut *to, from) {
        (Value::FloatTensor(to), Value::FloatTensor(from)) => {
            to.shape() == from.shape() && copy_cells(to.data_mut(), from.data())
        }
        (Value::Int32Tensor(to), Value::Int32Tensor(from)) => {
            to.shape() == from.shape() && copy_cells(to.data_mut(), from.data())
        }
        (Value::Int8Tensor(to), Value::Int8Tensor(from)) => {
            to.shape() == from.shape() && copy_cells(to.data_mut(), from.data())
        }
        (Value::UInt8Tensor(to), Value::UInt8Tensor(from)) => {
            to.shape() == from.shape() && copy_cells(to.data_mut(), from.data())
        }
        _ => false,
    };
    if !copied {
        *to = from.clone();
    }
}

fn copy_cells<T: Copy>(to: Option<&mut [T]>, from: Option<&[T]>) -> bool {
    match (to, from) {
        (Some(to), Some(from)) if to.len() == from.len() => {
            to.copy_from_slice(from);
            true
        }
        _ => false,
    }
}

fn value<T>(shape: &[u64], data: Vec<T>) -> Result<Value, Failure>
where
    Value: From<rten_tensor::Tensor<T>>,
{
    let shape: Vec<usize> = shape.iter().map(|d| *d as usize).collect();
    Value::from_shape(shape, data).map_err(|e| invalid(format!("rten: {e}")))
}

fn cells<const N: usize, T>(bytes: &[u8], read: impl Fn([u8; N]) -> T) -> Vec<T> {
    bytes.as_chunks().0.iter().map(|c| read(*c)).collect()
}

fn bytes<const N: usize, T>(values: Vec<T>, write: impl Fn(T) -> [u8; N]) -> Vec<u8> {
    values.into_iter().flat_map(write).collect()
}

fn invalid(detail: String) -> Failure {
    Failure::new(FailureCode::InputInvalid, detail).hint("try --backend onnxruntime")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tensor(dtype: DType, shape: &[u64], bytes: &[u8]) -> Tensor {
        Tensor {
            name: "x".into(),
            dtype,
            shape: shape.into(),
            bytes: bytes.into(),
        }
    }

    #[test]
    fn every_type_that_is_taken_comes_back_as_it_was() {
        for dtype in DType::ALL.into_iter().filter(|d| takes(*d)) {
            // Small whole numbers, which no conversion rounds: 0 and 1 in each type's own form.
            let one: Vec<u8> = match dtype {
                DType::F16 => 0x3c00_u16.to_le_bytes().into(),
                DType::F32 => 1_f32.to_le_bytes().into(),
                DType::F64 => 1_f64.to_le_bytes().into(),
                _ => std::iter::once(1)
                    .chain(std::iter::repeat_n(0, dtype.size() - 1))
                    .collect(),
            };
            let before = tensor(dtype, &[2, 1], &[vec![0; dtype.size()], one].concat());
            let after = to_tensor("x", Some(dtype), &from_tensor(&before).unwrap()).unwrap();
            assert_eq!(after, before, "{dtype:?}");
        }
    }

    #[test]
    fn what_does_not_fit_is_refused_and_not_cut() {
        let large = tensor(DType::I64, &[1], &(1_i64 << 40).to_le_bytes());
        assert!(
            from_tensor(&large)
                .unwrap_err()
                .detail
                .contains("does not fit i32")
        );
        assert_eq!(
            from_tensor(&tensor(DType::U16, &[1], &[0, 0]))
                .unwrap_err()
                .code,
            FailureCode::InputInvalid
        );
    }

    #[test]
    fn copying_keeps_the_buffer_or_makes_a_new_one() {
        let mut to = value(&[2], vec![0_f32; 2]).unwrap();
        let from = value(&[2], vec![1_f32, 2.0]).unwrap();
        copy(&mut to, &from);
        assert_eq!(to, from);
        let other = value(&[1], vec![7_i32]).unwrap();
        copy(&mut to, &other);
        assert_eq!(to, other);
    }
}
