//! The element types of ONNX tensors.

use std::fmt;

use serde::{Serialize, Serializer};

/// An element type by its ONNX number; a number newer than this table is kept, not lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ElementType(pub i32);

impl ElementType {
    pub const F32: Self = Self(1);
    pub const U8: Self = Self(2);
    pub const I8: Self = Self(3);
    pub const I16: Self = Self(5);
    pub const I32: Self = Self(6);
    pub const I64: Self = Self(7);
    pub const BOOL: Self = Self(9);
    pub const F16: Self = Self(10);
    pub const F64: Self = Self(11);

    /// The name used in this tool's output, or none for a number that is not in the table.
    pub fn name(self) -> Option<&'static str> {
        self.row().map(|row| row.1)
    }

    /// Bits of one element; none for text and for a type that is not in the table.
    pub fn bits(self) -> Option<u64> {
        self.row().map(|row| row.2).filter(|&bits| bits > 0)
    }

    fn row(self) -> Option<&'static (i32, &'static str, u64)> {
        ELEMENT_TYPES.iter().find(|row| row.0 == self.0)
    }
}

/// `TensorProto.DataType`: number, our name, bits of one element (0: not fixed).
const ELEMENT_TYPES: &[(i32, &str, u64)] = &[
    (1, "f32", 32),
    (2, "u8", 8),
    (3, "i8", 8),
    (4, "u16", 16),
    (5, "i16", 16),
    (6, "i32", 32),
    (7, "i64", 64),
    (8, "string", 0),
    (9, "bool", 8),
    (10, "f16", 16),
    (11, "f64", 64),
    (12, "u32", 32),
    (13, "u64", 64),
    (14, "complex64", 64),
    (15, "complex128", 128),
    (16, "bf16", 16),
    (17, "f8e4m3fn", 8),
    (18, "f8e4m3fnuz", 8),
    (19, "f8e5m2", 8),
    (20, "f8e5m2fnuz", 8),
    (21, "u4", 4),
    (22, "i4", 4),
    (23, "f4e2m1", 4),
    (24, "f8e8m0", 8),
    (25, "u2", 2),
    (26, "i2", 2),
    (27, "f6e2m3", 6),
    (28, "f6e3m2", 6),
];

impl fmt::Display for ElementType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name() {
            Some(name) => f.write_str(name),
            None => write!(f, "type{}", self.0),
        }
    }
}

impl Serialize for ElementType {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_dense_and_an_unknown_number_keeps_its_value() {
        let numbers: Vec<i32> = ELEMENT_TYPES.iter().map(|row| row.0).collect();
        assert_eq!(numbers, (1..=28).collect::<Vec<_>>());
        assert_eq!(ElementType(99).to_string(), "type99");
        assert_eq!(
            (ElementType::F16.bits(), ElementType(8).bits()),
            (Some(16), None)
        );
    }
}
