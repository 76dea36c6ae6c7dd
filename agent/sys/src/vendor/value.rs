//! What a model says about its inputs and outputs, in words common to all runtimes.

use std::fmt;

/// The type of one element of a tensor.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "the names say it all")]
pub enum ElementType {
    F64,
    F32,
    F16,
    Bf16,
    I64,
    I32,
    I16,
    I8,
    U64,
    U32,
    U16,
    U8,
    Bool,
}

impl ElementType {
    /// Size of one element.
    pub fn bytes(self) -> usize {
        match self {
            Self::F64 | Self::I64 | Self::U64 => 8,
            Self::F32 | Self::I32 | Self::U32 => 4,
            Self::F16 | Self::Bf16 | Self::I16 | Self::U16 => 2,
            Self::I8 | Self::U8 | Self::Bool => 1,
        }
    }

    /// The name used in files and messages.
    pub fn name(self) -> &'static str {
        match self {
            Self::F64 => "f64",
            Self::F32 => "f32",
            Self::F16 => "f16",
            Self::Bf16 => "bf16",
            Self::I64 => "i64",
            Self::I32 => "i32",
            Self::I16 => "i16",
            Self::I8 => "i8",
            Self::U64 => "u64",
            Self::U32 => "u32",
            Self::U16 => "u16",
            Self::U8 => "u8",
            Self::Bool => "bool",
        }
    }
}

impl fmt::Display for ElementType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// One dimension of an input or output as the model declares it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Dim {
    /// Always this size.
    Fixed(u64),
    /// Free, under a name that can be set before loading.
    Named(String),
    /// Free, without a name.
    Unknown,
}

impl fmt::Display for Dim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Fixed(size) => write!(f, "{size}"),
            Self::Named(name) => f.write_str(name),
            Self::Unknown => f.write_str("?"),
        }
    }
}

/// An input or output of a model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ValueInfo {
    /// Its name in the model.
    pub name: String,
    /// What it holds.
    pub kind: ValueKind,
}

/// What an input or output holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ValueKind {
    /// A tensor that can be bound.
    Tensor {
        /// The type of its elements.
        element: ElementType,
        /// Its dimensions, outermost first.
        dims: Vec<Dim>,
    },
    /// Something that no buffer of plain numbers can hold, by the runtime's name for it.
    Unsupported(String),
}

/// Writes dimensions as `1x3xHx?`, and `scalar` when there are none.
pub fn shape_text<D: fmt::Display>(dims: &[D]) -> String {
    if dims.is_empty() {
        return "scalar".into();
    }
    dims.iter()
        .map(ToString::to_string)
        .collect::<Vec<_>>()
        .join("x")
}
