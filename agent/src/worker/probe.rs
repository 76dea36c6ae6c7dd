//! Asks a library what it is. Runs vendor code, so only a worker does it.

use std::path::Path;

use edgedyno_shared::device::RuntimeFacts;
use edgedyno_shared::wire::failure::{Failure, FailureCode};

use crate::backend;

/// Opens the library with that backend.
pub fn ask(backend: &str, path: &Path) -> Result<RuntimeFacts, Failure> {
    let backend = backend::find(backend).ok_or_else(|| {
        Failure::new(
            FailureCode::Unsupported,
            format!("this agent has no backend `{backend}`"),
        )
    })?;
    Ok(backend.open(Some(path))?.facts())
}
