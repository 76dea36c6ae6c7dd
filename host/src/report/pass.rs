//! One pass over the stored trials of a repeat: everything that drawings need of them, however many there are.

use edgedyno_shared::columns::{END, NULL, ROLE, Role, START, STATUS, Status};

use crate::figure::phases::Phases;
use crate::figure::steps::Step;
use crate::figure::timeline::{Track, Tracker};
use crate::figure::warmup::{Life, Living};
use crate::source::{Source, SourceError};
use crate::stats::{outlier, quantile};
use crate::store::RepeatRow;
use crate::store::rows::ColumnRow;
use crate::view::RepeatView;

/// Columns of nanoseconds that are no phase: stamps, and what counts a whole trial in another way.
const NO_PHASE: [&str; 5] = ["start_ns", "end_ns", "device_ns", "scheduled_ns", "step_ns"];
const STEP: &str = "step_ns";
/// Trials of a repeat whose steps are looked at.
const MOST_STEPPED: usize = 20_000;

/// What the trials of one repeat look like.
#[derive(Debug, Clone)]
pub(super) struct Seen {
    pub(super) track: Track,
    pub(super) life: Life,
}

/// What the backend told of the inside of trials, over all repeats of a case.
#[derive(Debug, Clone, Default)]
pub(super) struct Inside {
    /// Name, sum and number of trials that told it.
    phases: Vec<(String, f64, u64)>,
    trials: (f64, u64),
    /// Latencies of each step.
    steps: Vec<Vec<i64>>,
    /// Of so many trials the steps of one were looked at.
    pub(super) every: usize,
}

/// Whether a repeat says anything of the inside of its trials.
pub(super) fn tells_inside(repeat: &RepeatRow) -> bool {
    let mut columns = repeat
        .schemas
        .iter()
        .filter(|s| s.lane == 0)
        .flat_map(|s| &s.columns);
    columns.any(|column| column.name == STEP || is_phase(column))
}

fn is_phase(column: &ColumnRow) -> bool {
    column.unit == "ns" && !NO_PHASE.contains(&column.name.as_str())
}

/// Looks at every trial of a repeat that ended well, and adds what lies inside of it to `inside`.
pub(super) fn look(
    source: &Source,
    repeat: &RepeatView,
    inside: &mut Inside,
) -> Result<Seen, SourceError> {
    let (number, measured) = (repeat.row.key.repeat, &repeat.trials.measured);
    let scale = outlier::Scale::of(measured);
    let mut tracker = Tracker::new(number, measured.len(), scale);
    let mut living = Living::new(number, measured.len());
    let columns = repeat.row.schemas.iter().find(|schema| schema.lane == 0);
    let columns = columns.map_or(&[][..], |schema| &schema.columns);
    let mut parts = inside.begin(columns, measured.len());
    let mut first = None;
    source.each_chunk(&repeat.row, 0, |cells| {
        for trial in 0..cells.first().map_or(0, Vec::len) {
            let Some((role, start, took)) = ended_well(cells, trial) else {
                continue;
            };
            if role != Some(Role::Measure) {
                living.push_before(took as f64);
                continue;
            }
            let first = *first.get_or_insert(start);
            tracker.push((start - first) as f64 / 1e9, took as f64);
            living.push_measured(took as f64);
            parts.take(inside, cells, trial, took);
        }
    })?;
    Ok(Seen {
        track: tracker.finish(),
        life: living.finish(),
    })
}

/// What a trial was for, when it began and how long it took, where it ended well.
fn ended_well(cells: &[Vec<i64>], trial: usize) -> Option<(Option<Role>, i64, i64)> {
    let cell = |column: usize| {
        let cell = *cells.get(column)?.get(trial)?;
        (cell != NULL).then_some(cell)
    };
    let (start, end) = cell(START).zip(cell(END))?;
    let role = cell(ROLE).and_then(Role::from_code);
    (cell(STATUS) == Some(Status::Ok.code())).then_some((role, start, end - start))
}

/// Where the columns of one repeat go.
struct Parts {
    /// Column and place among the phases; occurrences of one phase have the same place.
    phases: Vec<(usize, usize)>,
    /// Column and number of the step.
    steps: Vec<(usize, usize)>,
    every: usize,
    seen: usize,
    /// Sums of the trial under way, kept from one to the next.
    sums: Vec<Option<i64>>,
}

impl Inside {
    fn begin(&mut self, columns: &[ColumnRow], trials: usize) -> Parts {
        let (mut phases, mut steps) = (Vec::new(), Vec::new());
        for (at, column) in columns.iter().enumerate() {
            if column.name == STEP {
                steps.push((at, column.occurrence.unwrap_or(0) as usize));
            } else if is_phase(column) {
                phases.push((at, self.place(&column.name)));
            }
        }
        let most = steps
            .iter()
            .map(|(_, number)| number + 1)
            .max()
            .unwrap_or(0);
        self.steps.resize_with(self.steps.len().max(most), Vec::new);
        let every = trials.div_ceil(MOST_STEPPED).max(1);
        self.every = self.every.max(every);
        Parts {
            phases,
            steps,
            every,
            seen: 0,
            sums: vec![None; self.phases.len()],
        }
    }

    fn place(&mut self, name: &str) -> usize {
        let name = name.trim_end_matches("_ns");
        let known = self.phases.iter().position(|(known, ..)| known == name);
        known.unwrap_or_else(|| {
            self.phases.push((name.to_owned(), 0.0, 0));
            self.phases.len() - 1
        })
    }

    /// Mean phases; none where none was told.
    pub(super) fn phases(&self) -> Option<Phases> {
        let mean = |sum: f64, count: u64| sum / count as f64;
        let told = self.phases.iter().filter(|(_, _, count)| *count > 0);
        let phases: Vec<(String, f64)> = told
            .map(|(name, sum, count)| (name.clone(), mean(*sum, *count)))
            .collect();
        (!phases.is_empty()).then(|| Phases {
            phases,
            trial: mean(self.trials.0, self.trials.1),
        })
    }

    pub(super) fn steps(&self) -> Vec<Step> {
        let step = |(number, all): (u32, &Vec<i64>)| {
            let [p10, p50, p90] = [0.1, 0.5, 0.9].map(|share| quantile::of(all, share));
            Some(Step {
                number,
                p50: p50?,
                p10: p10?,
                p90: p90?,
            })
        };
        (0..).zip(&self.steps).filter_map(step).collect()
    }
}

impl Parts {
    fn take(&mut self, inside: &mut Inside, cells: &[Vec<i64>], trial: usize, took: i64) {
        if self.phases.is_empty() && self.steps.is_empty() {
            return;
        }
        let cell = |column: usize| {
            let cell = *cells.get(column)?.get(trial)?;
            (cell != NULL).then_some(cell)
        };
        self.sums.fill(None);
        for (column, place) in &self.phases {
            if let Some(ns) = cell(*column) {
                *self.sums[*place].get_or_insert(0) += ns;
            }
        }
        for (phase, sum) in inside.phases.iter_mut().zip(&self.sums) {
            if let Some(ns) = sum {
                phase.1 += *ns as f64;
                phase.2 += 1;
            }
        }
        inside.trials.0 += took as f64;
        inside.trials.1 += 1;
        if self.seen.is_multiple_of(self.every) {
            for (column, number) in &self.steps {
                inside.steps[*number].extend(cell(*column));
            }
        }
        self.seen += 1;
    }
}
