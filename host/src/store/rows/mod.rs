//! What the store keeps, as JSON: types apart from those of the wire, so that either may change alone.
//!
//! Names follow the field table: snake_case, the unit last. A value that was not measured is null.

mod case;
mod clock;
mod common;
mod device;
mod record;
mod run;
mod stress;
mod tenant;

pub use case::{
    CaseRow, ColdRow, GeneratorRow, InputFileRow, InputsRow, IoRow, LimitsRow, ModelRefRow,
    OutputsRow, PolicyRow, RulesRow, RuntimeRefRow, ScenarioRow, ShapeRow, SourceRow, TelemetryRow,
    ThreadsRow,
};
pub use clock::{ClockExchangeRow, ClockMomentRow, ClockReadingRow};
pub use common::{FactRow, FailureRow, HashRow, MomentRow, PassRow, StageName, stored_key};
pub use device::{BackendRow, CpuRow, DeviceRow, RuntimeFoundRow};
pub use record::{
    ArtifactRow, ChannelRow, ColumnRow, ComparedRow, CostRow, DimRow, EffectiveRow, EndRow,
    EventRow, FidelityRow, InputsUsedRow, KindRow, MemoryRow, ModelRow, OutputRow, PlacementRow,
    RecordRow, RuntimeRow, SamplesRow, SchemaRow, StageRow, StartRow, TensorRow, ThreadRow,
};
pub use run::{CaseEntry, FindingRow, OutcomeKind, RunRow, RunStatus};
pub use stress::{
    EffortRow, StressRow, StressThreadRow, StressWindowRow, ThrottleRow, ToolFigureRow, ToolRow,
    UnitRow,
};
pub use tenant::{TenantRefRow, TenantRow};
