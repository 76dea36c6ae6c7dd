//! `trace`: what happened when, for trace viewers.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use serde_json::json;

use super::read::ReadOptions;
use crate::cli::Global;
use crate::exit::{CommandError, CommandResult, Exit};
use crate::export::{ExportError, Output};
use crate::trace::{chrome, gather, perfetto};
use crate::ui::print;

const EXAMPLES: &str = "\
examples:
  edgedyno trace last
  edgedyno trace last --case threads=2 --output slow.perfetto-trace
  edgedyno trace last --format chrome --output trace.json

https://ui.perfetto.dev opens both forms, in the browser and without sending them anywhere";

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Format {
    Perfetto,
    Chrome,
}

#[derive(Debug, Clone, Args)]
#[command(after_help = EXAMPLES)]
pub struct TraceArgs {
    #[command(flatten)]
    pub read: ReadOptions,
    /// perfetto (protobuf) or chrome (JSON)
    #[arg(long, value_name = "FORMAT", default_value = "perfetto")]
    pub format: Format,
    /// The file to write [default: trace.perfetto-trace or trace.json]
    #[arg(long, short, value_name = "FILE")]
    pub output: Option<PathBuf>,
}

pub fn run(args: &TraceArgs, global: &Global) -> CommandResult {
    let picked = args.read.open(global)?;
    let usual = match args.format {
        Format::Perfetto => "trace.perfetto-trace",
        Format::Chrome => "trace.json",
    };
    let path = args.output.clone().unwrap_or_else(|| usual.into());
    let mut output = Output::at(&path, false)?;
    let trace = gather(&picked.source, &picked.cases)?;
    if trace.groups.is_empty() {
        let what = "no repeat reached a worker, so there is nothing to trace";
        return Err(CommandError::new(Exit::NOTHING_MEASURED, what)
            .hint("`edgedyno summary RUN` says what went wrong"));
    }
    let bytes = match args.format {
        Format::Perfetto => perfetto(&trace),
        Format::Chrome => chrome(&trace).to_string().into_bytes(),
    };
    output.file(usual, |to| {
        to.write_all(&bytes)
            .map_err(|source| ExportError::NotWritable {
                path: path.clone(),
                source,
            })
    })?;
    let tracks: usize = trace.groups.iter().map(|group| group.tracks.len()).sum();
    match global.json {
        true => print::json(&json!({
            "document": "edgedyno/trace/1",
            "file": path,
            "bytes": bytes.len(),
            "repeats_count": trace.groups.len(),
            "tracks_count": tracks,
        })),
        false => print::result(format_args!("{}\t{} bytes", path.display(), bytes.len())),
    }
    Ok(Exit::GOOD)
}
