//! Writing a network: beside the target first, then renamed over it.

use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use prost::Message;

use super::draw::Drawing;
use super::error::MakeError;
use super::options::{Options, Weights};
use super::weights::{SplitMix64, Weight};
use crate::model::element::ElementType;
use crate::model::onnx::{
    DATA_LOCATION_EXTERNAL, GraphProto, ModelProto, OperatorSetIdProto, StringStringEntryProto,
    TensorProto,
};

/// IR version 8 goes with operator set 17; every runtime of the last years reads both.
const IR_VERSION: i64 = 8;
const OPSET: i64 = 17;
/// Smaller weights stay inside, as the onnx package does it.
const EXTERNAL_FROM: u64 = 1024;
/// Weights begin at pages, so that runtimes can map them.
const ALIGNMENT: u64 = 4096;

pub(super) struct Written {
    pub(super) data: Option<PathBuf>,
    pub(super) bytes: u64,
}

pub(super) fn save(
    drawing: &Drawing,
    name: &str,
    options: &Options,
    path: &Path,
) -> Result<Written, MakeError> {
    if path.file_name().and_then(|name| name.to_str()).is_none() {
        return Err(MakeError::NoFileName {
            path: path.to_owned(),
        });
    }
    let mut random = SplitMix64::new(options.seed);
    let (initializers, data) = match options.weights {
        Weights::Inside => (inside(drawing, &mut random, path)?, None),
        Weights::External => {
            let mut data = Unfinished::create(&data_path(path))?;
            (external(drawing, &mut random, &mut data)?, Some(data))
        }
    };
    let mut model = Unfinished::create(path)?;
    model.write(&encode(drawing, name, initializers))?;
    // Weights first: a model whose weights are missing would be the worse half.
    let mut written = Written {
        data: None,
        bytes: model.bytes,
    };
    if let Some(data) = data {
        written.bytes += data.bytes;
        written.data = Some(data.path.clone());
        data.finish()?;
    }
    model.finish()?;
    Ok(written)
}

/// Where external weights of a model go: beside it, under its name and `.data`.
pub fn data_path(model: &Path) -> PathBuf {
    let mut name = model.file_name().unwrap_or_default().to_owned();
    name.push(".data");
    model.with_file_name(name)
}

fn encode(drawing: &Drawing, name: &str, initializer: Vec<TensorProto>) -> Vec<u8> {
    ModelProto {
        ir_version: IR_VERSION,
        producer_name: "edgedyno".into(),
        graph: Some(GraphProto {
            node: drawing.nodes.clone(),
            name: name.to_owned(),
            initializer,
            input: vec![drawing.input.clone()],
            output: vec![drawing.output.clone()],
            ..GraphProto::default()
        }),
        opset_import: vec![OperatorSetIdProto {
            domain: String::new(),
            version: OPSET,
        }],
        ..ModelProto::default()
    }
    .encode_to_vec()
}

fn inside(
    drawing: &Drawing,
    random: &mut SplitMix64,
    path: &Path,
) -> Result<Vec<TensorProto>, MakeError> {
    drawing
        .weights
        .iter()
        .map(|weight| tensor_inside(weight, random, path))
        .collect()
}

fn tensor_inside(
    weight: &Weight,
    random: &mut SplitMix64,
    path: &Path,
) -> Result<TensorProto, MakeError> {
    let mut bytes = Vec::new();
    weight
        .write(random, &mut bytes)
        .map_err(|source| MakeError::Write {
            path: path.to_owned(),
            source,
        })?;
    Ok(TensorProto {
        raw_data: Some(bytes),
        ..tensor(weight)
    })
}

fn external(
    drawing: &Drawing,
    random: &mut SplitMix64,
    data: &mut Unfinished,
) -> Result<Vec<TensorProto>, MakeError> {
    let mut tensors = Vec::with_capacity(drawing.weights.len());
    for weight in &drawing.weights {
        if weight.bytes() < EXTERNAL_FROM {
            tensors.push(tensor_inside(weight, random, &data.path)?);
            continue;
        }
        let padding = data.bytes.next_multiple_of(ALIGNMENT) - data.bytes;
        data.write(&vec![0; padding as usize])?;
        let place = [
            ("location", data.name()),
            ("offset", data.bytes.to_string()),
            ("length", weight.bytes().to_string()),
        ];
        data.write_weight(weight, random)?;
        let entry = |(key, value): (&str, String)| StringStringEntryProto {
            key: key.to_owned(),
            value,
        };
        tensors.push(TensorProto {
            external_data: place.into_iter().map(entry).collect(),
            data_location: DATA_LOCATION_EXTERNAL,
            ..tensor(weight)
        });
    }
    Ok(tensors)
}

fn tensor(weight: &Weight) -> TensorProto {
    TensorProto {
        dims: weight.dims.iter().map(|dim| dim.cast_signed()).collect(),
        data_type: ElementType::F32.0,
        name: weight.name.clone(),
        ..TensorProto::default()
    }
}

/// A file under another name, removed again unless it is finished.
struct Unfinished {
    path: PathBuf,
    temporary: PathBuf,
    file: BufWriter<File>,
    bytes: u64,
}

impl Unfinished {
    fn create(path: &Path) -> Result<Self, MakeError> {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let temporary = path.with_file_name(format!(".{name}.{}.tmp", std::process::id()));
        match File::create(&temporary) {
            Ok(file) => Ok(Self {
                path: path.to_owned(),
                temporary,
                file: BufWriter::new(file),
                bytes: 0,
            }),
            Err(source) => Err(MakeError::Folder {
                folder: folder_of(path),
                source,
            }),
        }
    }

    fn name(&self) -> String {
        self.path
            .file_name()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned()
    }

    fn write(&mut self, bytes: &[u8]) -> Result<(), MakeError> {
        let written = self.file.write_all(bytes);
        self.bytes += bytes.len() as u64;
        self.check(written)
    }

    fn write_weight(&mut self, weight: &Weight, random: &mut SplitMix64) -> Result<(), MakeError> {
        let written = weight.write(random, &mut self.file);
        self.bytes += weight.bytes();
        self.check(written)
    }

    fn finish(mut self) -> Result<(), MakeError> {
        let renamed = self
            .file
            .flush()
            .and_then(|()| self.file.get_ref().sync_all())
            .and_then(|()| fs::rename(&self.temporary, &self.path));
        self.check(renamed)
    }

    fn check(&self, result: io::Result<()>) -> Result<(), MakeError> {
        result.map_err(|source| MakeError::Write {
            path: self.path.clone(),
            source,
        })
    }
}

impl Drop for Unfinished {
    fn drop(&mut self) {
        // After the rename there is nothing under this name any more.
        let _ = fs::remove_file(&self.temporary);
    }
}

fn folder_of(path: &Path) -> PathBuf {
    match path.parent() {
        Some(folder) if folder != Path::new("") => folder.to_owned(),
        _ => PathBuf::from("."),
    }
}
