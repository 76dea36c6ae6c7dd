//! Trials of one lane as slices, those far from the rest once more on a line of their own, and arrows from
//! when work was due to when it was done.

use edgedyno_shared::columns::{END, ROLE, Role, START, STATUS, Status};

use super::{Content, Flow, Group, Slice};
use crate::stats::outlier::Scale;
use crate::store::Columns;
use crate::ui::units;
use crate::view::RepeatView;

/// Measured trials of a repeat that are written; of more, every so many and all outliers.
pub(super) const MOST_TRIALS: usize = 200_000;
/// Outliers of a repeat that are marked: the farthest.
const MOST_OUTLIERS: usize = 1000;

/// A trial far from the rest.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Far {
    pub(super) trial: usize,
    pub(super) start_ns: i64,
    pub(super) end_ns: i64,
    pub(super) score: f64,
}

impl Far {
    pub(super) fn length_ns(self) -> f64 {
        (self.end_ns - self.start_ns) as f64
    }
}

/// Outliers among the measured trials by modified z-score, in order of time.
pub(super) fn outliers(columns: &Columns, repeat: &RepeatView) -> Vec<Far> {
    let Some(scale) = Scale::of(&repeat.trials.measured) else {
        return Vec::new();
    };
    let far = columns.trials_of(Role::Measure).filter_map(|trial| {
        let is_ok = columns.cell(STATUS, trial) == Some(Status::Ok.code());
        let (start_ns, end_ns) = columns.cell(START, trial).zip(columns.cell(END, trial))?;
        let ns = (end_ns - start_ns) as f64;
        let score = scale.score(ns).filter(|_| is_ok && scale.is_outlier(ns))?;
        Some(Far {
            trial,
            start_ns,
            end_ns,
            score,
        })
    });
    let mut far: Vec<Far> = far.collect();
    far.sort_by(|a, b| b.score.abs().total_cmp(&a.score.abs()));
    far.truncate(MOST_OUTLIERS);
    far.sort_by_key(|far| far.start_ns);
    far
}

/// Puts the trials of lane 0 or of another one into a group.
pub(super) fn put(
    group: &mut Group,
    lane: u16,
    columns: &Columns,
    outliers: &[Far],
    flow: &mut u64,
) {
    let measured = columns.trials_of(Role::Measure).count();
    let every = measured.div_ceil(MOST_TRIALS).max(1);
    let far: std::collections::BTreeSet<usize> = outliers.iter().map(|far| far.trial).collect();
    let place = |label: &str| columns.specs.iter().position(|spec| spec.label() == label);
    let (device, due) = (place("device_ns"), place("scheduled_ns"));
    let (mut waits, mut trials) = (Vec::new(), Vec::new());
    let mut seen = 0;
    for trial in 0..columns.rows() {
        let Some(mut slice) = slice(columns, trial, device) else {
            continue;
        };
        if slice.name == Role::Measure.name() {
            seen += 1;
            if (seen - 1) % every != 0 && !far.contains(&trial) {
                continue;
            }
        }
        if let Some(wait) = due.and_then(|at| wait(columns.cell(at, trial)?, trial, &slice)) {
            *flow += 1;
            waits.push(Slice {
                flow: Some(Flow::Begins(*flow)),
                ..wait
            });
            slice.flow = Some(Flow::Ends(*flow));
        }
        trials.push(slice);
    }
    let name = match lane {
        0 => "trials".to_owned(),
        lane => format!("trials of lane {lane}"),
    };
    let name = match every {
        1 => name,
        every => format!("{name} (one of {every}, and all outliers)"),
    };
    group.put("due, not begun", None, Content::Slices(apart(waits)));
    group.put(name, None, Content::Slices(trials));
}

/// A trial with sane stamps, named by what it was for.
fn slice(columns: &Columns, trial: usize, device: Option<usize>) -> Option<Slice> {
    let status = columns.cell(STATUS, trial)?;
    let (start, end) = columns.cell(START, trial).zip(columns.cell(END, trial))?;
    let is_sane = status != Status::Corrupt.code() && end >= start;
    let role = columns.cell(ROLE, trial).and_then(Role::from_code);
    let mut notes = vec![("trial", trial.to_string())];
    if status != Status::Ok.code() {
        notes.push(("status", Status::name(status).to_owned()));
    }
    let device = device.and_then(|at| columns.cell(at, trial));
    notes.extend(device.map(|ns| ("device", units::nanoseconds(ns as f64))));
    is_sane.then(|| Slice {
        name: role.map_or("trial", Role::name).to_owned(),
        start_ns: start,
        end_ns: end,
        notes,
        flow: None,
    })
}

/// From the moment at which a trial was due to its begin, where work arrives by a clock.
fn wait(due: i64, trial: usize, slice: &Slice) -> Option<Slice> {
    (due <= slice.start_ns).then(|| Slice {
        name: "due".into(),
        start_ns: due,
        end_ns: slice.start_ns,
        notes: vec![("trial", trial.to_string())],
        flow: None,
    })
}

/// Slices of one line must not overlap: each ends where the next begins, and says how long it was.
fn apart(mut slices: Vec<Slice>) -> Vec<Slice> {
    slices.sort_by_key(|slice| slice.start_ns);
    let starts: Vec<i64> = slices.iter().skip(1).map(|slice| slice.start_ns).collect();
    for (slice, next) in slices.iter_mut().zip(starts) {
        if slice.end_ns > next {
            let waited = (slice.end_ns - slice.start_ns) as f64;
            slice.notes.push(("waited", units::nanoseconds(waited)));
            slice.end_ns = next;
        }
    }
    slices
}
