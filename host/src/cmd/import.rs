//! `import`: a bundle into the store.

use std::path::PathBuf;

use clap::Args;

use super::here;
use crate::bundle::{self, BundleError};
use crate::cli::Global;
use crate::exit::{CommandResult, Exit};
use crate::store::Store;
use crate::ui::busy::Busy;
use crate::ui::print;
use crate::{clock, documents};

const EXAMPLES: &str = "\
examples:
  edgedyno import run.tar.gz
  edgedyno import run.tar.gz --models models/
  edgedyno import run.tar.gz --store elsewhere/.edgedyno

The run keeps its id. What is in the store already stays as it is: the same bundle twice changes nothing.";

#[derive(Debug, Clone, Args)]
#[command(after_help = EXAMPLES)]
pub struct ImportArgs {
    /// Bundles, made by `edgedyno export RUN --bundle FILE`
    #[arg(value_name = "FILE", required = true)]
    pub files: Vec<PathBuf>,
    /// Write the model files that a bundle holds into this folder
    #[arg(long, value_name = "DIR")]
    pub models: Option<PathBuf>,
}

pub fn run(args: &ImportArgs, global: &Global) -> CommandResult {
    let dir = Store::find_or_new(global.store(), &here()?);
    let mut conflicts = false;
    let mut taken = Vec::new();
    for path in &args.files {
        let open = || Store::open_writing(&dir).map_err(BundleError::from);
        let one = {
            let _busy = Busy::with(format!("taking {} in", path.display()));
            bundle::read(path, args.models.as_deref(), clock::unix_ns(), open)?
        };
        conflicts |= !one.merged.conflicts.is_empty();
        super::runs::tell_conflicts(one.merged.conflicts.iter().map(String::as_str));
        if !global.json {
            print::result(super::runs::merged_text(&one.merged));
            one.models
                .iter()
                .for_each(|model| print::result(model.display()));
        }
        taken.push(one);
    }
    if global.json {
        print::json(&documents::imported(&dir, &taken));
    }
    Ok(if conflicts {
        Exit::UNEXPECTED
    } else {
        Exit::GOOD
    })
}
