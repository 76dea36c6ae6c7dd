//! Tensors in memory of our own.
//!
//! Every runtime takes these: the buffer is aligned to 64 bytes, which LiteRT demands and which keeps
//! the others from copying an input to where their vector instructions want it.

use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::ptr::NonNull;
use std::slice;

use super::value::{ElementType, shape_text};

const ALIGNMENT: usize = 64;
const SMALLEST_PAGE: usize = 4096;

/// A tensor in a buffer of its own, aligned to 64 bytes and with every page in memory.
#[derive(Debug)]
pub struct Tensor {
    element: ElementType,
    shape: Vec<u64>,
    buffer: Buffer,
}

impl Tensor {
    /// A tensor of zeros.
    ///
    /// # Errors
    ///
    /// When there is no memory for that shape.
    pub fn zeroed(element: ElementType, shape: &[u64]) -> Result<Self, TensorError> {
        let too_large = || TensorError::TooLarge {
            element,
            shape: shape_text(shape),
        };
        let count = shape
            .iter()
            .try_fold(1_u64, |count, &dim| count.checked_mul(dim))
            .ok_or_else(too_large)?;
        let bytes = usize::try_from(count)
            .ok()
            .and_then(|count| count.checked_mul(element.bytes()))
            .ok_or_else(too_large)?;
        let buffer = Buffer::zeroed(bytes).ok_or_else(too_large)?;
        Ok(Self {
            element,
            shape: shape.to_vec(),
            buffer,
        })
    }

    /// A tensor with a copy of `bytes`, in the machine's byte order.
    ///
    /// # Errors
    ///
    /// When the number of bytes does not fit the shape, or there is no memory.
    pub fn from_bytes(
        element: ElementType,
        shape: &[u64],
        bytes: &[u8],
    ) -> Result<Self, TensorError> {
        let mut tensor = Self::zeroed(element, shape)?;
        if bytes.len() != tensor.bytes().len() {
            return Err(TensorError::WrongLength {
                given: bytes.len(),
                wanted: tensor.bytes().len(),
            });
        }
        tensor.bytes_mut().copy_from_slice(bytes);
        Ok(tensor)
    }

    /// A tensor with a copy of `values`.
    ///
    /// # Errors
    ///
    /// When the number of values does not fit the shape, or there is no memory.
    pub fn from_values<T: Plain>(shape: &[u64], values: &[T]) -> Result<Self, TensorError> {
        // SAFETY: plain numbers have no padding, so all their bytes can be read.
        let bytes = unsafe { slice::from_raw_parts(values.as_ptr().cast(), size_of_val(values)) };
        Self::from_bytes(T::ELEMENT, shape, bytes)
    }

    /// The type of its elements.
    pub fn element(&self) -> ElementType {
        self.element
    }

    /// Its dimensions, outermost first.
    pub fn shape(&self) -> &[u64] {
        &self.shape
    }

    /// Its contents.
    pub fn bytes(&self) -> &[u8] {
        // SAFETY: the buffer holds that many initialised bytes and lives as long as `self`. Runtimes write
        // to it only during a run, for which the owner of both must be borrowed mutably.
        unsafe { slice::from_raw_parts(self.buffer.start.as_ptr(), self.buffer.bytes) }
    }

    /// Its contents, to be changed.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: as in `bytes`, and `self` is borrowed mutably.
        unsafe { slice::from_raw_parts_mut(self.buffer.start.as_ptr(), self.buffer.bytes) }
    }

    /// Its elements, when they are of type `T`.
    pub fn values<T: Plain>(&self) -> Option<&[T]> {
        let count = self.buffer.bytes / size_of::<T>();
        // SAFETY: the buffer is aligned for every plain type, and any bit pattern is a valid number.
        (T::ELEMENT == self.element)
            .then(|| unsafe { slice::from_raw_parts(self.buffer.start.as_ptr().cast(), count) })
    }

    /// Where the elements are, for the C interfaces.
    pub(crate) fn address(&mut self) -> *mut u8 {
        self.buffer.start.as_ptr()
    }
}

/// Why a tensor cannot be made.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TensorError {
    /// The shape needs more memory than there is.
    #[error("no memory for a tensor of {element} with shape {shape}")]
    TooLarge {
        /// The type of its elements.
        element: ElementType,
        /// The shape asked for.
        shape: String,
    },
    /// The contents are of another length.
    #[error("{given} bytes given for a tensor of {wanted} bytes")]
    WrongLength {
        /// Length of the contents.
        given: usize,
        /// Length of the tensor.
        wanted: usize,
    },
}

/// A number that tensors hold as it is.
pub trait Plain: sealed::Sealed + Copy {
    /// Its type in a tensor.
    const ELEMENT: ElementType;
}

mod sealed {
    pub trait Sealed {}
}

macro_rules! plain {
    ($($number:ty => $element:ident),* $(,)?) => {$(
        impl sealed::Sealed for $number {}
        impl Plain for $number {
            const ELEMENT: ElementType = ElementType::$element;
        }
    )*};
}

// Not bool: a runtime may write any byte, and most bytes are no bool.
plain! {
    f64 => F64, f32 => F32, i64 => I64, i32 => I32, i16 => I16, i8 => I8,
    u64 => U64, u32 => U32, u16 => U16, u8 => U8,
}

#[derive(Debug)]
struct Buffer {
    start: NonNull<u8>,
    bytes: usize,
    layout: Layout,
}

impl Buffer {
    fn zeroed(bytes: usize) -> Option<Self> {
        // One line more than asked for: vector code may read a little beyond the last element.
        let padded = bytes
            .checked_next_multiple_of(ALIGNMENT)?
            .checked_add(ALIGNMENT)?;
        let layout = Layout::from_size_align(padded, ALIGNMENT).ok()?;
        // SAFETY: the layout is not of size zero.
        let start = NonNull::new(unsafe { alloc_zeroed(layout) })?;
        for offset in (0..padded).step_by(SMALLEST_PAGE) {
            // SAFETY: the offset is inside the allocation.
            let byte = unsafe { start.add(offset) };
            // A page never written is the kernel's one page of zeros: reading it costs a fault first and
            // no memory traffic later. The write is volatile lest it be left out as without effect.
            // SAFETY: the byte is ours.
            unsafe { byte.write_volatile(0) };
        }
        Some(Self {
            start,
            bytes,
            layout,
        })
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        // SAFETY: allocated with this layout by `zeroed`.
        unsafe { dealloc(self.start.as_ptr(), self.layout) };
    }
}

// SAFETY: the memory is owned, and shared references only read it.
unsafe impl Send for Buffer {}

// SAFETY: as above.
unsafe impl Sync for Buffer {}
