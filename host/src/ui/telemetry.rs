//! Channels as people read them.

use super::table::Table;
use super::units::{self, UNKNOWN};
use crate::telemetry::Digest;

/// A value in the unit of its channel.
pub fn value(unit: &str, value: impl Into<Option<f64>>) -> String {
    let value = value.into();
    let with = |scale: f64, name: &str| match value {
        Some(value) => format!("{} {name}", units::figure(value * scale)),
        None => UNKNOWN.into(),
    };
    match unit {
        "ns" => units::nanoseconds(value),
        "bytes" => units::bytes(value),
        "hz" => units::hertz(value),
        "ppm" => units::percent(value.map(|ppm| ppm / 1e6)),
        "millicelsius" => with(1e-3, "°C"),
        "microvolt" => with(1e-6, "V"),
        "microampere" => with(1e-6, "A"),
        "microwatt" => with(1e-6, "W"),
        "microjoule" => with(1e-6, "J"),
        "rpm" => with(1.0, "rpm"),
        _ => units::figure(value),
    }
}

/// How fast a counter of that unit grows: time in a second is a share of it.
pub fn rate(unit: &str, per_second: impl Into<Option<f64>>) -> String {
    let per_second = per_second.into();
    let Some(rate) = per_second else {
        return UNKNOWN.into();
    };
    match unit {
        "ns" => units::percent(rate / 1e9),
        "microjoule" => value("microwatt", rate),
        _ => format!("{}/s", value(unit, rate)),
    }
}

/// Channels of one repeat: those with values as a table, the others with their reasons.
pub fn section(title: &str, digests: &[Digest]) -> String {
    if digests.is_empty() {
        return format!("{title}\n  no telemetry was recorded");
    }
    let mut parts = vec![title.to_owned()];
    let (with, without): (Vec<&Digest>, Vec<&Digest>) =
        digests.iter().partition(|digest| digest.all_good > 0);
    if !with.is_empty() {
        parts.push(table(&with));
    }
    if !without.is_empty() {
        let lines = without.iter().map(|digest| {
            let channel = &digest.channel;
            let reason = channel.reason.as_deref().unwrap_or("no value came");
            format!("  {}  {}: {reason}", channel.name, channel.state)
        });
        let lines: Vec<String> = lines.collect();
        parts.push(format!("not watched\n{}", lines.join("\n")));
    }
    parts.join("\n")
}

fn table(digests: &[&Digest]) -> String {
    let mut table = Table::new()
        .text("channel")
        .figure("samples")
        .figure("mean or rate")
        .figure("min")
        .figure("max")
        .figure("lost");
    for digest in digests {
        let unit = digest.channel.unit.as_str();
        let figures = digest.figures;
        let middle = match digest.is_counter() {
            true => rate(unit, digest.per_second()),
            false => value(unit, digest.mean()),
        };
        let bound = |pick: fn(&crate::telemetry::Figures) -> i64| match digest.is_counter() {
            true => UNKNOWN.to_owned(),
            false => value(unit, figures.as_ref().map(|f| pick(f) as f64)),
        };
        let lost: u64 = digest.faults.iter().sum();
        table.row([
            digest.channel.name.clone(),
            units::count(digest.samples),
            middle,
            bound(|f| f.min),
            bound(|f| f.max),
            units::count(lost),
        ]);
    }
    table.render()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_take_the_units_of_people() {
        assert_eq!(value("millicelsius", 63_625.0), "63.62 °C");
        assert_eq!(value("microwatt", 9_250_304.0), "9.25 W");
        assert_eq!(value("ppm", 470_000.0), "47 %");
        assert_eq!(value("hz", 1_699_981_000.0), "1.7 GHz");
        assert_eq!(value("count", None), UNKNOWN);
    }

    #[test]
    fn counters_of_time_are_shares_and_of_energy_power() {
        assert_eq!(rate("ns", 5e8), "50 %");
        assert_eq!(rate("microjoule", 2.5e6), "2.5 W");
        assert_eq!(rate("pages", 3.0), "3/s");
        assert_eq!(rate("ns", None), UNKNOWN);
    }
}
