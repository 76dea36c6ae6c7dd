//! A comparison as a part of the page: its table, its forest plot, and what must be known to read both.

use super::table::{Cell, Table};
use crate::compare::cell::Verdict;
use crate::compare::report::Comparison;
use crate::figure::forest::{Row, forest};
use crate::figure::{Figure, escape};
use crate::ui::compare::{label, notes};

/// What stands on the page.
#[derive(Debug, Clone)]
pub struct Compared {
    pub(super) table: String,
    pub(super) notes: String,
    /// How many of which verdict, and the largest change that stands out.
    pub(super) headline: String,
    pub(super) figure: Option<Figure>,
}

impl Compared {
    pub fn figure(&self) -> Option<&Figure> {
        self.figure.as_ref()
    }

    pub fn of(comparison: &Comparison) -> Self {
        let labels = label::pairs(comparison);
        let (a, b) = (&comparison.a.name, &comparison.b.name);
        let (title, caption) = match a == b {
            true => (
                format!("Cases of {a} against each other"),
                format!("A and B are cases of {a}"),
            ),
            false => (format!("{b} against {a}"), format!("B is {b}, A is {a}")),
        };
        let mut table = Table::new(caption)
            .column("case")
            .column("metric")
            .figures("A")
            .figures("B")
            .figures("change")
            .figures("interval")
            .column("verdict")
            .figures("repeats");
        let mut rows = Vec::new();
        for cell in &comparison.cells {
            let (pair, metric) = (&comparison.pairs[cell.pair], cell.metric);
            let name = &labels[cell.pair];
            let interval = cell.interval();
            table.row([
                Cell::text(name.clone()),
                Cell::text(metric.title),
                Cell::figure(label::figure(metric, &cell.a), cell.a.value),
                Cell::figure(label::figure(metric, &cell.b), cell.b.value),
                Cell::figure(label::change(cell.change()), cell.change()),
                Cell::figure(
                    label::interval(cell),
                    interval.map(|(low, high)| high - low),
                ),
                Cell::text(label::verdict(cell)),
                Cell::figure(label::repeats(cell, pair), Some(cell.b.repeats as f64)),
            ]);
            rows.push(Row {
                label: match comparison.ask.metrics.len() {
                    1 => name.clone(),
                    _ => format!("{name}, {}", metric.title),
                },
                verdict: cell.verdict.words(metric),
                // The ratio of two conditions says nothing.
                change: cell
                    .change()
                    .filter(|_| cell.verdict != Verdict::NotComparable),
                interval,
                min_effect: (!cell.rule.is_for_parity()).then_some(cell.min_effect),
                stands_out: cell.verdict.is_difference(),
            });
        }
        let lines = notes::all(comparison).into_iter();
        let lines: Vec<String> = lines
            .map(|line| format!("<li>{}</li>", escape(line.trim_start())))
            .collect();
        Self {
            headline: headline(comparison, &labels, &title),
            table: table.html(),
            notes: format!("<ul class=\"notes\">{}</ul>\n", lines.join("\n")),
            figure: forest(&title, &rows),
        }
    }
}

fn headline(comparison: &Comparison, labels: &[String], title: &str) -> String {
    let mut counts: Vec<(&'static str, usize)> = Vec::new();
    for cell in &comparison.cells {
        let words = cell.verdict.words(cell.metric);
        match counts.iter_mut().find(|(known, _)| *known == words) {
            Some((_, count)) => *count += 1,
            None => counts.push((words, 1)),
        }
    }
    let counts: Vec<String> = counts
        .into_iter()
        .map(|(words, count)| match comparison.cells.len() {
            1 => words.to_owned(),
            _ => format!("{count} {words}"),
        })
        .collect();
    let different = comparison
        .cells
        .iter()
        .filter(|cell| cell.verdict.is_difference());
    let largest = different.max_by(|a, b| {
        let size = |change: Option<f64>| change.map_or(0.0, f64::abs);
        size(a.change()).total_cmp(&size(b.change()))
    });
    let largest = largest.map(|cell| {
        let case = match labels.len() {
            1 => String::new(),
            _ => format!(" ({})", labels[cell.pair]),
        };
        let change = label::change(cell.change());
        let interval = label::interval(cell);
        format!(
            "; the largest change is {change}, {interval}, {}{case}",
            cell.metric.title
        )
    });
    format!(
        "{title}: {}{}",
        counts.join(", "),
        largest.unwrap_or_default()
    )
}
