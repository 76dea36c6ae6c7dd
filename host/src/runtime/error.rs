//! Why a runtime cannot be installed or listed.

use std::io;
use std::path::{Path, PathBuf};

use thiserror::Error;

use crate::model::digest::Digest;

/// A runtime that was not installed; what was there before is untouched.
#[derive(Debug, Error)]
pub enum RuntimeError {
    #[error("{text:?} is not a runtime to install: NAME or NAME==VERSION is needed")]
    Spec { text: String },
    #[error("there is no runtime {name:?} to install; there is {known}")]
    UnknownRuntime { name: String, known: String },
    #[error("no folder for the cache: neither EDGEDYNO_CACHE nor XDG_CACHE_HOME nor HOME is set")]
    NoCacheFolder,
    #[error("cannot use {} in the cache", path.display())]
    Cache { path: PathBuf, source: io::Error },
    #[error("cannot run {}", program.display())]
    NoPython { program: PathBuf, source: io::Error },
    #[error("{} has no pip", program.display())]
    NoPip { program: PathBuf },
    #[error("pip found no package for {spec} on this machine: {detail}")]
    NoPackage { spec: String, detail: String },
    #[error("pip could not download {spec}: {detail}")]
    Pip { spec: String, detail: String },
    #[error("{} does not exist", path.display())]
    Missing { path: PathBuf },
    #[error("cannot read {}", path.display())]
    Read { path: PathBuf, source: io::Error },
    #[error("cannot install from {}: {kind} is not supported", path.display())]
    Unsupported { path: PathBuf, kind: &'static str },
    #[error("{} is not a sound wheel: {why}", path.display())]
    Wheel { path: PathBuf, why: String },
    #[error("{} is not a sound archive: {why}", path.display())]
    Archive { path: PathBuf, why: String },
    #[error("{} holds version {found}, not {wanted}", path.display())]
    OtherVersion {
        path: PathBuf,
        found: String,
        wanted: String,
    },
    #[error("{} is not a library of ONNX Runtime: {why}", path.display())]
    NotALibrary { path: PathBuf, why: &'static str },
    #[error("{} is built for {found}, {needed} is needed", path.display())]
    Architecture {
        path: PathBuf,
        found: String,
        needed: String,
    },
    #[error("{file} of {package} {version} has sha256 {found}, the published one has {published}")]
    Mismatch {
        package: String,
        version: String,
        file: String,
        found: Digest,
        published: &'static str,
    },
}

impl RuntimeError {
    /// What to do about it.
    pub fn hint(&self) -> &'static str {
        match self {
            Self::Spec { .. } => "such as onnxruntime or onnxruntime==1.32.0",
            Self::UnknownRuntime { .. } => "other runtimes come with the system of the board",
            Self::NoCacheFolder => "set EDGEDYNO_CACHE to a folder you may write to",
            Self::Cache { .. } => "check its permissions and the space left, or set EDGEDYNO_CACHE",
            Self::NoPython { .. } => {
                "install it (Debian: apt install python3 python3-pip), or use --from FILE"
            }
            Self::NoPip { .. } => {
                "install it (Debian: apt install python3-pip), or use --from FILE"
            }
            Self::NoPackage { .. } => {
                "choose a version that exists for this machine, or use --from FILE"
            }
            Self::Pip { .. } => "check the network and pip's index settings, or use --from FILE",
            Self::Missing { .. } | Self::Read { .. } => "check the path and its permissions",
            Self::Unsupported { .. } => {
                "unpack it and name the libonnxruntime.so inside with --from"
            }
            Self::Archive { .. } => "download it again, or name the libonnxruntime.so itself",
            Self::OtherVersion { .. } => "leave out ==VERSION, or choose another file",
            Self::Wheel { .. } => "download it again, or name a wheel of onnxruntime",
            Self::NotALibrary { .. } => "name a wheel (.whl) or a libonnxruntime.so",
            Self::Architecture { .. } => "choose the file for that processor",
            Self::Mismatch { .. } => {
                "download it again; if you built it yourself, name the library itself with --from"
            }
        }
    }

    /// For `map_err` where a place in the cache failed.
    pub(super) fn cache(path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        move |source| Self::Cache { path, source }
    }

    /// For `map_err` where a file of the user failed.
    pub(super) fn read(path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        move |source| match source.kind() {
            io::ErrorKind::NotFound => Self::Missing { path },
            _ => Self::Read { path, source },
        }
    }
}
