//! What the tool itself costs on a board, and how small a difference can be seen there: pure functions
//! over trials of backend `null`, which does nothing, and over repeats of one case against itself.

use crate::compare::report::Comparison;
use crate::compare::rule::Pairing;
use crate::stats::power;
use crate::stats::quantile;

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

#[cfg(test)]
mod tests {
    use super::*;

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
