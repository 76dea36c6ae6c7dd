//! What a planner that decides by figures knows of a case.

use crate::stats::interval::{self, Estimate};

/// Figures of the counting repeats of one case so far.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct CaseFigures {
    /// p50 of each repeat, in nanoseconds.
    pub p50_ns: Vec<f64>,
    /// Trials for each second, of each repeat.
    pub rate_hz: Vec<f64>,
    /// Percentiles in ascending order of their levels.
    pub quantiles: Vec<QuantileFigure>,
    /// Geometric mean over repeats of the mean, in nanoseconds.
    pub mean_ns: Option<f64>,
}

/// One percentile of a case, in nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct QuantileFigure {
    /// Such as 0.99.
    pub level: f64,
    pub value: f64,
    /// Upper bound at 99 %; none while there are too few trials for one.
    pub bound: Option<f64>,
    /// Lower bound at 99 %, which takes far fewer trials.
    pub floor: Option<f64>,
    /// Independent trials that the measured ones are worth at this level.
    pub n_eff: f64,
}

impl CaseFigures {
    /// Half the width of the 95 % interval of p50 over repeats, as a share of it; none with one repeat.
    pub fn p50_half_width(&self) -> Option<f64> {
        let Estimate {
            point, low, high, ..
        } = interval::over_repeats(&self.p50_ns, 0.95)?;
        Some((high / point - 1.0).max(1.0 - low / point))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_half_width_is_that_of_the_interval_over_repeats() {
        // Logs 1, 2, 3: half-width 2.484138 of the logarithm, so e^2.484138 - 1 above the point.
        let e = std::f64::consts::E;
        let figures = CaseFigures {
            p50_ns: vec![e, e.powi(2), e.powi(3)],
            ..CaseFigures::default()
        };
        let half = figures.p50_half_width().unwrap();
        assert!((half - (2.484_138_f64.exp() - 1.0)).abs() < 1e-4, "{half}");
        assert_eq!(CaseFigures::default().p50_half_width(), None);
    }
}
