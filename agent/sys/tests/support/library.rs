//! A real ONNX Runtime for tests: given by path, else fetched once with pip and kept below the target folder.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

/// Path of a `libonnxruntime.so`; the models of its Python package are expected beside it.
const LIBRARY: &str = "EDGEDYNO_TEST_ORT";

/// Set to 1, a test that cannot run fails instead of being skipped.
const STRICT: &str = "EDGEDYNO_TEST_STRICT";

const VERSION: &str = "1.32.0";

/// The library; none where it cannot be had, which is said.
pub(crate) fn path() -> Option<PathBuf> {
    static FETCHED: OnceLock<Result<PathBuf, String>> = OnceLock::new();
    if let Some(given) = std::env::var_os(LIBRARY) {
        return Some(given.into());
    }
    match FETCHED.get_or_init(fetched) {
        Ok(path) => Some(path.clone()),
        Err(why) => {
            assert_ne!(std::env::var(STRICT).as_deref(), Ok("1"), "{why}");
            // Seen with --nocapture; the print macros are for programs that own their output.
            let _ = writeln!(std::io::stderr(), "skipped: {why}");
            None
        }
    }
}

fn fetched() -> Result<PathBuf, String> {
    let program = std::env::current_exe().map_err(|why| why.to_string())?;
    // target/PROFILE/deps/TEST
    let target = program.ancestors().nth(3).ok_or("no target folder")?;
    let assets = target.join("test-assets");
    fs::create_dir_all(&assets).map_err(|why| why.to_string())?;
    let lock =
        File::create(assets.join("onnxruntime-python.lock")).map_err(|why| why.to_string())?;
    // Other test programs may be fetching it at this moment.
    lock.lock().map_err(|why| why.to_string())?;
    let folder = assets.join(format!("onnxruntime-python-{VERSION}"));
    if !folder.exists() {
        unpack(&assets, &folder)?;
    }
    library_in(&folder.join("onnxruntime/capi"))
}

/// Fetches the wheel and unpacks it; the folder appears whole or not at all.
fn unpack(assets: &Path, folder: &Path) -> Result<(), String> {
    let unfinished = folder.with_extension("unfinished");
    let _ = fs::remove_dir_all(&unfinished);
    fs::create_dir_all(&unfinished).map_err(|why| why.to_string())?;
    let wheels = assets.join("onnxruntime-python-wheel");
    let requirement = format!("onnxruntime=={VERSION}");
    let pip = [
        "-m",
        "pip",
        "download",
        "--quiet",
        "--no-deps",
        "--only-binary=:all:",
        "-d",
    ];
    python(
        pip.iter()
            .map(OsStr::new)
            .chain([wheels.as_os_str(), OsStr::new(&requirement)]),
    )?;
    let wheel = first_in(&wheels, "onnxruntime-")?;
    let unzip = [OsStr::new("-m"), OsStr::new("zipfile"), OsStr::new("-e")];
    python(
        unzip
            .into_iter()
            .chain([wheel.as_os_str(), unfinished.as_os_str()]),
    )?;
    fs::rename(&unfinished, folder).map_err(|why| why.to_string())
}

fn python<'a>(words: impl Iterator<Item = &'a OsStr>) -> Result<(), String> {
    let output = Command::new("python3").args(words).output();
    let output = output.map_err(|why| format!("python3 cannot be run: {why}"))?;
    if output.status.success() {
        return Ok(());
    }
    let words = String::from_utf8_lossy(&output.stderr).into_owned();
    Err(format!("no ONNX Runtime could be fetched: {words}"))
}

fn library_in(folder: &Path) -> Result<PathBuf, String> {
    first_in(folder, "libonnxruntime.so")
}

fn first_in(folder: &Path, prefix: &str) -> Result<PathBuf, String> {
    let entries = fs::read_dir(folder).map_err(|why| format!("{}: {why}", folder.display()))?;
    let named = |path: &PathBuf| {
        path.file_name()
            .is_some_and(|name| name.to_string_lossy().starts_with(prefix))
    };
    let mut paths = entries.flatten().map(|entry| entry.path());
    paths
        .find(named)
        .ok_or_else(|| format!("no {prefix}… in {}", folder.display()))
}
