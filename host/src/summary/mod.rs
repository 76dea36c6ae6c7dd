//! One case as the figures that `run` and `summary` print: a pure function over what was stored.

pub mod best;
mod board;
mod cite;
mod clock;
mod cold;
mod ddr;
mod environment;
mod json;
mod latency;
mod load;
mod memory;
mod placement;
mod power;
mod rails;
mod repeats;
mod schema;
mod tenants;
mod tool;
pub mod windows;

#[cfg(test)]
pub(crate) mod tests;

use std::sync::Arc;

use edgedyno_shared::ids::Sha256;

use crate::findings::{self, Finding};
use crate::soak::Soak;
use crate::stats::mean;
use crate::store::rows::{
    CaseRow, EffectiveRow, InputsUsedRow, ModelRow, OutputRow, RulesRow, RunRow, RuntimeRow,
};
use crate::view::CaseView;

pub use board::{BoardMeanwhile, GpuMemory, Missing, Range};
pub use clock::ClockSeen;
pub(crate) use clock::{suspended, wall_step};
pub use cold::ColdStart;
pub(crate) use cold::{stage_ns, total_ns};
pub use ddr::DdrTraffic;
pub use environment::{Environment, is_lasting, subject_of};
pub use json::{DOCUMENT, case_json, to_json, withheld};
pub use latency::Latency;
pub(crate) use latency::rate_hz;
pub use load::LoadSeen;
pub use memory::MemoryUse;
pub use placement::PlacementSeen;
pub use power::{AboveIdle, Power};
pub(crate) use repeats::warmup_was_steady;
pub use repeats::{Counts, Failed, RepeatFigures, Warmup};
pub use schema::schema;
pub use tenants::TenantSeen;
pub use tool::ToolCost;

/// Everything that is said of one case.
#[derive(Debug, Clone, PartialEq)]
pub struct CaseSummary {
    pub run: Arc<RunRow>,
    pub key: Sha256,
    pub match_key: Sha256,
    pub case: CaseRow,
    pub rules: RulesRow,
    /// These figures are not measurements of a model.
    pub simulated: bool,
    pub counts: Counts,
    pub cold: ColdStart,
    pub warmup: Warmup,
    /// None when no trial was measured.
    pub latency: Option<Latency>,
    /// Every attempt, in order.
    pub repeats: Vec<RepeatFigures>,
    pub runtime: Option<RuntimeRow>,
    pub model: Option<ModelRow>,
    /// Settings asked for and read back.
    pub settings: Vec<EffectiveRow>,
    pub placement: PlacementSeen,
    pub memory: MemoryUse,
    pub environment: Environment,
    pub inputs: Option<InputsUsedRow>,
    pub outputs: Vec<OutputRow>,
    pub tool: ToolCost,
    pub load: LoadSeen,
    /// Other models beside it.
    pub tenants: Vec<TenantSeen>,
    pub clock: ClockSeen,
    pub board: BoardMeanwhile,
    /// Of a long run, what heat did to it.
    pub soak: Option<Soak>,
    pub failures: Vec<Failed>,
    pub findings: Vec<Finding>,
    /// One line to quote a result with.
    pub cite: String,
}

/// Summarises a case.
pub fn summarise(view: &CaseView) -> CaseSummary {
    let latest = view.telling().last();
    let told = latest.map(|repeat| &repeat.row);
    let mut summary = CaseSummary {
        run: view.run.clone(),
        key: view.entry.key,
        match_key: view.entry.match_key,
        case: view.entry.case.clone(),
        rules: view.entry.rules.clone(),
        simulated: view.is_simulated(),
        counts: Counts::of(view),
        cold: ColdStart::of(view),
        warmup: Warmup::of(view),
        latency: Latency::of(view),
        repeats: view.repeats.iter().map(RepeatFigures::of).collect(),
        runtime: told.and_then(|row| row.runtime.clone()),
        model: told.and_then(|row| row.model.clone()),
        settings: told.map_or_else(Vec::new, |row| row.effective.clone()),
        placement: PlacementSeen::of(view),
        memory: MemoryUse::of(view),
        environment: Environment::of(view),
        inputs: told.and_then(|row| row.inputs.clone()),
        outputs: told.map_or_else(Vec::new, |row| row.outputs.clone()),
        tool: ToolCost::of(view),
        load: LoadSeen::of(view),
        tenants: TenantSeen::all(view),
        clock: ClockSeen::of(view),
        board: BoardMeanwhile::of(view),
        soak: view
            .counting()
            .last()
            .and_then(|repeat| repeat.soak.clone()),
        failures: repeats::failures(view),
        findings: Vec::new(),
        cite: String::new(),
    };
    summary.findings = findings::check(view, &summary);
    summary.cite = cite::line(&summary);
    summary
}

/// The centre over repeats of a figure that some repeats have.
fn centre(figures: impl Iterator<Item = Option<f64>>) -> Option<f64> {
    mean::over_repeats(&figures.flatten().collect::<Vec<_>>())
}
