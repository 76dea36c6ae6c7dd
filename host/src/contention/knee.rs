//! The knee of a curve: two straight lines that meet, fitted by least squares over all places where they
//! could.
//!
//! A level stands where its repeats stand on the mean: how far a counter's figure of one of them lies from
//! that is noise of the counter, and says nothing of the model. What a whole round was slower than the others
//! is taken out first. What is left is noise of two kinds, that of repeats within a level and that of levels
//! about the lines; where the second is the larger (F ratio of lack of fit, Draper and Smith, *Applied
//! Regression Analysis*, 1998, 2.1), as it is of levels whose traffic is not known well, intervals go by it.
//!
//! The place is found on a grid of the distances between the levels that were measured; its interval are
//! all places whose squared error is not surely larger, by the F ratio for one parameter (Bates and
//! Watts, *Nonlinear Regression Analysis*, 1988, 6.1.2). A knee is claimed only when two lines are surely
//! better than one, by the F ratio for the two parameters more, and when the second is the steeper: traffic
//! that is short makes a model slower and slower, and a curve that bends down has the noise of its last level.

use serde::Serialize;
use statrs::distribution::{ContinuousCDF, FisherSnedecor};

use super::rounds::{Observed, Settled};
use crate::stats::interval::student_t;

/// Places tried between the first level and the last.
const GRID: usize = 400;

/// Certainty of intervals, and of there being a knee at all.
const LEVEL: f64 = 0.95;

/// From this certainty on levels are taken to scatter by more than their repeats do.
const LACK_OF_FIT: f64 = 0.75;

/// A slope with its 95 % interval.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Slope {
    pub value: f64,
    pub ci95: Option<(f64, f64)>,
}

/// Two lines that meet.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Knee {
    /// Where they meet.
    pub at: f64,
    /// An end is open when the levels measured do not bound it.
    pub ci95: (Option<f64>, Option<f64>),
    pub before: Slope,
    pub after: Slope,
    /// Height at `at`.
    pub height: f64,
}

/// What a set of points shows.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Fit {
    /// One line through all.
    pub slope: Slope,
    pub height_at_zero: f64,
    /// None where two lines are not surely better than one.
    pub knee: Option<Knee>,
    pub points: usize,
}

impl Fit {
    /// Fits repeats of at least three levels at different places; `None` with fewer, or fewer than six in all.
    pub fn of(observed: &[Observed]) -> Option<Self> {
        let settled = Settled::of(observed)?;
        let (points, places) = (&settled.points, settled.places());
        let (first, last) = (*places.first()?, *places.last()?);
        if points.len() < 6 || places.len() < 3 || last <= first {
            return None;
        }
        let line = Line::of(points)?;
        Some(Self {
            slope: line.slope(&Noise::of(&settled, line.error, 2)?),
            height_at_zero: line.height,
            knee: (places.len() >= 4)
                .then(|| knee(&settled, &places, line.error))
                .flatten(),
            points: points.len(),
        })
    }

    /// The fitted height at a place.
    pub fn at(&self, x: f64) -> f64 {
        match &self.knee {
            Some(knee) => {
                let slope = if x <= knee.at {
                    knee.before
                } else {
                    knee.after
                };
                knee.height + slope.value * (x - knee.at)
            }
            None => self.height_at_zero + self.slope.value * x,
        }
    }
}

/// What is left about a curve: variance of one point, and its degrees of freedom.
struct Noise {
    variance: f64,
    degrees: f64,
}

impl Noise {
    /// Of a curve with so many parameters and this squared error.
    fn of(settled: &Settled, error: f64, parameters: usize) -> Option<Self> {
        let within = settled.degrees;
        let between = settled.levels.saturating_sub(parameters);
        if within + between < 1 {
            return None;
        }
        let all = Self {
            variance: error / (within + between) as f64,
            degrees: (within + between) as f64,
        };
        if within < 1 || between < 1 {
            return Some(all);
        }
        let (within, between) = (within as f64, between as f64);
        let of_levels = Self {
            variance: (error - settled.error).max(0.0) / between,
            degrees: between,
        };
        let law = FisherSnedecor::new(between, within).ok()?;
        let limit = law.inverse_cdf(LACK_OF_FIT) * settled.error / within;
        Some(match of_levels.variance > limit {
            true => of_levels,
            false => all,
        })
    }

    /// The F ratio that so many parameters are surely worth more than.
    fn limit(&self, parameters: f64) -> Option<f64> {
        let law = FisherSnedecor::new(parameters, self.degrees).ok()?;
        Some(law.inverse_cdf(LEVEL) * self.variance)
    }
}

/// Two lines, each with a level or more on either side of the knee.
fn knee(settled: &Settled, places: &[f64], error_of_one: f64) -> Option<Knee> {
    let (from, to) = (places[1], places[places.len() - 2]);
    let place = |step: usize| from + (to - from) * step as f64 / GRID as f64;
    let bends: Vec<Bend> = (0..=GRID)
        .filter_map(|step| Bend::of(&settled.points, place(step)))
        .collect();
    let best = bends.iter().min_by(|a, b| a.error.total_cmp(&b.error))?;
    let noise = Noise::of(settled, best.error, 4)?;
    let [_, before, after] = best.coefficients;
    if after <= before || (error_of_one - best.error) / 2.0 <= noise.limit(2.0)? {
        return None;
    }
    let limit = best.error + noise.limit(1.0)?;
    let inside = || {
        bends
            .iter()
            .filter(|bend| bend.error <= limit)
            .map(|bend| bend.at)
    };
    let (low, high) = (inside().reduce(f64::min)?, inside().reduce(f64::max)?);
    // A place at the end of what was tried bounds nothing.
    let step = (to - from) / GRID as f64;
    Some(Knee {
        at: best.at,
        ci95: (
            (low > from + step / 2.0).then_some(low),
            (high < to - step / 2.0).then_some(high),
        ),
        before: best.slope(1, &noise),
        after: best.slope(2, &noise),
        height: best.coefficients[0],
    })
}

/// One line by least squares.
struct Line {
    height: f64,
    slope: f64,
    error: f64,
    /// Sum of squared distances from the mean place.
    spread: f64,
}

impl Line {
    fn of(points: &[(f64, f64)]) -> Option<Self> {
        let n = points.len() as f64;
        let mean_x = points.iter().map(|p| p.0).sum::<f64>() / n;
        let mean_y = points.iter().map(|p| p.1).sum::<f64>() / n;
        let spread: f64 = points.iter().map(|p| (p.0 - mean_x).powi(2)).sum();
        let shared: f64 = points.iter().map(|p| (p.0 - mean_x) * (p.1 - mean_y)).sum();
        if spread <= 0.0 {
            return None;
        }
        let slope = shared / spread;
        let height = mean_y - slope * mean_x;
        let error = points
            .iter()
            .map(|p| (p.1 - height - slope * p.0).powi(2))
            .sum();
        Some(Self {
            height,
            slope,
            error,
            spread,
        })
    }

    fn slope(&self, noise: &Noise) -> Slope {
        let deviation = (noise.variance / self.spread).sqrt();
        let half = student_t(noise.degrees, LEVEL).map(|t| t * deviation);
        Slope {
            value: self.slope,
            ci95: half.map(|half| (self.slope - half, self.slope + half)),
        }
    }
}

/// Two lines that meet at a place: y = c0 + c1 min(x − at, 0) + c2 max(x − at, 0).
struct Bend {
    at: f64,
    coefficients: [f64; 3],
    error: f64,
    /// Inverse of the normal equations' matrix.
    inverse: [[f64; 3]; 3],
}

impl Bend {
    fn of(points: &[(f64, f64)], at: f64) -> Option<Self> {
        let row = |x: f64| [1.0, (x - at).min(0.0), (x - at).max(0.0)];
        let mut normal = [[0.0; 3]; 3];
        let mut right = [0.0; 3];
        for (x, y) in points {
            let row = row(*x);
            for i in 0..3 {
                right[i] += row[i] * y;
                for j in 0..3 {
                    normal[i][j] += row[i] * row[j];
                }
            }
        }
        let inverse = inverse(normal)?;
        let coefficients = inverse.map(|line| (0..3).map(|j| line[j] * right[j]).sum());
        let height = |x: f64| -> f64 { (0..3).map(|i| row(x)[i] * coefficients[i]).sum() };
        let error = points.iter().map(|(x, y)| (y - height(*x)).powi(2)).sum();
        Some(Self {
            at,
            coefficients,
            error,
            inverse,
        })
    }

    /// The slope before (1) or after (2), its interval for a knee at this very place.
    fn slope(&self, which: usize, noise: &Noise) -> Slope {
        let value = self.coefficients[which];
        let deviation = (noise.variance * self.inverse[which][which]).sqrt();
        let half = student_t(noise.degrees, LEVEL).map(|t| t * deviation);
        Slope {
            value,
            ci95: half.map(|half| (value - half, value + half)),
        }
    }
}

/// Of a symmetric matrix, by cofactors; none where it has none.
fn inverse(m: [[f64; 3]; 3]) -> Option<[[f64; 3]; 3]> {
    let minor = |i: usize, j: usize| {
        let rows: Vec<usize> = (0..3).filter(|r| *r != i).collect();
        let columns: Vec<usize> = (0..3).filter(|c| *c != j).collect();
        let at = |r: usize, c: usize| m[rows[r]][columns[c]];
        let sign = if (i + j).is_multiple_of(2) { 1.0 } else { -1.0 };
        sign * (at(0, 0) * at(1, 1) - at(0, 1) * at(1, 0))
    };
    let determinant: f64 = (0..3).map(|j| m[0][j] * minor(0, j)).sum();
    let scale = m
        .iter()
        .flatten()
        .fold(0.0_f64, |most, x| most.max(x.abs()));
    if determinant.abs() <= 1e-12 * scale.powi(3) {
        return None;
    }
    let mut out = [[0.0; 3]; 3];
    for (i, line) in out.iter_mut().enumerate() {
        for (j, cell) in line.iter_mut().enumerate() {
            *cell = minor(j, i) / determinant;
        }
    }
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stats::random::Random;

    const LEVELS: [f64; 8] = [0.0, 2.0, 4.0, 6.0, 8.0, 10.0, 12.0, 14.0];

    /// How figures scatter: latencies, the counter of the traffic, and whole rounds.
    #[derive(Clone, Copy, Default)]
    struct Scatter {
        y: f64,
        x: f64,
        round: f64,
    }

    /// Five rounds of every level of a curve.
    fn scattered(curve: impl Fn(f64) -> f64, by: Scatter, seed: u64) -> Vec<Observed> {
        let mut random = Random::seeded(seed);
        let rounds: Vec<f64> = (0..5).map(|_| (by.round * random.normal()).exp()).collect();
        let mut points = Vec::new();
        for (level, place) in LEVELS.iter().enumerate() {
            for (round, slower) in (0..).zip(&rounds) {
                points.push(Observed {
                    level,
                    round,
                    x: place * (1.0 + by.x * random.normal()),
                    y: curve(*place) * slower + by.y * random.normal(),
                });
            }
        }
        points
    }

    fn simulated(curve: impl Fn(f64) -> f64, noise: f64, seed: u64) -> Vec<Observed> {
        let by = Scatter {
            y: noise,
            x: 0.005,
            round: 0.0,
        };
        scattered(curve, by, seed)
    }

    /// In how many of 200 experiments the interval of the one slope holds the true one.
    fn covered(curve: impl Fn(f64) -> f64 + Copy, slope: f64, by: Scatter) -> usize {
        let holds = |seed: &u64| {
            let fit = Fit::of(&scattered(curve, by, *seed)).unwrap();
            let (low, high) = fit.slope.ci95.unwrap();
            low <= slope && slope <= high
        };
        (0..200).filter(holds).count()
    }

    #[test]
    fn a_counter_that_scatters_makes_levels_of_its_conditions_and_no_more() {
        let steep = |x: f64| 1.0 + 0.05 * x;
        for x in [0.05, 0.1] {
            let by = Scatter {
                y: 0.01,
                x,
                round: 0.0,
            };
            let fits: Vec<Fit> = (0..200)
                .map(|seed| Fit::of(&scattered(steep, by, seed)).unwrap())
                .collect();
            let claims = fits.iter().filter(|fit| fit.knee.is_some()).count();
            assert!(claims <= 30, "{claims} knees of a straight line");
            let covers = covered(steep, 0.05, by);
            assert!((172..=200).contains(&covers), "{covers} of 200 at {x}");
        }
    }

    #[test]
    fn rounds_that_are_slow_as_a_whole_are_no_noise_of_the_slope() {
        // The idle board is among the levels, with all its noise: nothing is pinned.
        let line = |x: f64| 1.0 + 0.01 * x;
        let by = Scatter {
            y: 0.01,
            x: 0.005,
            round: 0.05,
        };
        let covers = covered(line, 0.01, by);
        assert!((172..=200).contains(&covers), "{covers} of 200");
        let width = |by: Scatter| {
            let fit = Fit::of(&scattered(line, by, 3)).unwrap();
            let (low, high) = fit.slope.ci95.unwrap();
            high - low
        };
        let calm = width(Scatter { round: 0.0, ..by });
        assert!(width(by) < 1.5 * calm, "{} {calm}", width(by));
    }

    fn bent(x: f64) -> f64 {
        1.0 + 0.05 * (x - 7.0).max(0.0)
    }

    #[test]
    fn a_knee_without_noise_is_found_where_it_is() {
        let fit = Fit::of(&simulated(bent, 1e-9, 1)).unwrap();
        let knee = fit.knee.unwrap();
        assert!((knee.at - 7.0).abs() < 0.2, "{knee:?}");
        assert!((knee.after.value - 0.05).abs() < 1e-3, "{knee:?}");
        assert!(knee.before.value.abs() < 1e-3, "{knee:?}");
        assert!((fit.at(14.0) - 1.35).abs() < 0.01 && (fit.at(3.0) - 1.0).abs() < 0.01);
    }

    #[test]
    fn the_interval_holds_the_true_knee_about_as_often_as_it_says() {
        let (mut found, mut held, mut slopes) = (0, 0, 0);
        for seed in 0..200 {
            let fit = Fit::of(&simulated(bent, 0.02, seed)).unwrap();
            let Some(knee) = fit.knee else { continue };
            found += 1;
            let (low, high) = knee.ci95;
            held += i32::from(low.is_none_or(|l| l <= 7.0) && high.is_none_or(|h| h >= 7.0));
            let (low, high) = knee.after.ci95.unwrap();
            slopes += i32::from(low <= 0.05 && 0.05 <= high);
        }
        assert!(found >= 195, "{found} of 200");
        let (held, slopes) = (
            f64::from(held) / f64::from(found),
            f64::from(slopes) / f64::from(found),
        );
        assert!(held >= 0.90, "{held}");
        // For a knee that is known; one that is estimated too makes it cover a little less.
        assert!(slopes >= 0.80, "{slopes}");
    }

    #[test]
    fn a_straight_line_has_a_knee_as_seldom_as_it_says() {
        let line = |x: f64| 1.0 + 0.01 * x;
        let claims = (0..200).filter(|seed| {
            let fit = Fit::of(&simulated(line, 0.02, 1000 + seed)).unwrap();
            fit.knee.is_some()
        });
        // The place is searched for, which the F ratio does not know of: some more than 5 in 100.
        assert!(claims.count() <= 30);
        let covers = (0..200).filter(|seed| {
            let fit = Fit::of(&simulated(line, 0.02, 5000 + seed)).unwrap();
            let (low, high) = fit.slope.ci95.unwrap();
            low <= 0.01 && 0.01 <= high
        });
        let covers = covers.count();
        assert!((180..=200).contains(&covers), "{covers} of 200");
    }

    #[test]
    fn a_curve_that_bends_down_has_no_knee() {
        let flat = |x: f64| 1.0 + 0.05 * x.min(7.0);
        for seed in 0..20 {
            let fit = Fit::of(&simulated(flat, 0.005, seed)).unwrap();
            assert!(fit.knee.is_none(), "{fit:?}");
            assert!(fit.slope.value > 0.0);
        }
    }

    #[test]
    fn too_little_is_no_fit() {
        assert!(Fit::of(&[]).is_none());
        let levels = |levels: u32, height: fn(f64) -> f64| -> Vec<Observed> {
            let one = |i: u32| {
                let x = f64::from(i % levels);
                Observed {
                    level: (i % levels) as usize,
                    round: i / levels,
                    x,
                    y: height(x),
                }
            };
            (0..levels * 3).map(one).collect()
        };
        assert!(Fit::of(&levels(2, |_| 1.0)).is_none());
        let fit = Fit::of(&levels(3, |x| 1.0 + x)).unwrap();
        assert!((fit.slope.value - 1.0).abs() < 1e-12 && fit.knee.is_none());
    }
}
