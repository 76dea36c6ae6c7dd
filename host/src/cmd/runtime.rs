//! `runtime`: what a board can run models with, and installing more.

mod on_board;

use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use edgedyno_shared::device::RuntimeFound;

use super::run::inventory::{Inquiry, find_board};
use crate::board::local;
use crate::cli::Global;
use crate::cmd::block_on;
use crate::documents;
use crate::exit::{CommandError, CommandResult, Exit};
use crate::runtime::Spec;
use crate::runtime::cache::{Cache, Entry, Installed};
use crate::runtime::error::RuntimeError;
use crate::runtime::install::{Installer, Outcome};
use crate::runtime::listing::{BrokenInstallation, Listing, Verdict};
use crate::runtime::offer::Conversation;
use crate::ui::fetch::{FetchLine, Terminal};
use crate::ui::{self, print};

const EXAMPLES: &str = "\
examples:
  edgedyno runtime list                             what this machine can run models with
  edgedyno runtime install onnxruntime              the newest, with your own pip
  edgedyno runtime install onnxruntime==1.30.0      one version; several stand side by side";

const LIST_EXAMPLES: &str = "\
examples:
  edgedyno runtime list
  edgedyno runtime list --json | jq '.backends[].libraries[].path'";

const INSTALL_EXAMPLES: &str = "\
examples:
  edgedyno runtime install onnxruntime
  edgedyno runtime install onnxruntime==1.30.0
  edgedyno runtime install onnxruntime --board x5
  edgedyno runtime install onnxruntime --from onnxruntime-1.30.0-cp311-cp311-linux.whl
  edgedyno runtime install onnxruntime --from /opt/ort/lib/libonnxruntime.so.1.22.0";

#[derive(Debug, Clone, Args)]
#[command(after_help = EXAMPLES)]
pub struct RuntimeArgs {
    #[command(subcommand)]
    command: RuntimeCommand,
}

#[derive(Debug, Clone, Subcommand)]
enum RuntimeCommand {
    /// Backends of a board, the libraries found for them, and why a library was refused
    List(ListArgs),
    /// Put a runtime's library into this user's cache, where every later run finds it
    Install(InstallArgs),
}

#[derive(Debug, Clone, Args)]
#[command(after_help = LIST_EXAMPLES)]
struct ListArgs {
    /// Board to ask
    #[arg(long, value_name = "NAME", default_value = local::NAME)]
    board: String,
}

#[derive(Debug, Clone, Args)]
#[command(after_help = INSTALL_EXAMPLES)]
struct InstallArgs {
    /// What to install: NAME or NAME==VERSION
    #[arg(value_name = "RUNTIME")]
    spec: String,
    /// Take it from a wheel, an archive or a library file instead of the package index
    #[arg(long, value_name = "FILE")]
    from: Option<PathBuf>,
    /// Download nothing
    #[arg(long)]
    offline: bool,
    /// Put it on a board that ssh reaches: the file for its processor and C library
    #[arg(long, value_name = "NAME", default_value = local::NAME)]
    board: String,
}

/// Runs `runtime`.
pub fn run(args: &RuntimeArgs, global: &Global) -> CommandResult {
    match &args.command {
        RuntimeCommand::List(args) => list(&args.board, global.json),
        RuntimeCommand::Install(args) => install(args, global.json),
    }
}

fn list(board: &str, json: bool) -> CommandResult {
    let found = find_board(board)?;
    let device = block_on(async { Inquiry::open(&found).await?.device().await })?;
    let broken = match board {
        local::NAME => broken_installations()?,
        _ => Vec::new(),
    };
    let listing = Listing::of(board, &device, broken);
    match json {
        true => print::json(&documents::runtimes(&listing)),
        false => print::result(ui::runtime::listing(&listing)),
    }
    Ok(Exit::GOOD)
}

fn broken_installations() -> Result<Vec<BrokenInstallation>, CommandError> {
    let entries = match Cache::from_environment() {
        Ok(cache) => cache.list()?,
        // Without a home there is no cache, which is no fault of the board's.
        Err(RuntimeError::NoCacheFolder) => Vec::new(),
        Err(other) => return Err(other.into()),
    };
    let broken = entries.into_iter().filter_map(|entry| match entry {
        Entry::Installed(_) => None,
        Entry::Broken { folder, why } => Some(BrokenInstallation {
            folder: folder.display().to_string(),
            reason: why,
        }),
    });
    Ok(broken.collect())
}

fn install(args: &InstallArgs, json: bool) -> CommandResult {
    let spec = spec(&args.spec, &args.board)?;
    if args.board != local::NAME {
        return on_board::install(&args.board, &spec, args, json);
    }
    let installer = Installer::new(Cache::from_environment()?);
    let outcome = match &args.from {
        Some(file) => from_file(&installer, &spec, file)?,
        None if args.offline => offline(&installer, &spec)?,
        None => Terminal.fetches(&installer, &spec)?,
    };
    let (installed, is_new) = match &outcome {
        Outcome::Installed(installed) => (installed, true),
        Outcome::AlreadyThere(installed) => (installed, false),
    };
    let verdict = try_out(installed)?;
    match json {
        true => print::json(&documents::installed(installed, is_new, &verdict)),
        false => print::result(ui::runtime::installed(
            installed,
            is_new,
            &verdict,
            local::NAME,
        )),
    }
    match &verdict {
        Verdict::Usable { .. } => Ok(Exit::GOOD),
        Verdict::Refused { reason, hint, .. } => Err(unusable(installed, reason, hint.as_deref())),
    }
}

/// What is to be installed; the hint looks at the board where it would be.
fn spec(text: &str, board: &str) -> Result<Spec, CommandError> {
    text.parse().map_err(|why: RuntimeError| match why {
        RuntimeError::UnknownRuntime { .. } => {
            let there = local::there(board);
            let hint = format!("{}; see `edgedyno runtime list{there}`", why.hint());
            CommandError::from(why).hint(hint)
        }
        why => why.into(),
    })
}

fn from_file(installer: &Installer, spec: &Spec, file: &Path) -> Result<Outcome, CommandError> {
    let mut line = FetchLine::start();
    let outcome = installer.install_from(file, spec, &mut |step| line.tell(&step))?;
    Ok(outcome)
}

/// What is there already needs no download.
fn offline(installer: &Installer, spec: &Spec) -> Result<Outcome, CommandError> {
    let there = installer.find(spec);
    there.map(Outcome::AlreadyThere).ok_or_else(|| {
        let what = format!("{spec} is not installed, and --offline forbids to fetch it");
        CommandError::usage(what).hint("leave out --offline, or name a file with --from FILE")
    })
}

/// Asks this machine's agent whether the library can be opened here.
fn try_out(installed: &Installed) -> Result<Verdict, CommandError> {
    let board = find_board(local::NAME)?;
    let found: RuntimeFound = block_on(async {
        let mut inquiry = Inquiry::open(&board).await?;
        inquiry.probe(&installed.package, &installed.path).await
    })?;
    Ok(Verdict::from(&found.verdict))
}

fn unusable(installed: &Installed, reason: &str, hint: Option<&str>) -> CommandError {
    let what = format!(
        "{} {} is installed but cannot be used on this machine",
        installed.package, installed.version
    );
    let error = CommandError::new(Exit::UNEXPECTED, what).cause(reason);
    error.hint_if(hint.map(str::to_owned))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_runtime_that_nobody_publishes_is_looked_for_on_its_board() {
        let hint = |text: &str, board: &str| spec(text, board).unwrap_err().hint.unwrap();
        assert!(hint("tensorrt", "x5").ends_with("`edgedyno runtime list --board x5`"));
        assert!(hint("tensorrt", "local").ends_with("`edgedyno runtime list`"));
        assert!(hint("onnxruntime==", "x5").contains("onnxruntime==1."));
    }
}
