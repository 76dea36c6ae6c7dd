//! What happens once, before a model is warm.

use crate::store::rows::StageName;
use crate::view::{CaseView, RepeatView};

use super::centre;

/// Cold stages in nanoseconds: geometric means over telling repeats, none where not recorded.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct ColdStart {
    pub spawn_ns: Option<f64>,
    pub read_ns: Option<f64>,
    pub dlopen_ns: Option<f64>,
    pub load_ns: Option<f64>,
    pub compile_ns: Option<f64>,
    pub bind_ns: Option<f64>,
    /// The first run of the loaded model, and the second.
    pub first_ns: Option<f64>,
    pub second_ns: Option<f64>,
    /// From the begin of the first stage to the end of the first run, gaps left out.
    pub total_ns: Option<f64>,
}

impl ColdStart {
    pub fn of(view: &CaseView) -> Self {
        let over = |figure: &dyn Fn(&RepeatView) -> Option<i64>| {
            centre(
                view.telling()
                    .map(|repeat| figure(repeat).map(|ns| ns as f64)),
            )
        };
        let stage = |name: StageName| over(&|repeat| stage_ns(repeat, name));
        Self {
            spawn_ns: stage(StageName::Spawn),
            read_ns: stage(StageName::Read),
            dlopen_ns: stage(StageName::Dlopen),
            load_ns: stage(StageName::Load),
            compile_ns: stage(StageName::Compile),
            bind_ns: stage(StageName::Bind),
            first_ns: over(&|repeat| repeat.trials.cold.first().copied()),
            second_ns: over(&|repeat| repeat.trials.cold.get(1).copied()),
            total_ns: over(&total_ns),
        }
    }
}

/// A stage may have been entered more than once; its spans add up.
pub(crate) fn stage_ns(repeat: &RepeatView, name: StageName) -> Option<i64> {
    let spans = repeat.row.stages.iter().filter(|span| span.stage == name);
    spans
        .map(|span| span.end_ns - span.start_ns)
        .reduce(|a, b| a + b)
}

pub(crate) fn total_ns(repeat: &RepeatView) -> Option<i64> {
    let before_first = [
        StageName::Spawn,
        StageName::Read,
        StageName::Dlopen,
        StageName::Load,
        StageName::Compile,
        StageName::Bind,
    ];
    let stages = before_first
        .into_iter()
        .filter_map(|name| stage_ns(repeat, name));
    let first = repeat.trials.cold.first()?;
    Some(stages.sum::<i64>() + first)
}
