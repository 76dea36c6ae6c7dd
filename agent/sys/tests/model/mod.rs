//! Writes ONNX models of one operator, in the encoding of protocol buffers.
//!
//! Field numbers are those of `onnx.proto3`.

use std::path::{Path, PathBuf};

/// An input or output: name, element type, dimensions. A dimension is a number, a name or `?`.
pub(crate) type Value<'a> = (&'a str, &'a str, &'a [&'a str]);

/// Writes a model that applies one operator, and returns its path.
pub(crate) fn write(
    folder: &Path,
    operator: &str,
    inputs: &[Value<'_>],
    outputs: &[Value<'_>],
) -> PathBuf {
    let path = folder.join(format!("{operator}.onnx"));
    std::fs::write(&path, model(operator, inputs, outputs))
        .expect("a temporary folder can be written");
    path
}

fn model(operator: &str, inputs: &[Value<'_>], outputs: &[Value<'_>]) -> Vec<u8> {
    let mut node = Vec::new();
    for (name, ..) in inputs {
        node.extend(bytes(1, name.as_bytes()));
    }
    for (name, ..) in outputs {
        node.extend(bytes(2, name.as_bytes()));
    }
    node.extend(bytes(4, operator.as_bytes()));

    let mut graph = [bytes(1, &node), bytes(2, b"one operator")].concat();
    for input in inputs {
        graph.extend(bytes(11, &value(input)));
    }
    for output in outputs {
        graph.extend(bytes(12, &value(output)));
    }
    [number(1, 8), bytes(7, &graph), bytes(8, &number(2, 13))].concat()
}

fn value((name, element, dims): &Value<'_>) -> Vec<u8> {
    let dims: Vec<u8> = dims
        .iter()
        .flat_map(|dim| bytes(1, &dimension(dim)))
        .collect();
    let tensor = [number(1, element_number(element)), bytes(2, &dims)].concat();
    [bytes(1, name.as_bytes()), bytes(2, &bytes(1, &tensor))].concat()
}

fn element_number(name: &str) -> u64 {
    match name {
        "float" => 1,
        "int64" => 7,
        "string" => 8,
        other => panic!("add the number of {other} from TensorProto.DataType"),
    }
}

fn dimension(dim: &str) -> Vec<u8> {
    match dim.parse() {
        Ok(size) => number(1, size),
        Err(_) if dim == "?" => Vec::new(),
        Err(_) => bytes(2, dim.as_bytes()),
    }
}

fn bytes(field: u64, content: &[u8]) -> Vec<u8> {
    [
        varint(field << 3 | 2),
        varint(content.len() as u64),
        content.to_vec(),
    ]
    .concat()
}

fn number(field: u64, value: u64) -> Vec<u8> {
    [varint(field << 3), varint(value)].concat()
}

fn varint(mut value: u64) -> Vec<u8> {
    let mut encoded = Vec::new();
    while value >= 0x80 {
        encoded.push(value as u8 | 0x80);
        value >>= 7;
    }
    encoded.push(value as u8);
    encoded
}
