//! Tracks from what is stored.

use edgedyno_shared::columns::{Role, START};

use super::trials::{self, Far};
use super::{Content, Group, Mark, Slice, Trace, counters, placed};
use crate::findings::Finding;
use crate::source::{self, Source, SourceError};
use crate::store::Columns;
use crate::store::rows::CaseEntry;
use crate::summary::summarise;
use crate::ui::units;
use crate::view::{CaseView, RepeatView};

/// Outliers whose notes say what was unusual meanwhile.
const EXPLAINED: usize = 20;
/// Things told of one of them.
const TOLD: usize = 5;

/// All attempts of these cases that reached a worker.
pub fn gather(source: &Source, cases: &[CaseEntry]) -> Result<Trace, SourceError> {
    let picks = source::describe(cases);
    let mut trace = Trace::default();
    let mut boards: Vec<Board> = Vec::new();
    let mut flow = 0;
    for (view, pick) in source.views(cases)?.zip(picks) {
        let view = view?;
        let axes = pick
            .axes
            .iter()
            .map(|(name, value)| format!("{name}={value}"));
        let label = std::iter::once(pick.key.clone()).chain(axes);
        let label = label.collect::<Vec<_>>().join(" ");
        let findings = summarise(&view).findings;
        for repeat in &view.repeats {
            let group = group(source, &view, repeat, &label, &findings, &mut flow)?;
            if !group.tracks.is_empty() {
                trace.groups.push(group);
                Board::note(&mut boards, &view, repeat, &label);
            }
        }
    }
    let several = boards.len() > 1;
    let boards = boards.into_iter().map(|board| board.group(several));
    trace.groups.splice(0..0, boards);
    Ok(trace)
}

/// All repeats of one life of an agent, which share a clock.
struct Board {
    name: String,
    boot: Option<String>,
    repeats: Vec<Slice>,
    loads: Vec<Slice>,
}

impl Board {
    fn note(boards: &mut Vec<Self>, view: &CaseView, repeat: &RepeatView, label: &str) {
        let (name, boot) = (&view.entry.case.board, &repeat.row.boot);
        let spans = repeat.row.stages.iter();
        let (Some(start_ns), Some(end_ns)) = (
            spans.clone().map(|span| span.start_ns).min(),
            spans.map(|span| span.end_ns).max(),
        ) else {
            return;
        };
        let known = boards
            .iter()
            .position(|b| b.name == *name && b.boot == *boot);
        let at = known.unwrap_or_else(|| {
            boards.push(Self {
                name: name.clone(),
                boot: boot.clone(),
                repeats: Vec::new(),
                loads: Vec::new(),
            });
            boards.len() - 1
        });
        let key = &repeat.row.key;
        let condition = &view.entry.case.condition;
        let slice = |name: String| Slice {
            name,
            start_ns,
            end_ns,
            notes: vec![
                ("case", label.to_owned()),
                ("repeat", key.repeat.to_string()),
                ("attempt", key.attempt.to_string()),
                ("outcome", repeat.row.outcome.name().to_owned()),
                ("condition", condition.clone()),
            ],
            flow: None,
        };
        let board = &mut boards[at];
        board
            .repeats
            .push(slice(format!("{label}, repeat {}", key.repeat)));
        board.loads.push(slice(condition.clone()));
    }

    fn group(self, several: bool) -> Group {
        let boot = self.boot.filter(|_| several);
        let boot = boot.map_or_else(String::new, |boot| format!(", agent {boot}"));
        let mut group = Group::named(format!("all repeats on board {}{boot}", self.name));
        let sorted = |mut slices: Vec<Slice>| {
            slices.sort_by_key(|slice| slice.start_ns);
            Content::Slices(slices)
        };
        group.put("repeats", None, sorted(self.repeats));
        group.put("conditions", None, sorted(self.loads));
        group
    }
}

fn group(
    source: &Source,
    view: &CaseView,
    repeat: &RepeatView,
    label: &str,
    findings: &[Finding],
    flow: &mut u64,
) -> Result<Group, SourceError> {
    let row = &repeat.row;
    let columns = source.columns(row, 0)?;
    let outliers = trials::outliers(&columns, repeat);
    let attempt = match row.key.attempt {
        0 => String::new(),
        attempt => format!(", attempt {attempt}"),
    };
    let mut group = Group::named(format!(
        "{} {label}, repeat {}{attempt}",
        view.entry.case.model.name, row.key.repeat
    ));
    let slowest = outliers
        .iter()
        .copied()
        .max_by(|a, b| a.score.total_cmp(&b.score));
    let mut telemetry = Vec::new();
    let mut on_cpu = None;
    for channel in &row.channels {
        let samples = source.samples(row, channel.id)?;
        telemetry.extend(counters::track(channel, &samples));
        if channel.name == "worker.on_cpu" {
            on_cpu = Some(samples);
        }
    }
    counters::sort(&mut telemetry, slowest);
    group.put("stages", None, Content::Slices(stages(repeat)));
    let mut marks = marks(&columns, repeat, findings);
    marks.extend(placed::load_marks(&row.stress));
    marks.sort_by_key(|mark| mark.at_ns);
    group.put("findings and loads", None, Content::Marks(marks));
    trials::put(&mut group, 0, &columns, &outliers, flow);
    // Right below the trials, and right above what explains them.
    let far = explained(&outliers, &telemetry);
    group.put("outliers", None, Content::Slices(far));
    group.tracks.extend(telemetry);
    for lane in source.lanes(row)?.into_iter().filter(|lane| *lane > 0) {
        trials::put(&mut group, lane, &source.columns(row, lane)?, &[], flow);
    }
    placed::threads(&mut group, repeat);
    if let Some(samples) = on_cpu {
        placed::cpus(&mut group, &samples);
    }
    placed::loads(&mut group, &row.stress);
    Ok(group)
}

fn stages(repeat: &RepeatView) -> Vec<Slice> {
    let spans = repeat.row.stages.iter();
    let mut slices: Vec<Slice> = spans
        .map(|span| Slice {
            name: span.stage.name().to_owned(),
            start_ns: span.start_ns,
            end_ns: span.end_ns,
            ..Slice::default()
        })
        .collect();
    slices.sort_by_key(|slice| slice.start_ns);
    slices
}

/// Outliers as slices of their own; the farthest say what was unusual meanwhile.
fn explained(outliers: &[Far], telemetry: &[super::Track]) -> Vec<Slice> {
    let mut scores: Vec<f64> = outliers.iter().map(|far| far.score.abs()).collect();
    scores.sort_by(|a, b| b.total_cmp(a));
    let least = scores.get(EXPLAINED).copied().unwrap_or(0.0);
    let slice = |far: &Far| {
        let latency = units::nanoseconds(far.length_ns());
        let mut notes = vec![
            ("trial", far.trial.to_string()),
            ("latency", latency.clone()),
            ("z", format!("{:.1}", far.score)),
        ];
        if far.score.abs() > least {
            notes.extend(counters::notes(telemetry, *far, TOLD));
        }
        Slice {
            name: format!("outlier {latency}"),
            start_ns: far.start_ns,
            end_ns: far.end_ns,
            notes,
            flow: None,
        }
    };
    outliers.iter().map(slice).collect()
}

/// Findings of this repeat where they happened, those about the case at its first trial.
fn marks(columns: &Columns, repeat: &RepeatView, findings: &[Finding]) -> Vec<Mark> {
    let measured: Vec<usize> = columns.trials_of(Role::Measure).collect();
    let begin = |nth: u64| {
        let trial = measured.get(nth as usize).or(measured.first())?;
        columns.cell(START, *trial)
    };
    let fallback = repeat.row.stages.iter().map(|span| span.start_ns).min();
    let own = findings.iter().filter(|finding| {
        finding
            .repeat
            .is_none_or(|own| own == repeat.row.key.repeat)
    });
    let own = own.filter_map(|finding| {
        let first = finding.span.map_or(0, |(from, _)| from);
        Some(Mark {
            name: finding.code.to_owned(),
            at_ns: begin(first).or(fallback)?,
            notes: vec![
                ("level", finding.level.name().to_owned()),
                ("text", finding.text.clone()),
            ],
        })
    });
    own.collect()
}
