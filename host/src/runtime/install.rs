//! Installing a runtime into the cache: from pip's index, a wheel or a library.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use super::cache::{Cache, Entry, Installed, NOTE, NOTE_FORMAT, Note, NoteFile, installed};
use super::error::RuntimeError;
use super::known::{Judgement, PACKAGE, is_published, judge};
use super::library::{
    check_architecture, is_library, is_provider, version_in_name, version_in_symbols,
};
use super::spec::Spec;
use super::wheel::Wheel;
use super::{archive, pip};
use crate::model::digest::Digest;
use crate::whole_file;

/// What the installer is doing; for a line on a terminal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// pip works, for seconds to minutes.
    Downloading(Spec),
    /// pip has chosen a file; its size as pip writes it.
    Found { file: String, size: String },
    /// Bytes that pip has written so far.
    Received(u64),
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
    /// Platforms in pip's words, the best first; none for this machine.
    pub platforms: Vec<String>,
}

impl Installer {
    /// Into `cache`, for this machine, with `python3` from the path.
    pub fn new(cache: Cache) -> Self {
        Self {
            cache,
            architecture: std::env::consts::ARCH.to_owned(),
            python: PathBuf::from("python3"),
            platforms: Vec::new(),
        }
    }

    /// Into the part of `cache` that is for boards of an architecture, with a glibc of `2.minor` (2.17 when
    /// it is not known).
    pub fn for_board(cache: &Cache, architecture: &str, minor: Option<u16>) -> Self {
        Self {
            cache: cache.for_boards(architecture),
            architecture: architecture.to_owned(),
            python: PathBuf::from("python3"),
            platforms: platforms(architecture, minor.unwrap_or(17)),
        }
    }

    /// What is in the cache for this architecture: that version, else the newest.
    pub fn find(&self, spec: &Spec) -> Option<Installed> {
        let versions: Vec<String> = match spec.version() {
            Some(version) => vec![version.to_owned()],
            None => self.cache.versions(spec.package()),
        };
        let mut found = versions
            .iter()
            .filter_map(|version| self.cache.find(spec.package(), version));
        found.find(|installed| installed.architecture == self.architecture)
    }

    /// Whether there is a pip to fetch with.
    pub fn has_pip(&self) -> bool {
        pip::is_there(&self.python)
    }

    /// Installs a package with pip.
    pub fn install(&self, spec: &Spec, progress: Progress<'_>) -> Result<Outcome, RuntimeError> {
        // Without a version only the index knows which is the newest.
        if let Some(installed) = spec.version().and_then(|_| self.find(spec)) {
            return Ok(Outcome::AlreadyThere(installed));
        }
        progress(Step::Downloading(spec.clone()));
        let download = self.temporary()?;
        let wheel = pip::download(
            &self.python,
            spec,
            &self.platforms,
            &download.path,
            progress,
        )?;
        let opened = Wheel::open(&wheel)?;
        if opened.package != spec.package() {
            let why = format!("it calls itself {:?}", opened.package);
            return Err(RuntimeError::Wheel { path: wheel, why });
        }
        let source = format!("pip {spec}");
        let (staged, note) = self.stage_wheel(&wheel, opened, &source, progress)?;
        self.finish(staged, note)
    }

    /// Installs a wheel, an archive or a bare library; its version must be the one of `spec`, if any.
    pub fn install_from(
        &self,
        path: &Path,
        spec: &Spec,
        progress: Progress<'_>,
    ) -> Result<Outcome, RuntimeError> {
        fs::metadata(path).map_err(RuntimeError::read(path))?;
        let name = path
            .file_name()
            .and_then(|name| name.to_str())
            .unwrap_or_default();
        let source = format!("file {}", path.display());
        let lower = name.to_lowercase();
        let (staged, note) = match lower.as_str() {
            lower if lower.ends_with(".whl") || lower.ends_with(".zip") => {
                self.stage_wheel(path, Wheel::open(path)?, &source, progress)?
            }
            lower if archive::is_archive(lower) => self.stage_archive(path, &source, progress)?,
            _ => self.stage_library(path, name, &source, progress)?,
        };
        check_version(path, spec, &note)?;
        self.finish(staged, note)
    }

    /// What an archive holds for this machine; such files are published without hashes of ours.
    fn stage_archive(
        &self,
        path: &Path,
        source: &str,
        progress: Progress<'_>,
    ) -> Result<(Temporary, Note), RuntimeError> {
        let staged = self.temporary()?;
        let unpacked = archive::unpack(path, &self.architecture, &staged.path, progress)?;
        let names = std::iter::once(unpacked.library).chain(unpacked.providers);
        let described = names.map(|name| {
            let path = staged.path.join(&name);
            describe(name, &path)
        });
        let files = described.collect::<Result<Vec<_>, _>>()?;
        let note = self.note_of_library(&staged.path.join(&files[0].name), source, files)?;
        Ok((staged, note))
    }

    fn stage_wheel(
        &self,
        path: &Path,
        mut wheel: Wheel,
        source: &str,
        progress: Progress<'_>,
    ) -> Result<(Temporary, Note), RuntimeError> {
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
        let note = self.note(version_of(&wheel), known, source, files);
        Ok((staged, note))
    }

    /// A library of one's own has no published counterpart: it is known or not, never wrong.
    fn stage_library(
        &self,
        path: &Path,
        name: &str,
        source: &str,
        progress: Progress<'_>,
    ) -> Result<(Temporary, Note), RuntimeError> {
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
        let note = self.note_of_library(path, source, files)?;
        Ok((staged, note))
    }

    /// The version is in its name, in its symbols, or nowhere.
    fn note_of_library(
        &self,
        library: &Path,
        source: &str,
        files: Vec<NoteFile>,
    ) -> Result<Note, RuntimeError> {
        let NoteFile { name, sha256, .. } = &files[0];
        let version = match version_in_name(name).filter(|version| version.contains('.')) {
            Some(version) => version.to_owned(),
            None => version_in_symbols(library)?
                .unwrap_or_else(|| format!("unversioned-{:.8}", sha256.to_string())),
        };
        Ok(self.note(version, is_published(*sha256), source, files))
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

    fn note(&self, version: String, known: bool, source: &str, files: Vec<NoteFile>) -> Note {
        let architecture = self.architecture.clone();
        Note {
            format: NOTE_FORMAT,
            package: PACKAGE.to_owned(),
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
        text.and_then(|text| whole_file::write(&path, (text + "\n").as_bytes()))
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
        whole_file::sync_name(&folder);
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
        remove_left_over(&self.cache.runtimes());
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let path = self
            .cache
            .runtimes()
            .join(format!("{TEMPORARY}{}-{count}", std::process::id()));
        // Left by a process of the same number that was killed.
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(&path).map_err(RuntimeError::cache(&path))?;
        Ok(Temporary { path })
    }
}

/// The tags of wheels that such a board can use (PEP 600), those of the newest glibc first.
fn platforms(architecture: &str, minor: u16) -> Vec<String> {
    let machine = match architecture {
        "arm" => "armv7l",
        other => other,
    };
    let newest_first = (17..=minor).rev();
    newest_first
        .map(|minor| format!("manylinux_2_{minor}_{machine}"))
        .collect()
}

/// Before the number of the process that made it.
const TEMPORARY: &str = ".tmp-";

/// Removes folders of processes that were killed, 30 MB and more each.
fn remove_left_over(runtimes: &Path) {
    let processes = Path::new("/proc");
    if !processes.join("self").exists() {
        return;
    }
    for entry in fs::read_dir(runtimes).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let maker = name.to_str().and_then(|name| name.strip_prefix(TEMPORARY));
        let maker = maker.and_then(|rest| rest.split('-').next());
        if maker.is_some_and(|maker| !processes.join(maker).exists()) {
            // Nothing depends on it.
            let _ = fs::remove_dir_all(entry.path());
        }
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

/// Another package of the same library, such as onnxruntime-gpu, stands beside the plain one of its
/// version: `1.31.1+gpu`.
fn version_of(wheel: &Wheel) -> String {
    match wheel.package.strip_prefix("onnxruntime-") {
        Some(variant) => format!("{}+{variant}", wheel.version),
        None => wheel.version.clone(),
    }
}

/// `1.30` asks for any 1.30.x.
fn check_version(path: &Path, spec: &Spec, note: &Note) -> Result<(), RuntimeError> {
    let is_wanted = |wanted: &str| {
        let rest = note.version.strip_prefix(wanted);
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '+']))
    };
    match spec.version() {
        Some(wanted) if !is_wanted(wanted) => Err(RuntimeError::OtherVersion {
            path: path.to_owned(),
            found: note.version.clone(),
            wanted: wanted.to_owned(),
        }),
        _ => Ok(()),
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
    std::io::copy(&mut source, &mut target)
        .and_then(|_| target.sync_all())
        .map_err(RuntimeError::cache(to))
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
