//! Bars that are made of parts one after the other, a bar for each case.

use super::chart::{BELOW, Frame, LINE, SMALL, WIDTH, heading, legend, say_left_out, short};
use super::palette::{TEXT, series};
use super::scale::{Scale, time_unit};
use super::svg::{Anchor, Svg};
use super::{Figure, Labelled};
use crate::ui::units;

/// Cases of one figure.
const MOST_CASES: usize = 40;

/// What a stack is called, and what its parts are.
pub(super) struct Words<'a> {
    pub(super) name: &'a str,
    pub(super) title: &'a str,
    pub(super) about: String,
    /// In the order in which they happen.
    pub(super) parts: &'a [String],
}

/// Lengths in nanoseconds; what nobody recorded is none.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Bar {
    pub(super) parts: Vec<Option<f64>>,
    /// The figure at its end.
    pub(super) total: Option<f64>,
}

pub(super) type Row = Labelled<Bar>;

impl Bar {
    /// A bar whose parts are all there is.
    pub(super) fn of(parts: Vec<Option<f64>>) -> Self {
        let total = sum(&parts);
        Self { parts, total }
    }
}

/// The sum of what is known; none where nothing is.
pub(super) fn sum(parts: &[Option<f64>]) -> Option<f64> {
    parts.iter().copied().flatten().reduce(|a, b| a + b)
}

/// One bar a case; none where nothing was recorded of any.
pub(super) fn stack(words: Words<'_>, rows: &[Row]) -> Option<Figure> {
    let drawn_end = |row: &Row| sum(&row.of.parts);
    let known: Vec<&Row> = rows.iter().filter(|row| drawn_end(row).is_some()).collect();
    let drawn = &known[..known.len().min(MOST_CASES)];
    let ends = drawn.iter().flat_map(|row| [drawn_end(row), row.of.total]);
    let longest = ends.flatten().reduce(f64::max)?;
    let (unit, size) = time_unit(longest);
    let mut svg = Svg::default();
    let top = heading(&mut svg, words.title);
    let named = words.parts.iter().cloned().zip((0..).map(series));
    let top = legend(&mut svg, top, &named.collect::<Vec<_>>());
    let height = drawn.len() as f64 * (LINE + 6.0);
    let mut frame = Frame::new(
        top,
        height,
        Scale::of([longest / size], true),
        Scale::of([], true),
    );
    frame.left = 200.0;
    frame.width = WIDTH - 200.0 - 90.0;
    frame.x_axis(&mut svg, &format!("time in {unit}"));
    svg.group("cases", |svg| {
        for (number, row) in drawn.iter().enumerate() {
            let y = top + number as f64 * (LINE + 6.0);
            bar(svg, &frame, words.parts, row, (y, size));
        }
    });
    let mut about = format!("{} Times are in {unit}.", words.about);
    say_left_out(&mut about, "cases", drawn.len(), known.len());
    let size = (WIDTH, frame.bottom() + BELOW);
    Some(Figure {
        svg: svg.finish(words.name, size, words.title, &about),
        name: words.name.into(),
        title: words.title.into(),
        about,
    })
}

fn bar(svg: &mut Svg, frame: &Frame, parts: &[String], row: &Row, (y, size): (f64, f64)) {
    let at = (192.0, y + 14.0);
    svg.text(at, Anchor::End, SMALL, TEXT, &short(&row.label));
    let mut from = 0.0;
    for (number, (part, ns)) in parts.iter().zip(&row.of.parts).enumerate() {
        let Some(ns) = ns else { continue };
        let (begin, end) = (frame.x(from / size), frame.x((from + ns) / size));
        let about = format!("{}: {part} {}", row.label, units::nanoseconds(*ns));
        // A hair of paper between parts, so that they are told apart without their colours.
        let width = (end - begin - 1.0).max(0.5);
        svg.rect((begin, y), (width, LINE), series(number), Some(&about));
        from += ns;
    }
    let end = from.max(row.of.total.unwrap_or(0.0));
    let at = (frame.x(end / size) + 6.0, y + 14.0);
    let total = units::nanoseconds(row.of.total);
    svg.text(at, Anchor::Start, SMALL, TEXT, &total);
}
