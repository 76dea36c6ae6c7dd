//! The two programs under test, built by the cargo and with the profile of the tests themselves.

use std::fs::File;
use std::io::BufReader;
use std::path::PathBuf;
use std::process::Stdio;
use std::sync::OnceLock;

use anyhow::{Context as _, Result, ensure};
use cargo_metadata::Message;

use crate::{assets, workspace};

/// Paths of the built programs.
#[derive(Clone, Debug)]
pub struct Binaries {
    /// `edgedyno`, the host.
    pub host: PathBuf,
    /// `edgedyno-agent`, the daemon for boards.
    pub agent: PathBuf,
}

/// Builds both programs on the first call in this process; a fresh build takes cargo a moment.
///
/// # Panics
/// When the build fails; cargo's own messages are on stderr then.
pub fn binaries() -> &'static Binaries {
    static BINARIES: OnceLock<Binaries> = OnceLock::new();
    BINARIES.get_or_init(|| build().expect("the binaries under test build"))
}

fn build() -> Result<Binaries> {
    // Several test programs may start at once. Cargo would queue them too, with a line on stderr each.
    let lock = File::create(assets::folder()?.join("build.lock"))?;
    lock.lock()?;

    let build = workspace::build();
    let mut command = workspace::cargo();
    // The tests' own package is part of the selection for its dependencies only: with it, crates have
    // the features that they had when the tests were built (see Cargo.toml), and nothing, the built-in
    // runtime least of all, is built again.
    command
        .args([
            "build",
            "--locked",
            "--bins",
            "--message-format=json-render-diagnostics",
        ])
        .args([
            "-p",
            "edgedyno",
            "-p",
            "edgedyno-agent",
            "-p",
            "edgedyno-tests",
        ])
        .args(["--profile", &build.profile])
        .arg("--target-dir")
        .arg(&build.target)
        .stdout(Stdio::piped());
    if let Some(triple) = &build.triple {
        command.args(["--target", triple]);
    }

    let mut child = command.spawn().context("cannot start cargo")?;
    let stdout = child.stdout.take().context("cargo has no stdout")?;
    let (mut host, mut agent) = (None, None);
    for message in Message::parse_stream(BufReader::new(stdout)) {
        if let Message::CompilerArtifact(artifact) = message?
            && let Some(program) = artifact.executable
        {
            match artifact.target.name.as_str() {
                "edgedyno" => host = Some(program.into()),
                "edgedyno-agent" => agent = Some(program.into()),
                _ => {}
            }
        }
    }
    ensure!(child.wait()?.success(), "cargo build failed");
    Ok(Binaries {
        host: host.context("cargo built no edgedyno")?,
        agent: agent.context("cargo built no edgedyno-agent")?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_programs_are_built_and_can_be_started() {
        let Binaries { host, agent } = binaries();
        assert!(host.is_file() && agent.is_file());
        assert_ne!(host, agent);
    }
}
