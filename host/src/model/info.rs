//! What `model info` tells: the facts of a model, its identity, and whether its weight files are there.

use std::fs;
use std::path::{Path, PathBuf};

use serde::Serialize;

use super::digest::Digest;
use super::error::ModelError;
use super::facts::{ExternalFile, ModelFacts};
use super::identify::identify;
use super::inspect::inspect;

/// A model file and everything that can be said of it without a runtime.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ModelInfo {
    pub path: PathBuf,
    /// By which runs know the model; none while a weight file is missing or short.
    pub sha256: Option<Digest>,
    /// Of the model file alone.
    pub file_bytes: u64,
    pub nodes: u64,
    #[serde(flatten)]
    pub facts: ModelFacts,
    pub weight_files: Vec<WeightFile>,
}

/// A weight file as the model wants it, and as it is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct WeightFile {
    pub name: String,
    pub needs_bytes: u64,
    /// None when it is not there.
    pub bytes: Option<u64>,
}

impl WeightFile {
    fn look(folder: &Path, external: &ExternalFile) -> Self {
        let found = fs::metadata(folder.join(&external.name)).ok();
        Self {
            name: external.name.clone(),
            needs_bytes: external.needs_bytes,
            bytes: found.filter(fs::Metadata::is_file).map(|found| found.len()),
        }
    }

    pub fn is_complete(&self) -> bool {
        self.bytes.is_some_and(|bytes| bytes >= self.needs_bytes)
    }
}

impl ModelInfo {
    /// Reads the model, and hashes all of its files when they are there.
    pub fn read(path: &Path) -> Result<Self, ModelError> {
        let facts = inspect(path)?;
        let folder = path.parent().unwrap_or(Path::new(""));
        let look = |external| WeightFile::look(folder, external);
        let weight_files: Vec<WeightFile> = facts.external_files.iter().map(look).collect();
        let is_whole = weight_files.iter().all(WeightFile::is_complete);
        let file_bytes = fs::metadata(path).map_err(|source| ModelError::Read {
            path: path.to_owned(),
            source,
        })?;
        Ok(Self {
            path: path.to_owned(),
            sha256: match is_whole {
                true => Some(identify(path)?.sha256),
                false => None,
            },
            file_bytes: file_bytes.len(),
            nodes: facts.nodes(),
            facts,
            weight_files,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BRANCH: &[u8] = include_bytes!("fixtures/branch.onnx");

    #[test]
    fn a_model_without_its_weight_files_is_still_described() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("m.onnx");
        fs::write(&path, BRANCH).unwrap();
        fs::write(folder.path().join("small.bin"), [2; 16]).unwrap();
        let info = ModelInfo::read(&path).unwrap();
        assert_eq!(info.sha256, None);
        assert_eq!(info.file_bytes, BRANCH.len() as u64);
        let complete = info.weight_files.iter().map(WeightFile::is_complete);
        assert_eq!(complete.collect::<Vec<_>>(), [true, false]);
        assert_eq!(info.weight_files[1].bytes, None);

        fs::create_dir(folder.path().join("weights")).unwrap();
        fs::write(folder.path().join("weights/big.bin"), [1; 123]).unwrap();
        let info = ModelInfo::read(&path).unwrap();
        assert!(!info.weight_files[1].is_complete());
        fs::write(folder.path().join("weights/big.bin"), [1; 124]).unwrap();
        assert!(ModelInfo::read(&path).unwrap().sha256.is_some());
    }
}
