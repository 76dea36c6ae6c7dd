//! What the stressors beside a case achieved.

use crate::contention::achieved::{Achieved, bytes_per_second};
use crate::stats::mean;
use crate::view::{CaseView, RepeatView};

/// Means over the counting repeats that had a load; nothing where there was none.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct LoadSeen {
    /// Bytes a second by the wall, of all stressors that move memory.
    pub bps: Option<f64>,
    /// The same for each second of the stressors' own CPU time.
    pub per_cpu_second_bps: Option<f64>,
    /// Bytes a second asked for; none at full effort.
    pub target_bps: Option<f64>,
    /// CPU time as a share of the window: the least of all stressors and repeats.
    pub cpu_share: Option<f64>,
}

impl LoadSeen {
    pub fn of(view: &CaseView) -> Self {
        let loaded: Vec<&RepeatView> = view
            .counting()
            .filter(|r| !r.row.stress.is_empty())
            .collect();
        let over = |of: &dyn Fn(&RepeatView) -> Option<f64>| {
            let values: Option<Vec<f64>> = loaded.iter().map(|repeat| of(repeat)).collect();
            mean::arithmetic(&values?)
        };
        let sum = |of: fn(&Achieved) -> Option<f64>| {
            move |repeat: &RepeatView| -> Option<f64> {
                let all = repeat.row.stress.iter().map(Achieved::of);
                let moving = all.filter(|achieved| achieved.unit == "bytes");
                let values: Vec<f64> = moving
                    .map(|achieved| of(&achieved))
                    .collect::<Option<_>>()?;
                (!values.is_empty()).then(|| values.iter().sum())
            }
        };
        let shares = loaded.iter().flat_map(|repeat| &repeat.row.stress);
        let shares = shares.filter_map(|row| Achieved::of(row).cpu_share);
        Self {
            bps: over(&|repeat| bytes_per_second(&repeat.row.stress)),
            per_cpu_second_bps: over(&sum(|achieved| achieved.per_cpu_second)),
            target_bps: over(&sum(|achieved| achieved.target_per_second)),
            cpu_share: shares.reduce(f64::min),
        }
    }
}
