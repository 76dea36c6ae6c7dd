//! Tensors: alignment, contents, and shapes that cannot be.

use edgedyno_sys::vendor::tensor::{Tensor, TensorError};
use edgedyno_sys::vendor::value::{Dim, ElementType, shape_text};

#[test]
fn buffers_are_aligned_and_zero() {
    for count in [0, 1, 15, 4097] {
        let tensor = Tensor::zeroed(ElementType::F16, &[count]).unwrap();

        assert_eq!(tensor.bytes().as_ptr() as usize % 64, 0);
        assert_eq!(tensor.bytes().len() as u64, 2 * count);
        assert!(tensor.bytes().iter().all(|&byte| byte == 0));
    }
}

#[test]
fn values_come_back_under_their_own_type_only() {
    let mut tensor = Tensor::from_values(&[2, 2], &[1_i32, -2, 3, -4]).unwrap();
    tensor.bytes_mut()[..4].copy_from_slice(&7_i32.to_ne_bytes());

    assert_eq!(tensor.values::<i32>(), Some(&[7, -2, 3, -4][..]));
    assert_eq!(tensor.values::<u32>(), None);
    assert_eq!(tensor.values::<i64>(), None);
    assert_eq!(
        (tensor.element(), tensor.shape()),
        (ElementType::I32, &[2, 2][..])
    );
}

#[test]
fn a_scalar_has_one_element() {
    let tensor = Tensor::from_values(&[], &[16_000_i64]).unwrap();

    assert_eq!(tensor.values::<i64>(), Some(&[16_000][..]));
    assert_eq!(shape_text(tensor.shape()), "scalar");
}

#[test]
fn contents_must_fit_the_shape() {
    let error = Tensor::from_values(&[3], &[1_u8, 2]).unwrap_err();

    assert_eq!(
        error,
        TensorError::WrongLength {
            given: 2,
            wanted: 3
        }
    );
}

#[test]
fn a_shape_beyond_memory_is_an_error_and_not_an_abort() {
    for shape in [&[u64::MAX, 2][..], &[1 << 62], &[1 << 50]] {
        let error = Tensor::zeroed(ElementType::F64, shape).unwrap_err();
        assert_eq!(
            error,
            TensorError::TooLarge {
                element: ElementType::F64,
                shape: shape_text(shape)
            }
        );
    }
}

#[test]
fn free_dimensions_are_shown_by_name() {
    let dims = [Dim::Named("N".into()), Dim::Fixed(3), Dim::Unknown];

    assert_eq!(shape_text(&dims), "Nx3x?");
}
