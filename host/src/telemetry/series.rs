//! A channel as a line over time: gauges as they were read, counters as what they grew in a second.

use crate::store::rows::{ChannelRow, KindRow, SamplesRow};

/// The samples of a channel that were read well.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct Series {
    /// Of the values: that of the channel, or what its growth in a second is called.
    pub(crate) unit: String,
    pub(crate) readings: Vec<Reading>,
}

/// A value, and what time it is of: a moment, or from one read of a counter to the next.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Reading {
    pub(crate) from_ns: i64,
    pub(crate) to_ns: i64,
    pub(crate) value: f64,
}

pub(crate) fn series(channel: &ChannelRow, samples: &SamplesRow) -> Series {
    // What was not read well is left out; a gap is no zero.
    let good = samples
        .at_ns
        .iter()
        .zip(&samples.value)
        .zip(&samples.quality);
    let good = good.filter(|(_, quality)| **quality == 0);
    let read: Vec<(i64, i64)> = good.map(|((at, value), _)| (*at, *value)).collect();
    match channel.kind {
        KindRow::Counter => grown(&channel.unit, &read),
        _ => Series {
            unit: channel.unit.clone(),
            readings: read.into_iter().map(at_a_moment).collect(),
        },
    }
}

fn at_a_moment((at, value): (i64, i64)) -> Reading {
    Reading {
        from_ns: at,
        to_ns: at,
        value: value as f64,
    }
}

/// What a counter grew in a second between two reads: time as a share of it.
fn grown(unit: &str, read: &[(i64, i64)]) -> Series {
    let (unit, scale) = match unit {
        "ns" => ("%".to_owned(), 100.0 / 1e9),
        "microjoule" => ("microwatt".to_owned(), 1.0),
        unit => (format!("{unit}/s"), 1.0),
    };
    let readings = read.windows(2).filter_map(|pair| {
        let [(from, a), (to, b)] = [pair[0], pair[1]];
        // One that falls began anew: what it grew meanwhile is not known.
        let is_sound = to > from && b >= a;
        is_sound.then(|| Reading {
            from_ns: from,
            to_ns: to,
            value: (b - a) as f64 / (to - from) as f64 * 1e9 * scale,
        })
    });
    Series {
        unit,
        readings: readings.collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::telemetry::tests::channel;

    fn samples(read: &[(i64, i64, u8)]) -> SamplesRow {
        SamplesRow {
            at_ns: read.iter().map(|(at, ..)| *at).collect(),
            value: read.iter().map(|(_, value, _)| *value).collect(),
            quality: read.iter().map(|(.., quality)| *quality).collect(),
        }
    }

    #[test]
    fn a_counter_of_time_is_a_share_of_it_and_begins_anew_without_a_value() {
        let busy = channel("cpu.0.busy", "ns", KindRow::Counter);
        // 30 ms within 100, then it fell, then 100 ms within 200; one was not read.
        let read = [
            (0, 50_000_000, 0),
            (100_000_000, 80_000_000, 0),
            (200_000_000, 1_000_000, 0),
            (300_000_000, 7, 1),
            (400_000_000, 101_000_000, 0),
        ];
        let found = series(&busy, &samples(&read));
        assert_eq!(found.unit, "%");
        let told: Vec<(i64, i64, f64)> = found
            .readings
            .iter()
            .map(|one| (one.from_ns, one.to_ns, one.value.round()))
            .collect();
        assert_eq!(
            told,
            [(0, 100_000_000, 30.0), (200_000_000, 400_000_000, 50.0)]
        );
    }

    #[test]
    fn a_gauge_is_what_was_read_and_when() {
        let gauge = channel("therm.soc.temp", "millicelsius", KindRow::Gauge);
        let found = series(&gauge, &samples(&[(5, 40_000, 0), (9, 0, 2)]));
        assert_eq!(found.unit, "millicelsius");
        assert_eq!(found.readings, [at_a_moment((5, 40_000))]);
    }
}
