//! Rules about what the model gave out, and files made on the board.

use crate::store::rows::OutputRow;

use super::{Evidence, Hit, Level, Rule};

/// An output whose cosine with its reference is below this does not match.
const COSINE: f64 = 0.999;

/// Where no cosine exists (one side is all zero), a difference above this does not match.
const MAX_ABS_ERROR: f64 = 1e-3;

pub(super) const RULES: &[Rule] = &[
    Rule {
        code: "nonfinite_outputs",
        level: Level::Warning,
        meaning: "An output of the last trial holds NaN or infinity. Such arithmetic may be slower or faster than real use.",
        check: nonfinite_outputs,
    },
    Rule {
        code: "reference_mismatch",
        level: Level::Warning,
        meaning: "An output differs from its reference: cosine below 0.999, or an absolute error above 0.001 where no cosine exists.",
        check: reference_mismatch,
    },
    Rule {
        code: "artifact_damaged",
        level: Level::Warning,
        meaning: "The bytes of a file made on the board are not those that its hash promised; they were not kept.",
        check: artifact_damaged,
    },
];

fn nonfinite_outputs(e: &Evidence<'_>) -> Vec<Hit> {
    let bad = e
        .summary
        .outputs
        .iter()
        .filter(|output| output.nonfinite > 0);
    bad.map(|output| {
        let text = format!(
            "output {} has {} values of {} that are not finite",
            output.name, output.nonfinite, output.elements
        );
        Hit::new(text)
            .figure("output", output.name.as_str())
            .figure("nonfinite", output.nonfinite)
            .figure("elements", output.elements)
    })
    .collect()
}

fn reference_mismatch(e: &Evidence<'_>) -> Vec<Hit> {
    e.summary.outputs.iter().filter_map(mismatch).collect()
}

fn mismatch(output: &OutputRow) -> Option<Hit> {
    let compared = output.compared?;
    let matches = match (compared.cosine, compared.max_abs_error) {
        (Some(cosine), Some(_)) => cosine >= COSINE,
        (None, Some(error)) => error <= MAX_ABS_ERROR,
        (_, None) => false,
    };
    let show = |figure: Option<f64>| figure.map_or_else(|| "not finite".into(), |x| x.to_string());
    let text = format!(
        "output {} differs from its reference: cosine {}, largest error {}",
        output.name,
        compared
            .cosine
            .map_or_else(|| "unknown".into(), |x| x.to_string()),
        show(compared.max_abs_error),
    );
    (!matches).then(|| {
        Hit::new(text)
            .figure("output", output.name.as_str())
            .figure("cosine", compared.cosine)
            .figure("max_abs_error", compared.max_abs_error)
    })
}

fn artifact_damaged(e: &Evidence<'_>) -> Vec<Hit> {
    let of_repeat = |repeat: &crate::view::RepeatView| -> Vec<Hit> {
        let damaged = repeat
            .row
            .artifacts
            .iter()
            .filter(|artifact| artifact.damaged);
        damaged
            .map(|artifact| Hit::of(repeat, format!("{} arrived damaged", artifact.name)))
            .collect()
    };
    e.view.repeats.iter().flat_map(of_repeat).collect()
}
