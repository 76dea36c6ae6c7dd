//! From axes to points: product, zip, variants, exclude and include, each point once.

use std::collections::HashSet;

use super::{Definition, Filter, Point, fits};

/// Why the axes make no plan.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ExpandError {
    #[error("nothing is left to measure: every case is excluded")]
    Nothing,
    #[error("these axes make {0} cases; more than {MOST} are not planned")]
    TooMany(u128),
}

/// More cases than this are a slip of the finger.
pub const MOST: u128 = 1_000_000;

/// The points of a sweep, the first axis changing slowest.
pub fn expand(definition: &Definition) -> Result<Vec<Point>, ExpandError> {
    let groups = groups(definition);
    let cases = groups
        .iter()
        .fold(1_u128, |n, group| n.saturating_mul(group.len() as u128));
    if cases > MOST {
        return Err(ExpandError::TooMany(cases));
    }
    let mut points = product(&groups);
    points.retain(|point| !definition.exclude.iter().any(|out| fits(point, out)));
    for filter in &definition.include {
        points.extend(including(&groups, filter));
    }
    // A product of values that are there once has every point once.
    let is_unique = |group: &Vec<Point>| group.iter().collect::<HashSet<_>>().len() == group.len();
    if !definition.include.is_empty() || !groups.iter().all(is_unique) {
        let mut seen = HashSet::with_capacity(points.len());
        points.retain(|point| seen.insert(point.clone()));
    }
    match points.is_empty() {
        true => Err(ExpandError::Nothing),
        false => Ok(points),
    }
}

/// What varies independently: one axis, axes zipped together, or the variants.
fn groups(definition: &Definition) -> Vec<Vec<Point>> {
    let mut groups = Vec::new();
    if !definition.variants.is_empty() {
        let values = definition.variants.iter().map(|v| v.values.clone());
        groups.push(values.collect());
    }
    let mut zipped = HashSet::new();
    for axis in &definition.axes {
        let together = definition.zip.iter().find(|zip| zip.contains(&axis.name));
        match together {
            Some(zip) => {
                if zipped.insert(zip) {
                    groups.push(zip_group(definition, zip));
                }
            }
            None => {
                let one = |value: &String| Point::from([(axis.name.clone(), value.clone())]);
                groups.push(axis.values.iter().map(one).collect());
            }
        }
    }
    groups
}

fn zip_group(definition: &Definition, zip: &[String]) -> Vec<Point> {
    let axes = definition.axes.iter();
    let axes: Vec<_> = axes.filter(|axis| zip.contains(&axis.name)).collect();
    let length = axes.iter().map(|axis| axis.values.len()).min().unwrap_or(0);
    let at = |i: usize| {
        let values = axes.iter();
        values
            .map(|axis| (axis.name.clone(), axis.values[i].clone()))
            .collect()
    };
    (0..length).map(at).collect()
}

fn product(groups: &[Vec<Point>]) -> Vec<Point> {
    let mut points = vec![Point::new()];
    for group in groups {
        let with = |point: &Point| {
            let point = point.clone();
            group.iter().map(move |values| {
                let mut joined = point.clone();
                joined.extend(values.iter().map(|(k, v)| (k.clone(), v.clone())));
                joined
            })
        };
        points = points.iter().flat_map(with).collect();
    }
    points
}

/// The product with the values of the filter in place of those of its axes.
fn including(groups: &[Vec<Point>], filter: &Filter) -> Vec<Point> {
    let is_named = |group: &&Vec<Point>| {
        let first = group.first();
        first.is_some_and(|point| point.keys().any(|axis| filter.contains_key(axis)))
    };
    let mut groups: Vec<Vec<Point>> = groups.iter().filter(|g| !is_named(g)).cloned().collect();
    for (axis, values) in filter {
        let one = |value: &String| Point::from([(axis.clone(), value.clone())]);
        groups.push(values.iter().map(one).collect());
    }
    product(&groups)
}

#[cfg(test)]
pub(crate) mod tests {
    use proptest::prelude::*;

    use super::super::file;
    use super::*;
    use crate::plan::sweep::Axis;

    /// A plan file's definition.
    pub(crate) fn definition(text: &str) -> Definition {
        file::parse("plan.toml".as_ref(), text).unwrap()
    }

    fn short(points: &[Point]) -> Vec<String> {
        let values = |point: &Point| point.values().cloned().collect::<Vec<_>>().join(" ");
        points.iter().map(values).collect()
    }

    fn expanded(text: &str) -> Vec<String> {
        let text = format!("{text}\n[axes]\nthreads = [1, 2]\nbatch = [4, 8]\n");
        let mut points = expand(&definition(&format!("{text}model = 'm.onnx'"))).unwrap();
        points
            .iter_mut()
            .for_each(|point| drop(point.remove("model")));
        short(&points)
    }

    /// Values are shown by the names of their axes: batch, then threads.
    #[test]
    fn the_first_axis_changes_slowest() {
        assert_eq!(expanded(""), ["4 1", "8 1", "4 2", "8 2"]);
    }

    #[test]
    fn zipped_axes_change_together() {
        assert_eq!(expanded("zip = [['threads', 'batch']]"), ["4 1", "8 2"]);
    }

    #[test]
    fn what_is_excluded_is_left_out() {
        assert_eq!(
            expanded("exclude = [{threads = 2, batch = [4, 8]}]"),
            ["4 1", "8 1"]
        );
    }

    #[test]
    fn what_is_included_comes_on_top_and_once() {
        let found = expanded("include = [{threads = 4}, {threads = 1, batch = 4}]");
        assert_eq!(found, ["4 1", "8 1", "4 2", "8 2", "4 4", "8 4"]);
    }

    #[test]
    fn an_include_brings_back_what_was_excluded() {
        let found = expanded("exclude = [{threads = 2}]\ninclude = [{threads = 2, batch = 8}]");
        assert_eq!(found, ["4 1", "8 1", "8 2"]);
    }

    #[test]
    fn variants_set_several_axes_at_once() {
        let text = "[axes]\nmodel = 'm'\nbatch = [1, 2]\n[[variant]]\nname = 'a'\nthreads = 1\n\
                    [[variant]]\nname = 'b'\nthreads = 4\noption.x = 1";
        let points = expand(&definition(text)).unwrap();
        assert_eq!(short(&points), ["1 m 1", "2 m 1", "1 m 1 4", "2 m 1 4"]);
    }

    #[test]
    fn nothing_left_and_far_too_many_are_errors() {
        let text = "exclude = [{threads = 1}]\n[axes]\nmodel = 'm'\nthreads = 1";
        assert_eq!(expand(&definition(text)), Err(ExpandError::Nothing));
        let mut large = definition("[axes]\nmodel = 'm'");
        for name in ["threads", "batch", "inter_threads"] {
            large.axes.push(Axis {
                name: name.into(),
                values: (1..=200).map(|n| n.to_string()).collect(),
                ..Axis::default()
            });
        }
        assert_eq!(expand(&large), Err(ExpandError::TooMany(8_000_000)));
    }

    proptest! {
        #[test]
        fn the_product_has_every_combination_once(sizes in prop::collection::vec(1_usize..5, 1..4)) {
            let mut plan = definition("[axes]\nmodel = 'm'");
            for (name, size) in ["threads", "batch", "inter_threads"].iter().zip(&sizes) {
                plan.axes.push(Axis {
                    name: (*name).into(),
                    values: (1..=*size).map(|n| n.to_string()).collect(),
                    ..Axis::default()
                });
            }
            let points = expand(&plan).unwrap();
            let unique: HashSet<&Point> = points.iter().collect();
            prop_assert_eq!(points.len(), sizes.iter().product::<usize>());
            prop_assert_eq!(unique.len(), points.len());
            prop_assert!(points.iter().all(|point| point.len() == sizes.len() + 1));
            prop_assert_eq!(&expand(&plan).unwrap(), &points);
        }

        #[test]
        fn excluding_and_including_the_same_changes_only_the_order(threads in 1_u32..5, batch in 1_u32..5) {
            let base = "[axes]\nmodel = 'm'\nthreads = [1, 2, 3, 4]\nbatch = [1, 2, 3, 4]\n";
            let pair = format!("{{threads = {threads}, batch = {batch}}}");
            let text = format!("exclude = [{pair}]\ninclude = [{pair}]\n{base}");
            let found: HashSet<Point> = expand(&definition(&text)).unwrap().into_iter().collect();
            let all: HashSet<Point> = expand(&definition(base)).unwrap().into_iter().collect();
            prop_assert_eq!(found, all);
        }
    }
}
