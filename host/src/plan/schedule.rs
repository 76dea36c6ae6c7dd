//! How the repeats of a plan follow each other, and what ends a case before its last repeat.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::time::Duration;

use edgedyno_shared::case::Case;
use edgedyno_shared::ids::Sha256;
use edgedyno_shared::load::Load;
use edgedyno_shared::units::Nanos;

use super::Progress;
use super::axes::axes;
use super::condition::{Ceilings, Condition, SETTLE};
use super::shuffle::shuffle;

/// What a plan has beside its cases and rules.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Schedule {
    pub order: Order,
    /// Failed repeats of a case after which the others are left out; none orders them all the same.
    pub max_attempts: Option<u32>,
    /// No repeat begins later than this.
    pub time_budget: Option<Duration>,
    /// Repeats are added until p50 is known so well.
    pub within: Option<Within>,
    pub sentinel: Option<Sentinel>,
    /// Axes, as [`axes`] names them, along which nothing larger is measured once memory ran out.
    pub stop_on_oom: Vec<String>,
    /// Outputs of each case's first repeat are kept, to be compared.
    pub keeps_outputs: bool,
    /// More repeats of a case behind all others, to see whether the board is what it was.
    pub recovery: Option<Recovery>,
    /// What shares of a stressor's maximum refer to.
    pub ceilings: Ceilings,
    /// How long a load runs before warm-up begins; none takes the usual time.
    pub settle: Option<Nanos>,
    /// Repeats of cases during which the board is not watched, whatever the conduct says.
    pub unwatched: BTreeSet<(Sha256, u32)>,
}

impl Schedule {
    /// What the condition of a case stands for; without its calibration none, which the agent refuses.
    pub(super) fn load_of(&self, case: &Case) -> Load {
        let condition = Condition::stored(&case.condition.0).unwrap_or_default();
        let settle = self.settle.unwrap_or(SETTLE);
        let load = condition.load(&case.board, &self.ceilings, settle);
        load.unwrap_or_default()
    }
}

/// Repeats of one case at the end of a plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Recovery {
    pub case: Sha256,
    pub repeats: u32,
}

/// The order of repeats.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Order {
    /// Every case once a round, shuffled within it: a slow drift of the board meets all cases alike.
    #[default]
    Interleaved,
    /// All repeats of all cases shuffled together.
    Random,
    /// All repeats of a case in a row, cases as given.
    Blocked,
}

/// A stop rule over repeats.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Within {
    /// Half the width of the 95 % interval of p50, as a share of it.
    pub share: f64,
    pub max_repeats: u32,
}

/// A case that is measured again every so many repeats, to see the board drift.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sentinel {
    pub case: Sha256,
    pub every: u32,
}

/// One repeat of a case, both by number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Slot {
    pub(super) case: u32,
    pub(super) repeat: u32,
}

impl Order {
    pub const ALL: [Self; 3] = [Self::Interleaved, Self::Random, Self::Blocked];

    pub fn name(self) -> &'static str {
        match self {
            Self::Interleaved => "interleaved",
            Self::Random => "random",
            Self::Blocked => "blocked",
        }
    }

    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|order| order.name() == name)
    }

    /// Every repeat of every case, in this order.
    pub(super) fn lay_out(self, cases: u32, repeats: u32, seed: u64) -> Vec<Slot> {
        let round = |repeat| (0..cases).map(move |case| Slot { case, repeat });
        match self {
            Self::Blocked => {
                let of_case = |case| (0..repeats).map(move |repeat| Slot { case, repeat });
                (0..cases).flat_map(of_case).collect()
            }
            Self::Random => {
                let mut slots: Vec<Slot> = (0..repeats).flat_map(round).collect();
                shuffle(&mut slots, seed);
                slots
            }
            Self::Interleaved => {
                let shuffled = |repeat| {
                    let mut slots: Vec<Slot> = round(repeat).collect();
                    shuffle(&mut slots, seed ^ u64::from(repeat));
                    slots
                };
                (0..repeats).flat_map(shuffled).collect()
            }
        }
    }
}

/// Puts a repeat of `sentinel` behind every `every` others, numbered from `repeat` on.
pub(super) fn watch(slots: Vec<Slot>, sentinel: u32, every: u32, repeat: u32) -> Vec<Slot> {
    let every = every.max(1) as usize;
    let mut out = Vec::with_capacity(slots.len() + slots.len() / every);
    for (others, number) in slots.chunks(every).zip(repeat..) {
        out.extend_from_slice(others);
        if others.len() == every {
            out.push(Slot {
                case: sentinel,
                repeat: number,
            });
        }
    }
    out
}

/// Names and values of axes.
type Axes = Vec<(String, String)>;

/// Cases along axes that running out of memory ends.
#[derive(Debug, Clone, Default)]
pub(super) struct Lines {
    /// For each case the lines it lies on, and how large it is there. Cases of one line differ in one axis.
    of_case: Vec<Vec<(u32, f64)>>,
    numbers: HashMap<Sha256, u32>,
}

/// Where memory ran out first on each line, and for which case.
#[derive(Debug, Clone, Default)]
pub(super) struct Limits(HashMap<u32, (f64, u32)>);

impl Lines {
    pub(super) fn along(cases: &[(Sha256, Case)], along: &[String]) -> Self {
        if along.is_empty() {
            return Self::default();
        }
        let mut of_case = vec![Vec::new(); cases.len()];
        let mut lines: BTreeMap<(&str, Axes), u32> = BTreeMap::new();
        for (number, (_, case)) in (0..).zip(cases) {
            for axis in along {
                let mut others = axes(case);
                let Some(at) = others.iter().position(|(name, _)| name == axis) else {
                    continue;
                };
                let (_, value) = others.remove(at);
                let next = lines.len() as u32;
                let line = *lines.entry((axis, others)).or_insert(next);
                let size = size(&value).unwrap_or(f64::from(number));
                of_case[number as usize].push((line, size));
            }
        }
        let keys = cases.iter().map(|(key, _)| *key);
        Self {
            of_case,
            numbers: keys.zip(0..).collect(),
        }
    }

    pub(super) fn limits(&self, progress: &Progress) -> Limits {
        let mut limits = Limits::default();
        if self.of_case.is_empty() {
            return limits;
        }
        for case in progress.out_of_memory() {
            let Some(number) = self.numbers.get(case) else {
                continue;
            };
            for (line, size) in &self.of_case[*number as usize] {
                let first = limits.0.entry(*line).or_insert((*size, *number));
                if *size < first.0 {
                    *first = (*size, *number);
                }
            }
        }
        limits
    }

    /// The smaller case that ran out of memory, if one did.
    pub(super) fn beyond(&self, limits: &Limits, case: usize) -> Option<u32> {
        let lines = self.of_case.get(case)?;
        lines.iter().find_map(|(line, size)| {
            let (limit, ran_out) = limits.0.get(line)?;
            (limit < size).then_some(*ran_out)
        })
    }
}

/// How large a value of an axis is: a number, or the product of dimensions.
pub fn size(value: &str) -> Option<f64> {
    let numbers = value.split('x').map(|part| part.parse::<f64>().ok());
    numbers.product()
}

#[cfg(test)]
mod tests {
    use edgedyno_shared::ids::RunId;
    use edgedyno_shared::order::{OrderKey, Pass};
    use proptest::prelude::*;

    use super::super::Ended;
    use super::super::fixed::tests::case;
    use super::*;

    fn pairs(slots: &[Slot]) -> Vec<(u32, u32)> {
        slots.iter().map(|slot| (slot.case, slot.repeat)).collect()
    }

    proptest! {
        #[test]
        fn every_order_has_every_repeat_once(cases in 0_u32..7, repeats in 0_u32..5, seed: u64) {
            let expected: Vec<(u32, u32)> = (0..cases).flat_map(|c| (0..repeats).map(move |r| (c, r))).collect();
            for order in Order::ALL {
                let mut found = pairs(&order.lay_out(cases, repeats, seed));
                prop_assert_eq!(&found, &pairs(&order.lay_out(cases, repeats, seed)));
                found.sort_unstable();
                prop_assert_eq!(&found, &expected);
            }
        }

        #[test]
        fn interleaved_never_begins_a_round_before_the_last_is_over(cases in 1_u32..7, repeats in 1_u32..5, seed: u64) {
            let slots = Order::Interleaved.lay_out(cases, repeats, seed);
            prop_assert!(slots.is_sorted_by_key(|slot| slot.repeat));
        }
    }

    #[test]
    fn blocked_measures_case_after_case() {
        let slots = Order::Blocked.lay_out(2, 3, 9);
        let expected = [(0, 0), (0, 1), (0, 2), (1, 0), (1, 1), (1, 2)];
        assert_eq!(pairs(&slots), expected);
    }

    #[test]
    fn a_random_order_leaves_the_rounds() {
        let slots = Order::Random.lay_out(10, 3, 1);
        assert!(!slots.is_sorted_by_key(|slot| slot.repeat));
    }

    #[test]
    fn a_sentinel_comes_after_every_k_others_with_numbers_of_its_own() {
        let slots = watch(Order::Blocked.lay_out(5, 1, 0), 1, 2, 1);
        let expected = [(0, 0), (1, 0), (1, 1), (2, 0), (3, 0), (1, 2), (4, 0)];
        assert_eq!(pairs(&slots), expected);
    }

    /// Cases by threads and batch; for each the case that ends it when `ran_out` ran out of memory.
    fn beyond(sizes: &[(u32, u32)], ran_out: &[usize]) -> Vec<Option<u32>> {
        let key = |number: usize| Sha256([number as u8; 32]);
        let cases: Vec<(Sha256, Case)> = sizes
            .iter()
            .enumerate()
            .map(|(number, (threads, batch))| {
                let mut case = case(*threads);
                case.batch = Some(*batch);
                (key(number), case)
            })
            .collect();
        let mut progress = Progress::default();
        for number in ran_out {
            let key = OrderKey {
                run: RunId("r".into()),
                case: key(*number),
                repeat: 0,
                attempt: 0,
                pass: Pass::Honest,
            };
            progress.end(key, Ended::OutOfMemory);
        }
        let lines = Lines::along(&cases, &["batch".into()]);
        let limits = lines.limits(&progress);
        let all = 0..cases.len();
        all.map(|case| lines.beyond(&limits, case)).collect()
    }

    #[test]
    fn what_is_larger_differs_in_that_axis_only_and_by_size_not_by_place() {
        let sizes = [(1, 8), (1, 2), (2, 8), (1, 16)];
        assert_eq!(beyond(&sizes, &[]), [None; 4]);
        assert_eq!(beyond(&sizes, &[1]), [Some(1), None, None, Some(1)]);
        assert_eq!(beyond(&sizes, &[0]), [None, None, None, Some(0)]);
        assert_eq!(beyond(&sizes, &[0, 1]), [Some(1), None, None, Some(1)]);
        assert_eq!(beyond(&sizes, &[2]), [None; 4]);
        assert_eq!(size("1x3x20"), Some(60.0));
        assert_eq!(size("fast"), None);
    }
}
