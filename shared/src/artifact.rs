//! Artifacts: named files of a repeat that were made on the board.

use serde::{Deserialize, Serialize};

use crate::ids::Sha256;

/// Announces an artifact; its bytes follow as [`ArtifactPart`]s.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Artifact {
    pub number: u32,
    pub name: String,
    /// What it is: `output_tensor`, `runtime_profile`.
    pub kind: String,
    pub sha256: Sha256,
    pub bytes: u64,
}

/// A piece of an artifact, in order, each within one frame.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ArtifactPart {
    pub number: u32,
    pub bytes: Vec<u8>,
}

/// The name of a tensor's file, without its ending: a model's names may hold what separates folders, or
/// begin like a hidden file.
pub fn file_stem(tensor: &str) -> String {
    let name = tensor.replace(['/', '\\'], "_");
    name.trim_start_matches('.').to_owned()
}
