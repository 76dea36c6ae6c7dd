//! Fetching a wheel with the user's own pip, so that its index settings and proxies hold.

use std::fs;
use std::io::{self, BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use super::error::RuntimeError;
use super::install::{Progress, Step};
use super::spec::Spec;

/// How often the size of the unfinished file is looked at.
const LOOK: Duration = Duration::from_millis(250);

/// Downloads the wheel of `spec` into the empty folder `into`.
pub(super) fn download(
    python: &Path,
    spec: &Spec,
    platforms: &[String],
    into: &Path,
    progress: Progress<'_>,
) -> Result<PathBuf, RuntimeError> {
    let output =
        run(python, spec, platforms, into, progress).map_err(|source| match source.kind() {
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

/// Whether this interpreter has a pip; asked before somebody is offered a download.
pub(super) fn is_there(python: &Path) -> bool {
    let mut command = Command::new(python);
    command.args(["-m", "pip", "--version"]);
    let silent = command.stdin(Stdio::null()).output();
    silent.is_ok_and(|output| output.status.success())
}

fn run(
    python: &Path,
    spec: &Spec,
    platforms: &[String],
    into: &Path,
    progress: Progress<'_>,
) -> io::Result<Output> {
    let unfinished = into.join("unfinished");
    fs::create_dir(&unfinished)?;
    let child = Command::new(python)
        .args(["-m", "pip", "download", "--no-input", "--progress-bar=off"])
        .arg("--disable-pip-version-check")
        .args(
            platforms
                .iter()
                .flat_map(|platform| ["--platform", platform]),
        )
        .args(["--no-deps", "--only-binary=:all:", "--dest"])
        .arg(into)
        .arg(spec.to_string())
        // pip gathers the file here before it moves it: its growth can be watched.
        .env("TMPDIR", &unfinished)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()?;
    watch(child, &unfinished, progress)
}

/// Waits for pip and tells what it fetches, as it says and as the file grows.
fn watch(mut child: Child, unfinished: &Path, progress: Progress<'_>) -> io::Result<Output> {
    let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
    let (send, lines) = mpsc::channel();
    let reader = thread::spawn(move || {
        let lines = stdout
            .into_iter()
            .flat_map(|out| BufReader::new(out).lines());
        for line in lines.map_while(Result::ok) {
            // The other end lives as long as this thread.
            let _ = send.send(line);
        }
    });
    let errors = thread::spawn(move || {
        let mut text = Vec::new();
        let read = stderr.map(|mut stderr| stderr.read_to_end(&mut text));
        read.transpose().map(|_| text)
    });
    loop {
        match lines.recv_timeout(LOOK) {
            Ok(line) => found(&line).into_iter().for_each(&mut *progress),
            Err(RecvTimeoutError::Timeout) => progress(Step::Received(largest_below(unfinished))),
            Err(RecvTimeoutError::Disconnected) => break,
        }
    }
    let panicked = || io::Error::other("a thread that reads pip's output panicked");
    reader.join().map_err(|_| panicked())?;
    Ok(Output {
        stderr: errors.join().map_err(|_| panicked())??,
        stdout: Vec::new(),
        status: child.wait()?,
    })
}

/// `Downloading onnxruntime-1.32.0-....whl (27.8 MB)`; pip says the same of small metadata files.
fn found(line: &str) -> Option<Step> {
    let line = line.trim();
    let rest = line
        .strip_prefix("Downloading ")
        .or_else(|| line.strip_prefix("Using cached "))?;
    let (file, size) = rest.strip_suffix(')')?.rsplit_once(" (")?;
    let file = file.rsplit('/').next().unwrap_or(file);
    file.ends_with(".whl").then(|| Step::Found {
        file: file.to_owned(),
        size: size.to_owned(),
    })
}

/// Bytes of the largest file in a folder and those below it: pip may keep a copy beside it.
fn largest_below(folder: &Path) -> u64 {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let bytes = entries.map(|entry| match entry.metadata() {
        Ok(found) if found.is_dir() => largest_below(&entry.path()),
        Ok(found) => found.len(),
        // Gone meanwhile.
        Err(_) => 0,
    });
    bytes.max().unwrap_or(0)
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
        let error = download(
            Path::new("no-such-python"),
            &spec,
            &[],
            folder.path(),
            &mut |_| {},
        )
        .unwrap_err();
        assert!(matches!(error, RuntimeError::NoPython { .. }), "{error}");
        assert!(error.hint().contains("apt install python3"));
    }

    #[test]
    fn what_pip_fetches_is_read_from_its_words() {
        let wheel = Some(Step::Found {
            file: "onnxruntime-1.32.0-cp311.whl".into(),
            size: "27.8 MB".into(),
        });
        for (line, expected) in [
            (
                "  Downloading onnxruntime-1.32.0-cp311.whl (27.8 MB)",
                &wheel,
            ),
            (
                "  Using cached onnxruntime-1.32.0-cp311.whl (27.8 MB)",
                &wheel,
            ),
            (
                "  Downloading https://x/y/onnxruntime-1.32.0-cp311.whl (27.8 MB)",
                &wheel,
            ),
            (
                "  Downloading onnxruntime-1.32.0-cp311.whl.metadata (5.1 kB)",
                &None,
            ),
            ("Collecting onnxruntime", &None),
            ("", &None),
        ] {
            assert_eq!(&found(line), expected, "{line}");
        }
    }
}
