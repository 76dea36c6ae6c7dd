//! What a repeat told beside its trials.

use edgedyno_shared::artifact::Artifact;
use edgedyno_shared::columns::{ColumnSpec, TrialSchema};
use edgedyno_shared::repeat::{
    AgentCost, Comparison, Dim, Effective, InputsUsed, Memory, ModelInfo, Outcome, OutputCheck,
    Placement, RepeatEnd, RepeatStart, RuntimeUsed, StageSpan, TensorInfo, TextEvent, ThreadPlace,
};
use edgedyno_shared::telemetry::{Channel, ChannelKind, Fidelity};
use edgedyno_shared::wire::record::Record;
use serde::{Deserialize, Serialize};

use super::common::{FactRow, FailureRow, HashRow, MomentRow, StageName, stored_enum};
use super::run::OutcomeKind;
use super::stress::StressRow;
use super::tenant::TenantRow;

/// One stored record: its kind and its body are two columns of the table.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", content = "body", rename_all = "snake_case")]
pub enum RecordRow {
    Start(StartRow),
    Stage(StageRow),
    Runtime(RuntimeRow),
    Model(ModelRow),
    Schema(SchemaRow),
    Inputs(InputsUsedRow),
    Placement(PlacementRow),
    Memory(MemoryRow),
    Effective(EffectiveRow),
    Output(OutputRow),
    Channel(ChannelRow),
    AgentCost(CostRow),
    Stress(Box<StressRow>),
    Tenant(Box<TenantRow>),
    End(EndRow),
}

impl RecordRow {
    /// The row of a record; none for those that have a table of their own.
    pub fn of(record: &Record) -> Option<Self> {
        Some(match record {
            Record::Start(start) => Self::Start(start.into()),
            Record::Stage(span) => Self::Stage(span.into()),
            Record::Runtime(runtime) => Self::Runtime(runtime.into()),
            Record::Model(model) => Self::Model(model.into()),
            Record::Schema { lane, schema } => Self::Schema(SchemaRow::new(*lane, schema)),
            Record::Inputs(inputs) => Self::Inputs(inputs.into()),
            Record::Placement(placement) => Self::Placement(placement.into()),
            Record::Memory(memory) => Self::Memory(memory.into()),
            Record::Effective(effective) => Self::Effective(effective.into()),
            Record::Output(output) => Self::Output(output.into()),
            Record::Channel(channel) => Self::Channel(channel.into()),
            Record::AgentCost(cost) => Self::AgentCost(cost.into()),
            Record::Stress(used) => Self::Stress(Box::new(used.as_ref().into())),
            Record::Tenant(used) => Self::Tenant(Box::new(used.as_ref().into())),
            Record::End(end) => Self::End(end.into()),
            Record::Chunk(_)
            | Record::ClockExchange(_)
            | Record::ClockReading(_)
            | Record::Event(_)
            | Record::Samples(_)
            | Record::Artifact(_)
            | Record::ArtifactPart(_) => return None,
        })
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StartRow {
    pub build: String,
    pub wall_unix_ns: i64,
    pub mono_ns: i64,
    pub environment: Vec<FactRow>,
}

impl From<&RepeatStart> for StartRow {
    fn from(start: &RepeatStart) -> Self {
        Self {
            build: start.build.0.clone(),
            wall_unix_ns: start.wall_unix_ns,
            mono_ns: start.mono.0,
            environment: start.environment.iter().map(Into::into).collect(),
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct EndRow {
    pub outcome: OutcomeKind,
    pub stage: Option<StageName>,
    pub failure: Option<FailureRow>,
    pub wall_unix_ns: i64,
    pub mono_ns: i64,
    pub environment: Vec<FactRow>,
    /// Trials the agent saw, whatever their role.
    pub trials: u64,
    pub chunks: u32,
}

impl From<&RepeatEnd> for EndRow {
    fn from(end: &RepeatEnd) -> Self {
        let (outcome, stage, failure) = match &end.outcome {
            Outcome::Complete => (OutcomeKind::Complete, None, None),
            Outcome::Cancelled { stage } => (OutcomeKind::Cancelled, Some((*stage).into()), None),
            Outcome::Failed { stage, failure } => (
                OutcomeKind::Failed,
                Some((*stage).into()),
                Some(failure.into()),
            ),
        };
        Self {
            outcome,
            stage,
            failure,
            wall_unix_ns: end.wall_unix_ns,
            mono_ns: end.mono.0,
            environment: end.environment.iter().map(Into::into).collect(),
            trials: end.trials,
            chunks: end.chunks,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct StageRow {
    pub stage: StageName,
    pub start_ns: i64,
    pub end_ns: i64,
}

impl From<&StageSpan> for StageRow {
    fn from(span: &StageSpan) -> Self {
        Self {
            stage: span.stage.into(),
            start_ns: span.start.0,
            end_ns: span.end.0,
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RuntimeRow {
    pub path: Option<String>,
    pub version: String,
    /// None for what is part of the agent.
    pub sha256: Option<HashRow>,
    pub build: Option<String>,
    pub build_id: Option<String>,
    pub providers: Vec<String>,
}

impl From<&RuntimeUsed> for RuntimeRow {
    fn from(used: &RuntimeUsed) -> Self {
        Self {
            path: used.path.clone(),
            version: used.facts.version.clone(),
            sha256: used.facts.sha256.map(HashRow::from),
            build: used.facts.build.clone(),
            build_id: used.facts.build_id.clone(),
            providers: used.facts.providers.clone(),
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ModelRow {
    pub inputs: Vec<TensorRow>,
    pub outputs: Vec<TensorRow>,
    pub facts: Vec<FactRow>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TensorRow {
    pub name: String,
    pub dtype: String,
    pub declared: Vec<DimRow>,
    pub effective: Option<Vec<u64>>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DimRow {
    Fixed(u64),
    Symbol(String),
    Unknown,
}

impl From<&ModelInfo> for ModelRow {
    fn from(info: &ModelInfo) -> Self {
        Self {
            inputs: info.inputs.iter().map(Into::into).collect(),
            outputs: info.outputs.iter().map(Into::into).collect(),
            facts: info.facts.iter().map(Into::into).collect(),
        }
    }
}

impl From<&TensorInfo> for TensorRow {
    fn from(tensor: &TensorInfo) -> Self {
        Self {
            name: tensor.name.clone(),
            dtype: tensor.dtype.clone(),
            declared: tensor.declared.iter().map(Into::into).collect(),
            effective: tensor.effective.clone(),
        }
    }
}

impl From<&Dim> for DimRow {
    fn from(dim: &Dim) -> Self {
        match dim {
            Dim::Fixed(n) => Self::Fixed(*n),
            Dim::Symbol(name) => Self::Symbol(name.clone()),
            Dim::Unknown => Self::Unknown,
        }
    }
}

/// The columns of one lane.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SchemaRow {
    pub lane: u16,
    pub columns: Vec<ColumnRow>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ColumnRow {
    pub name: String,
    pub unit: String,
    pub occurrence: Option<u32>,
}

impl SchemaRow {
    pub fn new(lane: u16, schema: &TrialSchema) -> Self {
        let columns = schema.columns.iter().map(Into::into).collect();
        Self { lane, columns }
    }
}

impl From<&ColumnSpec> for ColumnRow {
    fn from(spec: &ColumnSpec) -> Self {
        Self {
            name: spec.name.clone(),
            unit: spec.unit.clone(),
            occurrence: spec.occurrence,
        }
    }
}

impl ColumnRow {
    /// The name as shown: `step[3]` for a repeated phase.
    pub fn label(&self) -> String {
        match self.occurrence {
            Some(i) => format!("{}[{i}]", self.name),
            None => self.name.clone(),
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct InputsUsedRow {
    pub sha256: HashRow,
    pub sets: u32,
}

impl From<&InputsUsed> for InputsUsedRow {
    fn from(used: &InputsUsed) -> Self {
        Self {
            sha256: used.sha256.into(),
            sets: used.sets,
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlacementRow {
    pub moment: MomentRow,
    pub wanted: Vec<u16>,
    pub threads: Vec<ThreadRow>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ThreadRow {
    pub tid: u32,
    pub cpus: Vec<u16>,
    pub cpu_time_ns: Option<i64>,
}

impl From<&Placement> for PlacementRow {
    fn from(placement: &Placement) -> Self {
        Self {
            moment: placement.moment.into(),
            wanted: placement.wanted.clone(),
            threads: placement.threads.iter().map(Into::into).collect(),
        }
    }
}

impl From<&ThreadPlace> for ThreadRow {
    fn from(thread: &ThreadPlace) -> Self {
        Self {
            tid: thread.tid,
            cpus: thread.cpus.clone(),
            cpu_time_ns: thread.cpu_time.map(|t| t.0),
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemoryRow {
    pub moment: MomentRow,
    pub rss_bytes: Option<u64>,
    pub rss_peak_bytes: Option<u64>,
    pub arena_bytes: u64,
}

impl From<&Memory> for MemoryRow {
    fn from(memory: &Memory) -> Self {
        Self {
            moment: memory.moment.into(),
            rss_bytes: memory.rss.map(|b| b.0),
            rss_peak_bytes: memory.rss_peak.map(|b| b.0),
            arena_bytes: memory.arena.0,
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct EffectiveRow {
    pub name: String,
    pub requested: Option<String>,
    pub observed: Option<String>,
}

impl From<&Effective> for EffectiveRow {
    fn from(effective: &Effective) -> Self {
        Self {
            name: effective.name.clone(),
            requested: effective.requested.clone(),
            observed: effective.observed.clone(),
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct EventRow {
    pub lane: u16,
    pub trial: Option<u64>,
    pub code: String,
    pub text: String,
}

impl From<&TextEvent> for EventRow {
    fn from(event: &TextEvent) -> Self {
        Self {
            lane: event.lane,
            trial: event.trial,
            code: event.code.clone(),
            text: event.text.clone(),
        }
    }
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct OutputRow {
    pub name: String,
    pub dtype: String,
    pub shape: Vec<u64>,
    pub sha256: HashRow,
    pub elements: u64,
    pub nonfinite: u64,
    pub compared: Option<ComparedRow>,
}

/// Differences from the reference; null is a value that is not a finite number.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct ComparedRow {
    pub max_abs_error: Option<f64>,
    pub cosine: Option<f64>,
    /// Largest less smallest finite value of the reference.
    #[serde(default)]
    pub reference_range: Option<f64>,
}

impl From<&OutputCheck> for OutputRow {
    fn from(check: &OutputCheck) -> Self {
        Self {
            name: check.name.clone(),
            dtype: check.dtype.clone(),
            shape: check.shape.clone(),
            sha256: check.sha256.into(),
            elements: check.elements,
            nonfinite: check.nonfinite,
            compared: check.compared.as_ref().map(Into::into),
        }
    }
}

impl From<&Comparison> for ComparedRow {
    fn from(comparison: &Comparison) -> Self {
        let finite = |bits: u64| Some(f64::from_bits(bits)).filter(|x| x.is_finite());
        Self {
            max_abs_error: finite(comparison.max_abs_error_bits),
            cosine: comparison.cosine_bits.and_then(finite),
            reference_range: finite(comparison.reference_range_bits),
        }
    }
}

stored_enum! {
    /// What a channel counts.
    KindRow from ChannelKind { Gauge = "gauge", Counter = "counter", State = "state" }
}

stored_enum! {
    /// How a channel's values came about.
    FidelityRow from Fidelity {
        Measured = "measured",
        DriverAveraged = "driver_averaged",
        Derived = "derived",
        Estimated = "estimated",
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChannelRow {
    pub id: u16,
    pub name: String,
    pub unit: String,
    pub kind: KindRow,
    pub source: String,
    pub native_period_ns: Option<i64>,
    pub fidelity: FidelityRow,
    /// How often it was to be read; none for what is read once or cannot be read.
    pub period_ns: Option<i64>,
    /// The state of the first read (`ok`, `absent`, `denied` ...) and why, unless it was good.
    pub state: String,
    pub reason: Option<String>,
}

impl From<&Channel> for ChannelRow {
    fn from(channel: &Channel) -> Self {
        Self {
            id: channel.id,
            name: channel.name.clone(),
            unit: channel.unit.clone(),
            kind: channel.kind.into(),
            source: channel.source.clone(),
            native_period_ns: channel.native_period.map(|p| p.0),
            fidelity: channel.fidelity.into(),
            period_ns: channel.period.map(|p| p.0),
            state: channel.probe.state().into(),
            reason: channel.probe.reason().map(Into::into),
        }
    }
}

/// Telemetry of one channel, as it was sampled.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct SamplesRow {
    pub at_ns: Vec<i64>,
    pub value: Vec<i64>,
    pub quality: Vec<u8>,
}

/// A file made on the board; `damaged` when its bytes were not those promised.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ArtifactRow {
    pub number: u32,
    pub name: String,
    pub kind: String,
    pub sha256: HashRow,
    pub bytes: u64,
    pub damaged: bool,
}

impl From<&Artifact> for ArtifactRow {
    fn from(artifact: &Artifact) -> Self {
        Self {
            number: artifact.number,
            name: artifact.name.clone(),
            kind: artifact.kind.clone(),
            sha256: artifact.sha256.into(),
            bytes: artifact.bytes,
            damaged: false,
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CostRow {
    pub cpu_time_ns: i64,
    pub wall_ns: i64,
    pub arena_reads: u64,
    pub progress_bytes: u64,
    pub cpus: Vec<u16>,
    pub arena_stalls: u64,
    pub spilled_bytes: u64,
    /// Of the measuring thread inside the window; runs of earlier versions did not count.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub allocator_calls: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub system_calls: Option<u64>,
}

impl From<&AgentCost> for CostRow {
    fn from(cost: &AgentCost) -> Self {
        Self {
            cpu_time_ns: cost.cpu_time.0,
            wall_ns: cost.wall.0,
            arena_reads: cost.arena_reads,
            progress_bytes: cost.progress_bytes,
            cpus: cost.cpus.clone(),
            arena_stalls: cost.arena_stalls,
            spilled_bytes: cost.spilled.0,
            allocator_calls: cost.calls.allocator,
            system_calls: cost.calls.kernel,
        }
    }
}
