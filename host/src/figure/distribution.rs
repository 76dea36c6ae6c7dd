//! How latencies are spread: a histogram, and below it the share of trials that took at most so long.

use super::chart::{BELOW, Frame, SMALL, WIDTH, heading};
use super::decimate::Thin;
use super::palette::{ALARM, QUIET, SERIES, TEXT};
use super::scale::{Scale, time_unit};
use super::svg::{Anchor, Svg};
use super::{Figure, name_of};
use crate::stats::summary::Quantile;
use crate::summary::Latency;
use crate::ui::summary::{DIFFER, REPEATS_DIFFER, bound_text};
use crate::ui::units;

const BINS: usize = 60;
const MOST_POINTS: usize = 1200;

/// Latencies of all repeats of a case in nanoseconds, from the shortest to the longest; none where there are
/// none.
pub fn distribution(label: &str, latency: &Latency, sorted: &[i64]) -> Option<Figure> {
    let (shortest, longest) = (*sorted.first()?, *sorted.last()?);
    let (unit, size) = time_unit(longest as f64);
    let in_unit = |ns: i64| ns as f64 / size;
    let title = format!("How long a run takes: {label}");
    let mut svg = Svg::default();
    let top = heading(&mut svg, &title);

    let shown_ends = shown(latency)
        .into_iter()
        .flat_map(|(_, quantile)| [Some(quantile.value), quantile.bound])
        .flatten()
        .map(|ns| ns / size);
    let ends: Vec<f64> = shown_ends.chain([shortest, longest].map(in_unit)).collect();
    let x = Scale::fitting(&ends);
    let counts = histogram(sorted.iter().map(|ns| in_unit(*ns)), &x);
    let most = counts.iter().copied().max().unwrap_or(1);
    let upper = Frame::new(top + 6.0, 170.0, x.clone(), Scale::of([most as f64], true));
    upper.y_axis(&mut svg, "trials");
    bars(&mut svg, &upper, &counts);

    let lower = Frame::new(
        upper.bottom() + 24.0,
        190.0,
        x,
        Scale::of([0.0, 100.0], true),
    );
    lower.axes(
        &mut svg,
        &format!("latency in {unit}"),
        "% of trials, at most",
    );
    let all = sorted.len() as f64;
    let mut steps = Thin::new(sorted.len(), MOST_POINTS);
    for (ns, n) in sorted.iter().zip(1_u64..) {
        steps.push((in_unit(*ns), n as f64 / all * 100.0));
    }
    let steps = steps.finish();
    let points: Vec<(f64, f64)> = steps
        .iter()
        .map(|(x, y)| (lower.x(*x), lower.y(*y)))
        .collect();
    svg.group("ecdf", |svg| svg.path(&points, SERIES[0], 2.0, ""));
    let words = marks(&mut svg, &lower, latency, size);
    let differ = match shown(latency).iter().any(|(_, q)| q.repeats_differ()) {
        true => format!(" {DIFFER} {REPEATS_DIFFER}."),
        false => String::new(),
    };
    let about = format!(
        "{} trials of {} repeats. {}. The dashed line at a percentile leads to what the true one stays below, \
         in 99 of 100 experiments; without one there are too few independent trials to say so.{differ}",
        units::count(sorted.len() as u64),
        latency.per_repeat.len(),
        words.join(", ")
    );
    let size = (WIDTH, lower.bottom() + BELOW);
    let name = name_of(&["latency", label]);
    Some(Figure {
        svg: svg.finish(&name, size, &title, &about),
        name,
        title,
        about,
    })
}

/// Trials in stretches of equal width on the axis.
fn histogram(values: impl Iterator<Item = f64>, x: &Scale) -> Vec<usize> {
    let mut counts = vec![0; BINS];
    for value in values {
        let at = x.place(value, 0.0, BINS as f64) as usize;
        counts[at.min(BINS - 1)] += 1;
    }
    counts
}

fn bars(svg: &mut Svg, frame: &Frame, counts: &[usize]) {
    let width = frame.width / BINS as f64;
    svg.group("histogram", |svg| {
        for (at, count) in counts.iter().enumerate().filter(|(_, count)| **count > 0) {
            let (x, y) = (frame.left + at as f64 * width, frame.y(*count as f64));
            let size = (width - 1.0, frame.bottom() - y);
            let about = format!("{count} trials");
            svg.rect((x, y), size, SERIES[0], Some(&about));
        }
    });
    let (left, right) = (frame.left, frame.left + frame.width);
    svg.line(
        (left, frame.bottom()),
        (right, frame.bottom()),
        QUIET,
        1.0,
        "",
    );
}

/// Percentiles that are marked.
fn shown(latency: &Latency) -> [(&'static str, Quantile); 4] {
    let all = &latency.distribution;
    [
        ("p50", all.p50),
        ("p90", all.p90),
        ("p95", all.p95),
        ("p99", all.p99),
    ]
}

/// Marks percentiles and bounds; says them.
fn marks(svg: &mut Svg, frame: &Frame, latency: &Latency, size: f64) -> Vec<String> {
    let mut words = Vec::new();
    svg.group("percentiles", |svg| {
        for ((name, quantile), level) in shown(latency).into_iter().zip([50.0, 90.0, 95.0, 99.0]) {
            let at = (frame.x(quantile.value / size), frame.y(level));
            let said = units::nanoseconds(quantile.value);
            svg.circle(at, 4.0, TEXT, Some(&format!("{name} {said}")));
            let mut word = format!("{name} {said}");
            if let Some((bound, text)) = quantile.bound.zip(bound_text(&quantile)) {
                let end = (frame.x(bound / size), at.1);
                svg.line(at, end, ALARM, 1.5, "4 3");
                svg.line((end.0, at.1 - 5.0), (end.0, at.1 + 5.0), ALARM, 1.5, "");
                word = format!("{word} with bound {text}");
            }
            if name == "p50" || name == "p99" {
                let label = (at.0 - 8.0, at.1 - 6.0);
                svg.text(label, Anchor::End, SMALL, TEXT, name);
            }
            words.push(word);
        }
    });
    words
}
