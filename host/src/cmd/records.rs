//! `records`: trials one by one.

use clap::{Args, ValueEnum};
use edgedyno_shared::columns::Role;
use serde_json::Value;

use super::read::ReadOptions;
use crate::cli::Global;
use crate::exit::{CommandResult, Exit};
use crate::records::{self, LEADING, LaneRecords, Record};
use crate::source::SourceError;
use crate::ui::{print, units::UNKNOWN};

const EXAMPLES: &str = "\
examples:
  edgedyno records last --role measure
  edgedyno records last/3f2a --json | jq .latency_ms";

#[derive(Debug, Clone, Args)]
#[command(after_help = EXAMPLES)]
pub struct RecordsArgs {
    #[command(flatten)]
    pub read: ReadOptions,
    /// Only trials of this role
    #[arg(long, value_name = "ROLE")]
    pub role: Option<RoleChoice>,
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
            let fits = |record: &Record<'_>| role.is_none_or(|role| record.role() == Some(role));
            let chosen = lane.records().filter(fits);
            let chosen = chosen.take(args.limit.unwrap_or(usize::MAX));
            let text: String = match global.json {
                true => chosen
                    .map(|record| format!("{}\n", record.to_json()))
                    .collect(),
                false => {
                    let head = heading(lane, &mut titles);
                    head.into_iter().chain(chosen.map(|r| line(&r))).collect()
                }
            };
            print::raw(text.as_bytes());
            Ok::<(), SourceError>(())
        })?;
    }
    Ok(Exit::GOOD)
}

/// Titles, unless the lane before had the same.
fn heading(lane: &LaneRecords, before: &mut Vec<String>) -> Option<String> {
    let leading = LEADING.iter().map(|title| (*title).to_owned());
    let titles: Vec<String> = leading.chain(lane.labels()).collect();
    let differs = titles != *before;
    let text = format!("{}\n", titles.join("\t"));
    *before = titles;
    differs.then_some(text)
}

fn line(record: &Record<'_>) -> String {
    let leading = record.leading().into_iter().map(|value| match value {
        Value::String(text) => text,
        Value::Null => UNKNOWN.into(),
        other => other.to_string(),
    });
    let own = record
        .own()
        .map(|cell| cell.map_or_else(|| UNKNOWN.into(), |n| n.to_string()));
    let cells: Vec<String> = leading.chain(own).collect();
    format!("{}\n", cells.join("\t"))
}
