//! The live view of a board: channels with values and how they went, the others with their reasons.

use edgedyno_shared::telemetry::{ChannelKind, ChannelNow};

use super::table::Table;
use super::telemetry::{rate, value};
use super::units::UNKNOWN;
use crate::cmd::top::Seen;

const BARS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

/// Lines of channels without a value; the others are counted.
const MOST_MISSING: usize = 12;

pub fn screen(board: &str, seen: &Seen) -> String {
    let Some(watched) = &seen.latest else {
        return format!("{board}: nothing was seen yet");
    };
    let running = match &watched.running {
        Some(key) => format!("run {}, repeat {} runs", key.run, key.repeat),
        None => "no repeat runs".into(),
    };
    let mut parts = vec![format!("{board}: {running}")];
    let has_value = |now: &&ChannelNow| now.value.is_some();
    let (with, without): (Vec<&ChannelNow>, Vec<&ChannelNow>) =
        watched.channels.iter().partition(has_value);
    let mut table = Table::new().text("channel").figure("now").text("lately");
    for now in &with {
        let unit = now.channel.unit.as_str();
        let history = seen.history.get(&now.channel.name);
        let values = history.map_or(&[][..], |history| &history.values);
        let shown = match (now.channel.kind, values.last()) {
            (ChannelKind::Counter, last) => rate(unit, last.copied()),
            (_, Some(last)) => value(unit, *last),
            (_, None) => UNKNOWN.into(),
        };
        table.row([now.channel.name.clone(), shown, sparkline(values)]);
    }
    parts.push(table.render());
    if !without.is_empty() {
        let lines = without.iter().take(MOST_MISSING).map(|now| {
            let probe = &now.channel.probe;
            let reason = probe.reason().unwrap_or("no value now");
            format!("  {}  {}: {reason}", now.channel.name, probe.state())
        });
        let mut lines: Vec<String> = lines.collect();
        let more = without.len().saturating_sub(MOST_MISSING);
        if more > 0 {
            lines.push(format!("  and {more} more"));
        }
        parts.push(format!("not watched\n{}", lines.join("\n")));
    }
    parts.join("\n\n")
}

/// Values as bars between the lowest and the highest of them.
fn sparkline(values: &[f64]) -> String {
    let low = values.iter().copied().fold(f64::INFINITY, f64::min);
    let high = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let bar = |value: &f64| {
        let share = if high > low {
            (value - low) / (high - low)
        } else {
            0.0
        };
        BARS[((share * 7.0).round() as usize).min(7)]
    };
    values.iter().map(bar).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bars_reach_from_the_lowest_to_the_highest() {
        assert_eq!(sparkline(&[0.0, 3.5, 7.0]), "▁▅█");
        assert_eq!(sparkline(&[2.0, 2.0]), "▁▁");
        assert_eq!(sparkline(&[]), "");
    }
}
