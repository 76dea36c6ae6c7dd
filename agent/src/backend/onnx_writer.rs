//! Writes small ONNX files for tests, field by field, so that no test depends on our own reader.

/// One dimension as a file may have it.
#[derive(Clone, Copy)]
pub(crate) enum D {
    Value(i64),
    Param(&'static str),
    Nothing,
}

pub(crate) fn varint(mut value: u64) -> Vec<u8> {
    let mut out = Vec::new();
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
    out
}

/// A field of a number.
pub(crate) fn number(field: u64, value: i64) -> Vec<u8> {
    [varint(field << 3), varint(value as u64)].concat()
}

/// A field of bytes: text or a message.
pub(crate) fn bytes(field: u64, value: impl AsRef<[u8]>) -> Vec<u8> {
    let value = value.as_ref();
    [
        varint(field << 3 | 2),
        varint(value.len() as u64),
        value.to_vec(),
    ]
    .concat()
}

/// `ValueInfoProto` of a tensor; without `dims` it has no shape.
pub(crate) fn value(name: &str, elem_type: i64, dims: Option<&[D]>) -> Vec<u8> {
    let shape = dims.map_or(Vec::new(), |dims| {
        let dims = dims.iter().map(|dim| match dim {
            D::Value(v) => bytes(1, number(1, *v)),
            D::Param(name) => bytes(1, bytes(2, name)),
            D::Nothing => bytes(1, []),
        });
        bytes(2, dims.collect::<Vec<_>>().concat())
    });
    let tensor = [number(1, elem_type), shape].concat();
    [bytes(1, name), bytes(2, bytes(1, tensor))].concat()
}

/// `TensorProto` of f32 with raw data.
pub(crate) fn floats(name: &str, dims: &[i64], values: &[f32]) -> Vec<u8> {
    let raw: Vec<u8> = values.iter().flat_map(|v| v.to_le_bytes()).collect();
    let dims = dims.iter().flat_map(|d| number(1, *d)).collect::<Vec<_>>();
    [dims, number(2, 1), bytes(8, name), bytes(9, raw)].concat()
}

/// `NodeProto` without attributes.
pub(crate) fn node(name: &str, op: &str, inputs: &[&str], outputs: &[&str]) -> Vec<u8> {
    let inputs = inputs.iter().flat_map(|i| bytes(1, i)).collect::<Vec<_>>();
    let outputs = outputs.iter().flat_map(|o| bytes(2, o)).collect::<Vec<_>>();
    [inputs, outputs, bytes(3, name), bytes(4, op)].concat()
}

/// A graph in parts, each a message of its own.
#[derive(Default)]
pub(crate) struct Graph {
    pub(crate) nodes: Vec<Vec<u8>>,
    pub(crate) initializers: Vec<Vec<u8>>,
    pub(crate) inputs: Vec<Vec<u8>>,
    pub(crate) outputs: Vec<Vec<u8>>,
}

impl Graph {
    /// The whole file: IR version 8, operator set 13.
    pub(crate) fn file(&self) -> Vec<u8> {
        self.file_for(13)
    }

    /// The whole file for an operator set.
    pub(crate) fn file_for(&self, opset: i64) -> Vec<u8> {
        let parts = [
            (1, &self.nodes),
            (5, &self.initializers),
            (11, &self.inputs),
            (12, &self.outputs),
        ];
        let mut graph = bytes(2, "g");
        for (field, messages) in parts {
            graph.extend(messages.iter().flat_map(|m| bytes(field, m)));
        }
        let opset = [bytes(1, ""), number(2, opset)].concat();
        [
            number(1, 8),
            bytes(2, "edgedyno test"),
            bytes(7, graph),
            bytes(8, opset),
        ]
        .concat()
    }
}

/// `y = x · w + b` of any number of rows: x is `batch`×3, w 3×2.
pub(crate) fn linear() -> Vec<u8> {
    Graph {
        nodes: vec![
            node("multiply", "MatMul", &["x", "w"], &["t"]),
            node("shift", "Add", &["t", "b"], &["y"]),
        ],
        initializers: vec![
            floats("w", &[3, 2], &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]),
            floats("b", &[2], &[0.5, -0.5]),
        ],
        inputs: vec![value("x", 1, Some(&[D::Param("batch"), D::Value(3)]))],
        outputs: vec![value("y", 1, Some(&[D::Param("batch"), D::Value(2)]))],
    }
    .file()
}
