//! Which condition slows the model most, and what cannot be told from it.

use serde::Serialize;

use super::curve::slowdown;
use super::measured::Measured;
use super::report::{METRICS, Point, is_spin};
use crate::compare::metric;

/// The slowest of several conditions. That it is the largest of so many figures flatters it: chance made a
/// part of its distance.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Slowest {
    pub condition: String,
    /// Valid conditions that it is the slowest of, itself among them.
    pub of: usize,
    /// Those that it is not surely slower than, paired by round; the slowest first.
    pub not_separable: Vec<String>,
}

impl Slowest {
    /// Among stressors; among conditions with other models where there are no others. A control is none.
    pub(super) fn of(loaded: &[&Measured<'_>], points: &[Point]) -> Option<Self> {
        let ratio = |point: &Point| point.slowdown.get(METRICS[0]).map(|ratio| ratio.ratio);
        let known = loaded.iter().zip(points);
        let known = known.filter(|(measured, point)| {
            point.valid && !is_spin(&measured.condition) && ratio(point).is_some()
        });
        let known: Vec<(&Measured<'_>, &Point)> = known.map(|(m, point)| (*m, point)).collect();
        let alone = known.iter().copied();
        let alone = alone.filter(|(measured, _)| measured.condition.tenants.is_empty());
        let mut all: Vec<(&Measured<'_>, &Point)> = alone.collect();
        if all.is_empty() {
            all = known;
        }
        all.sort_by(|a, b| {
            ratio(b.1)
                .unwrap_or(0.0)
                .total_cmp(&ratio(a.1).unwrap_or(0.0))
        });
        let (first, rest) = all.split_first()?;
        let near = rest.iter().filter(|other| !is_slower(first.0, other.0));
        Some(Self {
            condition: first.1.condition.clone(),
            of: all.len(),
            not_separable: near.map(|(_, point)| point.condition.clone()).collect(),
        })
    }
}

/// Whether p50 of one is surely above that of another.
fn is_slower(first: &Measured<'_>, other: &Measured<'_>) -> bool {
    let Ok(p50) = metric::find(METRICS[0]) else {
        return false;
    };
    let ratio = slowdown(&other.figures(p50), &first.figures(p50));
    let interval = ratio.and_then(|ratio| ratio.ci95);
    interval.is_some_and(|(low, _)| low > 1.0)
}

#[cfg(test)]
mod tests {
    use edgedyno_shared::case::{Case, Condition};

    use super::super::report::{self, Ask};
    use super::super::testing::{read, store, take};
    use crate::store::sample::{self, MS};

    #[test]
    fn what_the_slowest_is_not_told_from_is_named_and_a_control_is_never_it() {
        let (_dir, mut store) = store();
        let mut measured = |condition: &str, ms: [i64; 3]| {
            let case = Case {
                condition: Condition(condition.into()),
                ..sample::case()
            };
            let rounds = (0..).zip(ms).map(|(n, ms)| (n, vec![ms * MS; 40]));
            read(take(&mut store, &case, &rounds.collect::<Vec<_>>(), &[]))
        };
        let cases = [
            measured("idle", [20, 21, 20]),
            measured("spin:cpu1", [90, 91, 90]),
            measured("mem_copy:cpu1", [30, 33, 30]),
            measured("mem_read:cpu1", [31, 30, 29]),
            measured("chase:cpu1", [21, 22, 21]),
        ];
        let found = report::experiments(&cases, &Ask::default()).remove(0);
        let slowest = found.slowest.unwrap();
        assert_eq!(slowest.condition, "mem_copy:cpu1");
        assert_eq!(slowest.of, 3);
        assert_eq!(slowest.not_separable, ["mem_read:cpu1"]);
        assert_eq!(found.worst.as_deref(), Some("mem_copy:cpu1"));
    }
}
