//! Profile files: one case of one run with all its repeats, complete in itself.

use std::convert::Infallible;
use std::fs::File;
use std::io::BufReader;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::soak::{self, Soak};
use crate::store::rows::{CaseEntry, DeviceRow, FindingRow, RunRow, SamplesRow};
use crate::store::{Columns, RepeatRow};
use crate::summary::{case_json, summarise};
use crate::telemetry;
use crate::telemetry::emc::EmcScale;
use crate::view::{self, CaseView, MemoryCeiling, RepeatView, Trials, measured_spans};

use super::{Source, SourceError};

/// Names the form of the document; a later form has another number.
pub const DOCUMENT: &str = "edgedyno/profile/1";

/// Lists the profiles of a folder.
pub const INDEX: &str = "index.json";

/// The profile of a folder that holds one.
pub(crate) const FILE: &str = "profile.json";

/// One case of one run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Profile {
    pub document: String,
    pub run: RunRow,
    pub entry: CaseEntry,
    pub device: Option<DeviceRow>,
    pub notes: Vec<FindingRow>,
    #[serde(default)]
    pub memory_ceiling: Option<MemoryCeiling>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub emc_scale: Option<EmcScale>,
    pub repeats: Vec<ProfileRepeat>,
    /// What `summary` says of it, for readers that have no edgedyno; never read back.
    pub summary: serde_json::Value,
}

/// One attempt of a repeat with its trials and telemetry.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ProfileRepeat {
    pub row: RepeatRow,
    pub lanes: Vec<Lane>,
    pub telemetry: Vec<Telemetry>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lane {
    pub lane: u16,
    pub trials: Columns,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Telemetry {
    pub channel: u16,
    pub samples: SamplesRow,
}

/// The list of profiles in a folder.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Index {
    pub(crate) document: String,
    pub(crate) profiles: Vec<IndexEntry>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct IndexEntry {
    pub(crate) case: String,
    pub(crate) file: String,
}

/// Names the form of the index.
pub(crate) const INDEX_DOCUMENT: &str = "edgedyno/profile-index/1";

impl Profile {
    pub fn of(source: &Source, entry: &CaseEntry) -> Result<Self, SourceError> {
        let view = source.view(entry.key)?;
        let repeat = |repeat: &RepeatView| ProfileRepeat::of(source, repeat.row.clone());
        Ok(Self {
            document: DOCUMENT.into(),
            repeats: view.repeats.iter().map(repeat).collect::<Result<_, _>>()?,
            summary: case_json(&summarise(&view)),
            run: Arc::unwrap_or_clone(view.run),
            entry: view.entry,
            device: view.device,
            notes: view.notes,
            memory_ceiling: view.memory_ceiling,
            emc_scale: view.emc_scale,
        })
    }

    /// The same view as from the store.
    pub fn view(&self) -> CaseView {
        let repeat = |repeat: &ProfileRepeat| {
            let mut trials = Trials::default();
            let first = repeat.lanes.iter().find(|lane| lane.lane == 0);
            first
                .iter()
                .for_each(|lane| trials.take(&lane.trials.cells));
            let Ok(beside) = view::beside(&repeat.row, &trials, |lane, take| {
                let lanes = repeat.lanes.iter().filter(|found| found.lane == lane);
                lanes.for_each(|found| take(&found.trials.cells));
                Ok::<_, Infallible>(())
            });
            let samples = |channel| Ok::<_, Infallible>(self.samples(&repeat.row, channel));
            let Ok((telemetry, moments)) = telemetry::of_repeat(&repeat.row, &trials, samples);
            RepeatView {
                soak: self.soak(repeat),
                row: repeat.row.clone(),
                trials,
                beside,
                telemetry,
                moments,
            }
        };
        CaseView {
            run: Arc::new(self.run.clone()),
            entry: self.entry.clone(),
            device: self.device.clone(),
            repeats: self.repeats.iter().map(repeat).collect(),
            notes: self.notes.clone(),
            memory_ceiling: self.memory_ceiling.clone(),
            emc_scale: self.emc_scale.clone(),
        }
    }

    fn soak(&self, repeat: &ProfileRepeat) -> Option<Soak> {
        if !(self.entry.rules.is_soak() && repeat.row.counts) {
            return None;
        }
        let mut spans = Vec::new();
        let lane = repeat.lanes.iter().find(|lane| lane.lane == 0)?;
        measured_spans(&lane.trials.cells, &mut spans);
        let channels = repeat.row.channels.iter();
        let channels = channels.map(|c| (c.clone(), self.samples(&repeat.row, c.id)));
        soak::of(&spans, &channels.collect::<Vec<_>>())
    }

    pub(super) fn lanes(&self, repeat: &RepeatRow) -> Vec<u16> {
        let found = self.repeat(repeat);
        found.map_or_else(Vec::new, |r| r.lanes.iter().map(|lane| lane.lane).collect())
    }

    pub(super) fn columns(&self, repeat: &RepeatRow, lane: u16) -> Columns {
        let lanes = self.repeat(repeat).map(|r| &r.lanes);
        let found = lanes.and_then(|lanes| lanes.iter().find(|l| l.lane == lane));
        found.map_or_else(Columns::default, |l| l.trials.clone())
    }

    pub(super) fn samples(&self, repeat: &RepeatRow, channel: u16) -> SamplesRow {
        let telemetry = self.repeat(repeat).map(|r| &r.telemetry);
        let found = telemetry.and_then(|all| all.iter().find(|t| t.channel == channel));
        found.map_or_else(SamplesRow::default, |t| t.samples.clone())
    }

    fn repeat(&self, row: &RepeatRow) -> Option<&ProfileRepeat> {
        self.repeats.iter().find(|repeat| repeat.row.key == row.key)
    }
}

impl ProfileRepeat {
    fn of(source: &Source, row: RepeatRow) -> Result<Self, SourceError> {
        let mut lanes = Vec::new();
        for lane in source.lanes(&row)? {
            let trials = source.columns(&row, lane)?;
            lanes.push(Lane { lane, trials });
        }
        let mut telemetry = Vec::new();
        for channel in row.channels.iter().map(|channel| channel.id) {
            let samples = source.samples(&row, channel)?;
            telemetry.push(Telemetry { channel, samples });
        }
        Ok(Self {
            row,
            lanes,
            telemetry,
        })
    }
}

/// Reads one profile file.
pub fn load_profile(path: &Path) -> Result<Profile, SourceError> {
    // The form is looked at first, so that a later one is not blamed for what it holds.
    #[derive(Deserialize)]
    struct Head {
        document: String,
    }
    let head: Head = read(path)?;
    check_form(path, head.document, DOCUMENT)?;
    read(path)
}

/// Profiles at a path: a file, or a folder with `profile.json` or `index.json`; none when the path is
/// nothing of the kind.
pub(super) fn load_any(path: &Path) -> Result<Option<Vec<Profile>>, SourceError> {
    if path.is_file() {
        return if path.file_name().is_some_and(|name| name == INDEX) {
            load_index(path).map(Some)
        } else {
            Ok(Some(vec![load_profile(path)?]))
        };
    }
    let (one, several) = (path.join(FILE), path.join(INDEX));
    if one.is_file() {
        return Ok(Some(vec![load_profile(&one)?]));
    }
    if several.is_file() {
        return load_index(&several).map(Some);
    }
    match path.extension().is_some_and(|ending| ending == "json") {
        true => Err(unreadable(path, std::io::ErrorKind::NotFound.into())),
        false => Ok(None),
    }
}

fn load_index(path: &Path) -> Result<Vec<Profile>, SourceError> {
    let index: Index = read(path)?;
    check_form(path, index.document, INDEX_DOCUMENT)?;
    let folder = path.parent().unwrap_or(Path::new(""));
    let load = |entry: &IndexEntry| load_profile(&folder.join(&entry.file));
    let profiles: Vec<Profile> = index.profiles.iter().map(load).collect::<Result<_, _>>()?;
    match profiles.is_empty() {
        true => Err(SourceError::NoCases),
        false => Ok(profiles),
    }
}

fn check_form(path: &Path, found: String, known: &'static str) -> Result<(), SourceError> {
    let path: PathBuf = path.to_owned();
    let kind = |form: &str| form.rsplit_once('/').map(|(kind, _)| kind.to_owned());
    if found == known {
        return Ok(());
    }
    if kind(&found) == kind(known) {
        return Err(SourceError::Newer { path, found, known });
    }
    let source = serde::de::Error::custom(format!("its document is `{found}`"));
    Err(SourceError::NotAProfile { path, source })
}

fn read<T: serde::de::DeserializeOwned>(path: &Path) -> Result<T, SourceError> {
    let file = File::open(path).map_err(|source| unreadable(path, source))?;
    serde_json::from_reader(BufReader::new(file)).map_err(|source| match source.is_io() {
        true => unreadable(path, source.into()),
        false => SourceError::NotAProfile {
            path: path.to_owned(),
            source,
        },
    })
}

fn unreadable(path: &Path, source: std::io::Error) -> SourceError {
    SourceError::Unreadable {
        path: path.to_owned(),
        source,
    }
}
