//! `model`: what is in a model file, and making one from nothing.

use std::num::NonZeroU32;
use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};

use crate::cli::Global;
use crate::documents;
use crate::exit::{CommandError, CommandResult, Exit};
use crate::model::info::ModelInfo;
use crate::model::make::{self, MakeError, NETWORKS, Options, Size, Weights};
use crate::near;
use crate::ui::{self, print};

const EXAMPLES: &str = "\
examples:
  edgedyno model info model.onnx           what is in it: shapes, operators, weights
  edgedyno model make                      the kinds of network that can be made
  edgedyno model make conv --out c.onnx    one to measure with";

const INFO_EXAMPLES: &str = "\
examples:
  edgedyno model info model.onnx
  edgedyno model info model.onnx --json | jq .inputs";

const MAKE_EXAMPLES: &str = "\
examples:
  edgedyno model make                                      lists the kinds
  edgedyno model make conv --channels 64 --image 224
  edgedyno model make depthwise --dynamic --out dw.onnx
  edgedyno model make matmul --width 4096 --external       weights in a file beside it";

#[derive(Debug, Clone, Args)]
#[command(after_help = EXAMPLES)]
pub struct ModelArgs {
    #[command(subcommand)]
    command: ModelCommand,
}

#[derive(Debug, Clone, Subcommand)]
enum ModelCommand {
    /// What is in a model file: shapes, operators, weights; nothing is run
    Info(InfoArgs),
    /// Make a network with seeded weights; without KIND, list the kinds
    Make(MakeArgs),
}

#[derive(Debug, Clone, Args)]
#[command(after_help = INFO_EXAMPLES)]
struct InfoArgs {
    /// The ONNX file
    model: PathBuf,
}

#[derive(Debug, Clone, Args)]
#[command(after_help = MAKE_EXAMPLES)]
struct MakeArgs {
    /// What kind of network
    kind: Option<String>,
    /// The file to write; without it KIND.onnx here
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Replace the file when it is there
    #[arg(long)]
    force: bool,
    /// Channels of every inner layer
    #[arg(long, value_name = "N")]
    channels: Option<u32>,
    /// Layers or blocks
    #[arg(long, value_name = "N")]
    depth: Option<u32>,
    /// Height and width of the input image
    #[arg(long, value_name = "N")]
    image: Option<u32>,
    /// Rows and columns of every matrix
    #[arg(long, value_name = "N")]
    width: Option<u32>,
    /// Batch size
    #[arg(long, value_name = "N", default_value = "1")]
    batch: NonZeroU32,
    /// Name the dimensions N, H and W instead of fixing them
    #[arg(long)]
    dynamic: bool,
    /// Seed of the weights
    #[arg(long, value_name = "N", default_value = "1")]
    seed: u64,
    /// Keep the weights in FILE.data beside the model
    #[arg(long)]
    external: bool,
}

/// Runs `model`.
pub fn run(args: &ModelArgs, global: &Global) -> CommandResult {
    match &args.command {
        ModelCommand::Info(args) => info(&args.model, global.json),
        ModelCommand::Make(args) => match &args.kind {
            Some(kind) => make_one(kind, args, global.json),
            None => list(args, global.json),
        },
    }
}

fn info(model: &Path, json: bool) -> CommandResult {
    let info = ModelInfo::read(model)?;
    match json {
        true => print::json(&documents::model(&info)),
        false => print::result(ui::model::info(&info)),
    }
    Ok(Exit::GOOD)
}

fn list(args: &MakeArgs, json: bool) -> CommandResult {
    if args.out.is_some() {
        return Err(
            CommandError::usage("--out names a file, but no kind of network is named")
                .hint("`edgedyno model make` lists the kinds"),
        );
    }
    match json {
        true => print::json(&documents::kinds()),
        false => print::result(ui::model::networks()),
    }
    Ok(Exit::GOOD)
}

fn make_one(kind: &str, args: &MakeArgs, json: bool) -> CommandResult {
    let network = make::find(kind).map_err(|error| unknown_kind(kind, &error))?;
    let path = match &args.out {
        Some(path) => path.clone(),
        None => format!("{kind}.onnx").into(),
    };
    if !args.force {
        refuse_to_replace(&path, args.external)?;
    }
    let made = network.make(&args.options(), &path)?;
    match json {
        true => print::json(&documents::made(network, &made)),
        false => print::result(ui::model::made(network, &made, args.dynamic)),
    }
    Ok(Exit::GOOD)
}

impl MakeArgs {
    fn options(&self) -> Options {
        Options {
            size: Size {
                channels: self.channels,
                depth: self.depth,
                image: self.image,
                width: self.width,
            },
            batch: self.batch.get(),
            dynamic: self.dynamic,
            seed: self.seed,
            weights: match self.external {
                true => Weights::External,
                false => Weights::Inside,
            },
        }
    }
}

fn refuse_to_replace(path: &Path, external: bool) -> Result<(), CommandError> {
    let data = external.then(|| make::data_path(path));
    let there = [Some(path.to_owned()), data].into_iter().flatten();
    match there
        .into_iter()
        .find(|path| path.symlink_metadata().is_ok())
    {
        None => Ok(()),
        Some(path) => Err(
            CommandError::usage(format!("`{}` is there already", path.display()))
                .hint("--force replaces it, --out FILE names another file"),
        ),
    }
}

fn unknown_kind(kind: &str, error: &MakeError) -> CommandError {
    let known = NETWORKS.iter().map(|network| network.name);
    let refused = CommandError::usage(error.to_string());
    match near::matches(kind, known).first() {
        Some(near) => refused.hint(format!("did you mean {near}?")),
        None => refused.hint(error.hint()),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn nothing_that_is_there_is_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("m.onnx");
        assert!(refuse_to_replace(&path, true).is_ok());
        fs::write(folder.path().join("m.onnx.data"), b"kept").unwrap();
        assert!(refuse_to_replace(&path, false).is_ok());
        let refused = refuse_to_replace(&path, true).unwrap_err();
        assert!(refused.what.contains("m.onnx.data"), "{refused}");
        assert_eq!(refused.exit, Exit::USAGE);
        assert!(refused.hint.unwrap().contains("--force"));
    }

    #[test]
    fn a_kind_that_is_nearly_right_is_named() {
        let error = make::find("convolution").unwrap_err();
        let refused = unknown_kind("convolution", &error);
        assert_eq!(refused.hint.as_deref(), Some("did you mean conv?"));
    }
}
