//! Which file is the agent for a board of some architecture.

use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};

use edgedyno_shared::ids::Sha256;
use flate2::read::GzDecoder;

use crate::model::digest::Digest;
use crate::runtime::architecture_of;

/// Names a folder with `edgedyno-agent-ARCH`, or `ARCH/edgedyno-agent`, for each architecture.
pub const FOLDER_VARIABLE: &str = "EDGEDYNO_AGENTS";

const NAME: &str = "edgedyno-agent";

/// No agent is larger; what is, is something else.
const LIMIT: u64 = 128 << 20;

/// A program that can be sent to a board.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AgentFile {
    pub path: PathBuf,
    pub sha256: Sha256,
    pub bytes: u64,
}

#[derive(Debug, thiserror::Error)]
pub enum NoAgent {
    #[error("there is no agent for {architecture} beside this program")]
    NotFound { architecture: String },
    #[error("`{}` is built for {found}, the board is {architecture}", .path.display())]
    Other {
        path: PathBuf,
        found: String,
        architecture: String,
    },
    #[error("`{}` is neither a program nor a package with one", .path.display())]
    NotOne { path: PathBuf },
    #[error("`{}` cannot be read", .path.display())]
    File {
        path: PathBuf,
        source: std::io::Error,
    },
}

impl NoAgent {
    pub fn hint(&self) -> String {
        match self {
            Self::NotFound { architecture } => {
                let target = match architecture.as_str() {
                    "arm" => "armv7",
                    other => other,
                };
                format!(
                    "build it with `cargo board build {target}`, or name a file with --agent FILE"
                )
            }
            _ => "name the program `edgedyno-agent`, or a package of `cargo board package`".into(),
        }
    }
}

/// The file that the user names, else the one found beside this program.
pub fn find(
    named: Option<&Path>,
    architecture: &str,
    unpacked: &Path,
) -> Result<AgentFile, NoAgent> {
    let path = match named {
        Some(path) => unpack(path, unpacked)?,
        None => search(&places(architecture)).ok_or_else(|| NoAgent::NotFound {
            architecture: architecture.to_owned(),
        })?,
    };
    let in_file = |source| NoAgent::File {
        path: path.clone(),
        source,
    };
    let mut head = Vec::new();
    let file = File::open(&path).map_err(in_file)?;
    file.take(20).read_to_end(&mut head).map_err(in_file)?;
    match architecture_of(&head) {
        None => return Err(NoAgent::NotOne { path }),
        Some(found) if found != architecture => {
            let architecture = architecture.to_owned();
            return Err(NoAgent::Other {
                path,
                found,
                architecture,
            });
        }
        Some(_) => {}
    }
    let digest = File::open(&path).and_then(Digest::of_reader);
    let (digest, bytes) = digest.map_err(in_file)?;
    Ok(AgentFile {
        sha256: Sha256(*digest.as_bytes()),
        bytes,
        path,
    })
}

fn search(places: &[PathBuf]) -> Option<PathBuf> {
    places.iter().find(|path| path.is_file()).cloned()
}

/// Where an agent may lie: a folder of the user's, beside this program, in a package's library folder, and
/// where `cargo board build` puts it in a checkout.
fn places(architecture: &str) -> Vec<PathBuf> {
    let named = format!("{NAME}-{architecture}");
    let inner = Path::new(architecture).join(NAME);
    let mut places = Vec::new();
    if let Some(folder) = std::env::var_os(FOLDER_VARIABLE).filter(|folder| !folder.is_empty()) {
        let folder = PathBuf::from(folder);
        places.extend([folder.join(&named), folder.join(&inner)]);
    }
    let own = std::env::current_exe().and_then(fs::canonicalize);
    let Some(beside) = own.ok().and_then(|own| own.parent().map(Path::to_owned)) else {
        return places;
    };
    places.push(beside.join(&named));
    places.push(beside.join("../lib/edgedyno").join(&named));
    if architecture == std::env::consts::ARCH {
        places.push(beside.join(NAME));
    }
    places.push(beside.join("../cross/agents").join(&inner));
    places
}

/// A package's program is unpacked; anything else is taken as it is.
fn unpack(path: &Path, into: &Path) -> Result<PathBuf, NoAgent> {
    let is_package = path
        .extension()
        .is_some_and(|end| end == "gz" || end == "tgz");
    if !is_package {
        return Ok(path.to_owned());
    }
    let in_file = |source| NoAgent::File {
        path: path.to_owned(),
        source,
    };
    let file = File::open(path).map_err(in_file)?;
    let mut archive = tar::Archive::new(GzDecoder::new(file));
    for entry in archive.entries().map_err(in_file)? {
        let entry = entry.map_err(in_file)?;
        let is_it = entry
            .path()
            .is_ok_and(|inner| inner.file_name() == Some(NAME.as_ref()));
        if is_it && entry.header().entry_type().is_file() {
            let target = into.join(NAME);
            let mut out = File::create(&target).map_err(in_file)?;
            std::io::copy(&mut entry.take(LIMIT), &mut out).map_err(in_file)?;
            return Ok(target);
        }
    }
    Err(NoAgent::NotOne {
        path: path.to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_named_file_must_be_a_program_for_that_board() {
        let folder = tempfile::tempdir().unwrap();
        let own = std::env::current_exe().unwrap();
        let arch = std::env::consts::ARCH;
        let found = find(Some(&own), arch, folder.path()).unwrap();
        assert_eq!(found.bytes, fs::metadata(&own).unwrap().len());
        let other = find(Some(&own), "riscv64", folder.path()).unwrap_err();
        assert!(other.to_string().contains(arch) && other.to_string().contains("riscv64"));
        let text = folder.path().join("x");
        fs::write(&text, "#!/bin/sh\nexit 0 # long enough for a header\n").unwrap();
        let refused = find(Some(&text), arch, folder.path()).unwrap_err();
        assert!(matches!(refused, NoAgent::NotOne { .. }), "{refused}");
        let missing = find(Some(&folder.path().join("y")), arch, folder.path()).unwrap_err();
        assert!(matches!(missing, NoAgent::File { .. }), "{missing}");
    }

    #[test]
    fn a_packages_program_is_taken_out_of_it() {
        let folder = tempfile::tempdir().unwrap();
        // Any program of this machine does; this test itself is larger than an agent may be.
        let own = fs::canonicalize("/bin/sh").unwrap();
        let package = folder.path().join("edgedyno-agent-0.1.0-x.tar.gz");
        let gzip = flate2::write::GzEncoder::new(
            File::create(&package).unwrap(),
            flate2::Compression::fast(),
        );
        let mut archive = tar::Builder::new(gzip);
        archive
            .append_path_with_name(&own, "p/edgedyno-agent")
            .unwrap();
        archive.into_inner().unwrap().finish().unwrap();
        let found = find(Some(&package), std::env::consts::ARCH, folder.path()).unwrap();
        assert_eq!(fs::read(&found.path).unwrap(), fs::read(own).unwrap());
    }

    #[test]
    fn a_missing_agent_names_the_command_that_makes_it() {
        let missing = NoAgent::NotFound {
            architecture: "arm".into(),
        };
        assert!(missing.hint().contains("cargo board build armv7"));
    }
}
