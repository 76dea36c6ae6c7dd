//! What is read of one case of an experiment: its repeats, which of them count, and figures of those.

use std::cell::OnceCell;
use std::collections::BTreeMap;

use super::achieved::Achieved;
use super::clocks::Idle;
use super::curve::{OfRound, Ratio, centre, slowdown};
use super::report::{Ask, DEVICE, FOLLOWED, Figure, OfRepeat, Read};
use super::trials::Worth;
use super::validity::{Mark, below_calibrated, marks};
use crate::compare::metric::{self, Metric};
use crate::plan::condition::{Condition, Level, Term};
use crate::stats::mean;
use crate::store::rows::StressRow;
use crate::telemetry::engines::Used;
use crate::view::RepeatView;

/// Fewer valid repeats make no point.
const FEWEST_REPEATS: usize = 2;

/// One case.
pub(super) struct Measured<'a> {
    pub(super) read: &'a Read,
    pub(super) condition: Condition,
    /// Repeats that count, without those of the recovery, by number.
    pub(super) repeats: Vec<&'a RepeatView>,
    /// Those of the recovery.
    pub(super) looks: Vec<&'a RepeatView>,
    /// Of both.
    marks: Vec<OfRepeat>,
    /// Of each percentile, once it was asked for: many trials take their time.
    worth: OnceCell<Vec<(&'static str, Worth)>>,
}

impl<'a> Measured<'a> {
    pub(super) fn of(read: &'a Read, ask: &Ask) -> Self {
        let condition = Condition::stored(&read.view.entry.case.condition).unwrap_or_default();
        let mut all: Vec<&RepeatView> = read.view.counting().collect();
        all.sort_by_key(|repeat| repeat.row.key.repeat);
        let is_look = |repeat: &&RepeatView| {
            let number = repeat.row.key.repeat;
            ask.recovery
                .is_some_and(|looks| looks.has(read.view.entry.key, number))
        };
        let (looks, repeats) = all.into_iter().partition(is_look);
        let mut measured = Self {
            read,
            condition,
            repeats,
            looks,
            marks: Vec::new(),
            worth: OnceCell::new(),
        };
        let used = Used::of_case(&read.view.entry.case);
        measured.mark(|repeat| marks(repeat, used));
        measured.mark(|repeat| measured_less(read, repeat, ask));
        measured
    }

    /// Adds what `of` says of each repeat.
    fn mark(&mut self, of: impl Fn(&RepeatView) -> Vec<Mark>) {
        for repeat in self.repeats.iter().chain(&self.looks) {
            let number = repeat.row.key.repeat;
            let marks = of(repeat).into_iter().map(|mark| OfRepeat {
                repeat: Some(number),
                mark,
            });
            self.marks.extend(marks);
        }
    }

    /// Marks repeats whose clocks were others than those of the idle board.
    pub(super) fn hold_against(&mut self, idle: &Idle) {
        let used = self.used();
        self.mark(|repeat| idle.differ(repeat, used));
    }

    /// Engines that its model uses.
    pub(super) fn used(&self) -> Used {
        Used::of_case(&self.read.view.entry.case)
    }

    /// Takes what a mark says as said only.
    pub(super) fn note(&mut self, code: &str) {
        let marks = self.marks.iter_mut().map(|of| &mut of.mark);
        let own = marks.filter(|mark| mark.code == code);
        own.for_each(|mark| mark.invalid = false);
    }

    /// Marks of some of its repeats.
    pub(super) fn marks_of(&self, repeats: &[&RepeatView]) -> Vec<OfRepeat> {
        let is_of = |mark: &&OfRepeat| {
            let mut numbers = repeats.iter().map(|repeat| repeat.row.key.repeat);
            numbers.any(|number| mark.repeat == Some(number))
        };
        self.marks.iter().filter(is_of).cloned().collect()
    }

    /// All that is said of its repeats, and that they are too few where they are.
    pub(super) fn told(&self) -> Vec<OfRepeat> {
        let mut marks = self.marks_of(&self.repeats);
        marks.extend(self.lacks());
        marks
    }

    pub(super) fn valid_of(&self, repeats: &[&'a RepeatView]) -> Vec<&'a RepeatView> {
        let is_valid = |repeat: &&&RepeatView| {
            let number = Some(repeat.row.key.repeat);
            let mut own = self.marks.iter().filter(|mark| mark.repeat == number);
            !own.any(|mark| mark.mark.invalid)
        };
        repeats.iter().filter(is_valid).copied().collect()
    }

    pub(super) fn valid(&self) -> Vec<&'a RepeatView> {
        self.valid_of(&self.repeats)
    }

    /// Why it has too few repeats to be judged, where that is so.
    fn lacks(&self) -> Option<OfRepeat> {
        let count = self.repeats.len();
        let failed = self.read.view.repeats.iter().rev();
        let why = failed.filter_map(|repeat| Some(&repeat.row.failure.as_ref()?.detail));
        let why = why.map(|detail| format!(": {detail}")).next();
        let text = format!(
            "{count} of the {FEWEST_REPEATS} repeats that are needed were measured{}",
            why.unwrap_or_default()
        );
        (count < FEWEST_REPEATS).then(|| OfRepeat {
            repeat: None,
            mark: Mark::invalid("few_repeats", text),
        })
    }

    /// Whether most repeats were what they were meant to be.
    pub(super) fn is_valid(&self) -> bool {
        let valid = self.valid().len();
        valid >= FEWEST_REPEATS && 2 * valid > self.repeats.len()
    }

    /// Repeats that figures are made of: the valid ones, or all where too few are; what they make is invalid.
    pub(super) fn counted(&self) -> Vec<&'a RepeatView> {
        let valid = self.valid();
        match valid.len() >= FEWEST_REPEATS {
            true => valid,
            false => self.repeats.clone(),
        }
    }

    /// The mean over the repeats that figures are made of; none where one of them has none.
    pub(super) fn mean(&self, of: &dyn Fn(&RepeatView) -> Option<f64>) -> Option<f64> {
        let counted = self.counted();
        let values: Option<Vec<f64>> = counted.iter().map(|repeat| of(repeat)).collect();
        mean::arithmetic(&values?)
    }

    pub(super) fn figures(&self, metric: &Metric) -> Vec<OfRound> {
        let of_repeat = |repeat: &&RepeatView| {
            Some(OfRound {
                round: repeat.row.key.repeat,
                value: (metric.of)(repeat)?,
            })
        };
        self.counted().iter().filter_map(of_repeat).collect()
    }

    /// What the trials behind a figure are worth, where it is a percentile.
    fn worth(&self, name: &str) -> Option<Worth> {
        let all = self.worth.get_or_init(|| {
            let counted = self.counted();
            let of = |name: &&'static str| {
                let level = metric::find(name).ok()?.quantile?;
                let trials = counted.iter();
                let trials = trials.map(|repeat| repeat.trials.measured.as_slice());
                Some((*name, Worth::of(trials, level)?))
            };
            FOLLOWED.iter().filter_map(of).collect()
        });
        let found = all.iter().find(|(of, _)| *of == name);
        found.map(|(_, worth)| *worth)
    }

    /// The same of the trials of rounds that are among these: a ratio rests on no others.
    fn worth_in(&self, name: &str, rounds: &[u32]) -> Option<Worth> {
        let name = FOLLOWED.iter().find(|followed| **followed == name)?;
        let level = metric::find(name).ok()?.quantile?;
        let counted = self.counted().into_iter();
        let paired = counted.filter(|repeat| rounds.contains(&repeat.row.key.repeat));
        Worth::of(
            paired.map(|repeat| repeat.trials.measured.as_slice()),
            level,
        )
    }

    fn device(&self) -> Vec<OfRound> {
        let counted = self.counted();
        let is_counted = |of: &&OfRound| counted.iter().any(|r| r.row.key.repeat == of.round);
        self.read
            .device
            .iter()
            .filter(is_counted)
            .copied()
            .collect()
    }

    /// Every figure that is followed, by name.
    fn all(&self) -> Vec<(String, Vec<OfRound>)> {
        let metrics = FOLLOWED.iter().filter_map(|name| metric::find(name).ok());
        let mut all: Vec<(String, Vec<OfRound>)> = metrics
            .map(|metric| (metric.name.to_owned(), self.figures(metric)))
            .collect();
        all.push((DEVICE.to_owned(), self.device()));
        all.retain(|(_, values)| !values.is_empty());
        all
    }

    pub(super) fn key(&self) -> String {
        self.read.view.entry.key.to_string()
    }
}

/// What each stressor at full effort did less than when it was calibrated.
fn measured_less(read: &Read, repeat: &RepeatView, ask: &Ask) -> Vec<Mark> {
    let board = &read.view.entry.case.board;
    let condition = Condition::stored(&read.view.entry.case.condition).unwrap_or_default();
    let full = condition.terms.iter();
    let full = full.filter(|term| term.level == Level::Full);
    let less = full.filter_map(|term| {
        let share = of_calibrated(term, board, repeat, ask)?;
        below_calibrated(term.kind.name, share)
    });
    less.collect()
}

/// What a stressor of a repeat achieved as a share of what it was calibrated at; none where it was not.
pub(super) fn of_calibrated(
    term: &Term,
    board: &str,
    repeat: &RepeatView,
    ask: &Ask,
) -> Option<f64> {
    let ceiling = *ask.ceilings.0.get(&term.calibrated(board))?;
    let is_own = |row: &&StressRow| row.stressor == term.kind.name && row.cpus == term.cpus;
    let row = repeat.row.stress.iter().find(is_own)?;
    Some(Achieved::of(row).paced()? / ceiling as f64)
}

fn in_ms(values: &[OfRound], trials: Option<Worth>) -> Option<Figure> {
    let values: Vec<f64> = values.iter().map(|of| of.value).collect();
    let (point, interval) = centre(&values)?;
    Some(Figure {
        ms: point / 1e6,
        ci95: interval.map(|(low, high)| (low / 1e6, high / 1e6)),
        trials,
    })
}

pub(super) fn figures(measured: &Measured<'_>) -> BTreeMap<String, Figure> {
    let all = measured.all().into_iter();
    all.filter_map(|(name, values)| {
        let figure = in_ms(&values, measured.worth(&name))?;
        Some((name, figure))
    })
    .collect()
}

/// Ratios of all figures of `loaded` over those of `without`.
pub(super) fn ratios(without: &Measured<'_>, loaded: &Measured<'_>) -> BTreeMap<String, Ratio> {
    let base: BTreeMap<String, Vec<OfRound>> = without.all().into_iter().collect();
    let all = loaded.all().into_iter();
    all.filter_map(|(name, values)| {
        let base = base.get(&name)?;
        let ratio = slowdown(base, &values)?;
        let of = |values: &[OfRound]| values.iter().map(|of| of.round).collect::<Vec<u32>>();
        let sides = [
            without.worth_in(&name, &of(&values)),
            loaded.worth_in(&name, &of(base)),
        ];
        let enough = sides.iter().flatten().all(|worth| worth.enough);
        Some((name, Ratio { enough, ..ratio }))
    })
    .collect()
}
