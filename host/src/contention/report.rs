//! A contention experiment as read from a run: the cases that differ in nothing but their condition.

use std::collections::BTreeMap;

use edgedyno_shared::case::Case;
use serde::Serialize;
use serde_json::{Value, json};

use super::achieved::{Achieved, bytes_per_second};
use super::curve::{OfRound, Ratio, centre, pairs, slowdown};
use super::gap::Gaps;
use super::knee::Fit;
use super::validity::{Mark, marks};
use crate::compare::metric::{self, Metric};
use crate::plan::axes::axes;
use crate::plan::condition::{Condition, Level};
use crate::stats::ratio::LogRatio;
use crate::view::{CaseView, RepeatView};

/// Names the form of the document.
pub const DOCUMENT: &str = "edgedyno/contention/1";

/// What the x axis counts, in one sentence.
pub const CURRENCY: &str = "bytes read and written by the stressors by their own count, each byte once, \
    without what caches fetch only to overwrite it (as STREAM counts), for each second of the wall";

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
    /// A metric and the most it may be, in nanoseconds.
    pub slo: Option<(String, f64)>,
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
    pub baseline: Baseline,
    pub points: Vec<Point>,
    pub curves: Vec<Curve>,
    pub recovery: Option<Recovery>,
    /// Condition of the valid point that slows p50 most.
    pub worst: Option<String>,
}

/// The idle board.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Baseline {
    pub case: String,
    pub repeats: usize,
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
    /// Bytes a second by the wall: what the memory saw.
    pub achieved_bps: Option<f64>,
    /// The same for each second of the stressors' CPU time.
    pub achieved_per_cpu_second_bps: Option<f64>,
    pub repeats: usize,
    pub valid_repeats: usize,
    pub valid: bool,
    pub marks: Vec<OfRepeat>,
    pub figures: BTreeMap<String, Figure>,
    /// Against the idle board.
    pub slowdown: BTreeMap<String, Ratio>,
    /// Against the same CPUs kept busy with nothing.
    pub over_spin: BTreeMap<String, Ratio>,
}

/// A mark and the repeat that has it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct OfRepeat {
    pub repeat: u32,
    #[serde(flatten)]
    pub mark: Mark,
}

/// The levels of one stressor.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Curve {
    /// The condition without its level.
    pub stressor: String,
    /// Of the slowdown of p50 over GB/s; none with too few levels.
    pub fit: Option<Fit>,
    /// Milliseconds of p50 for each GB/s: behind the knee where there is one.
    pub sensitivity_ms_per_gbps: Option<super::knee::Slope>,
    pub slo: Option<Slo>,
    /// Conditions in the order of what was achieved.
    pub conditions: Vec<String>,
}

/// How much traffic a limit bears.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Slo {
    pub metric: String,
    pub limit_ms: f64,
    /// The most traffic at which the whole interval was within the limit, and at all levels below.
    pub kept_up_to_gbps: Option<f64>,
    /// The least traffic at which the whole interval was beyond it.
    pub broken_from_gbps: Option<f64>,
    /// Where the line between the levels crosses it.
    pub crossing_gbps: Option<f64>,
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
        .filter_map(|(axes, of_group)| Experiment::of(axes, &of_group, ask))
        .collect()
}

/// The document that exports and `--json` give.
pub fn document(run: &str, experiments: &[Experiment], gaps: &[Gaps]) -> Value {
    json!({
        "document": DOCUMENT,
        "run": run,
        "currency": CURRENCY,
        "experiments": serde_json::to_value(experiments).unwrap_or_default(),
        "gaps": serde_json::to_value(gaps).unwrap_or_default(),
    })
}

/// What is read of one case.
struct Measured<'a> {
    read: &'a Read,
    condition: Condition,
    /// Repeats that count, without those of the recovery.
    repeats: Vec<&'a RepeatView>,
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

    fn valid(&self) -> Vec<&'a RepeatView> {
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

    fn figures(&self, metric: &Metric) -> Vec<OfRound> {
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

fn figures(measured: &Measured<'_>) -> BTreeMap<String, Figure> {
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
    fn of(axes: BTreeMap<String, String>, cases: &[&Read], ask: &Ask) -> Option<Self> {
        let measured = cases.iter().map(|read| Measured::of(read, ask.recovery));
        let measured: Vec<Measured<'_>> = measured.collect();
        let idle = measured
            .iter()
            .find(|m| m.condition.is_idle() && !m.repeats.is_empty())?;
        let loaded: Vec<&Measured<'_>> =
            measured.iter().filter(|m| !m.condition.is_idle()).collect();
        if loaded.is_empty() {
            return None;
        }
        let points: Vec<Point> = loaded
            .iter()
            .map(|m| Point::of(m, idle, &measured))
            .collect();
        let worst = points.iter().filter(|point| point.valid);
        let worst = worst.filter_map(|p| Some((p, p.slowdown.get(METRICS[0])?.ratio)));
        let worst = worst.max_by(|a, b| a.1.total_cmp(&b.1));
        Some(Self {
            curves: curves(&loaded, idle, &points, ask),
            recovery: recovery(idle, ask.recovery),
            worst: worst.map(|(point, _)| point.condition.clone()),
            simulated: idle.read.view.is_simulated(),
            baseline: Baseline {
                case: idle.key(),
                repeats: idle.repeats.len(),
                figures: figures(idle),
            },
            axes,
            points,
        })
    }
}

impl Point {
    fn of(measured: &Measured<'_>, idle: &Measured<'_>, all: &[Measured<'_>]) -> Self {
        let valid = measured.valid();
        let counted = measured.counted();
        let mean = |of: &dyn Fn(&RepeatView) -> Option<f64>| {
            let values: Option<Vec<f64>> = counted.iter().map(|repeat| of(repeat)).collect();
            crate::stats::mean::arithmetic(&values?)
        };
        let paced = |repeat: &RepeatView| {
            let rows = repeat.row.stress.iter().map(Achieved::of);
            let moving = rows.filter(|achieved| achieved.unit == "bytes");
            moving.map(|achieved| achieved.per_cpu_second).sum()
        };
        let spin = all.iter().find(|other| is_control(other, measured));
        Self {
            case: measured.key(),
            condition: measured.condition.to_string(),
            share: share(&measured.condition),
            target_bps: counted.first().and_then(|repeat| target(repeat)),
            achieved_bps: mean(&|repeat| bytes_per_second(&repeat.row.stress)),
            achieved_per_cpu_second_bps: mean(&paced),
            repeats: measured.repeats.len(),
            valid_repeats: valid.len(),
            // The load of most repeats was what it was meant to be.
            valid: valid.len() >= FEWEST_REPEATS && 2 * valid.len() > measured.repeats.len(),
            marks: measured.marks.clone(),
            figures: figures(measured),
            slowdown: ratios(idle, measured),
            over_spin: spin.map(|spin| ratios(spin, measured)).unwrap_or_default(),
        }
    }
}

/// Whether a case keeps the same CPUs busy with nothing.
fn is_control(other: &Measured<'_>, loaded: &Measured<'_>) -> bool {
    let cpus = |condition: &Condition| {
        let mut cpus: Vec<u16> = condition.cpus().collect();
        cpus.sort_unstable();
        cpus
    };
    is_spin(&other.condition)
        && !is_spin(&loaded.condition)
        && cpus(&other.condition) == cpus(&loaded.condition)
}

fn is_spin(condition: &Condition) -> bool {
    !condition.is_idle() && condition.terms.iter().all(|term| term.kind.name == "spin")
}

fn share(condition: &Condition) -> Option<f64> {
    match condition.terms.as_slice() {
        [term] => match term.level {
            Level::Full => Some(1.0),
            Level::Share(ppm) => Some(f64::from(ppm) / 1e6),
            Level::PerSecond(_) => None,
        },
        _ => None,
    }
}

fn target(repeat: &RepeatView) -> Option<f64> {
    let rows = repeat.row.stress.iter().map(Achieved::of);
    let targets: Option<Vec<f64>> = rows.map(|achieved| achieved.target_per_second).collect();
    targets.map(|all| all.iter().sum()).filter(|sum| *sum > 0.0)
}

/// One curve for each stressor that has several levels on the same CPUs.
fn curves(
    loaded: &[&Measured<'_>],
    idle: &Measured<'_>,
    points: &[Point],
    ask: &Ask,
) -> Vec<Curve> {
    let mut names: Vec<String> = Vec::new();
    let of_name = |measured: &Measured<'_>| match measured.condition.terms.as_slice() {
        [term] if !is_spin(&measured.condition) => {
            let mut term = term.clone();
            term.level = Level::Full;
            Some(term.to_string())
        }
        _ => None,
    };
    for name in loaded.iter().filter_map(|m| of_name(m)) {
        if !names.contains(&name) {
            names.push(name);
        }
    }
    let curve = |name: String| {
        let of_curve = loaded
            .iter()
            .zip(points)
            .filter(|(m, _)| of_name(m).as_ref() == Some(&name));
        let of_curve: Vec<(&Measured<'_>, &Point)> = of_curve.map(|(m, p)| (*m, p)).collect();
        let control = of_curve.first().and_then(|(first, _)| {
            let mut all = loaded.iter().zip(points);
            all.find(|(m, _)| is_control(m, first))
                .map(|(m, p)| (*m, p))
        });
        Curve::of(name, &of_curve, control, idle, ask)
    };
    names.into_iter().map(curve).collect()
}

impl Curve {
    fn of(
        stressor: String,
        levels: &[(&Measured<'_>, &Point)],
        control: Option<(&Measured<'_>, &Point)>,
        idle: &Measured<'_>,
        ask: &Ask,
    ) -> Self {
        // Where the CPUs are busy and the memory is not, else the idle board.
        let mut observed = match control {
            Some((spin, point)) if point.valid => observations(spin, idle),
            _ => idle.repeats.iter().map(|_| (0.0, 1.0)).collect(),
        };
        let valid = || levels.iter().filter(|(_, point)| point.valid);
        for (measured, _) in valid() {
            observed.extend(observations(measured, idle));
        }
        let fit = Fit::of(&observed).filter(|_| valid().count() >= 2);
        let p50 = figures(idle).get(METRICS[0]).map(|figure| figure.ms);
        let sensitivity = fit.zip(p50).map(|(fit, ms)| {
            let slope = fit.knee.map_or(fit.slope, |knee| knee.after);
            super::knee::Slope {
                value: slope.value * ms,
                ci95: slope.ci95.map(|(low, high)| (low * ms, high * ms)),
            }
        });
        let base = Point::of(idle, idle, &[]);
        let control = control.map(|(_, point)| point).filter(|point| point.valid);
        let mut steps: Vec<&Point> = vec![control.unwrap_or(&base)];
        steps.extend(valid().map(|(_, point)| *point));
        let mut order: Vec<&Point> = levels.iter().map(|(_, point)| *point).collect();
        let reached = |point: &Point| point.achieved_bps.unwrap_or(0.0);
        order.sort_by(|a, b| reached(a).total_cmp(&reached(b)));
        Self {
            stressor,
            fit,
            sensitivity_ms_per_gbps: sensitivity,
            slo: ask
                .slo
                .as_ref()
                .map(|(name, limit)| Slo::of(name, *limit, &steps)),
            conditions: order
                .into_iter()
                .map(|point| point.condition.clone())
                .collect(),
        }
    }
}

/// GB/s and slowdown of p50 of every valid repeat, each against the idle repeat of its round.
fn observations(measured: &Measured<'_>, idle: &Measured<'_>) -> Vec<(f64, f64)> {
    let Ok(p50) = metric::find(METRICS[0]) else {
        return Vec::new();
    };
    let base = idle.figures(p50);
    let of_repeat = |repeat: &RepeatView| {
        let here = OfRound {
            round: repeat.row.key.repeat,
            value: (p50.of)(repeat)?,
        };
        let (without, loaded) = *pairs(&base, &[here]).first()?;
        Some((
            bytes_per_second(&repeat.row.stress)? / 1e9,
            loaded / without,
        ))
    };
    let valid = measured.valid();
    valid.into_iter().filter_map(of_repeat).collect()
}

impl Slo {
    /// `steps` may come in any order; those without the figure are passed over.
    fn of(metric: &str, limit_ns: f64, steps: &[&Point]) -> Self {
        let limit = limit_ns / 1e6;
        let mut known: Vec<(f64, Figure)> = steps
            .iter()
            .filter_map(|point| {
                let figure = *point.figures.get(metric)?;
                Some((point.achieved_bps.unwrap_or(0.0) / 1e9, figure))
            })
            .collect();
        known.sort_by(|a, b| a.0.total_cmp(&b.0));
        let high = |figure: &Figure| figure.ci95.map_or(f64::INFINITY, |(_, high)| high);
        let low = |figure: &Figure| figure.ci95.map_or(f64::NEG_INFINITY, |(low, _)| low);
        let kept = known.iter().take_while(|(_, figure)| high(figure) <= limit);
        let broken = known.iter().find(|(_, figure)| low(figure) > limit);
        let crossing = known.windows(2).find_map(|pair| {
            let ((x0, a), (x1, b)) = (pair[0], pair[1]);
            let crosses = a.ms <= limit && b.ms > limit;
            crosses.then(|| x0 + (x1 - x0) * (limit - a.ms) / (b.ms - a.ms))
        });
        Self {
            metric: metric.to_owned(),
            limit_ms: limit,
            kept_up_to_gbps: kept.last().map(|(x, _)| *x),
            broken_from_gbps: broken.map(|(x, _)| *x),
            crossing_gbps: crossing,
        }
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    fn point(gbps: f64, ms: f64, half: f64) -> Point {
        let figure = Figure {
            ms,
            ci95: Some((ms - half, ms + half)),
        };
        Point {
            case: String::new(),
            condition: String::new(),
            share: None,
            target_bps: None,
            achieved_bps: Some(gbps * 1e9),
            achieved_per_cpu_second_bps: None,
            repeats: 5,
            valid_repeats: 5,
            valid: true,
            marks: Vec::new(),
            figures: BTreeMap::from([("latency_p99_ms".to_owned(), figure)]),
            slowdown: BTreeMap::new(),
            over_spin: BTreeMap::new(),
        }
    }

    #[test]
    fn a_limit_is_kept_as_far_as_whole_intervals_say_and_broken_from_where_they_say() {
        let points = [
            point(0.0, 10.0, 1.0),
            point(4.0, 12.0, 1.0),
            point(8.0, 14.5, 1.0),
            point(12.0, 18.0, 1.0),
        ];
        let steps: Vec<&Point> = points.iter().rev().collect();
        let slo = Slo::of("latency_p99_ms", 15e6, &steps);
        assert_eq!(slo.kept_up_to_gbps, Some(4.0));
        assert_eq!(slo.broken_from_gbps, Some(12.0));
        let crossing = slo.crossing_gbps.unwrap();
        assert!(
            (crossing - (8.0 + 4.0 * 0.5 / 3.5)).abs() < 1e-12,
            "{crossing}"
        );
        let loose = Slo::of("latency_p99_ms", 50e6, &steps);
        assert_eq!(
            (loose.kept_up_to_gbps, loose.broken_from_gbps),
            (Some(12.0), None)
        );
        let strict = Slo::of("latency_p99_ms", 5e6, &steps);
        assert_eq!(
            (strict.kept_up_to_gbps, strict.broken_from_gbps),
            (None, Some(0.0))
        );
        assert_eq!(Slo::of("latency_p50_ms", 5e6, &steps).crossing_gbps, None);
    }
}
