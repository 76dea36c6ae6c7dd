//! `export`: files made from a run.

use std::path::PathBuf;

use clap::Args;

use super::read::ReadOptions;
use crate::cli::Global;
use crate::documents;
use crate::exit::{CommandError, CommandResult, Exit};
use crate::export::{self, EXPORTERS, Exporter, Output};
use crate::near;
use crate::ui::print;

const EXAMPLES: &str = "\
examples:
  edgedyno export last --format csv --output trials.csv
  edgedyno export last --format profile --output profiles/
  edgedyno export last/3f2a --format jsonl > trials.jsonl

formats: dir (a folder of everything), profile (one JSON file a case, which can be read back),
  csv and jsonl (trials), memory (peaks of a sweep over batch or shape)";

#[derive(Debug, Clone, Args)]
#[command(after_help = EXAMPLES)]
pub struct ExportArgs {
    #[command(flatten)]
    pub read: ReadOptions,
    /// dir, profile, csv, jsonl or memory
    #[arg(long, value_name = "FORMAT")]
    pub format: String,
    /// File or folder to write; without it one file goes to standard output
    #[arg(long, short, value_name = "PATH")]
    pub output: Option<PathBuf>,
}

pub fn run(args: &ExportArgs, global: &Global) -> CommandResult {
    let exporter = export::find(&args.format).ok_or_else(|| no_such_format(&args.format))?;
    let picked = args.read.open(global)?;
    let mut output = open_output(args, exporter, global)?;
    let cases: Vec<_> = picked.cases.iter().collect();
    exporter.write(&picked.source, &cases, &mut output)?;
    if args.output.is_none() && !exporter.makes_folder() {
        return Ok(Exit::GOOD);
    }
    if global.json {
        let run = picked.source.run()?.id;
        print::json(&documents::exported(&run, exporter.name(), &output));
    } else {
        for written in output.written() {
            print::result(format_args!("{}\t{} bytes", written.name, written.bytes));
        }
    }
    Ok(Exit::GOOD)
}

fn open_output(
    args: &ExportArgs,
    exporter: &dyn Exporter,
    global: &Global,
) -> Result<Output, CommandError> {
    match &args.output {
        Some(path) => Ok(Output::at(path, exporter.makes_folder())?),
        None if exporter.makes_folder() => {
            let what = format!("format {} makes a folder", exporter.name());
            Err(CommandError::usage(what).hint("name it with --output DIR"))
        }
        None if global.json => {
            let what = "with --json the files written are listed, so they need a place";
            Err(CommandError::usage(what).hint("name it with --output PATH"))
        }
        None => Ok(Output::stream(print::stream())),
    }
}

fn no_such_format(name: &str) -> CommandError {
    let names: Vec<&str> = EXPORTERS.iter().map(|exporter| exporter.name()).collect();
    let near = near::matches(name, names.iter().copied());
    let error = CommandError::usage(format!("there is no format `{name}`"));
    error.hint(match near.first() {
        Some(near) => format!("did you mean {near}?"),
        None => format!("there are {}", names.join(", ")),
    })
}
