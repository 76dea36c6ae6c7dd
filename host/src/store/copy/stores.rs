//! All runs of one store into another.

use super::{Merged, Origin};
use crate::store::{Result, Store};
use edgedyno_shared::ids::RunId;

/// What came of it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct StoresMerged {
    /// One for each run, the oldest first.
    pub runs: Vec<Merged>,
    /// Calibrations, and what was learned of memory controllers, that were new or later.
    pub calibrations: u64,
}

impl StoresMerged {
    pub fn conflicts(&self) -> impl Iterator<Item = &str> {
        let all = self.runs.iter().flat_map(|run| &run.conflicts);
        all.map(String::as_str)
    }
}

/// Takes runs of `from` into `into`, each in one transaction; all of them without `only`. `begun` is told of each.
///
/// Merging is idempotent, and in whichever order stores are merged they come to hold the same, but for what has
/// the same name and another content: there each keeps its own, and is told.
pub fn merge_stores(
    from: &Store,
    into: &Store,
    only: Option<&[RunId]>,
    now_unix_ns: i64,
    mut begun: impl FnMut(&RunId),
) -> Result<StoresMerged> {
    let mut done = StoresMerged::default();
    for run in from.runs()?.into_iter().rev().map(|run| run.id) {
        if only.is_some_and(|only| !only.contains(&run)) {
            continue;
        }
        begun(&run);
        done.runs.push(merge_run(from, into, &run, now_unix_ns)?);
    }
    if only.is_none() {
        let stressors = into.merge_calibrations(&from.all_calibrations()?)?;
        done.calibrations = stressors + into.put_emc_scales(&from.all_emc_scales()?)?;
    }
    Ok(done)
}

fn merge_run(from: &Store, into: &Store, run: &RunId, now_unix_ns: i64) -> Result<Merged> {
    let copied = from.copy_out(run)?;
    // What a run lacks goes on with it, and where it was measured as well.
    let earlier = from.origin(run)?;
    let is_whole = earlier.as_ref().is_none_or(|origin| !origin.lacks_texts());
    let mut merge = into.merge(&copied.head()?, is_whole)?;
    for cases in copied.cases()? {
        merge.cases(&cases)?;
    }
    for id in copied.repeats()? {
        merge.repeat(&copied.repeat(id)?)?;
    }
    for (sha256, _) in copied.contents()? {
        if merge.wants(&sha256)? {
            merge.content(&sha256, &copied.content(&sha256)?)?;
        }
    }
    let origin = match earlier {
        Some(earlier) => earlier,
        None => Origin {
            source: from.dir().display().to_string(),
            store: from.id().to_string(),
            sha256: None,
            left_out: Vec::new(),
            tool_version: env!("CARGO_PKG_VERSION").into(),
            imported_unix_ns: now_unix_ns,
        },
    };
    // A run that comes back to where it was measured was not taken in from anywhere.
    let comes_home = origin.store == into.id().to_string();
    merge.finish(&origin, !comes_home)
}
