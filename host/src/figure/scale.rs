//! From values to places: an axis with round numbers on it.

/// An axis: the values at its ends, and marks between.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Scale {
    pub(super) low: f64,
    pub(super) high: f64,
    pub(super) ticks: Vec<f64>,
    /// Equal steps are equal ratios.
    pub(super) is_log: bool,
}

/// About as many marks as an axis has room for.
const TICKS: f64 = 6.0;

impl Scale {
    /// From zero, or from a round number below the values where they lie far from zero and `from_zero` is
    /// not asked for. The axis always says which: its first mark is its first value.
    pub(super) fn of(values: impl IntoIterator<Item = f64>, from_zero: bool) -> Self {
        let known = values.into_iter().filter(|value| value.is_finite());
        let (mut low, mut high) = known.fold((f64::MAX, f64::MIN), |(low, high), value| {
            (low.min(value), high.max(value))
        });
        if low > high {
            (low, high) = (0.0, 1.0);
        }
        if from_zero {
            low = low.min(0.0);
            high = high.max(0.0);
        }
        if high - low <= f64::EPSILON * high.abs().max(1e-300) {
            let around = if high == 0.0 { 1.0 } else { high.abs() * 0.1 };
            (low, high) = (if from_zero { low } else { low - around }, high + around);
        }
        let step = step((high - low) / TICKS);
        // 10.02 is 501 steps of 0.02, and not a little less, as its bits have it.
        let (first, last) = ((low / step + 1e-9).floor(), (high / step - 1e-9).ceil());
        let ticks = (0..=(last - first) as u32).map(|i| (first + f64::from(i)) * step);
        Self {
            low: first * step,
            high: last * step,
            ticks: ticks.collect(),
            is_log: false,
        }
    }

    /// For values above zero of which some are many times as large as others.
    pub(super) fn log(values: impl IntoIterator<Item = f64>) -> Self {
        let known = values.into_iter().filter(|v| v.is_finite() && *v > 0.0);
        let (low, high) = known.fold((f64::MAX, f64::MIN), |(low, high), value| {
            (low.min(value), high.max(value))
        });
        if low > high {
            return Self::of([], true);
        }
        let marks = |power: i32| [1.0, 2.0, 5.0].map(|factor| factor * 10_f64.powi(power));
        let (first, last) = (low.log10().floor() as i32, high.log10().ceil() as i32);
        let all: Vec<f64> = (first..=last).flat_map(marks).collect();
        let begin = all.iter().rposition(|mark| *mark <= low).unwrap_or(0);
        let end = all.iter().position(|mark| *mark >= high);
        let end = end.unwrap_or(all.len() - 1).max(begin + 1);
        let ticks = all[begin..=end.min(all.len() - 1)].to_vec();
        Self {
            low: ticks[0],
            high: ticks[ticks.len() - 1],
            ticks,
            is_log: true,
        }
    }

    /// Equal steps where all values are of one size, equal ratios where some are four times the least.
    pub(super) fn fitting(values: &[f64]) -> Self {
        let known = || values.iter().copied().filter(|v| v.is_finite());
        let (low, high) = (
            known().fold(f64::MAX, f64::min),
            known().fold(0.0, f64::max),
        );
        match low > 0.0 && high > 4.0 * low {
            true => Self::log(known()),
            false => Self::of(known(), false),
        }
    }

    /// Where a value lies between two places.
    pub(super) fn place(&self, value: f64, from: f64, to: f64) -> f64 {
        let share = match self.is_log {
            // What is not above zero has no place on such an axis; it stands at its edge.
            true if value <= 0.0 => 0.0,
            true => (value / self.low).ln() / (self.high / self.low).ln(),
            false => (value - self.low) / (self.high - self.low),
        };
        from + share * (to - from)
    }

    /// A mark's number with as many places as tell marks apart.
    pub(super) fn label(&self, value: f64) -> String {
        if self.is_log {
            return crate::ui::units::figure(value);
        }
        let step = match self.ticks.as_slice() {
            [first, second, ..] => second - first,
            _ => 1.0,
        };
        let places = (-step.log10().floor()).clamp(0.0, 9.0) as usize;
        // -0 is no number that people write.
        format!("{:.places$}", value + 0.0)
    }
}

/// The next of 1, 2, 5, 10, 20 ...
fn step(least: f64) -> f64 {
    let power = 10_f64.powf(least.log10().floor());
    let steps = [1.0, 2.0, 5.0, 10.0].map(|factor| factor * power);
    let fits = steps.into_iter().find(|step| *step >= least * (1.0 - 1e-9));
    fits.unwrap_or(10.0 * power)
}

/// A unit that makes the numbers of a span readable, and what one of it is in nanoseconds.
pub(super) fn time_unit(largest_ns: f64) -> (&'static str, f64) {
    match largest_ns {
        ns if ns < 1e4 => ("ns", 1.0),
        ns if ns < 1e7 => ("µs", 1e3),
        ns if ns < 1e10 => ("ms", 1e6),
        _ => ("s", 1e9),
    }
}

/// The same for bytes.
pub(super) fn byte_unit(largest: f64) -> (&'static str, f64) {
    match largest {
        bytes if bytes < 1e4 => ("B", 1.0),
        bytes if bytes < 1e7 => ("KiB", 1024.0),
        bytes if bytes < 1e10 => ("MiB", 1_048_576.0),
        _ => ("GiB", 1_073_741_824.0),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn marks_are_round_and_hold_the_values() {
        let scale = Scale::of([3.0, 97.0], true);
        assert_eq!(scale.ticks, [0.0, 20.0, 40.0, 60.0, 80.0, 100.0]);
        assert_eq!(scale.label(20.0), "20");
        let near = Scale::of([10.02, 10.09], false);
        assert_eq!((near.low, near.high), (10.02, 10.1));
        assert_eq!(near.label(10.04), "10.04");
        assert_eq!(scale.place(25.0, 0.0, 200.0), 50.0);
    }

    #[test]
    fn nothing_and_one_value_have_an_axis_too() {
        assert_eq!(Scale::of([], true).ticks.first(), Some(&0.0));
        let one = Scale::of([5.0], false);
        assert!(one.low < 5.0 && one.high > 5.0);
        let zero = Scale::of([0.0], true);
        assert!(zero.low <= 0.0 && zero.high > 0.0);
    }

    #[test]
    fn an_axis_of_ratios_has_marks_at_one_two_and_five() {
        let scale = Scale::log([3.0, 40.0]);
        assert_eq!(scale.ticks, [2.0, 5.0, 10.0, 20.0, 50.0]);
        assert_eq!(
            scale.place(10.0, 0.0, 1.0),
            (5.0_f64).ln() / (25.0_f64).ln()
        );
        assert!(Scale::fitting(&[3.0, 40.0]).is_log && !Scale::fitting(&[3.0, 4.0]).is_log);
    }

    proptest! {
        #[test]
        fn no_value_is_cut_off_an_axis_of_ratios(values in prop::collection::vec(1e-6_f64..1e12, 1..20)) {
            let scale = Scale::log(values.iter().copied());
            for value in values {
                prop_assert!(scale.low <= value * (1.0 + 1e-9) && value <= scale.high * (1.0 + 1e-9));
            }
        }

        #[test]
        fn no_value_is_cut_off(values in prop::collection::vec(-1e12_f64..1e12, 1..20), from_zero: bool) {
            let scale = Scale::of(values.iter().copied(), from_zero);
            let slack = (scale.high - scale.low) * 1e-9;
            for value in values {
                prop_assert!(scale.low - slack <= value && value <= scale.high + slack);
            }
            prop_assert!(scale.ticks.len() >= 2 && scale.ticks.len() < 20);
        }
    }
}
