//! What a worker is told: the order, and where on this machine its contents lie.

use std::path::PathBuf;

use edgedyno_shared::ids::Sha256;
use edgedyno_shared::order::RepeatOrder;
use serde::{Deserialize, Serialize};

/// Sent by the daemon once the worker has said which build it is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Job {
    pub order: RepeatOrder,
    /// The model's file; none for a backend that reads none.
    pub model: Option<PathBuf>,
    /// The model's file and those it refers to.
    pub model_files: Vec<PathBuf>,
    /// The library to open; none for what is built in.
    pub library: Option<PathBuf>,
    /// Files of inputs and references, by hash.
    pub files: Vec<(Sha256, PathBuf)>,
    /// CPUs that every thread of the worker shall stay on.
    pub cpus: Vec<u16>,
}

impl Job {
    pub fn file(&self, sha256: &Sha256) -> Option<&PathBuf> {
        self.files
            .iter()
            .find(|(hash, _)| hash == sha256)
            .map(|(_, path)| path)
    }
}
