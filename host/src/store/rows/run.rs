//! Runs and how they and their repeats stand.

use std::fmt;

use edgedyno_shared::ids::{RunId, Sha256};
use serde::{Deserialize, Serialize};

use super::case::{CaseRow, RulesRow};

/// One run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RunRow {
    pub id: RunId,
    pub created_unix_ns: i64,
    pub command: String,
    pub argv: Vec<String>,
    pub plan: serde_json::Value,
    pub tool_version: String,
    pub status: RunStatus,
    pub tags: Vec<String>,
}

/// A case of a run, with both of its keys.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CaseEntry {
    #[serde(with = "hex")]
    pub key: Sha256,
    #[serde(with = "hex")]
    pub match_key: Sha256,
    pub case: CaseRow,
    pub rules: RulesRow,
}

/// How a run stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RunStatus {
    /// Begun and not ended; after a crash it stays so.
    Running,
    /// Everything planned has a row, failures included.
    Complete,
    /// Ended by its user before everything was measured.
    Interrupted,
    /// Ended because a board or the tool failed.
    Failed,
}

/// How a stored repeat ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OutcomeKind {
    Complete,
    /// Stopped by its user; its finished trials are kept.
    Cancelled,
    Failed,
    /// Written by an agent of another wire schema: its trials are kept, how it ended is not known.
    Raw,
}

impl RunStatus {
    pub const fn name(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Complete => "complete",
            Self::Interrupted => "interrupted",
            Self::Failed => "failed",
        }
    }

    pub(in crate::store) fn from_name(name: &str) -> Option<Self> {
        [
            Self::Running,
            Self::Complete,
            Self::Interrupted,
            Self::Failed,
        ]
        .into_iter()
        .find(|status| status.name() == name)
    }
}

impl OutcomeKind {
    pub const fn name(self) -> &'static str {
        match self {
            Self::Complete => "complete",
            Self::Cancelled => "cancelled",
            Self::Failed => "failed",
            Self::Raw => "raw",
        }
    }

    pub(in crate::store) fn from_name(name: &str) -> Option<Self> {
        [Self::Complete, Self::Cancelled, Self::Failed, Self::Raw]
            .into_iter()
            .find(|outcome| outcome.name() == name)
    }
}

impl fmt::Display for RunStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl fmt::Display for OutcomeKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A finding as stored: one that only its maker could know.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct FindingRow {
    pub code: String,
    pub level: String,
    pub repeat: Option<u32>,
    pub text: String,
    pub figures: serde_json::Map<String, serde_json::Value>,
}

/// Keys as hex text.
mod hex {
    use edgedyno_shared::ids::Sha256;
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    use super::super::common::HashRow;

    pub(super) fn serialize<S: Serializer>(key: &Sha256, to: S) -> Result<S::Ok, S::Error> {
        HashRow(*key).serialize(to)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Sha256, D::Error> {
        HashRow::deserialize(from).map(|hash| hash.0)
    }
}
