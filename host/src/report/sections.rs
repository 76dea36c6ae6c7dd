//! The parts of the page, from findings to plans.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use super::gather::{Chapter, Part};
use super::table::{Cell, Table};
use crate::figure::{Figure, escape};
use crate::findings::kinds::{Kind, Told, kinds};
use crate::stats::interval::{Estimate, IntervalKind};
use crate::stats::summary::Quantile;
use crate::summary::best::{Best, Metric, Sureness};
use crate::summary::{CaseSummary, is_lasting};
use crate::ui::summary::{DIFFER, REPEATS_DIFFER, bound_text};
use crate::ui::sweep;
use crate::ui::units::{self, UNKNOWN};

/// All findings, the gravest first, those of one kind together and the same one of several cases once.
pub(super) fn findings(chapters: &[Chapter]) -> String {
    let parts = chapters.iter().flat_map(|chapter| {
        let parts = chapter.parts.iter();
        parts.map(move |part| (place(chapters, chapter, part), part))
    });
    let parts: Vec<(String, &Part)> = parts.collect();
    let found = parts.iter().flat_map(|(name, part)| {
        let findings = part.summary.findings.iter();
        findings.map(move |finding| (name.as_str(), finding))
    });
    let kinds = kinds(found);
    if kinds.is_empty() {
        return "<p>No rule found anything to say about these figures.</p>\n".into();
    }
    let kinds: String = kinds.iter().map(of_kind).collect();
    format!("<ul class=\"findings\">\n{kinds}</ul>\n")
}

/// Findings of one kind: the worst few, and the others folded away.
fn of_kind(kind: &Kind<'_>) -> String {
    let (first, folded) = kind.split();
    let lines = |told: &[Told<'_>]| -> String {
        let line = |told| format!("<li>{}</li>\n", line(told));
        let lines: String = told.iter().map(line).collect();
        format!("<ul>{lines}</ul>")
    };
    let first = match first {
        [only] => line(only),
        several => lines(several),
    };
    let rest = match folded.len() {
        0 => String::new(),
        n => format!(
            "<details><summary>{n} more of this kind</summary>{}</details>",
            lines(folded)
        ),
    };
    format!(
        "<li class=\"{level}\"><b>{level}</b> <code>{}</code> {} {first}{rest}</li>\n",
        escape(kind.code),
        escape(&kind.heading().unwrap_or_default()),
        level = kind.level.name(),
    )
}

fn line(told: &Told<'_>) -> String {
    format!(
        "{} <span class=\"quiet\">{}</span>",
        escape(&told.text),
        escape(&told.shown_cases())
    )
}

/// How a case is called in a report of one run or of several.
fn place(chapters: &[Chapter], chapter: &Chapter, part: &Part) -> String {
    match chapters.len() {
        1 => part.label.clone(),
        _ => format!("{}: {}", chapter.name, part.label),
    }
}

/// One line a case.
pub(super) fn cases(chapters: &[Chapter]) -> String {
    let axes: BTreeSet<&String> = chapters
        .iter()
        .flat_map(|chapter| chapter.parts.iter().flat_map(|part| part.axes.keys()))
        .collect();
    let several = chapters.len() > 1;
    let mut table = Table::new("Every case: warm and cold latency, rate and memory").column("case");
    if several {
        table = table.column("run");
    }
    for axis in &axes {
        table = table.column(axis.as_str());
    }
    for title in [
        "p50",
        "p99",
        "rate",
        "first run",
        "to first result",
        "peak memory",
        "n",
    ] {
        table = table.figures(title);
    }
    table = table.column("worth knowing");
    for chapter in chapters {
        for part in &chapter.parts {
            let key = Cell::text(part.summary.key.to_string()[..8].to_owned());
            let run = several.then(|| Cell::text(chapter.name.clone()));
            let own = axes.iter().map(|axis| {
                let value = part.axes.get(*axis);
                let value = value.map_or(UNKNOWN, String::as_str);
                match value.parse::<f64>() {
                    Ok(number) => Cell::figure(value, Some(number)),
                    Err(_) => Cell::text(value),
                }
            });
            let row = std::iter::once(key).chain(run).chain(own);
            table.row(row.chain(figures(&part.summary)));
        }
    }
    let differ = chapters.iter().flat_map(|chapter| &chapter.parts);
    let mut differ = differ.filter_map(|part| part.summary.latency.as_ref());
    let differ = match differ.any(|latency| latency.distribution.p99.repeats_differ()) {
        true => format!("<br>{DIFFER} {}.", escape(REPEATS_DIFFER)),
        false => String::new(),
    };
    let note = format!(
        "<p class=\"quiet\">* too few independent trials for this percentile. Below p50 stands its interval at \
         95 %, over repeats where there are several; below p99 its bound, which the true percentile stays below \
         in 99 of 100 experiments.{differ}</p>\n"
    );
    format!("{}{note}", table.html())
}

fn figures(summary: &CaseSummary) -> Vec<Cell> {
    let latency = summary.latency.as_ref();
    let time = |ns: Option<f64>| Cell::figure(units::nanoseconds(ns), ns);
    let quantile = |pick: fn(&crate::stats::summary::Distribution) -> Quantile| {
        let Some(quantile) = latency.map(|latency| pick(&latency.distribution)) else {
            return Cell::figure(UNKNOWN, None);
        };
        let mark = if quantile.enough { "" } else { "*" };
        let text = format!("{}{mark}", units::nanoseconds(quantile.value));
        Cell::figure(text, Some(quantile.value))
    };
    let interval = latency.and_then(|latency| latency.p50_interval);
    let bound = latency.and_then(|latency| bound_text(&latency.distribution.p99));
    let rate = latency.and_then(|latency| latency.rate_hz);
    let peak = summary.memory.peak_bytes.map(|bytes| bytes as f64);
    let n = latency.map(|latency| latency.distribution.n as f64);
    let worst = summary.findings.iter().map(|finding| finding.level).max();
    let state = match (latency, worst) {
        (None, _) if summary.counts.attempts == 0 => "not run",
        (None, _) => "failed",
        (_, Some(level)) => level.name(),
        (_, None) => "",
    };
    vec![
        quantile(|d| d.p50).with_below(interval.map(|estimate| interval_text(&estimate))),
        quantile(|d| d.p99).with_below(bound.map(|bound| format!("bound {bound}"))),
        Cell::figure(units::hertz(rate), rate),
        time(summary.cold.first_ns),
        time(summary.cold.total_ns),
        Cell::figure(units::bytes(peak), peak),
        Cell::figure(
            latency.map_or_else(|| "0".to_owned(), |latency| latency.count_text()),
            n,
        ),
        Cell::text(state),
    ]
}

fn interval_text(estimate: &Estimate) -> String {
    let within = match estimate.kind {
        IntervalKind::OverRepeats => "",
        IntervalKind::WithinRun => " (one process)",
    };
    let (low, high) = (
        units::nanoseconds(estimate.low),
        units::nanoseconds(estimate.high),
    );
    format!("{low} to {high}{within}")
}

/// The best case by each metric, run by run.
pub(super) fn best(chapters: &[Chapter]) -> String {
    let mut table = Table::new("The best case by each metric, and how sure that is")
        .column("best by")
        .column("run")
        .column("case")
        .figures("value")
        .figures("better than the next by")
        .column("how sure");
    for chapter in chapters {
        for best in &chapter.best {
            let label = |key| {
                let part = chapter.parts.iter().find(|part| part.summary.key == key);
                part.map_or_else(String::new, |part| part.label.clone())
            };
            let next = best.next.map(|(_, ratio)| ratio - 1.0);
            table.row([
                Cell::text(title(best.metric)),
                Cell::text(chapter.name.clone()),
                Cell::text(label(best.case)),
                Cell::figure(sweep::value(best), Some(best.value)),
                Cell::figure(units::percent(next), next),
                Cell::text(sureness(best, label)),
            ]);
        }
    }
    match table.is_empty() {
        true => String::new(),
        false => table.html(),
    }
}

fn title(metric: Metric) -> &'static str {
    match metric {
        Metric::P50 => "p50",
        Metric::P99 => "p99",
        Metric::Rate => "rate",
        Metric::Items => "items a second",
        Metric::Memory => "peak memory",
    }
}

fn sureness(best: &Best, label: impl Fn(edgedyno_shared::ids::Sha256) -> String) -> String {
    match &best.sureness {
        Sureness::Alone => "the only case".into(),
        Sureness::Sure => "better than all others (95 %)".into(),
        Sureness::FewTrials => "too few independent trials to tell".into(),
        Sureness::Unknown => "too few repeats, or one value a case: nothing to tell by".into(),
        Sureness::Undecided(keys) => {
            let named: Vec<String> = keys.iter().take(3).map(|key| label(*key)).collect();
            let more = keys.len() - named.len();
            let more = if more > 0 {
                format!(" and {more} more")
            } else {
                String::new()
            };
            format!("not told apart from {}{more}", named.join("; "))
        }
    }
}

/// A drawing with its words. `prefix` keeps the names of several runs apart.
pub(super) fn figure(figure: &Figure, prefix: &str) -> String {
    let name = &figure.name;
    let svg = figure
        .svg
        .replace(&format!("\"{name}-"), &format!("\"{prefix}{name}-"))
        .replace(
            &format!(" {name}-about\""),
            &format!(" {prefix}{name}-about\""),
        );
    format!(
        "<figure id=\"{prefix}{name}\"><div class=\"drawing\" tabindex=\"0\" role=\"group\" aria-label=\"{}\">{svg}</div>\
         <figcaption>{}</figcaption><output aria-live=\"polite\"></output></figure>\n",
        escape(&figure.title),
        escape(&figure.about)
    )
}

/// What differs between the boards and settings of the runs, and what they were.
pub(super) fn environment(chapters: &[Chapter]) -> String {
    let columns = columns(chapters);
    let names: BTreeSet<&String> = columns.iter().flat_map(|(_, facts)| facts.keys()).collect();
    let mut out = String::new();
    let unequal = differing(&columns);
    if columns.len() > 1 {
        let _ = match unequal.is_empty() {
            true => writeln!(out, "<p>No setting that was read differs between them.</p>"),
            false => writeln!(
                out,
                "<p><strong>These differ:</strong> {}. Figures of different environments are no measure of \
                 anything else that differs.</p>",
                escape(&unequal.iter().copied().collect::<Vec<_>>().join(", "))
            ),
        };
    }
    let mut table = Table::new("Settings and versions as they were read").column("what");
    if columns.len() > 1 {
        table = table.column("differs");
    }
    for (name, _) in &columns {
        table = table.column(name.as_str());
    }
    // What differs comes first.
    let mut names: Vec<&String> = names.into_iter().collect();
    names.sort_by_key(|name| !unequal.contains(name.as_str()));
    for name in names {
        let differs = (columns.len() > 1).then(|| {
            let words = if unequal.contains(name.as_str()) {
                "differs"
            } else {
                ""
            };
            Cell::text(words)
        });
        let values = columns.iter().map(|(_, facts)| {
            let value = facts.get(name).map_or("not recorded", String::as_str);
            Cell::text(value)
        });
        let row = std::iter::once(Cell::text(name.as_str())).chain(differs);
        table.row(row.chain(values));
    }
    out.push_str(&table.html());
    out
}

/// Boards and settings of all runs of the page.
fn columns(chapters: &[Chapter]) -> Vec<(String, Facts)> {
    let each = chapters.iter();
    each.flat_map(|chapter| of_boards(chapters, chapter))
        .collect()
}

/// Names of what is not the same everywhere.
fn differing(columns: &[(String, Facts)]) -> BTreeSet<&str> {
    let names = columns.iter().flat_map(|(_, facts)| facts.keys());
    let differs = |name: &&String| {
        let first = columns[0].1.get(*name);
        columns.iter().any(|(_, facts)| facts.get(*name) != first)
    };
    names.filter(differs).map(String::as_str).collect()
}

/// The same, for the first screen; none where only one board of one run is told of.
pub(super) fn differences(chapters: &[Chapter]) -> Option<Vec<String>> {
    let columns = columns(chapters);
    let unequal = differing(&columns).into_iter().map(str::to_owned);
    (columns.len() > 1).then(|| unequal.collect())
}

/// What was read of a board, by name.
type Facts = BTreeMap<String, String>;

/// Facts of each board of a run.
fn of_boards(chapters: &[Chapter], chapter: &Chapter) -> Vec<(String, Facts)> {
    let mut boards: BTreeMap<String, Facts> = BTreeMap::new();
    for part in &chapter.parts {
        let environment = &part.summary.environment;
        let facts = boards.entry(environment.board.clone()).or_default();
        let mut put = |name: &str, value: Option<String>| {
            if let Some(value) = value {
                let known = facts.entry(name.to_owned()).or_default();
                if !known.split("; ").any(|one| one == value) {
                    let so_far = std::mem::take(known);
                    *known = if so_far.is_empty() {
                        value
                    } else {
                        format!("{so_far}; {value}")
                    };
                }
            }
        };
        put("operating system", environment.os.clone());
        put("architecture", environment.arch.clone());
        put("CPUs online", environment.cpus.map(|cpus| cpus.to_string()));
        put(
            "memory",
            environment
                .memory_bytes
                .map(|bytes| units::bytes(bytes as f64)),
        );
        put("agent", environment.agent_version.clone());
        put("agent build", environment.agent_build.clone());
        let lasting = environment
            .facts
            .iter()
            .filter(|fact| is_lasting(&fact.name));
        for fact in lasting {
            // What could not be read says why.
            let value = fact
                .value
                .clone()
                .or_else(|| Some(format!("({})", fact.state)));
            put(&fact.name, value);
        }
        let runtime = part.summary.runtime.as_ref();
        put(
            &format!("runtime of {}", part.summary.case.backend),
            runtime.map(|runtime| runtime.version.clone()),
        );
    }
    let name = |board: String| match (chapters.len(), chapter.parts.is_empty()) {
        (1, _) => format!("board {board}"),
        _ => format!("{}, board {board}", chapter.name),
    };
    boards
        .into_iter()
        .map(|(board, facts)| (name(board), facts))
        .collect()
}

/// Command and plan of each run, and how to quote each case.
pub(super) fn plans(chapters: &[Chapter]) -> String {
    let mut out = String::new();
    for chapter in chapters {
        let plan = serde_json::to_string_pretty(&chapter.run.plan).unwrap_or_default();
        let words: Vec<String> = chapter.run.argv.iter().map(|word| quoted(word)).collect();
        let _ = writeln!(
            out,
            "<details><summary>Run {}: command and plan</summary>\n<pre>{}</pre>\n<pre>{}</pre></details>",
            escape(&chapter.name),
            escape(&words.join(" ")),
            escape(&plan)
        );
        let cites = chapter.parts.iter().map(|part| part.summary.cite.as_str());
        let cites: Vec<String> = cites
            .map(|cite| format!("<li>{}</li>", escape(cite)))
            .collect();
        let _ = writeln!(
            out,
            "<details><summary>Run {}: lines to quote</summary>\n<ul>{}</ul></details>",
            escape(&chapter.name),
            cites.join("\n")
        );
    }
    out
}

fn quoted(word: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_./=:,+%@".contains(c);
    match !word.is_empty() && word.chars().all(is_plain) {
        true => word.to_owned(),
        false => format!("'{}'", word.replace('\'', "'\\''")),
    }
}
