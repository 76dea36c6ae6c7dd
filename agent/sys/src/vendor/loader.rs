//! Opens a vendor library, or says precisely why it cannot work here.
//!
//! Whatever the file itself can tell is checked first, so that a library for another processor, for a
//! newer system or of another name is refused before any of its code runs.

use std::io;
use std::mem::ManuallyDrop;
use std::path::{Path, PathBuf};

use libloading::os::unix::{Library, RTLD_LOCAL, RTLD_NOW};

use super::elf::{Architecture, ElfError, ElfFacts, GlibcVersion};

/// An open vendor library, which stays loaded until the process ends.
///
/// Runtimes start threads and register exit handlers; none of them promises that it can be unloaded.
#[derive(Debug)]
pub struct SharedLibrary {
    library: ManuallyDrop<Library>,
    path: PathBuf,
    facts: ElfFacts,
}

impl SharedLibrary {
    /// Checks a library as [`check`] does and opens it.
    ///
    /// This runs the library's initialisers: call it in a worker process only.
    ///
    /// # Errors
    ///
    /// The reason why it cannot be used.
    pub fn open(path: &Path, symbols: &[&'static str]) -> Result<Self, LoadError> {
        // Links are resolved, for a library finds its own parts beside the path it is opened by.
        let path = path
            .canonicalize()
            .map_err(|error| unreadable(path, &error))?;
        let facts = check(&path, symbols)?;
        // SAFETY: the initialisers are the vendor's; that they run in a worker is the caller's duty, and
        // a crash there is what workers are for. All symbols are bound now: none is missing in a trial.
        let library = unsafe { Library::open(Some(&path), RTLD_NOW | RTLD_LOCAL) };
        let library = library.map_err(|error| LoadError::Dlopen {
            path: path.clone(),
            text: error.to_string(),
        })?;
        Ok(Self {
            library: ManuallyDrop::new(library),
            path,
            facts,
        })
    }

    /// Where it was opened, with all links resolved.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// What the file says about itself.
    pub fn facts(&self) -> &ElfFacts {
        &self.facts
    }

    /// A function of the library.
    ///
    /// # Safety
    ///
    /// `F` must be the type of a C function pointer, with the signature the vendor gives `name`.
    pub(crate) unsafe fn function<F: Copy>(&self, name: &'static str) -> Result<F, LoadError> {
        // SAFETY: the caller vouches for the signature; the library is never unloaded.
        let symbol = unsafe { self.library.get::<F>(name) };
        symbol
            .map(|found| *found)
            .map_err(|_| LoadError::MissingSymbol {
                path: self.path.clone(),
                name,
            })
    }
}

/// Judges a library by its file alone: nothing of it is run.
///
/// # Errors
///
/// The reason why it cannot be used here, or lacks one of the `symbols`.
pub fn check(path: &Path, symbols: &[&'static str]) -> Result<ElfFacts, LoadError> {
    let facts = ElfFacts::read(path).map_err(|error| from_elf(path, error))?;
    if let Some(wanted) = Architecture::of_this_program()
        && facts.architecture != wanted
    {
        return Err(LoadError::OtherArchitecture {
            path: path.into(),
            found: facts.architecture,
            wanted,
        });
    }
    if !facts.shared_object {
        let reason = "the file is a program or an object file".to_owned();
        return Err(LoadError::NotALibrary {
            path: path.into(),
            reason,
        });
    }
    if let (Some(needs), Some(have)) = (facts.glibc_needed, GlibcVersion::of_this_program())
        && needs > have
    {
        return Err(LoadError::GlibcTooOld {
            path: path.into(),
            needs,
            have,
        });
    }
    for &name in symbols {
        if ElfFacts::exports(path, name).map_err(|error| from_elf(path, error))? == Some(false) {
            return Err(LoadError::MissingSymbol {
                path: path.into(),
                name,
            });
        }
    }
    Ok(facts)
}

/// Why a library cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[expect(
    missing_docs,
    reason = "the message of each variant says what its fields are"
)]
pub enum LoadError {
    /// There is no such file.
    #[error("{}: no such file", path.display())]
    NotFound { path: PathBuf },
    /// The file is there but cannot be read.
    #[error("{}: cannot be read: {text}", path.display())]
    Unreadable { path: PathBuf, text: String },
    /// Text, a damaged or half-copied file, or a program.
    #[error("{}: not a shared library: {reason}", path.display())]
    NotALibrary { path: PathBuf, reason: String },
    /// Built for another processor.
    #[error("{}: built for {found}, this program is {wanted}", path.display())]
    OtherArchitecture {
        path: PathBuf,
        found: Architecture,
        wanted: Architecture,
    },
    /// Built for a newer C library than the system has.
    #[error("{}: needs glibc {needs}, this system has {have}", path.display())]
    GlibcTooOld {
        path: PathBuf,
        needs: GlibcVersion,
        have: GlibcVersion,
    },
    /// A function of the runtime's interface is not there.
    #[error("{}: does not export {name}", path.display())]
    MissingSymbol { path: PathBuf, name: &'static str },
    /// The runtime is older than the interface used here.
    #[error("{}: version {found} is too old, {needed} is the first that works", path.display())]
    TooOld {
        path: PathBuf,
        found: String,
        needed: String,
    },
    /// The dynamic linker refused, in its own words.
    #[error("{}: cannot be opened: {text}", path.display())]
    Dlopen { path: PathBuf, text: String },
}

impl LoadError {
    /// What to do about it, as one fragment.
    pub fn hint(&self) -> String {
        match self {
            Self::NotFound { .. } => "install the runtime, or give the path of its library",
            Self::Unreadable { .. } => "check the permissions of the file and its folders",
            Self::NotALibrary { .. } => {
                "give the library itself; copy it again if its size is wrong"
            }
            Self::OtherArchitecture { wanted, .. } => {
                return format!("install the {wanted} build of the runtime");
            }
            Self::GlibcTooOld { have, .. } => {
                return format!("use a build for glibc {have} or older, or update the system");
            }
            Self::MissingSymbol { .. } => {
                "this is another library, or a build without its C interface"
            }
            Self::TooOld { needed, .. } => return format!("install version {needed} or newer"),
            Self::Dlopen { text, .. } => dlopen_hint(text),
        }
        .into()
    }

    /// The file it is about.
    pub fn path(&self) -> &Path {
        match self {
            Self::NotFound { path }
            | Self::Unreadable { path, .. }
            | Self::NotALibrary { path, .. }
            | Self::OtherArchitecture { path, .. }
            | Self::GlibcTooOld { path, .. }
            | Self::MissingSymbol { path, .. }
            | Self::TooOld { path, .. }
            | Self::Dlopen { path, .. } => path,
        }
    }
}

/// The words looked for are glibc's (`elf/dl-load.c`, `elf/dl-version.c`).
fn dlopen_hint(text: &str) -> &'static str {
    if text.contains("cannot open shared object file") {
        "a library it needs is missing: install that, or add its folder to LD_LIBRARY_PATH"
    } else if text.contains("version `GLIBC") {
        "a library it needs was built for a newer system: use an older build, or update the system"
    } else {
        "see what `ldd` says about the file on the board"
    }
}

fn from_elf(path: &Path, error: ElfError) -> LoadError {
    match error {
        ElfError::Unreadable(error) => unreadable(path, &error),
        other => LoadError::NotALibrary {
            path: path.into(),
            reason: other.to_string(),
        },
    }
}

fn unreadable(path: &Path, error: &io::Error) -> LoadError {
    let path = path.into();
    match error.kind() {
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => LoadError::NotFound { path },
        _ => LoadError::Unreadable {
            path,
            text: error.to_string(),
        },
    }
}
