//! A contention experiment as read from a run: the cases that differ in nothing but their condition.

use std::collections::BTreeMap;

use edgedyno_shared::case::Case;
use serde::Serialize;
use serde_json::{Value, json};

use super::achieved::{Achieved, bytes_per_cpu_second, bytes_per_second, moves_memory};
use super::axis::XAxis;
use super::curve::{OfRound, Ratio, centre, slowdown};
use super::gap::Gaps;
use super::ladder::{Ladder, ladders};
use super::levels::{Curve, curves};
use super::limit::{Asked, Limit};
use super::tenant::{self, Efficiency, TenantPoint};
use super::traffic;
use super::validity::{Mark, marks};
use crate::compare::metric::{self, Metric};
use crate::plan::axes::axes;
use crate::plan::condition::{Condition, Level, Term};
use crate::stats::ratio::LogRatio;
use crate::view::{CaseView, RepeatView};

/// Names the form of the document.
pub const DOCUMENT: &str = "edgedyno/contention/1";

/// Figures that are followed. The first is the one that curves are drawn of.
pub const METRICS: [&str; 3] = ["latency_p50_ms", "latency_p95_ms", "latency_p99_ms"];

/// The same for the accelerator's own time, where a backend tells it.
pub const DEVICE: &str = "device_p50_ms";

/// A recovery that differs by less is none worth a word.
const LEAST_DRIFT: f64 = 0.01;

/// Fewer valid repeats make no point.
const FEWEST_REPEATS: usize = 2;

/// What is asked beside the curve.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Ask {
    pub slo: Option<Limit>,
    /// Repeats at the end of the plan that only look whether the board is what it was.
    pub recovery: usize,
}

/// A case and, where its backend tells them, the accelerator's medians of its repeats in nanoseconds.
pub struct Read {
    pub view: CaseView,
    pub device: Vec<OfRound>,
}

/// Cases that differ in nothing but their condition.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Experiment {
    /// What they share.
    pub axes: BTreeMap<String, String>,
    pub simulated: bool,
    /// What GB/s are here.
    pub x_axis: XAxis,
    /// The same in one sentence.
    pub currency: &'static str,
    pub baseline: Baseline,
    pub points: Vec<Point>,
    pub curves: Vec<Curve>,
    /// Over options of other models.
    pub ladders: Vec<Ladder>,
    pub recovery: Option<Recovery>,
    /// Condition of the valid point that slows p50 most.
    pub worst: Option<String>,
    /// What conditions say of the limit, where one was asked for.
    pub slo: Option<Asked>,
}

/// The idle board.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Baseline {
    pub case: String,
    pub repeats: usize,
    /// Bytes a second that the memory controllers moved, where they are counted.
    pub traffic_bps: Option<f64>,
    pub figures: BTreeMap<String, Figure>,
}

/// A figure in milliseconds with its 95 % interval over repeats.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Figure {
    pub ms: f64,
    pub ci95: Option<(f64, f64)>,
}

/// One condition.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Point {
    pub case: String,
    pub condition: String,
    /// Share of the calibrated maximum asked for, if it was one; 1 at full effort.
    pub share: Option<f64>,
    /// Bytes a second asked for.
    pub target_bps: Option<f64>,
    /// Where it stands on the x axis.
    pub x_bps: Option<f64>,
    /// Bytes a second of the stressors by their own count, by the wall.
    pub achieved_bps: Option<f64>,
    /// The same for each second of the stressors' CPU time.
    pub achieved_per_cpu_second_bps: Option<f64>,
    /// Bytes a second that the memory controllers moved for everybody, where they are counted.
    pub traffic_bps: Option<f64>,
    pub repeats: usize,
    pub valid_repeats: usize,
    pub valid: bool,
    pub marks: Vec<OfRepeat>,
    pub figures: BTreeMap<String, Figure>,
    /// Against the idle board.
    pub slowdown: BTreeMap<String, Ratio>,
    /// Against the same CPUs kept busy with nothing.
    pub over_spin: BTreeMap<String, Ratio>,
    /// Other models of the condition.
    pub tenants: Vec<TenantPoint>,
    /// How well all models share the board; none without others, or where one was not measured alone.
    pub efficiency: Option<Efficiency>,
}

/// A mark and the repeat that has it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct OfRepeat {
    pub repeat: u32,
    #[serde(flatten)]
    pub mark: Mark,
}

/// Whether the board at the end was that of the experiment.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Recovery {
    /// p50 of the last idle repeats over that of those between the loads.
    pub ratio: f64,
    pub ci95: Option<(f64, f64)>,
    pub repeats: usize,
    pub recovered: bool,
}

/// Every experiment of these cases.
pub fn experiments(cases: &[Read], ask: &Ask) -> Vec<Experiment> {
    let mut groups: Vec<(BTreeMap<String, String>, Vec<&Read>)> = Vec::new();
    for read in cases {
        let case = Case::from(&read.view.entry.case);
        let mut shared: BTreeMap<String, String> = axes(&case).into_iter().collect();
        shared.remove("condition");
        match groups.iter_mut().find(|(axes, _)| *axes == shared) {
            Some((_, of_group)) => of_group.push(read),
            None => groups.push((shared, vec![read])),
        }
    }
    let groups = groups.into_iter();
    groups
        .filter_map(|(axes, of_group)| Experiment::of(axes, &of_group, cases, ask))
        .collect()
}

/// The document that exports and `--json` give.
pub fn document(run: &str, experiments: &[Experiment], gaps: &[Gaps]) -> Value {
    json!({
        "document": DOCUMENT,
        "run": run,
        "experiments": serde_json::to_value(experiments).unwrap_or_default(),
        "gaps": serde_json::to_value(gaps).unwrap_or_default(),
    })
}

/// What is read of one case.
pub(super) struct Measured<'a> {
    read: &'a Read,
    pub(super) condition: Condition,
    /// Repeats that count, without those of the recovery.
    pub(super) repeats: Vec<&'a RepeatView>,
    marks: Vec<OfRepeat>,
}

impl<'a> Measured<'a> {
    fn of(read: &'a Read, recovery: usize) -> Self {
        let condition = Condition::parse(&read.view.entry.case.condition).unwrap_or_default();
        let mut repeats: Vec<&RepeatView> = read.view.counting().collect();
        repeats.sort_by_key(|repeat| repeat.row.key.repeat);
        let keep = match condition.is_idle() {
            true => repeats.len().saturating_sub(recovery),
            false => repeats.len(),
        };
        repeats.truncate(keep);
        let marks = repeats.iter().flat_map(|repeat| {
            let number = repeat.row.key.repeat;
            marks(repeat).into_iter().map(move |mark| OfRepeat {
                repeat: number,
                mark,
            })
        });
        Self {
            read,
            condition,
            marks: marks.collect(),
            repeats,
        }
    }

    fn is_valid(&self, repeat: &RepeatView) -> bool {
        let number = repeat.row.key.repeat;
        let mut of_repeat = self.marks.iter().filter(|mark| mark.repeat == number);
        !of_repeat.any(|mark| mark.mark.invalid)
    }

    pub(super) fn valid(&self) -> Vec<&'a RepeatView> {
        let repeats = self.repeats.iter().copied();
        repeats.filter(|repeat| self.is_valid(repeat)).collect()
    }

    /// Repeats that figures are made of: the valid ones, or all where too few are.
    fn counted(&self) -> Vec<&'a RepeatView> {
        let valid = self.valid();
        match valid.len() >= FEWEST_REPEATS {
            true => valid,
            false => self.repeats.clone(),
        }
    }

    /// The mean over the repeats that figures are made of; none where one of them has none.
    fn mean(&self, of: &dyn Fn(&RepeatView) -> Option<f64>) -> Option<f64> {
        let counted = self.counted();
        let values: Option<Vec<f64>> = counted.iter().map(|repeat| of(repeat)).collect();
        crate::stats::mean::arithmetic(&values?)
    }

    pub(super) fn figures(&self, metric: &Metric) -> Vec<OfRound> {
        let of_repeat = |repeat: &&RepeatView| {
            Some(OfRound {
                round: repeat.row.key.repeat,
                value: (metric.of)(repeat)?,
            })
        };
        self.counted().iter().filter_map(of_repeat).collect()
    }

    fn device(&self) -> Vec<OfRound> {
        let counted = self.counted();
        let is_counted = |of: &&OfRound| counted.iter().any(|r| r.row.key.repeat == of.round);
        self.read
            .device
            .iter()
            .filter(is_counted)
            .copied()
            .collect()
    }

    /// Every figure that is followed, by name.
    fn all(&self) -> Vec<(String, Vec<OfRound>)> {
        let metrics = METRICS.iter().filter_map(|name| metric::find(name).ok());
        let mut all: Vec<(String, Vec<OfRound>)> = metrics
            .map(|metric| (metric.name.to_owned(), self.figures(metric)))
            .collect();
        all.push((DEVICE.to_owned(), self.device()));
        all.retain(|(_, values)| !values.is_empty());
        all
    }

    fn key(&self) -> String {
        self.read.view.entry.key.to_string()
    }
}

fn in_ms(values: &[OfRound]) -> Option<Figure> {
    let values: Vec<f64> = values.iter().map(|of| of.value).collect();
    let (point, interval) = centre(&values)?;
    Some(Figure {
        ms: point / 1e6,
        ci95: interval.map(|(low, high)| (low / 1e6, high / 1e6)),
    })
}

pub(super) fn figures(measured: &Measured<'_>) -> BTreeMap<String, Figure> {
    let all = measured.all().into_iter();
    all.filter_map(|(name, values)| Some((name, in_ms(&values)?)))
        .collect()
}

/// Ratios of all figures of `loaded` over those of `without`.
fn ratios(without: &Measured<'_>, loaded: &Measured<'_>) -> BTreeMap<String, Ratio> {
    let base: BTreeMap<String, Vec<OfRound>> = without.all().into_iter().collect();
    let all = loaded.all().into_iter();
    all.filter_map(|(name, values)| Some((name.clone(), slowdown(base.get(&name)?, &values)?)))
        .collect()
}

impl Experiment {
    fn of(
        axes: BTreeMap<String, String>,
        own: &[&Read],
        cases: &[Read],
        ask: &Ask,
    ) -> Option<Self> {
        let measured = own.iter().map(|read| Measured::of(read, ask.recovery));
        let measured: Vec<Measured<'_>> = measured.collect();
        let idle = measured
            .iter()
            .find(|m| m.condition.is_idle() && !m.repeats.is_empty())?;
        let loaded: Vec<&Measured<'_>> =
            measured.iter().filter(|m| !m.condition.is_idle()).collect();
        if loaded.is_empty() {
            return None;
        }
        let x = XAxis::of_repeats(measured.iter().flat_map(|m| m.repeats.iter().copied()));
        let points: Vec<Point> = loaded
            .iter()
            .map(|m| Point::of(m, idle, &measured, cases, x))
            .collect();
        let worst = points.iter().filter(|point| point.valid);
        let worst = worst.filter_map(|p| Some((p, p.slowdown.get(METRICS[0])?.ratio)));
        let worst = worst.max_by(|a, b| a.1.total_cmp(&b.1));
        let asked = |limit: &Limit| {
            let base = Point::of(idle, idle, &[], &[], x);
            Asked::of(limit, std::iter::once(&base).chain(&points))
        };
        Some(Self {
            slo: ask.slo.as_ref().map(asked),
            curves: curves(&loaded, idle, &points, x, ask),
            ladders: ladders(&loaded, idle, &points),
            recovery: recovery(idle, ask.recovery),
            worst: worst.map(|(point, _)| point.condition.clone()),
            simulated: idle.read.view.is_simulated(),
            x_axis: x,
            currency: x.currency(),
            baseline: Baseline {
                case: idle.key(),
                repeats: idle.repeats.len(),
                traffic_bps: idle.mean(&traffic::bytes_per_second),
                figures: figures(idle),
            },
            axes,
            points,
        })
    }
}

impl Point {
    pub(super) fn of(
        measured: &Measured<'_>,
        idle: &Measured<'_>,
        all: &[Measured<'_>],
        cases: &[Read],
        x: XAxis,
    ) -> Self {
        let valid = measured.valid();
        let counted = measured.counted();
        let paced = |repeat: &RepeatView| {
            let rows = &repeat.row.stress;
            bytes_per_cpu_second(rows).filter(|_| is_counted(repeat))
        };
        let case = Case::from(&measured.read.view.entry.case);
        let spin = all.iter().find(|other| is_control(other, measured));
        Self {
            case: measured.key(),
            condition: measured.condition.to_string(),
            share: share(&measured.condition),
            target_bps: counted.first().and_then(|repeat| target(repeat)),
            x_bps: measured.mean(&|repeat| x.of(repeat)),
            achieved_bps: measured.mean(&moved),
            achieved_per_cpu_second_bps: measured.mean(&paced),
            traffic_bps: measured.mean(&traffic::bytes_per_second),
            repeats: measured.repeats.len(),
            valid_repeats: valid.len(),
            // The load of most repeats was what it was meant to be.
            valid: valid.len() >= FEWEST_REPEATS && 2 * valid.len() > measured.repeats.len(),
            marks: measured.marks.clone(),
            figures: figures(measured),
            slowdown: ratios(idle, measured),
            over_spin: spin.map(|spin| ratios(spin, measured)).unwrap_or_default(),
            tenants: tenant::points(&case, &counted, cases),
            efficiency: tenant::efficiency(&case, &idle.counted(), &counted, cases),
        }
    }
}

/// Bytes a second of a repeat's load; what another model moves nobody counts.
pub(super) fn moved(repeat: &RepeatView) -> Option<f64> {
    bytes_per_second(&repeat.row.stress).filter(|_| is_counted(repeat))
}

fn is_counted(repeat: &RepeatView) -> bool {
    repeat.row.tenants.is_empty() || !repeat.row.stress.is_empty()
}

/// Whether a case keeps the same CPUs busy with nothing.
pub(super) fn is_control(other: &Measured<'_>, loaded: &Measured<'_>) -> bool {
    let cpus = |condition: &Condition| {
        let mut cpus: Vec<u16> = condition.cpus().collect();
        cpus.sort_unstable();
        cpus
    };
    is_spin(&other.condition)
        && !is_spin(&loaded.condition)
        && cpus(&other.condition) == cpus(&loaded.condition)
}

pub(super) fn is_spin(condition: &Condition) -> bool {
    let spins = condition.terms.iter().all(|term| term.kind.name == "spin");
    spins && !condition.is_idle() && condition.tenants.is_empty()
}

fn share(condition: &Condition) -> Option<f64> {
    match only_term(condition) {
        Some(term) => match term.level {
            Level::Full => Some(1.0),
            Level::Share(ppm) => Some(f64::from(ppm) / 1e6),
            Level::PerSecond(_) => None,
        },
        None => None,
    }
}

/// The stressor of a condition that has nothing else.
pub(super) fn only_term(condition: &Condition) -> Option<&Term> {
    match condition.terms.as_slice() {
        [term] if condition.tenants.is_empty() => Some(term),
        _ => None,
    }
}

fn target(repeat: &RepeatView) -> Option<f64> {
    let rows = repeat.row.stress.iter().filter(|row| moves_memory(row));
    let rows = rows.map(Achieved::of);
    let targets: Option<Vec<f64>> = rows.map(|achieved| achieved.target_per_second).collect();
    targets.map(|all| all.iter().sum()).filter(|sum| *sum > 0.0)
}

/// The last idle repeats against those between the loads.
fn recovery(idle: &Measured<'_>, count: usize) -> Option<Recovery> {
    let p50 = metric::find(METRICS[0]).ok()?;
    let mut all: Vec<&RepeatView> = idle.read.view.counting().collect();
    all.sort_by_key(|repeat| repeat.row.key.repeat);
    let value = |repeat: &&RepeatView| (p50.of)(repeat);
    let (between, last) = all.split_at(all.len().checked_sub(count)?);
    let between: Vec<f64> = between.iter().filter_map(value).collect();
    let last: Vec<f64> = last.iter().filter_map(value).collect();
    let ratio = LogRatio::welch(&between, &last)?;
    let half = ratio.half_width(0.95);
    let is_other = half.is_some_and(|half| ratio.point.abs() > half.max(LEAST_DRIFT));
    Some(Recovery {
        ratio: ratio.point.exp(),
        ci95: half.map(|half| ((ratio.point - half).exp(), (ratio.point + half).exp())),
        repeats: last.len(),
        recovered: !is_other,
    })
}
