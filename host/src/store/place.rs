//! Where the store is: named, or the nearest `.edgedyno` upward.

use std::path::{Path, PathBuf};

use super::{Result, Store, StoreError};

/// The folder that holds a store.
pub const FOLDER: &str = ".edgedyno";

/// The database inside it.
pub(super) const FILE: &str = "store.db";

impl Store {
    /// The folder of the store to read: `explicit` (`--store`, `EDGEDYNO_STORE`), else the nearest
    /// `.edgedyno` with a store from `cwd` upward. Creates nothing.
    ///
    /// # Errors
    /// When `explicit` holds no store.
    pub fn find(explicit: Option<&Path>, cwd: &Path) -> Result<Option<PathBuf>> {
        let holds_store = |dir: &Path| dir.join(FILE).is_file();
        match explicit {
            Some(dir) if holds_store(dir) => Ok(Some(dir.to_owned())),
            Some(dir) => Err(StoreError::NotReadable {
                dir: dir.to_owned(),
                why: format!("it holds no {FILE}"),
            }),
            None => Ok(cwd
                .ancestors()
                .map(|above| above.join(FOLDER))
                .find(|dir| holds_store(dir))),
        }
    }

    /// The folder to write to: `explicit` whether it exists or not, else the nearest store upward,
    /// else `.edgedyno` in `cwd`. Opening it for writing creates it.
    pub fn find_or_new(explicit: Option<&Path>, cwd: &Path) -> PathBuf {
        match explicit {
            Some(dir) => dir.to_owned(),
            None => Self::find(None, cwd)
                .ok()
                .flatten()
                .unwrap_or_else(|| cwd.join(FOLDER)),
        }
    }
}
