//! What can go wrong with a store: what, where, why, and what to do next.

use std::path::{Path, PathBuf};

use rusqlite::ErrorCode;

/// A store that could not be found, opened, read or written.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    #[error("no store: there is no `.edgedyno` in {0} or above")]
    NotFound(PathBuf),
    #[error("store {dir} has layout {found}, and this edgedyno knows layouts up to {known}")]
    Newer {
        dir: PathBuf,
        found: i64,
        known: i64,
    },
    #[error("store {dir} cannot be written: {why}")]
    NotWritable { dir: PathBuf, why: String },
    #[error("store {dir} cannot be read: {why}")]
    NotReadable { dir: PathBuf, why: String },
    #[error(
        "store {dir} cannot be read: no room beside it for SQLite's index of what was written last ({free} bytes are free, {needed} are needed)"
    )]
    NoRoomToRead {
        dir: PathBuf,
        free: u64,
        needed: u64,
    },
    #[error("no room left to {doing} in store {dir}")]
    Full { dir: PathBuf, doing: &'static str },
    #[error("store {0} is being written by another process for too long")]
    Busy(PathBuf),
    #[error("store {dir} is damaged: {why}")]
    Damaged { dir: PathBuf, why: String },
    #[error("could not {doing} in store {dir}: {source}")]
    Sql {
        dir: PathBuf,
        doing: &'static str,
        source: rusqlite::Error,
    },
    #[error("no run `{wanted}`")]
    NoSuchRun { wanted: String, near: Vec<String> },
    #[error("`{wanted}` names {} runs: {}", candidates.len(), candidates.join(", "))]
    AmbiguousRun {
        wanted: String,
        candidates: Vec<String>,
    },
    #[error("run {run} has no case {case}")]
    NoSuchCase { run: String, case: String },
    #[error("the question has no answer: {0}")]
    Question(String),
    /// What came from another store or a file is no run.
    #[error("what came is no run that can be kept: {0}")]
    Foreign(String),
    #[error("`{0}` cannot be a tag")]
    BadTag(String),
    /// What arrived is not a repeat of this store.
    #[error("segment of {key} is not usable: {why}")]
    Segment { key: String, why: String },
}

/// What an error means for the exit code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ErrorClass {
    /// Something named or asked for is not there or not possible.
    Argument,
    /// The store was made by a newer version.
    Incompatible,
    Unexpected,
}

impl StoreError {
    pub fn class(&self) -> ErrorClass {
        match self {
            Self::NotFound(_)
            | Self::NotWritable { .. }
            | Self::NotReadable { .. }
            | Self::NoRoomToRead { .. }
            | Self::NoSuchRun { .. }
            | Self::AmbiguousRun { .. }
            | Self::NoSuchCase { .. }
            | Self::Question(_)
            | Self::Foreign(_)
            | Self::BadTag(_) => ErrorClass::Argument,
            Self::Newer { .. } => ErrorClass::Incompatible,
            Self::Full { .. }
            | Self::Busy(_)
            | Self::Damaged { .. }
            | Self::Sql { .. }
            | Self::Segment { .. } => ErrorClass::Unexpected,
        }
    }

    /// What to do next.
    pub fn hint(&self) -> Option<String> {
        let text = match self {
            Self::NotFound(_) => "measure something first, or name a store with --store DIR",
            Self::Newer { .. } => "read it with the version that wrote it, or a later one",
            Self::NotWritable { .. } => "choose another place with --store DIR",
            Self::NotReadable { .. } => "check its permissions, or name another with --store DIR",
            Self::NoRoomToRead { .. } => {
                "make room on that disk, or copy the folder to another and name it with --store DIR"
            }
            Self::Full { .. } => {
                "make room and go on with --resume: what is stored stays, the board keeps the rest"
            }
            Self::Busy(_) => "wait for the other edgedyno to end, or use another --store DIR",
            Self::Damaged { .. } => "copy the folder away before anything else touches it",
            Self::NoSuchRun { near, .. } if !near.is_empty() => {
                return Some(format!("did you mean {}?", near.join(" or ")));
            }
            Self::NoSuchRun { .. } => "`edgedyno runs list` shows the runs of this store",
            Self::AmbiguousRun { .. } => "give more of the run's id",
            Self::Question(_) => "docs/query.md describes the views and their columns",
            Self::BadTag(_) => "use letters, digits, `-`, `_` and `.`; `last` is taken",
            Self::Foreign(_) => "nothing of it was kept; fetch it again from where it was made",
            Self::Sql { .. } | Self::NoSuchCase { .. } | Self::Segment { .. } => return None,
        };
        Some(text.into())
    }

    /// What SQLite reported while `doing` something in the store at `dir`.
    pub(super) fn sql(dir: &Path, doing: &'static str, source: rusqlite::Error) -> Self {
        let dir = dir.to_owned();
        let why = source.to_string();
        match source.sqlite_error_code() {
            Some(ErrorCode::DiskFull) => Self::Full { dir, doing },
            Some(ErrorCode::ReadOnly | ErrorCode::PermissionDenied) => {
                Self::NotWritable { dir, why }
            }
            Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => Self::Busy(dir),
            Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => {
                Self::Damaged { dir, why }
            }
            _ => Self::Sql { dir, doing, source },
        }
    }
}
