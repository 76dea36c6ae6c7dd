//! A case: one point of a plan, complete enough to be measured by an agent that knows nothing else.

use serde::{Deserialize, Serialize};

use crate::ids::Sha256;

/// One point of a plan. The host keys it twice: with content hashes, and by names and values.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Case {
    pub board: String,
    pub model: ModelRef,
    /// A name of the agent's backend list.
    pub backend: String,
    /// The library to load; none for a backend that is built in.
    pub runtime: Option<RuntimeRef>,
    /// Options of session and provider, passed on as they are, sorted by key.
    pub options: Vec<(String, String)>,
    /// Parameters of the workload, sorted by name.
    pub parameters: Vec<(String, String)>,
    /// Shapes asked for, by input name, sorted; inputs not named keep the model's own.
    pub shapes: Vec<NamedShape>,
    /// Replaces the model's batch dimension; none leaves it as the model has it.
    pub batch: Option<u32>,
    pub threads: Threads,
    /// CPUs the worker may use; none lets the agent choose and say which.
    pub cpus: Option<Vec<u16>>,
    pub precision: Option<String>,
    pub scenario: Scenario,
    pub io: Io,
    pub condition: Condition,
    /// What the models that the condition names are, in its order.
    pub tenants: Vec<Tenant>,
    pub inputs: InputSpec,
}

/// Another model that runs beside the measured one, in a process and a lane of its own.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tenant {
    pub model: ModelRef,
    pub backend: String,
    pub runtime: Option<RuntimeRef>,
    /// Sorted by key.
    pub options: Vec<(String, String)>,
    pub threads: u32,
    pub cpus: Vec<u16>,
    /// Trials a second, in thousandths; none lets one follow the other.
    pub millihertz: Option<u64>,
}

impl Case {
    /// A tenant as a case of its own on an idle board: what it is held against.
    pub fn alone(&self, tenant: &Tenant) -> Self {
        Self {
            board: self.board.clone(),
            model: tenant.model.clone(),
            backend: tenant.backend.clone(),
            runtime: tenant.runtime.clone(),
            options: tenant.options.clone(),
            parameters: Vec::new(),
            shapes: Vec::new(),
            batch: None,
            threads: Threads {
                intra: tenant.threads,
                inter: 1,
            },
            cpus: Some(tenant.cpus.clone()),
            precision: None,
            scenario: match tenant.millihertz {
                Some(millihertz) => Scenario::Rate { millihertz },
                None => Scenario::Single,
            },
            io: self.io,
            condition: Condition::idle(),
            tenants: Vec::new(),
            inputs: InputSpec {
                source: InputSource::Generated {
                    generator: Generator::Normal,
                    seed: 1,
                },
                policy: InputPolicy::Fixed,
            },
        }
    }
}

/// A model by the name shown and the content that is run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ModelRef {
    pub name: String,
    pub sha256: Sha256,
}

/// A vendor library as the agent found it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RuntimeRef {
    pub version: String,
    pub sha256: Sha256,
}

/// A shape asked for by name of an input.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct NamedShape {
    pub input: String,
    pub dims: Vec<u64>,
}

/// Threads asked for: inside one operator and between operators.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Threads {
    pub intra: u32,
    pub inter: u32,
}

/// How work arrives.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Scenario {
    /// One trial after the other.
    Single,
    Concurrent {
        streams: u32,
    },
    /// On a fixed grid of time; a trial that is late leaves out the points that it missed.
    Rate {
        millihertz: u64,
    },
    Sequence,
    Pipeline,
}

impl Scenario {
    pub fn name(&self) -> &'static str {
        match self {
            Self::Single => "single",
            Self::Concurrent { .. } => "concurrent",
            Self::Rate { .. } => "rate",
            Self::Sequence => "sequence",
            Self::Pipeline => "pipeline",
        }
    }
}

/// Whether copies of inputs and outputs are inside the region.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Io {
    /// Inputs and outputs stay where the runtime uses them.
    Resident,
    /// Inputs are copied in and outputs copied out inside the region.
    Transfer,
}

impl Io {
    pub fn name(self) -> &'static str {
        match self {
            Self::Resident => "resident",
            Self::Transfer => "transfer",
        }
    }
}

/// What else the board does meanwhile, as written: `idle`, `spin:cpu1`, `mem_copy_nt:cpu1@50%`,
/// `model:b.onnx@10Hz:cpu3`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Condition(pub String);

impl Condition {
    pub fn idle() -> Self {
        Self("idle".into())
    }
}

/// Where inputs come from and which of them each trial gets.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct InputSpec {
    pub source: InputSource,
    pub policy: InputPolicy,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum InputSource {
    Generated {
        generator: Generator,
        seed: u64,
    },
    /// One set of tensors a trial, in order.
    Files {
        sets: Vec<Vec<InputFile>>,
    },
}

/// One tensor file: `.npy`, or raw bytes of the input's own dtype and shape.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct InputFile {
    /// The input's name; empty when the model has one input only.
    pub input: String,
    pub sha256: Sha256,
}

/// How values are drawn. Integers use their own range for `Normal` and `Uniform`: see the agent's inputs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Generator {
    /// Mean 0, standard deviation 1.
    Normal,
    /// From 0 up to 1.
    Uniform,
    Zeros,
    /// Whole numbers from `low` to `high`, both included.
    Integers {
        low: i64,
        high: i64,
    },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum InputPolicy {
    /// Every trial gets the first set.
    Fixed,
    /// Trials go through the sets in turn.
    Cycle,
    /// Every trial gets values never used before.
    Fresh,
}

impl InputPolicy {
    pub fn name(self) -> &'static str {
        match self {
            Self::Fixed => "fixed",
            Self::Cycle => "cycle",
            Self::Fresh => "fresh",
        }
    }
}
