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
    Rule {
        code: WRONG_OUTPUTS,
        level: Level::Invalid,
        meaning: "The outputs differ from those of the reference case by more than the tolerance of the plan. However fast it is, it computes something else.",
        check: |e| e.noted(WRONG_OUTPUTS),
    },
    Rule {
        code: SENTINEL_DRIFT,
        level: Level::Warning,
        meaning: "The sentinel case, measured again and again, became slower or faster during the sweep: cases measured early and late may differ by as much for no reason of their own.",
        check: |e| e.noted(SENTINEL_DRIFT),
    },
    Rule {
        code: GIVEN_UP,
        level: Level::Warning,
        meaning: "The case failed as often as the plan allows; its other repeats were left out.",
        check: |e| e.noted(GIVEN_UP),
    },
    Rule {
        code: OUT_OF_TIME,
        level: Level::Warning,
        meaning: "The time budget of the plan was over before every repeat was measured.",
        check: |e| e.noted(OUT_OF_TIME),
    },
    Rule {
        code: LARGER_THAN_OUT_OF_MEMORY,
        level: Level::Note,
        meaning: "A case that is smaller along an axis ran out of memory, so this one was left out.",
        check: |e| e.noted(LARGER_THAN_OUT_OF_MEMORY),
    },
    Rule {
        code: LEFT_OUT_BY_GOAL,
        level: Level::Note,
        meaning: "`--optimize` left repeats of this case out: it cannot be the best, for the reason given.",
        check: |e| e.noted(LEFT_OUT_BY_GOAL),
    },
    Rule {
        code: OUTPUTS_NOT_COMPARED,
        level: Level::Note,
        meaning: "The outputs could not be compared with those of the reference case, for the reason given.",
        check: |e| e.noted(OUTPUTS_NOT_COMPARED),
    },
    Rule {
        code: SHAPE_ALIGNED,
        level: Level::Note,
        meaning: "The shape asked for is no multiple that the model takes; another one was measured. Both stand in the figures.",
        check: |e| e.noted(SHAPE_ALIGNED),
    },
];
