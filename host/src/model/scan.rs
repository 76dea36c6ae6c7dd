//! The walk through an ONNX file that collects its facts.
//!
//! Field numbers are those of the messages in [`super::onnx`]. Everything collected is bounded, so
//! that the memory used does not follow from what a file claims.

use std::collections::{BTreeMap, HashSet};
use std::io::{Read, Seek};

use edgedyno_shared::content::check_location;

use super::element::ElementType;
use super::facts::{Dim, ExternalFile, ModelFacts, Opset, Producer, ValueFacts, ValueKind};
use super::wire::{Span, Value, Wire, WireError};

/// Subgraphs inside subgraphs.
const DEPTH_LIMIT: u32 = 32;
/// Dims of one tensor, operator sets, attributes of one node.
const SHORT_LIST: usize = 1024;
/// Inputs, outputs, operator types, weight files.
const LONG_LIST: usize = 64 * 1024;
const INITIALIZER_LIMIT: usize = 1024 * 1024;

#[derive(Debug)]
pub(super) enum ScanError {
    Wire(WireError),
    External { location: String, why: &'static str },
}

impl From<WireError> for ScanError {
    fn from(error: WireError) -> Self {
        Self::Wire(error)
    }
}

type Result<T> = std::result::Result<T, ScanError>;

/// Reads a model; `recognised` tells, also after an error, whether it began as one.
pub(super) struct Scan<R> {
    wire: Wire<R>,
    pub(super) recognised: bool,
    ir_version: Option<i64>,
    opsets: Vec<Opset>,
    producer: Producer,
    graphs: u32,
    inputs: Vec<ValueFacts>,
    outputs: Vec<ValueFacts>,
    initializers: HashSet<String>,
    ops: BTreeMap<String, u64>,
    parameters: u64,
    parameter_bytes: u64,
    externals: BTreeMap<String, u64>,
}

impl<R: Read + Seek> Scan<R> {
    pub(super) fn new(source: R) -> std::io::Result<Self> {
        Ok(Self {
            wire: Wire::new(source)?,
            recognised: false,
            ir_version: None,
            opsets: Vec::new(),
            producer: Producer {
                name: String::new(),
                version: String::new(),
            },
            graphs: 0,
            inputs: Vec::new(),
            outputs: Vec::new(),
            initializers: HashSet::new(),
            ops: BTreeMap::new(),
            parameters: 0,
            parameter_bytes: 0,
            externals: BTreeMap::new(),
        })
    }

    pub(super) fn run(&mut self) -> Result<ModelFacts> {
        self.model()?;
        let ir_version = self
            .ir_version
            .ok_or_else(|| self.bad("it has no IR version"))?;
        match self.graphs {
            0 => return Err(self.bad("it has no graph")),
            1 => {}
            _ => return Err(self.bad("it has more than one graph")),
        }
        if self.opsets.is_empty() && ir_version >= 3 {
            return Err(self.bad("it imports no operator set"));
        }
        let mut inputs = std::mem::take(&mut self.inputs);
        inputs.retain(|input| !self.initializers.contains(&input.name));
        let externals = std::mem::take(&mut self.externals);
        Ok(ModelFacts {
            ir_version,
            opsets: std::mem::take(&mut self.opsets),
            producer: Some(self.producer.clone()).filter(|producer| !producer.name.is_empty()),
            inputs,
            outputs: std::mem::take(&mut self.outputs),
            ops: std::mem::take(&mut self.ops),
            parameters: self.parameters,
            parameter_bytes: self.parameter_bytes,
            external_files: externals
                .into_iter()
                .map(|(name, needs_bytes)| ExternalFile { name, needs_bytes })
                .collect(),
        })
    }

    fn model(&mut self) -> Result<()> {
        let mut model = self.wire.whole();
        while let Some(field) = self.wire.field(&mut model)? {
            match (field.number, field.value) {
                // The first IR version was 1, and 13 is current; text never passes for this.
                (1, Value::Varint(version @ 1..1000)) => {
                    self.recognised = true;
                    self.ir_version = Some(version.cast_signed());
                }
                (2, Value::Span(span)) => self.producer.name = self.wire.text(span)?,
                (3, Value::Span(span)) => self.producer.version = self.wire.text(span)?,
                (7, Value::Span(span)) => {
                    self.graphs += 1;
                    self.graph(span, 0)?;
                }
                (8, Value::Span(span)) => self.opset(span)?,
                (25, Value::Span(span)) => self.function(span)?,
                (1 | 2 | 3 | 7 | 8, _) => {
                    return Err(self.bad("a field of the model has the wrong type"));
                }
                _ => {}
            }
        }
        Ok(())
    }

    fn opset(&mut self, mut span: Span) -> Result<()> {
        let mut opset = Opset {
            domain: String::new(),
            version: 0,
        };
        while let Some(field) = self.wire.field(&mut span)? {
            match (field.number, field.value) {
                (1, Value::Span(span)) => opset.domain = self.wire.text(span)?,
                (2, Value::Varint(version)) => opset.version = version.cast_signed(),
                _ => {}
            }
        }
        self.limit(
            self.opsets.len(),
            SHORT_LIST,
            "it imports too many operator sets",
        )?;
        self.opsets.push(opset);
        Ok(())
    }

    fn function(&mut self, mut span: Span) -> Result<()> {
        while let Some(field) = self.wire.field(&mut span)? {
            if let (7, Value::Span(span)) = (field.number, field.value) {
                self.node(span, 0)?;
            }
        }
        Ok(())
    }

    fn graph(&mut self, mut span: Span, depth: u32) -> Result<()> {
        if depth > DEPTH_LIMIT {
            return Err(self.bad("its subgraphs are nested too deeply"));
        }
        while let Some(field) = self.wire.field(&mut span)? {
            let Some(span) = field.value.span() else {
                continue;
            };
            match field.number {
                1 => self.node(span, depth)?,
                5 => self.initializer(span, depth)?,
                15 => self.sparse(span, depth)?,
                11 if depth == 0 => {
                    let value = self.value_info(span)?;
                    self.limit(self.inputs.len(), LONG_LIST, "it has too many inputs")?;
                    self.inputs.push(value);
                }
                12 if depth == 0 => {
                    let value = self.value_info(span)?;
                    self.limit(self.outputs.len(), LONG_LIST, "it has too many outputs")?;
                    self.outputs.push(value);
                }
                _ => {}
            }
        }
        Ok(())
    }

    fn initializer(&mut self, span: Span, depth: u32) -> Result<()> {
        let name = self.tensor(span, true)?;
        if depth == 0 {
            self.limit(
                self.initializers.len(),
                INITIALIZER_LIMIT,
                "it has too many initializers",
            )?;
            self.initializers.insert(name);
        }
        Ok(())
    }

    fn sparse(&mut self, mut span: Span, depth: u32) -> Result<()> {
        while let Some(field) = self.wire.field(&mut span)? {
            match (field.number, field.value) {
                (1, Value::Span(values)) => self.initializer(values, depth)?,
                (2, Value::Span(indices)) => drop(self.tensor(indices, false)?),
                _ => {}
            }
        }
        Ok(())
    }

    /// The operator type may stand behind the attributes, so those are walked last.
    fn node(&mut self, mut span: Span, depth: u32) -> Result<()> {
        let (mut op, mut domain, mut attributes) = (String::new(), String::new(), Vec::new());
        while let Some(field) = self.wire.field(&mut span)? {
            match (field.number, field.value) {
                (4, Value::Span(span)) => op = self.wire.text(span)?,
                (7, Value::Span(span)) => domain = self.wire.text(span)?,
                (5, Value::Span(span)) => {
                    self.limit(
                        attributes.len(),
                        SHORT_LIST,
                        "a node has too many attributes",
                    )?;
                    attributes.push(span);
                }
                _ => {}
            }
        }
        let is_constant = op == "Constant" && domain.is_empty();
        self.count(op, &domain)?;
        attributes
            .into_iter()
            .try_for_each(|span| self.attribute(span, is_constant, depth))
    }

    fn count(&mut self, op: String, domain: &str) -> Result<()> {
        let name = match domain {
            "" | "ai.onnx" => op,
            domain => format!("{domain}:{op}"),
        };
        if !self.ops.contains_key(&name) {
            self.limit(self.ops.len(), LONG_LIST, "it has too many operator types")?;
        }
        *self.ops.entry(name).or_default() += 1;
        Ok(())
    }

    fn attribute(&mut self, mut span: Span, is_constant: bool, depth: u32) -> Result<()> {
        while let Some(field) = self.wire.field(&mut span)? {
            let Some(span) = field.value.span() else {
                continue;
            };
            match field.number {
                5 | 10 => drop(self.tensor(span, is_constant)?),
                6 | 11 => self.graph(span, depth + 1)?,
                22 | 23 => self.sparse_attribute(span, is_constant)?,
                _ => {}
            }
        }
        Ok(())
    }

    fn sparse_attribute(&mut self, mut span: Span, is_constant: bool) -> Result<()> {
        while let Some(field) = self.wire.field(&mut span)? {
            if let (1 | 2, Value::Span(tensor)) = (field.number, field.value) {
                self.tensor(tensor, is_constant && field.number == 1)?;
            }
        }
        Ok(())
    }

    /// Counts a tensor when it is a parameter, notes its weight file, and gives its name.
    fn tensor(&mut self, mut span: Span, is_parameter: bool) -> Result<String> {
        let mut name = String::new();
        let mut dtype = ElementType(0);
        let mut elements = 1_u64;
        let mut external = External::default();
        while let Some(field) = self.wire.field(&mut span)? {
            match (field.number, field.value) {
                (1, Value::Varint(dim)) => elements = self.grow(elements, dim)?,
                (1, Value::Span(mut dims)) => {
                    while let Some(dim) = self.wire.packed(&mut dims)? {
                        elements = self.grow(elements, dim)?;
                    }
                }
                (2, Value::Varint(number)) => dtype = element_type(number),
                (8, Value::Span(span)) => name = self.wire.text(span)?,
                (13, Value::Span(span)) => self.external_entry(span, &mut external)?,
                (14, Value::Varint(location)) => external.is_used = location == 1,
                _ => {}
            }
        }
        if is_parameter {
            self.parameters = self.parameters.saturating_add(elements);
            let bytes = dtype.bits().map_or(0, |bits| bytes_of(elements, bits));
            self.parameter_bytes = self.parameter_bytes.saturating_add(bytes);
        }
        if external.is_used {
            self.note_external(external)?;
        }
        Ok(name)
    }

    fn grow(&self, elements: u64, dim: u64) -> Result<u64> {
        if dim.cast_signed() < 0 {
            return Err(self.bad("a stored tensor has a negative dim"));
        }
        elements
            .checked_mul(dim)
            .ok_or_else(|| self.bad("a stored tensor has more than 2^64 elements"))
    }

    fn external_entry(&mut self, mut span: Span, external: &mut External) -> Result<()> {
        let (mut key, mut value) = (String::new(), String::new());
        while let Some(field) = self.wire.field(&mut span)? {
            match (field.number, field.value) {
                (1, Value::Span(span)) => key = self.wire.text(span)?,
                (2, Value::Span(span)) => value = self.wire.text(span)?,
                _ => {}
            }
        }
        match key.as_str() {
            "location" => external.location = value,
            "offset" => external.offset = self.external_number(&value)?,
            "length" => external.length = self.external_number(&value)?,
            _ => {}
        }
        Ok(())
    }

    fn external_number(&self, text: &str) -> Result<u64> {
        text.parse()
            .map_err(|_| self.bad("the offset or length of external data is not a number"))
    }

    fn note_external(&mut self, external: External) -> Result<()> {
        let External {
            location,
            offset,
            length,
            ..
        } = external;
        if let Err(why) = check_location(&location) {
            return Err(ScanError::External { location, why });
        }
        if !self.externals.contains_key(&location) {
            self.limit(
                self.externals.len(),
                LONG_LIST,
                "it has too many weight files",
            )?;
        }
        let needs = self.externals.entry(location).or_default();
        *needs = (*needs).max(offset.saturating_add(length));
        Ok(())
    }

    fn value_info(&mut self, mut span: Span) -> Result<ValueFacts> {
        let mut value = ValueFacts {
            name: String::new(),
            kind: ValueKind::Unknown,
        };
        while let Some(field) = self.wire.field(&mut span)? {
            match (field.number, field.value) {
                (1, Value::Span(span)) => value.name = self.wire.text(span)?,
                (2, Value::Span(span)) => value.kind = self.value_kind(span)?,
                _ => {}
            }
        }
        Ok(value)
    }

    fn value_kind(&mut self, mut span: Span) -> Result<ValueKind> {
        let mut kind = ValueKind::Unknown;
        while let Some(field) = self.wire.field(&mut span)? {
            let Some(span) = field.value.span() else {
                continue;
            };
            kind = match field.number {
                1 => self.tensor_type(span)?,
                4 => ValueKind::Sequence,
                5 => ValueKind::Map,
                7 => ValueKind::Opaque,
                8 => ValueKind::SparseTensor,
                9 => ValueKind::Optional,
                _ => kind,
            };
        }
        Ok(kind)
    }

    fn tensor_type(&mut self, mut span: Span) -> Result<ValueKind> {
        let (mut dtype, mut dims) = (ElementType(0), None);
        while let Some(field) = self.wire.field(&mut span)? {
            match (field.number, field.value) {
                (1, Value::Varint(number)) => dtype = element_type(number),
                (2, Value::Span(span)) => dims = Some(self.dims(span)?),
                _ => {}
            }
        }
        Ok(ValueKind::Tensor { dtype, dims })
    }

    fn dims(&mut self, mut span: Span) -> Result<Vec<Dim>> {
        let mut dims = Vec::new();
        while let Some(field) = self.wire.field(&mut span)? {
            if let (1, Value::Span(span)) = (field.number, field.value) {
                self.limit(dims.len(), SHORT_LIST, "a tensor has too many dims")?;
                dims.push(self.dim(span)?);
            }
        }
        Ok(dims)
    }

    /// Exporters write an unknown dim as nothing, as an empty name or as -1.
    fn dim(&mut self, mut span: Span) -> Result<Dim> {
        let mut dim = Dim::Unknown;
        while let Some(field) = self.wire.field(&mut span)? {
            dim = match (field.number, field.value) {
                (1, Value::Varint(size)) if size.cast_signed() >= 0 => Dim::Fixed(size),
                (1, Value::Varint(_)) => Dim::Unknown,
                (2, Value::Span(span)) => match self.wire.text(span)? {
                    name if name.is_empty() => Dim::Unknown,
                    name => Dim::Symbolic(name),
                },
                _ => dim,
            };
        }
        Ok(dim)
    }

    fn limit(&self, length: usize, limit: usize, why: &'static str) -> Result<()> {
        if length < limit {
            Ok(())
        } else {
            Err(self.bad(why))
        }
    }

    fn bad(&self, why: &'static str) -> ScanError {
        ScanError::Wire(self.wire.malformed(why))
    }
}

/// Where a tensor that is not in the model file is.
#[derive(Default)]
struct External {
    is_used: bool,
    location: String,
    offset: u64,
    length: u64,
}

fn element_type(number: u64) -> ElementType {
    ElementType(i32::try_from(number).unwrap_or(0))
}

fn bytes_of(elements: u64, bits: u64) -> u64 {
    u64::try_from((u128::from(elements) * u128::from(bits)).div_ceil(8)).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn weight_files_stay_below_the_folder_of_the_model() {
        for good in ["w.bin", "weights/w.bin", "./w.bin", "w..bin", "größe.data"] {
            assert_eq!(check_location(good), Ok(()), "{good}");
        }
        for bad in [
            "",
            ".",
            "/etc/passwd",
            "../w",
            "a/../../w",
            "a/..",
            "C:\\w",
            "a\nb",
            "a\0",
        ] {
            assert!(check_location(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn four_bit_weights_take_half_a_byte_rounded_up() {
        assert_eq!(bytes_of(5, 4), 3);
        assert_eq!(bytes_of(u64::MAX, 64), u64::MAX);
    }
}
