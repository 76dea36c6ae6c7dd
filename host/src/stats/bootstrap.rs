//! The studentised bootstrap over repeats: an interval that does not take the logarithms for normal.
//!
//! Only on request and from [`FEWEST`] repeats. Repeats are drawn, never trials: a trial belongs to
//! its process. With fewer repeats the bootstrap has too few values to draw from and its intervals are
//! too narrow (Efron and Tibshirani, *An Introduction to the Bootstrap*, 1993, 12.5 and 22).

use super::mean::{arithmetic, deviation};
use super::random::Random;

/// Fewest repeats of an arm, or pairs.
pub const FEWEST: usize = 10;
/// Draws; odd, so that quantiles at usual levels are order statistics.
const DRAWS: usize = 9_999;
const SEED: u64 = 0x626f_6f74;

/// The law of |t*| = |m* − m| / se* over draws, ascending, and the estimate it is about.
#[derive(Debug, Clone, PartialEq)]
pub struct Bootstrap {
    pub point: f64,
    pub standard_error: f64,
    sizes: Vec<f64>,
}

impl Bootstrap {
    /// Of the mean of paired log differences.
    pub fn paired(differences: &[f64]) -> Option<Self> {
        Self::new(&[differences], |groups| {
            Some((arithmetic(groups[0])?, variance_of_mean(groups[0])?))
        })
    }

    /// Of the difference of two means of logarithms, each arm drawn from itself.
    pub fn separate(a: &[f64], b: &[f64]) -> Option<Self> {
        Self::new(&[a, b], |groups| {
            let point = arithmetic(groups[1])? - arithmetic(groups[0])?;
            Some((
                point,
                variance_of_mean(groups[0])? + variance_of_mean(groups[1])?,
            ))
        })
    }

    fn new(groups: &[&[f64]], estimate: impl Fn(&[&[f64]]) -> Option<(f64, f64)>) -> Option<Self> {
        if groups.iter().any(|group| group.len() < FEWEST) {
            return None;
        }
        let (point, variance) = estimate(groups)?;
        let mut random = Random::seeded(SEED);
        let mut drawn: Vec<Vec<f64>> = groups.iter().map(|group| group.to_vec()).collect();
        let mut sizes = Vec::with_capacity(DRAWS);
        for _ in 0..DRAWS {
            for (to, from) in drawn.iter_mut().zip(groups) {
                to.fill_with(|| from[random.below(from.len())]);
            }
            let views: Vec<&[f64]> = drawn.iter().map(Vec::as_slice).collect();
            let (mean, spread) = estimate(&views)?;
            // A draw of one value alone has no spread: infinitely far, or nowhere.
            let far = (mean - point).abs() / spread.sqrt();
            sizes.push(if far.is_nan() { 0.0 } else { far });
        }
        sizes.sort_unstable_by(f64::total_cmp);
        Some(Self {
            point,
            standard_error: variance.sqrt(),
            sizes,
        })
    }

    /// Half-width of the symmetric interval: the `level` quantile of |t*| times the standard error
    /// (Hall, *On Symmetric Bootstrap Confidence Intervals*, 1988).
    pub fn half_width(&self, level: f64) -> Option<f64> {
        if !(level > 0.0 && level < 1.0) {
            return None;
        }
        let rank = ((DRAWS + 1) as f64 * level).ceil() as usize;
        Some(self.sizes[rank.clamp(1, DRAWS) - 1] * self.standard_error)
    }

    /// Two-sided p-value against no difference: (1 + #{|t*| ≥ |t|}) / (draws + 1) (Davison and Hinkley,
    /// *Bootstrap Methods and their Application*, 1997, 4.4).
    pub fn p_value(&self) -> f64 {
        if self.standard_error == 0.0 {
            return f64::from(u8::from(self.point == 0.0));
        }
        let size = (self.point / self.standard_error).abs();
        let below = self.sizes.partition_point(|drawn| *drawn < size);
        (1 + DRAWS - below) as f64 / (DRAWS + 1) as f64
    }
}

fn variance_of_mean(logs: &[f64]) -> Option<f64> {
    Some(deviation(logs)?.powi(2) / logs.len() as f64)
}

#[cfg(test)]
mod tests {
    use super::super::interval::student_t;
    use super::super::simulate::white;
    use super::*;

    #[test]
    fn on_normal_repeats_it_comes_near_students_interval() {
        let ratio: Vec<f64> = (0..60)
            .map(|seed| {
                let logs = white(20, seed);
                let half = Bootstrap::paired(&logs).unwrap().half_width(0.95).unwrap();
                half / (student_t(19.0, 0.95).unwrap() * variance_of_mean(&logs).unwrap().sqrt())
            })
            .collect();
        let mean = arithmetic(&ratio).unwrap();
        assert!((mean - 1.0).abs() < 0.06, "{mean}");
    }

    #[test]
    fn a_skewed_law_is_covered() {
        // Logs that are exponential, minus their mean of 1.
        let experiments = 400_u64;
        let covered = (0..experiments).filter(|&seed| {
            let mut random = Random::seeded(seed);
            let logs: Vec<f64> = (0..12).map(|_| -random.uniform().ln() - 1.0).collect();
            let bootstrap = Bootstrap::paired(&logs).unwrap();
            bootstrap.point.abs() <= bootstrap.half_width(0.95).unwrap()
        });
        // Standard error 1.1 %; Student's t covers about 90 % here.
        let share = covered.count() as f64 / experiments as f64;
        assert!((0.91..=0.99).contains(&share), "{share}");
    }

    #[test]
    fn p_value_and_interval_agree() {
        let logs: Vec<f64> = white(15, 3).iter().map(|z| z + 0.5).collect();
        let bootstrap = Bootstrap::paired(&logs).unwrap();
        let p = bootstrap.p_value();
        assert!(bootstrap.half_width(1.0 - p - 1e-3).unwrap() <= bootstrap.point.abs());
        assert!(bootstrap.half_width(1.0 - p + 1e-3).unwrap() >= bootstrap.point.abs());
    }

    #[test]
    fn nine_repeats_are_too_few() {
        assert_eq!(Bootstrap::paired(&[0.0; 9]), None);
        assert_eq!(Bootstrap::separate(&[0.0; 12], &[0.0; 9]), None);
        let flat = Bootstrap::separate(&[1.0; 10], &[1.0; 10]).unwrap();
        assert_eq!((flat.p_value(), flat.half_width(0.95)), (1.0, Some(0.0)));
    }
}
