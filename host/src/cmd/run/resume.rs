//! `--resume`: the plan of an unfinished run, read back from the store.

use std::path::PathBuf;

use edgedyno_shared::case::Case;
use edgedyno_shared::ids::{RunId, Sha256};
use serde_json::Value;

use super::inventory::{Inquiry, find_board};
use super::prepare::Prepared;
use crate::board::content::Content;
use crate::cli::Global;
use crate::cmd::{block_on, open_for_reading};
use crate::exit::CommandError;
use crate::model::identify::identify;
use crate::plan::fixed::Conduct;
use crate::plan::schedule::Schedule;
use crate::store::Store;
use crate::store::rows::{CaseEntry, RunStatus};

/// What goes on with a run of another command.
pub(crate) fn resumed_by(command: &str) -> String {
    match command {
        "run" | "sweep" => format!("`edgedyno {command} --resume` goes on with it"),
        "rerun" => "`edgedyno sweep --resume` goes on with it".into(),
        _ => format!(
            "`edgedyno {command}` cannot be gone on with: start it again; what was measured stays, \
             `edgedyno summary` shows it"
        ),
    }
}

/// Reads the plan of that run; contents must still be those that were measured.
pub(super) fn resume(name: &str, global: &Global) -> Result<(Prepared, RunId), CommandError> {
    let store = open_for_reading(global)?;
    let id = store.resolve(name)?;
    let run = store.run(&id)?;
    if run.command != "run" {
        let what = format!("run {id} was made by `edgedyno {}`", run.command);
        return Err(CommandError::usage(what).hint(resumed_by(&run.command)));
    }
    refuse_imported(&store, &id)?;
    if run.status == RunStatus::Complete {
        let what = format!("run {id} is complete");
        return Err(CommandError::usage(what).hint(format!("`edgedyno summary {id}` shows it")));
    }
    let entries = store.cases(&id)?;
    let Some(first) = entries.first() else {
        let what = format!("run {id} stopped before it had a case");
        return Err(CommandError::usage(what).hint("start it again without --resume"));
    };
    let contents = contents(&run.plan)?;
    let library = run.plan["library"].as_str().map(str::to_owned);
    let board_name = first.case.board.clone();
    let board = find_board(&board_name)?;
    let backend = first.case.backend.clone();
    let device = block_on(async {
        let mut inquiry = Inquiry::open(&board).await?;
        if let Some(library) = &library {
            inquiry.probe(&backend, library.as_ref()).await?;
        }
        inquiry.device().await
    })?;
    let prepared = Prepared {
        board: board_name,
        device,
        cases: entries
            .iter()
            .map(|entry| Case::from(&entry.case))
            .collect(),
        conduct: conduct(first, &run.plan),
        schedule: Schedule::default(),
        contents,
        unpacked: Vec::new(),
        library,
        save_outputs: run.plan["save_outputs"].as_str().map(PathBuf::from),
        built_in_note: None,
    };
    Ok((prepared, id))
}

/// Repeats of two machines in one run would be compared as if they were of one.
pub(in crate::cmd) fn refuse_imported(store: &Store, run: &RunId) -> Result<(), CommandError> {
    match store.origin(run)? {
        None => Ok(()),
        Some(origin) => {
            let what = format!(
                "run {run} was not measured here: it came from {}",
                origin.source
            );
            Err(CommandError::usage(what)
                .hint(format!("`edgedyno rerun {run}` measures its plan anew")))
        }
    }
}

fn conduct(entry: &CaseEntry, plan: &Value) -> Conduct {
    Conduct {
        repeats: entry.rules.repeats.unwrap_or(1),
        rules: entry.rules.rules(),
        limits: entry.rules.limits(),
        cold: entry.rules.cold.into(),
        outputs: entry.rules.outputs(),
        telemetry: entry.rules.telemetry.into(),
        preparation: entry.rules.preparation(),
        seed: plan["order_seed"].as_u64().unwrap_or_default(),
    }
}

/// Finds the files of the plan again and sees that they are the same.
pub(in crate::cmd) fn contents(plan: &Value) -> Result<Vec<Content>, CommandError> {
    let listed = plan["contents"].as_array().cloned().unwrap_or_default();
    let mut out = Vec::with_capacity(listed.len());
    for content in &listed {
        let sha256 = content["sha256"].as_str().unwrap_or_default();
        let sha256: Sha256 = sha256.parse().map_err(anyhow::Error::from)?;
        let files = content["files"].as_array().cloned().unwrap_or_default();
        let text =
            |file: &Value, member: &str| file[member].as_str().unwrap_or_default().to_owned();
        let files: Vec<(String, PathBuf)> = files
            .iter()
            .map(|file| (text(file, "name"), text(file, "path").into()))
            .collect();
        let path = files
            .first()
            .map(|(_, path)| path.clone())
            .unwrap_or_default();
        if path.as_os_str().is_empty() {
            let name = files.first().map_or("", |(name, _)| name);
            let what = format!("the plan does not say where `{name}` lies: it came in a bundle");
            return Err(CommandError::usage(what).hint("measure the model by its own name"));
        }
        let now = identify(&path)?;
        if *now.sha256.as_bytes() != sha256.0 {
            let what = format!("`{}` is not what it was when the run began", path.display());
            return Err(CommandError::usage(what).hint("start a new run"));
        }
        out.push(Content { sha256, files });
    }
    Ok(out)
}
