//! Tracks from what is stored.

use edgedyno_shared::columns::{END, ROLE, Role, START, STATUS, Status};

use super::{Content, Group, Mark, Slice, Trace, Track};
use crate::findings::Finding;
use crate::source::{self, Source, SourceError};
use crate::stats::outlier::Scale;
use crate::store::Columns;
use crate::store::rows::CaseEntry;
use crate::summary::summarise;
use crate::ui::units;
use crate::view::{CaseView, RepeatView};

/// All attempts of these cases that reached a worker.
pub fn gather(source: &Source, cases: &[CaseEntry]) -> Result<Trace, SourceError> {
    let picks = source::describe(cases);
    let mut trace = Trace::default();
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
            let group = group(source, &view, repeat, &label, &findings)?;
            if !group.tracks.is_empty() {
                trace.groups.push(group);
            }
        }
    }
    Ok(trace)
}

fn group(
    source: &Source,
    view: &CaseView,
    repeat: &RepeatView,
    label: &str,
    findings: &[Finding],
) -> Result<Group, SourceError> {
    let row = &repeat.row;
    let columns = source.columns(row, 0)?;
    let trials = trials(&columns);
    let outliers = outliers(&columns, repeat);
    let attempt = match row.key.attempt {
        0 => String::new(),
        attempt => format!(", attempt {attempt}"),
    };
    let mut group = Group {
        name: format!(
            "{} {label}, repeat {}{attempt}",
            view.entry.case.model.name, row.key.repeat
        ),
        tracks: Vec::new(),
    };
    let mut put = |name: &str, content: Content| {
        let is_empty = match &content {
            Content::Slices(slices) => slices.is_empty(),
            Content::Marks(marks) => marks.is_empty(),
            Content::Counter { points, .. } => points.is_empty(),
        };
        if !is_empty {
            group.tracks.push(Track {
                name: name.to_owned(),
                content,
            });
        }
    };
    put("stages", Content::Slices(stages(repeat)));
    let marks = marks(&columns, repeat, findings, outliers);
    put("findings and outliers", Content::Marks(marks));
    put("trials", Content::Slices(trials));
    for lane in source.lanes(row)?.into_iter().filter(|lane| *lane > 0) {
        let columns = source.columns(row, lane)?;
        put(
            &format!("lane {lane}"),
            Content::Slices(self::trials(&columns)),
        );
    }
    for channel in &row.channels {
        let samples = source.samples(row, channel.id)?;
        let points = samples.at_ns.iter().copied().zip(samples.value);
        // What was not read well is left out; a gap is no zero.
        let good = points
            .zip(samples.quality)
            .filter(|(_, quality)| *quality == 0);
        let counter = Content::Counter {
            unit: channel.unit.clone(),
            points: good.map(|(point, _)| point).collect(),
        };
        put(&channel.name, counter);
    }
    Ok(group)
}

fn stages(repeat: &RepeatView) -> Vec<Slice> {
    let spans = repeat.row.stages.iter();
    let mut slices: Vec<Slice> = spans
        .map(|span| Slice {
            name: span.stage.name().to_owned(),
            start_ns: span.start_ns,
            end_ns: span.end_ns,
            notes: Vec::new(),
        })
        .collect();
    slices.sort_by_key(|slice| slice.start_ns);
    slices
}

/// Every trial with sane stamps, named by what it was for.
fn trials(columns: &Columns) -> Vec<Slice> {
    let slice = |trial: usize| {
        let status = columns.cell(STATUS, trial)?;
        let (start, end) = columns.cell(START, trial).zip(columns.cell(END, trial))?;
        let is_sane = status != Status::Corrupt.code() && end >= start;
        let role = columns.cell(ROLE, trial).and_then(Role::from_code);
        is_sane.then(|| Slice {
            name: role.map_or("trial", Role::name).to_owned(),
            start_ns: start,
            end_ns: end,
            notes: match status == Status::Ok.code() {
                true => vec![("trial", trial.to_string())],
                false => vec![
                    ("trial", trial.to_string()),
                    ("status", Status::name(status).to_owned()),
                ],
            },
        })
    };
    (0..columns.rows()).filter_map(slice).collect()
}

fn outliers(columns: &Columns, repeat: &RepeatView) -> Vec<Mark> {
    let Some(scale) = Scale::of(&repeat.trials.measured) else {
        return Vec::new();
    };
    let measured = columns.trials_of(Role::Measure);
    let far = measured.filter_map(|trial| {
        let is_ok = columns.cell(STATUS, trial) == Some(Status::Ok.code());
        let (start, end) = columns.cell(START, trial).zip(columns.cell(END, trial))?;
        let ns = (end - start) as f64;
        let score = scale.score(ns).filter(|_| is_ok && scale.is_outlier(ns))?;
        Some(Mark {
            name: "outlier".into(),
            at_ns: start,
            notes: vec![
                ("trial", trial.to_string()),
                ("latency", units::nanoseconds(ns)),
                ("z", format!("{score:.1}")),
            ],
        })
    });
    far.collect()
}

/// Findings of this repeat where they happened, those about the case at its first trial, and outliers.
fn marks(
    columns: &Columns,
    repeat: &RepeatView,
    findings: &[Finding],
    outliers: Vec<Mark>,
) -> Vec<Mark> {
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
    let mut marks: Vec<Mark> = own.chain(outliers).collect();
    marks.sort_by_key(|mark| mark.at_ns);
    marks
}
