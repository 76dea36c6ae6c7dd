//! Installing a runtime into the cache: from pip's index, a wheel or a library.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use super::cache::{Cache, Entry, Installed, NOTE, NOTE_FORMAT, Note, NoteFile, installed};
use super::error::RuntimeError;
use super::known::{Judgement, is_published, judge};
use super::library::{
    check_architecture, is_library, is_provider, version_in_name, version_in_symbols,
};
use super::pip;
use super::spec::Spec;
use super::wheel::Wheel;
use crate::model::digest::Digest;

/// What the installer is doing; for a line on a terminal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// pip works, for seconds to minutes.
    Downloading(Spec),
    /// A file is copied out of the wheel or into the cache.
    Copying(String),
}

/// Called before each step.
pub type Progress<'a> = &'a mut dyn FnMut(Step);

/// An installation, or the one that was there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    Installed(Installed),
    /// That version was in the cache, unchanged; nothing was downloaded.
    AlreadyThere(Installed),
}

/// Installs into a cache for one architecture.
#[derive(Debug, Clone)]
pub struct Installer {
    pub cache: Cache,
    /// In the words of `std::env::consts::ARCH`.
    pub architecture: String,
    /// The interpreter whose pip is used.
    pub python: PathBuf,
}

impl Installer {
    /// Into `cache`, for this machine, with `python3` from the path.
    pub fn new(cache: Cache) -> Self {
        Self {
            cache,
            architecture: std::env::consts::ARCH.to_owned(),
            python: PathBuf::from("python3"),
        }
    }

    /// Installs a package with pip.
    pub fn install(&self, spec: &Spec, progress: Progress<'_>) -> Result<Outcome, RuntimeError> {
        let there = spec
            .version()
            .and_then(|version| self.cache.find(spec.package(), version));
        if let Some(installed) =
            there.filter(|installed| installed.architecture == self.architecture)
        {
            return Ok(Outcome::AlreadyThere(installed));
        }
        progress(Step::Downloading(spec.clone()));
        let download = self.temporary()?;
        let wheel = pip::download(&self.python, spec, &download.path)?;
        let opened = Wheel::open(&wheel)?;
        if opened.package != spec.package() {
            let why = format!("it calls itself {:?}", opened.package);
            return Err(RuntimeError::Wheel { path: wheel, why });
        }
        self.install_wheel(&wheel, opened, &format!("pip {spec}"), progress)
    }

    /// Installs a wheel or a bare library.
    pub fn install_from(
        &self,
        path: &Path,
        progress: Progress<'_>,
    ) -> Result<Outcome, RuntimeError> {
        fs::metadata(path).map_err(RuntimeError::read(path))?;
        let name = path
            .file_name()
            .and_then(|name| name.to_str())
            .unwrap_or_default();
        let source = format!("file {}", path.display());
        match name.to_lowercase() {
            name if name.ends_with(".whl") || name.ends_with(".zip") => {
                self.install_wheel(path, Wheel::open(path)?, &source, progress)
            }
            name if name.ends_with(".tgz") || name.contains(".tar") => {
                Err(RuntimeError::Unsupported {
                    path: path.to_owned(),
                    kind: "a tar archive",
                })
            }
            _ => self.install_library(path, name, &source, progress),
        }
    }

    fn install_wheel(
        &self,
        path: &Path,
        mut wheel: Wheel,
        source: &str,
        progress: Progress<'_>,
    ) -> Result<Outcome, RuntimeError> {
        let staged = self.temporary()?;
        let names: Vec<String> = std::iter::once(&wheel.library)
            .chain(&wheel.providers)
            .cloned()
            .collect();
        let mut files = Vec::new();
        for name in names {
            progress(Step::Copying(name.clone()));
            let target = staged.path.join(&name);
            wheel.unpack(path, &name, &target)?;
            files.push(describe(name, &target)?);
        }
        self.check_first(path, &staged, &files)?;
        let known = self.judge_all(&wheel, &files)?;
        let package = if wheel.package.is_empty() {
            "onnxruntime".to_owned()
        } else {
            wheel.package
        };
        self.finish(
            staged,
            self.note(package, wheel.version, known, source, files),
        )
    }

    /// A library of one's own has no published counterpart: it is known or not, never wrong.
    fn install_library(
        &self,
        path: &Path,
        name: &str,
        source: &str,
        progress: Progress<'_>,
    ) -> Result<Outcome, RuntimeError> {
        check_architecture(path, &self.architecture)?;
        if !is_library(name) {
            let why = "its name does not begin with libonnxruntime.so";
            return Err(RuntimeError::NotALibrary {
                path: path.to_owned(),
                why,
            });
        }
        let staged = self.temporary()?;
        let mut files = Vec::new();
        for (name, from) in
            std::iter::once((name.to_owned(), path.to_owned())).chain(providers_beside(path)?)
        {
            progress(Step::Copying(name.clone()));
            let target = staged.path.join(&name);
            copy(&from, &target)?;
            files.push(describe(name, &target)?);
        }
        let sha256 = files[0].sha256;
        let version = match version_in_name(name) {
            Some(version) => version.to_owned(),
            None => version_in_symbols(path)?
                .unwrap_or_else(|| format!("unversioned-{:.8}", sha256.to_string())),
        };
        self.finish(
            staged,
            self.note(
                "onnxruntime".to_owned(),
                version,
                is_published(sha256),
                source,
                files,
            ),
        )
    }

    fn check_first(
        &self,
        wheel: &Path,
        staged: &Temporary,
        files: &[NoteFile],
    ) -> Result<(), RuntimeError> {
        check_architecture(&staged.path.join(&files[0].name), &self.architecture).map_err(|error| {
            match error {
                // The user knows the wheel, not the folder it is unpacked in.
                RuntimeError::Architecture { found, needed, .. } => RuntimeError::Architecture {
                    path: wheel.to_owned(),
                    found,
                    needed,
                },
                RuntimeError::NotALibrary { why, .. } => RuntimeError::NotALibrary {
                    path: wheel.to_owned(),
                    why,
                },
                error => error,
            }
        })
    }

    /// Whether every file is a published one; a file that should be and is not is an error.
    fn judge_all(&self, wheel: &Wheel, files: &[NoteFile]) -> Result<bool, RuntimeError> {
        let mut known = true;
        for file in files {
            let found = judge(
                &wheel.package,
                &wheel.version,
                &self.architecture,
                &file.name,
                file.sha256,
            )?;
            known &= found == Judgement::Published;
        }
        Ok(known)
    }

    fn note(
        &self,
        package: String,
        version: String,
        known: bool,
        source: &str,
        files: Vec<NoteFile>,
    ) -> Note {
        let architecture = self.architecture.clone();
        Note {
            format: NOTE_FORMAT,
            package,
            version,
            architecture,
            known,
            source: source.to_owned(),
            files,
        }
    }

    /// Puts the staged folder in its place; a process that has the old library open keeps it.
    fn finish(&self, staged: Temporary, note: Note) -> Result<Outcome, RuntimeError> {
        let path = staged.path.join(NOTE);
        let text = serde_json::to_string_pretty(&note).map_err(std::io::Error::from);
        text.and_then(|text| fs::write(&path, text + "\n"))
            .map_err(RuntimeError::cache(&path))?;
        let folder = self.cache.folder(&note.package, &note.version);
        if let Some(parent) = folder.parent() {
            fs::create_dir_all(parent).map_err(RuntimeError::cache(parent))?;
        }
        let old = self.temporary()?;
        match fs::rename(&folder, &old.path) {
            Err(e) if e.kind() != std::io::ErrorKind::NotFound => {
                return Err(RuntimeError::cache(&folder)(e));
            }
            _ => {}
        }
        if let Err(e) = fs::rename(&staged.path, &folder) {
            // Best effort: what was there comes back.
            let _ = fs::rename(&old.path, &folder);
            return Err(RuntimeError::cache(&folder)(e));
        }
        match installed(&folder, &note) {
            Entry::Installed(installed) => Ok(Outcome::Installed(installed)),
            Entry::Broken { folder, why } => {
                Err(RuntimeError::cache(&folder)(std::io::Error::other(why)))
            }
        }
    }

    /// An empty folder on the file system of the cache, so that a rename is enough.
    fn temporary(&self) -> Result<Temporary, RuntimeError> {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let path = self
            .cache
            .runtimes()
            .join(format!(".tmp-{}-{count}", std::process::id()));
        // Left by a process of the same number that was killed.
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(&path).map_err(RuntimeError::cache(&path))?;
        Ok(Temporary { path })
    }
}

/// A folder that goes away.
struct Temporary {
    path: PathBuf,
}

impl Drop for Temporary {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.path);
    }
}

/// Hashes what was written, so that the note says what is on the disk.
fn describe(name: String, path: &Path) -> Result<NoteFile, RuntimeError> {
    let file = File::open(path).map_err(RuntimeError::cache(path))?;
    let (sha256, bytes) = Digest::of_reader(file).map_err(RuntimeError::cache(path))?;
    Ok(NoteFile {
        name,
        bytes,
        sha256,
    })
}

fn copy(from: &Path, to: &Path) -> Result<(), RuntimeError> {
    let mut source = File::open(from).map_err(RuntimeError::read(from))?;
    let mut target = File::create(to).map_err(RuntimeError::cache(to))?;
    std::io::copy(&mut source, &mut target).map_err(RuntimeError::cache(to))?;
    Ok(())
}

/// Providers are opened from the folder of the library, so they come along.
fn providers_beside(library: &Path) -> Result<Vec<(String, PathBuf)>, RuntimeError> {
    let folder = match library.parent() {
        Some(folder) if folder != Path::new("") => folder,
        _ => Path::new("."),
    };
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).map_err(RuntimeError::read(folder))? {
        let path = entry.map_err(RuntimeError::read(folder))?.path();
        if let Some(name) = path
            .file_name()
            .and_then(|name| name.to_str())
            .filter(|name| is_provider(name))
        {
            found.push((name.to_owned(), path.clone()));
        }
    }
    found.sort();
    Ok(found)
}

#[cfg(test)]
mod tests;
