//! `samples`: telemetry of a run, channel by channel or sample by sample.

use clap::{Args, ValueEnum};
use edgedyno_shared::telemetry::Quality;
use serde_json::{Value, json};

use super::read::{self, Picked, ReadOptions};
use crate::cli::Global;
use crate::documents;
use crate::exit::{CommandError, CommandResult, Exit};
use crate::store::rows::ChannelRow;
use crate::telemetry::{self, Digest};
use crate::ui::{print, telemetry as text};
use crate::view::{RepeatView, Span};

const EXAMPLES: &str = "\
examples:
  edgedyno samples last
  edgedyno samples last --channel therm --channel cpu.policy0
  edgedyno samples last --format csv > samples.csv
  edgedyno samples last/3f2a --repeat 0 --format jsonl | jq .value";

#[derive(Debug, Clone, Args)]
#[command(after_help = EXAMPLES)]
pub struct SamplesArgs {
    #[command(flatten)]
    pub read: ReadOptions,
    /// Only channels whose name is this or begins with it and a dot, such as therm or cpu.0; may be
    /// repeated
    #[arg(long = "channel", value_name = "NAME")]
    pub channels: Vec<String>,
    /// Only this repeat
    #[arg(long, value_name = "N")]
    pub repeat: Option<u32>,
    /// Over the whole repeat, from its process to its end, instead of over its window
    #[arg(long)]
    pub whole: bool,
    /// A line for each channel as a table, or a line for each sample as csv or jsonl
    #[arg(
        long,
        value_name = "FORMAT",
        default_value = "table",
        conflicts_with = "json"
    )]
    pub format: Format,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Format {
    Table,
    Csv,
    Jsonl,
}

/// Columns of a line for each sample.
const COLUMNS: [&str; 9] = [
    "case",
    "repeat",
    "attempt",
    "channel",
    "unit",
    "at_ns",
    "window_ms",
    "value",
    "quality",
];

pub fn run(args: &SamplesArgs, global: &Global) -> CommandResult {
    let picked = args.read.open(global)?;
    check_channels(args, &picked)?;
    match args.format {
        Format::Table => summaries(args, &picked, global.json)?,
        Format::Csv => {
            print::raw(format!("{}\n", COLUMNS.join(",")).as_bytes());
            each_sample(args, &picked, csv)?;
        }
        Format::Jsonl => each_sample(args, &picked, jsonl)?,
    }
    Ok(Exit::GOOD)
}

/// A channel that no repeat has is a slip of the pen, not an empty answer.
fn check_channels(args: &SamplesArgs, picked: &Picked) -> Result<(), CommandError> {
    let mut known: Vec<String> = Vec::new();
    for case in &picked.cases {
        for repeat in &picked.source.view(case.key)?.repeats {
            known.extend(repeat.row.channels.iter().map(|c| c.name.clone()));
        }
    }
    known.sort();
    known.dedup();
    for wanted in &args.channels {
        if !known.iter().any(|name| is_named(name, wanted)) {
            let what = format!("no channel `{wanted}` was watched");
            let subjects = known.iter().filter_map(|name| name.split('.').next());
            let mut subjects: Vec<&str> = subjects.collect();
            subjects.dedup();
            let hint = match subjects.is_empty() {
                true => "this run was made without telemetry".to_owned(),
                false => format!(
                    "there are {}; `edgedyno samples RUN` lists all",
                    subjects.join(", ")
                ),
            };
            return Err(CommandError::usage(what).hint(hint));
        }
    }
    Ok(())
}

fn is_named(name: &str, wanted: &str) -> bool {
    let rest = name.strip_prefix(wanted);
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
}

impl SamplesArgs {
    fn takes_channel(&self, channel: &ChannelRow) -> bool {
        self.channels.is_empty() || self.channels.iter().any(|w| is_named(&channel.name, w))
    }

    fn takes_repeat(&self, repeat: &RepeatView) -> bool {
        self.repeat
            .is_none_or(|number| repeat.row.key.repeat == number)
    }

    /// What digests are taken over: a repeat without a window has only the whole.
    fn span(&self, repeat: &RepeatView) -> Option<Span> {
        repeat.trials.window.filter(|_| !self.whole)
    }
}

/// A line for each channel, repeat by repeat.
fn summaries(args: &SamplesArgs, picked: &Picked, as_json: bool) -> Result<(), CommandError> {
    let labels = read::labels(&picked.cases);
    let mut cases = Vec::new();
    let mut sections = Vec::new();
    for case in &picked.cases {
        let short = case.key.to_string()[..8].to_owned();
        let mut repeats = Vec::new();
        for repeat in picked.source.view(case.key)?.repeats {
            if !args.takes_repeat(&repeat) {
                continue;
            }
            let span = args.span(&repeat);
            let mut digests = telemetry::over(&picked.source, &repeat.row, span)?;
            digests.retain(|digest| args.takes_channel(&digest.channel));
            if as_json {
                repeats.push(documents::samples_of_repeat(&repeat, span, &digests));
            } else {
                sections.push(section(&repeat, labels.get(&short), &short, &digests));
            }
        }
        cases.push(json!({ "case": case.key.to_string(), "repeats": repeats }));
    }
    match as_json {
        true => print::json(&documents::samples(&picked.source.run()?.id, cases)),
        false => print::result(sections.join("\n\n")),
    }
    Ok(())
}

fn section(repeat: &RepeatView, label: Option<&String>, short: &str, digests: &[Digest]) -> String {
    let key = &repeat.row.key;
    let name = label.map_or(short, String::as_str);
    let title = format!("{name}, repeat {}, attempt {}", key.repeat, key.attempt);
    text::section(&title, digests)
}

/// A sample and where it belongs.
struct Sample<'a> {
    repeat: &'a RepeatView,
    channel: &'a ChannelRow,
    at_ns: i64,
    value: Option<i64>,
    quality: &'static str,
}

impl Sample<'_> {
    /// Since the window began; below zero before it.
    fn window_ms(&self) -> Option<f64> {
        let window = self.repeat.trials.window?;
        Some((self.at_ns - window.start_ns) as f64 / 1e6)
    }

    fn cells(&self) -> [Value; COLUMNS.len()] {
        let key = &self.repeat.row.key;
        [
            key.case.to_string()[..8].into(),
            key.repeat.into(),
            key.attempt.into(),
            self.channel.name.as_str().into(),
            self.channel.unit.as_str().into(),
            self.at_ns.into(),
            self.window_ms().into(),
            self.value.into(),
            self.quality.into(),
        ]
    }
}

fn each_sample(
    args: &SamplesArgs,
    picked: &Picked,
    line: fn(&Sample<'_>) -> String,
) -> Result<(), CommandError> {
    for case in &picked.cases {
        for repeat in picked.source.view(case.key)?.repeats {
            if !args.takes_repeat(&repeat) {
                continue;
            }
            let channels = repeat.row.channels.iter();
            for channel in channels.filter(|channel| args.takes_channel(channel)) {
                let samples = picked.source.samples(&repeat.row, channel.id)?;
                let cells = samples
                    .at_ns
                    .iter()
                    .zip(&samples.value)
                    .zip(&samples.quality);
                let lines = cells.map(|((&at_ns, &value), &code)| {
                    let quality = Quality::from_code(code);
                    line(&Sample {
                        repeat: &repeat,
                        channel,
                        at_ns,
                        value: (quality == Some(Quality::Ok)).then_some(value),
                        quality: quality.map_or("unknown", Quality::name),
                    })
                });
                print::raw(lines.collect::<String>().as_bytes());
            }
        }
    }
    Ok(())
}

fn jsonl(sample: &Sample<'_>) -> String {
    let names = COLUMNS.iter().map(|name| (*name).to_owned());
    let object: serde_json::Map<String, Value> = names.zip(sample.cells()).collect();
    format!("{}\n", Value::Object(object))
}

/// No cell holds a comma or a quote: names are made of letters, digits, dots and underscores.
fn csv(sample: &Sample<'_>) -> String {
    let cells = sample.cells().map(|cell| match cell {
        Value::String(text) => text,
        Value::Null => String::new(),
        other => other.to_string(),
    });
    format!("{}\n", cells.join(","))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn channels_go_by_their_name_or_its_first_parts() {
        assert!(is_named("therm.cpu.temp", "therm"));
        assert!(is_named("therm.cpu.temp", "therm.cpu.temp"));
        for wrong in ["ther", "cpu", "therm.cpu.temp.x"] {
            assert!(!is_named("therm.cpu.temp", wrong), "{wrong}");
        }
    }
}
