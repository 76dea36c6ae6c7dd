//! An order for one repeat: complete, keyed by the host, run by the agent without choosing anything.

use serde::{Deserialize, Serialize};

use crate::case::Case;
use crate::ids::{RunId, Sha256};
use crate::load::Load;
use crate::telemetry::TelemetryMode;
use crate::units::{Bytes, Nanos};

/// Names one attempt of one repeat; an agent never runs the same key twice.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct OrderKey {
    pub run: RunId,
    /// The case's key, as the host computed it.
    pub case: Sha256,
    pub repeat: u32,
    pub attempt: u32,
    pub pass: Pass,
}

impl OrderKey {
    /// A file name for this key: unique, sortable, safe once the run id is well formed.
    pub fn file_stem(&self) -> String {
        let case = self.case.to_string();
        format!(
            "{}-{}-{:05}-{:03}-{}",
            self.run,
            &case[..16],
            self.repeat,
            self.attempt,
            self.pass.name()
        )
    }
}

/// Whether anything inside the region was synchronised or traced.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Pass {
    Honest,
    /// Its trials never enter latency statistics.
    Attributed,
}

impl Pass {
    pub fn name(self) -> &'static str {
        match self {
            Self::Honest => "honest",
            Self::Attributed => "attributed",
        }
    }
}

/// One repeat to run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RepeatOrder {
    pub key: OrderKey,
    pub case: Case,
    pub rules: Rules,
    pub limits: Limits,
    pub cold: ColdStart,
    pub outputs: OutputWish,
    /// What the case's condition stands for on this board.
    pub load: Load,
    pub telemetry: TelemetryMode,
    pub preparation: Preparation,
}

impl RepeatOrder {
    /// Whether anything else shall run beside the case.
    pub fn is_loaded(&self) -> bool {
        !self.load.is_idle() || !self.case.tenants.is_empty()
    }

    /// Every CPU that a stressor or another model is bound to, ascending.
    pub fn loaded_cpus(&self) -> Vec<u16> {
        let tenants = self.case.tenants.iter().flat_map(|tenant| &tenant.cpus);
        let mut cpus = self.load.cpus();
        cpus.extend(tenants);
        cpus.sort_unstable();
        cpus.dedup();
        cpus
    }
}

/// What the board is brought into before the worker starts.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Preparation {
    pub cool_down: Option<CoolDown>,
    /// Clocks are held at the highest that is allowed, and put back after the repeat.
    pub fix_clocks: bool,
}

/// The worker waits until a sensor shows less.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CoolDown {
    pub below_millicelsius: i64,
    /// The channel, or the first parts of its name; none: the hottest there is.
    pub sensor: Option<String>,
    /// Then it is measured all the same, and that is told.
    pub at_most: Nanos,
}

/// When warm-up and measurement end.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rules {
    pub warmup: WarmupRule,
    pub measure: StopRule,
}

/// Warm-up ends when it is steady and both minima are met, or at the maximum.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WarmupRule {
    pub min_trials: u64,
    pub min_time: Nanos,
    pub max_time: Nanos,
    /// False: the minima alone decide.
    pub until_steady: bool,
}

impl WarmupRule {
    /// Nothing is asked for.
    pub fn is_none(&self) -> bool {
        !self.until_steady && self.min_trials == 0 && self.min_time <= Nanos::ZERO
    }
}

/// Measurement ends when the duration is over and `min_trials` are in, or at `max_trials`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StopRule {
    pub duration: Nanos,
    pub min_trials: u64,
    pub max_trials: u64,
}

/// What ends a repeat by force.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Limits {
    pub load: Nanos,
    /// For compilation, the cold trials and the first warm-up trial.
    pub compile: Nanos,
    /// A later trial may take this long, or `trial_factor` medians, whichever is longer.
    pub trial: Nanos,
    pub trial_factor: u32,
    /// Data segment of the worker (RLIMIT_DATA).
    pub memory: Option<Bytes>,
}

/// What is emptied before the worker starts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum ColdStart {
    /// Nothing: pages of model and library may be cached from before.
    FreshProcess,
    /// Pages of model and library are dropped first.
    PageCache,
}

/// What to do with the outputs of the last trial.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OutputWish {
    /// Keep them as artifacts.
    pub save: bool,
    /// Compare with these tensors.
    pub reference: Vec<crate::case::InputFile>,
}
