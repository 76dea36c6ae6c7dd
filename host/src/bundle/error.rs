//! What can be wrong with a bundle.

use std::io;
use std::path::PathBuf;

use crate::source::SourceError;
use crate::store::StoreError;

/// A bundle that could not be made or taken in.
#[derive(Debug, thiserror::Error)]
pub enum BundleError {
    #[error("{path} cannot be read")]
    Unreadable { path: PathBuf, source: io::Error },
    #[error("{path} cannot be written")]
    NotWritable { path: PathBuf, source: io::Error },
    /// It is no bundle, or not the one that was made.
    #[error("{path} is no sound bundle: {why}")]
    Unsound { path: PathBuf, why: String },
    #[error("{path} is `{found}`, and this edgedyno reads {known}")]
    Newer {
        path: PathBuf,
        found: String,
        known: String,
    },
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error(transparent)]
    Source(#[from] SourceError),
}

impl BundleError {
    /// What to do next.
    pub fn hint(&self) -> Option<String> {
        let hint = match self {
            Self::Unsound { .. } => {
                Some("nothing of it was kept; fetch it again from where it was made")
            }
            Self::Newer { .. } => Some("read it with the version that wrote it, or a later one"),
            Self::NotWritable { .. } => Some("choose another place with --bundle FILE"),
            Self::Unreadable { .. } | Self::Store(_) | Self::Source(_) => None,
        };
        hint.map(str::to_owned)
    }
}
