//! A comparison for a pull request.

use super::{label, notes};
use crate::compare::report::Comparison;

pub fn markdown(comparison: &Comparison) -> String {
    let several = comparison.ask.metrics.len() > 1;
    let title = comparison
        .ask
        .metrics
        .first()
        .map_or("", |metric| metric.title);
    let named = |side: &str| match several {
        true => side.to_owned(),
        false => format!("{side} {title}"),
    };
    let (a, b) = (named("A"), named("B"));
    let mut head = vec!["case"];
    if several {
        head.push("metric");
    }
    head.extend([a.as_str(), &b, "change", "interval", "verdict", "repeats"]);
    let right = [":--"; 2].iter().take(if several { 2 } else { 1 });
    let rule: Vec<&str> = right
        .copied()
        .chain(["--:", "--:", "--:", "--:", ":--", "--:"])
        .collect();
    let mut lines = vec![row(&head), row(&rule)];
    let labels = label::pairs(comparison);
    for cell in &comparison.cells {
        let metric = several.then(|| cell.metric.title.to_owned());
        let verdict = label::verdict(cell);
        let (a, b) = (&cell.a, &cell.b);
        let cells = [
            escaped(&label::figure(cell.metric, a)),
            escaped(&label::figure(cell.metric, b)),
            label::change(cell.change()),
            label::interval(cell),
            if cell.verdict.is_difference() {
                format!("**{verdict}**")
            } else {
                verdict
            },
            label::repeats(cell, &comparison.pairs[cell.pair]),
        ];
        let first = escaped(&labels[cell.pair]);
        let all: Vec<String> = std::iter::once(first).chain(metric).chain(cells).collect();
        lines.push(row(&all));
    }
    lines.push(String::new());
    let notes = notes::all(comparison);
    lines.extend(
        notes
            .iter()
            .map(|note| format!("* {}", escaped(note.trim()))),
    );
    lines.join("\n")
}

fn row<S: AsRef<str>>(cells: &[S]) -> String {
    let cells: Vec<&str> = cells.iter().map(AsRef::as_ref).collect();
    format!("| {} |", cells.join(" | "))
}

/// A bar would begin another cell; angle brackets would be markup.
fn escaped(text: &str) -> String {
    text.replace('*', "\\*")
        .replace('|', "\\|")
        .replace('<', "&lt;")
        .replace('\n', " ")
}
