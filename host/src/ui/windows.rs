//! Windows as text: figures down, cases across, and how the time goes on.

use super::table::Table;
use super::units;
use crate::stats::mean;
use crate::stats::windows::{Windows, fps};
use crate::summary::windows::Variant;

/// Cases side by side; more follow in tables of their own.
const ACROSS: usize = 4;

/// Two decimals, as the tool that this follows prints them; four for what would read as nothing.
fn two(value: Option<f64>) -> String {
    match value {
        None => units::UNKNOWN.into(),
        Some(small) if small.abs() < 1.0 => format!("{small:.4}"),
        Some(value) => format!("{value:.2}"),
    }
}

/// What one row shows of a repeat.
type Row = (&'static str, fn(&Windows) -> Option<f64>);

const ROWS: [Row; 9] = [
    ("global fps", |w| Some(fps(w.global_ms))),
    ("global ms/trial", |w| Some(w.global_ms)),
    ("fps at 10 %", |w| Some(fps(w.at[0].ms))),
    ("fps at 50 %", |w| Some(fps(w.at[1].ms))),
    ("fps at 90 %", |w| Some(fps(w.at[2].ms))),
    ("ms at 10 %", |w| Some(w.at[0].ms)),
    ("ms at 50 %", |w| Some(w.at[1].ms)),
    ("ms at 90 %", |w| Some(w.at[2].ms)),
    ("drift, ms per 1000", |w| w.drift_ms_per_1000),
];

pub fn text(variants: &[Variant]) -> String {
    let tables: Vec<String> = variants.chunks(ACROSS).map(comparison).collect();
    let mut sections = tables;
    sections.push(
        "trials: mean of 61 around 10, 50 and 90 % of each repeat; centre over repeats".into(),
    );
    sections.extend(
        variants
            .iter()
            .filter_map(|variant| trace(variant, variants.len() > 1)),
    );
    sections.join("\n\n")
}

fn comparison(variants: &[Variant]) -> String {
    let mut table = Table::new().text("");
    for variant in variants {
        // Where there is no room for the whole name it breaks between axes, and before their values.
        let name = variant.name.replace('=', "= ").replace(',', ", ");
        table = table.figure(&name);
    }
    for (title, pick) in ROWS {
        let cells = variants
            .iter()
            .map(|variant| two(over_repeats(variant, pick)));
        table.row(
            std::iter::once(title.to_owned())
                .chain(cells)
                .collect::<Vec<_>>(),
        );
    }
    table.render()
}

/// The centre over repeats; a drift may be below zero, where only the arithmetic mean exists.
pub fn over_repeats(variant: &Variant, pick: fn(&Windows) -> Option<f64>) -> Option<f64> {
    let values = variant
        .repeats
        .iter()
        .filter_map(|(_, windows)| pick(windows));
    mean::over_repeats(&values.collect::<Vec<_>>())
}

/// `repeat 0: 100 1.23 ms, 200 1.24 ms`: the first repeat's trace.
fn trace(variant: &Variant, is_named: bool) -> Option<String> {
    let (repeat, windows) = variant.repeats.first()?;
    if windows.trace.is_empty() {
        return None;
    }
    let mut lines = Vec::new();
    for points in windows.trace.chunks(6) {
        let points = points
            .iter()
            .map(|(at, ms)| format!("{at}: {}", units::nanoseconds(ms * 1e6)));
        lines.push(format!("  {}", points.collect::<Vec<_>>().join("   ")));
    }
    const MOST: usize = 12;
    if lines.len() > MOST {
        let left = lines.len() - MOST;
        lines.truncate(MOST);
        lines.push(format!("  and {left} lines more; --json has all"));
    }
    let name = if is_named {
        format!(" of {}", variant.name)
    } else {
        String::new()
    };
    Some(format!(
        "every 100th trial{name}, repeat {repeat}, mean of 7\n{}",
        lines.join("\n")
    ))
}
