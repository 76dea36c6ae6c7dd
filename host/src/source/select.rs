//! Picking cases of a run: by the beginning of a key, or by axis=value pairs.

use std::collections::BTreeMap;

use edgedyno_shared::case::Case;

use crate::near;
use crate::plan::axes::axes;
use crate::store::rows::CaseEntry;

use super::SourceError;

/// Digits of a key that are shown; enough to be unique in any run.
const SHOWN: usize = 8;

/// A case as listed: the beginning of its key, and the axes in which the run's cases differ.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pick {
    pub key: String,
    pub axes: Vec<(String, String)>,
}

/// Cases that `wanted` names: `3fa9` or `threads=2,batch=1`; all without.
pub fn matching<'a>(
    cases: &'a [CaseEntry],
    wanted: Option<&str>,
) -> Result<Vec<&'a CaseEntry>, SourceError> {
    let Some(wanted) = wanted else {
        return Ok(cases.iter().collect());
    };
    let found: Vec<&CaseEntry> = match wanted.contains('=') {
        true => by_axes(cases, wanted)?,
        false => by_key(cases, wanted)?,
    };
    match found.is_empty() {
        true => Err(SourceError::NoSuchCase(wanted.into())),
        false => Ok(found),
    }
}

/// The one case that `wanted` names.
pub fn one<'a>(cases: &'a [CaseEntry], wanted: Option<&str>) -> Result<&'a CaseEntry, SourceError> {
    let found = matching(cases, wanted)?;
    match (found.as_slice(), wanted) {
        ([one], _) => Ok(one),
        ([], _) => Err(SourceError::NoCases),
        (several, Some(wanted)) => Err(SourceError::SeveralCases {
            wanted: wanted.into(),
            keys: several.iter().map(|case| short_key(case)).collect(),
        }),
        (several, None) => Err(SourceError::NeedsOneCase(
            several.iter().map(|case| short_key(case)).collect(),
        )),
    }
}

/// Cases as one line each: with more than one, only the axes in which they differ.
pub fn describe(cases: &[CaseEntry]) -> Vec<Pick> {
    let all: Vec<BTreeMap<String, String>> = cases.iter().map(axes_of).collect();
    let differs = |name: &str| all.iter().any(|axes| axes.get(name) != all[0].get(name));
    let pick = |(case, axes): (&CaseEntry, &BTreeMap<String, String>)| Pick {
        key: short_key(case),
        axes: axes
            .iter()
            .filter(|(name, _)| differs(name))
            .map(|(name, value)| (name.clone(), value.clone()))
            .collect(),
    };
    cases.iter().zip(&all).map(pick).collect()
}

/// The beginning of a case's key, as shown.
fn short_key(case: &CaseEntry) -> String {
    case.key.to_string()[..SHOWN].to_owned()
}

fn by_key<'a>(cases: &'a [CaseEntry], wanted: &str) -> Result<Vec<&'a CaseEntry>, SourceError> {
    let begins = |case: &&CaseEntry| case.key.to_string().starts_with(wanted);
    let found: Vec<&CaseEntry> = cases.iter().filter(begins).collect();
    match found.len() > 1 {
        true => Err(SourceError::SeveralCases {
            wanted: wanted.into(),
            keys: found.iter().map(|case| case.key.to_string()).collect(),
        }),
        false => Ok(found),
    }
}

fn by_axes<'a>(cases: &'a [CaseEntry], wanted: &str) -> Result<Vec<&'a CaseEntry>, SourceError> {
    let all: Vec<BTreeMap<String, String>> = cases.iter().map(axes_of).collect();
    let mut left: Vec<usize> = (0..cases.len()).collect();
    for pair in wanted.split(',') {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        let (name, value) = (name.trim(), value.trim());
        if !all.iter().any(|axes| axes.contains_key(name)) {
            return Err(unknown_axis(name, &all));
        }
        left.retain(|&i| all[i].get(name).is_some_and(|has| has == value));
    }
    Ok(left.into_iter().map(|i| &cases[i]).collect())
}

fn unknown_axis(wanted: &str, all: &[BTreeMap<String, String>]) -> SourceError {
    let mut names: Vec<&str> = all
        .iter()
        .flat_map(|axes| axes.keys())
        .map(String::as_str)
        .collect();
    names.sort_unstable();
    names.dedup();
    let near = near::matches(wanted, names.iter().copied());
    SourceError::NoSuchAxis {
        wanted: wanted.into(),
        near: match near.is_empty() {
            true => names.into_iter().map(str::to_owned).collect(),
            false => near,
        },
    }
}

fn axes_of(case: &CaseEntry) -> BTreeMap<String, String> {
    axes(&Case::from(&case.case)).into_iter().collect()
}
