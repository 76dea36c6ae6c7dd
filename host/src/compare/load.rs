//! Arms read from where they are: a store, profiles, or a baseline.

use std::num::NonZero;
use std::thread;

use super::arm::Arm;
use super::metric::Metric;
use crate::source::{Source, SourceError};
use crate::store::Store;
use crate::store::rows::CaseEntry;
use crate::view::RunView;

/// More threads than this read no faster from one file.
const MOST_READERS: usize = 4;
/// Fewer cases than this are read by one.
const FEWEST_CASES: usize = 8;

/// One arm for each case, in their order. A store is read by several connections at once.
pub fn arms(
    source: &Source,
    cases: &[CaseEntry],
    metrics: &[&Metric],
) -> Result<Vec<Arm>, SourceError> {
    match source {
        Source::Stored { store, run } if cases.len() >= FEWEST_CASES => {
            let shared = RunView::read(store, run)?;
            let readers = thread::available_parallelism().map_or(1, NonZero::get);
            let share = cases.len().div_ceil(readers.min(MOST_READERS));
            let dir = store.dir();
            let read = |cases: &[CaseEntry]| -> Result<Vec<Arm>, SourceError> {
                let store = Store::open_reading(dir)?;
                let arm = |case| Ok(Arm::of(&shared.brief(&store, case)?, metrics));
                cases.iter().map(arm).collect()
            };
            let parts = thread::scope(|scope| {
                let started: Vec<_> = cases
                    .chunks(share)
                    .map(|part| scope.spawn(|| read(part)))
                    .collect();
                let joined = started.into_iter().map(|reader| match reader.join() {
                    Ok(arms) => arms,
                    Err(panic) => std::panic::resume_unwind(panic),
                });
                joined.collect::<Result<Vec<_>, _>>()
            })?;
            Ok(parts.concat())
        }
        _ => {
            let views = source.views(cases)?;
            views.map(|view| Ok(Arm::of(&view?, metrics))).collect()
        }
    }
}
