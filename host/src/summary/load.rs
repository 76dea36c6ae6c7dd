//! What the stressors beside a case achieved.

use crate::contention::achieved::{Achieved, bytes_per_second, moves_memory};
use crate::stats::mean;
use crate::store::rows::StressRow;
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
    /// Bytes a second by the wall that `io` wrote, and that `cache_thrash` changed within caches.
    pub disk_bps: Option<f64>,
    pub cache_bps: Option<f64>,
    /// CPU time as a share of the window: the least of all stressors and repeats.
    pub cpu_share: Option<f64>,
    /// Share of the time in which stressors that were told to work a share of it did work, and what they were
    /// told: means over such stressors and repeats.
    pub duty: Option<f64>,
    pub target_duty: Option<f64>,
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
        let sum_over = |is_one: fn(&StressRow) -> bool, of: fn(&Achieved) -> Option<f64>| {
            move |repeat: &RepeatView| -> Option<f64> {
                let all = repeat.row.stress.iter().filter(|row| is_one(row));
                let values: Option<Vec<f64>> = all.map(|row| of(&Achieved::of(row))).collect();
                let values = values.filter(|values| !values.is_empty())?;
                Some(values.iter().sum())
            }
        };
        let sum = |of: fn(&Achieved) -> Option<f64>| sum_over(moves_memory, of);
        let by_wall =
            |is_one: fn(&StressRow) -> bool| sum_over(is_one, |achieved| achieved.per_wall_second);
        let duty = |of: fn(&Achieved) -> Option<f64>| {
            let all = loaded.iter().flat_map(|repeat| &repeat.row.stress);
            let all = all.map(Achieved::of);
            let told = all.filter(|achieved| achieved.target_duty.is_some());
            let values: Option<Vec<f64>> = told.map(|achieved| of(&achieved)).collect();
            mean::arithmetic(&values?)
        };
        let shares = loaded.iter().flat_map(|repeat| &repeat.row.stress);
        let shares = shares.filter_map(|row| Achieved::of(row).cpu_share);
        Self {
            bps: over(&|repeat| bytes_per_second(&repeat.row.stress)),
            per_cpu_second_bps: over(&sum(|achieved| achieved.per_cpu_second)),
            target_bps: over(&sum(|achieved| achieved.target_per_second)),
            disk_bps: over(&by_wall(|row| row.stressor == "io")),
            cache_bps: over(&by_wall(|row| row.stressor == "cache_thrash")),
            cpu_share: shares.reduce(f64::min),
            duty: duty(|achieved| achieved.duty),
            target_duty: duty(|achieved| achieved.target_duty),
        }
    }
}
