//! The plan that looks for the best case and leaves out what cannot be it.
//!
//! Along threads and streams it goes upward and stops past the knee; everywhere else it goes through the
//! grid. A case whose condition fails, or that is surely worse than one whose conditions hold, is dropped.
//! All of it is worked out anew from the progress, so a resumed search goes on as if nothing had happened.

use std::collections::BTreeMap;

use edgedyno_shared::case::{Case, Scenario};
use edgedyno_shared::ids::{RunId, Sha256};
use edgedyno_shared::order::{OrderKey, Pass, RepeatOrder};

use super::axes::axes;
use super::fixed::Conduct;
use super::goal::{Goal, Judgement};
use super::schedule::{Lines, Schedule};
use super::shuffle::shuffle;
use super::{Ended, Planner, Progress};

/// A step upward that brings less than this is none.
const LEAST_GAIN: f64 = 0.02;

/// So many steps in a row without a gain are past the knee.
const FLAT_STEPS: usize = 2;

/// An attempt lost with its board is made again this often in all.
const MAX_LOST: usize = 2;

/// A search over cases.
#[derive(Debug, Clone)]
pub struct OptimizePlan {
    run: RunId,
    cases: Vec<(Sha256, Case)>,
    conduct: Conduct,
    schedule: Schedule,
    goal: Goal,
    /// Cases that differ in threads or streams only, fewest first.
    lines: Vec<Vec<usize>>,
    /// Along which nothing larger is measured once memory ran out.
    memory: Lines,
}

/// Where a case stands in the search.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Standing {
    Open,
    /// Threads or streams brought no more before it.
    PastTheKnee,
    /// A condition does not hold.
    Fails,
    /// Surely worse than this case, whose conditions hold.
    WorseThan(Sha256),
    /// It failed as often as it may.
    Broken,
    /// This case, which is smaller, ran out of memory.
    LargerThan(Sha256),
}

impl OptimizePlan {
    pub fn new(
        run: &RunId,
        cases: Vec<(Sha256, Case)>,
        conduct: Conduct,
        schedule: Schedule,
        goal: Goal,
    ) -> Self {
        Self {
            run: run.clone(),
            lines: lines(&cases),
            memory: Lines::along(&cases, &schedule.stop_on_oom),
            cases,
            conduct,
            schedule,
            goal,
        }
    }

    /// Where every case stands, in the order of cases.
    pub fn standings(&self, progress: &Progress) -> Vec<(Sha256, Standing)> {
        let mut found = vec![Standing::Open; self.cases.len()];
        let limits = self.memory.limits(progress);
        for (at, standing) in found.iter_mut().enumerate() {
            *standing = match self.memory.beyond(&limits, at) {
                Some(smaller) => Standing::LargerThan(self.cases[smaller as usize].0),
                None => self.standing(progress, at),
            };
        }
        for line in &self.lines {
            for past in &line[self.reached(progress, line)..] {
                found[*past] = Standing::PastTheKnee;
            }
        }
        self.cases.iter().map(|(key, _)| *key).zip(found).collect()
    }

    fn standing(&self, progress: &Progress, at: usize) -> Standing {
        let key = self.key(at, 0);
        let failed = |how| matches!(how, Ended::Failed | Ended::OutOfMemory);
        let most = self.schedule.max_attempts.unwrap_or(u32::MAX) as usize;
        if progress.count(&key, failed) >= most {
            return Standing::Broken;
        }
        let Some(own) = progress.figures(key.case) else {
            return Standing::Open;
        };
        if self.goal.judge(own) == Judgement::Fails {
            return Standing::Fails;
        }
        let Some((_, high)) = self.goal.span(own) else {
            return Standing::Open;
        };
        let better = self.cases.iter().find(|(other, _)| {
            let figures = progress.figures(*other).filter(|_| *other != key.case);
            let holds = |f: &&_| self.goal.judge(f) == Judgement::Holds;
            let span = figures.filter(holds).and_then(|f| self.goal.span(f));
            span.is_some_and(|(low, _)| low > high)
        });
        better.map_or(Standing::Open, |(other, _)| Standing::WorseThan(*other))
    }

    /// How many cases of a line are tried: one more than those that have ended, up to the knee.
    fn reached(&self, progress: &Progress, line: &[usize]) -> usize {
        let mut best = f64::NEG_INFINITY;
        let mut flat = 0;
        for (step, at) in line.iter().enumerate() {
            let key = self.key(*at, 0);
            if progress.count(&key, |how| how != Ended::Cancelled && how != Ended::Lost) == 0 {
                return step + 1;
            }
            let score = progress
                .figures(key.case)
                .and_then(|figures| self.goal.score(figures));
            match score {
                Some(score) if score > best + best.abs().min(f64::MAX) * LEAST_GAIN => {
                    best = score;
                    flat = 0;
                }
                _ => flat += 1,
            }
            if flat >= FLAT_STEPS {
                return step + 1;
            }
        }
        line.len()
    }

    fn key(&self, at: usize, repeat: u32) -> OrderKey {
        OrderKey {
            run: self.run.clone(),
            case: self.cases[at].0,
            repeat,
            attempt: 0,
            pass: Pass::Honest,
        }
    }

    /// The attempt to make of a repeat, none when it has its result or is on the way.
    fn due(&self, progress: &Progress, key: &OrderKey) -> Option<u32> {
        let attempts = progress.attempts(key);
        let lost = attempts.iter().filter(|(_, how)| *how == Some(Ended::Lost));
        let again = |how: &Option<Ended>| matches!(how, Some(Ended::Lost | Ended::Cancelled));
        if !attempts.iter().all(|(_, how)| again(how)) || lost.count() >= MAX_LOST {
            return None;
        }
        Some(
            attempts
                .iter()
                .map(|(attempt, _)| attempt + 1)
                .max()
                .unwrap_or(0),
        )
    }

    fn order(&self, at: usize, key: OrderKey) -> RepeatOrder {
        let mut outputs = self.conduct.outputs.clone();
        outputs.save |= self.schedule.keeps_outputs && key.repeat == 0;
        RepeatOrder {
            key,
            case: self.cases[at].1.clone(),
            rules: self.conduct.rules.clone(),
            limits: self.conduct.limits.clone(),
            cold: self.conduct.cold,
            outputs,
            load: self.schedule.load_of(&self.cases[at].1),
            telemetry: self.conduct.telemetry,
            preparation: self.conduct.preparation.clone(),
        }
    }
}

impl Planner for OptimizePlan {
    /// One order at a time: each answer may change what comes next.
    fn next(&mut self, progress: &Progress) -> Vec<RepeatOrder> {
        let budget = self.schedule.time_budget;
        let is_over = budget.is_some_and(|budget| progress.elapsed >= budget);
        if is_over || progress.room == 0 || !progress.pending().is_empty() {
            return Vec::new();
        }
        let standings = self.standings(progress);
        for repeat in 0..self.conduct.repeats {
            let mut round: Vec<usize> = (0..self.cases.len()).collect();
            shuffle(&mut round, self.conduct.seed ^ u64::from(repeat));
            for at in round
                .into_iter()
                .filter(|at| standings[*at].1 == Standing::Open)
            {
                let key = self.key(at, repeat);
                if let Some(attempt) = self.due(progress, &key) {
                    return vec![self.order(at, OrderKey { attempt, ..key })];
                }
            }
        }
        Vec::new()
    }

    fn total(&self) -> Option<usize> {
        Some(self.cases.len() * self.conduct.repeats as usize)
    }

    fn needs_figures(&self) -> bool {
        true
    }
}

/// Groups cases that differ in threads or streams only; a case alone is a line too.
fn lines(cases: &[(Sha256, Case)]) -> Vec<Vec<usize>> {
    let mut lines: BTreeMap<Vec<(String, String)>, Vec<usize>> = BTreeMap::new();
    for (at, (_, case)) in cases.iter().enumerate() {
        let mut others = axes(case);
        others.retain(|(name, _)| name != "threads");
        if let Scenario::Concurrent { .. } = case.scenario {
            others.retain(|(name, _)| name != "scenario");
        }
        lines.entry(others).or_default().push(at);
    }
    let size = |at: &usize| {
        let case = &cases[*at].1;
        let streams = match case.scenario {
            Scenario::Concurrent { streams } => streams,
            _ => 1,
        };
        (case.threads.intra, streams)
    };
    let mut lines: Vec<Vec<usize>> = lines.into_values().collect();
    lines.iter_mut().for_each(|line| line.sort_by_key(size));
    lines
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::axes::case_key;
    use super::super::figures::CaseFigures;
    use super::super::fixed::tests::{case, conduct};
    use super::super::goal::tests::figures;
    use super::*;

    fn plan(threads: &[u32], repeats: u32, goal: &str) -> OptimizePlan {
        let cases = threads.iter().map(|threads| {
            let case = case(*threads);
            (case_key(&case), case)
        });
        let schedule = Schedule {
            max_attempts: Some(2),
            ..Schedule::default()
        };
        let goal = Goal::parse(goal).unwrap();
        OptimizePlan::new(
            &RunId("r".into()),
            cases.collect(),
            conduct(repeats, 1),
            schedule,
            goal,
        )
    }

    /// Runs a search to its end on a board where `measure` says what each case comes to.
    fn search(plan: &mut OptimizePlan, measure: impl Fn(u32, u32) -> CaseFigures) -> Vec<u32> {
        let mut progress = Progress {
            room: 1,
            ..Progress::default()
        };
        let mut ran = Vec::new();
        while let [order] = plan.next(&progress).as_slice() {
            let threads = order.case.threads.intra;
            ran.push(threads);
            let repeats = ran.iter().filter(|other| **other == threads).count() as u32;
            progress.put_figures(order.key.case, measure(threads, repeats));
            progress.end(order.key.clone(), Ended::Complete);
            assert!(ran.len() < 1000, "it never ends");
        }
        ran
    }

    /// A rate that grows with threads up to 4 and not beyond; the latency falls alike.
    fn saturating(threads: u32, repeats: u32) -> CaseFigures {
        let rate = 100.0 * f64::from(threads.min(4));
        let rates: Vec<f64> = (0..repeats).map(|i| rate + f64::from(i) * 0.1).collect();
        figures(&rates, 2000.0 / rate, Some(2100.0 / rate))
    }

    #[test]
    fn threads_are_tried_upward_and_not_past_the_knee() {
        let ran = search(
            &mut plan(&[64, 1, 2, 4, 8, 16, 32], 1, "max rate"),
            saturating,
        );
        assert_eq!(ran, [1, 2, 4, 8, 16]);
    }

    #[test]
    fn a_case_that_is_surely_worse_is_dropped_early() {
        let mut plan = plan(&[1, 2, 4], 10, "max rate where p99 <= 100ms");
        let ran = search(&mut plan, saturating);
        let times = |threads| ran.iter().filter(|other| **other == threads).count();
        assert_eq!(times(4), 10);
        assert!(times(1) <= 3 && times(2) <= 3, "{ran:?}");
    }

    #[test]
    fn a_case_whose_condition_fails_is_not_measured_again() {
        // p99 is 20, 10 and 5 ms; one thread is out after its first repeat.
        let ran = search(
            &mut plan(&[1, 2, 4], 4, "min p50 where p99 <= 15ms"),
            saturating,
        );
        assert_eq!(ran.iter().filter(|threads| **threads == 1).count(), 1);
    }

    #[test]
    fn what_is_larger_than_a_case_out_of_memory_is_not_searched() {
        let batch = |batch: u32| {
            let mut case = case(1);
            case.batch = Some(batch);
            (case_key(&case), case)
        };
        let schedule = Schedule {
            stop_on_oom: vec!["batch".into()],
            max_attempts: Some(2),
            ..Schedule::default()
        };
        let cases: Vec<(Sha256, Case)> = [1, 2, 4].map(batch).into();
        let keys: Vec<Sha256> = cases.iter().map(|(key, _)| *key).collect();
        let goal = Goal::parse("max rate").unwrap();
        let plan = OptimizePlan::new(&RunId("r".into()), cases, conduct(2, 1), schedule, goal);
        let mut progress = Progress::default();
        progress.end(plan.key(1, 0), Ended::OutOfMemory);
        let standings = plan.standings(&progress);
        assert_eq!(standings[0].1, Standing::Open);
        assert_eq!(standings[1].1, Standing::Open, "one failure of two");
        assert_eq!(standings[2].1, Standing::LargerThan(keys[1]));
    }

    #[test]
    fn without_a_second_repeat_nothing_is_dropped_for_being_worse() {
        let ran = search(&mut plan(&[1, 2, 4], 1, "max rate"), saturating);
        assert_eq!(ran, [1, 2, 4]);
    }

    proptest! {
        /// Whatever the board does, the search ends, never repeats a key, and finds the best case.
        #[test]
        fn every_search_ends(rates in prop::collection::vec(1.0_f64..1000.0, 1..6), repeats in 1_u32..4) {
            let threads: Vec<u32> = (1..=rates.len() as u32).collect();
            let mut plan = plan(&threads, repeats, "max rate");
            let ran = search(&mut plan, |threads, repeats| {
                let rate = rates[threads as usize - 1];
                figures(&vec![rate; repeats as usize], 1.0, Some(1.0))
            });
            prop_assert!(ran.len() <= rates.len() * repeats as usize);
            prop_assert_eq!(ran[0], 1);
        }
    }
}
