//! What loads did to the cases of a run, as a part of the page.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use super::gather::Chapter;
use super::sections;
use super::table::{Cell, Table};
use crate::contention::curve::Ratio;
use crate::contention::read;
use crate::contention::report::{Experiment, METRICS, Point};
use crate::contention::validity::Mark;
use crate::figure::{self, Figure, escape};
use crate::source::{Source, SourceError};
use crate::store::rows::CaseEntry;
use crate::ui::stress;
use crate::ui::units::{self, UNKNOWN};

/// A condition that is no load.
const IDLE: &str = "idle";

/// One experiment: cases that differ in nothing but what else the board did.
#[derive(Debug)]
pub struct Load {
    /// What tells it from the others of its run; empty where it is the only one.
    pub label: String,
    pub experiment: Experiment,
    pub figures: Vec<Figure>,
}

/// The experiments among these cases.
pub(super) fn of(source: &Source, cases: &[CaseEntry]) -> Result<Vec<Load>, SourceError> {
    if cases.iter().all(|entry| entry.case.condition == IDLE) {
        return Ok(Vec::new());
    }
    let experiments = read::read(source, cases, None)?.experiments;
    let labels = labels(&experiments);
    let load = |(experiment, label): (Experiment, String)| Load {
        figures: figure::contention(&label, &experiment),
        label,
        experiment,
    };
    Ok(experiments.into_iter().zip(labels).map(load).collect())
}

/// The axes in which experiments differ.
fn labels(experiments: &[Experiment]) -> Vec<String> {
    let differs = |name: &String, value: &String| {
        let mut all = experiments.iter();
        !all.all(|other| other.axes.get(name) == Some(value))
    };
    let label = |axes: &BTreeMap<String, String>| {
        let own = axes.iter().filter(|(name, value)| differs(name, value));
        let own: Vec<String> = own.map(|(name, value)| format!("{name}={value}")).collect();
        own.join(" ")
    };
    experiments.iter().map(|of| label(&of.axes)).collect()
}

/// All experiments of the page; nothing where there is none.
pub(super) fn section(chapters: &[Chapter]) -> String {
    let mut out = String::new();
    for (number, chapter) in chapters.iter().enumerate() {
        for (at, load) in chapter.loads.iter().enumerate() {
            let whose = match chapters.len() {
                1 => load.label.clone(),
                _ => format!("Run {} {}", chapter.name, load.label),
            };
            if !whose.trim().is_empty() {
                // Writing to a string cannot fail.
                let _ = writeln!(out, "<h3>{}</h3>", escape(whose.trim()));
            }
            out.push_str(&one(load, &whose, &format!("r{number}-l{at}-")));
        }
    }
    out
}

fn one(load: &Load, whose: &str, prefix: &str) -> String {
    let experiment = &load.experiment;
    let verdict = format!("In short: {}.", experiment.verdict.words());
    let mut lines = vec![idle(experiment), verdict];
    let asked = experiment.slo.as_ref();
    lines.extend(asked.map(|asked| format!("asked: {}.", stress::of_asked(asked))));
    lines.extend(experiment.slowest.as_ref().map(|slowest| {
        let said = stress::of_slowest(slowest, &experiment.points);
        format!("Of the valid conditions {said}.")
    }));
    lines.extend(
        experiment
            .curves
            .iter()
            .map(|curve| sentence(&stress::of_curve(curve))),
    );
    lines.extend(
        experiment
            .recovery
            .as_ref()
            .map(|recovery| format!("Idle again at the end: {}.", stress::of_recovery(recovery))),
    );
    let ladders = experiment.ladders.iter();
    lines.extend(ladders.map(|ladder| sentence(&stress::of_ladder(ladder))));
    let shared = shared(experiment);
    lines.extend(
        shared
            .iter()
            .map(|mark| format!("Every condition: {}.", mark.text)),
    );
    let lines: Vec<String> = lines
        .iter()
        .map(|line| format!("<li>{}</li>", escape(line)))
        .collect();
    let figures = load
        .figures
        .iter()
        .map(|figure| sections::figure(figure, prefix));
    format!(
        "<ul>{}</ul>\n{}<p class=\"quiet\">GB/s: {}. Ratios are paired by round, with half the width of their 95 % \
         interval, or all of it where it is wide; a star marks a percentile of too few trials. Against spin: against the same CPUs kept busy with work that needs no memory.</p>\n{}",
        lines.join("\n"),
        table(experiment, whose).html(),
        escape(experiment.currency),
        figures.collect::<String>()
    )
}

fn idle(experiment: &Experiment) -> String {
    let mut marks = experiment.baseline.marks.iter();
    let why = marks.find(|of| of.mark.invalid);
    let ms = |metric: &str| {
        let figure = experiment.baseline.figures.get(metric);
        figure.map_or_else(
            || UNKNOWN.to_owned(),
            |figure| units::nanoseconds(figure.ms * 1e6),
        )
    };
    format!(
        "Idle board: p50 {}, p95 {}, p99 {} ({}{}).{}",
        ms(METRICS[0]),
        ms(METRICS[1]),
        ms(METRICS[2]),
        units::things(experiment.baseline.repeats as u64, "repeat"),
        stress::of_baseline(&experiment.baseline),
        why.map_or_else(String::new, |why| format!(" {}.", why.mark.text))
    )
}

/// Lines for a terminal as a sentence.
fn sentence(lines: &str) -> String {
    let lines: Vec<&str> = lines.lines().map(str::trim).collect();
    format!("{}.", lines.join("; "))
}

fn table(experiment: &Experiment, whose: &str) -> Table {
    let whose = match whose.trim() {
        "" => String::new(),
        whose => format!(" ({whose})"),
    };
    let mut table = Table::new(format!("Slowdown by condition{whose}"))
        .column("condition")
        .figures("GB/s")
        .figures("p50 × idle")
        .figures("p95 × idle")
        .figures("p99 × idle")
        .figures("p50 × spin")
        .column("worth knowing");
    let shared = shared(experiment);
    for point in &experiment.points {
        let ratio = |ratio: Option<&Ratio>| {
            Cell::figure(stress::of_ratio(ratio), ratio.map(|ratio| ratio.ratio))
        };
        let traffic = point.x_bps.map(|bps| bps / 1e9);
        table.row([
            Cell::text(point.condition.clone()),
            Cell::figure(units::figure(traffic), traffic),
            ratio(point.slowdown.get(METRICS[0])),
            ratio(point.slowdown.get(METRICS[1])),
            ratio(point.slowdown.get(METRICS[2])),
            ratio(point.over_spin.get(METRICS[0])),
            Cell::text(worth_knowing(point, &shared)),
        ]);
    }
    table
}

/// Notes that every repeat of every condition has, which are said once.
fn shared(experiment: &Experiment) -> Vec<Mark> {
    let points = experiment.points.iter().map(stress::marked);
    stress::common(&points.collect::<Vec<_>>())
}

/// Whether a point counts, and its marks, each code once.
fn worth_knowing(point: &Point, shared: &[Mark]) -> String {
    let mut words: Vec<String> = Vec::new();
    if !point.valid {
        words.push(format!(
            "invalid: {} of {} repeats count",
            point.valid_repeats, point.repeats
        ));
    }
    let own = point.marks.iter().filter(|of| !shared.contains(&of.mark));
    let mut codes: Vec<&str> = own.map(|of| of.mark.code).collect();
    codes.sort_unstable();
    codes.dedup();
    for code in codes {
        let mut own = point.marks.iter().filter(|of| of.mark.code == code);
        let text = own.next().map_or("", |of| of.mark.text.as_str());
        let more = own.count();
        let more = if more > 0 {
            format!(" (and {more} more repeats)")
        } else {
            String::new()
        };
        words.push(format!("{text}{more}"));
    }
    words.join("; ")
}
