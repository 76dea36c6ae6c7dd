//! Lists the places where a runtime's library may be, the likeliest first.
//!
//! A path that somebody asked for, as an argument or by an environment variable, is the only
//! candidate: another library in its place would be measured under the wrong name.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{OsStr, OsString};
use std::fmt;
use std::path::{Path, PathBuf};

use super::folders::{folders, names_in, numbers};

/// What to look for: one constant for each runtime.
#[derive(Debug, Clone, Copy)]
pub struct Wanted {
    /// Environment variables that name the library or its folder, the first that is set counts.
    pub variables: &'static [&'static str],
    /// File names; a version may follow (`libx.so` also finds `libx.so.1.2`).
    pub files: &'static [&'static str],
    /// Folders of the vendor's own, outside the standard ones.
    pub folders: &'static [&'static str],
    /// Folders inside `site-packages` where the Python package keeps the library.
    pub python_folders: &'static [&'static str],
}

/// A library file that exists, and why it was considered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Candidate {
    /// The file with all links resolved, or the path as given when nothing is there.
    pub path: PathBuf,
    /// Why it was looked at.
    pub origin: Origin,
}

/// Why a file is a candidate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Origin {
    /// Somebody gave the path.
    Given,
    /// An environment variable names it.
    Variable(&'static str),
    /// It is in a folder of `LD_LIBRARY_PATH`.
    LibraryPath,
    /// It is in a standard folder or one of the vendor's.
    System,
    /// It is in a folder of EdgeDyno's own.
    Cache,
    /// It is part of an installed Python package.
    Python,
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Given => write!(f, "given path"),
            Self::Variable(name) => write!(f, "${name}"),
            Self::LibraryPath => write!(f, "$LD_LIBRARY_PATH"),
            Self::System => write!(f, "system folder"),
            Self::Cache => write!(f, "installed by edgedyno"),
            Self::Python => write!(f, "python package"),
        }
    }
}

/// The file tree and environment in which to look.
#[derive(Debug, Clone)]
pub struct Surroundings {
    /// Every absolute path is taken below this folder.
    pub root: PathBuf,
    /// The environment.
    pub variables: BTreeMap<OsString, OsString>,
}

impl Surroundings {
    /// Those of this process.
    pub fn of_this_process() -> Self {
        Self {
            root: "/".into(),
            variables: std::env::vars_os().collect(),
        }
    }

    pub(super) fn variable(&self, name: &str) -> Option<&OsStr> {
        self.variables
            .get(OsStr::new(name))
            .map(OsString::as_os_str)
            .filter(|value| !value.is_empty())
    }

    /// A relative path stays relative to the current folder.
    pub(super) fn below_root(&self, path: &Path) -> PathBuf {
        path.strip_prefix("/")
            .map_or_else(|_| path.to_owned(), |inner| self.root.join(inner))
    }
}

/// Lists the candidates in the order in which to try them, each file once.
///
/// The order is: the given path, the environment variables, `LD_LIBRARY_PATH`, the standard library
/// folders and the vendor's, the `cache` folders, installed Python packages.
pub fn candidates(
    wanted: &Wanted,
    given: Option<&Path>,
    cache: &[PathBuf],
    around: &Surroundings,
) -> Vec<Candidate> {
    let variable = wanted
        .variables
        .iter()
        .find_map(|&name| Some((name, around.variable(name)?)));
    if let Some(path) = given {
        return asked_for(wanted, &around.below_root(path), Origin::Given);
    }
    if let Some((name, path)) = variable {
        return asked_for(
            wanted,
            &around.below_root(Path::new(path)),
            Origin::Variable(name),
        );
    }
    let mut seen = BTreeSet::new();
    let mut found = Vec::new();
    for (folder, origin) in folders(wanted, cache, around) {
        for path in matches(wanted, &around.below_root(&folder)) {
            if seen.insert(path.clone()) {
                found.push(Candidate {
                    path,
                    origin: origin.clone(),
                });
            }
        }
    }
    found
}

/// The first candidate that could be opened, and what was wrong with those before it.
#[derive(Debug)]
pub struct Tried<T, E> {
    /// The one in use, if any.
    pub found: Option<(Candidate, T)>,
    /// Those that could not be used, in the order tried.
    pub rejected: Vec<(Candidate, E)>,
}

/// Tries candidates in order until one opens.
pub fn first_usable<T, E>(
    candidates: Vec<Candidate>,
    mut open: impl FnMut(&Path) -> Result<T, E>,
) -> Tried<T, E> {
    let mut rejected = Vec::new();
    for candidate in candidates {
        match open(&candidate.path) {
            Ok(library) => {
                return Tried {
                    found: Some((candidate, library)),
                    rejected,
                };
            }
            Err(error) => rejected.push((candidate, error)),
        }
    }
    Tried {
        found: None,
        rejected,
    }
}

/// A file, the fitting files of a folder, or the path as it is so that opening it says what is wrong.
fn asked_for(wanted: &Wanted, path: &Path, origin: Origin) -> Vec<Candidate> {
    let mut paths = if path.is_dir() {
        matches(wanted, path)
    } else {
        Vec::new()
    };
    if paths.is_empty() {
        paths.push(path.canonicalize().unwrap_or_else(|_| path.to_owned()));
    }
    paths
        .into_iter()
        .map(|path| Candidate {
            path,
            origin: origin.clone(),
        })
        .collect()
}

/// The fitting files of one folder with links resolved: the bare name first, then the highest version.
fn matches(wanted: &Wanted, folder: &Path) -> Vec<PathBuf> {
    let names = names_in(folder);
    let mut found = Vec::new();
    for file in wanted.files {
        let version = |name: &str| {
            name.strip_prefix(file)
                .filter(|rest| is_version(rest))
                .map(numbers)
        };
        let mut fitting: Vec<_> = names
            .iter()
            .filter_map(|name| Some((version(name)?, name)))
            .collect();
        fitting.sort_by_key(|(version, _)| Reverse((version.is_empty(), version.clone())));
        for (_, name) in fitting {
            let path = folder.join(name);
            let path = path.canonicalize().unwrap_or(path);
            if !found.contains(&path) {
                found.push(path);
            }
        }
    }
    found
}

fn is_version(rest: &str) -> bool {
    rest.is_empty()
        || (rest.starts_with('.') && rest.chars().all(|c| c == '.' || c.is_ascii_digit()))
}
