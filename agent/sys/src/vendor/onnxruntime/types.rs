//! The runtime's numbers for types, and their names.

use std::ffi::c_int;

use crate::vendor::value::ElementType;

/// Element types that a buffer of plain numbers holds, by their numbers in the header.
const ELEMENTS: [(c_int, ElementType); 13] = [
    (1, ElementType::F32),
    (2, ElementType::U8),
    (3, ElementType::I8),
    (4, ElementType::U16),
    (5, ElementType::I16),
    (6, ElementType::I32),
    (7, ElementType::I64),
    (9, ElementType::Bool),
    (10, ElementType::F16),
    (11, ElementType::F64),
    (12, ElementType::U32),
    (13, ElementType::U64),
    (16, ElementType::Bf16),
];

/// The element type of a number of the header's, if it can be bound.
pub(super) fn element_of(code: c_int) -> Option<ElementType> {
    ELEMENTS
        .iter()
        .find(|(known, _)| *known == code)
        .map(|(_, element)| *element)
}

/// The header's number of an element type.
pub(super) fn code_of(element: ElementType) -> c_int {
    // Zero is "undefined", which the runtime refuses; every element type is in the list.
    ELEMENTS
        .iter()
        .find(|(_, known)| *known == element)
        .map_or(0, |(code, _)| *code)
}

/// The name of an element type that cannot be bound.
pub(super) fn element_name(code: c_int) -> String {
    let name = match code {
        0 => "undefined",
        8 => "string",
        14 => "complex64",
        15 => "complex128",
        17 => "float8e4m3fn",
        18 => "float8e4m3fnuz",
        19 => "float8e5m2",
        20 => "float8e5m2fnuz",
        21 => "uint4",
        22 => "int4",
        23 => "float4e2m1",
        _ => return format!("element type {code}"),
    };
    name.into()
}

/// The name of a type that is no tensor (`ONNXType`).
pub(super) fn container_name(kind: c_int) -> &'static str {
    match kind {
        2 => "sequence",
        3 => "map",
        4 => "opaque",
        5 => "sparse tensor",
        6 => "optional",
        _ => "unknown",
    }
}
