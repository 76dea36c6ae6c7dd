//! Which rustc and which linker build for a target.

use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context as _, Result, bail};

use crate::place::{self, run, text};
use crate::targets::Target;
use crate::{complain, debian};

/// A compiler that has the std of the target.
#[derive(Debug)]
pub(crate) enum Compiler {
    /// The one that cargo uses anyway.
    Own,
    Other(PathBuf),
}

/// What links.
#[derive(Debug)]
pub(crate) enum Linker {
    /// zig, for the floor of the target; the folder of its programs.
    Zig(PathBuf),
    /// A cross gcc, for the floor of its own C library.
    Gcc(String),
}

impl Compiler {
    /// rustup's std when it has one, else Debian's, else the one command that helps.
    pub(crate) fn find(target: &Target) -> Result<Self> {
        Self::find_where(target, debian::is_possible())
    }

    fn find_where(target: &Target, is_debian: bool) -> Result<Self> {
        let own = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
        if debian::has_std(own.as_ref(), target) {
            return Ok(Self::Own);
        }
        let command = format!("rustup target add {}", target.triple);
        if !is_debian {
            bail!(
                "this rustc has no std for {}; run `{command}`",
                target.triple
            );
        }
        debian::rustc(target).map(Self::Other).with_context(|| {
            format!(
                "this rustc has no std for {} and Debian's cannot be had; run `{command}`",
                target.triple
            )
        })
    }

    pub(crate) fn describe(&self) -> String {
        match self {
            Self::Own => "the installed rustc".into(),
            Self::Other(path) => {
                let version = text(Command::new(path).arg("--version"));
                format!("Debian's {}", version.unwrap_or_else(|_| "rustc".into()))
            }
        }
    }
}

impl Linker {
    /// zig by pip, else a cross gcc with a word about its floor.
    pub(crate) fn find(target: &Target) -> Result<Self> {
        match zig() {
            Ok(folder) => Ok(Self::Zig(folder)),
            Err(why) if place::has(&target.gcc) => {
                complain(&format!(
                    "warning: no zig ({why:#}); {} links for the glibc that it came with, not for {}",
                    target.gcc, target.floor
                ));
                Ok(Self::Gcc(target.gcc.clone()))
            }
            Err(why) => Err(why.context(format!(
                "no linker for {}: install python3 with pip and venv, or {}",
                target.name, target.gcc
            ))),
        }
    }
}

/// The pinned zig in the target folder, installed on first use.
fn zig() -> Result<PathBuf> {
    let _one_at_a_time = place::lock("zig")?;
    let pins = include_str!("../requirements.txt");
    let folder = place::folder("zig")?;
    let programs = folder.join("bin");
    let note = folder.join("requirements.txt");
    if std::fs::read_to_string(&note).is_ok_and(|had| had == pins) {
        return Ok(programs);
    }
    run(Command::new("python3")
        .args(["-m", "venv", "--clear"])
        .arg(&folder))?;
    let mut pip = Command::new(programs.join("python3"));
    pip.args([
        "-m",
        "pip",
        "install",
        "--quiet",
        "--disable-pip-version-check",
        "--requirement",
    ]);
    run(pip.arg(place::root().join("cross/requirements.txt")))?;
    // Last, so that half an installation is made again.
    std::fs::write(&note, pins)?;
    Ok(programs)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::targets;

    #[test]
    fn without_a_std_the_one_command_that_helps_is_named() {
        for target in targets::all().unwrap() {
            // Tier 3: no rustup has a std for it.
            let triple = format!("mips64-{}", target.triple);
            let target = Target {
                triple: triple.clone(),
                ..target
            };
            let why = Compiler::find_where(&target, false)
                .unwrap_err()
                .to_string();
            assert_eq!(
                why,
                format!("this rustc has no std for {triple}; run `rustup target add {triple}`")
            );
        }
    }
}
