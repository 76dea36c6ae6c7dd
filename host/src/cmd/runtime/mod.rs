//! `runtime`: libraries found, and libraries fetched.

pub(super) mod fetch;
mod list;

use std::path::PathBuf;

use clap::{Args, Subcommand};
use serde_json::json;

use crate::cli::Global;
use crate::exit::{CommandError, CommandResult, Exit};
use crate::runtime::Spec;
use crate::runtime::cache::Installed;
use crate::runtime::install::Outcome;
use crate::ui::{print, units};

const EXAMPLES: &str = "\
examples:
  edgedyno runtime list
  edgedyno runtime install onnxruntime
  edgedyno runtime install onnxruntime==1.22.0
  edgedyno runtime install --from onnxruntime-1.22.0-cp312-manylinux_x86_64.whl";

#[derive(Debug, Clone, Args)]
#[command(after_help = EXAMPLES)]
pub struct RuntimeArgs {
    #[command(subcommand)]
    pub what: What,
}

#[derive(Debug, Clone, Subcommand)]
pub enum What {
    /// Backends of a board and the libraries found for them, or why they were refused
    #[command(after_help = "example:\n  edgedyno runtime list --json")]
    List {
        /// The board to ask
        #[arg(long, value_name = "NAME", default_value = crate::board::local::NAME)]
        board: String,
    },
    /// Fetch a runtime with this machine's own pip, or take it from a file
    #[command(after_help = EXAMPLES)]
    Install {
        /// NAME or NAME==VERSION
        #[arg(required_unless_present = "from")]
        spec: Option<String>,
        /// A wheel or library on this machine
        #[arg(long, value_name = "FILE", conflicts_with = "spec")]
        from: Option<PathBuf>,
    },
}

pub fn run(args: &RuntimeArgs, global: &Global) -> CommandResult {
    match &args.what {
        What::List { board } => list::run(board, global),
        What::Install { spec, from } => {
            let outcome = match (spec, from) {
                (_, Some(file)) => fetch::from_file(file)?,
                (Some(spec), None) => fetch::with_pip(&spec.parse::<Spec>()?)?,
                (None, None) => {
                    return Err(CommandError::usage("nothing to install is named")
                        .hint("`edgedyno runtime install onnxruntime`"));
                }
            };
            say(&outcome, global);
            Ok(Exit::GOOD)
        }
    }
}

fn say(outcome: &Outcome, global: &Global) {
    let (installed, already) = match outcome {
        Outcome::Installed(installed) => (installed, false),
        Outcome::AlreadyThere(installed) => (installed, true),
    };
    if global.json {
        return print::json(&json!({
            "document": "edgedyno/runtime_install/1",
            "already_there": already,
            "installed": installed,
        }));
    }
    print::result(describe(installed, already));
}

fn describe(installed: &Installed, already: bool) -> String {
    let known = match installed.known {
        true => "a published build",
        false => "not a build that this version knows",
    };
    let already = if already { " was there already" } else { "" };
    format!(
        "{} {}{already}: {}\n  {}, sha256 {}, {known}",
        installed.package,
        installed.version,
        installed.path.display(),
        units::bytes(installed.bytes as f64),
        installed.sha256,
    )
}
