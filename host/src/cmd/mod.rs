//! Commands: each parses, calls and prints; what they call knows nothing of the command line.

pub mod board;
pub mod compare;
pub mod completions;
pub mod demo;
pub mod explain;
pub mod export;
pub mod get;
pub mod import;
pub mod man;
pub mod model;
mod preflight;
pub mod query;
mod read;
pub mod records;
pub mod report;
pub mod rerun;
pub mod run;
pub mod runs;
pub mod runtime;
pub mod samples;
pub mod selfcheck;
pub mod stress;
pub mod summary;
pub mod sweep;
pub mod top;
pub mod trace;
pub mod windows;

use std::path::PathBuf;

use crate::cli::Global;
use crate::exit::CommandError;
use crate::store::{Store, StoreError};

/// A runtime for one command: one thread, which is enough to wait for a board.
fn block_on<T>(future: impl Future<Output = Result<T, CommandError>>) -> Result<T, CommandError> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(anyhow::Error::from)?;
    runtime.block_on(future)
}

/// The store to read from; it must be there.
fn open_for_reading(global: &Global) -> Result<Store, CommandError> {
    let here = here()?;
    let found = Store::find(global.store(), &here)?;
    let dir = found.ok_or(StoreError::NotFound(here))?;
    Ok(Store::open_reading(&dir)?)
}

/// The store to write to; it is made when it is not there.
fn open_for_writing(global: &Global) -> Result<Store, CommandError> {
    let dir = Store::find_or_new(global.store(), &here()?);
    Ok(Store::open_writing(&dir)?)
}

fn here() -> Result<PathBuf, CommandError> {
    Ok(std::env::current_dir().map_err(anyhow::Error::from)?)
}
