//! The plan that knows everything beforehand: cases × repeats in an order of its own.

use std::collections::HashSet;

use edgedyno_shared::case::Case;
use edgedyno_shared::ids::{RunId, Sha256};
use edgedyno_shared::order::{
    ColdStart, Limits, OrderKey, OutputWish, Pass, Preparation, RepeatOrder, Rules,
};
use edgedyno_shared::telemetry::TelemetryMode;

use super::axes::case_key;
use super::schedule::{self, Limits as OutOfMemory, Lines, Schedule, Slot};
use super::{Ended, Planner, Progress};

/// An attempt lost with its board or link is made again this often in all.
const MAX_LOST: usize = 2;

/// What all cases of a plan share.
#[derive(Debug, Clone)]
pub struct Conduct {
    pub repeats: u32,
    pub rules: Rules,
    pub limits: Limits,
    pub cold: ColdStart,
    pub outputs: OutputWish,
    pub telemetry: TelemetryMode,
    pub preparation: Preparation,
    /// Decides the order of the cases within each round.
    pub seed: u64,
}

/// A plan of fixed size.
#[derive(Debug, Clone)]
pub struct StaticPlan {
    run: RunId,
    cases: Vec<(Sha256, Case)>,
    conduct: Conduct,
    schedule: Schedule,
    /// First attempts, in the order in which they are measured.
    slots: Vec<Slot>,
    /// Along which nothing larger is measured once memory ran out.
    lines: Lines,
    /// Every slot before this one has its result, whatever happens.
    first_open: usize,
}

/// Why repeats of a case were not ordered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LeftOut {
    /// The case failed too often.
    Failing,
    /// This case, which is smaller, ran out of memory.
    LargerThan(Sha256),
    /// The time was over, or the user stopped.
    Stopped,
}

/// Where a slot stands.
enum State {
    /// It has its result, or was given up for good.
    Settled(Option<LeftOut>),
    Pending,
    /// To be measured by this attempt.
    Due(u32),
}

impl StaticPlan {
    /// Lays out rounds of all cases. A case that is given twice is measured once.
    pub fn new(run: &RunId, cases: Vec<Case>, conduct: Conduct) -> Self {
        let keyed = cases.into_iter().map(|case| (case_key(&case), case));
        Self::scheduled(run, keyed.collect(), conduct, Schedule::default())
    }

    /// Lays out cases, each with its key, by a schedule.
    pub fn scheduled(
        run: &RunId,
        cases: Vec<(Sha256, Case)>,
        conduct: Conduct,
        schedule: Schedule,
    ) -> Self {
        let mut seen = HashSet::with_capacity(cases.len());
        let mut cases = cases;
        cases.retain(|(key, _)| seen.insert(*key));
        let slots = lay_out(&cases, &conduct, &schedule);
        Self {
            run: run.clone(),
            lines: Lines::along(&cases, &schedule.stop_on_oom),
            cases,
            conduct,
            schedule,
            slots,
            first_open: 0,
        }
    }

    /// Cases with their keys, as given.
    pub fn cases(&self) -> &[(Sha256, Case)] {
        &self.cases
    }

    pub fn conduct(&self) -> &Conduct {
        &self.conduct
    }

    /// Number of the first repeat that only looks whether the board is what it was; none where there is none.
    pub fn recovery_from(&self) -> Option<u32> {
        let recovery = self.schedule.recovery.filter(|r| r.repeats > 0)?;
        let of_case = self
            .slots
            .iter()
            .filter(|slot| self.cases[slot.case as usize].0 == recovery.case);
        let behind = of_case.map(|slot| slot.repeat + 1).max()?;
        Some(behind - recovery.repeats)
    }

    /// Keys of the first attempts in the order of measurement.
    pub fn keys(&self) -> impl Iterator<Item = OrderKey> {
        self.slots.iter().map(|slot| self.key(*slot))
    }

    /// Cases of which repeats were left out, how many, and why, by the order of cases.
    pub fn left_out(&self, progress: &Progress) -> Vec<(Sha256, u32, LeftOut)> {
        let mut found: Vec<Option<(u32, LeftOut)>> = vec![None; self.cases.len()];
        let limits = self.lines.limits(progress);
        for slot in &self.slots {
            let why = match self.state(progress, &limits, *slot) {
                State::Settled(why) => why,
                State::Pending | State::Due(_) => Some(LeftOut::Stopped),
            };
            if let Some(why) = why {
                let of_case = &mut found[slot.case as usize];
                let before = of_case.map_or(0, |(repeats, _)| repeats);
                *of_case = Some((before + 1, why));
            }
        }
        let cases = self.cases.iter().zip(found);
        cases
            .filter_map(|((key, _), found)| found.map(|(repeats, why)| (*key, repeats, why)))
            .collect()
    }

    fn key(&self, slot: Slot) -> OrderKey {
        OrderKey {
            run: self.run.clone(),
            case: self.cases[slot.case as usize].0,
            repeat: slot.repeat,
            attempt: 0,
            pass: Pass::Honest,
        }
    }

    fn order(&self, slot: Slot, attempt: u32) -> RepeatOrder {
        let mut outputs = self.conduct.outputs.clone();
        outputs.save |= self.schedule.keeps_outputs && slot.repeat == 0;
        RepeatOrder {
            key: OrderKey {
                attempt,
                ..self.key(slot)
            },
            case: self.cases[slot.case as usize].1.clone(),
            rules: self.conduct.rules.clone(),
            limits: self.conduct.limits.clone(),
            cold: self.conduct.cold,
            outputs,
            load: self.schedule.load_of(&self.cases[slot.case as usize].1),
            telemetry: self.telemetry_of(slot),
            preparation: self.conduct.preparation.clone(),
        }
    }

    fn telemetry_of(&self, slot: Slot) -> TelemetryMode {
        let repeat = (self.cases[slot.case as usize].0, slot.repeat);
        match self.schedule.unwatched.contains(&repeat) {
            true => TelemetryMode::Off,
            false => self.conduct.telemetry,
        }
    }

    fn state(&self, progress: &Progress, limits: &OutOfMemory, slot: Slot) -> State {
        let key = self.key(slot);
        let attempts = progress.attempts(&key);
        if attempts.iter().any(|(_, how)| how.is_none()) {
            return State::Pending;
        }
        let is_result = |how: &Option<Ended>| {
            matches!(
                how,
                Some(Ended::Complete | Ended::Failed | Ended::OutOfMemory)
            )
        };
        let lost = attempts.iter().filter(|(_, how)| *how == Some(Ended::Lost));
        if attempts.iter().any(|(_, how)| is_result(how)) || lost.count() >= MAX_LOST {
            return State::Settled(None);
        }
        if self.is_known_well(progress, slot) {
            return State::Settled(None);
        }
        if let Some(why) = self.given_up(progress, limits, slot, &key) {
            return State::Settled(Some(why));
        }
        let highest = attempts.iter().map(|(attempt, _)| attempt + 1).max();
        State::Due(highest.unwrap_or(0))
    }

    /// Whether the repeats before this one are enough for the stop rule.
    fn is_known_well(&self, progress: &Progress, slot: Slot) -> bool {
        let Some(within) = self.schedule.within else {
            return false;
        };
        let is_extra = (self.conduct.repeats..self.rounds()).contains(&slot.repeat);
        let figures = progress.figures(self.cases[slot.case as usize].0);
        let half_width = figures.and_then(super::figures::CaseFigures::p50_half_width);
        is_extra && half_width.is_some_and(|half| half <= within.share)
    }

    fn given_up(
        &self,
        progress: &Progress,
        limits: &OutOfMemory,
        slot: Slot,
        key: &OrderKey,
    ) -> Option<LeftOut> {
        let failed = |how| matches!(how, Ended::Failed | Ended::OutOfMemory);
        let most = self.schedule.max_attempts.unwrap_or(u32::MAX) as usize;
        if progress.count(key, failed) >= most {
            return Some(LeftOut::Failing);
        }
        let smaller = self.lines.beyond(limits, slot.case as usize)?;
        Some(LeftOut::LargerThan(self.cases[smaller as usize].0))
    }

    fn rounds(&self) -> u32 {
        rounds(&self.conduct, &self.schedule)
    }
}

fn rounds(conduct: &Conduct, schedule: &Schedule) -> u32 {
    let most = schedule.within.map_or(0, |within| within.max_repeats);
    conduct.repeats.max(most)
}

fn lay_out(cases: &[(Sha256, Case)], conduct: &Conduct, schedule: &Schedule) -> Vec<Slot> {
    let rounds = rounds(conduct, schedule);
    let slots = schedule
        .order
        .lay_out(cases.len() as u32, rounds, conduct.seed);
    // A case that is not there is measured on another board.
    let position = |case: Sha256| cases.iter().position(|(key, _)| *key == case);
    let sentinel = schedule.sentinel;
    let sentinel = sentinel.and_then(|sentinel| Some((position(sentinel.case)?, sentinel.every)));
    let mut slots = match sentinel {
        Some((at, every)) => schedule::watch(slots, at as u32, every, rounds),
        None => slots,
    };
    let recovery = schedule.recovery;
    if let Some((recovery, at)) = recovery.and_then(|r| Some((r, position(r.case)?))) {
        let case = at as u32;
        let of_case = slots.iter().filter(|slot| slot.case == case);
        let from = of_case.map(|slot| slot.repeat + 1).max().unwrap_or(0);
        let more = (from..from + recovery.repeats).map(|repeat| Slot { case, repeat });
        slots.extend(more);
    }
    slots
}

/// The number of the first repeat of the recovery, as the layout gives it to so many cases of one board.
pub fn recovery_from(cases: usize, rounds: u32, sentinel_every: Option<u32>) -> u32 {
    // Each round has every case once; the sentinel, which is the same case, comes behind every so many.
    let others = cases as u64 * u64::from(rounds);
    let looks = sentinel_every.map_or(0, |every| others / u64::from(every.max(1)));
    rounds + u32::try_from(looks).unwrap_or(u32::MAX - rounds)
}

impl Planner for StaticPlan {
    fn next(&mut self, progress: &Progress) -> Vec<RepeatOrder> {
        let budget = self.schedule.time_budget;
        if budget.is_some_and(|budget| progress.elapsed >= budget) {
            return Vec::new();
        }
        let limits = self.lines.limits(progress);
        let mut orders = Vec::new();
        let mut all_settled = true;
        for at in self.first_open..self.slots.len() {
            if orders.len() >= progress.room {
                break;
            }
            match self.state(progress, &limits, self.slots[at]) {
                State::Settled(_) if all_settled => self.first_open = at + 1,
                State::Settled(_) => {}
                State::Pending => all_settled = false,
                State::Due(attempt) => {
                    all_settled = false;
                    orders.push(self.order(self.slots[at], attempt));
                }
            }
        }
        orders
    }

    fn total(&self) -> Option<usize> {
        Some(self.slots.len())
    }

    fn needs_figures(&self) -> bool {
        self.schedule.within.is_some()
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use std::collections::BTreeSet;

    use edgedyno_shared::case::{
        Condition, Generator, InputPolicy, InputSource, InputSpec, Io, ModelRef, Scenario, Threads,
    };
    use edgedyno_shared::order::{StopRule, WarmupRule};
    use edgedyno_shared::units::Nanos;
    use proptest::prelude::*;

    use super::*;

    pub(crate) fn case(threads: u32) -> Case {
        Case {
            board: "local".into(),
            model: ModelRef {
                name: "m".into(),
                sha256: Sha256([1; 32]),
            },
            backend: "fake".into(),
            runtime: None,
            options: Vec::new(),
            parameters: Vec::new(),
            shapes: Vec::new(),
            batch: None,
            threads: Threads {
                intra: threads,
                inter: 1,
            },
            cpus: None,
            precision: None,
            scenario: Scenario::Single,
            io: Io::Resident,
            condition: Condition::idle(),
            tenants: Vec::new(),
            inputs: InputSpec {
                source: InputSource::Generated {
                    generator: Generator::Normal,
                    seed: 1,
                },
                policy: InputPolicy::Fixed,
            },
        }
    }

    pub(crate) fn conduct(repeats: u32, seed: u64) -> Conduct {
        Conduct {
            repeats,
            rules: Rules {
                warmup: WarmupRule {
                    min_trials: 5,
                    min_time: Nanos::from_millis(500),
                    max_time: Nanos::from_secs(10),
                    until_steady: true,
                },
                measure: StopRule {
                    duration: Nanos::from_secs(5),
                    min_trials: 11,
                    max_trials: 200_000,
                },
            },
            limits: Limits {
                load: Nanos::from_secs(120),
                compile: Nanos::from_secs(600),
                trial: Nanos::from_secs(10),
                trial_factor: 50,
                memory: None,
            },
            cold: ColdStart::FreshProcess,
            outputs: OutputWish {
                save: false,
                reference: Vec::new(),
            },
            telemetry: TelemetryMode::Normal,
            preparation: Preparation::default(),
            seed,
        }
    }

    fn plan(cases: u32, repeats: u32, seed: u64) -> StaticPlan {
        let cases = (1..=cases).map(case).collect();
        StaticPlan::new(&RunId("r".into()), cases, conduct(repeats, seed))
    }

    /// Runs a plan to its end, each order ending as `fate` says.
    fn drain(
        plan: &mut StaticPlan,
        progress: &mut Progress,
        room: usize,
        mut fate: impl FnMut(&OrderKey) -> Ended,
    ) -> Vec<OrderKey> {
        let mut ran = Vec::new();
        progress.room = room;
        loop {
            let orders = plan.next(progress);
            assert!(orders.len() <= room);
            if orders.is_empty() {
                return ran;
            }
            for order in orders {
                progress.begin(order.key.clone());
                let how = fate(&order.key);
                progress.end(order.key.clone(), how);
                ran.push(order.key);
            }
        }
    }

    proptest! {
        #[test]
        fn every_repeat_of_every_case_is_measured_once(cases in 1_u32..5, repeats in 1_u32..5, seed: u64, room in 1_usize..7) {
            let mut plan = plan(cases, repeats, seed);
            let expected: BTreeSet<OrderKey> = plan.keys().collect();
            prop_assert_eq!(expected.len(), (cases * repeats) as usize);
            let ran = drain(&mut plan, &mut Progress::default(), room, |_| Ended::Complete);
            prop_assert_eq!(ran.len(), expected.len());
            prop_assert_eq!(ran.into_iter().collect::<BTreeSet<_>>(), expected);
        }

        #[test]
        fn a_run_resumed_at_any_point_measures_the_rest_in_order(cases in 1_u32..5, repeats in 1_u32..5, seed: u64, cut in 0_usize..20) {
            let all: Vec<OrderKey> = plan(cases, repeats, seed).keys().collect();
            let cut = cut.min(all.len());
            let mut progress = Progress::default();
            all[..cut].iter().for_each(|key| progress.end(key.clone(), Ended::Complete));
            let ran = drain(&mut plan(cases, repeats, seed), &mut progress, 1, |_| Ended::Complete);
            prop_assert_eq!(&ran[..], &all[cut..]);
        }

        #[test]
        fn no_key_is_ordered_twice_whatever_happens(cases in 1_u32..4, repeats in 1_u32..4, fates: Vec<u8>) {
            let mut plan = plan(cases, repeats, 3);
            let mut n = 0;
            let fate = |_: &OrderKey| {
                n += 1;
                match fates.get(n).copied().unwrap_or(0) % 4 {
                    0 => Ended::Complete,
                    1 => Ended::Failed,
                    2 => Ended::Lost,
                    _ => Ended::Cancelled,
                }
            };
            let ran = drain(&mut plan, &mut Progress::default(), 2, fate);
            let unique: BTreeSet<&OrderKey> = ran.iter().collect();
            prop_assert_eq!(unique.len(), ran.len());
        }
    }

    #[test]
    fn cases_are_interleaved_round_by_round() {
        let plan = plan(3, 2, 5);
        let repeats: Vec<u32> = plan.keys().map(|key| key.repeat).collect();
        assert_eq!(repeats, [0, 0, 0, 1, 1, 1]);
    }

    #[test]
    fn an_attempt_that_was_lost_is_made_once_more() {
        let mut plan = plan(1, 1, 0);
        let ran = drain(&mut plan, &mut Progress::default(), 1, |_| Ended::Lost);
        let attempts: Vec<u32> = ran.iter().map(|key| key.attempt).collect();
        assert_eq!(attempts, [0, 1]);
    }

    #[test]
    fn a_failure_is_a_result_and_the_plan_goes_on() {
        let mut plan = plan(2, 2, 0);
        let ran = drain(&mut plan, &mut Progress::default(), 1, |_| Ended::Failed);
        assert_eq!(ran.len(), 4);
        assert!(ran.iter().all(|key| key.attempt == 0));
    }

    #[test]
    fn what_the_agent_has_is_not_ordered_again() {
        let mut plan = plan(1, 2, 0);
        let mut progress = Progress {
            room: 5,
            ..Progress::default()
        };
        let first = plan.keys().next().unwrap();
        progress.only_pending([first]);
        let orders = plan.next(&progress);
        assert_eq!(orders.len(), 1);
        assert_eq!(orders[0].key.repeat, 1);
    }

    #[test]
    fn the_recovery_begins_behind_rounds_and_sentinels() {
        let keyed = |n: u32| (1..=n).map(|n| (case_key(&case(n)), case(n)));
        for (cases, every) in [(4, Some(2)), (4, Some(3)), (3, None), (1, Some(8))] {
            let base = case_key(&case(1));
            let schedule = Schedule {
                sentinel: every.map(|every| schedule::Sentinel { case: base, every }),
                recovery: Some(schedule::Recovery {
                    case: base,
                    repeats: 3,
                }),
                ..Schedule::default()
            };
            let run = RunId("r".into());
            let plan = StaticPlan::scheduled(&run, keyed(cases).collect(), conduct(5, 0), schedule);
            let from = plan.recovery_from().unwrap();
            let last: Vec<u32> = plan.keys().map(|key| key.repeat).collect();
            assert_eq!(last[last.len() - 3..], [from, from + 1, from + 2]);
            assert_eq!(
                from,
                recovery_from(cases as usize, 5, every),
                "{cases} {every:?}"
            );
        }
        // 4 cases, 5 rounds, and a look behind every 2 of 20.
        assert_eq!(recovery_from(4, 5, Some(2)), 15);
        assert_eq!(plan(2, 2, 0).recovery_from(), None);
    }

    #[test]
    fn a_case_given_twice_is_planned_once() {
        let run = RunId("r".into());
        let plan = StaticPlan::new(&run, vec![case(1), case(1)], conduct(3, 0));
        assert_eq!(plan.cases().len(), 1);
        assert_eq!(plan.total(), Some(3));
    }
}
