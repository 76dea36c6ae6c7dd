//! The per-user folder with installed runtimes.
//!
//! `<cache>/runtimes/<package>/<version>/` holds the library, its providers and `installed.json`.
//! The folder appears with one rename, so what is there is complete.

use std::cmp::Ordering;
use std::ffi::OsString;
use std::fs::{self, File};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::error::RuntimeError;
use super::library::is_library;
use crate::model::digest::Digest;

/// The note beside the files.
pub(super) const NOTE: &str = "installed.json";
const NOTE_LIMIT: u64 = 1024 * 1024;
/// Of the layout of the note.
pub(super) const NOTE_FORMAT: u32 = 1;

/// Where runtimes are kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cache {
    root: PathBuf,
}

/// A runtime in the cache.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Installed {
    pub package: String,
    pub version: String,
    pub architecture: String,
    /// The library to open.
    pub path: PathBuf,
    /// Of the library.
    pub sha256: Digest,
    /// Of all its files.
    pub bytes: u64,
    /// Whether the library is one of the published builds this tool knows.
    pub known: bool,
}

/// What stands in the cache under one version.
#[derive(Debug)]
pub enum Entry {
    Installed(Installed),
    /// A folder without a note that can be read.
    Broken {
        folder: PathBuf,
        why: String,
    },
}

/// `installed.json`.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Note {
    pub(super) format: u32,
    pub(super) package: String,
    pub(super) version: String,
    pub(super) architecture: String,
    pub(super) known: bool,
    /// Where it came from, for a reader of the file.
    pub(super) source: String,
    /// The library first, then its providers.
    pub(super) files: Vec<NoteFile>,
}

#[derive(Debug, Serialize, Deserialize)]
pub(super) struct NoteFile {
    pub(super) name: String,
    pub(super) bytes: u64,
    pub(super) sha256: Digest,
}

impl Cache {
    /// `EDGEDYNO_CACHE`, else `XDG_CACHE_HOME/edgedyno`, else `~/.cache/edgedyno`.
    pub fn from_environment() -> Result<Self, RuntimeError> {
        Self::from_variables(|name| std::env::var_os(name))
    }

    fn from_variables(variable: impl Fn(&str) -> Option<OsString>) -> Result<Self, RuntimeError> {
        let set = |name: &str| {
            variable(name)
                .filter(|value| !value.is_empty())
                .map(PathBuf::from)
        };
        // The XDG specification has relative paths ignored.
        let xdg = set("XDG_CACHE_HOME").filter(|path| path.is_absolute());
        let root = set("EDGEDYNO_CACHE")
            .or_else(|| xdg.map(|path| path.join("edgedyno")))
            .or_else(|| set("HOME").map(|home| home.join(".cache/edgedyno")));
        root.map(Self::at).ok_or(RuntimeError::NoCacheFolder)
    }

    /// A cache in that folder, which need not exist.
    pub fn at(root: PathBuf) -> Self {
        Self { root }
    }

    /// What is kept for boards of another architecture, apart from this machine's.
    pub(super) fn for_boards(&self, architecture: &str) -> Self {
        Self::at(self.root.join("boards").join(architecture))
    }

    /// The folder that all of it is in.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// The folder all versions of all packages are in.
    pub fn runtimes(&self) -> PathBuf {
        self.root.join("runtimes")
    }

    /// The folder for networks that the tool makes for itself.
    pub fn models(&self) -> PathBuf {
        self.root.join("models")
    }

    pub(super) fn folder(&self, package: &str, version: &str) -> PathBuf {
        self.runtimes().join(package).join(version)
    }

    /// The library of an installation and what stands beside it, each with its hash.
    pub fn files(&self, installed: &Installed) -> Result<Vec<(PathBuf, Digest)>, RuntimeError> {
        let folder = self.folder(&installed.package, &installed.version);
        let note = read_note(&folder)
            .map_err(|why| RuntimeError::cache(&folder)(std::io::Error::other(why)))?;
        Ok(note
            .files
            .into_iter()
            .map(|file| (folder.join(file.name), file.sha256))
            .collect())
    }

    /// Everything in the cache, by package, newest version first; nothing when there is no cache.
    pub fn list(&self) -> Result<Vec<Entry>, RuntimeError> {
        let mut entries = Vec::new();
        for package in folders(&self.runtimes())? {
            let mut versions = folders(&package)?;
            versions.sort_by(|a, b| compare_versions(name_of(b), name_of(a)));
            entries.extend(versions.iter().map(|folder| read_entry(folder)));
        }
        Ok(entries)
    }

    /// Whether the user was asked about a package once and said no.
    pub(super) fn is_declined(&self, package: &str) -> bool {
        self.declined(package).exists()
    }

    /// Remembers a no.
    pub(super) fn decline(&self, package: &str) -> Result<(), RuntimeError> {
        let file = self.declined(package);
        let folder = self.runtimes();
        fs::create_dir_all(&folder).map_err(RuntimeError::cache(&folder))?;
        fs::write(&file, b"").map_err(RuntimeError::cache(&file))
    }

    fn declined(&self, package: &str) -> PathBuf {
        self.runtimes().join(format!("{package}.declined"))
    }

    /// Versions of a package that are in the cache, whole or not, newest first.
    pub(super) fn versions(&self, package: &str) -> Vec<String> {
        let found = folders(&self.runtimes().join(package)).unwrap_or_default();
        let mut versions: Vec<String> = found.iter().map(|p| name_of(p).to_owned()).collect();
        versions.sort_by(|a, b| compare_versions(b, a));
        versions
    }

    /// The runtime of that package and version, if it is there and its library is unchanged.
    pub fn find(&self, package: &str, version: &str) -> Option<Installed> {
        let Entry::Installed(installed) = read_entry(&self.folder(package, version)) else {
            return None;
        };
        let (sha256, _) = Digest::of_reader(File::open(&installed.path).ok()?).ok()?;
        (sha256 == installed.sha256).then_some(installed)
    }
}

/// The folders in a folder, sorted; hidden ones are unfinished installations.
fn folders(path: &Path) -> Result<Vec<PathBuf>, RuntimeError> {
    let entries = match fs::read_dir(path) {
        Ok(entries) => entries,
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(e) => return Err(RuntimeError::cache(path)(e)),
    };
    let mut found = Vec::new();
    for entry in entries {
        let path = entry.map_err(RuntimeError::cache(path))?.path();
        if path.is_dir() && !name_of(&path).starts_with('.') {
            found.push(path);
        }
    }
    found.sort();
    Ok(found)
}

fn name_of(path: &Path) -> &str {
    path.file_name()
        .and_then(|name| name.to_str())
        .unwrap_or_default()
}

fn read_entry(folder: &Path) -> Entry {
    match read_note(folder) {
        Ok(note) => installed(folder, &note),
        Err(why) => Entry::Broken {
            folder: folder.to_owned(),
            why,
        },
    }
}

fn read_note(folder: &Path) -> Result<Note, String> {
    use std::io::Read;
    let mut text = String::new();
    let file = File::open(folder.join(NOTE)).map_err(|e| format!("{NOTE}: {e}"))?;
    file.take(NOTE_LIMIT)
        .read_to_string(&mut text)
        .map_err(|e| format!("{NOTE}: {e}"))?;
    let note: Note = serde_json::from_str(&text).map_err(|e| format!("{NOTE}: {e}"))?;
    if note.format != NOTE_FORMAT {
        return Err(format!(
            "{NOTE} has format {}, this version reads {NOTE_FORMAT}",
            note.format
        ));
    }
    Ok(note)
}

/// What the note says, unless the files say otherwise.
pub(super) fn installed(folder: &Path, note: &Note) -> Entry {
    let broken = |why: String| Entry::Broken {
        folder: folder.to_owned(),
        why,
    };
    let Some(library) = note.files.first().filter(|file| is_library(&file.name)) else {
        return broken(format!("{NOTE} lists no library first"));
    };
    for file in &note.files {
        match fs::metadata(folder.join(&file.name)) {
            Ok(metadata) if metadata.len() == file.bytes => {}
            Ok(metadata) => {
                return broken(format!(
                    "{} has {} bytes, {} were installed",
                    file.name,
                    metadata.len(),
                    file.bytes
                ));
            }
            Err(e) => return broken(format!("{}: {e}", file.name)),
        }
    }
    Entry::Installed(Installed {
        package: note.package.clone(),
        version: note.version.clone(),
        architecture: note.architecture.clone(),
        path: folder.join(&library.name),
        sha256: library.sha256,
        bytes: note.files.iter().map(|file| file.bytes).sum(),
        known: note.known,
    })
}

/// Numbers by value, the rest by letters: 1.9 before 1.10.
fn compare_versions(left: &str, right: &str) -> Ordering {
    let parts = |text: &str| -> Vec<(u64, String)> {
        let split = text.split(['.', '-', '+']);
        split
            .map(|part| (part.parse().unwrap_or(0), part.to_owned()))
            .collect()
    };
    parts(left).cmp(&parts(right))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn root(pairs: &[(&str, &str)]) -> Result<PathBuf, RuntimeError> {
        let find = |name: &str| {
            pairs
                .iter()
                .find(|pair| pair.0 == name)
                .map(|pair| OsString::from(pair.1))
        };
        Cache::from_variables(find).map(|cache| cache.root)
    }

    #[test]
    fn the_folder_follows_the_variables_in_order() {
        let all = [
            ("EDGEDYNO_CACHE", "/e"),
            ("XDG_CACHE_HOME", "/x"),
            ("HOME", "/h"),
        ];
        assert_eq!(root(&all).unwrap(), Path::new("/e"));
        assert_eq!(root(&all[1..]).unwrap(), Path::new("/x/edgedyno"));
        assert_eq!(root(&all[2..]).unwrap(), Path::new("/h/.cache/edgedyno"));
        assert_eq!(
            root(&[("XDG_CACHE_HOME", "x"), ("HOME", "/h")]).unwrap(),
            Path::new("/h/.cache/edgedyno")
        );
        assert_eq!(
            root(&[("EDGEDYNO_CACHE", ""), ("HOME", "/h")]).unwrap(),
            Path::new("/h/.cache/edgedyno")
        );
        assert!(matches!(root(&[]), Err(RuntimeError::NoCacheFolder)));
    }

    #[test]
    fn versions_are_ordered_by_number() {
        assert_eq!(compare_versions("1.9.0", "1.10.0"), Ordering::Less);
        assert_eq!(compare_versions("1.32.0", "1.31.1"), Ordering::Greater);
        assert_eq!(compare_versions("1.32.0", "1.32.0"), Ordering::Equal);
    }

    #[test]
    fn a_cache_that_is_not_there_is_empty() {
        let folder = tempfile::tempdir().unwrap();
        assert!(
            Cache::at(folder.path().join("none"))
                .list()
                .unwrap()
                .is_empty()
        );
    }

    #[test]
    fn a_folder_without_its_note_is_shown_as_broken() {
        let root = tempfile::tempdir().unwrap();
        let cache = Cache::at(root.path().to_owned());
        let folder = cache.folder("onnxruntime", "1.0.0");
        fs::create_dir_all(&folder).unwrap();
        assert!(matches!(&cache.list().unwrap()[..], [Entry::Broken { .. }]));
        fs::write(folder.join(NOTE), "{\"format\": 9}").unwrap();
        assert!(matches!(&cache.list().unwrap()[..], [Entry::Broken { .. }]));
    }
}
