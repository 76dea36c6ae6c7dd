//! Telemetry that is drawn below the trials of a case.

use crate::figure::timeline::Lane;
use crate::source::{Source, SourceError};
use crate::telemetry::series::{Series, series};
use crate::view::RepeatView;

/// What is looked at, first what explains most.
const KINDS: [&str; 5] = [".temp", ".freq", ".busy", ".load", ".power"];
/// Lanes of one figure.
const MOST: usize = 4;

/// A few channels of one repeat, of each kind the one that moved most.
pub(super) fn of(source: &Source, repeat: &RepeatView) -> Result<Vec<Lane>, SourceError> {
    let begin = repeat.trials.window.map_or(0, |window| window.start_ns);
    let mut lanes = Vec::new();
    for kind in KINDS {
        let mut best: Option<(f64, Lane)> = None;
        let of_kind = repeat
            .row
            .channels
            .iter()
            .filter(|c| c.name.ends_with(kind));
        for channel in of_kind {
            let samples = source.samples(&repeat.row, channel.id)?;
            let lane = lane(channel.name.clone(), series(channel, &samples), begin);
            let moved = spread(&lane.points);
            if best.as_ref().is_none_or(|(most, _)| moved > *most) {
                best = Some((moved, lane));
            }
        }
        lanes.extend(best.map(|(_, lane)| lane));
    }
    lanes.truncate(MOST);
    Ok(lanes)
}

/// In a unit that keeps its numbers short; what is of a stretch of time stands in its middle.
fn lane(name: String, series: Series, begin: i64) -> Lane {
    let (unit, scale) = match series.unit.as_str() {
        "hz" => ("MHz", 1e-6),
        "millicelsius" => ("°C", 1e-3),
        "microwatt" => ("W", 1e-6),
        "ppm" => ("%", 1e-4),
        unit => (unit, 1.0),
    };
    let points = series.readings.iter().map(|reading| {
        let middle = (reading.from_ns - begin) as f64 / 2.0 + (reading.to_ns - begin) as f64 / 2.0;
        (middle / 1e9, reading.value * scale)
    });
    Lane {
        name,
        unit: unit.to_owned(),
        points: points.collect(),
    }
}

fn spread(points: &[(f64, f64)]) -> f64 {
    let values = || points.iter().map(|(_, value)| *value);
    values().fold(f64::MIN, f64::max) - values().fold(f64::MAX, f64::min)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::telemetry::series::Reading;

    #[test]
    fn a_lane_has_units_for_people_and_counts_time_from_the_window() {
        let reading = |from_ns, to_ns, value| Reading {
            from_ns,
            to_ns,
            value,
        };
        let of = |unit: &str, reading| {
            let series = Series {
                unit: unit.into(),
                readings: vec![reading],
            };
            let lane = lane("a".into(), series, 1_000_000_000);
            (lane.unit, lane.points[0])
        };
        let clock = of("hz", reading(1_500_000_000, 1_500_000_000, 2.4e9));
        assert_eq!(clock, ("MHz".into(), (0.5, 2400.0)));
        let heat = of("millicelsius", reading(0, 0, 45_500.0));
        assert_eq!(heat, ("°C".into(), (-1.0, 45.5)));
        let busy = of("%", reading(1_000_000_000, 1_200_000_000, 30.0));
        assert_eq!(busy, ("%".into(), (0.1, 30.0)));
    }
}
