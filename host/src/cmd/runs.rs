//! `runs`: what the store holds.

use clap::{Args, Subcommand};

use super::{open_for_reading, open_for_writing};
use crate::cli::Global;
use crate::documents;
use crate::exit::{CommandError, CommandResult, Exit};
use crate::source::Source;
use crate::store::Store;
use crate::store::rows::RunRow;
use crate::ui::{cases, print, table::Table, units};

const EXAMPLES: &str = "\
examples:
  edgedyno runs
  edgedyno runs tag last before-upgrade
  edgedyno runs rm 7k2m --yes";

#[derive(Debug, Clone, Args)]
#[command(after_help = EXAMPLES)]
pub struct RunsArgs {
    /// Without one, all runs are listed
    #[command(subcommand)]
    pub what: Option<What>,
}

#[derive(Debug, Clone, Subcommand)]
pub enum What {
    /// All runs, newest first
    #[command(after_help = "example:\n  edgedyno runs list --json")]
    List,
    /// One run and its cases
    #[command(after_help = "example:\n  edgedyno runs show last")]
    Show {
        /// The run: its id, the beginning of it, a tag, or `last`
        run: String,
    },
    /// Name a run
    #[command(after_help = "example:\n  edgedyno runs tag last before-upgrade")]
    Tag {
        /// The run: its id, the beginning of it, a tag, or `last`
        run: String,
        /// The name
        tag: String,
        /// Take the name off instead
        #[arg(long)]
        remove: bool,
    },
    /// Remove runs with all they measured
    #[command(after_help = "example:\n  edgedyno runs rm 7k2m9x0abc --yes")]
    Rm {
        /// Runs: ids, beginnings of ids, tags, or `last`
        #[arg(required = true)]
        runs: Vec<String>,
        /// Do not ask
        #[arg(long)]
        yes: bool,
    },
}

pub fn run(args: &RunsArgs, global: &Global) -> CommandResult {
    match args.what.as_ref().unwrap_or(&What::List) {
        What::List => list(global),
        What::Show { run } => show(run, global),
        What::Tag { run, tag, remove } => tag_run(run, tag, *remove, global),
        What::Rm { runs, yes } => remove(runs, *yes, global),
    }
}

fn list(global: &Global) -> CommandResult {
    let store = open_for_reading(global)?;
    let runs = store.runs()?;
    if global.json {
        print::json(&documents::runs(&store, &runs)?);
        return Ok(Exit::GOOD);
    }
    print::result(table(&store, &runs)?);
    Ok(Exit::GOOD)
}

fn show(name: &str, global: &Global) -> CommandResult {
    let store = open_for_reading(global)?;
    let run = store.run(&store.resolve(name)?)?;
    let source = Source::Stored {
        store: open_for_reading(global)?,
        run: run.id.clone(),
    };
    let summaries = super::read::summaries(&source, &source.cases()?)?;
    if global.json {
        print::json(&documents::run(&store, &run, &summaries)?);
        return Ok(Exit::GOOD);
    }
    let table = table(&store, std::slice::from_ref(&run))?;
    print::result(format_args!("{table}\n\n{}\n", run.argv.join(" ")));
    print::result(cases::text(&summaries));
    Ok(Exit::GOOD)
}

fn table(store: &Store, runs: &[RunRow]) -> Result<String, CommandError> {
    let mut table = Table::new()
        .text("run")
        .text("created")
        .text("command")
        .text("status")
        .figure("cases")
        .figure("attempts")
        .text("tags");
    for run in runs {
        let (cases, attempts) = store.counts(&run.id)?;
        table.row([
            run.id.0.clone(),
            documents::utc(run.created_unix_ns).unwrap_or_else(|| units::UNKNOWN.into()),
            run.command.clone(),
            run.status.to_string(),
            units::count(cases),
            units::count(attempts),
            run.tags.join(" "),
        ]);
    }
    Ok(table.render())
}

fn tag_run(name: &str, tag: &str, remove: bool, global: &Global) -> CommandResult {
    let store = open_for_change(global)?;
    let id = store.resolve(name)?;
    if remove && !store.untag(&id, tag)? {
        let what = format!("run {id} has no tag `{tag}`");
        return Err(CommandError::usage(what).hint(format!("`edgedyno runs show {id}` lists them")));
    }
    if !remove {
        store.tag(&id, tag)?;
    }
    say_runs(&store, &[store.run(&id)?], global)
}

fn remove(names: &[String], yes: bool, global: &Global) -> CommandResult {
    let store = open_for_change(global)?;
    let mut runs = Vec::new();
    for name in names {
        let run = store.run(&store.resolve(name)?)?;
        if !runs.contains(&run) {
            runs.push(run);
        }
    }
    let ids: Vec<&str> = runs.iter().map(|run| run.id.0.as_str()).collect();
    let question = format!("remove {} with all they measured?", ids.join(", "));
    if !yes && !print::confirm(&question) {
        let what = format!("{} not removed", ids.join(", "));
        return Err(CommandError::usage(what).hint("add --yes to remove without a question"));
    }
    let document = documents::runs(&store, &runs)?;
    for run in &runs {
        store.remove_run(&run.id)?;
    }
    match global.json {
        true => print::json(&document),
        false => print::result(format_args!("removed {}", ids.join(", "))),
    }
    Ok(Exit::GOOD)
}

fn say_runs(store: &Store, runs: &[RunRow], global: &Global) -> CommandResult {
    match global.json {
        true => print::json(&documents::runs(store, runs)?),
        false => print::result(table(store, runs)?),
    }
    Ok(Exit::GOOD)
}

/// A store to change must be there: nothing is made of a mistyped place.
fn open_for_change(global: &Global) -> Result<Store, CommandError> {
    drop(open_for_reading(global)?);
    open_for_writing(global)
}
