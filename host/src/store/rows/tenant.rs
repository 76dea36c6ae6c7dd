//! Another model beside a case: what was asked for, and what became of it.

use std::collections::BTreeMap;

use edgedyno_shared::case::{ModelRef, RuntimeRef, Tenant};
use edgedyno_shared::load::TenantUsed;
use serde::{Deserialize, Serialize};

use super::case::{ModelRefRow, RuntimeRefRow};
use super::common::{FailureRow, StageName};
use super::record::{EffectiveRow, MemoryRow, PlacementRow, RuntimeRow, StageRow};

/// A model that a condition names, as it was resolved.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TenantRefRow {
    pub model: ModelRefRow,
    pub backend: String,
    pub runtime: Option<RuntimeRefRow>,
    pub options: BTreeMap<String, String>,
    pub threads: u32,
    pub cpus: Vec<u16>,
    /// Trials a second asked for, in thousandths; none where one follows the other.
    pub millihertz: Option<u64>,
}

impl From<&Tenant> for TenantRefRow {
    fn from(tenant: &Tenant) -> Self {
        Self {
            model: ModelRefRow {
                name: tenant.model.name.clone(),
                sha256: tenant.model.sha256.into(),
            },
            backend: tenant.backend.clone(),
            runtime: tenant.runtime.as_ref().map(|r| RuntimeRefRow {
                version: r.version.clone(),
                sha256: r.sha256.into(),
            }),
            options: tenant.options.iter().cloned().collect(),
            threads: tenant.threads,
            cpus: tenant.cpus.clone(),
            millihertz: tenant.millihertz,
        }
    }
}

impl From<&TenantRefRow> for Tenant {
    fn from(row: &TenantRefRow) -> Self {
        Self {
            model: ModelRef {
                name: row.model.name.clone(),
                sha256: row.model.sha256.0,
            },
            backend: row.backend.clone(),
            runtime: row.runtime.as_ref().map(|r| RuntimeRef {
                version: r.version.clone(),
                sha256: r.sha256.0,
            }),
            options: row.options.clone().into_iter().collect(),
            threads: row.threads,
            cpus: row.cpus.clone(),
            millihertz: row.millihertz,
        }
    }
}

/// One tenant of a repeat. Its trials are those of its lane.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TenantRow {
    pub lane: u16,
    pub tenant: TenantRefRow,
    /// What was really loaded.
    pub runtime_used: Option<RuntimeRow>,
    pub stages: Vec<StageRow>,
    pub placements: Vec<PlacementRow>,
    pub memory: Vec<MemoryRow>,
    pub effective: Vec<EffectiveRow>,
    pub ready_ns: Option<i64>,
    pub started_ns: Option<i64>,
    pub stopped_ns: Option<i64>,
    /// Where in its life it failed; none where it did not.
    pub failed_stage: Option<StageName>,
    pub failure: Option<FailureRow>,
    /// How its process ended, in the kernel's words.
    pub exit: Option<String>,
    pub stderr: String,
}

impl From<&TenantUsed> for TenantRow {
    fn from(used: &TenantUsed) -> Self {
        Self {
            lane: used.lane,
            tenant: (&used.tenant).into(),
            runtime_used: used.runtime.as_ref().map(Into::into),
            stages: used.stages.iter().map(Into::into).collect(),
            placements: used.placements.iter().map(Into::into).collect(),
            memory: used.memory.iter().map(Into::into).collect(),
            effective: used.effective.iter().map(Into::into).collect(),
            ready_ns: used.ready.map(|at| at.0),
            started_ns: used.started.map(|at| at.0),
            stopped_ns: used.stopped.map(|at| at.0),
            failed_stage: used.failure.as_ref().map(|(stage, _)| (*stage).into()),
            failure: used.failure.as_ref().map(|(_, failure)| failure.into()),
            exit: used.exit.clone(),
            stderr: used.stderr.clone(),
        }
    }
}
