//! `records`: trials one by one.

use clap::{Args, ValueEnum};
use edgedyno_shared::columns::Role;
use serde_json::Value;

use super::read::ReadOptions;
use crate::cli::Global;
use crate::exit::{CommandResult, Exit};
use crate::records::{self, LEADING, LaneRecords, Record};
use crate::source::SourceError;
use crate::stats::outlier::Scale;
use crate::ui::{print, units::UNKNOWN};

const EXAMPLES: &str = "\
examples:
  edgedyno records last --role measure
  edgedyno records last --outliers
  edgedyno records last/3f2a --json | jq .latency_ms";

#[derive(Debug, Clone, Args)]
#[command(after_help = EXAMPLES)]
pub struct RecordsArgs {
    #[command(flatten)]
    pub read: ReadOptions,
    /// Only trials of this role
    #[arg(long, value_name = "ROLE")]
    pub role: Option<RoleChoice>,
    /// Only measured trials far from the rest of their repeat, with their modified z-score
    #[arg(long, conflicts_with = "role")]
    pub outliers: bool,
    /// Only so many trials of each repeat
    #[arg(long, value_name = "N")]
    pub limit: Option<usize>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum RoleChoice {
    Cold,
    Rehearsal,
    Warmup,
    Measure,
}

impl From<RoleChoice> for Role {
    fn from(choice: RoleChoice) -> Self {
        match choice {
            RoleChoice::Cold => Self::Cold,
            RoleChoice::Rehearsal => Self::Rehearsal,
            RoleChoice::Warmup => Self::Warmup,
            RoleChoice::Measure => Self::Measure,
        }
    }
}

/// Prints a tab between columns, or one JSON object a line.
pub fn run(args: &RecordsArgs, global: &Global) -> CommandResult {
    let picked = args.read.open(global)?;
    let role = args.role.map(Role::from);
    let mut titles = Vec::new();
    for case in &picked.cases {
        records::each_lane(&picked.source, case.key, |lane| {
            let scale = args.outliers.then(|| lane.scale());
            let score = |record: &Record<'_>| match &scale {
                None => Some(None),
                Some(scale) => far(record, scale.as_ref()).map(Some),
            };
            let fits = |record: &Record<'_>| role.is_none_or(|role| record.role() == Some(role));
            let chosen = lane.records().filter(fits);
            let chosen = chosen.filter_map(|record| Some((record, score(&record)?)));
            let chosen = chosen.take(args.limit.unwrap_or(usize::MAX));
            let text: String = match global.json {
                true => chosen.map(|(record, z)| object(&record, z)).collect(),
                false => {
                    let head = heading(lane, args.outliers, &mut titles);
                    let lines = chosen.map(|(record, z)| line(&record, z));
                    head.into_iter().chain(lines).collect()
                }
            };
            print::raw(text.as_bytes());
            Ok::<(), SourceError>(())
        })?;
    }
    Ok(Exit::GOOD)
}

/// The score of an outlier; none for every other trial.
fn far(record: &Record<'_>, scale: Option<&Scale>) -> Option<f64> {
    let ns = record.measured_ns()? as f64;
    let scale = scale.filter(|scale| scale.is_outlier(ns))?;
    scale.score(ns)
}

fn object(record: &Record<'_>, z: Option<f64>) -> String {
    let mut value = record.to_json();
    if let (Value::Object(members), Some(z)) = (&mut value, z) {
        members.insert("z".into(), z.into());
    }
    format!("{value}\n")
}

/// Titles, unless the lane before had the same.
fn heading(lane: &LaneRecords, scored: bool, before: &mut Vec<String>) -> Option<String> {
    let leading = LEADING.iter().map(|title| (*title).to_owned());
    let score = scored.then(|| "z".to_owned());
    let titles: Vec<String> = leading.chain(score).chain(lane.labels()).collect();
    let differs = titles != *before;
    let text = format!("{}\n", titles.join("\t"));
    *before = titles;
    differs.then_some(text)
}

fn line(record: &Record<'_>, z: Option<f64>) -> String {
    let leading = record.leading().into_iter().map(|value| match value {
        Value::String(text) => text,
        Value::Null => UNKNOWN.into(),
        other => other.to_string(),
    });
    let own = record
        .own()
        .map(|cell| cell.map_or_else(|| UNKNOWN.into(), |n| n.to_string()));
    let score = z.map(|z| format!("{z:.1}"));
    let cells: Vec<String> = leading.chain(score).chain(own).collect();
    format!("{}\n", cells.join("\t"))
}
