//! `runs`: what the store holds.

use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};

use super::{open_for_reading, open_for_writing};
use crate::cli::Global;
use crate::clock;
use crate::documents;
use crate::exit::{CommandError, CommandResult, Exit};
use crate::source::Source;
use crate::store::copy::{Merged, merge_stores};
use crate::store::rows::RunRow;
use crate::store::{FOLDER, Store};
use crate::ui::busy::Busy;
use crate::ui::{cases, print, table::Table, units};

const EXAMPLES: &str = "\
examples:
  edgedyno runs
  edgedyno runs tag last before-upgrade
  edgedyno runs rm 7k2m --yes
  edgedyno runs pull /mnt/team/.edgedyno";

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
    /// Copy runs into another store, which is made when it is not there
    #[command(after_help = "examples:\n  edgedyno runs push /mnt/team/.edgedyno\n  \
        edgedyno runs push /mnt/team/.edgedyno last")]
    Push(Other),
    /// Copy runs of another store into this one
    #[command(after_help = "examples:\n  edgedyno runs pull /mnt/team/.edgedyno\n  \
        edgedyno runs pull ../other before-upgrade")]
    Pull(Other),
}

/// Two stores, and which runs.
#[derive(Debug, Clone, Args)]
pub struct Other {
    /// The folder of the other store, or one that holds it as .edgedyno
    #[arg(value_name = "DIR")]
    pub dir: PathBuf,
    /// Runs: ids, beginnings of ids, tags, or `last`; all without any
    #[arg(value_name = "RUN")]
    pub runs: Vec<String>,
}

pub fn run(args: &RunsArgs, global: &Global) -> CommandResult {
    match args.what.as_ref().unwrap_or(&What::List) {
        What::List => list(global),
        What::Show { run } => show(run, global),
        What::Tag { run, tag, remove } => tag_run(run, tag, *remove, global),
        What::Rm { runs, yes } => remove(runs, *yes, global),
        What::Push(other) => push(other, global),
        What::Pull(other) => pull(other, global),
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
    if let Some(limit) = super::read::limit(&source)? {
        print::result(format_args!("\n{limit}"));
    }
    Ok(Exit::GOOD)
}

/// Day and time as two words, so that a narrow column breaks between them.
fn created(run: &RunRow) -> String {
    let utc = documents::utc(run.created_unix_ns);
    utc.map_or_else(|| units::UNKNOWN.into(), |utc| utc.replacen('T', " ", 1))
}

fn table(store: &Store, runs: &[RunRow]) -> Result<String, CommandError> {
    let mut table = Table::new()
        .text("run")
        .text("created")
        .text("command")
        .text("status")
        .figure("cases")
        .figure("attempts")
        .text("tags")
        .text("from");
    for run in runs {
        let origin = store.origin(&run.id)?;
        let (cases, attempts) = store.counts(&run.id)?;
        table.row([
            run.id.0.clone(),
            created(run),
            run.command.clone(),
            run.status.to_string(),
            units::count(cases),
            units::count(attempts),
            run.tags.join(" "),
            origin.map_or_else(|| "here".into(), |origin| origin.source),
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

fn push(other: &Other, global: &Global) -> CommandResult {
    let from = open_for_reading(global)?;
    let into = Store::open_writing(&place_of(&other.dir))?;
    merge(&from, &into, other, global)
}

fn pull(other: &Other, global: &Global) -> CommandResult {
    let from = Store::open_reading(&place_of(&other.dir))?;
    let into = open_for_writing(global)?;
    merge(&from, &into, other, global)
}

/// The folder itself, or the store inside it.
fn place_of(dir: &Path) -> PathBuf {
    let inside = dir.join(FOLDER);
    match Store::find(Some(&inside), dir) {
        Ok(Some(found)) => found,
        _ => dir.to_owned(),
    }
}

fn merge(from: &Store, into: &Store, other: &Other, global: &Global) -> CommandResult {
    let real = |store: &Store| std::fs::canonicalize(store.dir()).ok();
    if real(from) == real(into) {
        let what = format!("{} is this store itself", other.dir.display());
        return Err(CommandError::usage(what).hint("name the folder of another store"));
    }
    let only = match other.runs.as_slice() {
        [] => None,
        names => {
            let ids = names.iter().map(|name| from.resolve(name));
            Some(ids.collect::<Result<Vec<_>, _>>()?)
        }
    };
    let done = {
        let busy = Busy::with("copying runs");
        merge_stores(from, into, only.as_deref(), clock::unix_ns(), |run| {
            busy.say(format!("copying run {run}"));
        })?
    };
    tell_conflicts(done.conflicts());
    match global.json {
        true => print::json(&documents::merged(from, into, &done)),
        false => {
            let changed = done.runs.iter().filter(|run| run.changed());
            changed.for_each(|run| print::result(merged_text(run)));
            let same = done.runs.iter().filter(|run| !run.changed()).count();
            print::result(format_args!(
                "{same} of {} runs were there already",
                done.runs.len()
            ));
        }
    }
    Ok(match done.conflicts().next() {
        Some(_) => Exit::UNEXPECTED,
        None => Exit::GOOD,
    })
}

/// What is kept on both sides because it cannot be one.
pub(super) fn tell_conflicts<'a>(conflicts: impl Iterator<Item = &'a str>) {
    for conflict in conflicts {
        print::note(format_args!("conflict: {conflict}; the store's own stays"));
    }
}

/// One line about a run that was taken in.
pub(super) fn merged_text(merged: &Merged) -> String {
    let counts = [
        (merged.cases, "case"),
        (merged.repeats, "attempt"),
        (merged.tags, "tag"),
        (merged.findings, "finding"),
        (merged.contents, "artifact"),
    ];
    let new: Vec<String> = counts
        .iter()
        .filter(|(count, _)| *count > 0)
        .map(|(count, what)| units::things(*count, what))
        .collect();
    match (merged.is_new, new.is_empty()) {
        (true, _) => format!("{}\tnew: {}", merged.run, new.join(", ")),
        (false, true) => format!("{}\twas there already", merged.run),
        (false, false) => format!("{}\tadded: {}", merged.run, new.join(", ")),
    }
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
