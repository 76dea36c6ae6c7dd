//! The plan that knows everything beforehand: cases × repeats, round by round.

use edgedyno_shared::case::Case;
use edgedyno_shared::ids::{RunId, Sha256};
use edgedyno_shared::order::{ColdStart, Limits, OrderKey, OutputWish, Pass, RepeatOrder, Rules};

use super::axes::case_key;
use super::shuffle::shuffle;
use super::{Ended, Planner, Progress};

/// An attempt lost with its board or link is made again this often in all.
const MAX_ATTEMPTS: usize = 2;

/// What all cases of a plan share.
#[derive(Debug, Clone)]
pub struct Conduct {
    pub repeats: u32,
    pub rules: Rules,
    pub limits: Limits,
    pub cold: ColdStart,
    pub outputs: OutputWish,
    /// Decides the order of the cases within each round.
    pub seed: u64,
}

/// A plan of fixed size.
#[derive(Debug, Clone)]
pub struct StaticPlan {
    cases: Vec<(Sha256, Case)>,
    conduct: Conduct,
    /// Keys of first attempts, in the order in which they are measured.
    slots: Vec<(usize, OrderKey)>,
}

impl StaticPlan {
    /// Lays out the rounds. A case that is given twice is measured once.
    pub fn new(run: &RunId, cases: Vec<Case>, conduct: Conduct) -> Self {
        let mut keyed: Vec<(Sha256, Case)> = Vec::with_capacity(cases.len());
        for case in cases {
            let key = case_key(&case);
            if keyed.iter().all(|(known, _)| *known != key) {
                keyed.push((key, case));
            }
        }
        let slots = lay_out(run, &keyed, &conduct);
        Self {
            cases: keyed,
            conduct,
            slots,
        }
    }

    /// Cases with their keys, as given.
    pub fn cases(&self) -> &[(Sha256, Case)] {
        &self.cases
    }

    pub fn conduct(&self) -> &Conduct {
        &self.conduct
    }

    /// Keys of the first attempts in the order of measurement.
    pub fn keys(&self) -> impl Iterator<Item = &OrderKey> {
        self.slots.iter().map(|(_, key)| key)
    }

    fn order(&self, case: usize, key: OrderKey) -> RepeatOrder {
        RepeatOrder {
            key,
            case: self.cases[case].1.clone(),
            rules: self.conduct.rules.clone(),
            limits: self.conduct.limits.clone(),
            cold: self.conduct.cold,
            outputs: self.conduct.outputs.clone(),
        }
    }
}

/// Interleaves: every case once a round, so that a slow drift of the board meets all cases alike.
fn lay_out(run: &RunId, cases: &[(Sha256, Case)], conduct: &Conduct) -> Vec<(usize, OrderKey)> {
    let mut slots = Vec::with_capacity(cases.len() * conduct.repeats as usize);
    for repeat in 0..conduct.repeats {
        let mut round: Vec<usize> = (0..cases.len()).collect();
        shuffle(&mut round, conduct.seed ^ u64::from(repeat));
        slots.extend(round.into_iter().map(|case| {
            let key = OrderKey {
                run: run.clone(),
                case: cases[case].0,
                repeat,
                attempt: 0,
                pass: Pass::Honest,
            };
            (case, key)
        }));
    }
    slots
}

impl Planner for StaticPlan {
    fn next(&mut self, progress: &Progress) -> Vec<RepeatOrder> {
        let due = self.slots.iter().filter_map(|(case, key)| {
            let attempt = next_attempt(progress, key)?;
            Some(self.order(
                *case,
                OrderKey {
                    attempt,
                    ..key.clone()
                },
            ))
        });
        due.take(progress.room).collect()
    }

    fn total(&self) -> Option<usize> {
        Some(self.slots.len())
    }
}

/// The attempt to make of a repeat, none when it has its result, is on the way or was lost too often.
fn next_attempt(progress: &Progress, key: &OrderKey) -> Option<u32> {
    let attempts = progress.attempts(key);
    let settled = |how: &Option<Ended>| matches!(how, None | Some(Ended::Complete | Ended::Failed));
    let lost = attempts.iter().filter(|(_, how)| *how == Some(Ended::Lost));
    if attempts.iter().any(|(_, how)| settled(how)) || lost.count() >= MAX_ATTEMPTS {
        return None;
    }
    let highest = attempts.iter().map(|(attempt, _)| attempt + 1).max();
    Some(highest.unwrap_or(0))
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
            let expected: BTreeSet<OrderKey> = plan.keys().cloned().collect();
            prop_assert_eq!(expected.len(), (cases * repeats) as usize);
            let ran = drain(&mut plan, &mut Progress::default(), room, |_| Ended::Complete);
            prop_assert_eq!(ran.len(), expected.len());
            prop_assert_eq!(ran.into_iter().collect::<BTreeSet<_>>(), expected);
        }

        #[test]
        fn a_run_resumed_at_any_point_measures_the_rest_in_order(cases in 1_u32..5, repeats in 1_u32..5, seed: u64, cut in 0_usize..20) {
            let all: Vec<OrderKey> = plan(cases, repeats, seed).keys().cloned().collect();
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
        let first = plan.keys().next().unwrap().clone();
        progress.only_pending([first]);
        let orders = plan.next(&progress);
        assert_eq!(orders.len(), 1);
        assert_eq!(orders[0].key.repeat, 1);
    }

    #[test]
    fn a_case_given_twice_is_planned_once() {
        let run = RunId("r".into());
        let plan = StaticPlan::new(&run, vec![case(1), case(1)], conduct(3, 0));
        assert_eq!(plan.cases().len(), 1);
        assert_eq!(plan.total(), Some(3));
    }
}
