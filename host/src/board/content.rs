//! Files behind a hash, as an agent on the same machine is told of them.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use edgedyno_shared::file_mark::FileMark;
use edgedyno_shared::ids::Sha256;
use edgedyno_shared::wire::request::{ContentMap, MappedFile};
use sha2::Digest;

use crate::model::digest;

/// A content and the files that hold it, the first its own, the others by the name it uses for them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Content {
    pub sha256: Sha256,
    pub files: Vec<(String, PathBuf)>,
}

impl Content {
    /// Hashes one file.
    pub fn of_file(path: &Path) -> io::Result<Self> {
        let path = fs::canonicalize(path)?;
        let (digest, _) = digest::Digest::of_reader(fs::File::open(&path)?)?;
        let name = path.file_name().unwrap_or_default();
        Ok(Self {
            sha256: Sha256(*digest.as_bytes()),
            files: vec![(name.to_string_lossy().into_owned(), path.clone())],
        })
    }

    /// What the agent is told: where the files lie and how to know them again.
    pub fn to_map(&self) -> io::Result<ContentMap> {
        let files = self.files.iter().map(|(name, path)| map_file(name, path));
        Ok(ContentMap {
            sha256: self.sha256,
            files: files.collect::<io::Result<_>>()?,
        })
    }
}

fn map_file(name: &str, path: &Path) -> io::Result<MappedFile> {
    let path = fs::canonicalize(path)?;
    let found = fs::metadata(&path)?;
    let text = path.to_str().ok_or_else(|| {
        let why = format!("`{}` is not text; rename the file", path.display());
        io::Error::new(io::ErrorKind::InvalidInput, why)
    })?;
    Ok(MappedFile {
        name: name.to_owned(),
        path: text.to_owned(),
        mark: FileMark::of(&found),
    })
}

/// SHA-256 of bytes in memory.
pub fn sha256(bytes: &[u8]) -> Sha256 {
    Sha256(sha2::Sha256::digest(bytes).into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_mapped_with_what_tells_it_from_another() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.npy");
        fs::write(&path, b"abc").unwrap();
        let content = Content::of_file(&path).unwrap();
        assert_eq!(content.sha256, sha256(b"abc"));
        let map = content.to_map().unwrap();
        assert_eq!(map.files[0].mark.bytes, 3);
        assert_eq!(map.files[0].name, "x.npy");
        assert!(map.files[0].path.ends_with("/x.npy"));
        fs::remove_file(path).unwrap();
        assert!(content.to_map().is_err());
    }
}
