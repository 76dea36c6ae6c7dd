//! How the repeats of a plan follow each other, and what ends a case before its last repeat.

use std::collections::BTreeMap;
use std::time::Duration;

use edgedyno_shared::case::Case;
use edgedyno_shared::ids::Sha256;
use edgedyno_shared::load::Load;
use edgedyno_shared::units::Nanos;

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
}

impl Schedule {
    /// What the condition of a case stands for; without its calibration none, which the agent refuses.
    pub(super) fn load_of(&self, case: &Case) -> Load {
        let condition = Condition::parse(&case.condition.0).unwrap_or_default();
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

/// For each case, those that differ from it in one of `along` only and are smaller there.
pub(super) fn smaller(cases: &[(Sha256, Case)], along: &[String]) -> Vec<Vec<u32>> {
    let mut out = vec![Vec::new(); cases.len()];
    for axis in along {
        let mut lines: BTreeMap<Axes, Vec<(f64, u32)>> = BTreeMap::new();
        for (number, (_, case)) in (0..).zip(cases) {
            let mut others = axes(case);
            let Some(at) = others.iter().position(|(name, _)| name == axis) else {
                continue;
            };
            let (_, value) = others.remove(at);
            let size = size(&value).unwrap_or(f64::from(number));
            lines.entry(others).or_default().push((size, number));
        }
        for line in lines.values() {
            for (size, number) in line {
                let below = line.iter().filter(|(other, _)| other < size);
                out[*number as usize].extend(below.map(|(_, other)| *other));
            }
        }
    }
    out
}

/// How large a value of an axis is: a number, or the product of dimensions.
pub fn size(value: &str) -> Option<f64> {
    let numbers = value.split('x').map(|part| part.parse::<f64>().ok());
    numbers.product()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

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

    #[test]
    fn smaller_cases_differ_in_that_axis_only_and_by_size_not_by_place() {
        let mut cases: Vec<(Sha256, Case)> = Vec::new();
        for (number, (threads, batch)) in [(1, 8), (1, 2), (2, 8), (1, 16)].into_iter().enumerate()
        {
            let mut case = case(threads);
            case.batch = Some(batch);
            cases.push((Sha256([number as u8; 32]), case));
        }
        let found = smaller(&cases, &["batch".into()]);
        assert_eq!(found, [vec![1], vec![], vec![], vec![0, 1]]);
        assert_eq!(size("1x3x20"), Some(60.0));
        assert_eq!(size("fast"), None);
    }
}
