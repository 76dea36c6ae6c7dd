//! A contention experiment as read from a run: the cases that differ in nothing but their condition.

use std::collections::BTreeMap;

use edgedyno_shared::case::Case;
use serde::Serialize;
use serde_json::{Value, json};

use super::achieved::{Achieved, bytes_per_cpu_second, bytes_per_second, moves_memory};
use super::axis::XAxis;
use super::clocks::{self, Idle};
use super::curve::{OfRound, Ratio};
use super::ladder::{Ladder, ladders};
use super::levels::{Curve, curves};
use super::limit::{Asked, Limit};
use super::measured::{Measured, figures, of_calibrated, ratios};
use super::read::Found;
use super::recovery::{Looks, Recovery};
use super::tenant::{self, Efficiency, TenantPoint};
use super::traffic;
use super::trials::Worth;
use super::validity::Mark;
use super::verdict::Verdict;
use super::worst::Slowest;
use crate::plan::axes::axes;
use crate::plan::condition::{Ceilings, Condition, Level, Term};
use crate::view::{CaseView, RepeatView};

/// Names the form of the document.
pub const DOCUMENT: &str = "edgedyno/contention/1";

/// Figures that are followed. The first is the one that curves are drawn of.
pub const METRICS: [&str; 3] = ["latency_p50_ms", "latency_p95_ms", "latency_p99_ms"];

/// The same with the mean beside them.
pub(super) const FOLLOWED: [&str; 4] = [METRICS[0], METRICS[1], METRICS[2], "latency_mean_ms"];

/// The same for the accelerator's own time, where a backend tells it.
pub const DEVICE: &str = "device_p50_ms";

/// What is asked beside the curve.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Ask {
    pub slo: Option<Limit>,
    /// Repeats at the end of the plan that only look whether the board is what it was.
    pub recovery: Option<Looks>,
    /// What stressors were calibrated at.
    pub ceilings: Ceilings,
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
    /// Condition of the valid point that slows p50 most; control and other models are none.
    pub worst: Option<String>,
    /// The same with what cannot be told from it.
    pub slowest: Option<Slowest>,
    pub verdict: Verdict,
    /// What conditions say of the limit, where one was asked for.
    pub slo: Option<Asked>,
}

/// The idle board.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Baseline {
    pub case: String,
    pub repeats: usize,
    pub valid_repeats: usize,
    /// Without it no point is valid.
    pub valid: bool,
    pub marks: Vec<OfRepeat>,
    /// Bytes a second that the memory controllers moved, where they are counted.
    pub traffic_bps: Option<f64>,
    /// Mean clock of what the model ran on.
    pub engine_freq_hz: Option<f64>,
    /// Mean of the hottest sensor.
    pub temp_c: Option<f64>,
    pub figures: BTreeMap<String, Figure>,
}

/// A figure in milliseconds with its 95 % interval over repeats.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Figure {
    pub ms: f64,
    pub ci95: Option<(f64, f64)>,
    /// What the trials behind a percentile are worth; none of what is no percentile of trials.
    pub trials: Option<Worth>,
}

impl Figure {
    /// Why it is not to be claimed, though it is shown.
    pub fn lack(&self, metric: &str) -> Option<String> {
        self.trials?.lack(metric)
    }
}

/// One condition.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Point {
    pub case: String,
    pub condition: String,
    /// Share of the calibrated maximum asked for, if it was one; 1 at full effort.
    pub share: Option<f64>,
    /// What it did, by its CPU time, as a share of what it was calibrated at; none where it was not.
    pub achieved_of_calibrated: Option<f64>,
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
    /// Mean clock of what the model ran on, over the windows.
    pub engine_freq_hz: Option<f64>,
    /// Mean of the hottest sensor over the windows, in °C.
    pub temp_c: Option<f64>,
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

/// A mark and the repeat that has it; none where it is of all of them.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct OfRepeat {
    pub repeat: Option<u32>,
    #[serde(flatten)]
    pub mark: Mark,
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
pub fn document(found: &Found) -> Value {
    json!({
        "document": DOCUMENT,
        "run": found.run,
        "incomplete": serde_json::to_value(&found.incomplete).unwrap_or_default(),
        "experiments": serde_json::to_value(&found.experiments).unwrap_or_default(),
        "gaps": serde_json::to_value(&found.gaps).unwrap_or_default(),
    })
}

impl Experiment {
    fn of(
        axes: BTreeMap<String, String>,
        own: &[&Read],
        cases: &[Read],
        ask: &Ask,
    ) -> Option<Self> {
        let measured = own.iter().map(|read| Measured::of(read, ask));
        let mut measured: Vec<Measured<'_>> = measured.collect();
        let at = measured
            .iter()
            .position(|m| m.condition.is_idle() && !m.repeats.is_empty())?;
        let clocks = Idle::of(&measured[at].counted());
        for loaded in measured.iter_mut().filter(|m| !m.condition.is_idle()) {
            loaded.hold_against(&clocks);
        }
        let idle = &measured[at];
        let loaded: Vec<&Measured<'_>> =
            measured.iter().filter(|m| !m.condition.is_idle()).collect();
        if loaded.is_empty() {
            return None;
        }
        let all = measured.iter().flat_map(|m| m.repeats.iter().copied());
        let of = Frame {
            idle,
            all: &measured,
            cases,
            x: XAxis::of_repeats(all),
            ask,
        };
        let points: Vec<Point> = loaded.iter().map(|m| Point::of(m, &of)).collect();
        let slowest = Slowest::of(&loaded, &points);
        let recovery = Recovery::of(idle);
        let asked = |limit: &Limit| {
            let base = Point::of(idle, &of);
            Asked::of(limit, std::iter::once(&base).chain(&points))
        };
        Some(Self {
            slo: ask.slo.as_ref().map(asked),
            curves: curves(&loaded, &points, &of),
            ladders: ladders(&loaded, idle, &points),
            worst: slowest.as_ref().map(|slowest| slowest.condition.clone()),
            slowest,
            verdict: Verdict::of(idle.is_valid(), &points, recovery.as_ref()),
            recovery,
            simulated: idle.read.view.is_simulated(),
            x_axis: of.x,
            currency: of.x.currency(),
            baseline: Baseline::of(idle),
            axes,
            points,
        })
    }
}

impl Baseline {
    pub(super) fn of(idle: &Measured<'_>) -> Self {
        Self {
            case: idle.key(),
            repeats: idle.repeats.len(),
            valid_repeats: idle.valid().len(),
            valid: idle.is_valid(),
            marks: idle.told(),
            traffic_bps: idle.mean(&traffic::bytes_per_second),
            engine_freq_hz: idle.mean(&|repeat| clocks::engine_hz(repeat, idle.used())),
            temp_c: idle.mean(&clocks::hottest_c),
            figures: figures(idle),
        }
    }
}

/// What all points of an experiment share.
pub(super) struct Frame<'a> {
    pub(super) idle: &'a Measured<'a>,
    /// Every condition, to find controls in.
    pub(super) all: &'a [Measured<'a>],
    /// All of the run, to find other models alone in.
    pub(super) cases: &'a [Read],
    pub(super) x: XAxis,
    pub(super) ask: &'a Ask,
}

impl Point {
    pub(super) fn of(measured: &Measured<'_>, of: &Frame<'_>) -> Self {
        let (idle, x) = (of.idle, of.x);
        let counted = measured.counted();
        let paced = |repeat: &RepeatView| {
            let rows = &repeat.row.stress;
            bytes_per_cpu_second(rows).filter(|_| is_counted(repeat))
        };
        let row = &measured.read.view.entry.case;
        let case = Case::from(row);
        // A control that was none takes nothing off.
        let spin = of.all.iter().find(|other| is_control(other, measured));
        let spin = spin.filter(|spin| spin.is_valid());
        let calibrated = |repeat: &RepeatView| {
            let term = only_term(&measured.condition)?;
            of_calibrated(term, &row.board, repeat, of.ask)
        };
        let mut marks = measured.told();
        marks.extend((!idle.is_valid()).then(no_baseline));
        Self {
            case: measured.key(),
            condition: measured.condition.to_string(),
            share: share(&measured.condition),
            achieved_of_calibrated: measured.mean(&calibrated),
            target_bps: counted.first().and_then(|repeat| target(repeat)),
            x_bps: measured.mean(&|repeat| x.of(repeat)),
            achieved_bps: measured.mean(&moved),
            achieved_per_cpu_second_bps: measured.mean(&paced),
            traffic_bps: measured.mean(&traffic::bytes_per_second),
            engine_freq_hz: measured.mean(&|repeat| clocks::engine_hz(repeat, measured.used())),
            temp_c: measured.mean(&clocks::hottest_c),
            repeats: measured.repeats.len(),
            valid_repeats: measured.valid().len(),
            valid: measured.is_valid() && idle.is_valid(),
            marks,
            figures: figures(measured),
            slowdown: ratios(idle, measured),
            over_spin: spin.map(|spin| ratios(spin, measured)).unwrap_or_default(),
            tenants: tenant::points(&case, &counted, of.cases),
            efficiency: tenant::efficiency(&case, &idle.counted(), &counted, of.cases),
        }
    }
}

/// Of a point that nothing valid stands beside.
pub(super) fn no_baseline() -> OfRepeat {
    OfRepeat {
        repeat: None,
        mark: Mark::invalid(
            "baseline_invalid",
            "what it is held against does not count, or was measured too seldom".into(),
        ),
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
        cpus.dedup();
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
