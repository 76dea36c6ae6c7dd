//! How p50 goes along the axes of a sweep: lines with intervals, and a heat map over two axes.

use std::collections::{BTreeMap, BTreeSet};

use super::chart::{
    BELOW, Frame, LINE, SMALL, WIDTH, dash, heading, legend, say, say_left_out, short,
};
use super::palette::{ALARM, HEAT, PAPER, QUIET, TEXT, series};
use super::scale::{Scale, time_unit};
use super::svg::{Anchor, Svg};
use super::{Figure, name_of};
use crate::plan::schedule::size;
use crate::ui::units;

/// Lines of one figure.
const MOST_LINES: usize = 6;
/// Rows or columns of a heat map.
const MOST_CELLS: usize = 24;

/// A case of the sweep.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Point {
    pub label: String,
    /// The axes in which cases differ.
    pub axes: BTreeMap<String, String>,
    /// None where nothing was measured.
    pub p50_ns: Option<f64>,
    /// At 95 %, over repeats.
    pub interval: Option<(f64, f64)>,
    /// The figure must not be used.
    pub invalid: bool,
}

/// What can be drawn of these cases.
pub fn sweep(points: &[Point]) -> Vec<Figure> {
    let axes = varying(points);
    let along = axes.iter().filter(|(_, values)| is_numeric(values));
    // The axis with the most values tells the most.
    let along = along.max_by_key(|(name, values)| (values.len(), std::cmp::Reverse(*name)));
    let lines = along.and_then(|(name, _)| lines(points, name));
    let heat = match axes.iter().collect::<Vec<_>>().as_slice() {
        [(rows, _), (columns, _)] => heat(points, rows, columns),
        _ => None,
    };
    lines.into_iter().chain(heat).collect()
}

type Axes = BTreeMap<String, BTreeSet<String>>;

fn varying(points: &[Point]) -> Axes {
    let mut axes = Axes::new();
    for (name, value) in points.iter().flat_map(|point| &point.axes) {
        axes.entry(name.clone()).or_default().insert(value.clone());
    }
    axes.retain(|_, values| values.len() > 1);
    axes
}

fn is_numeric(values: &BTreeSet<String>) -> bool {
    values.iter().all(|value| size(value).is_some())
}

/// Values in their order: by size where they have one, else by name.
fn ordered(points: &[Point], axis: &str) -> Vec<String> {
    let values: BTreeSet<String> = points
        .iter()
        .filter_map(|point| point.axes.get(axis).cloned())
        .collect();
    let mut values: Vec<String> = values.into_iter().collect();
    values.sort_by(|a, b| match (size(a), size(b)) {
        (Some(a), Some(b)) => a.total_cmp(&b),
        _ => a.cmp(b),
    });
    values
}

fn lines(points: &[Point], axis: &str) -> Option<Figure> {
    let mut by_rest: BTreeMap<String, Vec<&Point>> = BTreeMap::new();
    for point in points.iter().filter(|p| p.axes.contains_key(axis)) {
        let rest = point.axes.iter().filter(|(name, _)| *name != axis);
        let rest: Vec<String> = rest
            .map(|(name, value)| format!("{name}={value}"))
            .collect();
        by_rest.entry(rest.join(", ")).or_default().push(point);
    }
    let drawn: Vec<(&String, &Vec<&Point>)> = by_rest.iter().take(MOST_LINES).collect();
    let known = || drawn.iter().flat_map(|(_, points)| points.iter());
    let highest = known().filter_map(|p| Some(p.interval.map_or(p.p50_ns?, |(_, high)| high)));
    let (unit, in_unit) = time_unit(highest.clone().reduce(f64::max)?);
    let lows = known().filter_map(|p| Some(p.interval.map_or(p.p50_ns?, |(low, _)| low)));
    let values: Vec<f64> = highest.chain(lows).map(|ns| ns / in_unit).collect();
    let title = format!("p50 along {axis}");
    let mut svg = Svg::default();
    let mut top = heading(&mut svg, &title);
    if drawn.len() > 1 {
        let names: Vec<_> = drawn
            .iter()
            .zip(0..)
            .map(|((name, _), at)| ((*name).clone(), series(at)))
            .collect();
        top = legend(&mut svg, top, &names);
    }
    let places = known().filter_map(|p| size(p.axes.get(axis)?));
    let frame = Frame::new(top + 6.0, 240.0, at_values(places), Scale::fitting(&values));
    frame.axes(&mut svg, axis, &format!("p50 in {unit}"));
    svg.group("lines", |svg| {
        for (number, (name, points)) in drawn.iter().enumerate() {
            line(svg, &frame, (axis, name), points, number, in_unit);
        }
    });
    let missing = points.iter().filter(|p| p.p50_ns.is_none()).count();
    let mut about =
        "Points are p50, bars its 95 % interval over repeats (none with one repeat).".to_owned();
    if missing > 0 {
        say(
            &mut about,
            format_args!(" {missing} cases have no figure and are not drawn."),
        );
    }
    if points.iter().any(|point| point.invalid) {
        about.push_str(" Points with a ring must not be used: see their findings.");
    }
    say_left_out(&mut about, "lines", drawn.len(), by_rest.len());
    let name = name_of(&["sweep", axis]);
    Some(Figure {
        svg: svg.finish(&name, (WIDTH, frame.bottom() + BELOW), &title, &about),
        name,
        title,
        about,
    })
}

/// An axis whose marks are the values that were measured.
fn at_values(values: impl Iterator<Item = f64>) -> Scale {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    values.dedup();
    let scale = Scale::fitting(&values);
    match values.len() {
        2..=12 => Scale {
            ticks: values,
            ..scale
        },
        _ => scale,
    }
}

fn line(
    svg: &mut Svg,
    frame: &Frame,
    (axis, name): (&str, &str),
    points: &[&Point],
    number: usize,
    in_unit: f64,
) {
    let ink = series(number);
    let mut placed: Vec<(f64, &Point)> = points
        .iter()
        .filter_map(|point| Some((size(point.axes.get(axis)?)?, *point)))
        .filter(|(_, point)| point.p50_ns.is_some())
        .collect();
    placed.sort_by(|(a, _), (b, _)| a.total_cmp(b));
    let at = |value: f64, ns: f64| (frame.x(value), frame.y(ns / in_unit));
    let ys: Vec<(f64, f64)> = placed
        .iter()
        .filter_map(|(x, point)| Some(at(*x, point.p50_ns?)))
        .collect();
    svg.path(&ys, ink, 2.0, dash(number));
    for (x, point) in placed {
        let Some(p50) = point.p50_ns else { continue };
        let place = at(x, p50);
        let mut about = format!("{axis}={}", point.axes.get(axis).map_or("", String::as_str));
        if !name.is_empty() {
            say(&mut about, format_args!(", {name}"));
        }
        say(
            &mut about,
            format_args!(": p50 {}", units::nanoseconds(p50)),
        );
        if let Some((low, high)) = point.interval {
            let (low_at, high_at) = (at(x, low), at(x, high));
            svg.line(low_at, high_at, ink, 2.0, "");
            for end in [low_at, high_at] {
                svg.line((end.0 - 5.0, end.1), (end.0 + 5.0, end.1), ink, 2.0, "");
            }
            say(
                &mut about,
                format_args!(
                    ", {} to {}",
                    units::nanoseconds(low),
                    units::nanoseconds(high)
                ),
            );
        }
        if point.invalid {
            svg.circle(place, 8.0, ALARM, Some("this figure must not be used"));
            svg.circle(place, 6.0, PAPER, None);
        }
        svg.circle(place, 4.0, ink, Some(&about));
    }
}

fn heat(points: &[Point], rows: &str, columns: &str) -> Option<Figure> {
    let (row_values, column_values) = (ordered(points, rows), ordered(points, columns));
    if row_values.len().max(column_values.len()) > MOST_CELLS {
        return None;
    }
    let known = || points.iter().filter_map(|point| point.p50_ns);
    let (low, high) = (known().reduce(f64::min)?, known().reduce(f64::max)?);
    let title = format!("p50 over {rows} and {columns}");
    let mut svg = Svg::default();
    let top = heading(&mut svg, &title) + LINE;
    let left = 170.0;
    let width = (WIDTH - left - 20.0) / column_values.len() as f64;
    let height = 30.0;
    svg.group("cells", |svg| {
        for (row, of_row) in row_values.iter().enumerate() {
            let y = top + row as f64 * height;
            let name = format!("{rows}={of_row}");
            svg.text(
                (left - 8.0, y + 19.0),
                Anchor::End,
                SMALL,
                TEXT,
                &short(&name),
            );
            for (column, of_column) in column_values.iter().enumerate() {
                let is_here = |point: &&Point| {
                    point.axes.get(rows) == Some(of_row)
                        && point.axes.get(columns) == Some(of_column)
                };
                let point = points.iter().find(is_here);
                let place = (left + column as f64 * width, y);
                cell(svg, place, (width, height), point, (low, high));
            }
        }
    });
    let bottom = top + row_values.len() as f64 * height;
    for (column, value) in column_values.iter().enumerate() {
        let x = left + (column as f64 + 0.5) * width;
        svg.text(
            (x, bottom + 16.0),
            Anchor::Middle,
            SMALL,
            QUIET,
            &short(value),
        );
    }
    let at = (left + (WIDTH - left - 20.0) / 2.0, bottom + 36.0);
    svg.text(at, Anchor::Middle, SMALL, TEXT, columns);
    let about = format!(
        "p50 of each case; the darker, the slower, from {} to {}, in steps of equal ratio. – is a case \
         without a figure.",
        units::nanoseconds(low),
        units::nanoseconds(high)
    );
    let name = name_of(&["heat", rows, columns]);
    Some(Figure {
        svg: svg.finish(&name, (WIDTH, bottom + BELOW), &title, &about),
        name,
        title,
        about,
    })
}

fn cell(
    svg: &mut Svg,
    place: (f64, f64),
    size: (f64, f64),
    point: Option<&Point>,
    (low, high): (f64, f64),
) {
    let p50 = point.and_then(|point| point.p50_ns);
    let step = p50.map(|p50| {
        let share = match high > low {
            true => (p50 / low).ln() / (high / low).ln(),
            false => 0.0,
        };
        ((share * HEAT.len() as f64) as usize).min(HEAT.len() - 1)
    });
    let about = point.map(|point| point.label.clone());
    let ink = step.map_or(PAPER, |step| HEAT[step]);
    svg.rect(place, (size.0 - 2.0, size.1 - 2.0), ink, about.as_deref());
    let (on_light, on_dark) = (
        super::svg::Ink {
            class: "on-light",
            ..TEXT
        },
        super::svg::Ink {
            class: "on-dark",
            ..PAPER
        },
    );
    let ink = match step {
        Some(step) if step >= 4 => on_dark,
        Some(_) => on_light,
        None => QUIET,
    };
    let at = (place.0 + size.0 / 2.0, place.1 + 19.0);
    svg.text(at, Anchor::Middle, SMALL, ink, &units::nanoseconds(p50));
}
