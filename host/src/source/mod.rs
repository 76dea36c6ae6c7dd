//! Where a reading command reads from: a run in a store, or profile files. Both answer alike.

mod error;
mod profile;
mod select;

#[cfg(test)]
mod tests;

use std::path::Path;

use edgedyno_shared::ids::{RunId, Sha256};

use crate::store::rows::{ArtifactRow, CaseEntry, DeviceRow, RunRow, SamplesRow};
use crate::store::{Columns, RepeatRow, Store, StoreError};
use crate::view::{CaseView, RunView};

pub use error::SourceError;
pub use profile::{DOCUMENT, INDEX, Profile, load_profile};
pub(crate) use profile::{
    FILE as PROFILE_FILE, INDEX_DOCUMENT as PROFILE_INDEX_DOCUMENT, Index, IndexEntry,
};
pub use select::{Pick, describe, matching, one};

/// One run to read.
#[derive(Debug)]
pub enum Source {
    Stored {
        store: Store,
        run: RunId,
    },
    /// Profiles of cases of one run, at least one.
    Profiles(Vec<Profile>),
}

/// A source, and which of its cases was asked for with it (`RUN/KEY`).
#[derive(Debug)]
pub struct Opened {
    pub source: Source,
    pub key: Option<String>,
}

impl Source {
    /// What `name` means: a profile file, a folder of an exported profile, else `RUN` or `RUN/KEY`.
    pub fn open(name: &str, store: Option<&Path>, cwd: &Path) -> Result<Opened, SourceError> {
        if let Some(profiles) = profile::load_any(&cwd.join(name))? {
            let source = Self::Profiles(profiles);
            return Ok(Opened { source, key: None });
        }
        let (run, key) = match name.split_once('/') {
            Some((run, key)) if !key.is_empty() => (run, Some(key.to_owned())),
            _ => (name.trim_end_matches('/'), None),
        };
        let dir = Store::find(store, cwd)?.ok_or_else(|| StoreError::NotFound(cwd.to_owned()))?;
        let store = Store::open_reading(&dir)?;
        let run = store.resolve(run)?;
        let source = Self::Stored { store, run };
        Ok(Opened { source, key })
    }

    pub fn run(&self) -> Result<RunRow, SourceError> {
        match self {
            Self::Stored { store, run } => Ok(store.run(run)?),
            Self::Profiles(profiles) => Ok(profiles[0].run.clone()),
        }
    }

    /// Cases in the order they were planned.
    pub fn cases(&self) -> Result<Vec<CaseEntry>, SourceError> {
        match self {
            Self::Stored { store, run } => Ok(store.cases(run)?),
            Self::Profiles(profiles) => Ok(profiles.iter().map(|p| p.entry.clone()).collect()),
        }
    }

    pub fn devices(&self) -> Result<Vec<(String, DeviceRow)>, SourceError> {
        match self {
            Self::Stored { store, run } => Ok(store.devices(run)?),
            Self::Profiles(profiles) => {
                let named = |p: &Profile| Some((p.entry.case.board.clone(), p.device.clone()?));
                let mut devices: Vec<_> = profiles.iter().filter_map(named).collect();
                devices.dedup_by(|a, b| a.0 == b.0);
                Ok(devices)
            }
        }
    }

    pub fn view(&self, case: Sha256) -> Result<CaseView, SourceError> {
        match self {
            Self::Stored { store, run } => Ok(CaseView::read(store, run, case)?),
            Self::Profiles(_) => Ok(self.profile(case)?.view()),
        }
    }

    /// Several cases one after the other; what they share is read once.
    pub fn views<'a>(
        &'a self,
        cases: &'a [CaseEntry],
    ) -> Result<Box<dyn Iterator<Item = Result<CaseView, SourceError>> + 'a>, SourceError> {
        match self {
            Self::Stored { store, run } => {
                let shared = RunView::read(store, run)?;
                let view = move |case| Ok(shared.case(store, case)?);
                Ok(Box::new(cases.iter().map(view)))
            }
            Self::Profiles(_) => Ok(Box::new(cases.iter().map(|case| self.view(case.key)))),
        }
    }

    /// Lanes that a repeat has trials of.
    pub fn lanes(&self, repeat: &RepeatRow) -> Result<Vec<u16>, SourceError> {
        match self {
            Self::Stored { store, .. } => Ok(store.lanes(repeat)?),
            Self::Profiles(_) => Ok(self.profile(repeat.key.case)?.lanes(repeat)),
        }
    }

    /// Trials of one lane, decoded.
    pub fn columns(&self, repeat: &RepeatRow, lane: u16) -> Result<Columns, SourceError> {
        match self {
            Self::Stored { store, .. } => Ok(store.columns(repeat, lane)?),
            Self::Profiles(_) => Ok(self.profile(repeat.key.case)?.columns(repeat, lane)),
        }
    }

    /// The same a stretch at a time, so that a long repeat is never held whole.
    pub fn each_chunk(
        &self,
        repeat: &RepeatRow,
        lane: u16,
        mut look: impl FnMut(&[Vec<i64>]),
    ) -> Result<(), SourceError> {
        match self {
            Self::Stored { store, .. } => Ok(store.each_chunk(repeat, lane, look)?),
            Self::Profiles(_) => {
                look(&self.columns(repeat, lane)?.cells);
                Ok(())
            }
        }
    }

    /// Telemetry of one channel.
    pub fn samples(&self, repeat: &RepeatRow, channel: u16) -> Result<SamplesRow, SourceError> {
        match self {
            Self::Stored { store, .. } => Ok(store.samples(repeat, channel)?),
            Self::Profiles(_) => Ok(self.profile(repeat.key.case)?.samples(repeat, channel)),
        }
    }

    /// Bytes of an artifact; none when they were damaged, and in a profile, which holds no files.
    pub fn content(&self, artifact: &ArtifactRow) -> Result<Option<Vec<u8>>, SourceError> {
        match self {
            Self::Stored { store, .. } => Ok(store.content(artifact)?),
            Self::Profiles(_) => Ok(None),
        }
    }

    fn profile(&self, case: Sha256) -> Result<&Profile, SourceError> {
        let profiles: &[Profile] = match self {
            Self::Stored { .. } => &[],
            Self::Profiles(profiles) => profiles,
        };
        let found = profiles.iter().find(|profile| profile.entry.key == case);
        found.ok_or_else(|| SourceError::NoSuchCase(case.to_string()))
    }
}
