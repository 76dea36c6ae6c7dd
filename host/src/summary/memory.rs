//! Memory of the worker at each moment.

use crate::store::rows::{MemoryRow, MomentRow};
use crate::view::CaseView;

/// Bytes without the arena's pages: the largest over telling repeats, none where not recorded.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct MemoryUse {
    /// Resident set at each moment that was read, in order.
    pub rss: Vec<(MomentRow, u64)>,
    /// High-water mark over the worker's life.
    pub peak_bytes: Option<u64>,
    /// Pages of the arena, which are not in the figures above.
    pub arena_bytes: Option<u64>,
}

impl MemoryUse {
    pub fn of(view: &CaseView) -> Self {
        let rows = || view.telling().flat_map(|repeat| &repeat.row.memory);
        let moments = [
            MomentRow::Spawned,
            MomentRow::Dlopened,
            MomentRow::Loaded,
            MomentRow::BeforeWindow,
            MomentRow::AfterWindow,
        ];
        let largest = |moment: MomentRow| {
            let at = rows().filter(|row| row.moment == moment);
            at.filter_map(|row: &MemoryRow| row.rss_bytes).max()
        };
        Self {
            rss: moments
                .into_iter()
                .filter_map(|moment| Some((moment, largest(moment)?)))
                .collect(),
            peak_bytes: rows().filter_map(|row| row.rss_peak_bytes).max(),
            // Zero before the arena was mapped says nothing of how large it is.
            arena_bytes: rows()
                .map(|row| row.arena_bytes)
                .filter(|&bytes| bytes > 0)
                .max(),
        }
    }

    pub fn rss_at(&self, moment: MomentRow) -> Option<u64> {
        let found = self.rss.iter().find(|(at, _)| *at == moment);
        found.map(|(_, bytes)| *bytes)
    }
}
