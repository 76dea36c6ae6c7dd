//! One channel over one span of time.

use edgedyno_shared::telemetry::Quality;

use crate::store::rows::{ChannelRow, KindRow, SamplesRow};
use crate::view::Span;

/// A channel and what its samples within a span come to.
#[derive(Debug, Clone, PartialEq)]
pub struct Digest {
    pub channel: ChannelRow,
    /// Samples within the span, whatever they gave.
    pub samples: u64,
    /// How many gave no value, by the code of their quality.
    pub faults: [u64; Quality::ALL.len()],
    /// Over the good samples; none without one.
    pub figures: Option<Figures>,
    /// Of a counter: how much it grew within the span, by interpolation between the samples around each
    /// end; none where the span is not between two samples, or where the counter fell.
    pub growth: Option<Growth>,
    /// A counter stood lower than before: it was set back, or wrapped where nobody knows at what.
    pub fell: bool,
    /// Good samples of the whole repeat, and whether they were ever different.
    pub all_good: u64,
    pub ever_changed: bool,
    /// The last good value at or before the begin of the span, and the first at or after its end.
    pub before: Option<i64>,
    pub after: Option<i64>,
    /// The oldest and the newest good value of the whole repeat.
    pub earliest: Option<i64>,
    pub latest: Option<i64>,
    /// Of power and energy: mean power of equal parts of the span, and of the idle board before the worker.
    pub parts: Vec<f64>,
    pub idle_parts: Vec<f64>,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Figures {
    pub good: u64,
    pub first: i64,
    pub last: i64,
    pub min: i64,
    /// The lowest that is more than zero, as a clock has where zero means that it stood still.
    pub min_above_zero: Option<i64>,
    pub max: i64,
    pub mean: f64,
    /// Every bit that any of them had.
    pub any_bits: i64,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Growth {
    pub by: f64,
    pub seconds: f64,
}

impl Growth {
    pub fn per_second(self) -> f64 {
        self.by / self.seconds
    }
}

impl Digest {
    pub fn is_counter(&self) -> bool {
        self.channel.kind == KindRow::Counter
    }

    /// It stands for a kind of channel that the board has none of, and says why: its name has a part in
    /// capitals, which no channel of a board has.
    pub fn is_of_nothing(&self) -> bool {
        self.channel.name.contains(|c: char| c.is_ascii_uppercase())
    }

    /// How much a counter of events grew between the samples around the span, each of which may lie a period
    /// outside of it: events are whole, and a share of one that is told by interpolation is none. None where it
    /// is not known; what was seen to grow has grown, also where one of those samples lacks.
    pub fn stepped(&self) -> Option<i64> {
        let first = self.before.or(self.figures.map(|figures| figures.first))?;
        let last = self.after.or(self.figures.map(|figures| figures.last))?;
        let by = last.saturating_sub(first);
        let is_whole = self.before.is_some() && self.after.is_some();
        (!self.fell && (is_whole || by > 0)).then_some(by)
    }

    /// Growth of a counter in a second.
    pub fn per_second(&self) -> Option<f64> {
        self.growth.map(Growth::per_second)
    }

    pub fn mean(&self) -> Option<f64> {
        self.figures.map(|figures| figures.mean)
    }
}

/// Looks at the samples within a span; without one, at all.
pub fn digest(channel: &ChannelRow, samples: &SamplesRow, span: Option<Span>) -> Digest {
    let span = span.or_else(|| {
        Some(Span {
            start_ns: *samples.at_ns.first()?,
            end_ns: *samples.at_ns.last()?,
        })
    });
    let mut out = Digest {
        channel: channel.clone(),
        samples: 0,
        faults: [0; Quality::ALL.len()],
        figures: None,
        growth: None,
        fell: false,
        all_good: 0,
        ever_changed: false,
        before: None,
        after: None,
        earliest: None,
        latest: None,
        parts: Vec::new(),
        idle_parts: Vec::new(),
    };
    let Some(span) = span else {
        return out;
    };
    let is_counter = channel.kind == KindRow::Counter;
    let mut sum = 0.0;
    let mut before: Option<i64> = None;
    let mut good: Vec<(i64, i64)> = Vec::new();
    let cells = samples
        .at_ns
        .iter()
        .zip(&samples.value)
        .zip(&samples.quality);
    for ((&at, &value), &quality) in cells {
        let is_good = quality == Quality::Ok.code();
        let is_inside = (span.start_ns..=span.end_ns).contains(&at);
        if is_inside {
            out.samples += 1;
            if let Some(count) = out
                .faults
                .get_mut(usize::from(quality))
                .filter(|_| !is_good)
            {
                *count += 1;
            }
        }
        if !is_good {
            continue;
        }
        out.all_good += 1;
        out.ever_changed |= before.is_some_and(|before| before != value);
        out.fell |= is_counter && before.is_some_and(|before| value < before);
        before = Some(value);
        if at <= span.start_ns {
            out.before = before;
        }
        if at >= span.end_ns {
            out.after = out.after.or(before);
        }
        out.earliest = out.earliest.or(before);
        out.latest = before;
        if is_counter {
            good.push((at, value));
        }
        if is_inside {
            sum += value as f64;
            let figures = out.figures.get_or_insert(Figures {
                good: 0,
                first: value,
                last: value,
                min: value,
                min_above_zero: None,
                max: value,
                mean: 0.0,
                any_bits: 0,
            });
            figures.good += 1;
            figures.last = value;
            figures.min = figures.min.min(value);
            figures.max = figures.max.max(value);
            let lowest = figures.min_above_zero.unwrap_or(i64::MAX).min(value);
            if value > 0 {
                figures.min_above_zero = Some(lowest);
            }
            figures.any_bits |= value;
        }
    }
    if let Some(figures) = &mut out.figures {
        figures.mean = sum / figures.good as f64;
    }
    if is_counter && !out.fell {
        out.growth = growth(&good, span);
    }
    out
}

/// A span is cut into so many parts at most, to see how far they lie apart.
const PARTS: i64 = 8;

/// Mean power, in microwatts, of equal parts of a span: of a gauge by its good samples, of a counter of
/// energy by what it grew. Parts are no shorter than five of the source's own periods, so that one is not
/// the other's echo; a part of which nothing is known is left out.
pub(super) fn power_parts(channel: &ChannelRow, samples: &SamplesRow, span: Span) -> Vec<f64> {
    let is_counter = match channel.unit.as_str() {
        "microwatt" => false,
        "microjoule" => true,
        _ => return Vec::new(),
    };
    let native = channel
        .native_period_ns
        .unwrap_or(0)
        .max(channel.period_ns.unwrap_or(0));
    let most = span.length_ns() / (5 * native).max(1);
    let parts = PARTS.min(most);
    let cells = samples
        .at_ns
        .iter()
        .zip(&samples.value)
        .zip(&samples.quality);
    let good = cells.filter(|(_, quality)| **quality == Quality::Ok.code());
    let good: Vec<(i64, i64)> = good.map(|((at, value), _)| (*at, *value)).collect();
    let edge = |part: i64| {
        span.start_ns + (span.length_ns() as i128 * i128::from(part) / i128::from(parts)) as i64
    };
    let of_part = |part: i64| -> Option<f64> {
        let (from, to) = (edge(part), edge(part + 1));
        if is_counter {
            let by = at(&good, to)? - at(&good, from)?;
            // Microjoules in nanoseconds are as many times a thousand million microwatts.
            return (by >= 0.0).then(|| by / (to - from) as f64 * 1e9);
        }
        let inside = good.iter().filter(|(at, _)| (from..to).contains(at));
        let (sum, count) = inside.fold((0.0, 0.0), |(s, n), (_, v)| (s + *v as f64, n + 1.0));
        (count > 0.0).then(|| sum / count)
    };
    (0..parts).filter_map(of_part).collect()
}

/// What may be missing at the end of a span, as a share of it.
const MISSING: f64 = 0.1;

/// How much a counter grew between two moments.
///
/// A worker's counters end with it, up to one period before its window does: what is missing of the span, a
/// tenth at most, is taken to go on as before.
fn growth(good: &[(i64, i64)], span: Span) -> Option<Growth> {
    let length = span.length_ns() as f64;
    let end = span.end_ns.min(good.last()?.0);
    let seen = (end - span.start_ns) as f64;
    if length <= 0.0 || seen < (1.0 - MISSING) * length {
        return None;
    }
    let by = at(good, end)? - at(good, span.start_ns)?;
    Some(Growth {
        by: by * length / seen,
        seconds: length / 1e9,
    })
}

/// The value at a moment, on the line between the samples before and after it.
fn at(good: &[(i64, i64)], moment: i64) -> Option<f64> {
    let after = good.partition_point(|(at, _)| *at < moment);
    let (to, later) = *good.get(after)?;
    if to == moment {
        return Some(later as f64);
    }
    let (from, earlier) = *good.get(after.checked_sub(1)?)?;
    let share = (moment - from) as f64 / (to - from) as f64;
    Some(earlier as f64 + share * (later - earlier) as f64)
}

#[cfg(test)]
pub(crate) mod tests {
    use edgedyno_shared::telemetry::NOT_READ;
    use proptest::prelude::*;

    use super::*;
    use crate::store::rows::FidelityRow;

    pub(crate) fn channel(name: &str, unit: &str, kind: KindRow) -> ChannelRow {
        ChannelRow {
            id: 0,
            name: name.into(),
            unit: unit.into(),
            kind,
            source: String::new(),
            native_period_ns: None,
            fidelity: FidelityRow::Measured,
            period_ns: Some(100_000_000),
            state: "ok".into(),
            reason: None,
        }
    }

    fn samples(cells: &[(i64, Option<i64>)]) -> SamplesRow {
        SamplesRow {
            at_ns: cells.iter().map(|(at, _)| *at).collect(),
            value: cells.iter().map(|(_, v)| v.unwrap_or(NOT_READ)).collect(),
            quality: cells
                .iter()
                .map(|(_, v)| {
                    if v.is_some() {
                        0
                    } else {
                        Quality::Absent.code()
                    }
                })
                .collect(),
        }
    }

    const SPAN: Option<Span> = Some(Span {
        start_ns: 100,
        end_ns: 300,
    });

    #[test]
    fn a_gauge_has_its_mean_over_good_samples_within_the_span() {
        let gauge = channel("t", "millicelsius", KindRow::Gauge);
        let cells = [
            (50, Some(999)),
            (100, Some(10)),
            (200, None),
            (300, Some(40)),
            (301, Some(5)),
        ];
        let found = digest(&gauge, &samples(&cells), SPAN);
        let figures = found.figures.unwrap();
        assert_eq!((figures.good, figures.min, figures.max), (2, 10, 40));
        assert_eq!((found.earliest, found.latest), (Some(999), Some(5)));
        assert!((figures.mean - 25.0).abs() < 1e-12);
        assert_eq!((found.samples, found.faults[2]), (3, 1));
        assert_eq!(found.growth, None);
    }

    #[test]
    fn a_clock_that_stood_still_has_a_lowest_that_ran() {
        let gauge = channel("npu.0.freq", "hz", KindRow::Gauge);
        let lowest = |cells: &[(i64, Option<i64>)]| {
            let figures = digest(&gauge, &samples(cells), SPAN).figures.unwrap();
            (figures.min, figures.min_above_zero)
        };
        let sleeps = [
            (100, Some(0)),
            (150, Some(9)),
            (200, Some(7)),
            (250, Some(0)),
        ];
        assert_eq!(lowest(&sleeps), (0, Some(7)));
        assert_eq!(lowest(&sleeps[..1]), (0, None));
    }

    #[test]
    fn a_counter_grows_by_what_lies_between_its_ends() {
        let counter = channel("c", "ns", KindRow::Counter);
        // On the line: 5 at 100, 25 at 300.
        let cells = [
            (50, Some(0)),
            (150, Some(10)),
            (250, Some(20)),
            (350, Some(30)),
        ];
        let found = digest(&counter, &samples(&cells), SPAN);
        assert!((found.growth.unwrap().by - 20.0).abs() < 1e-9);
        let cut = digest(&counter, &samples(&cells[1..]), SPAN);
        assert_eq!(
            cut.growth, None,
            "nothing is known of its value at the begin"
        );
    }

    #[test]
    fn a_counter_of_events_steps_by_whole_ones() {
        let counter = channel("cpu.0.throttles", "count", KindRow::Counter);
        let stepped = |cells: &[(i64, i64)]| {
            let cells: Vec<(i64, Option<i64>)> =
                cells.iter().map(|(at, v)| (*at, Some(*v))).collect();
            digest(&counter, &samples(&cells), SPAN).stepped()
        };
        // The span from 100 to 300 is a fifth of the gap, and one event lies somewhere in it.
        assert_eq!(stepped(&[(0, 4), (1000, 5)]), Some(1));
        assert_eq!(stepped(&[(0, 4), (1000, 4)]), Some(0));
        assert_eq!(stepped(&[(0, 3), (100, 4), (300, 4), (400, 9)]), Some(0));
        // Nobody looked behind its end, or before its begin.
        assert_eq!(stepped(&[(0, 4)]), None);
        assert_eq!(stepped(&[(0, 4), (200, 4)]), None);
        assert_eq!(stepped(&[(0, 4), (200, 6)]), Some(2));
        assert_eq!(stepped(&[(150, 4), (200, 4), (400, 4)]), None);
        assert_eq!(stepped(&[(150, 4), (250, 5)]), Some(1));
        assert_eq!(
            stepped(&[(0, 4), (200, 3), (400, 5)]),
            None,
            "it was set back"
        );
        assert_eq!(stepped(&[]), None);
    }

    #[test]
    fn a_counter_that_fell_has_no_growth() {
        let counter = channel("c", "ns", KindRow::Counter);
        let cells = [(50, Some(7)), (150, Some(3)), (350, Some(9))];
        let found = digest(&counter, &samples(&cells), SPAN);
        assert!(found.fell);
        assert_eq!(found.growth, None);
    }

    #[test]
    fn nothing_read_is_no_figure() {
        let gauge = channel("t", "millicelsius", KindRow::Gauge);
        let found = digest(&gauge, &SamplesRow::default(), None);
        assert_eq!((found.figures, found.samples), (None, 0));
    }

    proptest! {
        #[test]
        fn growth_is_no_more_than_the_counter_grew_and_a_missing_end(steps in proptest::collection::vec((1_i64..100, 0_i64..1000), 2..30), from in 0_i64..500, length in 1_i64..500) {
            let counter = channel("c", "ns", KindRow::Counter);
            let (mut at, mut value) = (0, 0);
            let cells: Vec<(i64, Option<i64>)> = steps.iter().map(|(dt, dv)| { at += dt; value += dv; (at, Some(value)) }).collect();
            let span = Span { start_ns: from, end_ns: from + length };
            let found = digest(&counter, &samples(&cells), Some(span));
            if let Some(growth) = found.growth {
                // A tenth of the span may be missing at its end, and goes on as the rest.
                let most = value as f64 / (1.0 - MISSING);
                prop_assert!(growth.by >= -1e-6 && growth.by <= most + 1e-6);
            }
        }
    }
}
