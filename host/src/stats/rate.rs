//! Throughput: trials for each second of the window.

/// Nanoseconds in a second.
const SECOND: f64 = 1e9;

/// `trials / window`, in trials per second; `None` for no trial or a window that is not above zero.
pub fn per_second(trials: usize, window_ns: i64) -> Option<f64> {
    (trials > 0 && window_ns > 0).then(|| trials as f64 * SECOND / window_ns as f64)
}

/// Rate over the window of a repeat, from the earliest start to the latest end of its measured
/// trials (design 3), gaps included; lanes that overlap may be given together.
///
/// This is not 1 / mean latency: it falls with the time between trials and rises with concurrency
/// (Little 1961). `None` when the stamps do not pair up.
pub fn over_window(starts_ns: &[i64], ends_ns: &[i64]) -> Option<f64> {
    if starts_ns.len() != ends_ns.len() {
        return None;
    }
    let window = ends_ns
        .iter()
        .max()?
        .checked_sub(*starts_ns.iter().min()?)?;
    per_second(starts_ns.len(), window)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gaps_between_trials_lower_the_rate() {
        // Two trials of 10 ms with 80 ms between them: 2 in 100 ms.
        let rate = over_window(&[0, 90_000_000], &[10_000_000, 100_000_000]);
        assert_eq!(rate, Some(20.0));
    }

    #[test]
    fn overlapping_lanes_raise_it() {
        let rate = over_window(&[0, 0, 0, 0], &[1_000_000, 900_000, 800_000, 1_000_000]);
        assert_eq!(rate, Some(4_000.0));
    }

    #[test]
    fn no_window_has_no_rate() {
        assert_eq!(per_second(0, 5), None);
        assert_eq!(per_second(5, 0), None);
        assert_eq!(over_window(&[], &[]), None);
        assert_eq!(over_window(&[1], &[]), None);
        assert_eq!(over_window(&[i64::MIN], &[i64::MAX]), None);
    }
}
