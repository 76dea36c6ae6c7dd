//! What a repeat tells about itself beside its trials: stages, model, placement, memory, outcome.

use serde::{Deserialize, Serialize};

use crate::device::{Fact, RuntimeFacts};
use crate::ids::{BuildId, Sha256};
use crate::units::{Bytes, Nanos};
use crate::wire::failure::Failure;

/// Where in a worker's life something happened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Stage {
    Spawn,
    /// Reading the model file.
    Read,
    /// Opening the vendor's library.
    Dlopen,
    Load,
    Compile,
    Bind,
    Cold,
    Warmup,
    Measure,
    Teardown,
}

impl Stage {
    pub const ALL: [Self; 10] = [
        Self::Spawn,
        Self::Read,
        Self::Dlopen,
        Self::Load,
        Self::Compile,
        Self::Bind,
        Self::Cold,
        Self::Warmup,
        Self::Measure,
        Self::Teardown,
    ];

    pub const fn name(self) -> &'static str {
        match self {
            Self::Spawn => "spawn",
            Self::Read => "read",
            Self::Dlopen => "dlopen",
            Self::Load => "load",
            Self::Compile => "compile",
            Self::Bind => "bind",
            Self::Cold => "cold",
            Self::Warmup => "warmup",
            Self::Measure => "measure",
            Self::Teardown => "teardown",
        }
    }
}

/// A stage that ended, by the board's monotonic clock.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StageSpan {
    pub stage: Stage,
    pub start: Nanos,
    pub end: Nanos,
}

/// One input or output as the runtime describes it and as it is run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TensorInfo {
    pub name: String,
    pub dtype: String,
    /// Dimensions of the model.
    pub declared: Vec<Dim>,
    /// Dimensions of this repeat; none where only a run can tell.
    pub effective: Option<Vec<u64>>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Dim {
    Fixed(u64),
    Symbol(String),
    Unknown,
}

/// The loaded model.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ModelInfo {
    pub inputs: Vec<TensorInfo>,
    pub outputs: Vec<TensorInfo>,
    /// Facts in the runtime's own words (producer, opset, provider order).
    pub facts: Vec<Fact>,
}

/// The runtime that was really loaded.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RuntimeUsed {
    /// Path on the board; none for a built-in runtime.
    pub path: Option<String>,
    pub facts: RuntimeFacts,
}

/// Moments at which placement and memory are read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Moment {
    Spawned,
    Dlopened,
    Loaded,
    /// After the first cold trial, which may have started threads.
    AfterFirstTrial,
    /// After warm-up, before the window.
    BeforeWindow,
    AfterWindow,
}

impl Moment {
    pub const fn name(self) -> &'static str {
        match self {
            Self::Spawned => "spawned",
            Self::Dlopened => "dlopened",
            Self::Loaded => "loaded",
            Self::AfterFirstTrial => "after_first_trial",
            Self::BeforeWindow => "before_window",
            Self::AfterWindow => "after_window",
        }
    }
}

/// Threads of the worker and the CPUs each may use, read back from the kernel.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Placement {
    pub moment: Moment,
    /// CPUs every thread was told to use.
    pub wanted: Vec<u16>,
    pub threads: Vec<ThreadPlace>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ThreadPlace {
    pub tid: u32,
    /// The kernel's mask before it was set again.
    pub cpus: Vec<u16>,
    /// CPU time used since the thread began; none where the kernel does not say.
    pub cpu_time: Option<Nanos>,
}

/// Memory of the worker without the arena's pages.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Memory {
    pub moment: Moment,
    pub rss: Option<Bytes>,
    /// High-water mark of the resident set since the process began (VmHWM).
    pub rss_peak: Option<Bytes>,
    /// Arena pages, already taken off `rss` and `rss_peak`.
    pub arena: Bytes,
}

/// What a read-out of the loaded runtime says was really set.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Effective {
    pub name: String,
    pub requested: Option<String>,
    pub observed: Option<String>,
}

/// Something rare beside the columns.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TextEvent {
    pub lane: u16,
    /// The trial it belongs to, counted from the repeat's first slot.
    pub trial: Option<u64>,
    /// A short code, such as `trial_error` or `stderr_tail`.
    pub code: String,
    pub text: String,
}

/// One output tensor of the last trial, looked at once after the window.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OutputCheck {
    pub name: String,
    pub dtype: String,
    pub shape: Vec<u64>,
    pub sha256: Sha256,
    pub elements: u64,
    pub nonfinite: u64,
    /// Against the reference, when one was given.
    pub compared: Option<Comparison>,
}

/// Differences of an output from its reference, in bits of f64 so that the wire stays integer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Comparison {
    pub max_abs_error_bits: u64,
    /// Largest less smallest finite value of the reference.
    pub reference_range_bits: u64,
    /// None when one side is all zero.
    pub cosine_bits: Option<u64>,
}

/// What the generator or the files gave, hashed over all bytes in input order.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct InputsUsed {
    pub sha256: Sha256,
    pub sets: u32,
}

/// What the agent itself did during the window. There is no such record without a whole window.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AgentCost {
    /// CPU time of the daemon from the first to the last measured trial.
    pub cpu_time: Nanos,
    pub wall: Nanos,
    /// Reads of the arena and bytes of progress sent in that time.
    pub arena_reads: u64,
    pub progress_bytes: u64,
    /// CPUs the daemon was pinned to; empty when it could not keep away from the worker's.
    pub cpus: Vec<u16>,
    /// Times the worker waited for the agent between two trials.
    pub arena_stalls: u64,
    /// Bytes that did not fit on tmpfs and were written to the spool meanwhile.
    pub spilled: Bytes,
    pub calls: WindowCalls,
}

/// What the measuring thread itself asked for, from before the first to after the last measured trial.
/// Trials of a runtime are in it as well as the loop around them; other threads are not.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct WindowCalls {
    /// Calls of the agent's allocator, which runtimes written in Rust use too; a C library has its own.
    pub allocator: Option<u64>,
    /// System calls. Known with backend `null` only, where the kernel lets them be counted.
    pub kernel: Option<u64>,
}

/// How the agent began a repeat.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RepeatStart {
    pub build: BuildId,
    /// Nanoseconds since 1970 by the board's own clock.
    pub wall_unix_ns: i64,
    pub mono: Nanos,
    pub environment: Vec<Fact>,
}

/// How a repeat ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Outcome {
    Complete,
    /// Stopped by its user; its finished trials are kept.
    /// Killed because the user said so.
    Cancelled {
        stage: Stage,
    },
    Failed {
        stage: Stage,
        failure: Failure,
    },
}

/// The last record of a repeat.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RepeatEnd {
    pub outcome: Outcome,
    pub wall_unix_ns: i64,
    pub mono: Nanos,
    pub environment: Vec<Fact>,
    /// Trials of the case itself that were seen, whatever their role.
    pub trials: u64,
    pub chunks: u32,
}
