//! When warm-up is over: the latest trials are no faster or slower than those before them.

use std::collections::VecDeque;

use edgedyno_shared::units::Nanos;

/// Medians of two neighbouring blocks within this ratio count as steady.
const TOLERANCE: f64 = 0.02;

/// Trials of one block.
const BLOCK_MIN: usize = 3;
const BLOCK_MAX: usize = 1000;

/// Watches durations during warm-up. Its memory is fixed, and small beside any model's.
#[derive(Debug)]
pub struct SteadyWatch {
    latest: VecDeque<i64>,
    seen: usize,
    next_check: usize,
}

impl Default for SteadyWatch {
    fn default() -> Self {
        Self {
            latest: VecDeque::with_capacity(2 * BLOCK_MAX),
            seen: 0,
            next_check: 0,
        }
    }
}

impl SteadyWatch {
    /// Takes one more duration in; true when the series looks steady now.
    ///
    /// The last third of the trials is compared with the third before it, each `BLOCK_MIN` to
    /// `BLOCK_MAX` trials. It is looked at again only after a tenth more trials, so that the looking
    /// costs little.
    pub fn push(&mut self, duration: Nanos) -> bool {
        if self.latest.len() == 2 * BLOCK_MAX {
            self.latest.pop_front();
        }
        self.latest.push_back(duration.0);
        self.seen += 1;
        if self.seen < self.next_check.max(2 * BLOCK_MIN) {
            return false;
        }
        self.next_check = self.seen + (self.seen / 10).max(1);
        let block = (self.seen / 3).clamp(BLOCK_MIN, BLOCK_MAX);
        let latest = self.latest.make_contiguous();
        let n = latest.len();
        let late = median(&latest[n - block..]);
        let early = median(&latest[n - 2 * block..n - block]);
        (late / early - 1.0).abs() <= TOLERANCE
    }
}

/// The middle value, the mean of the two middle ones for an even number; at least 1 ns.
pub fn median(values: &[i64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_unstable();
    let middle = sorted.len() / 2;
    let value = if sorted.len() % 2 == 1 {
        sorted[middle] as f64
    } else {
        (sorted[middle - 1] as f64 + sorted[middle] as f64) / 2.0
    };
    value.max(1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn steady_after(durations: impl IntoIterator<Item = i64>) -> Option<usize> {
        let mut watch = SteadyWatch::default();
        durations.into_iter().position(|d| watch.push(Nanos(d)))
    }

    #[test]
    fn an_even_series_is_steady_after_two_blocks() {
        assert_eq!(steady_after(std::iter::repeat_n(1000, 50)), Some(5));
    }

    #[test]
    fn a_series_that_gets_faster_is_not_steady() {
        assert_eq!(steady_after((0..60).map(|i| 100_000 - i * 1500)), None);
    }

    #[test]
    fn a_slow_start_is_outlived() {
        let series = (0..200).map(|i| if i < 12 { 5000 - i * 300 } else { 1000 });
        let at = steady_after(series).unwrap();
        assert!((15..60).contains(&at), "{at}");
    }

    #[test]
    fn the_median_of_an_even_number_is_the_mean_of_the_middle() {
        assert!((median(&[4, 1, 3, 2]) - 2.5).abs() < 1e-12);
    }
}
