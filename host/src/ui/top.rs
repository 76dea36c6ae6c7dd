//! The live view of a board: channels with values and how they went, the others with their reasons.

use edgedyno_shared::device::Reading;
use edgedyno_shared::telemetry::{ChannelKind, ChannelNow};

use super::telemetry::{rate, value};
use super::units::UNKNOWN;
use crate::cmd::top::Seen;

const BARS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

/// Columns between two parts of a line.
const GAP: usize = 2;

/// A sparkline is no shorter than this, as long as the name leaves room.
const SHORTEST: usize = 6;

/// Columns where nobody says how many there are.
const WIDTH: usize = 100;

/// How a terminal shows it.
#[derive(Debug, Clone, Default)]
pub struct View {
    /// Lines that were moved away at the top.
    pub offset: usize,
    pub is_paused: bool,
    /// The run that is recorded and its rounds.
    pub recording: Option<(String, usize)>,
    /// What a key came to.
    pub said: Option<String>,
}

/// All of it, below one another.
pub fn whole(board: &str, seen: &Seen) -> String {
    let lines = [vec![head(board, seen)], body(seen, WIDTH)];
    lines.concat().join("\n")
}

/// What fits a terminal of so many rows and columns, with marks and keys in the last line.
pub fn screen(board: &str, seen: &Seen, view: &mut View, size: Option<(usize, usize)>) -> String {
    let Some((rows, columns)) = size else {
        return whole(board, seen);
    };
    let body = body(seen, columns);
    let room = rows.saturating_sub(2).max(1);
    view.offset = view.offset.min(body.len().saturating_sub(room));
    let mut lines = vec![head(board, seen)];
    lines.extend(body.into_iter().skip(view.offset).take(room));
    lines.push(foot(view));
    let cut = lines.iter().map(|line| cut(line, columns));
    cut.collect::<Vec<_>>().join("\n")
}

fn head(board: &str, seen: &Seen) -> String {
    let Some(watched) = &seen.latest else {
        return format!("{board}: nothing was seen yet");
    };
    let running = match &watched.running {
        Some(key) => format!("run {}, repeat {} runs", key.run, key.repeat),
        None => "no repeat runs".into(),
    };
    let with = watched.channels.iter().filter(|now| now.value.is_some());
    let with = with.count();
    let without = watched.channels.len() - with;
    format!("{board}: {running}; {with} channels watched, {without} not")
}

fn foot(view: &View) -> String {
    let recording = view.recording.as_ref();
    let mut marks: Vec<String> = Vec::new();
    marks.extend(recording.map(|(run, rounds)| format!("recording {run}, {rounds} rounds")));
    marks.extend(view.is_paused.then(|| "held".to_owned()));
    marks.extend(view.said.clone().filter(|_| recording.is_none()));
    marks.push("q quit  r record  space hold  j k move".into());
    marks.join("; ")
}

fn body(seen: &Seen, columns: usize) -> Vec<String> {
    let Some(watched) = &seen.latest else {
        return Vec::new();
    };
    let (with, without): (Vec<&ChannelNow>, Vec<&ChannelNow>) =
        watched.channels.iter().partition(|now| now.value.is_some());
    let mut lines = channels(&with, seen, columns);
    if !without.is_empty() {
        lines.push(String::new());
        lines.push("not watched".into());
        lines.extend(without.iter().map(|now| missing(now)));
    }
    lines
}

fn missing(now: &ChannelNow) -> String {
    let name = &now.channel.name;
    match now.missing() {
        // It had a value at first: another reason than that of a channel which never had one.
        Some(fault) if now.channel.probe.value().is_some() => {
            format!("  {name}  lost, {}: {}", fault.state(), reason(fault))
        }
        Some(fault) => format!("  {name}  {}: {}", fault.state(), reason(fault)),
        None => format!("  {name}  no value yet"),
    }
}

fn reason(fault: &Reading) -> &str {
    fault.reason().unwrap_or_default()
}

/// One line each: name, value, and how it went, in columns.
fn channels(all: &[&ChannelNow], seen: &Seen, columns: usize) -> Vec<String> {
    let rows: Vec<(&str, String, String)> = all
        .iter()
        .map(|now| {
            let history = seen.history.get(&now.channel.name);
            let values = history.map_or(&[][..], |history| &history.values);
            let name = now.channel.name.as_str();
            (name, shown(now, values), sparkline(values))
        })
        .collect();
    let width =
        |of: &dyn Fn(&(&str, String, String)) -> usize| rows.iter().map(of).max().unwrap_or(0);
    let value = width(&|row| row.1.chars().count());
    let room = columns.saturating_sub(value + 2 * GAP + SHORTEST);
    let name = width(&|row| row.0.chars().count()).min(room.max(8));
    let rows = rows.iter().map(|(full, now, bars)| {
        let left = columns.saturating_sub(name + value + 2 * GAP);
        let bars: Vec<char> = bars.chars().collect();
        let bars: String = bars[bars.len().saturating_sub(left)..].iter().collect();
        let line = format!("{:name$}  {now:>value$}  {bars}", shorten(full, name));
        line.trim_end().to_owned()
    });
    rows.collect()
}

fn shown(now: &ChannelNow, values: &[f64]) -> String {
    let unit = now.channel.unit.as_str();
    match (now.channel.kind, values.last()) {
        (ChannelKind::Counter, last) => rate(unit, last.copied()),
        (_, Some(last)) => value(unit, *last),
        (_, None) => UNKNOWN.into(),
    }
}

/// A name without its middle: what it begins and ends with tells most.
fn shorten(name: &str, width: usize) -> String {
    let all: Vec<char> = name.chars().collect();
    if all.len() <= width {
        return name.into();
    }
    let end = width.saturating_sub(1) / 2;
    let begin = width.saturating_sub(1 + end);
    let (begin, end) = (&all[..begin], &all[all.len() - end..]);
    format!(
        "{}…{}",
        begin.iter().collect::<String>(),
        end.iter().collect::<String>()
    )
}

fn cut(line: &str, columns: usize) -> String {
    line.chars().take(columns).collect()
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
    use edgedyno_shared::telemetry::{Channel, Fidelity, Watched};
    use edgedyno_shared::units::Nanos;

    use super::*;

    fn now(name: &str, value: Option<i64>) -> ChannelNow {
        ChannelNow {
            channel: Channel {
                id: 0,
                name: name.into(),
                unit: "millicelsius".into(),
                kind: ChannelKind::Gauge,
                source: String::new(),
                native_period: None,
                fidelity: Fidelity::Measured,
                period: None,
                probe: match value {
                    Some(value) => Reading::Ok(value.to_string()),
                    None => Reading::Denied("/sys/x: Permission denied".into()),
                },
            },
            at: Some(Nanos(1)),
            value,
            fault: None,
        }
    }

    fn seen(names: &[(&str, Option<i64>)]) -> Seen {
        let mut seen = Seen::default();
        for round in 0..40 {
            let channels = names
                .iter()
                .map(|(name, v)| now(name, v.map(|v| v + round * 1000)));
            seen.take(Watched {
                running: None,
                channels: channels.collect(),
            });
        }
        seen
    }

    #[test]
    fn bars_reach_from_the_lowest_to_the_highest() {
        assert_eq!(sparkline(&[0.0, 3.5, 7.0]), "▁▅█");
        assert_eq!(sparkline(&[2.0, 2.0]), "▁▁");
        assert_eq!(sparkline(&[]), "");
    }

    #[test]
    fn sixty_columns_hold_names_values_and_bars() {
        let long = "hwmon.ina3221_2.in3_vddq_vdd2_1v8ao_of_the_second_chip.voltage";
        let seen = seen(&[
            (long, Some(41_000)),
            ("therm.cpu.temp", Some(1_000)),
            ("rapl", None),
        ]);
        let text = screen("b", &seen, &mut View::default(), Some((24, 60)));
        for line in text.lines() {
            assert!(line.chars().count() <= 60, "{line}");
        }
        assert!(
            text.contains("hwmon.ina3221_2") && text.contains("…"),
            "{text}"
        );
        assert!(text.contains("80 °C") && text.contains('█'), "{text}");
        assert!(text.contains("rapl  denied"), "{text}");
    }

    #[test]
    fn a_low_terminal_shows_a_part_that_can_be_moved() {
        let names: Vec<String> = (0..30).map(|i| format!("therm.z{i:02}.temp")).collect();
        let all: Vec<(&str, Option<i64>)> = names.iter().map(|n| (n.as_str(), Some(1))).collect();
        let seen = seen(&all);
        let mut view = View {
            offset: 3,
            ..View::default()
        };
        let text = screen("b", &seen, &mut view, Some((10, 80)));
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 10);
        assert!(
            lines[1].starts_with("therm.z03") && lines[9].contains("q quit"),
            "{text}"
        );
        view.offset = 1000;
        let text = screen("b", &seen, &mut view, Some((10, 80)));
        assert!(text.contains("therm.z29"), "the end is as far as it goes");
        assert_eq!(view.offset, 22);
    }

    #[test]
    fn marks_say_what_is_recorded_and_held() {
        let mut view = View {
            recording: Some(("abc".into(), 7)),
            is_paused: true,
            ..View::default()
        };
        let text = screen("b", &seen(&[("t", Some(1))]), &mut view, Some((10, 90)));
        assert!(
            text.contains("recording abc, 7 rounds; held; q quit"),
            "{text}"
        );
    }

    #[test]
    fn a_channel_that_lost_its_value_says_why() {
        let mut lost = now("npu.0.load", Some(1));
        lost.value = None;
        lost.fault = Some(Reading::Busy("/a/file: another has it".into()));
        let mut silent = now("axi", Some(1));
        silent.value = None;
        let mut seen = Seen::default();
        seen.take(Watched {
            running: None,
            channels: vec![lost, silent],
        });
        let text = whole("b", &seen);
        assert!(
            text.contains("npu.0.load  lost, busy: /a/file: another has it"),
            "{text}"
        );
        assert!(text.contains("axi  no value yet"), "{text}");
    }

    #[test]
    fn what_is_not_watched_is_counted_and_listed_whole() {
        let names: Vec<String> = (0..30).map(|i| format!("x{i}")).collect();
        let all: Vec<(&str, Option<i64>)> = names.iter().map(|n| (n.as_str(), None)).collect();
        let text = whole("b", &seen(&all));
        assert!(
            text.starts_with("b: no repeat runs; 0 channels watched, 30 not"),
            "{text}"
        );
        assert!(
            text.contains("x29  denied: /sys/x: Permission denied"),
            "{text}"
        );
    }
}
