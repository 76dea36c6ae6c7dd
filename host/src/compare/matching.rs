//! Which arms belong together.

use std::collections::{BTreeMap, BTreeSet};

use super::arm::Arm;
use super::rule::Pairing;

/// Two arms to be compared.
#[derive(Debug, Clone, PartialEq)]
pub struct Pair {
    pub a: Arm,
    pub b: Arm,
    /// Axes in which they may differ, because that is what is compared.
    pub compared: Vec<String>,
    pub pairing: Pairing,
    /// Both are the same case, its repeats dealt out to two sides.
    pub halves: bool,
}

/// Arms brought together, and those without a counterpart.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Matched {
    pub pairs: Vec<Pair>,
    pub only_a: Vec<Arm>,
    pub only_b: Vec<Arm>,
}

/// An axis left out of matching: `backend=onnxruntime,openvino`, or its name alone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Between {
    pub axis: String,
    pub values: Vec<String>,
}

/// Why arms could not be brought together.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum MatchError {
    #[error("no case has the axis `{0}`")]
    NoSuchAxis(String),
    #[error("no case has {axis}={value}")]
    NoSuchValue {
        axis: String,
        value: String,
        known: Vec<String>,
    },
    #[error("axis `{axis}` has {} values, and two are compared", values.len())]
    NeedsValues { axis: String, values: Vec<String> },
    #[error("several cases match {0}")]
    Ambiguous(String),
    #[error("no case of the one is a case of the other")]
    NothingMatches { differing: Vec<String> },
    #[error("both sides are the same case of the same run")]
    Itself,
}

impl MatchError {
    pub fn hint(&self) -> String {
        match self {
            Self::NoSuchAxis(_) => "`edgedyno summary RUN` shows the axes of its cases".into(),
            Self::NoSuchValue { known, .. } => format!("it has {}", known.join(", ")),
            Self::NeedsValues { axis, values } => {
                format!(
                    "name them: --between {axis}={}",
                    values[..2.min(values.len())].join(",")
                )
            }
            Self::Ambiguous(_) => "name one case on each side: RUN/KEY".into(),
            Self::NothingMatches { differing } => match differing.as_slice() {
                [] => "name one case on each side: RUN/KEY".into(),
                [one] => format!("they differ in {one}: --between {one} compares across it"),
                several => format!(
                    "the nearest differ in {}; name one case on each side, RUN/KEY, to compare them",
                    several.join(", ")
                ),
            },
            Self::Itself => {
                "name two runs or two cases; --rerun measures a case against itself".into()
            }
        }
    }
}

impl Between {
    pub fn parse(text: &str) -> Result<Self, String> {
        let (axis, values) = text.split_once('=').unwrap_or((text, ""));
        let values: Vec<String> = values
            .split(',')
            .map(str::trim)
            .filter(|value| !value.is_empty())
            .map(str::to_owned)
            .collect();
        match (axis.trim(), values.len()) {
            ("", _) | (_, 1) => Err("an axis such as backend=rten,onnxruntime is needed".into()),
            (axis, _) => Ok(Self {
                axis: axis.to_owned(),
                values,
            }),
        }
    }

    /// A backend brings its own runtime and options, which are no other backend's.
    fn covers(&self, axis: &str) -> bool {
        let is_backend = self.axis == "backend";
        axis == self.axis || is_backend && (axis == "runtime" || axis.starts_with("option."))
    }
}

/// Cases of two runs by match key, or with an axis left out of it.
pub fn two_runs(
    a: Vec<Arm>,
    b: Vec<Arm>,
    between: Option<&Between>,
) -> Result<Matched, MatchError> {
    let (a, b) = match between.map(|between| (between, between.values.as_slice())) {
        Some((between, [of_a, of_b])) => (with(a, between, of_a)?, with(b, between, of_b)?),
        Some((between, values)) if values.len() > 2 => {
            return Err(needs_values(between, a.iter().chain(&b)));
        }
        _ => (a, b),
    };
    let index = by_identity(&b, between)?;
    let mut taken = BTreeSet::new();
    let mut matched = Matched::default();
    let mut seen = BTreeSet::new();
    let all_a = a.clone();
    for arm in a {
        let identity = identity(&arm, between);
        if !seen.insert(identity.clone()) {
            return Err(MatchError::Ambiguous(label(&arm)));
        }
        match index.get(&identity) {
            Some(&at) => {
                taken.insert(at);
                matched.pairs.push(pair(arm, b[at].clone(), between));
            }
            None => matched.only_a.push(arm),
        }
    }
    if matched.pairs.is_empty() {
        let differing = nearest(&all_a, &b);
        return Err(MatchError::NothingMatches { differing });
    }
    let left = b
        .into_iter()
        .enumerate()
        .filter(|(at, _)| !taken.contains(at));
    matched.only_b = left.map(|(_, arm)| arm).collect();
    Ok(matched)
}

/// One case on each side, named by the user: whatever differs between them is what is compared.
pub fn named(a: Arm, b: Arm) -> Result<Matched, MatchError> {
    if a.run == b.run && a.key == b.key {
        return Err(MatchError::Itself);
    }
    let pairs = vec![pair(a, b, None)];
    let pairs = pairs.into_iter().map(|pair| Pair {
        compared: differing(&pair.a, &pair.b),
        ..pair
    });
    Ok(Matched {
        pairs: pairs.collect(),
        ..Matched::default()
    })
}

/// Cases of one run that differ in one axis only: each further value against the first.
pub fn within(arms: &[Arm], between: &Between) -> Result<Matched, MatchError> {
    let mut known: Vec<String> = Vec::new();
    for value in arms.iter().filter_map(|arm| arm.axes.get(&between.axis)) {
        if !known.contains(value) {
            known.push(value.clone());
        }
    }
    if known.is_empty() {
        return Err(MatchError::NoSuchAxis(between.axis.clone()));
    }
    let values = match (between.values.as_slice(), known.len()) {
        ([], 2) => &known,
        ([], _) => return Err(needs_values(between, arms.iter())),
        _ => &between.values,
    };
    let mut all = Matched::default();
    let first = with(arms.to_vec(), between, &values[0])?;
    for value in &values[1..] {
        let other = with(arms.to_vec(), between, value)?;
        let wish = Between {
            axis: between.axis.clone(),
            values: Vec::new(),
        };
        let found = two_runs(first.clone(), other, Some(&wish))?;
        all.pairs.extend(found.pairs);
        all.only_a.extend(found.only_a);
        all.only_b.extend(found.only_b);
    }
    Ok(all)
}

fn needs_values<'a>(between: &Between, arms: impl Iterator<Item = &'a Arm>) -> MatchError {
    let values: BTreeSet<&String> = arms.filter_map(|arm| arm.axes.get(&between.axis)).collect();
    match values.is_empty() {
        true => MatchError::NoSuchAxis(between.axis.clone()),
        false => MatchError::NeedsValues {
            axis: between.axis.clone(),
            values: values.into_iter().cloned().collect(),
        },
    }
}

/// Arms with this value of the axis.
fn with(arms: Vec<Arm>, between: &Between, value: &str) -> Result<Vec<Arm>, MatchError> {
    let axis = &between.axis;
    let known: BTreeSet<String> = arms
        .iter()
        .filter_map(|arm| arm.axes.get(axis).cloned())
        .collect();
    if known.is_empty() {
        return Err(MatchError::NoSuchAxis(axis.clone()));
    }
    if !known.contains(value) {
        return Err(MatchError::NoSuchValue {
            axis: axis.clone(),
            value: value.into(),
            known: known.into_iter().collect(),
        });
    }
    let has = |arm: &Arm| arm.axes.get(axis).is_some_and(|of| of == value);
    Ok(arms.into_iter().filter(has).collect())
}

type Identity = BTreeMap<String, String>;

/// Axes by which an arm finds its counterpart.
fn identity(arm: &Arm, between: Option<&Between>) -> Identity {
    let kept = arm.axes.iter();
    let kept = kept.filter(|(name, _)| !between.is_some_and(|between| between.covers(name)));
    kept.map(|(name, value)| (name.clone(), value.clone()))
        .collect()
}

fn by_identity(
    arms: &[Arm],
    between: Option<&Between>,
) -> Result<BTreeMap<Identity, usize>, MatchError> {
    let mut index = BTreeMap::new();
    for (at, arm) in arms.iter().enumerate() {
        if index.insert(identity(arm, between), at).is_some() {
            return Err(MatchError::Ambiguous(label(arm)));
        }
    }
    Ok(index)
}

fn pair(a: Arm, b: Arm, between: Option<&Between>) -> Pair {
    let compared = match between {
        Some(between) => {
            let axes = differing(&a, &b).into_iter();
            axes.filter(|axis| between.covers(axis)).collect()
        }
        None => Vec::new(),
    };
    let pairing = match a.run == b.run && took_turns(&a, &b) {
        true => Pairing::Interleaved,
        false => Pairing::Separate,
    };
    Pair {
        a,
        b,
        compared,
        pairing,
        halves: false,
    }
}

/// Axes in which two arms differ.
fn differing(a: &Arm, b: &Arm) -> Vec<String> {
    let names: BTreeSet<&String> = a.axes.keys().chain(b.axes.keys()).collect();
    let differs = |name: &&String| a.axes.get(*name) != b.axes.get(*name);
    names.into_iter().filter(differs).cloned().collect()
}

/// The fewest axes in which an arm of the one side differs from one of the other.
fn nearest(a: &[Arm], b: &[Arm]) -> Vec<String> {
    let all = a
        .iter()
        .take(50)
        .flat_map(|a| b.iter().take(50).map(move |b| differing(a, b)));
    all.min_by_key(Vec::len).unwrap_or_default()
}

/// Whether the repeats of two arms of one run lie among each other, and not all of one before all of the
/// other. A clock that was not read leaves it to the run, which plans them in rounds.
fn took_turns(a: &Arm, b: &Arm) -> bool {
    let span = |arm: &Arm| {
        let times = || arm.repeats.iter().filter_map(|repeat| repeat.began_unix_ns);
        Some((times().min()?, times().max()?))
    };
    let (Some(a_span), Some(b_span)) = (span(a), span(b)) else {
        return true;
    };
    let is_one_round = a.repeats.len() < 2 || b.repeats.len() < 2;
    is_one_round || (a_span.0 <= b_span.1 && b_span.0 <= a_span.1)
}

/// An arm as an error names it.
fn label(arm: &Arm) -> String {
    format!("case {} of {}", &arm.key.to_string()[..8], arm.run)
}
