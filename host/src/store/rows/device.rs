//! A board as it described itself.

use edgedyno_shared::device::{
    BackendInfo, Cpu, DeviceInfo, RuntimeFacts, RuntimeFound, RuntimeVerdict,
};
use serde::{Deserialize, Serialize};

use super::common::{FactRow, HashRow};

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeviceRow {
    pub agent_version: String,
    pub build: String,
    /// One life of the agent, in hex.
    pub boot: String,
    pub os: String,
    pub arch: String,
    pub cpus: Vec<CpuRow>,
    pub allowed_cpus: Vec<u16>,
    pub memory_total_bytes: Option<u64>,
    pub facts: Vec<FactRow>,
    pub backends: Vec<BackendRow>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CpuRow {
    pub id: u16,
    pub online: Option<bool>,
    pub max_khz: Option<u64>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BackendRow {
    pub name: String,
    pub summary: String,
    pub simulated: bool,
    pub built_in: bool,
    pub formats: Vec<String>,
    pub version: Option<String>,
    pub runtimes: Vec<RuntimeFoundRow>,
}

/// A library that was found: with its version when usable, else with the code of its refusal.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RuntimeFoundRow {
    pub path: String,
    pub origin: String,
    pub version: Option<String>,
    pub sha256: Option<HashRow>,
    pub refused: Option<String>,
    pub reason: Option<String>,
}

impl From<&DeviceInfo> for DeviceRow {
    fn from(info: &DeviceInfo) -> Self {
        Self {
            agent_version: info.agent_version.clone(),
            build: info.build.0.clone(),
            boot: format!("{:016x}", info.boot.0),
            os: info.os.clone(),
            arch: info.arch.clone(),
            cpus: info.cpus.iter().map(Into::into).collect(),
            allowed_cpus: info.allowed_cpus.clone(),
            memory_total_bytes: info.memory_total.map(|b| b.0),
            facts: info.facts.iter().map(Into::into).collect(),
            backends: info.backends.iter().map(Into::into).collect(),
        }
    }
}

impl From<&Cpu> for CpuRow {
    fn from(cpu: &Cpu) -> Self {
        Self {
            id: cpu.id,
            online: cpu.online,
            max_khz: cpu.max_khz,
        }
    }
}

impl From<&BackendInfo> for BackendRow {
    fn from(info: &BackendInfo) -> Self {
        Self {
            name: info.name.clone(),
            summary: info.summary.clone(),
            simulated: info.simulated,
            built_in: info.built_in,
            formats: info.formats.clone(),
            version: info.version.clone(),
            runtimes: info.runtimes.iter().map(Into::into).collect(),
        }
    }
}

impl From<&RuntimeFound> for RuntimeFoundRow {
    fn from(found: &RuntimeFound) -> Self {
        let usable: Option<&RuntimeFacts> = match &found.verdict {
            RuntimeVerdict::Usable(facts) => Some(facts),
            RuntimeVerdict::Refused { .. } => None,
        };
        let refused = match &found.verdict {
            RuntimeVerdict::Usable(_) => None,
            RuntimeVerdict::Refused { code, reason, .. } => Some((code.clone(), reason.clone())),
        };
        let (code, reason) = refused.unzip();
        Self {
            path: found.path.clone(),
            origin: found.origin.clone(),
            version: usable.map(|f| f.version.clone()),
            sha256: usable.and_then(|f| f.sha256).map(HashRow::from),
            refused: code,
            reason,
        }
    }
}
