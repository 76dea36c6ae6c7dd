//! What the tool itself costs on a board, and how small a difference can be seen there: pure functions
//! over trials of backend `null`, which does nothing, and over repeats of one case against itself.

use crate::compare::report::Comparison;
use crate::compare::rule::Pairing;
use crate::stats::interval::{self, Estimate};
use crate::stats::power;
use crate::stats::quantile;
use crate::stats::random::Random;

/// A period longer than the median by this is a detour: the CPU did something else.
pub const DETOUR_NS: i64 = 1_000;

/// Starts and ends of the trials of one repeat, in nanoseconds.
pub type Stamps = (Vec<i64>, Vec<i64>);

/// Bounds of the histogram of detours, in nanoseconds.
const BUCKETS: [i64; 5] = [1_000, 10_000, 100_000, 1_000_000, i64::MAX];

/// Repeats for which the smallest visible difference is told.
pub const PLANS: [usize; 3] = [3, 5, 10];

/// The clock and the loop as trials of `null` show them, in nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Timer {
    /// Every stamp is a whole number of these after the first: the grain of the clock.
    pub resolution_ns: i64,
    /// From one stamp of a trial to the other: one clock read and an empty call. Median.
    pub empty_trial_ns: f64,
    /// From the start of one trial to the start of the next. Median.
    pub period_ns: f64,
    pub trials: usize,
}

impl Timer {
    /// From the stamps of one repeat after the other; `None` without two trials.
    pub fn of(repeats: &[Stamps]) -> Option<Self> {
        let mut empty: Vec<i64> = Vec::new();
        let mut periods: Vec<i64> = Vec::new();
        for (starts, ends) in repeats {
            empty.extend(starts.iter().zip(ends).map(|(start, end)| end - start));
            periods.extend(steps(starts));
        }
        let all = empty.iter().chain(&periods);
        let grain = all.fold(0, |grain, step| gcd(grain, *step));
        Some(Self {
            resolution_ns: Some(grain).filter(|grain| *grain > 0)?,
            empty_trial_ns: quantile::of(&empty, 0.5)?,
            period_ns: quantile::of(&periods, 0.5)?,
            trials: empty.len(),
        })
    }
}

/// Time that a CPU spent elsewhere while it had nothing to do but the loop.
#[derive(Debug, Clone, PartialEq)]
pub struct Detours {
    /// How long was looked.
    pub observed_ns: i64,
    /// Detours by their length: from, count, time of all of them.
    pub buckets: Vec<(i64, u64, i64)>,
}

impl Detours {
    /// The idle detour histogram: periods of a loop of fixed work that are longer than the usual one by a
    /// microsecond or more, by the time above it (Beckman and others, *Benchmarking the Effects of
    /// Operating System Interference*, 2008; Hoefler and others, *Characterizing the Influence of System
    /// Noise*, 2010).
    pub fn of(repeats: &[Stamps]) -> Option<Self> {
        let mut found = Self {
            observed_ns: 0,
            buckets: BUCKETS[..4].iter().map(|from| (*from, 0, 0)).collect(),
        };
        for (starts, _) in repeats {
            let periods: Vec<i64> = steps(starts).collect();
            let usual = quantile::of(&periods, 0.5)? as i64;
            for period in periods {
                found.observed_ns += period;
                let detour = period - usual;
                if let Some(bucket) = found.buckets.iter_mut().rfind(|b| b.0 <= detour) {
                    bucket.1 += 1;
                    bucket.2 += detour;
                }
            }
        }
        (found.observed_ns > 0).then_some(found)
    }

    /// Time elsewhere, as a share of all.
    pub fn lost_share(&self) -> f64 {
        let lost: i64 = self.buckets.iter().map(|(_, _, time)| time).sum();
        lost as f64 / self.observed_ns as f64
    }
}

/// Greatest common divisor (Euclid); of 0 and a number, that number.
fn gcd(mut a: i64, mut b: i64) -> i64 {
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a.abs()
}

fn steps(starts: &[i64]) -> impl Iterator<Item = i64> + '_ {
    starts.windows(2).map(|pair| pair[1] - pair[0])
}

/// How small a difference can be seen on this board, from one case against itself.
#[derive(Debug, Clone, PartialEq)]
pub struct Sight {
    /// Deviation of the log ratio of one pair.
    pub spread: f64,
    /// For a number of pairs, the share that is found nine times in ten.
    pub visible: Vec<(usize, f64)>,
    /// Pairs it was worked out from.
    pub pairs: usize,
}

impl Sight {
    pub fn of(comparison: &Comparison) -> Option<Self> {
        let cell = comparison.cells.first()?;
        debug_assert!(
            comparison
                .pairs
                .iter()
                .all(|p| p.pairing == Pairing::Interleaved)
        );
        let spread = cell.measured.as_ref()?.spread;
        let pairs = cell.a.repeats.min(cell.b.repeats);
        let mut plans = PLANS.to_vec();
        if !plans.contains(&pairs) {
            plans.push(pairs);
            plans.sort_unstable();
        }
        let visible = plans.into_iter().filter_map(|pairs| {
            let least = power::detectable(spread, pairs, 0.95)?;
            Some((pairs, least.exp_m1()))
        });
        Some(Self {
            spread,
            visible: visible.collect(),
            pairs,
        })
    }

    /// What is visible with as many pairs as were measured.
    pub fn here(&self) -> Option<f64> {
        let found = self.visible.iter().find(|(pairs, _)| *pairs == self.pairs);
        found.map(|(_, share)| *share)
    }
}

/// What a repeat of the network is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Turn {
    /// The board is watched; two of them are held against each other.
    First,
    Second,
    /// The board is not watched.
    Unwatched,
}

/// Repeats of one round, each with another turn.
pub const ROUND: u32 = 3;

/// The turn of every repeat: each round has all three, in an order that the seed draws, so that a drift of
/// the board meets all alike.
pub fn turns(rounds: u32, seed: u64) -> Vec<Turn> {
    use Turn::{First, Second, Unwatched};
    const ORDERS: [[Turn; ROUND as usize]; 6] = [
        [First, Second, Unwatched],
        [First, Unwatched, Second],
        [Second, First, Unwatched],
        [Second, Unwatched, First],
        [Unwatched, First, Second],
        [Unwatched, Second, First],
    ];
    let mut random = Random::seeded(seed);
    (0..rounds)
        .flat_map(|_| ORDERS[random.below(ORDERS.len())])
        .collect()
}

/// p50 of one round, in nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Round {
    pub watched: [f64; 2],
    pub unwatched: f64,
}

/// p50 may be changed by less than this where the board is watched.
pub const MOST_PERTURBATION: f64 = 0.005;

/// Level of both intervals.
const LEVEL: f64 = 0.95;

/// What watching the board does to what is measured on it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Perturbation {
    /// p50 watched, the geometric mean of two repeats, over p50 not watched.
    pub ratio: Estimate,
    /// The two watched repeats against each other: what no difference looks like here.
    pub control: Estimate,
    pub rounds: usize,
}

/// Whether a promise about a ratio was kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Promise {
    /// The interval lies inside the limits.
    Kept,
    /// It holds 1 and the limits lie in the noise: equals differ by as much.
    NotShown,
    Broken,
}

impl Perturbation {
    /// Ratios round by round with Student's interval of their logarithms; `None` below two rounds.
    pub fn of(rounds: &[Round]) -> Option<Self> {
        let ratios = |of: fn(&Round) -> f64| -> Vec<f64> { rounds.iter().map(of).collect() };
        let over_unwatched =
            ratios(|round| (round.watched[0] * round.watched[1]).sqrt() / round.unwatched);
        let over_itself = ratios(|round| round.watched[0] / round.watched[1]);
        Some(Self {
            ratio: interval::over_repeats(&over_unwatched, LEVEL)?,
            control: interval::over_repeats(&over_itself, LEVEL)?,
            rounds: rounds.len(),
        })
    }

    /// Kept when the interval lies inside ± [`MOST_PERTURBATION`]; not shown when it holds 1 and the control
    /// is at least as wide; else broken.
    pub fn promise(&self) -> Promise {
        let width = |estimate: &Estimate| (estimate.high / estimate.low).ln();
        let Estimate { low, high, .. } = self.ratio;
        if low >= 1.0 - MOST_PERTURBATION && high <= 1.0 + MOST_PERTURBATION {
            Promise::Kept
        } else if low <= 1.0 && 1.0 <= high && width(&self.control) >= width(&self.ratio) {
            Promise::NotShown
        } else {
            Promise::Broken
        }
    }
}

impl Promise {
    pub const fn name(self) -> &'static str {
        match self {
            Self::Kept => "met",
            Self::NotShown => "not_shown",
            Self::Broken => "not_met",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_round_has_each_turn_once_and_orders_take_turns() {
        let turns = turns(40, 3);
        let rounds: Vec<&[Turn]> = turns.chunks(3).collect();
        assert_eq!(rounds.len(), 40);
        for round in &rounds {
            for turn in [Turn::First, Turn::Second, Turn::Unwatched] {
                assert_eq!(round.iter().filter(|r| **r == turn).count(), 1);
            }
        }
        for place in 0..3 {
            let off = rounds.iter().filter(|r| r[place] == Turn::Unwatched);
            assert!(off.count() > 4, "one turn always stands in the same place");
        }
    }

    fn rounds(watched: &[[f64; 2]]) -> Option<Perturbation> {
        let round = |watched: &[f64; 2]| Round {
            watched: *watched,
            unwatched: 100.0,
        };
        Perturbation::of(&watched.iter().map(round).collect::<Vec<_>>())
    }

    #[test]
    fn a_perturbation_matches_hand_worked_values() {
        // sqrt(101 · 101) / 100 and sqrt(102.01 · 100) / 100 are both 1.01; 1.01² apart in the second.
        let found = rounds(&[[101.0, 101.0], [102.01, 100.0]]).unwrap();
        assert!((found.ratio.point - 1.01).abs() < 1e-9);
        assert!((found.ratio.high - found.ratio.low).abs() < 1e-9);
        // Logs 0 and 0.019901: mean 0.00995, s = 0.014072, t(0.975, 1) = 12.7062, s/√2 · t = 0.126432.
        assert!((found.control.point.ln() - 0.009_950_3).abs() < 1e-6);
        assert!((found.control.high.ln() - 0.136_385).abs() < 1e-4);
        assert_eq!(found.rounds, 2);
        assert_eq!(rounds(&[[100.0, 100.0]]), None);
    }

    #[test]
    fn a_promise_is_kept_inside_the_limit_and_not_shown_in_the_noise() {
        let promise = |watched: &[[f64; 2]]| rounds(watched).unwrap().promise();
        assert_eq!(
            promise(&[[100.1, 100.1], [100.2, 100.0], [99.9, 100.1]]),
            Promise::Kept
        );
        // Surely 1 % slower.
        assert_eq!(
            promise(&[[101.0, 101.0], [101.1, 101.0], [101.0, 101.1]]),
            Promise::Broken
        );
        // ± 3 % in the ratio, and equals differ by more.
        assert_eq!(
            promise(&[[105.0, 97.0], [93.0, 103.0], [104.0, 94.0]]),
            Promise::NotShown
        );
        // The same width, while equals agree: then it is the watching.
        assert_eq!(
            promise(&[[101.0, 101.0], [98.0, 98.0], [101.5, 101.5]]),
            Promise::Broken
        );
    }

    /// Trials of 20 ns every 70 ns, but for one that comes 5 µs late and one that comes 2 ms late.
    fn stamps() -> (Vec<i64>, Vec<i64>) {
        let mut starts: Vec<i64> = (0..1_000).map(|i| i * 70).collect();
        starts[500..].iter_mut().for_each(|at| *at += 5_000);
        starts[900..].iter_mut().for_each(|at| *at += 2_000_000);
        let ends = starts.iter().map(|at| at + 20).collect();
        (starts, ends)
    }

    #[test]
    fn the_loop_is_read_from_its_stamps() {
        let timer = Timer::of(&[stamps()]).unwrap();
        // 20, 70, 5 070 and 2 000 070 have 10 in common.
        assert_eq!((timer.resolution_ns, timer.trials), (10, 1_000));
        assert_eq!((timer.empty_trial_ns, timer.period_ns), (20.0, 70.0));
        assert_eq!(Timer::of(&[]), None);
    }

    #[test]
    fn detours_are_counted_by_length() {
        let detours = Detours::of(&[stamps()]).unwrap();
        let counts: Vec<u64> = detours.buckets.iter().map(|b| b.1).collect();
        assert_eq!(counts, [1, 0, 0, 1]);
        assert_eq!(detours.observed_ns, 999 * 70 + 2_005_000);
        assert!((detours.lost_share() - 2_005_000.0 / 2_074_930.0).abs() < 1e-12);
    }
}
