//! A folder for a while.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::error::BundleError;

/// Removed with all that is in it when it is dropped.
#[derive(Debug)]
pub(super) struct Scratch(PathBuf);

impl Scratch {
    pub(super) fn new() -> Result<Self, BundleError> {
        let mut random = [0; 8];
        let above = std::env::temp_dir();
        let failed = |source: io::Error| BundleError::NotWritable {
            path: above.clone(),
            source,
        };
        getrandom::fill(&mut random).map_err(|why| failed(io::Error::other(why.to_string())))?;
        let name = format!("edgedyno-{:016x}", u64::from_le_bytes(random));
        let path = above.join(name);
        fs::create_dir(&path).map_err(failed)?;
        Ok(Self(path))
    }

    pub(super) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}
