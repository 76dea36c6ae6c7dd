//! What idle time between trials costs: cases that differ in nothing but their gap.

use std::collections::BTreeMap;

use edgedyno_shared::case::Case;
use serde::Serialize;

use super::curve::{OfRound, Ratio, slowdown};
use super::report::{METRICS, Read};
use crate::compare::metric;
use crate::options::parse;
use crate::plan::axes::axes;

/// The axis of the gap.
const AXIS: &str = "parameter.gap";

/// Cases that share all but the gap, one of them without.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Gaps {
    /// What they share.
    pub axes: BTreeMap<String, String>,
    pub simulated: bool,
    pub points: Vec<GapPoint>,
}

/// One gap.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct GapPoint {
    pub case: String,
    pub gap_ms: f64,
    pub repeats: usize,
    /// Against no gap.
    pub slowdown: BTreeMap<String, Ratio>,
}

/// The axes that cases share, and each of them with its gap.
type Group<'a> = (BTreeMap<String, String>, Vec<(f64, &'a Read)>);

/// Every set of cases with gaps.
pub fn gaps(cases: &[Read]) -> Vec<Gaps> {
    let mut groups: Vec<Group<'_>> = Vec::new();
    for read in cases {
        let case = Case::from(&read.view.entry.case);
        let mut shared: BTreeMap<String, String> = axes(&case).into_iter().collect();
        let gap = shared.remove(AXIS).map_or(Some(0.0), |gap| {
            parse::span(&gap).ok().map(|gap| gap.0 as f64 / 1e6)
        });
        let Some(gap) = gap else { continue };
        match groups.iter_mut().find(|(axes, _)| *axes == shared) {
            Some((_, of_group)) => of_group.push((gap, read)),
            None => groups.push((shared, vec![(gap, read)])),
        }
    }
    groups
        .into_iter()
        .filter_map(|(axes, of_group)| Gaps::of(axes, of_group))
        .collect()
}

impl Gaps {
    fn of(axes: BTreeMap<String, String>, mut cases: Vec<(f64, &Read)>) -> Option<Self> {
        cases.sort_by(|a, b| a.0.total_cmp(&b.0));
        let (first, without) = *cases.first()?;
        if first != 0.0 || cases.len() < 2 {
            return None;
        }
        let point = |(gap_ms, read): &(f64, &Read)| GapPoint {
            case: read.view.entry.key.to_string(),
            gap_ms: *gap_ms,
            repeats: read.view.counting().count(),
            slowdown: ratios(without, read),
        };
        Some(Self {
            simulated: without.view.is_simulated(),
            points: cases.iter().skip(1).map(point).collect(),
            axes,
        })
    }
}

fn ratios(without: &Read, with: &Read) -> BTreeMap<String, Ratio> {
    let metrics = METRICS.iter().filter_map(|name| metric::find(name).ok());
    let figures = |read: &Read, metric: &metric::Metric| -> Vec<OfRound> {
        let of_repeat = |repeat: &crate::view::RepeatView| {
            Some(OfRound {
                round: repeat.row.key.repeat,
                value: (metric.of)(repeat)?,
            })
        };
        read.view.counting().filter_map(of_repeat).collect()
    };
    metrics
        .filter_map(|metric| {
            let ratio = slowdown(&figures(without, metric), &figures(with, metric))?;
            Some((metric.name.to_owned(), ratio))
        })
        .collect()
}
