//! Means, and the sample standard deviation.

use super::value::Value;

/// Arithmetic mean, Σx / n.
///
/// Latencies below 104 days sum without rounding up to 2^53 ns; beyond that the error is that of
/// plain summation, n·ε.
pub fn arithmetic<V: Value>(values: &[V]) -> Option<f64> {
    let sum: f64 = values.iter().map(|value| value.to_f64()).sum();
    (!values.is_empty()).then(|| sum / values.len() as f64)
}

/// Sample standard deviation, √(Σ(x − x̄)² / (n − 1)), in two passes (Chan, Golub, LeVeque 1983).
///
/// One value has no deviation: `None`, not 0.
pub fn deviation<V: Value>(values: &[V]) -> Option<f64> {
    let mean = arithmetic(values)?;
    let squares: f64 = values.iter().map(|v| (v.to_f64() - mean).powi(2)).sum();
    (values.len() > 1).then(|| (squares / (values.len() - 1) as f64).sqrt())
}

/// Geometric mean, exp(Σ ln x / n); `None` when empty or when a value is not above zero.
pub fn geometric(values: &[f64]) -> Option<f64> {
    let logs = logarithms(values)?;
    arithmetic(&logs).map(f64::exp)
}

/// The centre of a per-repeat statistic: its geometric mean over repeats (design 4.4).
///
/// Ratios of geometric means are geometric means of ratios (Fleming and Wallace 1986), so a
/// comparison and the two numbers it compares agree. Where the logarithm does not exist (a
/// deviation of 0, a clock too coarse for the work) the arithmetic mean stands in: dropping the
/// repeat would hide it, and 0 would claim a time nobody measured.
pub fn over_repeats(statistics: &[f64]) -> Option<f64> {
    match statistics {
        // Neither logarithm nor rounding between a lone repeat and its own figure.
        [only] => Some(*only),
        several => geometric(several).or_else(|| arithmetic(several)),
    }
}

/// Natural logarithms, if every value has one; `None` when empty.
pub fn logarithms(values: &[f64]) -> Option<Vec<f64>> {
    if values.is_empty() {
        return None;
    }
    values
        .iter()
        .map(|&x| (x > 0.0 && x.is_finite()).then(|| x.ln()))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn means_match_hand_worked_values() {
        assert_eq!(arithmetic(&[2_i64, 4, 9]), Some(5.0));
        assert_eq!(
            deviation(&[2_i64, 4, 4, 4, 5, 5, 7, 9]),
            Some((32.0_f64 / 7.0).sqrt())
        );
        let geo = geometric(&[1.0, 10.0, 100.0]).unwrap();
        assert!((geo - 10.0).abs() < 1e-12);
    }

    #[test]
    fn what_cannot_be_known_is_none() {
        assert_eq!(arithmetic::<i64>(&[]), None);
        assert_eq!(deviation(&[5_i64]), None);
        assert_eq!(geometric(&[1.0, 0.0]), None);
        assert_eq!(geometric(&[]), None);
        assert_eq!(over_repeats(&[]), None);
    }

    #[test]
    fn a_repeat_without_a_logarithm_falls_back_to_the_arithmetic_mean() {
        assert_eq!(over_repeats(&[0.0, 4.0]), Some(2.0));
        assert_eq!(over_repeats(&[-1.0, 4.0]), Some(1.5));
    }

    #[test]
    fn deviation_survives_a_large_offset() {
        let shifted: Vec<i64> = [4, 7, 13, 16]
            .iter()
            .map(|x| x + 1_000_000_000_000)
            .collect();
        assert!((deviation(&shifted).unwrap() - 30.0_f64.sqrt()).abs() < 1e-9);
    }
}
