//! What loads do to a case: slowdown over the traffic of the load, and condition by condition.

use super::chart::{
    BELOW, Frame, LINE, SMALL, WIDTH, dash, heading, legend, say, say_left_out, short,
};
use super::palette::{ALARM, AXIS, GRID, PAPER, QUIET, SERIES, TEXT, series};
use super::scale::Scale;
use super::svg::{Anchor, Ink, Svg};
use super::{Figure, name_of};
use crate::contention::curve::Ratio;
use crate::contention::knee::Knee;
use crate::contention::levels::Curve;
use crate::contention::report::{Experiment, METRICS, Point};
use crate::ui::units::figure;

const MOST_CURVES: usize = 5;
const MOST_ROWS: usize = 40;

/// p50 and p99, whose names in the document are the first and the last that are followed.
const PANELS: [(&str, &str); 2] = [("p50", METRICS[0]), ("p99", METRICS[2])];

/// What can be drawn of an experiment. `label` tells it from the others of its run.
pub fn contention(label: &str, experiment: &Experiment) -> Vec<Figure> {
    let figures = [curves(label, experiment), conditions(label, experiment)];
    figures.into_iter().flatten().collect()
}

fn titled(title: &str, label: &str) -> String {
    match label {
        "" => title.to_owned(),
        label => format!("{title}: {label}"),
    }
}

fn named(what: &str, label: &str) -> String {
    match label {
        "" => what.to_owned(),
        label => name_of(&[what, label]),
    }
}

/// A point with a place: what the memory saw in GB/s, and how much slower that made it.
fn placed<'a>(point: &'a Point, metric: &str) -> Option<(f64, &'a Ratio)> {
    Some((point.x_bps? / 1e9, point.slowdown.get(metric)?))
}

fn ends(ratio: &Ratio) -> [f64; 2] {
    let (low, high) = ratio.ci95.unwrap_or((ratio.ratio, ratio.ratio));
    [low, high]
}

/// Slowdown of p50 and of p99 over traffic; none where no stressor has two levels with a figure.
fn curves(label: &str, experiment: &Experiment) -> Option<Figure> {
    let drawn = &experiment.curves[..experiment.curves.len().min(MOST_CURVES)];
    let of = |curve: &Curve| -> Vec<&Point> {
        let points = experiment.points.iter();
        let own = points.filter(|point| curve.conditions.contains(&point.condition));
        own.filter(|point| placed(point, METRICS[0]).is_some())
            .collect()
    };
    let is_curve = drawn.iter().any(|curve| of(curve).len() > 1);
    // Conditions of no stressor's levels: busy CPUs without traffic, and loads of several kinds.
    let is_single = |point: &&Point| {
        let mut all = experiment.curves.iter();
        !all.any(|curve| curve.conditions.contains(&point.condition))
    };
    let singles: Vec<&Point> = experiment.points.iter().filter(is_single).collect();
    let shown = || drawn.iter().flat_map(&of).chain(singles.iter().copied());
    let traffic = shown().filter_map(|point| Some(point.x_bps? / 1e9));
    let x = Scale::of(traffic, true);
    if !is_curve {
        return None;
    }
    let title = titled("How much slower under load", label);
    let mut svg = Svg::default();
    let top = heading(&mut svg, &title);
    let mut names: Vec<(String, Ink)> = drawn
        .iter()
        .zip((0..).map(series))
        .map(|(curve, ink)| (curve.stressor.clone(), ink))
        .collect();
    if !singles.is_empty() {
        names.push(("other loads".into(), QUIET));
    }
    let mut top = legend(&mut svg, top, &names);
    let mut last = None;
    for (name, metric) in PANELS {
        let known = shown().filter_map(|point| Some(ends(placed(point, metric)?.1)));
        let known: Vec<f64> = known.flatten().chain([1.0]).collect();
        if known.len() < 3 {
            continue;
        }
        let frame = Frame::new(top + 10.0, 190.0, x.clone(), Scale::of(known, false));
        frame.y_axis(&mut svg, &format!("{name}, times that of idle"));
        if name == PANELS[0].0 {
            for (number, curve) in drawn.iter().enumerate() {
                fitted(&mut svg, &frame, curve, number);
            }
        }
        svg.group("idle", |svg| {
            let y = frame.y(1.0);
            svg.line(
                (frame.left, y),
                (frame.left + frame.width, y),
                AXIS,
                1.0,
                "2 3",
            );
        });
        svg.group("points", |svg| {
            for (number, curve) in drawn.iter().enumerate() {
                of(curve)
                    .into_iter()
                    .for_each(|point| mark(svg, &frame, point, (name, metric), series(number)));
            }
            for point in &singles {
                mark(svg, &frame, point, (name, metric), QUIET);
            }
        });
        top = frame.bottom() + 14.0;
        last = Some(frame);
    }
    let frame = last?;
    frame.x_axis(&mut svg, &format!("GB/s, {}", experiment.x_axis.short()));
    let mut about = "Each mark is a condition against the idle board, its line the 95 % interval over rounds; the \
                     dotted line is the idle board. Broken lines are straight lines fitted to the valid repeats."
        .to_owned();
    for curve in drawn {
        say_curve(&mut about, curve);
    }
    say_invalid(&mut about, &experiment.points);
    let unplaced = experiment
        .points
        .iter()
        .filter(|point| placed(point, METRICS[0]).is_none());
    if unplaced.clone().next().is_some() {
        let count = unplaced.count();
        say(
            &mut about,
            format_args!(" Not drawn, since their traffic or latency is not known: {count}."),
        );
    }
    say_left_out(
        &mut about,
        "stressors",
        drawn.len(),
        experiment.curves.len(),
    );
    let name = named("contention", label);
    Some(Figure {
        svg: svg.finish(&name, (WIDTH, frame.bottom() + BELOW), &title, &about),
        name,
        title,
        about,
    })
}

/// The fitted lines of a curve, and its knee with the places where it may be.
fn fitted(svg: &mut Svg, frame: &Frame, curve: &Curve, number: usize) {
    let Some(fit) = &curve.fit else { return };
    let ink = series(number);
    svg.group("fit", |svg| {
        if let Some(knee) = &fit.knee {
            marked(svg, frame, knee, ink);
        }
        let bend = fit.knee.map(|knee| knee.at);
        let places = [Some(frame.x.low), bend, Some(frame.x.high)]
            .into_iter()
            .flatten();
        // What the fit says outside the frame is not drawn.
        let inside = |height: f64| height.clamp(frame.y.low, frame.y.high);
        let points: Vec<(f64, f64)> = places
            .map(|x| (frame.x(x), frame.y(inside(fit.at(x)))))
            .collect();
        svg.path(&points, ink, 1.5, dash(number + 1));
    });
}

fn marked(svg: &mut Svg, frame: &Frame, knee: &Knee, ink: Ink) {
    svg.group("knee", |svg| {
        let (low, high) = knee.ci95;
        let from = frame.x(low.unwrap_or(frame.x.low));
        let to = frame.x(high.unwrap_or(frame.x.high));
        let about = format!("the knee lies {}", between(knee));
        let band = Ink {
            class: "band",
            ..GRID
        };
        svg.rect(
            (from, frame.top),
            (to - from, frame.height),
            band,
            Some(&about),
        );
        let at = frame.x(knee.at);
        svg.line((at, frame.top), (at, frame.bottom()), ink, 1.5, "");
        let words = format!("knee {} GB/s", figure(knee.at));
        let is_far_right = at > frame.left + frame.width - 130.0;
        let (anchor, x) = match is_far_right {
            true => (Anchor::End, at - 5.0),
            false => (Anchor::Start, at + 5.0),
        };
        svg.text((x, frame.top + 12.0), anchor, SMALL, TEXT, &words);
    });
}

fn between(knee: &Knee) -> String {
    match knee.ci95 {
        (Some(low), Some(high)) => format!("between {} and {} GB/s", figure(low), figure(high)),
        (Some(low), None) => format!(
            "above {} GB/s; the levels do not bound it from above",
            figure(low)
        ),
        (None, Some(high)) => format!(
            "below {} GB/s; the levels do not bound it from below",
            figure(high)
        ),
        (None, None) => "anywhere: the levels do not bound it".into(),
    }
}

fn say_curve(about: &mut String, curve: &Curve) {
    let knee = curve.fit.map(|fit| fit.knee);
    let words = match knee {
        None => "too few valid levels for a curve".to_owned(),
        Some(None) => "no knee shown".into(),
        Some(Some(knee)) => format!(
            "knee at {} GB/s, {} (grey band)",
            figure(knee.at),
            between(&knee)
        ),
    };
    say(about, format_args!(" {}: {words}.", curve.stressor));
}

fn say_invalid(about: &mut String, points: &[Point]) {
    let invalid: Vec<&str> = points
        .iter()
        .filter(|point| !point.valid)
        .map(|point| point.condition.as_str())
        .collect();
    if !invalid.is_empty() {
        say(
            about,
            format_args!(
                " Crossed out, since too few repeats had the load they were meant to have, or the board \
                 changed meanwhile: {}.",
                invalid.join(", ")
            ),
        );
    }
}

/// One condition of a panel.
fn mark(svg: &mut Svg, frame: &Frame, point: &Point, (name, metric): (&str, &str), ink: Ink) {
    let Some((traffic, ratio)) = placed(point, metric) else {
        return;
    };
    let x = frame.x(traffic);
    let [low, high] = ends(ratio).map(|end| frame.y(end));
    svg.line((x, low), (x, high), ink, 1.5, "");
    let about = said(point, name, ratio);
    dot(svg, (x, frame.y(ratio.ratio)), ink, point.valid, &about);
}

/// A dot; a crossed ring where the condition must not be used.
fn dot(svg: &mut Svg, at: (f64, f64), ink: Ink, valid: bool, about: &str) {
    if valid {
        return svg.circle(at, 4.5, ink, Some(about));
    }
    svg.circle(at, 7.0, ALARM, Some(about));
    svg.circle(at, 5.0, PAPER, None);
    for (x, y) in [(-5.0, -5.0), (-5.0, 5.0)] {
        let (from, to) = ((at.0 + x, at.1 + y), (at.0 - x, at.1 - y));
        svg.line(from, to, ALARM, 1.5, "");
    }
}

fn said(point: &Point, name: &str, ratio: &Ratio) -> String {
    let mut out = format!("{}: {name} × {}", point.condition, figure(ratio.ratio));
    if let Some((low, high)) = ratio.ci95 {
        say(
            &mut out,
            format_args!(", between {} and {}", figure(low), figure(high)),
        );
    }
    if let Some(bps) = point.x_bps.filter(|bps| *bps > 0.0) {
        say(&mut out, format_args!(", at {} GB/s", figure(bps / 1e9)));
    }
    if !point.valid {
        out.push_str("; invalid");
        let mut marks: Vec<&str> = point.marks.iter().map(|of| of.mark.text.as_str()).collect();
        marks.dedup();
        if !marks.is_empty() {
            say(&mut out, format_args!(": {}", marks.join(", ")));
        }
    }
    out
}

/// Every condition by how much it slows p50 down, the worst first; none where nothing is known.
fn conditions(label: &str, experiment: &Experiment) -> Option<Figure> {
    let known = experiment.points.iter();
    let known = known.filter_map(|point| Some((point, point.slowdown.get(METRICS[0])?)));
    let mut known: Vec<(&Point, &Ratio)> = known.collect();
    known.sort_by(|a, b| b.1.ratio.total_cmp(&a.1.ratio));
    let drawn = &known[..known.len().min(MOST_ROWS)];
    let values = drawn.iter().flat_map(|(_, ratio)| ends(ratio)).chain([1.0]);
    if drawn.is_empty() {
        return None;
    }
    let title = titled("Which load slows it most", label);
    let mut svg = Svg::default();
    let top = heading(&mut svg, &title) + 6.0;
    let step = LINE + 6.0;
    let height = drawn.len() as f64 * step;
    let mut frame = Frame::new(top, height, Scale::of(values, false), Scale::of([], true));
    frame.left = 210.0;
    frame.width = WIDTH - 210.0 - 150.0;
    let one = frame.x(1.0);
    svg.line((one, top), (one, frame.bottom()), AXIS, 1.5, "2 3");
    frame.x_axis(&mut svg, "p50, times that of the idle board");
    svg.group("rows", |svg| {
        for (number, (point, ratio)) in drawn.iter().enumerate() {
            let y = top + (number as f64 + 0.5) * step;
            let name = short(&point.condition);
            svg.text((202.0, y + 4.0), Anchor::End, SMALL, TEXT, &name);
            let [low, high] = ends(ratio).map(|end| frame.x(end));
            svg.line((low, y), (high, y), SERIES[0], 2.5, "");
            let about = said(point, "p50", ratio);
            dot(
                svg,
                (frame.x(ratio.ratio), y),
                SERIES[0],
                point.valid,
                &about,
            );
            let is_worst = experiment.worst.as_ref() == Some(&point.condition);
            let verdict = match (point.valid, is_worst) {
                (false, _) => ", invalid",
                (_, true) => ", the worst",
                _ => "",
            };
            let right = (frame.left + frame.width + 10.0, y + 4.0);
            let words = format!("× {}{verdict}", figure(ratio.ratio));
            svg.text(right, Anchor::Start, SMALL, TEXT, &words);
        }
    });
    let mut about = "Each condition against the idle board, the slowest first, with 95 % intervals over rounds. Of \
                     the valid ones the slowest is called the worst, whether or not the next is surely faster."
        .to_owned();
    say_invalid(&mut about, &experiment.points);
    say_left_out(&mut about, "conditions", drawn.len(), known.len());
    let name = named("conditions", label);
    Some(Figure {
        svg: svg.finish(&name, (WIDTH, frame.bottom() + BELOW), &title, &about),
        name,
        title,
        about,
    })
}
