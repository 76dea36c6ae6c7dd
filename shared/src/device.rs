//! What an agent says of its board: facts, CPUs, backends and the runtimes found for them.

use serde::{Deserialize, Serialize};

use crate::ids::{BootId, BuildId, Sha256};
use crate::units::Bytes;

/// A value that may not be readable: unknown is never zero and never empty.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Reading {
    Ok(String),
    /// This board has no such thing.
    Absent(String),
    Denied(String),
    /// Another tool holds it.
    Busy(String),
    Stale(String),
    ParseError(String),
}

impl Reading {
    pub fn value(&self) -> Option<&str> {
        match self {
            Self::Ok(value) => Some(value),
            _ => None,
        }
    }

    /// The state's name, as stored and shown.
    pub fn state(&self) -> &'static str {
        match self {
            Self::Ok(_) => "ok",
            Self::Absent(_) => "absent",
            Self::Denied(_) => "denied",
            Self::Busy(_) => "busy",
            Self::Stale(_) => "stale",
            Self::ParseError(_) => "parse_error",
        }
    }

    /// Why there is no value.
    pub fn reason(&self) -> Option<&str> {
        match self {
            Self::Ok(_) => None,
            Self::Absent(why)
            | Self::Denied(why)
            | Self::Busy(why)
            | Self::Stale(why)
            | Self::ParseError(why) => Some(why),
        }
    }
}

/// One named fact of the board: `kernel_release`, `cpu_model`, `governor.policy0`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fact {
    pub name: String,
    pub value: Reading,
}

/// One CPU by its kernel number.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cpu {
    pub id: u16,
    /// None when the kernel does not say.
    pub online: Option<bool>,
    pub max_khz: Option<u64>,
}

/// Sent by the agent in answer to `Info`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeviceInfo {
    pub agent_version: String,
    pub build: BuildId,
    pub boot: BootId,
    pub os: String,
    pub arch: String,
    pub cpus: Vec<Cpu>,
    /// CPUs this agent may use itself.
    pub allowed_cpus: Vec<u16>,
    pub memory_total: Option<Bytes>,
    pub facts: Vec<Fact>,
    pub backends: Vec<BackendInfo>,
    pub readiness: Readiness,
}

/// What may keep a measurement from being made there, or its results from being kept, as it is now.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Readiness {
    /// What the agent may still write in its state folder; none when the file system does not tell.
    pub state_free: Option<Bytes>,
    /// The board's wall clock, in seconds since 1970.
    pub unix_seconds: Option<i64>,
    /// Of accelerators that are there.
    pub device_files: Vec<DeviceFile>,
}

/// A device file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeviceFile {
    pub path: String,
    /// Whether the user who measures may read and write it.
    pub usable: bool,
}

/// One backend of the agent's list.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BackendInfo {
    pub name: String,
    pub summary: String,
    /// Its results are not measurements of a model.
    pub simulated: bool,
    /// Needs no library.
    pub built_in: bool,
    /// File name endings it reads.
    pub formats: Vec<String>,
    /// Version of a built-in runtime.
    pub version: Option<String>,
    /// Libraries found, usable ones first in the order they would be chosen.
    pub runtimes: Vec<RuntimeFound>,
}

/// A library that was found, and what became of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RuntimeFound {
    pub path: String,
    /// Why this place was looked at.
    pub origin: String,
    pub verdict: RuntimeVerdict,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum RuntimeVerdict {
    Usable(RuntimeFacts),
    Refused {
        code: String,
        reason: String,
        hint: String,
    },
}

/// Identity of a usable library.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RuntimeFacts {
    pub version: String,
    /// None for what is part of the agent, whose build id names it.
    pub sha256: Option<Sha256>,
    pub build: Option<String>,
    /// The file's own build-id note, in hex.
    pub build_id: Option<String>,
    pub providers: Vec<String>,
}
