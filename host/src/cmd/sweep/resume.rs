//! `--resume`: an unfinished sweep, read back from the store; and noticing that there is one.

use std::collections::{BTreeMap, BTreeSet};

use edgedyno_shared::case::{Case, NamedShape};
use edgedyno_shared::device::DeviceInfo;
use edgedyno_shared::ids::{RunId, Sha256};

use super::prepare::{Library, Planned, Prepared};
use super::record::{self, Recorded};
use crate::cli::Global;
use crate::cmd::run::inventory::{Inquiry, find_board};
use crate::cmd::run::resume::{contents, refuse_imported};
use crate::cmd::{block_on, open_for_reading};
use crate::exit::CommandError;
use crate::findings::sweep::SHAPE_ALIGNED;
use crate::options::lease::LeaseOptions;
use crate::plan::axes::case_key;
use crate::plan::fixed::Conduct;
use crate::store::rows::{CaseEntry, FindingRow, RunRow, RunStatus};
use crate::store::{Store, StoreError};

/// The sweep of that name, as far as it is still to be measured.
pub(super) fn resume(name: &str, global: &Global) -> Result<(Prepared, RunId), CommandError> {
    let store = open_for_reading(global)?;
    let id = store.resolve(name)?;
    let run = store.run(&id)?;
    if run.command != "sweep" && run.command != "rerun" {
        let what = format!("run {id} was made by `edgedyno {}`", run.command);
        return Err(
            CommandError::usage(what).hint(crate::cmd::run::resume::resumed_by(&run.command))
        );
    }
    refuse_imported(&store, &id)?;
    if run.status == RunStatus::Complete {
        let what = format!("sweep {id} is complete");
        return Err(CommandError::usage(what).hint(format!("`edgedyno summary {id}` shows it")));
    }
    Ok((recall(&store, &run, None)?, id))
}

/// A stored run as a plan, on another board where one is named; contents must still be those that were
/// measured.
pub(in crate::cmd) fn recall(
    store: &Store,
    run: &RunRow,
    board: Option<&str>,
) -> Result<Prepared, CommandError> {
    let id = &run.id;
    let Recorded {
        name,
        seed,
        repeats,
        mut schedule,
        references,
        tolerance,
        mut libraries,
        goal,
        slo,
    } = record::read(&run.plan).ok_or_else(|| {
        CommandError::usage(format!("run {id} keeps no plan of a sweep"))
            .hint("`edgedyno runs list` tells what each run was made by")
    })?;
    let entries = store.cases(id)?;
    let Some(first) = entries.first() else {
        let what = format!("sweep {id} stopped before it had a case");
        return Err(CommandError::usage(what).hint("start it again without --resume"));
    };
    let conduct = Conduct {
        repeats,
        rules: first.rules.rules(),
        limits: first.rules.limits(),
        cold: first.rules.cold.into(),
        outputs: first.rules.outputs(),
        telemetry: first.rules.telemetry.into(),
        preparation: first.rules.preparation(),
        seed,
    };
    // A plan of `run` names one library, that of the one backend of its cases.
    libraries.extend(run.plan["library"].as_str().map(|path| Library {
        board: first.case.board.clone(),
        backend: first.case.backend.clone(),
        path: path.to_owned(),
    }));
    let mut cases: Vec<Planned> = entries.iter().map(|entry| planned(entry, board)).collect();
    for (at, shape) in aligned(store, id, &entries)? {
        cases[at].aligned_from.push(shape);
    }
    let keys: BTreeMap<Sha256, Sha256> = entries
        .iter()
        .map(|e| e.key)
        .zip(cases.iter().map(|c| c.key))
        .collect();
    let moved = |key: Sha256| keys.get(&key).copied().unwrap_or(key);
    if let Some(sentinel) = &mut schedule.sentinel {
        sentinel.case = moved(sentinel.case);
    }
    if let Some(recovery) = &mut schedule.recovery {
        recovery.case = moved(recovery.case);
    }
    if let Some(board) = board {
        libraries
            .iter_mut()
            .for_each(|library| board.clone_into(&mut library.board));
    }
    let boards: BTreeSet<&str> = cases.iter().map(|c| c.case.board.as_str()).collect();
    let devices = ask(&boards, &libraries)?;
    Ok(Prepared {
        name,
        devices,
        cases,
        conduct,
        schedule,
        references: references.map(|all| all.into_iter().map(moved).collect()),
        tolerance,
        goal,
        slo,
        contents: contents(&run.plan)?,
        unpacked: Vec::new(),
        libraries,
        note: None,
        lease: LeaseOptions::default(),
    })
}

/// A stored case, which has another key on another board.
fn planned(entry: &CaseEntry, board: Option<&str>) -> Planned {
    let mut case = Case::from(&entry.case);
    let key = match board {
        None => entry.key,
        Some(board) => {
            board.clone_into(&mut case.board);
            case_key(&case)
        }
    };
    Planned {
        key,
        case,
        aligned_from: Vec::new(),
    }
}

/// Shapes that were brought to a multiple, as they were asked for, by the number of their case.
fn aligned(
    store: &Store,
    run: &RunId,
    entries: &[CaseEntry],
) -> Result<Vec<(usize, NamedShape)>, CommandError> {
    let numbers: BTreeMap<Sha256, usize> = entries.iter().map(|e| e.key).zip(0..).collect();
    let notes = store.findings(run)?.into_iter();
    let notes = notes.filter(|(_, note)| note.code == SHAPE_ALIGNED);
    let shape = |(case, note): (Option<Sha256>, FindingRow)| {
        let at = *numbers.get(&case?)?;
        let dims = note.figures["requested"].as_str()?.split('x');
        let shape = NamedShape {
            input: note.figures["input"].as_str()?.to_owned(),
            dims: dims.map(|size| size.parse().ok()).collect::<Option<_>>()?,
        };
        Some((at, shape))
    };
    Ok(notes.filter_map(shape).collect())
}

/// Asks boards again, and lets each look at the libraries that its cases name.
pub(in crate::cmd) fn ask(
    boards: &BTreeSet<&str>,
    libraries: &[Library],
) -> Result<BTreeMap<String, DeviceInfo>, CommandError> {
    let mut devices = BTreeMap::new();
    for name in boards {
        let board = find_board(name)?;
        let device = block_on(async {
            let mut inquiry = Inquiry::open(&board).await?;
            for library in libraries.iter().filter(|library| library.board == *name) {
                inquiry
                    .probe(&library.backend, library.path.as_ref())
                    .await?;
            }
            inquiry.device().await
        })?;
        devices.insert((*name).to_owned(), device);
    }
    Ok(devices)
}

/// An unfinished sweep of the same plan, newest first, with the attempts it has.
pub(super) fn unfinished(
    prepared: &Prepared,
    global: &Global,
) -> Result<Option<(RunId, u64)>, CommandError> {
    let here = crate::cmd::here()?;
    let dir = Store::find_or_new(global.store(), &here);
    let store = match Store::open_reading(&dir) {
        Ok(store) => store,
        // There is none yet: this sweep is about to make it.
        Err(StoreError::NotReadable { .. }) => return Ok(None),
        Err(other) => return Err(other.into()),
    };
    let plan = record::plan_value(prepared);
    let is_same = |run: &RunRow| {
        let open = matches!(
            run.status,
            RunStatus::Running | RunStatus::Interrupted | RunStatus::Failed
        );
        open && run.command == "sweep" && run.plan["fingerprint"] == plan["fingerprint"]
    };
    let is_own = |run: &RunRow| store.origin(&run.id).is_ok_and(|origin| origin.is_none());
    let found = store
        .runs()?
        .into_iter()
        .find(|run| is_same(run) && is_own(run));
    let Some(run) = found else { return Ok(None) };
    let (_, attempts) = store.counts(&run.id)?;
    Ok(Some((run.id, attempts)))
}
