//! Fetching a runtime, said step by step on stderr.

use std::path::Path;

use crate::exit::CommandError;
use crate::runtime::Spec;
use crate::runtime::cache::Cache;
use crate::runtime::install::{Installer, Outcome, Step};
use crate::ui::print;

/// What is about to be fetched and how large it is, for a question or a note.
pub(in crate::cmd) const HOW_LARGE: &str =
    "ONNX Runtime with this machine's pip (about 20 MB to download, 25 MB in the cache)";

pub(in crate::cmd) fn with_pip(spec: &Spec) -> Result<Outcome, CommandError> {
    Ok(installer()?.install(spec, &mut say)?)
}

pub(super) fn from_file(file: &Path) -> Result<Outcome, CommandError> {
    Ok(installer()?.install_from(file, &mut say)?)
}

fn installer() -> Result<Installer, CommandError> {
    Ok(Installer::new(Cache::from_environment()?))
}

fn say(step: Step) {
    match step {
        Step::Downloading(spec) => print::note(format_args!("downloading {spec} with pip")),
        Step::Copying(name) => print::note(format_args!("unpacking {name}")),
    }
}
