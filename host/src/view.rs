//! One case of one run as read back: what a summary, a finding or an export is made from.
//!
//! Comes from a store or from a profile file and looks the same.

use std::collections::BTreeMap;
use std::sync::Arc;

use edgedyno_shared::columns::{END, ROLE, Role, START, STATUS, Status};
use edgedyno_shared::ids::{RunId, Sha256};
use edgedyno_shared::order::Pass;

use crate::soak::{self, Soak};
use crate::store::rows::{CaseEntry, DeviceRow, FindingRow, RunRow};
use crate::store::{RepeatRow, Result, Store};
use crate::telemetry::emc::EmcScale;
use crate::telemetry::{self, Digest, Moment};

/// A case with all its repeats.
#[derive(Debug, Clone, PartialEq)]
pub struct CaseView {
    /// Shared by all cases of the run: it holds the whole plan.
    pub run: Arc<RunRow>,
    pub entry: CaseEntry,
    /// The board it was measured on, as it described itself.
    pub device: Option<DeviceRow>,
    pub repeats: Vec<RepeatView>,
    /// Findings that were stored with it.
    pub notes: Vec<FindingRow>,
    /// The most that memory of this board was seen to move; none where that was never calibrated.
    pub memory_ceiling: Option<MemoryCeiling>,
    /// What turns a Jetson's activity monitor into a share; none where that was not learned.
    pub emc_scale: Option<EmcScale>,
}

/// The most that stressors of a board moved, by their own count.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct MemoryCeiling {
    pub bytes_per_second: u64,
    /// Which did it, and where.
    pub by: String,
}

/// One attempt of a repeat and what its trials come to.
#[derive(Debug, Clone, PartialEq)]
pub struct RepeatView {
    pub row: RepeatRow,
    pub trials: Trials,
    /// Trials of other models in its window, in the order of the row's tenants.
    pub beside: Vec<Trials>,
    /// Channels over the window.
    pub telemetry: Vec<Digest>,
    /// What was unusual while the slowest trials ran.
    pub moments: Vec<Moment>,
    /// Of a long run, what heat did to it.
    pub soak: Option<Soak>,
}

/// Trials of one lane, gathered in one pass: durations where statistics need them, else counts.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Trials {
    /// Durations in nanoseconds of measured trials that ended well, in the order they ran.
    pub measured: Vec<i64>,
    /// Durations of the first trials of all, which are cold.
    pub cold: Vec<i64>,
    /// First start and last end of the measured trials.
    pub window: Option<Span>,
    /// The same of warm-up.
    pub warmup: Option<Span>,
    pub warmup_trials: u64,
    /// Trials of any role that the backend failed.
    pub failed: u64,
    /// Trials of any role whose slot made no sense.
    pub corrupt: u64,
    /// Trials of all roles.
    pub all: u64,
    /// First and last start of the measured trials, and how many began.
    began: Option<(i64, i64, u64)>,
    /// The slowest of the measured trials that ended well, the slowest first: where each stands among
    /// them, and when it ran.
    pub slowest: Vec<(u64, Span)>,
}

/// Trials whose moment is looked at.
const SLOWEST: usize = 3;

/// From a first start to a last end, by the board's monotonic clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Span {
    pub start_ns: i64,
    pub end_ns: i64,
}

/// What the cases of a run share, read once for all of them.
#[derive(Debug, Clone)]
pub struct RunView {
    run: Arc<RunRow>,
    devices: Vec<(String, DeviceRow)>,
    notes: Notes,
}

/// Findings with their numbers, by the case they are about; of very many cases each has a few.
type Notes = BTreeMap<Option<Sha256>, Vec<(usize, FindingRow)>>;

impl RunView {
    pub fn read(store: &Store, run: &RunId) -> Result<Self> {
        Ok(Self {
            run: Arc::new(store.run(run)?),
            devices: store.devices(run)?,
            notes: numbered(store.findings(run)?),
        })
    }

    /// One case of this run.
    pub fn case(&self, store: &Store, entry: &CaseEntry) -> Result<CaseView> {
        self.view(store, entry, store.repeats(&self.run.id, entry.key)?)
    }

    /// The same without events and artifacts of its repeats.
    pub fn brief(&self, store: &Store, entry: &CaseEntry) -> Result<CaseView> {
        self.view(store, entry, store.brief_repeats(&self.run.id, entry.key)?)
    }

    fn view(&self, store: &Store, entry: &CaseEntry, rows: Vec<RepeatRow>) -> Result<CaseView> {
        let mut repeats = Vec::new();
        for row in rows {
            let trials = Trials::read(store, &row)?;
            let beside = beside(&row, &trials, |lane, take| {
                store.each_chunk(&row, lane, |cells| take(cells))
            })?;
            let (telemetry, moments) =
                telemetry::of_repeat(&row, &trials, |channel| store.samples(&row, channel))?;
            let soak = match entry.rules.is_soak() && row.counts {
                true => self.soak(store, &row)?,
                false => None,
            };
            repeats.push(RepeatView {
                row,
                trials,
                beside,
                telemetry,
                moments,
                soak,
            });
        }
        let of_board = |(name, _): &&(String, DeviceRow)| *name == entry.case.board;
        let device = self.devices.iter().find(of_board);
        let memory_ceiling = device
            .map(|(board, device)| store.memory_ceiling(board, device))
            .transpose()?;
        let emc_scale = device
            .map(|(board, device)| store.emc_scale(board, device))
            .transpose()?;
        Ok(CaseView {
            run: self.run.clone(),
            device: device.map(|(_, device)| device.clone()),
            entry: entry.clone(),
            repeats,
            notes: self.notes_of(entry.key),
            memory_ceiling: memory_ceiling.flatten(),
            emc_scale: emc_scale.flatten(),
        })
    }

    fn soak(&self, store: &Store, row: &RepeatRow) -> Result<Option<Soak>> {
        let mut spans = Vec::new();
        store.each_chunk(row, 0, |cells| measured_spans(cells, &mut spans))?;
        let channels = row.channels.iter();
        let channels = channels
            .map(|channel| Ok((channel.clone(), store.samples(row, channel.id)?)))
            .collect::<Result<Vec<_>>>()?;
        Ok(soak::of(&spans, &channels))
    }

    /// Those of the case and those of the run as a whole, in the order they were made.
    fn notes_of(&self, case: Sha256) -> Vec<FindingRow> {
        let of = |case: &Option<Sha256>| self.notes.get(case).into_iter().flatten();
        let mut notes: Vec<_> = of(&Some(case)).chain(of(&None)).collect();
        notes.sort_by_key(|(number, _)| *number);
        notes.into_iter().map(|(_, note)| note.clone()).collect()
    }
}

/// Findings in the order they were made, by the case they are about.
fn numbered(all: impl IntoIterator<Item = (Option<Sha256>, FindingRow)>) -> Notes {
    let mut notes = Notes::new();
    for (number, (case, note)) in all.into_iter().enumerate() {
        notes.entry(case).or_default().push((number, note));
    }
    notes
}

impl CaseView {
    pub fn read(store: &Store, run: &RunId, case: Sha256) -> Result<Self> {
        let entry = store.case(run, case)?;
        let notes = store.findings_of(run, case)?.into_iter();
        let alone = RunView {
            run: Arc::new(store.run(run)?),
            devices: store.devices(run)?,
            notes: numbered(notes.map(|note| (None, note))),
        };
        alone.case(store, &entry)
    }

    /// Repeats whose measured trials are the case's result.
    pub fn counting(&self) -> impl Iterator<Item = &RepeatView> {
        self.repeats
            .iter()
            .filter(|repeat| repeat.row.counts && repeat.row.key.pass == Pass::Honest)
    }

    /// The counting repeats; where none counts, the last attempt, which may have failed: what was told
    /// before it failed is all that is known of the case.
    pub fn telling(&self) -> impl Iterator<Item = &RepeatView> {
        let last = match self.counting().next() {
            Some(_) => None,
            None => self.repeats.last(),
        };
        self.counting().chain(last)
    }

    /// The backend gives figures that are not measurements of a model.
    pub fn is_simulated(&self) -> bool {
        let backend = &self.entry.case.backend;
        let told = self.device.as_ref().and_then(|device| {
            let found = device.backends.iter().find(|b| b.name == *backend)?;
            Some(found.simulated)
        });
        told.unwrap_or(matches!(backend.as_str(), "fake" | "null"))
    }
}

impl Trials {
    pub fn read(store: &Store, repeat: &RepeatRow) -> Result<Self> {
        let mut trials = Self::default();
        store.each_chunk(repeat, 0, |cells| trials.take(cells))?;
        Ok(trials)
    }

    /// Takes in columns that begin with the fixed ones.
    pub fn take(&mut self, cells: &[Vec<i64>]) {
        let [roles, starts, ends, statuses] = [ROLE, START, END, STATUS].map(|at| cells.get(at));
        let (Some(roles), Some(starts), Some(ends), Some(statuses)) =
            (roles, starts, ends, statuses)
        else {
            return;
        };
        let stamps = starts.iter().zip(ends);
        for ((&role, &status), (&start_ns, &end_ns)) in roles.iter().zip(statuses).zip(stamps) {
            self.all += 1;
            let ended_well = status == Status::Ok.code();
            self.failed += u64::from(status == Status::Error.code());
            self.corrupt += u64::from(status == Status::Corrupt.code());
            if status == Status::Corrupt.code() {
                continue;
            }
            let span = Span { start_ns, end_ns };
            match Role::from_code(role) {
                Some(Role::Measure) => {
                    extend(&mut self.window, span);
                    self.begin(start_ns);
                    if ended_well {
                        self.keep_slow(span);
                        self.measured.push(end_ns - start_ns);
                    }
                }
                Some(Role::Warmup) => {
                    self.warmup_trials += 1;
                    extend(&mut self.warmup, span);
                }
                Some(Role::Cold) if ended_well => self.cold.push(end_ns - start_ns),
                _ => {}
            }
        }
    }
}

/// Adds the measured trials that ended well of columns that begin with the fixed ones.
pub(crate) fn measured_spans(cells: &[Vec<i64>], out: &mut Vec<Span>) {
    let [roles, starts, ends, statuses] = [ROLE, START, END, STATUS].map(|at| cells.get(at));
    let (Some(roles), Some(starts), Some(ends), Some(statuses)) = (roles, starts, ends, statuses)
    else {
        return;
    };
    let kinds = roles.iter().zip(statuses);
    let measured = kinds
        .zip(starts.iter().zip(ends))
        .filter(|((role, status), _)| {
            **role == Role::Measure.code() && **status == Status::Ok.code()
        });
    out.extend(measured.map(|(_, (start, end))| Span {
        start_ns: *start,
        end_ns: *end,
    }));
}

impl Trials {
    /// Takes in columns of another model's lane: trials of any role that began in this window, and durations
    /// of those that ended in it too. One that hangs over the end ran on in the quiet behind it.
    pub fn take_beside(&mut self, cells: &[Vec<i64>], window: Span) {
        let [starts, ends, statuses] = [START, END, STATUS].map(|at| cells.get(at));
        let (Some(starts), Some(ends), Some(statuses)) = (starts, ends, statuses) else {
            return;
        };
        for ((&start_ns, &end_ns), &status) in starts.iter().zip(ends).zip(statuses) {
            let is_inside = (window.start_ns..=window.end_ns).contains(&start_ns);
            if !is_inside || status == Status::Corrupt.code() {
                continue;
            }
            self.all += 1;
            self.failed += u64::from(status == Status::Error.code());
            self.begin(start_ns);
            if end_ns <= window.end_ns && status == Status::Ok.code() {
                extend(&mut self.window, Span { start_ns, end_ns });
                self.measured.push(end_ns - start_ns);
            }
        }
    }

    fn begin(&mut self, start_ns: i64) {
        let began = self.began.get_or_insert((start_ns, start_ns, 0));
        *began = (began.0.min(start_ns), began.1.max(start_ns), began.2 + 1);
    }

    /// Trials a second by the time between their beginnings: what is cut off at the edges of a window does
    /// not count against a rate. None with fewer than two.
    pub fn pace_hz(&self) -> Option<f64> {
        let (first, last, count) = self.began?;
        (last > first).then(|| (count - 1) as f64 * 1e9 / (last - first) as f64)
    }

    fn keep_slow(&mut self, span: Span) {
        let length = span.length_ns();
        let faster = |(_, kept): &(u64, Span)| kept.length_ns() < length;
        let place = self
            .slowest
            .iter()
            .position(faster)
            .unwrap_or(self.slowest.len());
        if place < SLOWEST {
            self.slowest
                .insert(place, (self.measured.len() as u64, span));
            self.slowest.truncate(SLOWEST);
        }
    }
}

/// Trials of every tenant of a repeat in its window; `read` hands over the chunks of a lane.
pub(crate) fn beside<E>(
    row: &RepeatRow,
    trials: &Trials,
    read: impl Fn(u16, &mut dyn FnMut(&[Vec<i64>])) -> std::result::Result<(), E>,
) -> std::result::Result<Vec<Trials>, E> {
    let of_lane = |lane: u16| {
        let mut beside = Trials::default();
        if let Some(window) = trials.window {
            read(lane, &mut |cells| beside.take_beside(cells, window))?;
        }
        Ok(beside)
    };
    row.tenants.iter().map(|row| of_lane(row.lane)).collect()
}

impl Span {
    pub fn length_ns(self) -> i64 {
        self.end_ns - self.start_ns
    }
}

fn extend(whole: &mut Option<Span>, part: Span) {
    *whole = Some(match *whole {
        None => part,
        Some(so_far) => Span {
            start_ns: so_far.start_ns.min(part.start_ns),
            end_ns: so_far.end_ns.max(part.end_ns),
        },
    });
}
