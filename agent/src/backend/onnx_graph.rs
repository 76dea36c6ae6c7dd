//! Inputs and outputs of an ONNX file, read without loading its weights.
//!
//! A session fixes named dimensions before it exists, so their names must be known before the
//! runtime is asked. This walks the file's protobuf fields and skips everything else by its length:
//! a model of gigabytes costs a few reads. Field numbers are those of `onnx.proto` (ONNX 1.23).

mod files;

use std::collections::{BTreeSet, HashSet};
use std::fs::File;
use std::io::{self, BufReader, Read, Seek};
use std::path::Path;

use edgedyno_shared::device::{Fact, Reading};
use edgedyno_shared::repeat::{Dim, ModelInfo, TensorInfo};
use edgedyno_shared::wire::failure::{Failure, FailureCode};

use crate::inputs::DType;
use crate::inputs::resolve::{Declared, Resolved};

/// What a runtime is told about before it loads the file.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct GraphFacts {
    pub producer: String,
    /// Version of the default operator set.
    pub opset: Option<i64>,
    /// Inputs that a caller must give: those without an initializer of the same name.
    pub inputs: Vec<ValueInfo>,
    pub outputs: Vec<ValueInfo>,
    /// Types of the graph's nodes; those of branches and loop bodies are not looked into.
    pub operators: BTreeSet<String>,
}

/// One input or output of the graph.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ValueInfo {
    pub name: String,
    /// The code of `TensorProto.DataType`; 0 for what is not a dense tensor.
    pub elem_type: i32,
    /// None when the file gives no shape at all.
    pub dims: Option<Vec<Dim>>,
}

impl ValueInfo {
    /// The element type; none for text, complex numbers, packed and 8-bit floats.
    pub fn dtype(&self) -> Option<DType> {
        Some(match self.elem_type {
            1 => DType::F32,
            2 => DType::U8,
            3 => DType::I8,
            4 => DType::U16,
            5 => DType::I16,
            6 => DType::I32,
            7 => DType::I64,
            9 => DType::Bool,
            10 => DType::F16,
            11 => DType::F64,
            12 => DType::U32,
            13 => DType::U64,
            _ => return None,
        })
    }
}

impl ValueInfo {
    /// As a repeat records it; `effective` once it is known.
    pub fn describe(&self, effective: Option<Vec<u64>>) -> TensorInfo {
        let dtype = self.dtype().map(|d| d.name().to_owned());
        TensorInfo {
            name: self.name.clone(),
            dtype: dtype.unwrap_or_else(|| self.other_type()),
            declared: self.dims.clone().unwrap_or_default(),
            effective,
        }
    }

    /// The name of a type that no tensor here has.
    fn other_type(&self) -> String {
        match self.elem_type {
            0 => "no tensor".into(),
            8 => "string".into(),
            14 => "complex64".into(),
            15 => "complex128".into(),
            16 => "bf16".into(),
            code => format!("ONNX type {code}"),
        }
    }
}

impl GraphFacts {
    /// What [`crate::inputs::resolve`] asks for.
    pub fn declared(&self) -> Vec<Declared> {
        let declared = |i: &ValueInfo| Declared {
            name: i.name.clone(),
            dims: i.dims.clone(),
        };
        self.inputs.iter().map(declared).collect()
    }

    /// The model as a repeat records it, with the dimensions that were resolved for it.
    pub fn describe(&self, resolved: &Resolved) -> ModelInfo {
        let value = |dim: &Dim| match dim {
            Dim::Fixed(value) => Some(*value),
            Dim::Symbol(name) => resolved.symbols.get(name).copied(),
            Dim::Unknown => None,
        };
        let known = |o: &ValueInfo| o.dims.as_ref()?.iter().map(value).collect();
        let inputs = self.inputs.iter().zip(&resolved.shapes);
        let fact = |name: &str, value: String| Fact {
            name: name.into(),
            value: Reading::Ok(value),
        };
        let mut facts = vec![fact("producer", self.producer.clone())];
        facts.extend(self.opset.map(|version| fact("opset", version.to_string())));
        ModelInfo {
            inputs: inputs
                .map(|(i, shape)| i.describe(Some(shape.clone())))
                .collect(),
            outputs: self.outputs.iter().map(|o| o.describe(known(o))).collect(),
            facts,
        }
    }
}

/// Why the bytes are not an ONNX model.
#[derive(Debug, thiserror::Error)]
pub enum GraphError {
    #[error("not an ONNX model: {0}")]
    NotOnnx(&'static str),
    #[error("truncated: the file ends after {have} bytes, a field at {at} needs {need} more")]
    Truncated { at: u64, need: u64, have: u64 },
    #[error("it has data in `{}`, which is no file in its folder", .0.escape_debug())]
    Outside(String),
    #[error("cannot be read: {0}")]
    Io(#[from] io::Error),
}

/// Reads the graph facts of a file.
///
/// # Errors
/// [`FailureCode::ModelUnreadable`] when it cannot be read, is cut short or is no ONNX model.
pub fn read(path: &Path) -> Result<GraphFacts, Failure> {
    let facts = File::open(path)
        .map_err(GraphError::Io)
        .and_then(|file| read_from(BufReader::with_capacity(64 << 10, file)));
    facts.map_err(|e| {
        let failure = Failure::new(
            FailureCode::ModelUnreadable,
            format!("model {}: {e}", path.display()),
        );
        match e {
            GraphError::NotOnnx(_) => failure.hint("give an .onnx file"),
            GraphError::Truncated { .. } => failure.hint("copy or download the model again"),
            GraphError::Outside(_) => {
                failure.hint("put its weight files beside it, and export it with their plain names")
            }
            GraphError::Io(_) => failure,
        }
    })
}

/// Reads the graph facts of anything seekable, and sees that all of the model lies in its own folder.
pub fn read_from(source: impl Read + Seek) -> Result<GraphFacts, GraphError> {
    let mut walk = Walk::new(source)?;
    let mut facts = GraphFacts::default();
    let mut initialized = HashSet::new();
    let mut has_graph = false;
    let end = walk.length;
    while let Some(field) = walk.field(end)? {
        match field {
            (2, Wire::Bytes(to)) => facts.producer = walk.text(to)?,
            (7, Wire::Bytes(to)) => {
                has_graph = true;
                graph(&mut walk, to, &mut facts, &mut initialized)?;
            }
            (8, Wire::Bytes(to)) => {
                if let Some(version) = default_opset(&mut walk, to)? {
                    facts.opset = Some(version);
                }
            }
            other => walk.skip(other)?,
        }
    }
    if !has_graph {
        return Err(GraphError::NotOnnx("it holds no graph"));
    }
    facts.inputs.retain(|i| !initialized.contains(&i.name));
    files::check(&mut walk.again()?)?;
    Ok(facts)
}

/// `GraphProto`: node 1, initializer 5, input 11, output 12, sparse_initializer 15.
fn graph<S: Read + Seek>(
    walk: &mut Walk<S>,
    end: u64,
    facts: &mut GraphFacts,
    initialized: &mut HashSet<String>,
) -> Result<(), GraphError> {
    while let Some(field) = walk.field(end)? {
        match field {
            (1, Wire::Bytes(to)) => {
                facts.operators.insert(node_type(walk, to)?);
            }
            (5, Wire::Bytes(to)) => {
                initialized.insert(tensor_name(walk, to)?);
            }
            (11, Wire::Bytes(to)) => facts.inputs.push(value_info(walk, to)?),
            (12, Wire::Bytes(to)) => {
                facts.outputs.push(value_info(walk, to)?);
            }
            (15, Wire::Bytes(to)) => {
                initialized.insert(sparse_name(walk, to)?);
            }
            other => walk.skip(other)?,
        }
    }
    Ok(())
}

/// `NodeProto`: op_type 4.
fn node_type<S: Read + Seek>(walk: &mut Walk<S>, end: u64) -> Result<String, GraphError> {
    let mut name = String::new();
    while let Some(field) = walk.field(end)? {
        match field {
            (4, Wire::Bytes(to)) => name = walk.text(to)?,
            other => walk.skip(other)?,
        }
    }
    Ok(name)
}

/// `OperatorSetIdProto`: domain 1, version 2; none for another domain than the default.
fn default_opset<S: Read + Seek>(walk: &mut Walk<S>, end: u64) -> Result<Option<i64>, GraphError> {
    let (mut domain, mut version) = (String::new(), None);
    while let Some(field) = walk.field(end)? {
        match field {
            (1, Wire::Bytes(to)) => domain = walk.text(to)?,
            (2, Wire::Varint(value)) => version = Some(value as i64),
            other => walk.skip(other)?,
        }
    }
    Ok(version.filter(|_| domain.is_empty() || domain == "ai.onnx"))
}

/// `TensorProto`: name 8.
fn tensor_name<S: Read + Seek>(walk: &mut Walk<S>, end: u64) -> Result<String, GraphError> {
    let mut name = String::new();
    while let Some(field) = walk.field(end)? {
        match field {
            (8, Wire::Bytes(to)) => name = walk.text(to)?,
            other => walk.skip(other)?,
        }
    }
    Ok(name)
}

/// `SparseTensorProto`: values 1, whose name is the initializer's.
fn sparse_name<S: Read + Seek>(walk: &mut Walk<S>, end: u64) -> Result<String, GraphError> {
    let mut name = String::new();
    while let Some(field) = walk.field(end)? {
        match field {
            (1, Wire::Bytes(to)) => name = tensor_name(walk, to)?,
            other => walk.skip(other)?,
        }
    }
    Ok(name)
}

/// `ValueInfoProto`: name 1, type 2.
fn value_info<S: Read + Seek>(walk: &mut Walk<S>, end: u64) -> Result<ValueInfo, GraphError> {
    let mut info = ValueInfo::default();
    while let Some(field) = walk.field(end)? {
        match field {
            (1, Wire::Bytes(to)) => info.name = walk.text(to)?,
            (2, Wire::Bytes(to)) => type_proto(walk, to, &mut info)?,
            other => walk.skip(other)?,
        }
    }
    Ok(info)
}

/// `TypeProto`: tensor_type 1, with elem_type 1 and shape 2.
fn type_proto<S: Read + Seek>(
    walk: &mut Walk<S>,
    end: u64,
    info: &mut ValueInfo,
) -> Result<(), GraphError> {
    while let Some(field) = walk.field(end)? {
        let (1, Wire::Bytes(to)) = field else {
            walk.skip(field)?;
            continue;
        };
        while let Some(field) = walk.field(to)? {
            match field {
                (1, Wire::Varint(code)) => info.elem_type = code as i32,
                (2, Wire::Bytes(to)) => info.dims = Some(shape(walk, to)?),
                other => walk.skip(other)?,
            }
        }
    }
    Ok(())
}

/// `TensorShapeProto`: dim 1, each with dim_value 1 or dim_param 2.
fn shape<S: Read + Seek>(walk: &mut Walk<S>, end: u64) -> Result<Vec<Dim>, GraphError> {
    let mut dims = Vec::new();
    while let Some(field) = walk.field(end)? {
        let (1, Wire::Bytes(to)) = field else {
            walk.skip(field)?;
            continue;
        };
        let mut dim = Dim::Unknown;
        while let Some(field) = walk.field(to)? {
            match field {
                // Exporters write -1 for a dimension that they do not know.
                (1, Wire::Varint(value)) => {
                    dim = u64::try_from(value as i64).map_or(Dim::Unknown, Dim::Fixed);
                }
                (2, Wire::Bytes(to)) => {
                    let name = walk.text(to)?;
                    dim = match is_a_name(&name) {
                        true => Dim::Symbol(name),
                        false => Dim::Unknown,
                    };
                }
                other => walk.skip(other)?,
            }
        }
        dims.push(dim);
    }
    Ok(dims)
}

/// Exporters also write `?` or Python's `None`, and mean that each may have another size.
fn is_a_name(text: &str) -> bool {
    text != "None" && text.chars().any(char::is_alphabetic)
}

/// What follows a field's tag.
enum Wire {
    Varint(u64),
    /// Length-delimited: the position where it ends.
    Bytes(u64),
    /// So many bytes that nothing here needs.
    Fixed(u64),
}

/// A cursor that never believes a length beyond the message it stands in.
struct Walk<S> {
    source: S,
    at: u64,
    length: u64,
}

impl<S: Read + Seek> Walk<S> {
    fn new(mut source: S) -> Result<Self, GraphError> {
        let length = source.seek(io::SeekFrom::End(0))?;
        source.rewind()?;
        Ok(Self {
            source,
            at: 0,
            length,
        })
    }

    /// The same from its beginning.
    fn again(mut self) -> Result<Self, GraphError> {
        self.source.rewind()?;
        self.at = 0;
        Ok(self)
    }

    /// The next field (number, content) of the message that ends at `end`; none there.
    fn field(&mut self, end: u64) -> Result<Option<(u64, Wire)>, GraphError> {
        if self.at >= end {
            return Ok(None);
        }
        let tag = self.varint(end)?;
        if tag > u64::from(u32::MAX) {
            return Err(GraphError::NotOnnx("a field has too large a number"));
        }
        let wire = match tag & 7 {
            0 => Wire::Varint(self.varint(end)?),
            1 => Wire::Fixed(8),
            2 => {
                let length = self.varint(end)?;
                Wire::Bytes(self.reach(length, end)?)
            }
            5 => Wire::Fixed(4),
            _ => {
                return Err(GraphError::NotOnnx(
                    "a field has a wire type that ONNX does not use",
                ));
            }
        };
        match tag >> 3 {
            0 => Err(GraphError::NotOnnx("a field has the number 0")),
            number => Ok(Some((number, wire))),
        }
    }

    fn skip(&mut self, (_, wire): (u64, Wire)) -> Result<(), GraphError> {
        let to = match wire {
            Wire::Varint(_) => return Ok(()),
            Wire::Bytes(to) => to,
            Wire::Fixed(bytes) => self.reach(bytes, self.length)?,
        };
        // A step of less than the buffer stays in the buffer.
        self.source.seek_relative((to - self.at) as i64)?;
        self.at = to;
        Ok(())
    }

    /// Reads up to `end` as text; the length is already known to lie in the file.
    fn text(&mut self, end: u64) -> Result<String, GraphError> {
        const LONGEST: u64 = 1 << 20;
        if end - self.at > LONGEST {
            return Err(GraphError::NotOnnx("a name is longer than 1 MiB"));
        }
        let mut bytes = vec![0; (end - self.at) as usize];
        self.source.read_exact(&mut bytes)?;
        self.at = end;
        String::from_utf8(bytes).map_err(|_| GraphError::NotOnnx("a name is not UTF-8"))
    }

    fn varint(&mut self, end: u64) -> Result<u64, GraphError> {
        let mut value = 0_u64;
        for shift in (0..64).step_by(7) {
            self.reach(1, end)?;
            let mut byte = [0];
            self.source.read_exact(&mut byte)?;
            self.at += 1;
            value |= u64::from(byte[0] & 0x7f) << shift;
            if byte[0] & 0x80 == 0 {
                return Ok(value);
            }
        }
        Err(GraphError::NotOnnx("a number is longer than 64 bits"))
    }

    /// The position `length` bytes on, if the message that ends at `end` reaches so far.
    fn reach(&self, length: u64, end: u64) -> Result<u64, GraphError> {
        match self.at.checked_add(length) {
            Some(to) if to <= end => Ok(to),
            Some(to) if end < self.length && to <= self.length => {
                Err(GraphError::NotOnnx("a field is longer than its message"))
            }
            _ => Err(GraphError::Truncated {
                at: self.at,
                need: length,
                have: self.length,
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Cursor;

    use proptest::prelude::*;

    use super::*;
    use crate::backend::onnx_writer::{self, D, Graph, bytes, floats, number, value};

    fn parse(file: &[u8]) -> Result<GraphFacts, GraphError> {
        read_from(Cursor::new(file))
    }

    #[test]
    fn inputs_come_with_names_types_and_every_kind_of_dimension() {
        let dims = [
            D::Param("batch"),
            D::Value(3),
            D::Nothing,
            D::Value(-1),
            D::Param("?"),
        ];
        let file = Graph {
            inputs: vec![
                value("x", 1, Some(&dims)),
                value("sr", 7, Some(&[])),
                value("free", 10, None),
            ],
            outputs: vec![value("y", 9, Some(&[D::Value(2)]))],
            ..Graph::default()
        };
        let facts = parse(&file.file()).unwrap();
        let names: Vec<_> = facts.inputs.iter().map(|i| i.name.as_str()).collect();
        assert_eq!(names, ["x", "sr", "free"]);
        let dims = [
            Dim::Symbol("batch".into()),
            Dim::Fixed(3),
            Dim::Unknown,
            Dim::Unknown,
            Dim::Unknown,
        ];
        assert_eq!(facts.inputs[0].dims.as_deref(), Some(&dims[..]));
        assert_eq!(facts.inputs[1].dims, Some(vec![]));
        assert_eq!(facts.inputs[2].dims, None);
        let types: Vec<_> = facts.inputs.iter().map(ValueInfo::dtype).collect();
        assert_eq!(
            types,
            [Some(DType::F32), Some(DType::I64), Some(DType::F16)]
        );
        assert_eq!(facts.outputs[0].dtype(), Some(DType::Bool));
        assert_eq!(
            (facts.producer.as_str(), facts.opset),
            ("edgedyno test", Some(13))
        );
    }

    #[test]
    fn a_placeholder_is_no_name() {
        let dims = [
            D::Param("?"),
            D::Param("None"),
            D::Param("-1"),
            D::Param("n"),
        ];
        let file = Graph {
            inputs: vec![value("x", 1, Some(&dims))],
            ..Graph::default()
        }
        .file();
        let read = parse(&file).unwrap().inputs.remove(0).dims.unwrap();
        let name = Dim::Symbol("n".into());
        assert_eq!(read, [Dim::Unknown, Dim::Unknown, Dim::Unknown, name]);
    }

    #[test]
    fn node_types_are_listed_once() {
        let operators = parse(&onnx_writer::linear()).unwrap().operators;
        assert_eq!(Vec::from_iter(operators), ["Add", "MatMul"]);
    }

    #[test]
    fn an_input_with_an_initializer_is_not_asked_for() {
        let file = Graph {
            initializers: vec![floats("w", &[2], &[1.0, 2.0])],
            inputs: vec![value("w", 1, Some(&[D::Value(2)])), value("x", 1, None)],
            ..Graph::default()
        };
        let facts = parse(&file.file()).unwrap();
        assert_eq!(
            facts.inputs.iter().map(|i| &i.name).collect::<Vec<_>>(),
            ["x"]
        );
    }

    #[test]
    fn weights_are_stepped_over_and_not_read() {
        struct Counted<'a>(Cursor<&'a [u8]>, &'a std::cell::Cell<usize>);
        impl Read for Counted<'_> {
            fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
                let n = self.0.read(to)?;
                self.1.set(self.1.get() + n);
                Ok(n)
            }
        }
        impl Seek for Counted<'_> {
            fn seek(&mut self, to: io::SeekFrom) -> io::Result<u64> {
                self.0.seek(to)
            }
        }
        let file = Graph {
            initializers: vec![floats("w", &[1 << 20], &vec![1.0; 1 << 20])],
            inputs: vec![value("x", 1, None)],
            ..Graph::default()
        };
        let (file, read) = (file.file(), std::cell::Cell::new(0));
        let source = BufReader::with_capacity(4096, Counted(Cursor::new(&file), &read));
        assert_eq!(read_from(source).unwrap().inputs.len(), 1);
        assert!(
            read.get() <= 3 * 4096,
            "{} of {} bytes read",
            read.get(),
            file.len()
        );
    }

    #[test]
    fn what_is_no_model_says_so() {
        let text = parse(b"this is not a model, but a text of some length").unwrap_err();
        assert!(
            matches!(text, GraphError::NotOnnx(_) | GraphError::Truncated { .. }),
            "{text}"
        );
        assert!(matches!(
            parse(b"").unwrap_err(),
            GraphError::NotOnnx("it holds no graph")
        ));
        let no_graph = number(1, 8);
        assert!(matches!(
            parse(&no_graph).unwrap_err(),
            GraphError::NotOnnx(_)
        ));
        let inner = bytes(7, [number(1, 1), varint_claim(90)].concat());
        let wide = [inner, vec![0; 200]].concat();
        assert!(matches!(parse(&wide).unwrap_err(), GraphError::NotOnnx(_)));
    }

    /// A length-delimited field 1 that claims more than follows.
    fn varint_claim(length: u64) -> Vec<u8> {
        [vec![0x0a], onnx_writer::varint(length)].concat()
    }

    #[test]
    fn every_cut_of_a_file_is_refused_or_still_whole() {
        let file = onnx_writer::linear();
        let graph_ends = file.len() - bytes(8, [bytes(1, ""), number(2, 13)].concat()).len();
        for cut in 0..graph_ends {
            assert!(parse(&file[..cut]).is_err(), "cut at {cut}");
        }
        let cut = parse(&file[..graph_ends - 1]).unwrap_err();
        assert!(matches!(cut, GraphError::Truncated { .. }), "{cut}");
    }

    #[test]
    fn a_missing_file_is_named() {
        let failure = read(Path::new("/nowhere/m.onnx")).unwrap_err();
        assert_eq!(failure.code, FailureCode::ModelUnreadable);
        assert!(failure.detail.contains("/nowhere/m.onnx"), "{failure}");
    }

    proptest! {
        #[test]
        fn hostile_bytes_never_panic(file: Vec<u8>) {
            let _ = parse(&file);
        }

        #[test]
        fn a_damaged_model_never_panics(at in 0_usize..120, byte: u8, tail: Vec<u8>) {
            let mut file = onnx_writer::linear();
            let at = at % file.len();
            file[at] = byte;
            file.extend(tail);
            let _ = parse(&file);
        }
    }
}
