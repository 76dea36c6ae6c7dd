//! A comparison at one glance: the change of each case with its interval, against no change.

use super::Figure;
use super::chart::{BELOW, Frame, LINE, SMALL, WIDTH, heading, legend, say, say_left_out, short};
use super::palette::{AXIS, GRID, SERIES, TEXT};
use super::scale::Scale;
use super::svg::{Anchor, Svg};
use crate::ui::units;

const MOST_ROWS: usize = 60;

/// One cell of a comparison.
#[derive(Debug, Clone, PartialEq)]
pub struct Row {
    pub label: String,
    pub verdict: &'static str,
    /// As a share of what it was; none where nothing can be said.
    pub change: Option<f64>,
    pub interval: Option<(f64, f64)>,
    /// What is too small to care about.
    pub min_effect: Option<f64>,
    pub stands_out: bool,
}

/// All rows with a change; none where no row has one.
pub fn forest(title: &str, rows: &[Row]) -> Option<Figure> {
    let known: Vec<&Row> = rows.iter().filter(|row| row.change.is_some()).collect();
    let drawn = &known[..known.len().min(MOST_ROWS)];
    if drawn.is_empty() {
        return None;
    }
    let percent = |share: f64| share * 100.0;
    let ends = drawn.iter().flat_map(|row| {
        let change = row.change.unwrap_or(0.0);
        let (low, high) = row.interval.unwrap_or((change, change));
        let effect = row.min_effect.unwrap_or(0.0);
        [low, high, change, effect, -effect].map(percent)
    });
    let mut svg = Svg::default();
    let top = heading(&mut svg, title);
    let names = [
        ("stands out".to_owned(), SERIES[1]),
        ("does not".to_owned(), SERIES[0]),
    ];
    let top = legend(&mut svg, top, &names);
    let step = LINE + 6.0;
    let height = drawn.len() as f64 * step;
    let mut frame = Frame::new(top, height, Scale::of(ends, true), Scale::of([], true));
    frame.left = 200.0;
    frame.width = WIDTH - 200.0 - 160.0;
    let effect = drawn
        .iter()
        .filter_map(|row| row.min_effect)
        .reduce(f64::max);
    if let Some(effect) = effect.map(percent) {
        let (from, to) = (frame.x(-effect), frame.x(effect));
        svg.rect(
            (from, top),
            (to - from, height),
            GRID,
            Some("too small to care about"),
        );
    }
    let zero = frame.x(0.0);
    svg.line((zero, top), (zero, frame.bottom()), AXIS, 1.5, "");
    frame.x_axis(&mut svg, "change of B against A in %");
    svg.group("rows", |svg| {
        for (number, row) in drawn.iter().enumerate() {
            let y = top + (number as f64 + 0.5) * step;
            svg.text(
                (192.0, y + 4.0),
                Anchor::End,
                SMALL,
                TEXT,
                &short(&row.label),
            );
            let ink = SERIES[usize::from(row.stands_out)];
            if let Some((low, high)) = row.interval {
                let (from, to) = (frame.x(percent(low)), frame.x(percent(high)));
                svg.line((from, y), (to, y), ink, 2.5, "");
            }
            let Some(change) = row.change else { continue };
            let about = said(row, change);
            let at = (frame.x(percent(change)), y);
            // A square and a dot: what stands out does so without its colour.
            match row.stands_out {
                true => svg.rect((at.0 - 5.0, y - 5.0), (10.0, 10.0), ink, Some(&about)),
                false => svg.circle(at, 4.5, ink, Some(&about)),
            }
            let right = (frame.left + frame.width + 10.0, y + 4.0);
            let verdict = format!("{}, {}", signed(change), row.verdict);
            svg.text(right, Anchor::Start, SMALL, TEXT, &short(&verdict));
        }
    });
    let mut about = "Each mark is the change, its line the interval. Squares stand out: the interval excludes \
                     no change and the change is at least the minimum effect. In the grey band a change is too \
                     small to care about."
        .to_owned();
    let left_out = rows.len() - known.len();
    if left_out > 0 {
        say(
            &mut about,
            format_args!(" {left_out} rows have no change to draw."),
        );
    }
    say_left_out(&mut about, "rows", drawn.len(), known.len());
    Some(Figure {
        svg: svg.finish("comparison", (WIDTH, frame.bottom() + BELOW), title, &about),
        name: "comparison".into(),
        title: title.to_owned(),
        about,
    })
}

fn signed(share: f64) -> String {
    let sign = if share > 0.0 { "+" } else { "" };
    format!("{sign}{}", units::percent(share))
}

fn said(row: &Row, change: f64) -> String {
    match row.interval {
        Some((low, high)) => format!(
            "{}: {}, between {} and {}: {}",
            row.label,
            signed(change),
            signed(low),
            signed(high),
            row.verdict
        ),
        None => format!("{}: {}, {}", row.label, signed(change), row.verdict),
    }
}
