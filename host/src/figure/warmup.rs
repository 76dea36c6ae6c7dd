//! From the first run to the last: cold, warm-up, and whether the window drifts.

use super::chart::{BELOW, Frame, LINE, SMALL, WIDTH, heading, legend, say};
use super::decimate::min_max;
use super::palette::{AXIS, QUIET, series};
use super::scale::{Scale, time_unit};
use super::svg::{Anchor, Svg};
use super::{Figure, name_of};
use crate::stats::quantile;

const MOST_REPEATS: usize = 6;
const MOST_POINTS: usize = 800;

/// Trials of one repeat in the order they ran, whatever they were for, and which is the first measured one.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Life {
    pub repeat: u32,
    pub nanoseconds: Vec<f64>,
    pub first_measured: usize,
}

/// The lives of a case's repeats, from the first measured trial to the right of zero, what came before it to
/// the left; none where nothing ran.
pub fn warmup(label: &str, lives: &[Life]) -> Option<Figure> {
    let lives: Vec<&Life> = lives.iter().filter(|l| !l.nanoseconds.is_empty()).collect();
    let drawn = &lives[..lives.len().min(MOST_REPEATS)];
    let all = || {
        drawn
            .iter()
            .flat_map(|life| life.nanoseconds.iter().copied())
    };
    let (unit, size) = time_unit(all().fold(0.0, f64::max));
    if drawn.is_empty() {
        return None;
    }
    let ends = drawn.iter().flat_map(|life| {
        let before = -(life.first_measured as f64);
        [
            before,
            (life.nanoseconds.len() - life.first_measured) as f64,
        ]
    });
    let values: Vec<f64> = all().map(|ns| ns / size).collect();
    let title = format!("Warm-up and drift: {label}");
    let mut svg = Svg::default();
    let names: Vec<_> = drawn
        .iter()
        .enumerate()
        .map(|(at, life)| (format!("repeat {}", life.repeat), series(at)))
        .collect();
    let top = heading(&mut svg, &title);
    let top = legend(&mut svg, top, &names);
    let frame = Frame::new(
        top + LINE,
        230.0,
        Scale::of(ends, true),
        Scale::fitting(&values),
    );
    frame.axes(
        &mut svg,
        "trials since measurement began (before zero: cold and warm-up)",
        &format!("latency in {unit}"),
    );
    let zero = frame.x(0.0);
    svg.line((zero, frame.top), (zero, frame.bottom()), AXIS, 1.5, "5 4");
    let at = (zero + 4.0, frame.top - 5.0);
    svg.text(at, Anchor::Start, SMALL, QUIET, "measured from here on");
    let mut smoothed = 0;
    svg.group("lives", |svg| {
        for (at, life) in drawn.iter().enumerate() {
            let (points, every) = medians(life);
            smoothed = smoothed.max(every);
            let place = |(x, ns): &(f64, f64)| (frame.x(*x), frame.y(ns / size));
            let points: Vec<(f64, f64)> = points.iter().map(place).collect();
            svg.path(&points, series(at), 1.5, "");
        }
    });
    let mut about =
        format!("Latency in {unit} of every trial from the first one on, a line for each repeat.");
    if smoothed > 1 {
        say(
            &mut about,
            format_args!(
                " Before zero each trial is drawn; after it each point is the median of up to {smoothed} trials in a row."
            ),
        );
    }
    if lives.len() > drawn.len() {
        let (shown, all) = (drawn.len(), lives.len());
        say(
            &mut about,
            format_args!(" Of {all} repeats the first {shown} are drawn."),
        );
    }
    let name = name_of(&["warmup", label]);
    Some(Figure {
        svg: svg.finish(&name, (WIDTH, frame.bottom() + BELOW), &title, &about),
        name,
        title,
        about,
    })
}

/// Trials before the window one by one, within it as medians of stretches, and how long those are.
fn medians(life: &Life) -> (Vec<(f64, f64)>, usize) {
    let (before, window) = life.nanoseconds.split_at(life.first_measured);
    let first = -(before.len() as f64);
    let before: Vec<(f64, f64)> = before
        .iter()
        .enumerate()
        .map(|(i, ns)| (first + i as f64, *ns))
        .collect();
    let every = window.len().div_ceil(MOST_POINTS / 2).max(1);
    let stretch = |(at, part): (usize, &[f64])| {
        let middle = (at * every) as f64 + part.len() as f64 / 2.0;
        Some((middle, quantile::of(part, 0.5)?))
    };
    let within = window.chunks(every).enumerate().filter_map(stretch);
    let mut points = min_max(&before, MOST_POINTS / 2);
    points.extend(within);
    (points, every)
}
