//! Tensors in host memory.

use edgedyno_shared::case::InputPolicy;
use edgedyno_shared::ids::Sha256;
use sha2::{Digest, Sha256 as Hasher};

/// Element types that inputs and outputs may have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DType {
    F16,
    F32,
    F64,
    I8,
    I16,
    I32,
    I64,
    U8,
    U16,
    U32,
    U64,
    Bool,
}

impl DType {
    pub const ALL: [Self; 12] = [
        Self::F16,
        Self::F32,
        Self::F64,
        Self::I8,
        Self::I16,
        Self::I32,
        Self::I64,
        Self::U8,
        Self::U16,
        Self::U32,
        Self::U64,
        Self::Bool,
    ];

    /// Bytes of one element.
    pub const fn size(self) -> usize {
        match self {
            Self::I8 | Self::U8 | Self::Bool => 1,
            Self::F16 | Self::I16 | Self::U16 => 2,
            Self::F32 | Self::I32 | Self::U32 => 4,
            Self::F64 | Self::I64 | Self::U64 => 8,
        }
    }

    pub const fn name(self) -> &'static str {
        match self {
            Self::F16 => "f16",
            Self::F32 => "f32",
            Self::F64 => "f64",
            Self::I8 => "i8",
            Self::I16 => "i16",
            Self::I32 => "i32",
            Self::I64 => "i64",
            Self::U8 => "u8",
            Self::U16 => "u16",
            Self::U32 => "u32",
            Self::U64 => "u64",
            Self::Bool => "bool",
        }
    }

    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|d| d.name() == name)
    }
}

/// A dense tensor in row-major order, elements little-endian.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tensor {
    pub name: String,
    pub dtype: DType,
    pub shape: Vec<u64>,
    pub bytes: Vec<u8>,
}

impl Tensor {
    /// Number of elements of a shape; none on overflow.
    pub fn elements(shape: &[u64]) -> Option<u64> {
        shape.iter().try_fold(1_u64, |n, d| n.checked_mul(*d))
    }

    pub fn sha256(&self) -> Sha256 {
        Sha256(Hasher::digest(&self.bytes).into())
    }
}

/// The inputs of a repeat: at least one set, each with one tensor for every input, in the model's order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InputSets {
    pub sets: Vec<Vec<Tensor>>,
    pub policy: InputPolicy,
    /// Draws the values of [`InputPolicy::Fresh`].
    pub seed: u64,
    pub generator: edgedyno_shared::case::Generator,
}

impl InputSets {
    /// SHA-256 over the bytes of all sets, in order.
    pub fn sha256(&self) -> Sha256 {
        let mut hash = Hasher::new();
        for tensor in self.sets.iter().flatten() {
            hash.update(&tensor.bytes);
        }
        Sha256(hash.finalize().into())
    }
}

/// `1x3x224x224`; a scalar is `scalar`.
pub(crate) fn shape_text(shape: &[u64]) -> String {
    if shape.is_empty() {
        return "scalar".into();
    }
    shape
        .iter()
        .map(u64::to_string)
        .collect::<Vec<_>>()
        .join("x")
}
