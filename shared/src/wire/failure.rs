//! How a failure crosses: a code to act on, a detail to read, a hint to follow.

use std::fmt;

use serde::{Deserialize, Serialize};

/// What went wrong, in a form that a program can branch on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[error("{detail}")]
pub struct Failure {
    pub code: FailureCode,
    pub detail: String,
    pub hint: Option<String>,
}

impl Failure {
    pub fn new(code: FailureCode, detail: impl Into<String>) -> Self {
        Self {
            code,
            detail: detail.into(),
            hint: None,
        }
    }

    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum FailureCode {
    /// The model could not be read or is not one that the backend knows.
    ModelUnreadable,
    /// The backend has no implementation of an operator of the model.
    UnsupportedOperator,
    LoadFailed,
    /// The vendor's library could not be opened.
    RuntimeUnavailable,
    /// An input does not exist, or its rank, dtype or shape does not fit.
    InputInvalid,
    /// Dimensions without a value are left.
    UnresolvedDims,
    /// The backend does not know an option, or refuses its value.
    OptionRefused,
    BackendError,
    OutOfMemory,
    /// Ended by a signal of its own doing (segmentation fault, abort).
    Crash,
    /// Ended by SIGKILL from outside; who sent it is not known.
    Killed,
    /// A stage took longer than its limit.
    Hang,
    /// The worker left by itself before it was done.
    Exit,
    /// The worker cannot be killed: it hangs inside the kernel.
    Wedged,
    /// The agent was restarted while the repeat ran.
    AgentRestarted,
    /// The worker is not the program that the agent was built with.
    BuildMismatch,
    SpawnFailed,
    Cancelled,
    /// Another agent or tool measures at this moment.
    Busy,
    NotPermitted,
    /// Not known to the agent: a hash, a run, a backend.
    NotFound,
    /// Built without it, or not built yet.
    Unsupported,
    /// The agent has no room for more.
    Backpressured,
    StorageFull,
    /// A frame or request that makes no sense.
    Protocol,
    Internal,
    /// The board is another host's to measure on, or nobody's.
    LeaseLost,
    /// A part of a finished repeat was damaged on the board's disk.
    SpoolDamaged,
    /// A stressor could not be started, or ended before it was told to.
    StressorFailed,
    /// The board is too hot, or lacks the memory or the room, for the load asked for.
    LoadRefused,
    /// Another model that was to run beside the case could not.
    TenantFailed,
}

impl FailureCode {
    pub const fn name(self) -> &'static str {
        match self {
            Self::ModelUnreadable => "model_unreadable",
            Self::UnsupportedOperator => "unsupported_operator",
            Self::LoadFailed => "load_failed",
            Self::RuntimeUnavailable => "runtime_unavailable",
            Self::InputInvalid => "input_invalid",
            Self::UnresolvedDims => "unresolved_dims",
            Self::OptionRefused => "option_refused",
            Self::BackendError => "backend_error",
            Self::OutOfMemory => "out_of_memory",
            Self::Crash => "crash",
            Self::Killed => "killed",
            Self::Hang => "hang",
            Self::Exit => "exit",
            Self::Wedged => "wedged",
            Self::AgentRestarted => "agent_restarted",
            Self::BuildMismatch => "build_mismatch",
            Self::SpawnFailed => "spawn_failed",
            Self::Cancelled => "cancelled",
            Self::Busy => "busy",
            Self::NotPermitted => "not_permitted",
            Self::NotFound => "not_found",
            Self::Unsupported => "unsupported",
            Self::Backpressured => "backpressured",
            Self::StorageFull => "storage_full",
            Self::Protocol => "protocol",
            Self::Internal => "internal",
            Self::LeaseLost => "lease_lost",
            Self::SpoolDamaged => "spool_damaged",
            Self::StressorFailed => "stressor_failed",
            Self::LoadRefused => "load_refused",
            Self::TenantFailed => "tenant_failed",
        }
    }
}

impl fmt::Display for FailureCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
