//! What a stressor was and did beside a repeat.

use edgedyno_shared::load::{
    Effort, StressThread, StressUsed, StressWindow, Throttle, ToolFigure, ToolUsed, WorkUnit,
};
use serde::{Deserialize, Serialize};

use super::common::{FailureRow, stored_enum};

stored_enum! {
    /// What a stressor's work is counted in.
    UnitRow from WorkUnit {
        Bytes = "bytes",
        Operations = "operations",
        Nothing = "nothing",
        Own = "own",
    }
}

stored_enum! {
    /// What a stressor does between two pieces of work.
    ThrottleRow from Throttle { Spin = "spin", Sleep = "sleep" }
}

/// How hard a stressor was told to work.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EffortRow {
    Full,
    /// Units of work a second, of all threads together.
    PerSecond(u64),
    /// A share of the time, in millionths.
    DutyPpm(u32),
}

impl From<Effort> for EffortRow {
    fn from(effort: Effort) -> Self {
        match effort {
            Effort::Full => Self::Full,
            Effort::Rate { per_second } => Self::PerSecond(per_second),
            Effort::Duty { ppm } => Self::DutyPpm(ppm),
        }
    }
}

/// One stressor of a repeat.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StressRow {
    pub stressor: String,
    pub cpus: Vec<u16>,
    pub effort: EffortRow,
    pub throttle: ThrottleRow,
    pub unit: UnitRow,
    pub working_set_bytes: Option<u64>,
    /// How much of the working set lay in large pages.
    pub huge_page_bytes: Option<u64>,
    pub notes: Vec<String>,
    pub ready_ns: Option<i64>,
    pub started_ns: Option<i64>,
    pub stopped_ns: Option<i64>,
    /// Why it did not do what it was told to the end.
    #[serde(default)]
    pub failure: Option<FailureRow>,
    /// How its process ended, in the kernel's words.
    #[serde(default)]
    pub exit: Option<String>,
    /// The tool that it was.
    #[serde(default)]
    pub tool: Option<ToolRow>,
    pub threads: Vec<StressThreadRow>,
}

/// A tool of somebody else's, and what it says it did over all of its life.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolRow {
    pub path: String,
    pub version: Option<String>,
    pub arguments: Vec<String>,
    pub figures: Vec<ToolFigureRow>,
}

/// A figure as a tool printed it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolFigureRow {
    pub name: String,
    pub value: String,
    pub unit: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StressThreadRow {
    pub cpu: u16,
    pub tid: u32,
    pub cpus_at_start: Option<Vec<u16>>,
    pub cpus_at_end: Option<Vec<u16>>,
    pub window: Option<StressWindowRow>,
}

/// What a thread did from the begin of the window to its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct StressWindowRow {
    pub start_ns: i64,
    pub end_ns: i64,
    pub work: u64,
    pub cpu_time_ns: i64,
    /// CPU time of its turns of work, where it was told to work a share of the time.
    #[serde(default)]
    pub worked_ns: Option<i64>,
    pub run_delay_ns: Option<i64>,
}

impl From<&StressUsed> for StressRow {
    fn from(used: &StressUsed) -> Self {
        Self {
            stressor: used.order.name.clone(),
            cpus: used.order.cpus.clone(),
            effort: used.order.effort.into(),
            throttle: used.order.throttle.into(),
            unit: used.unit.into(),
            working_set_bytes: used.working_set.map(|bytes| bytes.0),
            huge_page_bytes: used.huge_pages.map(|bytes| bytes.0),
            notes: used.notes.clone(),
            ready_ns: used.ready.map(|at| at.0),
            started_ns: used.started.map(|at| at.0),
            stopped_ns: used.stopped.map(|at| at.0),
            failure: used.failure.as_ref().map(Into::into),
            exit: used.exit.clone(),
            tool: used.tool.as_ref().map(Into::into),
            threads: used.threads.iter().map(Into::into).collect(),
        }
    }
}

impl From<&ToolUsed> for ToolRow {
    fn from(used: &ToolUsed) -> Self {
        let figure = |figure: &ToolFigure| ToolFigureRow {
            name: figure.name.clone(),
            value: figure.value.clone(),
            unit: figure.unit.clone(),
        };
        Self {
            path: used.path.clone(),
            version: used.version.clone(),
            arguments: used.arguments.clone(),
            figures: used.figures.iter().map(figure).collect(),
        }
    }
}

impl From<&StressThread> for StressThreadRow {
    fn from(thread: &StressThread) -> Self {
        Self {
            cpu: thread.cpu,
            tid: thread.tid,
            cpus_at_start: thread.cpus_at_start.clone(),
            cpus_at_end: thread.cpus_at_end.clone(),
            window: thread.window.map(Into::into),
        }
    }
}

impl From<StressWindow> for StressWindowRow {
    fn from(window: StressWindow) -> Self {
        Self {
            start_ns: window.start.0,
            end_ns: window.end.0,
            work: window.work,
            cpu_time_ns: window.cpu_time.0,
            worked_ns: window.worked.map(|worked| worked.0),
            run_delay_ns: window.run_delay.map(|delay| delay.0),
        }
    }
}
