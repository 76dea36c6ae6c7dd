//! Ladders whose axis is no traffic of the memory: over an option of another model, such as its quota of an
//! accelerator, and over the levels of a stressor that moves nothing through memory.

use edgedyno_shared::load::WorkUnit;
use serde::Serialize;

use super::achieved::Achieved;
use super::knee::Fit;
use super::levels::observed_at;
use super::measured::Measured;
use super::report::{Point, only_term};
use super::rounds::Observed;
use crate::plan::condition::{Condition, Level as Asked, Term};
use crate::view::RepeatView;

/// The levels of one option of one model, or of one stressor, all else alike.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Ladder {
    /// The condition without the option, or at full effort.
    pub condition: String,
    /// `option.KEY` of which model, or what the levels of which stressor are counted in.
    pub option: String,
    pub model: String,
    /// Ascending.
    pub levels: Vec<Level>,
    /// Of the slowdown of p50 over that value; none with too few levels.
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

/// One ladder for each option that has several values, and for each stressor that has several levels of its
/// own.
pub(super) fn ladders(
    loaded: &[&Measured<'_>],
    idle: &Measured<'_>,
    points: &[Point],
) -> Vec<Ladder> {
    let mut out = over_options(loaded, idle, points);
    out.extend(over_levels(loaded, idle, points));
    out
}

/// What the levels of a stressor are counted in that moves nothing through memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum OwnAxis {
    /// Percent of the time.
    Duty,
    /// 10⁶ bytes a second of the wall, of a disk or within caches.
    Rate(&'static str),
}

impl OwnAxis {
    fn of(term: &Term) -> Option<Self> {
        match term.kind.unit {
            WorkUnit::Operations => Some(Self::Duty),
            WorkUnit::Bytes if term.kind.waits() => Some(Self::Rate("disk_mb_per_second")),
            WorkUnit::Bytes if !term.kind.moves_memory() => Some(Self::Rate("cache_mb_per_second")),
            _ => None,
        }
    }

    const fn name(self) -> &'static str {
        match self {
            Self::Duty => "duty_percent",
            Self::Rate(name) => name,
        }
    }

    /// What was achieved in a repeat.
    fn reached(self, term: &Term, repeat: &RepeatView) -> Option<f64> {
        let achieved = Achieved::of(repeat.row.stress.first()?);
        match self {
            // At full effort it never rests.
            Self::Duty if term.level == Asked::Full => Some(100.0),
            Self::Duty => Some(achieved.duty? * 100.0),
            Self::Rate(_) => Some(achieved.per_wall_second? / 1e6),
        }
    }
}

/// Whether the levels of a stressor are no traffic of the memory, and make a ladder here.
pub(super) fn has_own_axis(term: &Term) -> bool {
    OwnAxis::of(term).is_some()
}

fn over_levels(loaded: &[&Measured<'_>], idle: &Measured<'_>, points: &[Point]) -> Vec<Ladder> {
    let mut out: Vec<Ladder> = Vec::new();
    for measured in loaded {
        let Some((term, axis)) = own_axis(measured) else {
            continue;
        };
        let condition = at_full_effort(term);
        if out.iter().any(|ladder| ladder.condition == condition) {
            continue;
        }
        let same = loaded.iter().zip(points).filter(|(other, _)| {
            own_axis(other).is_some_and(|(term, _)| at_full_effort(term) == condition)
        });
        let mut levels = Vec::new();
        let mut observed = Vec::new();
        for (other, point) in same {
            let Some(term) = only_term(&other.condition) else {
                continue;
            };
            let reached = |repeat: &RepeatView| axis.reached(term, repeat);
            // A level of which nobody knows what it was has no place on the axis.
            let Some(value) = other.mean(&reached) else {
                continue;
            };
            levels.push(Level {
                value,
                condition: point.condition.clone(),
                valid: point.valid,
            });
            if point.valid {
                observed.extend(observed_at(other, levels.len(), idle, &reached));
            }
        }
        levels.sort_by(|a, b| a.value.total_cmp(&b.value));
        let valid = levels.iter().filter(|level| level.valid).count();
        out.push(Ladder {
            option: axis.name().into(),
            model: term.kind.name.into(),
            fit: Fit::of(&observed).filter(|_| valid >= 2),
            levels,
            condition,
        });
    }
    out.retain(|ladder| ladder.levels.len() > 1);
    out
}

fn own_axis<'a>(measured: &'a Measured<'_>) -> Option<(&'a Term, OwnAxis)> {
    let term = only_term(&measured.condition)?;
    Some((term, OwnAxis::of(term)?))
}

fn at_full_effort(term: &Term) -> String {
    let mut term = term.clone();
    term.level = Asked::Full;
    term.to_string()
}

fn over_options(loaded: &[&Measured<'_>], idle: &Measured<'_>, points: &[Point]) -> Vec<Ladder> {
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
    use edgedyno_shared::load::StressWindow;
    use edgedyno_shared::units::Nanos;
    use edgedyno_shared::wire::record::Record;

    use super::super::limit::Limit;
    use super::super::report::{self, Ask, Read};
    use super::super::testing::{measure, read, store, used};
    use super::*;
    use crate::store::Store;
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

    /// A stressor of so many percent of the time, as its agent tells of it; each percent costs a thousandth.
    fn beside_arithmetic(store: &mut Store, percent: i64) -> Read {
        let full = percent == 100;
        let text = match full {
            true => "cpu_int:cpu1".to_owned(),
            false => format!("cpu_int:cpu1@{percent}%"),
        };
        let window = StressWindow {
            start: Nanos(0),
            end: Nanos(1_000 * MS),
            work: 7,
            cpu_time: Nanos(1_000 * MS),
            worked: (!full).then_some(Nanos(percent * 10 * MS)),
            run_delay: Some(Nanos(0)),
        };
        let used = used(&text, WorkUnit::Operations, window);
        let case = Case {
            condition: Named(text),
            ..sample::case()
        };
        let took = 20 * MS + 20 * MS * percent / 1_000;
        let more = [Record::Stress(Box::new(used))];
        read(measure(store, &case, &[took; 20], &more))
    }

    #[test]
    fn arithmetic_has_its_share_of_the_time_for_an_axis_and_no_traffic() {
        let (_dir, mut store) = store();
        let mut cases = vec![read(measure(
            &mut store,
            &sample::case(),
            &[20 * MS; 20],
            &[],
        ))];
        for percent in [50, 100, 25] {
            cases.push(beside_arithmetic(&mut store, percent));
        }
        let ask = Ask {
            slo: Some(Limit {
                metric: "latency_p50_ms".into(),
                ns: 21e6,
            }),
            ..Ask::default()
        };
        let found = report::experiments(&cases, &ask).remove(0);
        assert!(found.curves.is_empty(), "no GB/s: {:?}", found.curves);
        assert_eq!(found.ladders.len(), 1);
        let ladder = &found.ladders[0];
        let values: Vec<f64> = ladder.levels.iter().map(|level| level.value).collect();
        assert_eq!(values, [25.0, 50.0, 100.0]);
        assert_eq!(
            (ladder.option.as_str(), ladder.model.as_str()),
            ("duty_percent", "cpu_int")
        );
        assert_eq!(ladder.condition, "cpu_int:cpu1");
        let slope = ladder.fit.unwrap().slope.value;
        assert!((slope - 1e-3).abs() < 1e-9, "{slope}");
    }
}
