//! One trial, and the runs of trials a repeat is made of.

use std::time::Duration;

use edgedyno_shared::columns::{NULL, Role, Status};
use edgedyno_shared::order::{StopRule, WarmupRule};
use edgedyno_shared::units::Nanos;
use edgedyno_shared::wire::failure::Failure;

use super::rate::Grid;
use super::steady::SteadyWatch;
use super::word::{LastWord, Told};
use crate::arena::ArenaWriter;
use crate::backend::Runner;
use crate::clock::{self, Clock};

/// Runs trials and writes each into the arena.
pub struct TimedLoop<'a, C> {
    clock: C,
    runner: &'a mut dyn Runner,
    arena: ArenaWriter,
    /// Cells of the backend's own columns, and behind them that of the schedule where there is one; made
    /// once.
    extra: Vec<i64>,
    own_columns: usize,
    /// Idle time before each trial of warm-up and window.
    gap: Duration,
    grid: Option<Grid>,
    /// When the trial that comes was due.
    due: Option<Nanos>,
}

/// A model that waits for its next trial looks so often whether it shall end.
const LONGEST_WAIT: Duration = Duration::from_millis(200);

/// A trial that the backend could not do, after its row was written.
#[derive(Debug)]
pub struct TrialFailed {
    /// Counted from the repeat's first slot.
    pub trial: u64,
    pub failure: Failure,
}

/// How warm-up ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WarmupEnd {
    pub trials: u64,
    /// None where steadiness was not asked for.
    pub steady: Option<bool>,
    /// False: it reached its maximum before its minima.
    pub minima_met: bool,
}

impl<'a, C: Clock> TimedLoop<'a, C> {
    /// `own_columns`: columns after the fixed ones.
    pub fn new(
        clock: C,
        runner: &'a mut dyn Runner,
        arena: ArenaWriter,
        own_columns: usize,
    ) -> Self {
        Self {
            clock,
            runner,
            arena,
            extra: vec![NULL; own_columns],
            own_columns,
            gap: Duration::ZERO,
            grid: None,
            due: None,
        }
    }

    /// Leaves the board idle for so long before each trial of warm-up and window.
    #[must_use]
    pub fn with_gap(mut self, gap: Nanos) -> Self {
        self.gap = gap.as_duration();
        self
    }

    /// Begins trials of warm-up and window on a grid of this period, where there is one. When each was due
    /// is a column more.
    #[must_use]
    pub fn at_rate(mut self, period: Option<Nanos>) -> Self {
        self.grid = period.map(Grid::new);
        self.extra
            .resize(self.own_columns + usize::from(period.is_some()), NULL);
        self
    }

    #[inline]
    fn idle(&mut self, is_over: impl Fn() -> bool) {
        if !self.gap.is_zero() {
            clock::pause(self.gap);
        }
        if self.grid.is_some() {
            self.wait(is_over);
        }
    }

    fn wait(&mut self, is_over: impl Fn() -> bool) {
        let Some(grid) = self.grid.as_mut() else {
            return;
        };
        let mut now = self.clock.now();
        let due = grid.next(now);
        while now < due && !is_over() {
            clock::pause((due - now).as_duration().min(LONGEST_WAIT));
            now = self.clock.now();
        }
        self.due = Some(due);
    }

    /// Trials so far, whatever their role.
    pub fn trials(&self) -> u64 {
        self.arena.published()
    }

    /// One trial: prepared outside the region, timed, written.
    #[inline]
    pub fn trial(&mut self, role: Role) -> Result<Span, TrialFailed> {
        let trial = self.arena.published();
        let prepared = self.runner.prepare(trial);
        self.arena.reserve();
        self.extra.fill(NULL);
        if let Some(due) = self.due.take() {
            self.extra[self.own_columns] = due.0;
        }
        if let Err(failure) = prepared {
            // A trial that never ran is a row too, without length.
            let at = self.clock.now();
            let status = Status::Error.code();
            self.arena.publish(role, at, at, status, &self.extra);
            return Err(TrialFailed { trial, failure });
        }
        let start = self.clock.now();
        let result = self.runner.run(&mut self.extra[..self.own_columns]);
        let end = self.clock.now();
        let status = if result.is_ok() {
            Status::Ok
        } else {
            Status::Error
        };
        self.arena
            .publish(role, start, end, status.code(), &self.extra);
        match result {
            Ok(()) => Ok(Span { start, end }),
            Err(failure) => Err(TrialFailed { trial, failure }),
        }
    }

    /// Warm-up by its rule. A rule that asks for nothing gets no trial, any other at least one.
    pub fn warm_up(&mut self, rule: &WarmupRule) -> Result<WarmupEnd, TrialFailed> {
        let begin = self.clock.now();
        let mut watch = SteadyWatch::default();
        let mut trials = 0;
        if rule.is_none() {
            return Ok(WarmupEnd {
                trials,
                steady: None,
                minima_met: true,
            });
        }
        loop {
            self.idle(|| false);
            let span = self.trial(Role::Warmup)?;
            trials += 1;
            let steady = rule.until_steady.then(|| watch.push(span.end - span.start));
            let elapsed = span.end - begin;
            let minima_met = trials >= rule.min_trials && elapsed >= rule.min_time;
            if minima_met && steady != Some(false) || elapsed >= rule.max_time {
                return Ok(WarmupEnd {
                    trials,
                    steady,
                    minima_met,
                });
            }
        }
    }

    /// The window. No allocation, no system call of ours from its first stamp to its last, unless the case
    /// asks for gaps or a rate: then it sleeps between two trials.
    pub fn measure(&mut self, rule: &StopRule) -> Result<u64, TrialFailed> {
        let mut trials = 0;
        let mut begin = None;
        while trials < rule.max_trials {
            self.idle(|| false);
            let span = self.trial(Role::Measure)?;
            trials += 1;
            let begin = *begin.get_or_insert(span.start);
            if span.end - begin >= rule.duration && trials >= rule.min_trials {
                break;
            }
        }
        Ok(trials)
    }

    /// Trials beside another case until the last word is its end: those of its window are measured ones.
    pub fn beside(&mut self, word: &LastWord) -> Result<u64, TrialFailed> {
        let mut trials = 0;
        loop {
            self.idle(|| word.get() == Told::End);
            let role = match word.get() {
                Told::Begin => Role::Warmup,
                Told::Measure => Role::Measure,
                Told::End => return Ok(trials),
            };
            self.trial(role)?;
            trials += 1;
        }
    }
}

/// The two stamps of a trial.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Span {
    pub start: Nanos,
    pub end: Nanos,
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::os::fd::AsFd;

    use edgedyno_shared::wire::failure::FailureCode;

    use super::*;
    use crate::arena::reader::{ArenaReader, create};
    use crate::inputs::Tensor;

    /// Moves on by one microsecond each time it is read.
    #[derive(Default)]
    struct Ticking(Cell<i64>);

    impl Clock for Ticking {
        fn now(&self) -> Nanos {
            self.0.set(self.0.get() + 1000);
            Nanos(self.0.get())
        }
    }

    struct FailsAt(u64, u64);

    impl Runner for FailsAt {
        fn run(&mut self, _extra: &mut [i64]) -> Result<(), Failure> {
            self.1 += 1;
            if self.1 == self.0 {
                return Err(Failure::new(FailureCode::BackendError, "as told"));
            }
            Ok(())
        }

        fn outputs(&mut self) -> Result<Vec<Tensor>, Failure> {
            Ok(Vec::new())
        }
    }

    fn with_loop<T>(
        fails_at: u64,
        act: impl FnOnce(&mut TimedLoop<'_, Ticking>) -> T,
    ) -> (T, Vec<i64>) {
        let folder = tempfile::tempdir().unwrap();
        let file = create(&folder.path().join("arena")).unwrap();
        let arena = ArenaWriter::open(file.as_fd(), 4).unwrap();
        let mut runner = FailsAt(fails_at, 0);
        let result = act(&mut TimedLoop::new(
            Ticking::default(),
            &mut runner,
            arena,
            0,
        ));
        let mut slots = Vec::new();
        ArenaReader::new(file, 4, 0).take(&mut slots).unwrap();
        (result, slots)
    }

    fn rule(duration_us: i64, min: u64, max: u64) -> StopRule {
        StopRule {
            duration: Nanos(duration_us * 1000),
            min_trials: min,
            max_trials: max,
        }
    }

    #[test]
    fn measurement_ends_by_time_once_the_minimum_is_in() {
        // Two clock reads a trial: trial k spans 2k-1 to 2k microseconds.
        assert_eq!(with_loop(0, |l| l.measure(&rule(9, 1, 100)).unwrap()).0, 5);
        assert_eq!(
            with_loop(0, |l| l.measure(&rule(1, 11, 100)).unwrap()).0,
            11
        );
        assert_eq!(with_loop(0, |l| l.measure(&rule(1000, 1, 7)).unwrap()).0, 7);
    }

    #[test]
    fn a_failed_trial_is_a_row_and_ends_the_window() {
        let (result, slots) = with_loop(3, |l| l.measure(&rule(1000, 1, 7)));
        let failed = result.unwrap_err();
        assert_eq!(
            (failed.trial, failed.failure.code),
            (2, FailureCode::BackendError)
        );
        let expected = [[3, 1000, 2000, 0], [3, 3000, 4000, 0], [3, 5000, 6000, 1]];
        assert_eq!(slots, expected.concat());
    }

    #[test]
    fn warm_up_needs_both_minima_and_stops_at_its_maximum() {
        let rule = |min_us: i64, max_us: i64, until_steady| WarmupRule {
            min_trials: 5,
            min_time: Nanos(min_us * 1000),
            max_time: Nanos(max_us * 1000),
            until_steady,
        };
        let ends = |rule| with_loop(0, |l| l.warm_up(&rule).unwrap()).0;
        let end = |trials, steady, minima_met| WarmupEnd {
            trials,
            steady,
            minima_met,
        };
        assert_eq!(ends(rule(1, 100, false)), end(5, None, true));
        assert_eq!(ends(rule(31, 100, false)), end(16, None, true));
        assert_eq!(ends(rule(1, 4, true)), end(2, Some(false), false));
        assert_eq!(ends(rule(1, 4, false)), end(2, None, false));
    }

    /// Says a word after so many trials.
    struct Says<'a>(&'a LastWord, u64, [(u64, Told); 2]);

    impl Runner for Says<'_> {
        fn run(&mut self, extra: &mut [i64]) -> Result<(), Failure> {
            assert!(extra.is_empty(), "the schedule's cell is not the backend's");
            self.1 += 1;
            let now = self.2.iter().filter(|(at, _)| *at == self.1);
            now.for_each(|(_, told)| self.0.say(*told));
            Ok(())
        }

        fn outputs(&mut self) -> Result<Vec<Tensor>, Failure> {
            Ok(Vec::new())
        }
    }

    #[test]
    fn a_model_beside_another_measures_in_its_window_and_ends_with_it() {
        let folder = tempfile::tempdir().unwrap();
        let file = create(&folder.path().join("arena")).unwrap();
        let arena = ArenaWriter::open(file.as_fd(), 5).unwrap();
        let word = LastWord::default();
        let mut runner = Says(&word, 0, [(3, Told::Measure), (5, Told::End)]);
        // The clock moves by a microsecond a reading, so no point of the grid is ever waited for.
        let period = Some(Nanos(1));
        let mut timed = TimedLoop::new(Ticking::default(), &mut runner, arena, 0).at_rate(period);
        assert_eq!(timed.beside(&word).unwrap(), 5);
        let mut slots = Vec::new();
        ArenaReader::new(file, 5, 0).take(&mut slots).unwrap();
        let roles: Vec<i64> = slots.chunks(5).map(|slot| slot[0]).collect();
        assert_eq!(roles, [2, 2, 2, 3, 3]);
        for slot in slots.chunks(5) {
            assert!(slot[4] <= slot[1] && slot[1] - slot[4] <= 1000, "{slot:?}");
        }
    }

    #[test]
    fn no_warm_up_is_no_trial() {
        let none = |max_us: i64| WarmupRule {
            min_trials: 0,
            min_time: Nanos::ZERO,
            max_time: Nanos(max_us * 1000),
            until_steady: false,
        };
        for max_us in [0, 100] {
            let (end, slots) = with_loop(0, |l| l.warm_up(&none(max_us)).unwrap());
            assert_eq!((end.trials, end.minima_met, slots.len()), (0, true, 0));
        }
    }
}
