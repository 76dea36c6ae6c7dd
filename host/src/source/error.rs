//! What can go wrong when something is to be read.

use std::path::PathBuf;

use crate::store::{ErrorClass, StoreError};

/// A run, case or file that cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum SourceError {
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error("profile {path} cannot be read")]
    Unreadable {
        path: PathBuf,
        source: std::io::Error,
    },
    #[error("{path} is not a profile of edgedyno")]
    NotAProfile {
        path: PathBuf,
        source: serde_json::Error,
    },
    #[error("{path} is `{found}`, and this edgedyno reads `{known}`")]
    Newer {
        path: PathBuf,
        found: String,
        known: &'static str,
    },
    #[error("no case `{0}`")]
    NoSuchCase(String),
    #[error("no axis `{wanted}`")]
    NoSuchAxis { wanted: String, near: Vec<String> },
    #[error("`{wanted}` names {} cases", keys.len())]
    SeveralCases { wanted: String, keys: Vec<String> },
    #[error("the run has {} cases and this needs one", .0.len())]
    NeedsOneCase(Vec<String>),
    #[error("the run has no cases")]
    NoCases,
}

impl SourceError {
    pub fn class(&self) -> ErrorClass {
        match self {
            Self::Store(error) => error.class(),
            Self::Newer { .. } => ErrorClass::Incompatible,
            _ => ErrorClass::Argument,
        }
    }

    /// What to do next.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Store(error) => error.hint(),
            Self::Newer { .. } => {
                Some("read it with the version that wrote it, or a later one".into())
            }
            Self::NotAProfile { .. } => {
                Some("`edgedyno export RUN --format profile` writes one".into())
            }
            Self::NoSuchCase(_) => Some("`edgedyno summary RUN` lists the cases of a run".into()),
            Self::NoSuchAxis { near, .. } => Some(format!("axes are {}", near.join(", "))),
            Self::SeveralCases { keys, .. } | Self::NeedsOneCase(keys) => {
                Some(format!("name one with --case: {}", keys.join(", ")))
            }
            Self::Unreadable { .. } | Self::NoCases => None,
        }
    }
}
