//! What EdgeDyno itself did on the board meanwhile.

use crate::store::rows::CostRow;
use crate::view::CaseView;

/// Sums over the counting repeats, none when no repeat told its cost.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ToolCost {
    /// CPU time of the agent inside the windows, and the windows' length.
    pub cpu_ns: Option<i64>,
    pub wall_ns: Option<i64>,
    pub arena_reads: Option<u64>,
    pub arena_stalls: Option<u64>,
    pub progress_bytes: Option<u64>,
    pub spilled_bytes: Option<u64>,
    /// Of the measuring threads inside the windows; none where a repeat did not count them.
    pub allocator_calls: Option<u64>,
    pub system_calls: Option<u64>,
    /// CPUs the agent kept to; empty when it could not keep away from the worker's.
    pub cpus: Option<Vec<u16>>,
}

impl ToolCost {
    pub fn of(view: &CaseView) -> Self {
        let costs: Vec<&CostRow> = view
            .counting()
            .filter_map(|repeat| repeat.row.cost.as_ref())
            .collect();
        let sum = |figure: fn(&CostRow) -> u64| -> Option<u64> {
            costs.iter().map(|cost| figure(cost)).reduce(|a, b| a + b)
        };
        let all = |figure: fn(&CostRow) -> Option<u64>| -> Option<u64> {
            let figures = costs.iter().map(|cost| figure(cost));
            figures.reduce(|a, b| Some(a? + b?)).flatten()
        };
        Self {
            cpu_ns: costs
                .iter()
                .map(|cost| cost.cpu_time_ns)
                .reduce(|a, b| a + b),
            wall_ns: costs.iter().map(|cost| cost.wall_ns).reduce(|a, b| a + b),
            arena_reads: sum(|cost| cost.arena_reads),
            arena_stalls: sum(|cost| cost.arena_stalls),
            progress_bytes: sum(|cost| cost.progress_bytes),
            spilled_bytes: sum(|cost| cost.spilled_bytes),
            allocator_calls: all(|cost| cost.allocator_calls),
            system_calls: all(|cost| cost.system_calls),
            cpus: costs.last().map(|cost| cost.cpus.clone()),
        }
    }

    /// CPU time as a share of one CPU.
    pub fn cpu_share(&self) -> Option<f64> {
        let wall_ns = self.wall_ns.filter(|&ns| ns > 0)?;
        Some(self.cpu_ns? as f64 / wall_ns as f64)
    }
}
