//! Curves through the levels of a stressor: knee, slope, and how much of it a limit bears.

use serde::Serialize;

use super::axis::XAxis;
use super::curve::{OfRound, pairs};
use super::knee::{Fit, Slope};
use super::ladder::has_own_axis;
use super::report::{
    Ask, Figure, METRICS, Measured, Point, figures, is_control, is_spin, only_term,
};
use crate::compare::metric;
use crate::plan::condition::Level;
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
}

/// One curve for each stressor that has several levels on the same CPUs.
pub(super) fn curves(
    loaded: &[&Measured<'_>],
    idle: &Measured<'_>,
    points: &[Point],
    x: XAxis,
    ask: &Ask,
) -> Vec<Curve> {
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
        Curve::of(name, &of_curve, control, idle, x, ask)
    };
    names.into_iter().map(curve).collect()
}

impl Curve {
    fn of(
        stressor: String,
        levels: &[(&Measured<'_>, &Point)],
        control: Option<(&Measured<'_>, &Point)>,
        idle: &Measured<'_>,
        x: XAxis,
        ask: &Ask,
    ) -> Self {
        // Where the CPUs are busy and the memory is not, else the idle board.
        let mut observed = match control {
            Some((spin, point)) if point.valid => observations(spin, idle, x),
            _ => observations(idle, idle, x),
        };
        let valid = || levels.iter().filter(|(_, point)| point.valid);
        for (measured, _) in valid() {
            observed.extend(observations(measured, idle, x));
        }
        let fit = Fit::of(&observed).filter(|_| valid().count() >= 2);
        let p50 = figures(idle).get(METRICS[0]).map(|figure| figure.ms);
        let sensitivity = fit.zip(p50).map(|(fit, ms)| {
            let slope = fit.knee.map_or(fit.slope, |knee| knee.after);
            Slope {
                value: slope.value * ms,
                ci95: slope.ci95.map(|(low, high)| (low * ms, high * ms)),
            }
        });
        let base = Point::of(idle, idle, &[], &[], x);
        let control = control.map(|(_, point)| point).filter(|point| point.valid);
        let mut steps: Vec<&Point> = vec![control.unwrap_or(&base)];
        steps.extend(valid().map(|(_, point)| *point));
        let mut order: Vec<&Point> = levels.iter().map(|(_, point)| *point).collect();
        let reached = |point: &Point| point.x_bps.unwrap_or(0.0);
        order.sort_by(|a, b| reached(a).total_cmp(&reached(b)));
        Self {
            stressor,
            fit,
            sensitivity_ms_per_gbps: sensitivity,
            slo: ask
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

/// GB/s and slowdown of p50 of every valid repeat.
fn observations(measured: &Measured<'_>, idle: &Measured<'_>, x: XAxis) -> Vec<(f64, f64)> {
    observed_at(measured, idle, &|repeat| Some(x.of(repeat)? / 1e9))
}

/// A place on an axis and the slowdown of p50 of every valid repeat, each against the idle repeat of its
/// round.
pub(super) fn observed_at(
    measured: &Measured<'_>,
    idle: &Measured<'_>,
    x: &dyn Fn(&RepeatView) -> Option<f64>,
) -> Vec<(f64, f64)> {
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
        Some((x(repeat)?, loaded / without))
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
        let kept = known.iter().take_while(|(_, figure)| high(figure) <= limit);
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
        })
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::super::testing;
    use super::*;

    fn point(gbps: f64, ms: f64, half: f64) -> Point {
        let figure = Figure {
            ms,
            ci95: Some((ms - half, ms + half)),
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
}
