//! What happens before a model is warm: the stages of a fresh process, one bar for each case.

use super::chart::{BELOW, Frame, LINE, SMALL, WIDTH, heading, legend, say_left_out, short};
use super::palette::{TEXT, series};
use super::scale::{Scale, time_unit};
use super::svg::{Anchor, Svg};
use super::{Figure, Labelled};
use crate::summary::ColdStart;
use crate::ui::units;

/// Cases of one figure.
const MOST_CASES: usize = 40;

/// Stages in the order they happen.
fn stages(cold: &ColdStart) -> [(&'static str, Option<f64>); 6] {
    [
        ("spawn and read", sum(&[cold.spawn_ns, cold.read_ns])),
        ("dlopen", cold.dlopen_ns),
        ("load", cold.load_ns),
        ("compile", cold.compile_ns),
        ("bind", cold.bind_ns),
        ("first run", cold.first_ns),
    ]
}

/// The sum of what is known; none where nothing is.
fn sum(parts: &[Option<f64>]) -> Option<f64> {
    parts.iter().copied().flatten().reduce(|a, b| a + b)
}

/// One bar a case; none where no stage was recorded.
pub fn cold(cases: &[Labelled<ColdStart>]) -> Option<Figure> {
    let total = |case: &Labelled<ColdStart>| sum(&stages(&case.of).map(|(_, ns)| ns));
    let known: Vec<&Labelled<ColdStart>> =
        cases.iter().filter(|case| total(case).is_some()).collect();
    let drawn = &known[..known.len().min(MOST_CASES)];
    let longest = drawn
        .iter()
        .filter_map(|case| total(case))
        .reduce(f64::max)?;
    let (unit, size) = time_unit(longest);
    let title = "From nothing to the first result";
    let mut svg = Svg::default();
    let top = heading(&mut svg, title);
    let names = stages(&ColdStart::default()).map(|(name, _)| name.to_owned());
    let legend_of: Vec<_> = names.into_iter().zip((0..).map(series)).collect();
    let top = legend(&mut svg, top, &legend_of);
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
        for (row, case) in drawn.iter().enumerate() {
            let y = top + row as f64 * (LINE + 6.0);
            svg.text(
                (192.0, y + 14.0),
                Anchor::End,
                SMALL,
                TEXT,
                &short(&case.label),
            );
            let mut from = 0.0;
            for (at, (name, ns)) in stages(&case.of).into_iter().enumerate() {
                let Some(ns) = ns else { continue };
                let (begin, end) = (frame.x(from / size), frame.x((from + ns) / size));
                let about = format!("{}: {name} {}", case.label, units::nanoseconds(ns));
                svg.rect((begin, y), (end - begin, LINE), series(at), Some(&about));
                from += ns;
            }
            let at = (frame.x(from / size) + 6.0, y + 14.0);
            svg.text(at, Anchor::Start, SMALL, TEXT, &units::nanoseconds(from));
        }
    });
    let mut about = format!(
        "Stages of a fresh process in {unit}, from its start to the end of the first run; geometric means over \
         repeats. A stage that a backend does not have or nobody recorded is not drawn."
    );
    say_left_out(&mut about, "cases", drawn.len(), known.len());
    let size = (WIDTH, frame.bottom() + BELOW);
    Some(Figure {
        svg: svg.finish("cold", size, title, &about),
        name: "cold".into(),
        title: title.into(),
        about,
    })
}
