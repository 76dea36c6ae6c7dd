//! What a report tells of a run: cases, figures, and data to embed, each read once.

use std::collections::BTreeMap;

use super::data::Trials;
use super::lanes;
use super::loads::{self, Load};
use super::pass::{self, Inside};
use crate::figure::phases::Phases;
use crate::figure::steps::Step;
use crate::figure::sweep::Point;
use crate::figure::{self, Figure, Labelled};
use crate::findings::Level;
use crate::plan::schedule::Order;
use crate::source::{self, Source, SourceError};
use crate::stats::interval::IntervalKind;
use crate::store::rows::{CaseEntry, RunRow};
use crate::summary::best::{Best, best};
use crate::summary::{CaseSummary, summarise};
use crate::view::{CaseView, RepeatView};

/// Cases whose trials are drawn one by one; more make no page that anybody reads.
const MOST_DRAWN: usize = 12;
/// Repeats of a case whose trials are drawn.
const MOST_REPEATS: usize = 6;
/// Cases whose phases and steps are looked at.
const MOST_INSIDE: usize = 40;

/// How many trials may be embedded.
#[derive(Debug, Clone, Copy)]
pub struct Room {
    /// Of one case.
    pub a_case: usize,
    /// Of the whole report.
    pub all: usize,
}

impl Room {
    pub const USUAL: Self = Self {
        a_case: 50_000,
        all: 300_000,
    };
}

/// One run.
#[derive(Debug)]
pub struct Chapter {
    /// As the run was named.
    pub name: String,
    pub run: RunRow,
    pub parts: Vec<Part>,
    /// Of the run as a whole.
    pub figures: Vec<Figure>,
    /// What loads did, where cases differ in them.
    pub loads: Vec<Load>,
    pub best: Vec<Best>,
    /// Cases that are in tables and not drawn trial by trial.
    pub not_drawn: usize,
}

/// One case.
#[derive(Debug)]
pub struct Part {
    pub label: String,
    /// The axes in which it differs from the others.
    pub axes: BTreeMap<String, String>,
    pub summary: CaseSummary,
    pub figures: Vec<Figure>,
    pub trials: Vec<Trials>,
    /// What lies inside a trial, where the backend tells it.
    phases: Option<Phases>,
    steps: Vec<Step>,
    /// Of so many trials the steps of one were looked at.
    stepped: usize,
}

/// Reads the cases of a run and draws them.
pub fn gather(
    name: &str,
    source: &Source,
    cases: &[CaseEntry],
    room: Room,
) -> Result<Chapter, SourceError> {
    let picks = source::describe(cases);
    let mut parts = Vec::new();
    for (number, (view, pick)) in source.views(cases)?.zip(picks).enumerate() {
        let view = view?;
        let axes: BTreeMap<String, String> = pick.axes.into_iter().collect();
        let label = match axes.is_empty() {
            true => pick.key,
            false => axes
                .iter()
                .map(|(name, value)| format!("{name}={value}"))
                .collect::<Vec<_>>()
                .join(" "),
        };
        let summary = summarise(&view);
        let drawn = match number < MOST_DRAWN {
            true => drawn(&label, source, &view, &summary)?,
            false if number < MOST_INSIDE => Drawn {
                inside: inside(source, &view)?,
                ..Drawn::default()
            },
            false => Drawn::default(),
        };
        parts.push(Part {
            trials: embedded(&view, room.a_case.min(room.all / cases.len().max(1))),
            figures: drawn.figures,
            phases: drawn.inside.phases(),
            steps: drawn.inside.steps(),
            stepped: drawn.inside.every,
            summary,
            label,
            axes,
        });
    }
    let run = source.run()?;
    let order = run.plan["order"].as_str().and_then(Order::from_name);
    let summaries: Vec<CaseSummary> = parts.iter().map(|part| part.summary.clone()).collect();
    Ok(Chapter {
        name: name.to_owned(),
        best: match summaries.len() {
            0 | 1 => Vec::new(),
            _ => best(&summaries, order.unwrap_or_default()),
        },
        figures: of_run(&parts),
        loads: loads::of(source, cases)?,
        not_drawn: parts.len().saturating_sub(MOST_DRAWN),
        run,
        parts,
    })
}

/// Trials of the repeats that count, as many as there is room for.
fn embedded(view: &CaseView, room: usize) -> Vec<Trials> {
    let repeats = view.counting().count().max(1);
    let of = |repeat: &RepeatView| {
        let most = (room / repeats).max(10);
        Trials::of(repeat.row.key.repeat, &repeat.trials.measured, most)
    };
    view.counting().map(of).collect()
}

/// What was drawn of one case, and what its trials are like inside.
#[derive(Default)]
struct Drawn {
    figures: Vec<Figure>,
    inside: Inside,
}

/// Figures of the trials of one case.
fn drawn(
    label: &str,
    source: &Source,
    view: &CaseView,
    summary: &CaseSummary,
) -> Result<Drawn, SourceError> {
    let (mut tracks, mut lives) = (Vec::new(), Vec::new());
    let mut inside = Inside::default();
    for repeat in view.counting().take(MOST_REPEATS) {
        let seen = pass::look(source, repeat, &mut inside)?;
        tracks.push(seen.track);
        lives.push(seen.life);
    }
    let repeats = view.counting().count();
    let lanes = match view.counting().next() {
        Some(first) => lanes::of(source, first)?,
        None => Vec::new(),
    };
    let spread = summary.latency.as_ref().and_then(|latency| {
        let measured = view.counting().map(|repeat| &repeat.trials.measured);
        let mut sorted: Vec<i64> = measured.flatten().copied().collect();
        sorted.sort_unstable();
        figure::distribution(label, latency, &sorted)
    });
    let mut figures: Vec<Figure> = [
        spread,
        figure::timeline(label, &tracks, &lanes),
        figure::warmup(label, &lives),
    ]
    .into_iter()
    .flatten()
    .collect();
    if repeats > MOST_REPEATS {
        for figure in figures.iter_mut().skip(1) {
            let note = format!(
                " The case has {repeats} repeats; the first {MOST_REPEATS} were looked at."
            );
            figure.about.push_str(&note);
        }
    }
    Ok(Drawn { figures, inside })
}

/// The inside of the trials of a case that is not drawn trial by trial.
fn inside(source: &Source, view: &CaseView) -> Result<Inside, SourceError> {
    let mut inside = Inside::default();
    let telling = view
        .counting()
        .filter(|repeat| pass::tells_inside(&repeat.row));
    for repeat in telling.take(MOST_REPEATS) {
        pass::look(source, repeat, &mut inside)?;
    }
    Ok(inside)
}

/// Figures that set the cases of a run side by side.
fn of_run(parts: &[Part]) -> Vec<Figure> {
    let points: Vec<Point> = parts.iter().map(point).collect();
    let mut figures = figure::sweep(&points);
    figures.extend(figure::phases(&labelled(parts, |part| part.phases.clone())));
    let stepped = parts.iter().map(|part| part.stepped).max().unwrap_or(1);
    let steps = labelled(parts, |part| Some(part.steps.clone()));
    figures.extend(figure::steps(&steps, stepped));
    if parts.len() > MOST_INSIDE {
        let words = format!(" Only the first {MOST_INSIDE} cases were looked at.");
        let inside = figures
            .iter_mut()
            .filter(|f| ["phases", "steps"].contains(&f.name.as_str()));
        inside.for_each(|figure| figure.about.push_str(&words));
    }
    figures.extend(figure::cold(&labelled(parts, |part| {
        Some(part.summary.cold)
    })));
    let memory = labelled(parts, |part| Some(part.summary.memory.clone()));
    figures.extend(figure::memory(&memory));
    figures
}

/// Something of every case that has it.
fn labelled<T>(parts: &[Part], of: impl Fn(&Part) -> Option<T>) -> Vec<Labelled<T>> {
    let label = |part: &Part| {
        Some(Labelled {
            label: part.label.clone(),
            of: of(part)?,
        })
    };
    parts.iter().filter_map(label).collect()
}

fn point(part: &Part) -> Point {
    let latency = part.summary.latency.as_ref();
    // Within one process there is no interval over repeats.
    let interval = latency
        .and_then(|latency| latency.p50_interval)
        .filter(|estimate| estimate.kind == IntervalKind::OverRepeats);
    Point {
        label: part.label.clone(),
        axes: part.axes.clone(),
        p50_ns: latency.map(|latency| latency.distribution.p50.value),
        interval: interval.map(|estimate| (estimate.low, estimate.high)),
        invalid: part
            .summary
            .findings
            .iter()
            .any(|finding| finding.level == Level::Invalid),
    }
}
