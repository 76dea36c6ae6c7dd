//! Curves through the levels of a stressor: knee, slope, and how much of it a limit bears.

use serde::Serialize;

use super::knee::{Fit, Slope};
use super::ladder::has_own_axis;
use super::measured::{Measured, figures};
use super::report::{Figure, Frame, METRICS, Point, is_control, is_spin, only_term};
use super::rounds::Observed;
use crate::compare::metric;
use crate::plan::condition::Level;
use crate::stats::mean;
use crate::view::RepeatView;

/// The levels of one stressor.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Curve {
    /// The condition without its level.
    pub stressor: String,
    /// Of the slowdown of p50 over GB/s; none with too few levels.
    pub fit: Option<Fit>,
    /// Milliseconds of p50 for each GB/s: behind the knee where there is one.
    pub sensitivity_ms_per_gbps: Option<Slope>,
    /// None where nothing was asked, or the traffic of no level is known.
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
    /// Of the level that has the fewest, that its trials are too few for this percentile: such a level keeps
    /// nothing surely.
    pub too_few_trials: Option<String>,
}

/// One curve for each stressor that has several levels on the same CPUs.
pub(super) fn curves(loaded: &[&Measured<'_>], points: &[Point], of: &Frame<'_>) -> Vec<Curve> {
    let mut names: Vec<String> = Vec::new();
    let of_name = |measured: &Measured<'_>| match only_term(&measured.condition) {
        // What moves nothing through memory has an axis of its own.
        Some(term) if !is_spin(&measured.condition) && !has_own_axis(term) => {
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
        Curve::of(name, &of_curve, control, of)
    };
    names.into_iter().map(curve).collect()
}

impl Curve {
    fn of(
        stressor: String,
        levels: &[(&Measured<'_>, &Point)],
        control: Option<(&Measured<'_>, &Point)>,
        of: &Frame<'_>,
    ) -> Self {
        let idle = of.idle;
        let gbps = |repeat: &RepeatView| Some(of.x.of(repeat)? / 1e9);
        // Where the CPUs are busy and the memory is not, else the idle board.
        let control = control.filter(|(_, point)| point.valid);
        let base = control.map_or(idle, |(spin, _)| spin);
        let valid = || levels.iter().filter(|(_, point)| point.valid);
        let all = std::iter::once(base).chain(valid().map(|(measured, _)| *measured));
        let observed = all.enumerate();
        let observed: Vec<Observed> = observed
            .flat_map(|(level, measured)| observed_at(measured, level, idle, &gbps))
            .collect();
        let fit = Fit::of(&observed).filter(|_| valid().count() >= 2);
        let p50 = figures(idle).get(METRICS[0]).map(|figure| figure.ms);
        let sensitivity = fit.zip(p50).map(|(fit, ms)| {
            let slope = fit.knee.map_or(fit.slope, |knee| knee.after);
            Slope {
                value: slope.value * ms,
                ci95: slope.ci95.map(|(low, high)| (low * ms, high * ms)),
            }
        });
        let base = Point::of(idle, of);
        let mut steps: Vec<&Point> = vec![control.map_or(&base, |(_, point)| point)];
        steps.extend(valid().map(|(_, point)| *point));
        let mut order: Vec<&Point> = levels.iter().map(|(_, point)| *point).collect();
        let reached = |point: &Point| point.x_bps.unwrap_or(0.0);
        order.sort_by(|a, b| reached(a).total_cmp(&reached(b)));
        Self {
            stressor,
            fit,
            sensitivity_ms_per_gbps: sensitivity,
            slo: of
                .ask
                .slo
                .as_ref()
                .and_then(|limit| Slo::of(&limit.metric, limit.ns, &steps)),
            conditions: order
                .into_iter()
                .map(|point| point.condition.clone())
                .collect(),
        }
    }
}

/// A place on an axis of every valid repeat of a level, and p50 over the mean of the idle board: what a round
/// had of its own is for the fit to find, of all levels together.
pub(super) fn observed_at(
    measured: &Measured<'_>,
    level: usize,
    idle: &Measured<'_>,
    x: &dyn Fn(&RepeatView) -> Option<f64>,
) -> Vec<Observed> {
    let Ok(p50) = metric::find(METRICS[0]) else {
        return Vec::new();
    };
    let base: Vec<f64> = idle.figures(p50).iter().map(|of| of.value).collect();
    let Some(base) = mean::over_repeats(&base) else {
        return Vec::new();
    };
    let of_repeat = |repeat: &RepeatView| {
        Some(Observed {
            level,
            round: repeat.row.key.repeat,
            x: x(repeat)?,
            y: (p50.of)(repeat)? / base,
        })
    };
    let valid = measured.valid();
    valid.into_iter().filter_map(of_repeat).collect()
}

impl Slo {
    /// `steps` may come in any order; those without the figure or their traffic are passed over. None where all of
    /// them have the same traffic: no amount of it is what a limit bears.
    fn of(metric: &str, limit_ns: f64, steps: &[&Point]) -> Option<Self> {
        let limit = limit_ns / 1e6;
        let mut known: Vec<(f64, Figure)> = steps
            .iter()
            .filter_map(|point| {
                let figure = *point.figures.get(metric)?;
                Some((point.x_bps? / 1e9, figure))
            })
            .collect();
        known.sort_by(|a, b| a.0.total_cmp(&b.0));
        let is_one_place = known.first()?.0 >= known.last()?.0;
        if is_one_place {
            return None;
        }
        let high = |figure: &Figure| figure.ci95.map_or(f64::INFINITY, |(_, high)| high);
        let low = |figure: &Figure| figure.ci95.map_or(f64::NEG_INFINITY, |(low, _)| low);
        let lack = |figure: &Figure| figure.lack(metric);
        let keeps = |figure: &Figure| high(figure) <= limit && lack(figure).is_none();
        let kept = known.iter().take_while(|(_, figure)| keeps(figure));
        let broken = known.iter().find(|(_, figure)| low(figure) > limit);
        let crossing = known.windows(2).find_map(|pair| {
            let ((x0, a), (x1, b)) = (pair[0], pair[1]);
            let crosses = a.ms <= limit && b.ms > limit;
            crosses.then(|| x0 + (x1 - x0) * (limit - a.ms) / (b.ms - a.ms))
        });
        Some(Self {
            metric: metric.to_owned(),
            limit_ms: limit,
            kept_up_to_gbps: kept.last().map(|(x, _)| *x),
            broken_from_gbps: broken.map(|(x, _)| *x),
            crossing_gbps: crossing,
            too_few_trials: fewest(&known).and_then(|figure| lack(&figure)),
        })
    }
}

/// The figure of the level with the fewest trials.
fn fewest(known: &[(f64, Figure)]) -> Option<Figure> {
    let worth = |figure: &Figure| figure.trials.map_or(f64::INFINITY, |of| of.independent);
    let figures = known.iter().map(|(_, figure)| *figure);
    figures.min_by(|a, b| worth(a).total_cmp(&worth(b)))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::super::testing;
    use super::super::trials::Worth;
    use super::*;

    fn point(gbps: f64, ms: f64, half: f64) -> Point {
        let figure = Figure {
            ms,
            ci95: Some((ms - half, ms + half)),
            trials: None,
        };
        Point {
            x_bps: Some(gbps * 1e9),
            figures: BTreeMap::from([("latency_p99_ms".to_owned(), figure)]),
            ..testing::point("mem_read:cpu1")
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
        let slo = Slo::of("latency_p99_ms", 15e6, &steps).unwrap();
        assert_eq!(slo.kept_up_to_gbps, Some(4.0));
        assert_eq!(slo.broken_from_gbps, Some(12.0));
        let crossing = slo.crossing_gbps.unwrap();
        assert!(
            (crossing - (8.0 + 4.0 * 0.5 / 3.5)).abs() < 1e-12,
            "{crossing}"
        );
        let loose = Slo::of("latency_p99_ms", 50e6, &steps).unwrap();
        assert_eq!(
            (loose.kept_up_to_gbps, loose.broken_from_gbps),
            (Some(12.0), None)
        );
        let strict = Slo::of("latency_p99_ms", 5e6, &steps).unwrap();
        assert_eq!(
            (strict.kept_up_to_gbps, strict.broken_from_gbps),
            (None, Some(0.0))
        );
        assert_eq!(Slo::of("latency_p50_ms", 5e6, &steps), None);
        // Levels that move nothing, and an idle board by itself, say nothing of traffic.
        let nothing = [point(0.0, 10.0, 1.0), point(0.0, 12.0, 1.0)];
        let steps: Vec<&Point> = nothing.iter().collect();
        assert_eq!(Slo::of("latency_p99_ms", 15e6, &steps), None);
        assert_eq!(Slo::of("latency_p99_ms", 15e6, &steps[..1]), None);
    }

    #[test]
    fn a_level_of_few_trials_keeps_no_limit() {
        let mut points = [point(0.0, 10.0, 1.0), point(4.0, 12.0, 1.0)];
        let few = Worth::of([&[10_i64; 100][..]], 0.99);
        points[1].figures.get_mut("latency_p99_ms").unwrap().trials = few;
        let steps: Vec<&Point> = points.iter().collect();
        let slo = Slo::of("latency_p99_ms", 15e6, &steps).unwrap();
        assert_eq!(
            (slo.kept_up_to_gbps, slo.broken_from_gbps),
            (Some(0.0), None)
        );
        let why = slo.too_few_trials.as_deref();
        assert_eq!(why, Some("not enough trials for p99: 100 of 662"));
    }
}
