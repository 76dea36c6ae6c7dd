//! What else a board does while a case is measured: stressors as ordered, and what they did.

use serde::{Deserialize, Serialize};

use crate::case::Tenant;
use crate::repeat::{Effective, Memory, Placement, RuntimeUsed, Stage, StageSpan};
use crate::units::{Bytes, Nanos};
use crate::wire::failure::Failure;

/// One turn of work and rest of a stressor that works a share of the time.
pub const DUTY_TURN: Nanos = Nanos::from_millis(10);

/// What `io` writes a second at most, all its threads together: what is faster is no small board's disk, and
/// would soon wear one out.
pub const IO_MOST_PER_SECOND: u64 = 200_000_000;

/// What `io` writes at most in one repeat: flash memory bears only so many writes.
pub const IO_MOST_BYTES: u64 = 8 << 30;

/// What a stressor's work is counted in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum WorkUnit {
    /// Bytes read and written, each once; what a cache fetches only to overwrite it does not count.
    Bytes,
    /// Numbers drawn, or vectors multiplied and added.
    Operations,
    /// It only keeps a CPU busy.
    Nothing,
    /// A tool of somebody else's, which counts for itself and in its own currency, if at all.
    Own,
}

/// A kind of stressor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Kind {
    pub name: &'static str,
    pub unit: WorkUnit,
    /// One line for lists.
    pub summary: &'static str,
}

impl Kind {
    /// Whether it waits for something else than its CPU: then the wall paces it and says what it does, and
    /// that its CPU was idle meanwhile says nothing.
    pub fn waits(&self) -> bool {
        self.name == "io"
    }

    /// Whether its bytes go through the board's memory. Those of a disk do not, nor those that a cache holds.
    pub fn moves_memory(&self) -> bool {
        self.unit == WorkUnit::Bytes && !matches!(self.name, "io" | "cache_thrash")
    }
}

/// Every kind there is, in the order in which they are listed.
pub const KINDS: &[Kind] = &[
    kind("mem_read", WorkUnit::Bytes, "reads memory in order"),
    kind(
        "mem_read_stride",
        WorkUnit::Bytes,
        "reads lines of memory a page and a line apart, which no prefetcher follows",
    ),
    kind(
        "mem_write",
        WorkUnit::Bytes,
        "writes memory in order by plain stores",
    ),
    kind(
        "mem_write_nt",
        WorkUnit::Bytes,
        "writes memory by stores that pass the caches by",
    ),
    kind("mem_copy", WorkUnit::Bytes, "copies memory by plain stores"),
    kind(
        "mem_copy_nt",
        WorkUnit::Bytes,
        "copies memory by stores that pass the caches by",
    ),
    kind(
        "mem_triad",
        WorkUnit::Bytes,
        "a = b + s * c over doubles, as STREAM does",
    ),
    kind(
        "chase",
        WorkUnit::Bytes,
        "reads lines of memory, each of which names the next",
    ),
    kind(
        "cache_thrash",
        WorkUnit::Bytes,
        "changes a word of every line of a cache, again and again",
    ),
    kind(
        "cpu_int",
        WorkUnit::Operations,
        "integer arithmetic without memory",
    ),
    kind(
        "cpu_branchy",
        WorkUnit::Operations,
        "the same with branches that cannot be foretold",
    ),
    kind(
        "cpu_simd",
        WorkUnit::Operations,
        "vectors multiplied and added without memory",
    ),
    kind(
        "spin",
        WorkUnit::Nothing,
        "keeps a CPU busy with nothing: the control",
    ),
    kind("io", WorkUnit::Bytes, "writes a file past the page cache"),
    kind(
        "stress-ng",
        WorkUnit::Own,
        "the tool of that name, its stream unless another method is named",
    ),
    kind(
        "stressapptest",
        WorkUnit::Own,
        "the tool of that name, copying memory and checking it",
    ),
];

const fn kind(name: &'static str, unit: WorkUnit, summary: &'static str) -> Kind {
    Kind {
        name,
        unit,
        summary,
    }
}

/// The kind of that name.
pub fn kind_of(name: &str) -> Option<&'static Kind> {
    KINDS.iter().find(|kind| kind.name == name)
}

/// Stressors of a repeat; none leaves the board idle.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Load {
    pub stressors: Vec<StressOrder>,
    /// From the start of the last stressor to the first trial of warm-up.
    pub settle: Nanos,
}

impl Load {
    pub fn is_idle(&self) -> bool {
        self.stressors.is_empty()
    }

    /// Every CPU that a stressor is bound to, ascending.
    pub fn cpus(&self) -> Vec<u16> {
        let mut cpus: Vec<u16> = self.stressors.iter().flat_map(|s| s.cpus.clone()).collect();
        cpus.sort_unstable();
        cpus.dedup();
        cpus
    }
}

/// One stressor, complete: sent with each order.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StressOrder {
    /// A name of [`KINDS`].
    pub name: String,
    /// Which of its ways, for a tool that has several; none takes its usual one.
    pub method: Option<String>,
    /// One thread for each.
    pub cpus: Vec<u16>,
    pub effort: Effort,
    pub throttle: Throttle,
    /// Memory of all its threads together; none leaves it to the agent's rule.
    pub working_set: Option<Bytes>,
}

/// How hard a stressor works.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Effort {
    Full,
    /// Units of work a second, of all its threads together.
    Rate {
        per_second: u64,
    },
    /// A share of the time, in millionths.
    Duty {
        ppm: u32,
    },
}

/// What `io` writes at once, in bytes.
pub const IO_PIECE: u64 = 1 << 20;

/// What a stressor does while it waits for its next piece of work.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Throttle {
    /// Keeps its CPU: occupancy is the same at every level.
    Spin,
    /// Leaves its CPU.
    Sleep,
}

impl Throttle {
    pub const fn name(self) -> &'static str {
        match self {
            Self::Spin => "spin",
            Self::Sleep => "sleep",
        }
    }
}

/// What one stressor was and did; made by the agent when it has ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StressUsed {
    pub order: StressOrder,
    pub unit: WorkUnit,
    /// Memory it went through, and how much of that lay in large pages; none where it used none, or the
    /// kernel does not say.
    pub working_set: Option<Bytes>,
    pub huge_pages: Option<Bytes>,
    /// What the working set was chosen by, and what else was not as usual.
    pub notes: Vec<String>,
    /// Memory touched and threads bound.
    pub ready: Option<Nanos>,
    pub started: Option<Nanos>,
    pub stopped: Option<Nanos>,
    /// Why it did not do what it was told to the end.
    pub failure: Option<Failure>,
    /// How its process ended, in the kernel's words; none where there was none.
    pub exit: Option<String>,
    /// The tool that it was.
    pub tool: Option<ToolUsed>,
    pub threads: Vec<StressThread>,
}

/// A tool of somebody else's that was a stressor.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolUsed {
    pub path: String,
    /// As it prints it.
    pub version: Option<String>,
    pub arguments: Vec<String>,
    /// What it says it did, over all of its life; nothing where it printed none.
    pub figures: Vec<ToolFigure>,
}

/// A figure as a tool printed it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolFigure {
    pub name: String,
    pub value: String,
    pub unit: String,
}

/// One thread of a stressor.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StressThread {
    pub cpu: u16,
    pub tid: u32,
    /// CPUs it could run on by the kernel's word, at its start and at its end.
    pub cpus_at_start: Option<Vec<u16>>,
    pub cpus_at_end: Option<Vec<u16>>,
    /// What it did in the window; none where there was none.
    pub window: Option<StressWindow>,
}

/// What a stressor's thread did between two looks at its counters, at begin and end of the window.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct StressWindow {
    pub start: Nanos,
    pub end: Nanos,
    /// In the stressor's unit.
    pub work: u64,
    pub cpu_time: Nanos,
    /// CPU time of its turns of work, without its rests; none where it was not told to work a share of the
    /// time.
    pub worked: Option<Nanos>,
    /// Time it was ready to run and did not; none where the kernel does not say.
    pub run_delay: Option<Nanos>,
}

/// What another model beside the case was and did; made by the agent when it has ended. Its trials are
/// those of its lane.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TenantUsed {
    /// Counts from 1: the case itself is lane 0.
    pub lane: u16,
    pub tenant: Tenant,
    pub runtime: Option<RuntimeUsed>,
    pub stages: Vec<StageSpan>,
    pub placements: Vec<Placement>,
    pub memory: Vec<Memory>,
    pub effective: Vec<Effective>,
    /// Loaded and run cold.
    pub ready: Option<Nanos>,
    /// Told to begin, and told to end.
    pub started: Option<Nanos>,
    pub stopped: Option<Nanos>,
    /// Where in its life it failed, and why.
    pub failure: Option<(Stage, Failure)>,
    /// How its process ended, in the kernel's words; none where there was none.
    pub exit: Option<String>,
    /// The last it wrote to its standard error.
    pub stderr: String,
}

/// First id of the channels on which stressors' counters come; samplers have those below.
pub const FIRST_CHANNEL: u16 = 0xf000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_have_names_of_their_own() {
        for (at, kind) in KINDS.iter().enumerate() {
            assert!(KINDS[..at].iter().all(|other| other.name != kind.name));
            assert_eq!(kind_of(kind.name), Some(kind));
        }
        assert_eq!(kind_of("mem"), None);
    }

    #[test]
    fn bytes_of_memory_are_those_of_no_disk_and_no_cache() {
        let moving = KINDS.iter().filter(|kind| kind.moves_memory());
        let moving: Vec<&str> = moving.map(|kind| kind.name).collect();
        let counted = KINDS.iter().filter(|kind| kind.unit == WorkUnit::Bytes);
        let without = |name: &&str| !["io", "cache_thrash"].contains(name);
        let expected: Vec<&str> = counted.map(|kind| kind.name).filter(without).collect();
        assert_eq!(moving, expected);
        assert!(moving.contains(&"mem_read") && moving.contains(&"chase"));
        let waiting: Vec<&str> = KINDS.iter().filter(|k| k.waits()).map(|k| k.name).collect();
        assert_eq!(waiting, ["io"]);
    }
}
