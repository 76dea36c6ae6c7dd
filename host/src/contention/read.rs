//! From a run, or profiles of its cases, to what is said of its loads.

use edgedyno_shared::columns::{NULL, Role};
use serde_json::Value;

use super::curve::OfRound;
use super::gap::{self, Gaps};
use super::incomplete::Incomplete;
use super::limit::Limit;
use super::recovery::Looks;
use super::report::{self, Ask, Experiment, Read};
use crate::plan::condition::Ceilings;
use crate::source::{Source, SourceError};
use crate::stats::quantile;
use crate::store::RepeatRow;
use crate::store::rows::CaseEntry;

/// Everything that a run says of loads.
pub struct Found {
    pub run: String,
    /// How far it came; none of one that was measured to its end.
    pub incomplete: Option<Incomplete>,
    /// The limit that conditions are held to.
    pub slo: Option<Limit>,
    pub experiments: Vec<Experiment>,
    pub gaps: Vec<Gaps>,
}

impl Found {
    /// Whether everything that it shows was what it was meant to be, what it is held against first.
    pub fn is_valid(&self) -> bool {
        let of_experiment = |experiment: &Experiment| {
            let mut points = experiment.points.iter();
            experiment.baseline.valid && points.all(|point| point.valid)
        };
        let of_gaps = |gaps: &Gaps| {
            let mut points = gaps.points.iter();
            gaps.baseline.valid && points.all(|point| point.valid)
        };
        self.experiments.iter().all(of_experiment) && self.gaps.iter().all(of_gaps)
    }
}

/// Reads these cases and holds them to a limit: without one to that which the run was started with.
pub fn read(
    source: &Source,
    cases: &[CaseEntry],
    slo: Option<Limit>,
) -> Result<Found, SourceError> {
    let run = source.run()?;
    let slo = slo.or_else(|| Limit::from_json(&run.plan["slo"]));
    let mut reads = Vec::new();
    for view in source.views(cases)? {
        let view = view?;
        let mut device = Vec::new();
        for repeat in view.counting() {
            device.extend(device_median(source, &repeat.row)?);
        }
        reads.push(Read { view, device });
    }
    let ask = Ask {
        slo,
        recovery: Looks::of_plan(&run.plan),
        ceilings: Ceilings::from_json(&run.plan["ceilings"]),
    };
    Ok(Found {
        incomplete: Incomplete::of(&run, &reads),
        run: run.id.0,
        experiments: report::experiments(&reads, &ask),
        gaps: gap::gaps(&reads, &ask),
        slo: ask.slo,
    })
}

/// The same as the document that exports and `--json` give.
pub fn document(
    source: &Source,
    cases: &[CaseEntry],
    slo: Option<Limit>,
) -> Result<Value, SourceError> {
    Ok(report::document(&read(source, cases, slo)?))
}

/// The median of the accelerator's own time in a repeat, where its backend tells it.
fn device_median(source: &Source, repeat: &RepeatRow) -> Result<Option<OfRound>, SourceError> {
    let schema = repeat.schemas.iter().find(|schema| schema.lane == 0);
    let tells = schema.is_some_and(|s| s.columns.iter().any(|c| c.name == "device_ns"));
    if !tells {
        return Ok(None);
    }
    let columns = source.columns(repeat, 0)?;
    let Some(device) = columns.column("device_ns") else {
        return Ok(None);
    };
    let measured = columns.trials_of(Role::Measure).map(|at| device[at]);
    let known: Vec<i64> = measured.filter(|ns| *ns != NULL).collect();
    Ok(quantile::of(&known, 0.5).map(|value| OfRound {
        round: repeat.key.repeat,
        value,
    }))
}
