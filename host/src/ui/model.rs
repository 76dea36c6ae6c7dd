//! Text about models: what one is made of, what was made, what can be made.

use std::cmp::Reverse;

use super::table::Table;
use super::units;
use crate::model::facts::{Dim, ModelFacts, ValueFacts, ValueKind};
use crate::model::info::{ModelInfo, WeightFile};
use crate::model::make::{Made, NETWORKS, Network};

/// More operators than these are summed up in one row.
const MOST_OPERATORS: usize = 20;

/// Everything `model info` says.
pub fn info(info: &ModelInfo) -> String {
    let mut parts = vec![head(info), values(&info.facts), operators(&info.facts)];
    if !info.weight_files.is_empty() {
        parts.push(weight_files(&info.weight_files));
    }
    parts.push(how_to_run(info));
    parts.join("\n\n")
}

fn head(info: &ModelInfo) -> String {
    let facts = &info.facts;
    let opsets = facts
        .opsets
        .iter()
        .map(|opset| match opset.domain.as_str() {
            "" => format!("opset {}", opset.version),
            domain => format!("opset {} of {domain}", opset.version),
        });
    let producer = facts.producer.iter().map(|producer| {
        let text = format!("made by {} {}", producer.name, producer.version);
        text.trim_end().to_owned()
    });
    let what: Vec<String> = [format!("ONNX, IR version {}", facts.ir_version)]
        .into_iter()
        .chain(opsets)
        .chain(producer)
        .collect();
    let weights = format!(
        "{} parameters in {}, model file {}",
        units::count(facts.parameters),
        size(facts.parameter_bytes),
        size(info.file_bytes)
    );
    let sha256 = match &info.sha256 {
        Some(sha256) => sha256.to_string(),
        None => format!("{} (a weight file is missing or too short)", units::UNKNOWN),
    };
    [
        info.path.display().to_string(),
        what.join(", "),
        weights,
        format!("sha256 {sha256}"),
    ]
    .join("\n")
}

fn values(facts: &ModelFacts) -> String {
    let mut table = Table::new()
        .text("value")
        .text("name")
        .text("dtype")
        .text("shape");
    let inputs = facts.inputs.iter().map(|value| ("input", value));
    let outputs = facts.outputs.iter().map(|value| ("output", value));
    for (role, value) in inputs.chain(outputs) {
        let (dtype, shape) = kind(&value.kind);
        table.row([role, &value.name, &dtype, &shape]);
    }
    table.render()
}

fn kind(kind: &ValueKind) -> (String, String) {
    let unknown = || units::UNKNOWN.to_owned();
    match kind {
        ValueKind::Tensor { dtype, dims } => {
            let shape = dims.as_deref().map_or_else(unknown, shape);
            (dtype.to_string(), shape)
        }
        ValueKind::Sequence => ("sequence".into(), unknown()),
        ValueKind::Map => ("map".into(), unknown()),
        ValueKind::Optional => ("optional".into(), unknown()),
        ValueKind::Opaque => ("opaque".into(), unknown()),
        ValueKind::SparseTensor => ("sparse tensor".into(), unknown()),
        ValueKind::Unknown => (unknown(), unknown()),
    }
}

/// As `--shape` takes it.
fn shape(dims: &[Dim]) -> String {
    match dims {
        [] => "scalar".into(),
        dims => dims
            .iter()
            .map(ToString::to_string)
            .collect::<Vec<_>>()
            .join("x"),
    }
}

fn operators(facts: &ModelFacts) -> String {
    let mut ops: Vec<(&String, &u64)> = facts.ops.iter().collect();
    ops.sort_by_key(|(name, nodes)| (Reverse(**nodes), *name));
    let mut table = Table::new().text("operator").figure("nodes");
    for (name, nodes) in ops.iter().take(MOST_OPERATORS) {
        table.row([(*name).clone(), units::count(**nodes)]);
    }
    if let Some(rest) = ops.get(MOST_OPERATORS..).filter(|rest| !rest.is_empty()) {
        let nodes: u64 = rest.iter().map(|(_, nodes)| **nodes).sum();
        table.row([format!("{} others", rest.len()), units::count(nodes)]);
    }
    table.row(["all", &units::count(facts.nodes())]);
    table.render()
}

fn weight_files(files: &[WeightFile]) -> String {
    let mut table = Table::new()
        .text("weight file")
        .figure("needed")
        .figure("there");
    for file in files {
        let there = file.bytes.map_or_else(|| "missing".into(), size);
        table.row([file.name.clone(), size(file.needs_bytes), there]);
    }
    table.render()
}

fn how_to_run(info: &ModelInfo) -> String {
    let open = |value: &&ValueFacts| match &value.kind {
        ValueKind::Tensor {
            dims: Some(dims), ..
        } => dims.iter().any(|dim| !matches!(dim, Dim::Fixed(_))),
        _ => false,
    };
    let shapes = info.facts.inputs.iter().filter(open).map(|value| {
        let (_, shape) = kind(&value.kind);
        format!(" --shape {}={shape}", value.name)
    });
    let shapes: String = shapes.collect();
    let run = format!("measure it: edgedyno run {}{shapes}", info.path.display());
    match shapes.as_str() {
        "" => run,
        _ => format!("{run}\n            with a number for each dimension that is a name or `?`"),
    }
}

/// What was made, and what it will cost to run.
pub fn made(network: &Network, made: &Made) -> String {
    let mut lines = vec![
        format!("made {}: {}", made.path.display(), network.about),
        format!(
            "{} parameters in {}, {} multiply-accumulates a run, {} on disk",
            units::count(made.parameters),
            size(made.parameter_bytes),
            units::count(made.macs),
            size(made.bytes)
        ),
    ];
    if let Some(data) = &made.data {
        lines.push(format!(
            "weights in {}; keep both files together",
            data.display()
        ));
    }
    lines.push(format!("measure it: edgedyno run {}", made.path.display()));
    lines.join("\n")
}

/// Every network that can be made, with its sizes.
pub fn networks() -> String {
    let mut table = Table::new().text("kind").text("what it is").text("sizes");
    for network in NETWORKS {
        let sizes = network.defaults.named();
        let sizes = sizes.iter().map(|(name, size)| format!("--{name} {size}"));
        let sizes: Vec<String> = sizes.collect();
        table.row([network.name, network.about, &sizes.join(" ")]);
    }
    table.render()
}

fn size(bytes: u64) -> String {
    units::bytes(bytes as f64)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::model::make::{self, Options, Size};

    fn made_model(folder: &Path, dynamic: bool) -> ModelInfo {
        let options = Options {
            size: Size {
                channels: Some(4),
                depth: Some(2),
                image: Some(9),
                width: None,
            },
            dynamic,
            ..Options::default()
        };
        let path = folder.join("c.onnx");
        make::find("conv").unwrap().make(&options, &path).unwrap();
        let mut info = ModelInfo::read(&path).unwrap();
        info.path = "c.onnx".into();
        info
    }

    #[test]
    fn a_model_is_told_from_top_to_bottom() {
        let folder = tempfile::tempdir().unwrap();
        let mut model = made_model(folder.path(), false);
        model.weight_files.push(WeightFile {
            name: "c.data".into(),
            needs_bytes: 4096,
            bytes: None,
        });
        model.sha256 = None;
        insta::assert_snapshot!(info(&model));
    }

    #[test]
    fn named_dimensions_are_to_be_given() {
        let folder = tempfile::tempdir().unwrap();
        let text = how_to_run(&made_model(folder.path(), true));
        assert!(
            text.contains("edgedyno run c.onnx --shape input=Nx3xHxW\n"),
            "{text}"
        );
    }

    #[test]
    fn many_operators_are_summed_up() {
        let folder = tempfile::tempdir().unwrap();
        let mut model = made_model(folder.path(), false);
        model.facts.ops = (1..=30).map(|n| (format!("Op{n:02}"), n)).collect();
        let text = operators(&model.facts);
        // The ten rarest have 1 + 2 + ... + 10 nodes, all thirty 465.
        assert!(text.contains("10 others      55"), "{text}");
        assert!(text.ends_with("all           465"), "{text}");
    }

    #[test]
    fn every_network_is_listed_with_its_sizes() {
        insta::assert_snapshot!(networks());
    }
}
