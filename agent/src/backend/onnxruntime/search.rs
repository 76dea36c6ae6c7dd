//! Where an ONNX Runtime may be: asked for, installed by us, on the library path, in system folders,
//! in Python packages.

use std::cmp::Reverse;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use edgedyno_sys::vendor::onnxruntime::WANTED;
use edgedyno_sys::vendor::search::{self, Origin, Surroundings};

use crate::backend::Candidate;

/// Moves the folder in which `edgedyno runtime install` keeps libraries.
const CACHE_VARIABLE: &str = "EDGEDYNO_CACHE";

/// Every library found, in the order of preference; each file once.
pub(super) fn candidates(extra: &[PathBuf], around: &Surroundings) -> Vec<Candidate> {
    let cache = cache_folder(|name| variable(around, name)).map(|c| version_folders(&c, around));
    let cache = cache.unwrap_or_default();
    let given = extra
        .iter()
        .flat_map(|path| search::candidates(&WANTED, Some(path), &[], around));
    let everywhere = without_variables(around);
    let mut places = search::candidates(&WANTED, None, &cache, &everywhere);
    places.sort_by_key(|c| c.origin != Origin::Cache);
    let mut found: Vec<Candidate> = Vec::new();
    for candidate in given.chain(named(around)).chain(places) {
        if !found.iter().any(|f| f.path == candidate.path) {
            found.push(Candidate {
                path: candidate.path,
                origin: candidate.origin.to_string(),
            });
        }
    }
    found
}

/// Libraries that an environment variable names; the search itself would then look nowhere else.
fn named(around: &Surroundings) -> Vec<search::Candidate> {
    let is_set = WANTED
        .variables
        .iter()
        .any(|name| variable(around, name).is_some());
    match is_set {
        true => search::candidates(&WANTED, None, &[], around),
        false => Vec::new(),
    }
}

fn without_variables(around: &Surroundings) -> Surroundings {
    let mut rest = around.clone();
    for name in WANTED.variables {
        rest.variables.remove(OsStr::new(name));
    }
    rest
}

fn variable(around: &Surroundings, name: &str) -> Option<OsString> {
    around
        .variables
        .get(OsStr::new(name))
        .filter(|v| !v.is_empty())
        .cloned()
}

/// The per-user cache, which the host fills.
fn cache_folder(get: impl Fn(&str) -> Option<OsString>) -> Option<PathBuf> {
    get(CACHE_VARIABLE)
        .map(PathBuf::from)
        .or_else(|| get("XDG_CACHE_HOME").map(|base| PathBuf::from(base).join("edgedyno")))
        .or_else(|| get("HOME").map(|home| PathBuf::from(home).join(".cache/edgedyno")))
}

/// One folder for each installed version, the newest first.
fn version_folders(cache: &Path, around: &Surroundings) -> Vec<PathBuf> {
    let folder = cache.join("runtimes/onnxruntime");
    let on_disk = folder
        .strip_prefix("/")
        .map_or_else(|_| folder.clone(), |p| around.root.join(p));
    let entries = std::fs::read_dir(on_disk).into_iter().flatten();
    let mut names: Vec<OsString> = entries.filter_map(|e| Some(e.ok()?.file_name())).collect();
    names.sort_by_key(|name| Reverse(numbers(&name.to_string_lossy())));
    names.into_iter().map(|name| folder.join(name)).collect()
}

/// The numbers of a version, so that 1.9 comes before 1.32.
fn numbers(version: &str) -> Vec<u64> {
    version
        .split(|c: char| !c.is_ascii_digit())
        .filter_map(|n| n.parse().ok())
        .collect()
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    /// A tree of empty libraries and an environment in it.
    fn tree(files: &[&str], variables: &[(&str, &str)]) -> (tempfile::TempDir, Surroundings) {
        let root = tempfile::tempdir().unwrap();
        for file in files {
            let path = root.path().join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, file).unwrap();
        }
        let variables = variables
            .iter()
            .map(|(k, v)| (k.into(), v.into()))
            .collect();
        let around = Surroundings {
            root: root.path().canonicalize().unwrap(),
            variables,
        };
        (root, around)
    }

    fn names(found: &[Candidate], around: &Surroundings) -> Vec<String> {
        let short = |p: &Path| p.strip_prefix(&around.root).unwrap().display().to_string();
        found.iter().map(|c| short(&c.path)).collect()
    }

    #[test]
    fn the_order_is_variable_cache_newest_first_library_path_system_python() {
        let (_root, around) = tree(
            &[
                "opt/libonnxruntime.so",
                "home/.cache/edgedyno/runtimes/onnxruntime/1.9.0/libonnxruntime.so.1.9.0",
                "home/.cache/edgedyno/runtimes/onnxruntime/1.32.0/libonnxruntime.so.1.32.0",
                "ld/libonnxruntime.so.1",
                "usr/lib/libonnxruntime.so.1.20.0",
                "usr/lib/python3/dist-packages/onnxruntime/capi/libonnxruntime.so.1.30.0",
            ],
            &[
                ("ORT_DYLIB_PATH", "/opt/libonnxruntime.so"),
                ("HOME", "/home"),
                ("LD_LIBRARY_PATH", "/ld"),
            ],
        );
        let found = candidates(&[], &around);
        let expected = [
            "opt/libonnxruntime.so",
            "home/.cache/edgedyno/runtimes/onnxruntime/1.32.0/libonnxruntime.so.1.32.0",
            "home/.cache/edgedyno/runtimes/onnxruntime/1.9.0/libonnxruntime.so.1.9.0",
            "ld/libonnxruntime.so.1",
            "usr/lib/libonnxruntime.so.1.20.0",
            "usr/lib/python3/dist-packages/onnxruntime/capi/libonnxruntime.so.1.30.0",
        ];
        assert_eq!(names(&found, &around), expected);
        assert_eq!(found[0].origin, "$ORT_DYLIB_PATH");
        assert_eq!(found[1].origin, "installed by edgedyno");
    }

    #[test]
    fn a_given_path_comes_first_and_no_file_comes_twice() {
        let (_root, around) = tree(
            &["usr/lib/libonnxruntime.so.1", "x/libonnxruntime.so"],
            &[("ORT_DYLIB_PATH", "/usr/lib/libonnxruntime.so.1")],
        );
        let found = candidates(&["/x".into()], &around);
        assert_eq!(
            names(&found, &around),
            ["x/libonnxruntime.so", "usr/lib/libonnxruntime.so.1"]
        );
    }

    #[test]
    fn the_cache_moves_with_its_variables() {
        let folder = |vars: &[(&str, &str)]| {
            let get = |name: &str| vars.iter().find(|(n, _)| *n == name).map(|(_, v)| v.into());
            cache_folder(get).map(|p| p.display().to_string())
        };
        assert_eq!(
            folder(&[("HOME", "/h")]).as_deref(),
            Some("/h/.cache/edgedyno")
        );
        assert_eq!(
            folder(&[("HOME", "/h"), ("XDG_CACHE_HOME", "/c")]).as_deref(),
            Some("/c/edgedyno")
        );
        assert_eq!(
            folder(&[("XDG_CACHE_HOME", "/c"), ("EDGEDYNO_CACHE", "/e")]).as_deref(),
            Some("/e")
        );
        assert_eq!(folder(&[]), None);
    }
}
