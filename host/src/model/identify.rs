//! Which bytes a model is: its files and one sha256 for all of them.

use std::path::{Path, PathBuf};

use serde::Serialize;

use super::digest::Digest;
use super::error::ModelError;
use super::facts::ExternalFile;
use super::inspect::{inspect, open};

/// What the model file itself is called in the manifest, so that renaming it changes nothing.
const SELF_NAME: &str = ".";

/// A model by its bytes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ModelIdentity {
    /// Of the file, or of the manifest when the model keeps weights in other files.
    pub sha256: Digest,
    /// The model file, then its weight files by name.
    pub files: Vec<ModelFile>,
}

/// One file of a model.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ModelFile {
    /// File name of the model; for a weight file the name the model calls it by.
    pub name: String,
    pub path: PathBuf,
    pub bytes: u64,
    pub sha256: Digest,
}

impl ModelIdentity {
    /// Bytes of all files.
    pub fn bytes(&self) -> u64 {
        self.files.iter().map(|file| file.bytes).sum()
    }
}

/// Hashes a model and the weight files it names.
///
/// A file of another format is a model of one file. For ONNX with weight files the identity is the
/// sha256 of a manifest: a line `<sha256>  <name>` for each file, sorted by name, the model itself
/// under the name `.`; `sha256sum` prints the same lines.
pub fn identify(path: &Path) -> Result<ModelIdentity, ModelError> {
    let externals = match inspect(path) {
        Ok(facts) => facts.external_files,
        Err(ModelError::NotOnnx { .. }) => Vec::new(),
        Err(error) => return Err(error),
    };
    let name = path
        .file_name()
        .unwrap_or(path.as_os_str())
        .to_string_lossy()
        .into_owned();
    let mut files = vec![hash(name, path.to_owned())?];
    let folder = path.parent().unwrap_or(Path::new(""));
    for external in &externals {
        files.push(hash_external(path, folder, external)?);
    }
    let sha256 = if externals.is_empty() {
        files[0].sha256
    } else {
        Digest::of(manifest(&files).as_bytes())
    };
    Ok(ModelIdentity { sha256, files })
}

fn hash(name: String, path: PathBuf) -> Result<ModelFile, ModelError> {
    let file = open(&path)?;
    match Digest::of_reader(file) {
        Ok((sha256, bytes)) => Ok(ModelFile {
            name,
            path,
            bytes,
            sha256,
        }),
        Err(source) => Err(ModelError::Read { path, source }),
    }
}

fn hash_external(
    model: &Path,
    folder: &Path,
    external: &ExternalFile,
) -> Result<ModelFile, ModelError> {
    let file = folder.join(&external.name);
    let hashed = hash(external.name.clone(), file.clone()).map_err(|error| match error {
        ModelError::Missing { .. } => ModelError::ExternalMissing {
            path: model.to_owned(),
            file: file.clone(),
        },
        error => error,
    })?;
    if hashed.bytes < external.needs_bytes {
        let (bytes, needs) = (hashed.bytes, external.needs_bytes);
        return Err(ModelError::ExternalShort {
            path: model.to_owned(),
            file,
            bytes,
            needs,
        });
    }
    Ok(hashed)
}

fn manifest(files: &[ModelFile]) -> String {
    let mut lines: Vec<(&str, Digest)> = files
        .iter()
        .enumerate()
        .map(|(index, file)| (if index == 0 { SELF_NAME } else { &file.name }, file.sha256))
        .collect();
    lines.sort_unstable();
    lines
        .iter()
        .map(|(name, sha256)| format!("{sha256}  {name}\n"))
        .collect()
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    const BRANCH: &[u8] = include_bytes!("fixtures/branch.onnx");

    /// The fixture with the weight files it names.
    fn model_folder() -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("m.onnx"), BRANCH).unwrap();
        fs::create_dir(folder.path().join("weights")).unwrap();
        fs::write(folder.path().join("weights/big.bin"), [1; 124]).unwrap();
        fs::write(folder.path().join("small.bin"), [2; 16]).unwrap();
        folder
    }

    #[test]
    fn a_single_file_is_its_own_hash_whatever_its_format() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("m.bin");
        fs::write(&path, b"abc").unwrap();
        let identity = identify(&path).unwrap();
        // FIPS 180-2, appendix B.1.
        let abc = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(identity.sha256.to_string(), abc);
        assert_eq!((identity.files.len(), identity.bytes()), (1, 3));
        assert_eq!(identity.files[0].name, "m.bin");
    }

    #[test]
    fn with_weight_files_the_identity_is_the_hash_of_the_manifest() {
        let folder = model_folder();
        let identity = identify(&folder.path().join("m.onnx")).unwrap();
        let names: Vec<&str> = identity
            .files
            .iter()
            .map(|file| file.name.as_str())
            .collect();
        assert_eq!(names, ["m.onnx", "small.bin", "weights/big.bin"]);
        // sha256sum of the three files, names replaced and sorted, through sha256sum again.
        let expected = "1d8d54692235027a3a210d3573a0480fd9d201a0bdb4a26b781fb5f99754ee72";
        assert_eq!(identity.sha256.to_string(), expected);
    }

    #[test]
    fn renaming_the_model_keeps_its_identity_and_changing_a_weight_does_not() {
        let folder = model_folder();
        let path = folder.path().join("m.onnx");
        let before = identify(&path).unwrap().sha256;
        let renamed = folder.path().join("n.onnx");
        fs::rename(&path, &renamed).unwrap();
        assert_eq!(identify(&renamed).unwrap().sha256, before);
        fs::write(folder.path().join("small.bin"), [3; 16]).unwrap();
        assert_ne!(identify(&renamed).unwrap().sha256, before);
    }

    #[test]
    fn a_weight_file_that_is_missing_or_short_is_named() {
        let folder = model_folder();
        let path = folder.path().join("m.onnx");
        let big = folder.path().join("weights/big.bin");
        fs::write(&big, [1; 123]).unwrap();
        match identify(&path).unwrap_err() {
            ModelError::ExternalShort {
                file,
                bytes: 123,
                needs: 124,
                ..
            } => assert_eq!(file, big),
            error => panic!("{error}"),
        }
        fs::remove_file(&big).unwrap();
        match identify(&path).unwrap_err() {
            ModelError::ExternalMissing { file, .. } => assert_eq!(file, big),
            error => panic!("{error}"),
        }
    }
}
