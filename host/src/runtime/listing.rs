//! What a board can run models with: each backend, and the libraries found for it.

use edgedyno_shared::device::{BackendInfo, DeviceInfo, RuntimeFound, RuntimeVerdict};
use serde::Serialize;

use crate::board::local;
use crate::plan::backend::{choose_backend, choose_runtime};

/// Backends of a board as `runtime list` shows them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Listing {
    pub board: String,
    pub arch: String,
    pub backends: Vec<BackendListing>,
    /// What `run` takes when nobody chooses; none when nothing can run a model.
    pub default: Option<Choice>,
    /// Installations that are no longer whole; known for this machine only.
    pub broken: Vec<BrokenInstallation>,
}

/// One backend.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct BackendListing {
    pub name: String,
    pub summary: String,
    pub built_in: bool,
    pub simulated: bool,
    pub formats: Vec<String>,
    /// Of what is built in.
    pub version: Option<String>,
    /// Usable ones first, in the order they would be chosen.
    pub libraries: Vec<Library>,
}

/// A library file that was found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Library {
    pub path: String,
    /// Why this place was looked at.
    pub origin: String,
    #[serde(flatten)]
    pub verdict: Verdict,
}

/// What became of a library.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "state", rename_all = "snake_case")]
pub enum Verdict {
    Usable {
        version: String,
        sha256: Option<String>,
        build: Option<String>,
        build_id: Option<String>,
        providers: Vec<String>,
    },
    Refused {
        code: String,
        reason: String,
        hint: Option<String>,
    },
}

/// A backend, and the file of its library when it has one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Choice {
    pub backend: String,
    pub library: Option<String>,
}

/// A folder in the cache that is not what was installed there.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct BrokenInstallation {
    pub folder: String,
    pub reason: String,
}

impl Listing {
    pub fn of(board: &str, device: &DeviceInfo, broken: Vec<BrokenInstallation>) -> Self {
        Self {
            board: board.to_owned(),
            arch: device.arch.clone(),
            backends: device.backends.iter().map(BackendListing::from).collect(),
            default: default_choice(device),
            broken,
        }
    }
}

fn default_choice(device: &DeviceInfo) -> Option<Choice> {
    // Only whether there is a choice counts here, so no hint is seen.
    let backend = choose_backend(device, None, None, local::NAME).ok()?;
    let library = choose_runtime(backend, None, None, local::NAME).ok()?;
    Some(Choice {
        backend: backend.name.clone(),
        library: library.map(|(path, _)| path.to_owned()),
    })
}

impl From<&BackendInfo> for BackendListing {
    fn from(info: &BackendInfo) -> Self {
        Self {
            name: info.name.clone(),
            summary: info.summary.clone(),
            built_in: info.built_in,
            simulated: info.simulated,
            formats: info.formats.clone(),
            version: info.version.clone(),
            libraries: info.runtimes.iter().map(Library::from).collect(),
        }
    }
}

impl From<&RuntimeFound> for Library {
    fn from(found: &RuntimeFound) -> Self {
        Self {
            path: found.path.clone(),
            origin: found.origin.clone(),
            verdict: Verdict::from(&found.verdict),
        }
    }
}

impl From<&RuntimeVerdict> for Verdict {
    fn from(verdict: &RuntimeVerdict) -> Self {
        match verdict {
            RuntimeVerdict::Usable(facts) => Self::Usable {
                version: facts.version.clone(),
                sha256: facts.sha256.map(|sha256| sha256.to_string()),
                build: facts.build.clone(),
                build_id: facts.build_id.clone(),
                providers: facts.providers.clone(),
            },
            RuntimeVerdict::Refused { code, reason, hint } => Self::Refused {
                code: code.clone(),
                reason: reason.clone(),
                hint: Some(hint.clone()).filter(|hint| !hint.is_empty()),
            },
        }
    }
}
