//! Intervals around a point: over repeats where there are some, within the run where there is one.

use statrs::distribution::{ContinuousCDF, StudentsT};

use super::mean::{arithmetic, deviation, logarithms};

/// Blocks of a within-run interval; more than 30 add little and invite dependence between them
/// (Schmeiser 1982).
const BLOCKS: usize = 20;
/// Fewest blocks, and fewest trials in one, that make a within-run interval.
const FEWEST_BLOCKS: usize = 5;
const SHORTEST_BLOCK: usize = 5;

/// A number with its interval.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Estimate {
    pub point: f64,
    pub low: f64,
    pub high: f64,
    /// Confidence level, for instance 0.95.
    pub level: f64,
    pub kind: IntervalKind,
}

/// What an interval speaks of; printed beside it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IntervalKind {
    /// Other fresh processes on this board: from repeat to repeat.
    OverRepeats,
    /// Other stretches of this one process: says nothing about the next repeat.
    WithinRun,
}

/// Student t interval of a per-repeat statistic on the logarithmic scale:
/// exp(m ± t(1 − α/2, k − 1) s/√k) with mean m and deviation s of the k logarithms; the point is the
/// geometric mean.
///
/// Cox's naive interval for the log-normal median (Zhou and Gao 1997); ratios of latencies are
/// nearer to normal than their differences. `None` for fewer than two repeats, for a value not above
/// zero, or for a level outside 0..1.
pub fn over_repeats(statistics: &[f64], level: f64) -> Option<Estimate> {
    let logs = logarithms(statistics)?;
    let margin = half_width(&logs, level)?;
    let centre = arithmetic(&logs)?;
    Some(Estimate {
        point: centre.exp(),
        low: (centre - margin).exp(),
        high: (centre + margin).exp(),
        level,
        kind: IntervalKind::OverRepeats,
    })
}

/// Within-run interval by batch means: the statistic of each of up to 20 consecutive blocks, and
/// around the statistic of the whole run the factor exp(± t s/√b) from the b logarithms.
///
/// Conway 1963; Law and Kelton, *Simulation Modeling and Analysis*, 9.5.3. Holds when a block is
/// several autocorrelation times long; a high quantile of a short block is its maximum, so ask for
/// one only where a block has its minimum count. `None` for fewer than 25 trials, or where a block's
/// statistic is missing or not above zero.
pub fn within_run(
    trials: &[i64],
    statistic: impl Fn(&[i64]) -> Option<f64>,
    level: f64,
) -> Option<Estimate> {
    let blocks = BLOCKS.min(trials.len() / SHORTEST_BLOCK);
    if blocks < FEWEST_BLOCKS {
        return None;
    }
    let edge = |i: usize| i * trials.len() / blocks;
    let of_block = |i: usize| statistic(&trials[edge(i)..edge(i + 1)]);
    let statistics: Vec<f64> = (0..blocks).map(of_block).collect::<Option<_>>()?;
    let margin = half_width(&logarithms(&statistics)?, level)?;
    let point = statistic(trials)?;
    Some(Estimate {
        point,
        low: point * (-margin).exp(),
        high: point * margin.exp(),
        level,
        kind: IntervalKind::WithinRun,
    })
}

/// Half the width of the interval around a mean: t(1 − α/2, k − 1) s/√k; none for fewer than two values.
pub fn half_width(logs: &[f64], level: f64) -> Option<f64> {
    let spread = deviation(logs)?;
    let t = student_t((logs.len() - 1) as f64, level)?;
    Some(t * spread / (logs.len() as f64).sqrt())
}

/// Two-sided critical value of Student's t (Gosset 1908): 2.776 at 95 % with 4 degrees of freedom.
///
/// `None` for a level outside 0..1 or no degree of freedom. Degrees may be fractional, as Welch's
/// are.
pub fn student_t(degrees: f64, level: f64) -> Option<f64> {
    if !(level > 0.0 && level < 1.0) {
        return None;
    }
    let law = StudentsT::new(0.0, 1.0, degrees).ok()?;
    Some(law.inverse_cdf(0.5 + level / 2.0))
}

#[cfg(test)]
mod tests {
    use super::super::quantile;
    use super::super::random::Random;
    use super::super::simulate::latencies;
    use super::*;

    #[test]
    fn critical_values_match_the_tables() {
        let table = [
            (1.0, 0.95, 12.706_205),
            (2.0, 0.95, 4.302_653),
            (9.0, 0.95, 2.262_157),
        ];
        let more = [
            (4.0, 0.99, 4.604_095),
            (19.0, 0.95, 2.093_024),
            (1e3, 0.95, 1.962_339),
        ];
        for (degrees, level, expected) in table.into_iter().chain(more) {
            let t = student_t(degrees, level).unwrap();
            assert!((t - expected).abs() < 2e-6, "{degrees}: {t}");
        }
        assert_eq!(student_t(0.0, 0.95), None);
        assert_eq!(student_t(3.0, 1.0), None);
    }

    #[test]
    fn repeats_match_a_hand_worked_interval() {
        // Logs 1, 2, 3: mean 2, s = 1, t(0.975, 2) = 4.302653, half-width 2.484138.
        let e = std::f64::consts::E;
        let estimate = over_repeats(&[e, e.powi(2), e.powi(3)], 0.95).unwrap();
        assert!((estimate.point.ln() - 2.0).abs() < 1e-12);
        assert!((estimate.high.ln() - 4.484_138).abs() < 1e-5);
        assert!((estimate.low.ln() + 0.484_138).abs() < 1e-5);
        assert_eq!(estimate.kind, IntervalKind::OverRepeats);
    }

    #[test]
    fn what_has_no_interval_has_none() {
        assert_eq!(over_repeats(&[5.0], 0.95), None);
        assert_eq!(over_repeats(&[5.0, 0.0], 0.95), None);
        assert_eq!(over_repeats(&[5.0, 6.0], 1.5), None);
        assert_eq!(within_run(&[5; 24], arithmetic, 0.95), None);
    }

    #[test]
    fn equal_repeats_have_an_interval_without_width() {
        let estimate = over_repeats(&[5.0, 5.0, 5.0], 0.95).unwrap();
        assert!((estimate.high - estimate.low).abs() < 1e-12);
    }

    #[test]
    fn the_interval_over_repeats_covers_at_its_level() {
        let mut random = Random::seeded(5);
        let covered = (0..4_000).filter(|_| {
            let repeats: Vec<f64> = (0..5).map(|_| (0.02 * random.normal()).exp()).collect();
            let estimate = over_repeats(&repeats, 0.95).unwrap();
            estimate.low <= 1.0 && 1.0 <= estimate.high
        });
        // Three standard errors of 0.95 in 4 000 are 0.0103.
        let share = covered.count() as f64 / 4_000.0;
        assert!((share - 0.95).abs() < 0.0104, "{share}");
    }

    #[test]
    fn the_interval_within_a_run_covers_the_median() {
        let covered = (0..500_u64).filter(|&seed| {
            let trials = latencies(1_000, 1e6, 0.05, seed);
            let median = |block: &[i64]| quantile::of(block, 0.5);
            let estimate = within_run(&trials, median, 0.95).unwrap();
            assert_eq!(estimate.kind, IntervalKind::WithinRun);
            estimate.low <= 1e6 && 1e6 <= estimate.high
        });
        let covered = covered.count();
        assert!((460..=493).contains(&covered), "{covered} of 500");
    }
}
