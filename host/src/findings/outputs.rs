//! Rules about what the model gave out, and files made on the board.

use crate::store::rows::{ComparedRow, OutputRow};

use super::{Evidence, Hit, Level, Rule};

/// An output whose cosine with its reference is below this does not match; for 8-bit integers, whose
/// steps are coarse, the second figure.
const COSINE: f64 = 0.9999;
const COSINE_8_BIT: f64 = 0.99;

/// Nor does one with an error above this share of the reference's range (its largest less its smallest
/// value); the cosine alone is blind to scale and to a single wrong element.
const SHARE_OF_RANGE: f64 = 1e-3;

/// Above this where the reference has no range.
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
        meaning: "An output differs from its reference: its cosine is below 0.9999, or its largest error above 0.001 of the reference's range (8-bit integers: cosine below 0.99).",
        check: reference_mismatch,
    },
    Rule {
        code: "reference_unusable",
        level: Level::Warning,
        meaning: "A reference turned out not to be of the type or shape of its output, so the two were not compared. What was measured stays.",
        check: reference_unusable,
    },
    Rule {
        code: "output_not_kept",
        level: Level::Warning,
        meaning: "An output was asked for, and the board had no room for a file of its size, so it was not kept. What was measured stays.",
        check: output_not_kept,
    },
    Rule {
        code: "artifact_damaged",
        level: Level::Warning,
        meaning: "The bytes of a file made on the board are not those that its hash promised; they were not kept.",
        check: artifact_damaged,
    },
];

fn nonfinite_outputs(e: &Evidence<'_>) -> Vec<Hit> {
    of_counting(e, nonfinite)
}

fn nonfinite(output: &OutputRow) -> Option<Hit> {
    let text = format!(
        "output {} has {} values of {} that are not finite",
        output.name, output.nonfinite, output.elements
    );
    (output.nonfinite > 0).then(|| {
        Hit::new(text)
            .figure("output", output.name.as_str())
            .figure("nonfinite", output.nonfinite)
            .figure("elements", output.elements)
    })
}

fn reference_mismatch(e: &Evidence<'_>) -> Vec<Hit> {
    of_counting(e, mismatch)
}

fn reference_unusable(e: &Evidence<'_>) -> Vec<Hit> {
    told(e, "reference_unusable")
}

fn output_not_kept(e: &Evidence<'_>) -> Vec<Hit> {
    told(e, "output_not_kept")
}

/// What the agent said in events of that code; once where it said the same of several repeats.
fn told(e: &Evidence<'_>, code: &str) -> Vec<Hit> {
    let mut hits: Vec<Hit> = Vec::new();
    let events = e.counting().flat_map(|repeat| &repeat.row.events);
    for event in events.filter(|event| event.code == code) {
        if !hits.iter().any(|known| known.text == event.text) {
            hits.push(Hit::new(event.text.clone()));
        }
    }
    hits
}

fn mismatch(output: &OutputRow) -> Option<Hit> {
    let compared = output.compared?;
    let matches = matches(output.dtype.as_str(), &compared);
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

fn matches(dtype: &str, compared: &ComparedRow) -> bool {
    // Infinitely far.
    let Some(error) = compared.max_abs_error else {
        return false;
    };
    if matches!(dtype, "i8" | "u8") {
        return compared
            .cosine
            .map_or(error == 0.0, |cosine| cosine >= COSINE_8_BIT);
    }
    let range = compared.reference_range.filter(|range| *range > 0.0);
    let allowed = range.map_or(MAX_ABS_ERROR, |range| range * SHARE_OF_RANGE);
    compared.cosine.is_none_or(|cosine| cosine >= COSINE) && error <= allowed
}

/// What a rule says of the outputs of every repeat that counts; once where it says the same of several.
fn of_counting(e: &Evidence<'_>, rule: impl Fn(&OutputRow) -> Option<Hit>) -> Vec<Hit> {
    let mut hits: Vec<Hit> = Vec::new();
    for repeat in e.view.counting() {
        for hit in repeat.row.outputs.iter().filter_map(&rule) {
            if !hits.iter().any(|known| known.text == hit.text) {
                hits.push(hit);
            }
        }
    }
    hits
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
