//! What an ONNX file says about itself.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Serialize, Serializer};

use super::element::ElementType;

/// Facts read from an ONNX file without loading its weights.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ModelFacts {
    pub ir_version: i64,
    pub opsets: Vec<Opset>,
    /// None when the file names no producer.
    pub producer: Option<Producer>,
    /// What a caller must give: initializers that are also listed as inputs are left out.
    pub inputs: Vec<ValueFacts>,
    pub outputs: Vec<ValueFacts>,
    /// Nodes by operator, those of subgraphs and functions included; `domain:op` outside ONNX's own.
    pub ops: BTreeMap<String, u64>,
    /// Elements of all stored weights: initializers, sparse values and `Constant` nodes.
    pub parameters: u64,
    /// Bytes those elements take, wherever they are stored; text counts as none.
    pub parameter_bytes: u64,
    /// Weight files, relative to the folder of the model, sorted.
    pub external_files: Vec<ExternalFile>,
}

impl ModelFacts {
    /// Nodes of all operators.
    pub fn nodes(&self) -> u64 {
        self.ops.values().sum()
    }
}

/// An imported operator set; the empty domain is ONNX itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Opset {
    pub domain: String,
    pub version: i64,
}

/// The program that wrote the file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Producer {
    pub name: String,
    pub version: String,
}

/// A file with weights.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ExternalFile {
    /// As written in the model: relative, without `..`.
    pub name: String,
    /// The end of the last tensor in it, as far as the model says.
    pub needs_bytes: u64,
}

/// An input or an output.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ValueFacts {
    pub name: String,
    #[serde(flatten)]
    pub kind: ValueKind,
}

/// What a value is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum ValueKind {
    /// A tensor; no dims means that not even the rank is known.
    Tensor {
        dtype: ElementType,
        dims: Option<Vec<Dim>>,
    },
    Sequence,
    Map,
    Optional,
    Opaque,
    SparseTensor,
    /// The file does not say, or says it in a way that is newer than this tool.
    Unknown,
}

/// One dim of a tensor.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Dim {
    Fixed(u64),
    Symbolic(String),
    Unknown,
}

impl fmt::Display for Dim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Fixed(size) => write!(f, "{size}"),
            Self::Symbolic(name) => f.write_str(name),
            Self::Unknown => f.write_str("?"),
        }
    }
}

/// A number, a name, or null.
impl Serialize for Dim {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Fixed(size) => serializer.serialize_u64(*size),
            Self::Symbolic(name) => serializer.serialize_str(name),
            Self::Unknown => serializer.serialize_none(),
        }
    }
}
