//! `model`: what is in a file, and networks to try with.

use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use serde_json::json;

use crate::cli::Global;
use crate::exit::{CommandError, CommandResult, Exit};
use crate::model::facts::{ModelFacts, ValueFacts, ValueKind};
use crate::model::identify::{ModelIdentity, identify};
use crate::model::inspect::inspect;
use crate::model::make::{self, NETWORKS, Options, Size, Weights};
use crate::ui::{print, table::Table, units};

const EXAMPLES: &str = "\
examples:
  edgedyno model info model.onnx
  edgedyno model make conv conv.onnx
  edgedyno model make matmul big.onnx --width 4096 --external";

#[derive(Debug, Clone, Args)]
#[command(after_help = EXAMPLES)]
pub struct ModelArgs {
    #[command(subcommand)]
    pub what: What,
}

#[derive(Debug, Clone, Subcommand)]
pub enum What {
    /// Inputs, outputs, operators and weights of a model
    #[command(after_help = "example:\n  edgedyno model info model.onnx --json")]
    Info {
        /// The model file
        model: PathBuf,
    },
    /// Make a network of known figures
    Make(MakeArgs),
}

#[derive(Debug, Clone, Args)]
#[command(after_help = "\
examples:
  edgedyno model make conv conv.onnx
  edgedyno model make matmul big.onnx --width 4096 --depth 4 --external

networks: conv (compute-bound), depthwise (many small operators), residual, matmul (memory-bound)")]
pub struct MakeArgs {
    /// conv, depthwise, residual or matmul
    pub network: String,
    /// The model file to write
    pub path: PathBuf,
    /// Channels of every inner layer
    #[arg(long, value_name = "N")]
    pub channels: Option<u32>,
    /// Layers or blocks
    #[arg(long, value_name = "N")]
    pub depth: Option<u32>,
    /// Height and width of the input image
    #[arg(long, value_name = "N")]
    pub image: Option<u32>,
    /// Rows and columns of every matrix
    #[arg(long, value_name = "N")]
    pub width: Option<u32>,
    /// Batch dimension of the input
    #[arg(long, value_name = "N", default_value = "1")]
    pub batch: u32,
    /// Name the batch and the image size instead of fixing them
    #[arg(long)]
    pub dynamic: bool,
    /// Seed of the weights
    #[arg(long, value_name = "N", default_value = "1")]
    pub seed: u64,
    /// Keep the weights in a file beside the model
    #[arg(long)]
    pub external: bool,
}

pub fn run(args: &ModelArgs, global: &Global) -> CommandResult {
    match &args.what {
        What::Info { model } => info(model, global),
        What::Make(args) => make(args, global),
    }
}

fn info(path: &Path, global: &Global) -> CommandResult {
    let facts = inspect(path)?;
    let identity = identify(path)?;
    match global.json {
        true => print::json(&json!({
            "document": "edgedyno/model/1",
            "path": path.display().to_string(),
            "identity": identity,
            "facts": facts,
        })),
        false => print::result(describe(&facts, &identity)),
    }
    Ok(Exit::GOOD)
}

fn describe(facts: &ModelFacts, identity: &ModelIdentity) -> String {
    let name = identity.files.first().map_or("", |file| file.name.as_str());
    let producer = facts.producer.as_ref();
    let producer = producer.map(|p| format!("{} {}", p.name, p.version));
    let opsets = facts
        .opsets
        .iter()
        .map(|opset| match opset.domain.as_str() {
            "" => opset.version.to_string(),
            domain => format!("{domain} {}", opset.version),
        });
    let mut about = Table::new().text("model").text(name);
    for (what, value) in [
        ("sha256", identity.sha256.to_string()),
        ("size", units::bytes(identity.bytes() as f64)),
        ("files", identity.files.len().to_string()),
        (
            "producer",
            producer.unwrap_or_else(|| units::UNKNOWN.into()),
        ),
        ("operator set", opsets.collect::<Vec<_>>().join(", ")),
        ("parameters", units::count(facts.parameters)),
        ("weights", units::bytes(facts.parameter_bytes as f64)),
        ("operators", units::count(facts.nodes())),
    ] {
        about.row([what.to_owned(), value]);
    }
    let mut values = Table::new()
        .text("tensor")
        .text("")
        .text("type")
        .text("shape");
    for (way, list) in [("input", &facts.inputs), ("output", &facts.outputs)] {
        for value in list {
            let (dtype, shape) = kind(value);
            values.row([value.name.clone(), way.to_owned(), dtype, shape]);
        }
    }
    let mut ops: Vec<(&String, &u64)> = facts.ops.iter().collect();
    ops.sort_by_key(|(name, count)| (std::cmp::Reverse(**count), (*name).clone()));
    let mut operators = Table::new().text("operator").figure("times");
    for (name, count) in ops {
        operators.row([name.clone(), units::count(*count)]);
    }
    [about.render(), values.render(), operators.render()].join("\n\n")
}

fn kind(value: &ValueFacts) -> (String, String) {
    match &value.kind {
        ValueKind::Tensor { dtype, dims } => {
            let dims = dims.as_ref().map_or_else(
                || "rank not known".to_owned(),
                |dims| {
                    dims.iter()
                        .map(ToString::to_string)
                        .collect::<Vec<_>>()
                        .join("x")
                },
            );
            (dtype.to_string(), dims)
        }
        other => (format!("{other:?}").to_lowercase(), units::UNKNOWN.into()),
    }
}

fn make(args: &MakeArgs, global: &Global) -> CommandResult {
    let network = make::find(&args.network).map_err(|error| {
        let names = NETWORKS.iter().map(|network| network.name);
        let near = crate::near::matches(&args.network, names);
        let hint = near.first().map(|near| format!("did you mean {near}?"));
        CommandError::from(error).hint_if(hint)
    })?;
    let options = Options {
        size: Size {
            channels: args.channels,
            depth: args.depth,
            image: args.image,
            width: args.width,
        },
        batch: args.batch,
        dynamic: args.dynamic,
        seed: args.seed,
        weights: match args.external {
            true => Weights::External,
            false => Weights::Inside,
        },
    };
    let made = network.make(&options, &args.path)?;
    match global.json {
        true => print::json(&json!({
            "document": "edgedyno/model_make/1",
            "network": network.name,
            "made": made,
        })),
        false => print::result(format_args!(
            "{}: {}, {} parameters, {} multiply-accumulates a run",
            made.path.display(),
            units::bytes(made.bytes as f64),
            units::count(made.parameters),
            units::count(made.macs),
        )),
    }
    Ok(Exit::GOOD)
}
