//! Rules about a case as one of many: what a sweep left out, changed or compared.
//!
//! Only the sweep itself knows these; they are stored with the run.

use super::{Level, Rule};

/// Codes of findings that a sweep stores.
pub const SHAPE_ALIGNED: &str = "shape_aligned";
pub const LARGER_THAN_OUT_OF_MEMORY: &str = "larger_than_out_of_memory";
pub const GIVEN_UP: &str = "given_up";
pub const OUT_OF_TIME: &str = "out_of_time";
pub const WRONG_OUTPUTS: &str = "wrong_outputs";
pub const OUTPUTS_NOT_COMPARED: &str = "outputs_not_compared";
pub const LEFT_OUT_BY_GOAL: &str = "left_out_by_goal";
pub const SENTINEL_DRIFT: &str = "sentinel_drift";

pub(super) const RULES: &[Rule] = &[
    stored(
        WRONG_OUTPUTS,
        Level::Invalid,
        "The outputs differ from those of the reference case by more than the tolerance of the plan. However fast it is, it computes something else.",
    ),
    stored(
        SENTINEL_DRIFT,
        Level::Warning,
        "The sentinel case, measured again and again, became slower or faster during the sweep: cases measured early and late may differ by as much for no reason of their own.",
    ),
    stored(
        GIVEN_UP,
        Level::Warning,
        "The case failed as often as the plan allows; its other repeats were left out.",
    ),
    stored(
        OUT_OF_TIME,
        Level::Warning,
        "The time budget of the plan was over before every repeat was measured.",
    ),
    stored(
        LARGER_THAN_OUT_OF_MEMORY,
        Level::Note,
        "A case that is smaller along an axis ran out of memory, so this one was left out.",
    ),
    stored(
        LEFT_OUT_BY_GOAL,
        Level::Note,
        "`--optimize` left repeats of this case out: it cannot be the best, for the reason given.",
    ),
    stored(
        OUTPUTS_NOT_COMPARED,
        Level::Note,
        "The outputs could not be compared with those of the reference case, for the reason given.",
    ),
    stored(
        SHAPE_ALIGNED,
        Level::Note,
        "The shape asked for is no multiple that the model takes; another one was measured. Both stand in the figures.",
    ),
];

/// A rule that fires where a finding of the same code is stored with the case.
const fn stored(code: &'static str, level: Level, meaning: &'static str) -> Rule {
    Rule {
        code,
        level,
        meaning,
        check: |e| e.noted(),
    }
}
