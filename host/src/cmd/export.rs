//! `export`: files made from a run.

use std::collections::BTreeSet;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use clap::{ArgGroup, Args, ValueEnum};

use super::read::ReadOptions;
use crate::bundle::Wish;
use crate::cli::Global;
use crate::documents;
use crate::exit::{CommandError, CommandResult, Exit};
use crate::export::{self, EXPORTERS, ExportError, Exporter, Output};
use crate::near;
use crate::source::{Opened, Source};
use crate::ui::busy::Busy;
use crate::ui::print;

const EXAMPLES: &str = "\
examples:
  edgedyno export last --format csv --output trials.csv
  edgedyno export last --bundle run.tar.gz
  edgedyno export last --format profile --output profiles/
  edgedyno export last/3f2a --format jsonl > trials.jsonl

A bundle is a whole run as one file for `edgedyno import`, its report included. Names of hosts,
users, folders and boards, serial numbers and prompts are left out of it, unless --private asks
for them.

formats: dir (a folder of everything), profile (one JSON file a case, which can be read back),
  csv, jsonl and parquet (trials; parquet with telemetry), memory (peaks of a sweep over batch or
  shape), contention (slowdown by load), monitor (figures for people), openmetrics (for monitoring)";

#[derive(Debug, Clone, Args)]
#[command(after_help = EXAMPLES)]
#[command(group(ArgGroup::new("made").args(["format", "bundle"]).required(true)))]
pub struct ExportArgs {
    #[command(flatten)]
    pub read: ReadOptions,
    /// dir, profile, csv, jsonl, parquet, memory, contention, monitor or openmetrics
    #[arg(long, value_name = "FORMAT")]
    pub format: Option<String>,
    /// Write the whole run as one file that `edgedyno import` takes in
    #[arg(long, value_name = "FILE", conflicts_with_all = ["output", "case"])]
    pub bundle: Option<PathBuf>,
    /// Leave private facts in the bundle: hosts, users, folders, serial numbers, prompts, boards
    #[arg(long, conflicts_with = "format")]
    pub private: bool,
    /// What else the bundle holds: outputs, models, boards (their names); may be a list
    #[arg(
        long,
        value_name = "WHAT",
        value_enum,
        value_delimiter = ',',
        conflicts_with = "format"
    )]
    pub with: Vec<With>,
    /// Leave the report out of the bundle
    #[arg(long, conflicts_with = "format")]
    pub no_report: bool,
    /// File or folder to write; without it one file goes to standard output
    #[arg(long, short, value_name = "PATH")]
    pub output: Option<PathBuf>,
}

pub fn run(args: &ExportArgs, global: &Global) -> CommandResult {
    if let Some(path) = &args.bundle {
        return bundle(args, path, global);
    }
    let format = args.format.as_deref().unwrap_or_default();
    let exporter = export::find(format).ok_or_else(|| no_such_format(format))?;
    let picked = args.read.open(global)?;
    let mut output = open_output(args, exporter, global)?;
    let cases: Vec<_> = picked.cases.iter().collect();
    match exporter.write(&picked.source, &cases, &mut output) {
        // Whoever reads along has seen enough, as `head` has.
        Err(ExportError::NotWritable { source, .. })
            if args.output.is_none() && source.kind() == ErrorKind::BrokenPipe => {}
        written => written?,
    }
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

/// What a bundle holds beside the usual.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum With {
    /// Bytes of saved outputs
    Outputs,
    /// The model files
    Models,
    /// The names of boards
    Boards,
}

fn bundle(args: &ExportArgs, path: &Path, global: &Global) -> CommandResult {
    let here = super::here()?;
    let Opened { source, key } = Source::open(&args.read.run, global.store(), &here)?;
    if key.is_some() {
        let what = "a bundle holds a whole run";
        return Err(CommandError::usage(what)
            .hint("leave the case out: `edgedyno export RUN --bundle FILE`"));
    }
    let Source::Stored { store, run } = source else {
        let what = format!(
            "{} is a profile, and a bundle is made of a stored run",
            args.read.run
        );
        return Err(CommandError::usage(what).hint("a profile is one file already"));
    };
    let has = |what: With| args.with.contains(&what);
    let wish = Wish {
        private: args.private,
        outputs: has(With::Outputs),
        models: has(With::Models),
        report: !args.no_report,
    };
    let devices = store.devices(&run)?.into_iter().map(|(name, _)| name);
    let cases = store.cases(&run)?.into_iter().map(|case| case.case.board);
    let boards: BTreeSet<String> = devices.chain(cases).collect();
    let boards: Vec<String> = boards.into_iter().collect();
    let words = crate::bundle::words(&boards, args.private || has(With::Boards));
    let made = {
        let _busy = Busy::with(format!("bundling run {run}"));
        crate::bundle::write(&store, &run, &wish, &words, path)?
    };
    if global.json {
        print::json(&documents::bundled(path, &made));
        return Ok(Exit::GOOD);
    }
    print::result(format_args!("{}\t{} bytes", path.display(), made.bytes));
    for left in &made.manifest.left_out {
        let text = |name: &str| left[name].as_str().unwrap_or_default();
        print::note(format_args!(
            "left out: {} ({}, {}x)",
            text("what"),
            text("at"),
            left["count"]
        ));
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Whether the command line takes these words behind `export last`.
    fn takes(words: &str) -> bool {
        let command = ExportArgs::augment_args(clap::Command::new("export"));
        let line = ["export", "last"].into_iter();
        let line = line.chain(words.split_whitespace());
        command.try_get_matches_from(line).is_ok()
    }

    #[test]
    fn either_a_format_or_a_bundle_is_made_and_its_options_are_its_own() {
        for good in [
            "--format csv",
            "--format dir --output folder",
            "--bundle a.tar.gz",
            "--bundle a.tar.gz --private --with outputs,models --no-report",
        ] {
            assert!(takes(good), "{good}");
        }
        for wrong in [
            "",
            "--private",
            "--format csv --bundle a.tar.gz",
            "--format csv --private",
            "--format csv --with outputs",
            "--format csv --no-report",
            "--bundle a.tar.gz --output b",
            "--bundle a.tar.gz --case threads=2",
        ] {
            assert!(!takes(wrong), "{wrong}");
        }
    }
}
