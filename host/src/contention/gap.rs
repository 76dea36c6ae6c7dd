//! What idle time between trials costs: cases that differ in nothing but their gap.

use std::collections::BTreeMap;

use edgedyno_shared::case::Case;
use serde::Serialize;

use super::curve::Ratio;
use super::measured::{Measured, figures, ratios};
use super::recovery::Recovery;
use super::report::{Ask, Baseline, Figure, OfRepeat, Read, no_baseline};
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
    /// Without a gap.
    pub baseline: Baseline,
    pub points: Vec<GapPoint>,
    /// The board at the end, by repeats without a gap.
    pub recovery: Option<Recovery>,
}

/// One gap.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct GapPoint {
    pub case: String,
    pub gap_ms: f64,
    pub repeats: usize,
    pub valid_repeats: usize,
    pub valid: bool,
    pub marks: Vec<OfRepeat>,
    pub figures: BTreeMap<String, Figure>,
    /// Against no gap.
    pub slowdown: BTreeMap<String, Ratio>,
}

/// The axes that cases share, and each of them with its gap.
type Group<'a> = (BTreeMap<String, String>, Vec<(f64, &'a Read)>);

/// Every set of cases with gaps.
pub fn gaps(cases: &[Read], ask: &Ask) -> Vec<Gaps> {
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
        .filter_map(|(axes, of_group)| Gaps::of(axes, of_group, ask))
        .collect()
}

impl Gaps {
    fn of(axes: BTreeMap<String, String>, mut cases: Vec<(f64, &Read)>, ask: &Ask) -> Option<Self> {
        cases.sort_by(|a, b| a.0.total_cmp(&b.0));
        let (first, without) = *cases.first()?;
        if first != 0.0 || cases.len() < 2 {
            return None;
        }
        let without = Measured::of(without, ask);
        let point = |(gap_ms, read): &(f64, &Read)| {
            let mut measured = Measured::of(read, ask);
            // A clock that sleeps in the gaps is what is looked for.
            measured.note("clock_moved");
            GapPoint::of(*gap_ms, &measured, &without)
        };
        Some(Self {
            simulated: without.read.view.is_simulated(),
            points: cases.iter().skip(1).map(point).collect(),
            recovery: Recovery::of(&without),
            baseline: Baseline::of(&without),
            axes,
        })
    }
}

impl GapPoint {
    fn of(gap_ms: f64, measured: &Measured<'_>, without: &Measured<'_>) -> Self {
        let mut marks = measured.told();
        marks.extend((!without.is_valid()).then(no_baseline));
        Self {
            case: measured.key(),
            gap_ms,
            repeats: measured.repeats.len(),
            valid_repeats: measured.valid().len(),
            valid: measured.is_valid() && without.is_valid(),
            marks,
            figures: figures(measured),
            slowdown: ratios(without, measured),
        }
    }
}

#[cfg(test)]
mod tests {
    use edgedyno_shared::case::Case;
    use edgedyno_shared::device::Reading;
    use edgedyno_shared::telemetry::{Channel, ChannelKind, Fidelity, Samples};
    use edgedyno_shared::wire::record::Record as Wire;

    use super::super::recovery::Looks;
    use super::super::testing::{read, store, take};
    use super::*;
    use crate::plan::axes::case_key;
    use crate::store::sample::{self, MS};

    /// A gauge that had these values within every window.
    fn watched(name: &str, value: Vec<i64>) -> Vec<Wire> {
        vec![
            Wire::Channel(Channel {
                id: 77,
                name: name.into(),
                unit: "hz".into(),
                kind: ChannelKind::Gauge,
                source: String::new(),
                native_period: None,
                fidelity: Fidelity::Measured,
                period: None,
                probe: Reading::Ok("1".into()),
            }),
            Wire::Samples(Samples {
                channel: 77,
                at_ns: (0..value.len() as i64).map(|n| (150 + n) * MS).collect(),
                quality: vec![0; value.len()],
                value,
            }),
        ]
    }

    /// Rounds without a gap, and with one of 10 ms; what was watched beside each.
    fn gaps(rounds: &[u32], without: &[Wire], with: &[Wire]) -> Gaps {
        let (_dir, mut store) = store();
        let gapped = Case {
            parameters: vec![("gap".into(), "10ms".into())],
            ..sample::case()
        };
        let repeats = |rounds: &[u32], ms: i64| -> Vec<(u32, Vec<i64>)> {
            rounds.iter().map(|n| (*n, vec![ms * MS; 40])).collect()
        };
        let base = take(&mut store, &sample::case(), &repeats(rounds, 20), without);
        let gapped = take(&mut store, &gapped, &repeats(&[0, 1, 2], 30), with);
        let ask = Ask {
            recovery: Some(Looks::new(case_key(&sample::case()), 3)),
            ..Ask::default()
        };
        super::gaps(&[read(gapped), read(base)], &ask).remove(0)
    }

    #[test]
    fn a_clock_that_sleeps_in_the_gaps_is_told_and_counts() {
        let clock = watched("cpu.policy0.freq", vec![2_000, 1_000, 2_000]);
        let found = gaps(&[0, 1, 2, 3, 4], &[], &clock);
        let point = &found.points[0];
        assert_eq!((point.gap_ms, point.valid), (10.0, true));
        let moved = point.marks.iter().find(|of| of.mark.code == "clock_moved");
        assert!(
            moved.is_some_and(|of| !of.mark.invalid),
            "{:?}",
            point.marks
        );
        assert!((point.slowdown["latency_p50_ms"].ratio - 1.5).abs() < 1e-9);
        assert_eq!(found.baseline.repeats, 3);
        assert_eq!(found.recovery.unwrap().repeats, 2);
    }

    #[test]
    fn a_gap_that_was_measured_too_seldom_says_so() {
        let (_dir, mut store) = store();
        let gapped = Case {
            parameters: vec![("gap".into(), "10ms".into())],
            ..sample::case()
        };
        let repeats = |count: u32| -> Vec<(u32, Vec<i64>)> {
            (0..count).map(|n| (n, vec![20 * MS; 40])).collect()
        };
        let base = take(&mut store, &sample::case(), &repeats(3), &[]);
        let gapped = take(&mut store, &gapped, &repeats(1), &[]);
        let found = super::gaps(&[read(gapped), read(base)], &Ask::default()).remove(0);
        let point = &found.points[0];
        assert!(found.baseline.valid && !point.valid);
        let against = point.marks.iter().filter(|of| of.mark.invalid);
        let codes: Vec<&str> = against.map(|of| of.mark.code).collect();
        assert_eq!(codes, ["few_repeats"]);
    }

    #[test]
    fn without_anything_valid_to_compare_with_no_gap_is_valid() {
        let hot = watched("cool.thermal-cpufreq-0.state", vec![1, 1]);
        let found = gaps(&[0, 1, 2], &hot, &[]);
        assert!(!found.baseline.valid && found.recovery.is_none());
        let point = &found.points[0];
        assert_eq!((point.valid, point.valid_repeats), (false, 3));
        let codes: Vec<&str> = point.marks.iter().map(|of| of.mark.code).collect();
        assert!(codes.contains(&"baseline_invalid"), "{codes:?}");
    }
}
