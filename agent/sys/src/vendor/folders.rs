//! The folders in which libraries and Python packages are installed.

use std::cmp::Reverse;
use std::fs;
use std::path::{Path, PathBuf};

use super::search::{Origin, Surroundings, Wanted};

/// The folders to look in, in order, each with the reason.
pub(super) fn folders(
    wanted: &Wanted,
    cache: &[PathBuf],
    around: &Surroundings,
) -> Vec<(PathBuf, Origin)> {
    let library_path = around
        .variable("LD_LIBRARY_PATH")
        .map(std::env::split_paths)
        .into_iter()
        .flatten();
    let system = standard_folders()
        .into_iter()
        .chain(wanted.folders.iter().map(PathBuf::from));
    let python = python_folders(around).into_iter().flat_map(|packages| {
        wanted
            .python_folders
            .iter()
            .map(move |inner| packages.join(inner))
    });
    // An empty entry of LD_LIBRARY_PATH means the current folder, which is never meant.
    library_path
        .filter(|folder| !folder.as_os_str().is_empty())
        .map(|folder| (folder, Origin::LibraryPath))
        .chain(system.map(|folder| (folder, Origin::System)))
        .chain(cache.iter().cloned().map(|folder| (folder, Origin::Cache)))
        .chain(python.map(|folder| (folder, Origin::Python)))
        .collect()
}

/// The folders of the dynamic linker, with those that Debian names after the architecture.
fn standard_folders() -> Vec<PathBuf> {
    let architecture = std::env::consts::ARCH;
    let abi = if architecture == "arm" {
        "gnueabihf"
    } else {
        "gnu"
    };
    let multiarch = format!("{architecture}-linux-{abi}");
    ["/usr/local/lib", "/usr/lib", "/lib"]
        .into_iter()
        .flat_map(|folder| {
            [
                PathBuf::from(folder).join(&multiarch),
                PathBuf::from(folder),
            ]
        })
        .chain(["/usr/local/lib64", "/usr/lib64", "/lib64"].map(PathBuf::from))
        .collect()
}

/// Where Python packages are installed, the active environment first, then the user's, then the system's.
fn python_folders(around: &Surroundings) -> Vec<PathBuf> {
    let environments = ["VIRTUAL_ENV", "CONDA_PREFIX"]
        .into_iter()
        .filter_map(|name| around.variable(name))
        .map(PathBuf::from);
    let home = around.variable("HOME").map(PathBuf::from);
    let user = home.iter().map(|home| home.join(".local"));
    let pyenv = home
        .iter()
        .flat_map(|home| entries_of(around, &home.join(".pyenv/versions"), ""));
    let prefixes = environments
        .chain(user)
        .chain(pyenv)
        .chain([PathBuf::from("/usr/local"), PathBuf::from("/usr")]);

    let mut folders = Vec::new();
    for prefix in prefixes {
        // Debian puts its own packages in `python3`, not in the folder of one version.
        for python in entries_of(around, &prefix.join("lib"), "python3") {
            folders.push(python.join("site-packages"));
            folders.push(python.join("dist-packages"));
        }
    }
    folders
}

/// The entries of a folder that begin with `prefix`, the highest version first.
fn entries_of(around: &Surroundings, folder: &Path, prefix: &str) -> Vec<PathBuf> {
    let mut names = names_in(&around.below_root(folder));
    names.retain(|name| name.starts_with(prefix));
    names.sort_by_key(|name| Reverse(numbers(name)));
    names.into_iter().map(|name| folder.join(name)).collect()
}

/// The names in a folder; none when it cannot be read.
pub(super) fn names_in(folder: &Path) -> Vec<String> {
    let Ok(entries) = fs::read_dir(folder) else {
        return Vec::new();
    };
    entries
        .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
        .collect()
}

/// The numbers in a name, for ordering by version.
pub(super) fn numbers(name: &str) -> Vec<u64> {
    name.split(|c: char| !c.is_ascii_digit())
        .filter_map(|digits| digits.parse().ok())
        .collect()
}
