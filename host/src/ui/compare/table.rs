//! The table of a comparison, with what must be known to read it below.

use super::{label, notes};
use crate::compare::report::Comparison;
use crate::ui::table::{Table, WIDTH};
use crate::ui::wrap::wrapped;

pub fn table(comparison: &Comparison) -> String {
    let mut parts = vec![cells(comparison)];
    let lines = notes::all(comparison);
    let width = usize::from(WIDTH);
    let lines: Vec<String> = lines.iter().map(|line| wrapped(line, width, 2)).collect();
    parts.push(lines.join("\n"));
    parts.join("\n\n")
}

fn cells(comparison: &Comparison) -> String {
    let several = comparison.ask.metrics.len() > 1;
    let mut table = Table::new().text("case");
    if several {
        table = table.text("metric");
    }
    let title = comparison
        .ask
        .metrics
        .first()
        .map_or("", |metric| metric.title);
    let named = |side: &str| match several {
        true => side.to_owned(),
        false => format!("{side} {title}"),
    };
    table = table
        .figure(&named("A"))
        .figure(&named("B"))
        .figure("change")
        .figure("interval")
        .text("verdict")
        .figure("repeats");
    let labels = label::pairs(comparison);
    for cell in &comparison.cells {
        let metric = several.then(|| cell.metric.title.to_owned());
        let row = [
            label::figure(cell.metric, &cell.a),
            label::figure(cell.metric, &cell.b),
            label::change(cell.change()),
            label::interval(cell),
            label::verdict(cell),
            label::repeats(cell, &comparison.pairs[cell.pair]),
        ];
        let first = labels[cell.pair].clone();
        let row: Vec<String> = std::iter::once(first).chain(metric).chain(row).collect();
        table.row(row);
    }
    table.render()
}
