//! A case and its rules as stored, complete enough to order it again.

use std::collections::BTreeMap;

use edgedyno_shared::case::{
    Case, Condition, Generator, InputFile, InputPolicy, InputSource, InputSpec, Io, ModelRef,
    NamedShape, RuntimeRef, Scenario, Threads,
};
use edgedyno_shared::order::{
    ColdStart, CoolDown, Limits, OutputWish, Preparation, Rules, StopRule, WarmupRule,
};
use edgedyno_shared::telemetry::TelemetryMode;
use edgedyno_shared::units::{Bytes, Nanos};
use serde::{Deserialize, Serialize};

use super::common::{HashRow, stored_enum};
use super::tenant::TenantRefRow;

/// One point of a plan.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CaseRow {
    pub board: String,
    pub model: ModelRefRow,
    pub backend: String,
    pub runtime: Option<RuntimeRefRow>,
    pub options: BTreeMap<String, String>,
    pub parameters: BTreeMap<String, String>,
    pub shapes: Vec<ShapeRow>,
    pub batch: Option<u32>,
    pub threads: ThreadsRow,
    pub cpus: Option<Vec<u16>>,
    pub precision: Option<String>,
    pub scenario: ScenarioRow,
    pub io: IoRow,
    pub condition: String,
    /// What the models that the condition names are, in its order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tenants: Vec<TenantRefRow>,
    pub inputs: InputsRow,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ModelRefRow {
    pub name: String,
    pub sha256: HashRow,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RuntimeRefRow {
    pub version: String,
    pub sha256: HashRow,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ShapeRow {
    pub input: String,
    pub dims: Vec<u64>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ThreadsRow {
    pub intra: u32,
    pub inter: u32,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ScenarioRow {
    Single,
    Concurrent { streams: u32 },
    Rate { millihertz: u64 },
    Sequence,
    Pipeline,
}

stored_enum! {
    /// How much of the board was watched.
    TelemetryRow from TelemetryMode {
        Off = "off",
        Normal = "normal",
        Fast = "fast",
    }
}

stored_enum! {
    /// Whether copies of inputs and outputs are inside the region.
    IoRow from Io { Resident = "resident", Transfer = "transfer" }
}

stored_enum! {
    /// Which input set each trial gets.
    PolicyRow from InputPolicy { Fixed = "fixed", Cycle = "cycle", Fresh = "fresh" }
}

stored_enum! {
    /// What is emptied before the worker starts.
    ColdRow from ColdStart { FreshProcess = "fresh_process", PageCache = "page_cache" }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct InputsRow {
    pub source: SourceRow,
    pub policy: PolicyRow,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SourceRow {
    Generated { generator: GeneratorRow, seed: u64 },
    Files { sets: Vec<Vec<InputFileRow>> },
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum GeneratorRow {
    Normal,
    Uniform,
    Zeros,
    Integers { low: i64, high: i64 },
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct InputFileRow {
    pub input: String,
    pub sha256: HashRow,
}

/// Rules, limits and wishes of a case's repeats.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RulesRow {
    /// Repeats planned; a planner that decides as it goes has none.
    pub repeats: Option<u32>,
    pub warmup_min_trials: u64,
    pub warmup_min_ns: i64,
    pub warmup_max_ns: i64,
    pub warmup_until_steady: bool,
    pub measure_ns: i64,
    pub measure_min_trials: u64,
    pub measure_max_trials: u64,
    pub limits: LimitsRow,
    pub cold: ColdRow,
    pub outputs: OutputsRow,
    /// Off in stores from before there was any.
    #[serde(default = "off")]
    pub telemetry: TelemetryRow,
    #[serde(default)]
    pub cool_down: Option<CoolDownRow>,
    #[serde(default)]
    pub fix_clocks: bool,
}

/// What a repeat waited for before it began.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CoolDownRow {
    pub below_millicelsius: i64,
    pub sensor: Option<String>,
    pub at_most_ns: i64,
}

const fn off() -> TelemetryRow {
    TelemetryRow::Off
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LimitsRow {
    pub load_ns: i64,
    pub compile_ns: i64,
    pub trial_ns: i64,
    pub trial_factor: u32,
    pub memory_bytes: Option<u64>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OutputsRow {
    pub save: bool,
    pub reference: Vec<InputFileRow>,
}

impl From<&Case> for CaseRow {
    fn from(case: &Case) -> Self {
        Self {
            board: case.board.clone(),
            model: ModelRefRow {
                name: case.model.name.clone(),
                sha256: case.model.sha256.into(),
            },
            backend: case.backend.clone(),
            runtime: case.runtime.as_ref().map(|r| RuntimeRefRow {
                version: r.version.clone(),
                sha256: r.sha256.into(),
            }),
            options: case.options.iter().cloned().collect(),
            parameters: case.parameters.iter().cloned().collect(),
            shapes: case.shapes.iter().map(Into::into).collect(),
            batch: case.batch,
            threads: ThreadsRow {
                intra: case.threads.intra,
                inter: case.threads.inter,
            },
            cpus: case.cpus.clone(),
            precision: case.precision.clone(),
            scenario: (&case.scenario).into(),
            io: case.io.into(),
            condition: case.condition.0.clone(),
            tenants: case.tenants.iter().map(Into::into).collect(),
            inputs: (&case.inputs).into(),
        }
    }
}

impl From<&CaseRow> for Case {
    fn from(row: &CaseRow) -> Self {
        Self {
            board: row.board.clone(),
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
            parameters: row.parameters.clone().into_iter().collect(),
            shapes: row.shapes.iter().map(Into::into).collect(),
            batch: row.batch,
            threads: Threads {
                intra: row.threads.intra,
                inter: row.threads.inter,
            },
            cpus: row.cpus.clone(),
            precision: row.precision.clone(),
            scenario: (&row.scenario).into(),
            io: row.io.into(),
            condition: Condition(row.condition.clone()),
            tenants: row.tenants.iter().map(Into::into).collect(),
            inputs: (&row.inputs).into(),
        }
    }
}

impl From<&NamedShape> for ShapeRow {
    fn from(shape: &NamedShape) -> Self {
        Self {
            input: shape.input.clone(),
            dims: shape.dims.clone(),
        }
    }
}

impl From<&ShapeRow> for NamedShape {
    fn from(row: &ShapeRow) -> Self {
        Self {
            input: row.input.clone(),
            dims: row.dims.clone(),
        }
    }
}

impl From<&Scenario> for ScenarioRow {
    fn from(scenario: &Scenario) -> Self {
        match *scenario {
            Scenario::Single => Self::Single,
            Scenario::Concurrent { streams } => Self::Concurrent { streams },
            Scenario::Rate { millihertz } => Self::Rate { millihertz },
            Scenario::Sequence => Self::Sequence,
            Scenario::Pipeline => Self::Pipeline,
        }
    }
}

impl From<&ScenarioRow> for Scenario {
    fn from(row: &ScenarioRow) -> Self {
        match *row {
            ScenarioRow::Single => Self::Single,
            ScenarioRow::Concurrent { streams } => Self::Concurrent { streams },
            ScenarioRow::Rate { millihertz } => Self::Rate { millihertz },
            ScenarioRow::Sequence => Self::Sequence,
            ScenarioRow::Pipeline => Self::Pipeline,
        }
    }
}

impl From<&InputSpec> for InputsRow {
    fn from(spec: &InputSpec) -> Self {
        let source = match &spec.source {
            InputSource::Generated { generator, seed } => SourceRow::Generated {
                generator: generator.into(),
                seed: *seed,
            },
            InputSource::Files { sets } => SourceRow::Files {
                sets: sets.iter().map(|set| files(set)).collect(),
            },
        };
        Self {
            source,
            policy: spec.policy.into(),
        }
    }
}

impl From<&InputsRow> for InputSpec {
    fn from(row: &InputsRow) -> Self {
        let source = match &row.source {
            SourceRow::Generated { generator, seed } => InputSource::Generated {
                generator: generator.into(),
                seed: *seed,
            },
            SourceRow::Files { sets } => InputSource::Files {
                sets: sets.iter().map(|set| files(set)).collect(),
            },
        };
        Self {
            source,
            policy: row.policy.into(),
        }
    }
}

impl From<&Generator> for GeneratorRow {
    fn from(generator: &Generator) -> Self {
        match *generator {
            Generator::Normal => Self::Normal,
            Generator::Uniform => Self::Uniform,
            Generator::Zeros => Self::Zeros,
            Generator::Integers { low, high } => Self::Integers { low, high },
        }
    }
}

impl From<&GeneratorRow> for Generator {
    fn from(row: &GeneratorRow) -> Self {
        match *row {
            GeneratorRow::Normal => Self::Normal,
            GeneratorRow::Uniform => Self::Uniform,
            GeneratorRow::Zeros => Self::Zeros,
            GeneratorRow::Integers { low, high } => Self::Integers { low, high },
        }
    }
}

fn files<'a, A: 'a, B: From<&'a A>>(files: &'a [A]) -> Vec<B> {
    files.iter().map(Into::into).collect()
}

impl From<&InputFile> for InputFileRow {
    fn from(file: &InputFile) -> Self {
        Self {
            input: file.input.clone(),
            sha256: file.sha256.into(),
        }
    }
}

impl From<&InputFileRow> for InputFile {
    fn from(row: &InputFileRow) -> Self {
        Self {
            input: row.input.clone(),
            sha256: row.sha256.0,
        }
    }
}

impl RulesRow {
    pub fn new(
        repeats: Option<u32>,
        rules: &Rules,
        limits: &Limits,
        cold: ColdStart,
        outputs: &OutputWish,
    ) -> Self {
        Self {
            repeats,
            warmup_min_trials: rules.warmup.min_trials,
            warmup_min_ns: rules.warmup.min_time.0,
            warmup_max_ns: rules.warmup.max_time.0,
            warmup_until_steady: rules.warmup.until_steady,
            measure_ns: rules.measure.duration.0,
            measure_min_trials: rules.measure.min_trials,
            measure_max_trials: rules.measure.max_trials,
            limits: limits.into(),
            cold: cold.into(),
            outputs: OutputsRow {
                save: outputs.save,
                reference: files(&outputs.reference),
            },
            telemetry: TelemetryRow::Normal,
            cool_down: None,
            fix_clocks: false,
        }
    }

    /// The same with the board prepared in that way.
    #[must_use]
    pub fn prepared(self, preparation: &Preparation) -> Self {
        let cool_down = preparation.cool_down.as_ref();
        Self {
            cool_down: cool_down.map(|wish| CoolDownRow {
                below_millicelsius: wish.below_millicelsius,
                sensor: wish.sensor.clone(),
                at_most_ns: wish.at_most.0,
            }),
            fix_clocks: preparation.fix_clocks,
            ..self
        }
    }

    pub fn preparation(&self) -> Preparation {
        Preparation {
            cool_down: self.cool_down.as_ref().map(|row| CoolDown {
                below_millicelsius: row.below_millicelsius,
                sensor: row.sensor.clone(),
                at_most: Nanos(row.at_most_ns),
            }),
            fix_clocks: self.fix_clocks,
        }
    }

    /// The same with the board watched in that way.
    #[must_use]
    pub fn watched(self, mode: TelemetryMode) -> Self {
        Self {
            telemetry: mode.into(),
            ..self
        }
    }

    pub fn rules(&self) -> Rules {
        Rules {
            warmup: WarmupRule {
                min_trials: self.warmup_min_trials,
                min_time: Nanos(self.warmup_min_ns),
                max_time: Nanos(self.warmup_max_ns),
                until_steady: self.warmup_until_steady,
            },
            measure: StopRule {
                duration: Nanos(self.measure_ns),
                min_trials: self.measure_min_trials,
                max_trials: self.measure_max_trials,
            },
        }
    }

    pub fn limits(&self) -> Limits {
        Limits {
            load: Nanos(self.limits.load_ns),
            compile: Nanos(self.limits.compile_ns),
            trial: Nanos(self.limits.trial_ns),
            trial_factor: self.limits.trial_factor,
            memory: self.limits.memory_bytes.map(Bytes),
        }
    }

    pub fn outputs(&self) -> OutputWish {
        OutputWish {
            save: self.outputs.save,
            reference: files(&self.outputs.reference),
        }
    }
}

impl From<&Limits> for LimitsRow {
    fn from(limits: &Limits) -> Self {
        Self {
            load_ns: limits.load.0,
            compile_ns: limits.compile.0,
            trial_ns: limits.trial.0,
            trial_factor: limits.trial_factor,
            memory_bytes: limits.memory.map(|b| b.0),
        }
    }
}
