//! Files that tests need and a checkout does not hold: downloaded once, kept in the build folder.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, bail};
use zip::ZipArchive;

use crate::workspace;

/// The folder of the assets: `test-assets` in the build folder, or `EDGEDYNO_TEST_ASSETS`, which
/// several checkouts may share.
pub fn folder() -> Result<PathBuf> {
    let folder = match std::env::var_os("EDGEDYNO_TEST_ASSETS") {
        Some(folder) => PathBuf::from(folder),
        None => workspace::build().target.join("test-assets"),
    };
    fs::create_dir_all(&folder).with_context(|| format!("cannot make {}", folder.display()))?;
    Ok(folder)
}

/// Unpacks the wanted files of a Python wheel, downloaded by pip on the first call, and returns the
/// folder that holds them under their names in the wheel. `name` is the folder's; another selection
/// of the same wheel needs another name.
pub fn wheel(name: &str, requirement: &str, is_wanted: fn(&str) -> bool) -> Result<PathBuf> {
    wheel_for(None, name, requirement, is_wanted)
}

/// The same for another platform than this machine, in pip's words.
pub fn wheel_for(
    platform: Option<&str>,
    name: &str,
    requirement: &str,
    is_wanted: fn(&str) -> bool,
) -> Result<PathBuf> {
    let folder = folder()?;
    let ready = folder.join(name);
    if ready.is_dir() {
        return Ok(ready);
    }
    // One process downloads, the others wait for it and then find the folder.
    let lock = File::create(folder.join(format!("{name}.lock")))?;
    lock.lock()?;
    if ready.is_dir() {
        return Ok(ready);
    }
    let scratch = tempfile::Builder::new()
        .prefix("part-")
        .tempdir_in(&folder)?;
    let wheel = download(platform, requirement, scratch.path())?;
    let unpacked = scratch.path().join("unpacked");
    if unpack(&wheel, &unpacked, is_wanted)? == 0 {
        bail!("{requirement} holds none of the wanted files");
    }
    // Complete or absent: nobody ever sees half a folder.
    fs::rename(&unpacked, &ready)?;
    Ok(ready)
}

fn download(platform: Option<&str>, requirement: &str, folder: &Path) -> Result<PathBuf> {
    let output = Command::new("python3")
        .args([
            "-m",
            "pip",
            "download",
            "--quiet",
            "--disable-pip-version-check",
        ])
        .args(
            platform
                .iter()
                .flat_map(|platform| ["--platform", platform]),
        )
        .args(["--no-deps", "--only-binary=:all:", "--dest"])
        .arg(folder)
        .arg(requirement)
        .stdin(Stdio::null())
        .output()
        .context("cannot start python3")?;
    if !output.status.success() {
        bail!("pip: {}", String::from_utf8_lossy(&output.stderr).trim());
    }
    fs::read_dir(folder)?
        .flatten()
        .map(|entry| entry.path())
        .find(|path| path.extension().is_some_and(|extension| extension == "whl"))
        .with_context(|| format!("pip left no wheel for {requirement}"))
}

fn unpack(wheel: &Path, into: &Path, is_wanted: fn(&str) -> bool) -> Result<usize> {
    let mut archive = ZipArchive::new(File::open(wheel)?)?;
    let mut count = 0;
    for index in 0..archive.len() {
        let mut member = archive.by_index(index)?;
        if member.is_dir() || !is_wanted(&String::from_utf8_lossy(member.name_raw())) {
            continue;
        }
        let inside = member
            .enclosed_name()
            .context("a name in the wheel leads outside")?;
        let path = into.join(inside);
        fs::create_dir_all(path.parent().context("a file lies in a folder")?)?;
        std::io::copy(&mut member, &mut File::create(&path)?)?;
        count += 1;
    }
    Ok(count)
}
