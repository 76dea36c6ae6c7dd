//! A long run as text.

use super::table::Table;
use super::units::{self, UNKNOWN};
use crate::soak::{Soak, Stretch};

/// Rows of the course; all slices are in the JSON.
const ROWS: usize = 10;

/// First and sustained, what the board did, and the course of it.
pub fn section(soak: &Soak) -> String {
    let seconds = |s: f64| units::nanoseconds(s * 1e9);
    let mut stretches = Table::new()
        .text("soak")
        .figure("p50")
        .figure("rate")
        .figure("trials");
    let mut row = |name: String, stretch: &Stretch| {
        stretches.row([
            name,
            units::nanoseconds(stretch.p50_ms * 1e6),
            units::hertz(stretch.rate_hz),
            units::count(stretch.trials as u64),
        ]);
    };
    row(
        format!("first {}", seconds(soak.first.seconds)),
        &soak.first,
    );
    row(
        format!("last {}", seconds(soak.sustained.seconds)),
        &soak.sustained,
    );
    let mut lines = vec![stretches.render()];
    lines.push(match &soak.throttled {
        Some(sign) => format!(
            "held back after {}, by {}",
            seconds(sign.after_seconds),
            sign.channel
        ),
        None => "no channel told that the board was held back".into(),
    });
    if let Some(after) = soak.slowed_after_seconds {
        lines.push(format!("slower for good after {}", seconds(after)));
    }
    if soak.throttled.is_some() {
        lines.push(match soak.recovered_after_seconds {
            Some(after) => format!("recovered {} after the last trial", seconds(after)),
            None => format!(
                "not recovered within {} of the last trial",
                seconds(soak.watched_after_seconds)
            ),
        });
    }
    if let Some(heat) = &soak.heat {
        let correlation = heat.correlation;
        let correlation = correlation.map_or_else(String::new, |r| format!(", correlation {r:.2}"));
        lines.push(format!(
            "{} from {} to {} °C: p50 {} ms a degree{correlation}",
            heat.channel,
            units::figure(heat.from_celsius),
            units::figure(heat.to_celsius),
            units::figure(heat.p50_ms_per_celsius),
        ));
    }
    lines.push(course(soak));
    lines.join("\n")
}

fn course(soak: &Soak) -> String {
    let mut table = Table::new()
        .figure("from")
        .figure("p50")
        .figure("rate")
        .figure("temperature");
    let step = soak.slices.len().div_ceil(ROWS).max(1);
    for slice in soak.slices.iter().step_by(step) {
        let celsius = slice.celsius.map(|c| format!("{} °C", units::figure(c)));
        table.row([
            units::nanoseconds(slice.from_seconds * 1e9),
            units::nanoseconds(slice.p50_ms.map(|ms| ms * 1e6)),
            units::hertz(slice.rate_hz),
            celsius.unwrap_or_else(|| UNKNOWN.into()),
        ]);
    }
    table.render()
}
