//! Folders and programs that everything here uses.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use anyhow::{Context as _, Result, bail};

/// The workspace.
pub(crate) fn root() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.parent().unwrap_or(here).to_owned()
}

/// Cargo's target folder of the workspace; `CARGO_TARGET_DIR` moves it.
fn target() -> PathBuf {
    match std::env::var_os("CARGO_TARGET_DIR").filter(|folder| !folder.is_empty()) {
        Some(folder) => root().join(folder),
        None => root().join("target"),
    }
}

/// Everything that is made here lies in one ignored folder, made when it is not there.
pub(crate) fn folder(name: &str) -> Result<PathBuf> {
    let folder = target().join("cross").join(name);
    fs::create_dir_all(&folder).with_context(|| format!("cannot make {}", folder.display()))?;
    Ok(folder)
}

/// Keeps two builds from laying out the same tools at once, until dropped.
pub(crate) fn lock(name: &str) -> Result<File> {
    let path = folder("locks")?.join(name);
    let file = File::create(&path).with_context(|| format!("cannot use {}", path.display()))?;
    file.lock()?;
    Ok(file)
}

/// The cargo that runs this program.
pub(crate) fn cargo() -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir(root());
    // `cargo board` gives this program its own package's variables. A build script that asks to run again
    // when they change (ring's does) would be built anew after every start by other means.
    for (name, _) in std::env::vars_os() {
        let text = name.to_string_lossy();
        if text.starts_with("CARGO_PKG_") || text.starts_with("CARGO_MANIFEST_") {
            command.env_remove(&name);
        }
    }
    command
}

/// Whether a program is in PATH.
pub(crate) fn has(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|folder| folder.join(program).is_file())
}

/// Runs a program to its end; its words when it fails.
pub(crate) fn run(command: &mut Command) -> Result<Output> {
    let name = name_of(command.get_program());
    let output = command
        .stdin(Stdio::null())
        .output()
        .with_context(|| format!("cannot run {name}"))?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        let last: Vec<&str> = said.lines().rev().take(5).collect();
        let last: Vec<&str> = last.into_iter().rev().collect();
        bail!("{name} ended with {}: {}", output.status, last.join("\n"));
    }
    Ok(output)
}

/// What it wrote, without the line end.
pub(crate) fn text(command: &mut Command) -> Result<String> {
    let output = run(command)?;
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

fn name_of(program: &OsStr) -> String {
    program.to_string_lossy().into_owned()
}
