//! The correctness guard of a sweep: outputs of every case against those of the reference case.
//!
//! Faster but wrong is not faster. Kept outputs of the first repeat are compared on the host, from the
//! store, so that the comparison can be made again with no board present.

mod tensors;

use std::collections::{BTreeMap, BTreeSet};

use edgedyno_shared::case::Case;
use edgedyno_shared::ids::{RunId, Sha256};
use serde_json::{Map, Value, json};

use crate::findings::sweep::{OUTPUTS_NOT_COMPARED, WRONG_OUTPUTS};
use crate::findings::{Level, rules};
use crate::model::array::Array;
use crate::plan::sweep::Tolerance;
use crate::store::rows::{CaseEntry, FindingRow};
use crate::store::{Result, Store};

pub use tensors::{Difference, difference};

/// Compares the outputs that a run has kept; `references` are cases chosen to compare with, the first
/// case of each group stands in where none was.
pub fn compare(
    store: &Store,
    run: &RunId,
    references: &[Sha256],
    tolerance: Tolerance,
) -> Result<Vec<(Option<Sha256>, FindingRow)>> {
    let references: BTreeSet<&Sha256> = references.iter().collect();
    let mut findings = Vec::new();
    for group in groups(&store.cases(run)?) {
        let chosen = group.iter().find(|case| references.contains(&case.key));
        let Some(reference) = chosen.or(group.first()) else {
            continue;
        };
        let others: Vec<&CaseEntry> = group.iter().filter(|c| c.key != reference.key).collect();
        if others.is_empty() {
            continue;
        }
        let expected = outputs(store, run, reference.key)?;
        for case in others {
            let found = outputs(store, run, case.key)?;
            let judged = judge(reference, &expected, case, &found, tolerance);
            findings.extend(judged.map(|finding| (Some(case.key), finding)));
        }
    }
    Ok(findings)
}

/// Cases that must give the same outputs: of one model, fed alike.
fn groups(cases: &[CaseEntry]) -> Vec<Vec<CaseEntry>> {
    let mut groups: BTreeMap<String, Vec<CaseEntry>> = BTreeMap::new();
    for entry in cases {
        let case = &entry.case;
        let fed = json!([
            case.model.name,
            case.shapes,
            case.batch,
            case.parameters,
            case.inputs
        ]);
        groups
            .entry(fed.to_string())
            .or_default()
            .push(entry.clone());
    }
    groups.into_values().collect()
}

/// An output by name: its hash, and its array where that could be read.
type Outputs = BTreeMap<String, (Sha256, Option<Array>)>;

/// Kept outputs of the latest counting repeat that has any.
fn outputs(store: &Store, run: &RunId, case: Sha256) -> Result<Outputs> {
    let repeats = store.repeats(run, case)?;
    let is_output = |kind: &str| kind == "output_tensor";
    let keeping = repeats.iter().rev().find(|repeat| {
        repeat.counts
            && repeat
                .artifacts
                .iter()
                .any(|artifact| is_output(&artifact.kind))
    });
    let mut out = Outputs::new();
    for artifact in keeping.into_iter().flat_map(|repeat| &repeat.artifacts) {
        if is_output(&artifact.kind) {
            let bytes = store.content(artifact)?;
            let array = bytes.and_then(|bytes| Array::read_npy(bytes.as_slice()).ok());
            out.insert(artifact.name.clone(), (artifact.sha256.0, array));
        }
    }
    Ok(out)
}

fn judge(
    reference: &CaseEntry,
    expected: &Outputs,
    case: &CaseEntry,
    found: &Outputs,
    tolerance: Tolerance,
) -> Option<FindingRow> {
    if expected.is_empty() && found.is_empty() {
        // Backends that stand in for one have no outputs at all.
        return None;
    }
    let with = reference.key.to_string()[..8].to_owned();
    let unknown = |why: String| {
        let text = format!("outputs not compared with case {with}: {why}");
        Some(finding(OUTPUTS_NOT_COMPARED, text, Map::new()))
    };
    if found.is_empty() || expected.is_empty() {
        let whose = if found.is_empty() {
            "this case"
        } else {
            "the reference case"
        };
        return unknown(format!("{whose} has none"));
    }
    let is_integer = is_integer(&Case::from(&case.case));
    for (name, (hash, array)) in found {
        let Some((expected_hash, expected_array)) = expected.get(name) else {
            return unknown(format!("the reference case has no output `{name}`"));
        };
        if hash == expected_hash {
            continue;
        }
        let (Some(array), Some(expected_array)) = (array, expected_array) else {
            return unknown(format!("output `{name}` cannot be read"));
        };
        let Some(difference) = difference(array, expected_array) else {
            return wrong(
                name,
                &with,
                "it is of another type or shape".into(),
                json!({}),
            );
        };
        if !difference.is_within(tolerance, is_integer) {
            let figures = json!({
                "output": name,
                "reference": reference.key.to_string(),
                "cosine": difference.cosine,
                "max_abs_error": difference.max_abs,
                "range": difference.range,
            });
            return wrong(name, &with, difference.to_string(), figures);
        }
    }
    None
}

fn wrong(name: &str, with: &str, how: String, figures: Value) -> Option<FindingRow> {
    let text = format!("output {name} is not that of case {with}: {how}");
    let figures = figures.as_object().cloned().unwrap_or_default();
    Some(finding(WRONG_OUTPUTS, text, figures))
}

/// Whether the arithmetic is one of integers, which rounds coarsely by nature.
fn is_integer(case: &Case) -> bool {
    let precision = case.precision.as_deref();
    precision.is_some_and(|precision| precision.starts_with("int") || precision.starts_with('i'))
}

/// A finding of a rule that is stored and not worked out.
pub fn finding(code: &str, text: impl Into<String>, figures: Map<String, Value>) -> FindingRow {
    let rule = rules().find(|rule| rule.code == code);
    FindingRow {
        code: code.into(),
        level: rule.map_or(Level::Note, |rule| rule.level).name().into(),
        repeat: None,
        text: text.into(),
        figures,
    }
}
