//! Fetching a wheel with the user's own pip, so that its index settings and proxies hold.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use super::error::RuntimeError;
use super::spec::Spec;

/// Downloads the wheel of `spec` into the empty folder `into`.
pub(super) fn download(python: &Path, spec: &Spec, into: &Path) -> Result<PathBuf, RuntimeError> {
    let output = run(python, spec, into).map_err(|source| match source.kind() {
        io::ErrorKind::NotFound | io::ErrorKind::PermissionDenied => RuntimeError::NoPython {
            program: python.to_owned(),
            source,
        },
        _ => RuntimeError::Pip {
            spec: spec.to_string(),
            detail: source.to_string(),
        },
    })?;
    if !output.status.success() {
        return Err(failure(python, spec, &output));
    }
    find_wheel(into)?.ok_or_else(|| RuntimeError::Pip {
        spec: spec.to_string(),
        detail: "it ended well but left no wheel".to_owned(),
    })
}

fn run(python: &Path, spec: &Spec, into: &Path) -> io::Result<Output> {
    Command::new(python)
        .args([
            "-m",
            "pip",
            "download",
            "--quiet",
            "--no-input",
            "--disable-pip-version-check",
        ])
        .args(["--no-deps", "--only-binary=:all:", "--dest"])
        .arg(into)
        .arg(spec.to_string())
        .stdin(Stdio::null())
        .output()
}

/// pip has one exit code for everything, so its words must tell.
fn failure(python: &Path, spec: &Spec, output: &Output) -> RuntimeError {
    let stderr = String::from_utf8_lossy(&output.stderr);
    let spec = spec.to_string();
    if stderr.contains("No module named pip") {
        return RuntimeError::NoPip {
            program: python.to_owned(),
        };
    }
    let detail = match last_errors(&stderr) {
        text if text.is_empty() => output.status.to_string(),
        text => text,
    };
    if stderr.contains("No matching distribution") {
        RuntimeError::NoPackage { spec, detail }
    } else {
        RuntimeError::Pip { spec, detail }
    }
}

/// The lines pip marks as errors, else its last line; without the list of every version there is.
fn last_errors(stderr: &str) -> String {
    let lines = || {
        stderr
            .lines()
            .map(str::trim)
            .filter(|line| !line.is_empty())
    };
    let marked: Vec<&str> = lines()
        .filter_map(|line| line.strip_prefix("ERROR:"))
        .map(|line| line.split(" (from versions:").next().unwrap_or(line).trim())
        .collect();
    let text = if marked.is_empty() {
        lines().next_back().unwrap_or_default().to_owned()
    } else {
        marked.join("; ")
    };
    text.chars().take(500).collect()
}

fn find_wheel(folder: &Path) -> Result<Option<PathBuf>, RuntimeError> {
    for entry in fs::read_dir(folder).map_err(RuntimeError::cache(folder))? {
        let path = entry.map_err(RuntimeError::cache(folder))?.path();
        if path.extension().is_some_and(|extension| extension == "whl") {
            return Ok(Some(path));
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pips_own_words_are_passed_on_without_its_list_of_versions() {
        let stderr = "WARNING: retrying\n\
            ERROR: Could not find a version that satisfies the requirement onnxruntime==0.1 (from versions: 1.15.0, 1.32.0)\n\
            ERROR: No matching distribution found for onnxruntime==0.1\n";
        assert_eq!(
            last_errors(stderr),
            "Could not find a version that satisfies the requirement onnxruntime==0.1; \
             No matching distribution found for onnxruntime==0.1"
        );
        assert_eq!(
            last_errors("Traceback\nOSError: disk full\n\n"),
            "OSError: disk full"
        );
        assert_eq!(last_errors(""), "");
    }

    #[test]
    fn a_python_that_is_not_there_is_named() {
        let spec = "onnxruntime".parse().unwrap();
        let folder = tempfile::tempdir().unwrap();
        let error = download(Path::new("no-such-python"), &spec, folder.path()).unwrap_err();
        assert!(matches!(error, RuntimeError::NoPython { .. }), "{error}");
        assert!(error.hint().contains("apt install python3"));
    }
}
