//! Memory of the worker: at each moment, and the most it ever had, case by case.

use super::chart::{BELOW, Frame, SMALL, WIDTH, heading, legend, say_left_out, short};
use super::palette::{TEXT, series};
use super::scale::{Scale, byte_unit};
use super::svg::{Anchor, Svg};
use super::{Figure, Labelled};
use crate::store::rows::MomentRow;
use crate::summary::MemoryUse;
use crate::ui::units;

const MOST_CASES: usize = 30;
/// A bar of one moment.
const BAR: f64 = 9.0;

fn moments(memory: &MemoryUse) -> [(&'static str, Option<u64>); 4] {
    [
        ("process started", memory.rss_at(MomentRow::Spawned)),
        ("model loaded", memory.rss_at(MomentRow::Loaded)),
        ("after the window", memory.rss_at(MomentRow::AfterWindow)),
        ("highest of all", memory.peak_bytes),
    ]
}

/// A group of bars a case; none where no memory was read.
pub fn memory(cases: &[Labelled<MemoryUse>]) -> Option<Figure> {
    let most = |case: &Labelled<MemoryUse>| moments(&case.of).into_iter().filter_map(|m| m.1).max();
    let known: Vec<&Labelled<MemoryUse>> =
        cases.iter().filter(|case| most(case).is_some()).collect();
    let drawn = &known[..known.len().min(MOST_CASES)];
    let largest = drawn.iter().filter_map(|case| most(case)).max()? as f64;
    let (unit, size) = byte_unit(largest);
    let title = "Memory of the measuring process";
    let mut svg = Svg::default();
    let top = heading(&mut svg, title);
    let names = moments(&MemoryUse::default()).map(|(name, _)| name.to_owned());
    let names: Vec<_> = names.into_iter().zip((0..).map(series)).collect();
    let top = legend(&mut svg, top, &names);
    let group = BAR * names.len() as f64 + 10.0;
    let height = drawn.len() as f64 * group;
    let mut frame = Frame::new(
        top,
        height,
        Scale::of([largest / size], true),
        Scale::of([], true),
    );
    frame.left = 200.0;
    frame.width = WIDTH - 200.0 - 90.0;
    frame.x_axis(&mut svg, &format!("resident memory in {unit}"));
    svg.group("cases", |svg| {
        for (row, case) in drawn.iter().enumerate() {
            let y = top + row as f64 * group;
            let at = (192.0, y + group / 2.0);
            svg.text(at, Anchor::End, SMALL, TEXT, &short(&case.label));
            for (number, (name, bytes)) in moments(&case.of).into_iter().enumerate() {
                let Some(bytes) = bytes else { continue };
                let (bytes, y) = (bytes as f64, y + number as f64 * BAR);
                let end = frame.x(bytes / size);
                let about = format!("{}: {name} {}", case.label, units::bytes(bytes));
                let width = end - frame.left;
                svg.rect(
                    (frame.left, y),
                    (width, BAR - 1.0),
                    series(number),
                    Some(&about),
                );
            }
            if let Some(peak) = case.of.peak_bytes {
                let at = (frame.x(peak as f64 / size) + 6.0, y + group - 12.0);
                svg.text(at, Anchor::Start, SMALL, TEXT, &units::bytes(peak as f64));
            }
        }
    });
    let mut about = format!(
        "Resident memory of the worker in {unit}, without the pages of the tool's own ring; the largest of all \
         repeats. A moment that was not read is not drawn."
    );
    say_left_out(&mut about, "cases", drawn.len(), known.len());
    let size = (WIDTH, frame.bottom() + BELOW);
    Some(Figure {
        svg: svg.finish("memory", size, title, &about),
        name: "memory".into(),
        title: title.into(),
        about,
    })
}
