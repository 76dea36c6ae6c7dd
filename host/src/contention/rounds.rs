//! Repeats of several levels, taken round by round: what a whole round was slower than the others is no work
//! of any level.

use std::collections::BTreeMap;

/// One repeat of a level.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Observed {
    /// Which condition: all of its repeats stand at one place.
    pub level: usize,
    pub round: u32,
    pub x: f64,
    /// Above zero.
    pub y: f64,
}

/// Repeats at the places of their levels, without what their rounds had in common.
pub(super) struct Settled {
    pub(super) points: Vec<(f64, f64)>,
    /// How many levels there are.
    pub(super) levels: usize,
    /// Squared distance of the points from the means of their levels, and its degrees of freedom.
    pub(super) error: f64,
    pub(super) degrees: usize,
}

/// Rounds that hold every level settle at once; where some are missing, levels and rounds are taken in turns.
const TURNS: usize = 50;

impl Settled {
    pub(super) fn of(observed: &[Observed]) -> Option<Self> {
        let mut observed = observed.to_vec();
        observed.retain(|one| one.y > 0.0 && one.y.is_finite() && one.x.is_finite());
        let rounds = drop_lonely(&mut observed);
        let levels = means(&observed, |one| one.level as u64, |one| one.x).len();
        let slower = slower(&observed, rounds > 0);
        let place = means(&observed, |one| one.level as u64, |one| one.x);
        let settled = |one: &Observed| one.y * (-slower.get(&one.round).unwrap_or(&0.0)).exp();
        let height = means(&observed, |one| one.level as u64, settled);
        let point = |one: &Observed| Some((*place.get(&(one.level as u64))?, settled(one)));
        let off = |one: &Observed| Some(settled(one) - height.get(&(one.level as u64))?);
        let error = observed.iter().filter_map(off).map(|off| off * off).sum();
        let parameters = levels + rounds.saturating_sub(1);
        Some(Self {
            points: observed.iter().map(point).collect::<Option<_>>()?,
            levels,
            error,
            degrees: observed.len().saturating_sub(parameters),
        })
    }

    /// Places of levels, those that are one as good as another once.
    pub(super) fn places(&self) -> Vec<f64> {
        let mut all: Vec<f64> = self.points.iter().map(|point| point.0).collect();
        all.sort_by(f64::total_cmp);
        let span = all.last().zip(all.first());
        let apart = span.map_or(0.0, |(last, first)| (last - first) / 50.0);
        let mut places: Vec<f64> = Vec::new();
        for place in all {
            if places.last().is_none_or(|before| place - before > apart) {
                places.push(place);
            }
        }
        places
    }
}

/// Leaves out rounds that hold one level only, which say nothing of others; returns how many are left.
/// Where no round holds two, nothing is left out and there are no rounds to speak of.
fn drop_lonely(observed: &mut Vec<Observed>) -> usize {
    let mut counts: BTreeMap<u32, usize> = BTreeMap::new();
    for one in observed.iter() {
        *counts.entry(one.round).or_default() += 1;
    }
    counts.retain(|_, count| *count > 1);
    if !counts.is_empty() {
        observed.retain(|one| counts.contains_key(&one.round));
    }
    counts.len()
}

/// How much slower each round was, as a logarithm, about a mean of zero.
fn slower(observed: &[Observed], has_rounds: bool) -> BTreeMap<u32, f64> {
    let mut rounds: BTreeMap<u32, f64> = BTreeMap::new();
    if !has_rounds {
        return rounds;
    }
    for _ in 0..TURNS {
        let of_round = |one: &Observed| rounds.get(&one.round).copied().unwrap_or(0.0);
        let levels = means(
            observed,
            |one| one.level as u64,
            |one| one.y.ln() - of_round(one),
        );
        let of_level = |one: &Observed| levels.get(&(one.level as u64)).copied().unwrap_or(0.0);
        let next = means(
            observed,
            |one| u64::from(one.round),
            |one| one.y.ln() - of_level(one),
        );
        rounds = next
            .into_iter()
            .map(|(round, by)| (round as u32, by))
            .collect();
    }
    let of_round = |one: &Observed| rounds.get(&one.round).copied().unwrap_or(0.0);
    let sum: f64 = observed.iter().map(of_round).sum();
    let centre = sum / observed.len().max(1) as f64;
    rounds.into_iter().map(|(r, by)| (r, by - centre)).collect()
}

/// Means by a key.
fn means(
    observed: &[Observed],
    key: impl Fn(&Observed) -> u64,
    value: impl Fn(&Observed) -> f64,
) -> BTreeMap<u64, f64> {
    let mut sums: BTreeMap<u64, (f64, f64)> = BTreeMap::new();
    for one in observed {
        let (sum, count) = sums.entry(key(one)).or_default();
        (*sum, *count) = (*sum + value(one), *count + 1.0);
    }
    let means = sums.into_iter();
    means.map(|(key, (sum, n))| (key, sum / n)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn observed(level: usize, round: u32, x: f64, y: f64) -> Observed {
        Observed { level, round, x, y }
    }

    #[test]
    fn a_slow_round_is_taken_out_even_where_a_repeat_is_missing() {
        // Level 0 has height 1, level 1 height 2; round 1 is 1.21 times slower than round 0.
        let mut all = vec![
            observed(0, 0, 0.0, 1.0),
            observed(0, 1, 0.0, 1.21),
            observed(1, 0, 4.0, 2.0),
            observed(1, 1, 6.0, 2.42),
        ];
        let of = |all: &[Observed]| Settled::of(all).unwrap();
        let settled = of(&all);
        // About the mean of the two rounds, whose root is 1.1.
        let expected = [(0.0, 1.1), (0.0, 1.1), (5.0, 2.2), (5.0, 2.2)];
        for ((x, y), (there, high)) in settled.points.iter().zip(expected) {
            assert!((x - there).abs() < 1e-12 && (y - high).abs() < 1e-12);
        }
        assert!(settled.error < 1e-20);
        // Four figures, two levels, one round more than the first.
        assert_eq!((settled.levels, settled.degrees), (2, 1));
        all.push(observed(2, 1, 9.0, 3.63));
        assert!((of(&all).points[4].1 / of(&all).points[0].1 - 3.0).abs() < 1e-9);
    }

    #[test]
    fn a_round_of_one_level_says_nothing_and_rounds_of_one_each_are_none() {
        let all = [
            observed(0, 0, 0.0, 1.0),
            observed(1, 0, 1.0, 2.0),
            observed(0, 7, 0.0, 9.0),
        ];
        assert_eq!(Settled::of(&all).unwrap().points.len(), 2);
        let apart = [observed(0, 0, 0.0, 1.0), observed(1, 1, 1.0, 2.0)];
        let apart = Settled::of(&apart).unwrap();
        assert_eq!(apart.points, [(0.0, 1.0), (1.0, 2.0)]);
    }

    #[test]
    fn places_that_are_nearly_one_are_one() {
        let all = [
            observed(0, 0, 0.0, 1.0),
            observed(1, 0, 10.0, 2.0),
            observed(2, 0, 10.1, 2.0),
        ];
        assert_eq!(Settled::of(&all).unwrap().places(), [0.0, 10.0]);
    }
}
