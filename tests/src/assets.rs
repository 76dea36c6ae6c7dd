//! Files that tests need and a checkout does not hold: downloaded once, kept in the build folder.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, bail, ensure};
use zip::ZipArchive;

use crate::{commands, workspace};

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
    once(name, |scratch, unpacked| {
        let wheel = download(platform, requirement, scratch)?;
        if unpack(&wheel, unpacked, is_wanted)? == 0 {
            bail!("{requirement} holds none of the wanted files");
        }
        Ok(())
    })
}

/// Unpacks one file of a package of npm, downloaded by npm on the first call, and returns its path. Its
/// SHA-256 is held against `sha256`, in hex.
pub fn npm(requirement: &str, file: &str, sha256: &str) -> Result<PathBuf> {
    let name = requirement.replace(['@', '/'], "-");
    let folder = once(&name, |scratch, unpacked| {
        let mut pack = Command::new("npm");
        pack.args(["pack", "--silent", requirement, "--pack-destination"])
            .arg(scratch);
        let packed = succeed(pack, "npm")?;
        fs::create_dir_all(unpacked)?;
        let mut unpack = Command::new("tar");
        unpack
            .args(["--extract", "--gzip", "--strip-components=1", "--file"])
            .arg(scratch.join(packed.trim()))
            .arg("--directory")
            .arg(unpacked)
            .arg(format!("package/{file}"));
        succeed(unpack, "tar")?;
        let found = commands::sha256(&unpacked.join(file));
        ensure!(found == sha256, "{file} of {requirement} has hash {found}");
        Ok(())
    })?;
    Ok(folder.join(file))
}

/// What a program printed that ended well.
fn succeed(mut command: Command, name: &str) -> Result<String> {
    let output = command
        .stdin(Stdio::null())
        .output()
        .with_context(|| format!("cannot start {name}"))?;
    if !output.status.success() {
        bail!("{name}: {}", String::from_utf8_lossy(&output.stderr).trim());
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// The folder of this name among the assets; `fill` makes it on the first call, with a folder for what it
/// needs meanwhile and the one to make.
fn once(name: &str, fill: impl FnOnce(&Path, &Path) -> Result<()>) -> Result<PathBuf> {
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
    let unpacked = scratch.path().join("unpacked");
    fill(scratch.path(), &unpacked)?;
    // Complete or absent: nobody ever sees half a folder.
    fs::rename(&unpacked, &ready)?;
    Ok(ready)
}

fn download(platform: Option<&str>, requirement: &str, folder: &Path) -> Result<PathBuf> {
    let mut pip = Command::new("python3");
    pip.args([
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
    .arg(requirement);
    succeed(pip, "pip")?;
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
