//! Rules about how repeats ended, and what they are worth at all.

use crate::store::rows::OutcomeKind;
use crate::summary::Failed;

use super::{Evidence, Hit, Level, Rule};

pub(super) const RULES: &[Rule] = &[
    Rule {
        code: "simulated",
        level: Level::Note,
        meaning: "The backend makes its figures up (`fake`, `null`): nothing here is a measurement of a model.",
        check: simulated,
    },
    Rule {
        code: "failed_repeat",
        level: Level::Warning,
        meaning: "An attempt did not complete. Its row keeps stage, code, detail and the trials before it; they are in no statistic.",
        check: failed_repeat,
    },
    Rule {
        code: "agent_restarted",
        level: Level::Warning,
        meaning: "The agent was restarted while the repeat ran; its trials were recovered as far as they were written.",
        check: agent_restarted,
    },
    Rule {
        code: "trial_failed",
        level: Level::Warning,
        meaning: "The backend failed trials, or slots made no sense, in a repeat that counts. They are counted and left out of latency.",
        check: trial_failed,
    },
    Rule {
        code: "undecoded_records",
        level: Level::Warning,
        meaning: "An agent of another version wrote records that this one cannot decode. Trials are kept; what the records said is not known.",
        check: undecoded_records,
    },
    Rule {
        code: "built_in_used_because_no_library",
        level: Level::Note,
        meaning: "No `--backend` was given and no ONNX Runtime was found, so the built-in runtime was used. Its speed says little about other runtimes.",
        check: |e| e.noted(),
    },
];

fn simulated(e: &Evidence<'_>) -> Vec<Hit> {
    let backend = &e.summary.case.backend;
    let text = format!("backend `{backend}` makes its figures up; nothing here measures a model");
    e.summary
        .simulated
        .then(|| Hit::new(text))
        .into_iter()
        .collect()
}

fn failed_repeat(e: &Evidence<'_>) -> Vec<Hit> {
    let failed = e.summary.failures.iter();
    failed
        .filter(|failed| failed.outcome != OutcomeKind::Raw)
        .map(|failed| {
            let mut hit = Hit::new(describe(failed)).figure("trials", failed.trials);
            hit.repeat = Some(failed.repeat);
            hit
        })
        .collect()
}

/// `repeat 2, attempt 0: crash in stage measure: SIGSEGV`.
fn describe(failed: &Failed) -> String {
    let failure = failed.failure.as_ref();
    let what = failure.map_or(failed.outcome.name(), |failure| failure.code.as_str());
    let stage = failed
        .stage
        .map(|stage| format!(" in stage {}", stage.name()));
    let detail = failure.map(|failure| format!(": {}", failure.detail));
    format!(
        "repeat {}, attempt {}: {what}{}{}",
        failed.repeat,
        failed.attempt,
        stage.unwrap_or_default(),
        detail.unwrap_or_default(),
    )
}

fn agent_restarted(e: &Evidence<'_>) -> Vec<Hit> {
    let restarted = e.view.repeats.iter().filter(|repeat| {
        let failed = repeat.row.failure.as_ref();
        let said = repeat
            .row
            .events
            .iter()
            .any(|event| event.code == "agent_restarted");
        said || failed.is_some_and(|failure| failure.code == "agent_restarted")
    });
    restarted
        .map(|repeat| {
            let text = format!(
                "the agent was restarted in repeat {}",
                repeat.row.key.repeat
            );
            Hit::of(repeat, text).figure("trials", repeat.trials.all)
        })
        .collect()
}

fn trial_failed(e: &Evidence<'_>) -> Vec<Hit> {
    let with_failures = e
        .counting()
        .filter(|repeat| repeat.trials.failed + repeat.trials.corrupt > 0);
    with_failures
        .map(|repeat| {
            let (failed, corrupt) = (repeat.trials.failed, repeat.trials.corrupt);
            let text = format!(
                "{failed} trials failed and {corrupt} slots made no sense, of {}",
                repeat.trials.all
            );
            Hit::of(repeat, text)
                .figure("failed", failed)
                .figure("corrupt", corrupt)
        })
        .collect()
}

fn undecoded_records(e: &Evidence<'_>) -> Vec<Hit> {
    let raw = e
        .view
        .repeats
        .iter()
        .filter(|repeat| repeat.row.raw_records > 0);
    raw.map(|repeat| {
        let records = repeat.row.raw_records;
        let text = format!("{records} records were written by an agent of another version");
        Hit::of(repeat, text).figure("records", records)
    })
    .collect()
}
