//! Building the agent for a target.

use std::fs;
use std::io::BufReader;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, ensure};
use cargo_metadata::Message;
use edgedyno_sys::vendor::elf::ElfFacts;

use crate::complain;
use crate::place;
use crate::targets::Target;
use crate::toolchain::{Compiler, Linker};

/// What is built of the agent, and how.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Wish {
    /// Without the built-in runtime.
    pub(crate) slim: bool,
    /// Cargo profile: `agent` for boards, `cross-dev` for a quick look.
    pub(crate) profile: String,
}

impl Default for Wish {
    fn default() -> Self {
        Self {
            slim: false,
            profile: "agent".into(),
        }
    }
}

impl Wish {
    fn features(&self) -> &'static [&'static str] {
        match self.slim {
            true => &["--no-default-features"],
            false => &["--no-default-features", "--features", "builtin"],
        }
    }

    /// The folder below `agents/` that keeps what was built so.
    fn folder(&self, target: &Target) -> String {
        let slim = if self.slim { "-slim" } else { "" };
        match self.profile.as_str() {
            "agent" => format!("agents/{}{slim}", target.arch),
            other => format!("agents/{other}/{}{slim}", target.arch),
        }
    }
}

/// Builds, and puts the program where `edgedyno board add` looks for it. Its path is returned.
pub(crate) fn build(target: &Target, wish: &Wish) -> Result<PathBuf> {
    let compiler = Compiler::find(target)?;
    let linker = Linker::find(target)?;
    complain(&format!(
        "building for {} with {}",
        target.triple,
        compiler.describe()
    ));
    let built = cargo(target, wish, &compiler, &linker)?;
    let folder = place::folder(&wish.folder(target))?;
    let program = folder.join("edgedyno-agent");
    let unfinished = folder.join(format!(".new-{}", std::process::id()));
    fs::copy(&built, &unfinished)?;
    // A program that runs cannot be written over, but its name can be given to another.
    fs::rename(&unfinished, &program)?;
    if let Linker::Gcc(gcc) = &linker {
        complain(&floor_of(&program, gcc, target)?);
    }
    Ok(program)
}

/// Whether there is what builds for a target, or why not.
pub(crate) fn is_at_hand(target: &Target) -> Result<()> {
    Compiler::find(target)?;
    Linker::find(target)?;
    Ok(())
}

/// What a program that a cross gcc linked asks of a board, beside what was wanted.
fn floor_of(program: &Path, gcc: &str, target: &Target) -> Result<String> {
    let facts =
        ElfFacts::read(program).with_context(|| format!("{} is no program", program.display()))?;
    let needed = facts.glibc_needed.map_or_else(
        || "no glibc".into(),
        |version| format!("glibc {version} or later"),
    );
    Ok(format!(
        "{} needs {needed}, for {gcc} linked it; zig links for {}",
        shown(program),
        target.floor
    ))
}

fn cargo(target: &Target, wish: &Wish, compiler: &Compiler, linker: &Linker) -> Result<PathBuf> {
    let mut command = place::cargo();
    let triple = match linker {
        Linker::Zig(programs) => {
            let before = std::env::var_os("PATH").unwrap_or_default();
            let path = std::iter::once(programs.clone()).chain(std::env::split_paths(&before));
            command.env("PATH", std::env::join_paths(path)?);
            let caches = place::folder("zig-cache")?;
            command.env("CARGO_ZIGBUILD_CACHE_DIR", caches.join("zigbuild"));
            command.env("ZIG_GLOBAL_CACHE_DIR", caches.join("zig"));
            command.env("CARGO_ZIGBUILD_ZIG_PATH", programs.join("python-zig"));
            command.arg("zigbuild");
            format!("{}.{}", target.triple, target.floor)
        }
        Linker::Gcc(gcc) => {
            let name = target.triple.to_uppercase().replace('-', "_");
            command.env(format!("CARGO_TARGET_{name}_LINKER"), gcc);
            command.env(format!("CC_{}", target.triple.replace('-', "_")), gcc);
            command.arg("build");
            target.triple.clone()
        }
    };
    if let Compiler::Other(rustc) = compiler {
        command.env("RUSTC", rustc);
    }
    command
        .args([
            "--locked",
            "-p",
            "edgedyno-agent",
            "--bins",
            "--target",
            &triple,
        ])
        .args(["--profile", &wish.profile])
        .arg("--target-dir")
        .arg(place::folder("build")?)
        .args(wish.features());
    program_of(command)
}

/// Runs a build of one program; the path of what came out.
pub(crate) fn program_of(mut command: Command) -> Result<PathBuf> {
    let mut child = command
        .arg("--message-format=json-render-diagnostics")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .context("cannot start cargo")?;
    let stdout = child.stdout.take().context("cargo has no stdout")?;
    let mut program = None;
    for message in Message::parse_stream(BufReader::new(stdout)) {
        if let Message::CompilerArtifact(artifact) = message? {
            program = artifact.executable.or(program);
        }
    }
    ensure!(child.wait()?.success(), "cargo cannot build the agent");
    Ok(program.context("cargo built no edgedyno-agent")?.into())
}

/// Where a program lies, as seen from the workspace.
pub(crate) fn shown(path: &Path) -> String {
    path.strip_prefix(place::root())
        .unwrap_or(path)
        .display()
        .to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::targets;

    #[test]
    fn the_floor_of_a_cross_gcc_is_told_as_a_number() {
        let own = std::env::current_exe().unwrap();
        let target = targets::find("aarch64").unwrap();
        let told = floor_of(&own, "aarch64-linux-gnu-gcc", &target).unwrap();
        let needed = ElfFacts::read(&own).unwrap().glibc_needed.unwrap();
        assert!(
            told.contains(&format!("needs glibc {needed} or later")),
            "{told}"
        );
        assert!(told.ends_with("zig links for 2.27"), "{told}");
        assert!(floor_of(Path::new("/etc/passwd"), "gcc", &target).is_err());
    }

    #[test]
    fn builds_of_different_kinds_do_not_share_a_place() {
        let target = targets::find("armv7").unwrap();
        let folder = |slim, profile: &str| {
            let profile = profile.to_owned();
            Wish { slim, profile }.folder(&target)
        };
        assert_eq!(folder(false, "agent"), "agents/arm");
        assert_eq!(folder(true, "agent"), "agents/arm-slim");
        assert_eq!(folder(false, "cross-dev"), "agents/cross-dev/arm");
    }
}
