//! Ladders over an option of another model, such as its quota of an accelerator: the option's value is the
//! axis.

use serde::Serialize;

use super::knee::Fit;
use super::levels::observed_at;
use super::measured::Measured;
use super::report::Point;
use super::rounds::Observed;
use crate::plan::condition::Condition;

/// The levels of one option of one model, all else alike.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Ladder {
    /// The condition without the option.
    pub condition: String,
    /// `option.KEY` of which model.
    pub option: String,
    pub model: String,
    /// Ascending.
    pub levels: Vec<Level>,
    /// Of the slowdown of p50 over the option's value; none with too few levels.
    pub fit: Option<Fit>,
}

/// One of them.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Level {
    pub value: f64,
    pub condition: String,
    pub valid: bool,
}

/// A number that an option of a model has, and the condition without it.
#[derive(Debug, Clone, PartialEq)]
struct Set {
    rest: String,
    option: String,
    model: String,
    value: f64,
}

/// Every option of a condition's models whose value is a number.
fn sets(condition: &Condition) -> Vec<Set> {
    let mut out = Vec::new();
    for (number, tenant) in condition.tenants.iter().enumerate() {
        for (key, value) in &tenant.options {
            let Some(value) = value.parse().ok().filter(|value: &f64| value.is_finite()) else {
                continue;
            };
            let mut rest = condition.clone();
            rest.tenants[number]
                .options
                .retain(|(other, _)| other != key);
            out.push(Set {
                rest: rest.to_string(),
                option: format!("option.{key}"),
                model: tenant.model.clone(),
                value,
            });
        }
    }
    out
}

/// One ladder for each option that has several values.
pub(super) fn ladders(
    loaded: &[&Measured<'_>],
    idle: &Measured<'_>,
    points: &[Point],
) -> Vec<Ladder> {
    let all = loaded.iter().zip(points);
    let all = all.flat_map(|(measured, point)| {
        let sets = sets(&measured.condition).into_iter();
        sets.map(move |set| (set, *measured, point))
    });
    let mut groups: Vec<Vec<(Set, &Measured<'_>, &Point)>> = Vec::new();
    for one in all {
        let is_same = |other: &Set| (&other.rest, &other.option) == (&one.0.rest, &one.0.option);
        match groups.iter_mut().find(|group| is_same(&group[0].0)) {
            Some(group) => group.push(one),
            None => groups.push(vec![one]),
        }
    }
    groups.retain(|group| group.len() > 1);
    groups.iter_mut().map(|group| ladder(group, idle)).collect()
}

fn ladder(group: &mut [(Set, &Measured<'_>, &Point)], idle: &Measured<'_>) -> Ladder {
    group.sort_by(|a, b| a.0.value.total_cmp(&b.0.value));
    let valid = || group.iter().filter(|(_, _, point)| point.valid);
    let observed: Vec<Observed> = valid()
        .enumerate()
        .flat_map(|(at, (set, measured, _))| observed_at(measured, at, idle, &|_| Some(set.value)))
        .collect();
    let level = |(set, _, point): &(Set, &Measured<'_>, &Point)| Level {
        value: set.value,
        condition: point.condition.clone(),
        valid: point.valid,
    };
    Ladder {
        condition: group[0].0.rest.clone(),
        option: group[0].0.option.clone(),
        model: group[0].0.model.clone(),
        fit: Fit::of(&observed).filter(|_| valid().count() >= 2),
        levels: group.iter().map(level).collect(),
    }
}

#[cfg(test)]
mod tests {
    use edgedyno_shared::case::{Case, Condition as Named, ModelRef};
    use edgedyno_shared::ids::Sha256;

    use super::super::report::{self, Ask};
    use super::super::testing::{measure, read, store};
    use super::*;
    use crate::store::sample::{self, MS};

    #[test]
    fn a_number_among_the_options_is_a_level_and_a_word_is_none() {
        let text = "mem_read:cpu1+model:b.onnx:cpu2/option.mode=fast/option.quota=25";
        let found = sets(&Condition::parse(text).unwrap());
        assert_eq!(found.len(), 1);
        assert_eq!(
            found[0].rest,
            "mem_read:cpu1+model:b.onnx:cpu2/option.mode=fast"
        );
        assert_eq!(
            (found[0].option.as_str(), found[0].value),
            ("option.quota", 25.0)
        );
    }

    /// Each percent of the other's quota costs this case a thousandth.
    #[test]
    fn a_quota_is_the_axis_of_its_ladder() {
        let (_dir, mut store) = store();
        let mut cases = vec![read(measure(
            &mut store,
            &sample::case(),
            &[20 * MS; 20],
            &[],
        ))];
        for quota in [75, 25, 50] {
            let condition = format!("model:b.onnx:cpu1/option.quota={quota}");
            let model = ModelRef {
                name: "b.onnx".into(),
                sha256: Sha256([9; 32]),
            };
            let term = Condition::parse(&condition).unwrap().tenants.remove(0);
            let case = Case {
                condition: Named(condition),
                tenants: vec![term.resolved(model, "onnxruntime", None)],
                ..sample::case()
            };
            let took = 20 * MS + 20 * MS * quota / 1_000;
            cases.push(read(measure(&mut store, &case, &[took; 20], &[])));
        }
        let experiments = report::experiments(&cases, &Ask::default());
        let found = &experiments[0].ladders;
        assert_eq!(found.len(), 1);
        let values: Vec<f64> = found[0].levels.iter().map(|level| level.value).collect();
        assert_eq!(values, [25.0, 50.0, 75.0]);
        assert_eq!(found[0].condition, "model:b.onnx:cpu1");
        let slope = found[0].fit.unwrap().slope.value;
        assert!((slope - 1e-3).abs() < 1e-9, "{slope}");
    }
}
