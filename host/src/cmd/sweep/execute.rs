//! Driving a sweep: one driver for each board, all at once, into one store.

use edgedyno_shared::ids::{RunId, Sha256};
use edgedyno_shared::order::OrderKey;
use serde_json::{Map, json};

use super::finish;
use super::prepare::{Planned, Prepared};
use super::record;
use crate::board::Board;
use crate::board::content::Content;
use crate::cli::Global;
use crate::cmd::run::execute::{Begin, built_in_finding, new_run};
use crate::cmd::run::inventory::find_board;
use crate::cmd::{block_on, open_for_writing};
use crate::drive::interrupts::Interrupts;
use crate::drive::parallel::{Job, side_by_side};
use crate::drive::{self, DriveEnd, DriveEvent, Driver, LeaseWish, Plan};
use crate::exit::CommandError;
use crate::findings::sweep::SHAPE_ALIGNED;
use crate::guard;
use crate::plan::axes::{dims, match_key};
use crate::plan::fixed::StaticPlan;
use crate::plan::goal::Goal;
use crate::plan::optimize::OptimizePlan;
use crate::plan::{Planner, schedule};
use crate::source::Source;
use crate::store::rows::{FindingRow, RunStatus};
use crate::store::{FirstRows, NewCase, Store};
use crate::ui::progress::ProgressLines;

/// What became of a sweep.
pub(in crate::cmd) struct Swept {
    pub(in crate::cmd) source: Source,
    pub(in crate::cmd) end: DriveEnd,
    /// Why a board could not be driven to the end of its cases; those of other boards are stored.
    pub(in crate::cmd) failed: Option<CommandError>,
}

/// Measures what is not yet measured, and leaves findings and status with the run.
pub(in crate::cmd) fn execute(
    prepared: &Prepared,
    how: &Begin<'_>,
    global: &Global,
) -> Result<Swept, CommandError> {
    let mut store = open_for_writing(global)?;
    for file in &prepared.unpacked {
        file.write().map_err(|why| {
            let what = format!("`{}` cannot be written", file.path.display());
            CommandError::usage(what)
                .because(why)
                .hint("choose another place with --store DIR")
        })?;
    }
    let run = match how {
        Begin::Resume(run) => run.clone(),
        Begin::New { command, tags } => begin(&store, prepared, command, tags)?,
    };
    store.set_run_status(&run, RunStatus::Running)?;
    let (end, failed) = match drive_all(&mut store, &run, prepared) {
        Ok(ends) => sum_up(ends),
        Err(why) => (DriveEnd::Complete, Some(why)),
    };
    let kept = finish::finish(&store, &run, prepared, end);
    let status = match (&failed, end, &kept) {
        (Some(_), ..) => RunStatus::Failed,
        (None, DriveEnd::Interrupted, _) | (None, _, Ok(finish::Rest::Some)) => {
            RunStatus::Interrupted
        }
        _ => RunStatus::Complete,
    };
    let status = store.set_run_status(&run, status);
    if failed.is_none() {
        kept?;
        status?;
    }
    Ok(Swept {
        source: Source::Stored { store, run },
        end,
        failed,
    })
}

/// Boards together: one that was interrupted interrupts the sweep, one that failed fails it.
fn sum_up(ends: Vec<Result<DriveEnd, CommandError>>) -> (DriveEnd, Option<CommandError>) {
    let mut end = DriveEnd::Complete;
    let mut failed = None;
    for of_board in ends {
        match of_board {
            Ok(DriveEnd::Complete) => {}
            Ok(DriveEnd::Interrupted) => end = DriveEnd::Interrupted,
            Err(why) => failed = failed.or(Some(why)),
        }
    }
    (end, failed)
}

fn begin(
    store: &Store,
    prepared: &Prepared,
    command: &str,
    tags: &[String],
) -> Result<RunId, CommandError> {
    let rules = record::rules_row(prepared);
    let cases = prepared.cases.iter().map(|planned| NewCase {
        key: planned.key,
        match_key: match_key(&planned.case),
        case: &planned.case,
        rules: rules.clone(),
    });
    let mut findings: Vec<(Option<Sha256>, FindingRow)> = Vec::new();
    findings.extend(
        prepared
            .note
            .as_deref()
            .map(|note| (None, built_in_finding(note))),
    );
    findings.extend(prepared.cases.iter().flat_map(aligned));
    let devices = prepared.devices.iter();
    let first = FirstRows {
        cases: cases.collect(),
        devices: devices
            .map(|(board, device)| (board.as_str(), device))
            .collect(),
        findings,
    };
    new_run(store, command, tags, record::plan_value(prepared), &first)
}

/// What was asked for and what is measured instead, where they differ.
fn aligned(planned: &Planned) -> impl Iterator<Item = (Option<Sha256>, FindingRow)> {
    planned.aligned_from.iter().filter_map(|asked| {
        let taken = planned.case.shapes.iter();
        let taken = taken.into_iter().find(|shape| shape.input == asked.input)?;
        let (asked_dims, taken) = (dims(&asked.dims), dims(&taken.dims));
        let text = format!(
            "shape of {} is {taken}, asked for was {asked_dims}",
            asked.input
        );
        let figures = Map::from_iter([
            ("input".to_owned(), json!(asked.input)),
            ("requested".to_owned(), json!(asked_dims)),
            ("effective".to_owned(), json!(taken)),
        ]);
        Some((
            Some(planned.key),
            guard::finding(SHAPE_ALIGNED, text, figures),
        ))
    })
}

/// One board's share of the cases.
pub(super) fn planner(run: &RunId, prepared: &Prepared, board: &str) -> StaticPlan {
    let cases = prepared
        .cases
        .iter()
        .filter(|planned| planned.case.board == board);
    let cases = cases.map(|planned| (planned.key, planned.case.clone()));
    let schedule: schedule::Schedule = prepared.schedule.clone();
    StaticPlan::scheduled(run, cases.collect(), prepared.conduct.clone(), schedule)
}

/// The same as a search for a goal.
pub(super) fn search(run: &RunId, prepared: &Prepared, board: &str, goal: &Goal) -> OptimizePlan {
    let cases = prepared
        .cases
        .iter()
        .filter(|planned| planned.case.board == board);
    let cases = cases.map(|planned| (planned.key, planned.case.clone()));
    let (conduct, schedule) = (prepared.conduct.clone(), prepared.schedule.clone());
    OptimizePlan::new(run, cases.collect(), conduct, schedule, goal.clone())
}

fn drive_all(
    store: &mut Store,
    run: &RunId,
    prepared: &Prepared,
) -> Result<Vec<Result<DriveEnd, CommandError>>, CommandError> {
    let contents = &prepared.contents;
    let done = drive::recall(store, run)?;
    let mut lines = Vec::new();
    let mut jobs: Vec<Job<'_, Result<DriveEnd, CommandError>>> = Vec::new();
    for name in prepared.devices.keys() {
        let planner = planner(run, prepared, name);
        let total = planner.total().unwrap_or(0);
        let is_done = |key: &OrderKey| done.ended().contains_key(key);
        lines.push((name.as_str(), total, planner.keys().filter(is_done).count()));
        let planner: Box<dyn Planner + Send> = match &prepared.goal {
            Some(goal) => Box::new(search(run, prepared, name, goal)),
            None => Box::new(planner),
        };
        let (board, dir) = (find_board(name)?, store.dir().to_owned());
        let (run, contents) = (run.clone(), contents.clone());
        jobs.push(Box::new(move |tell| {
            // Each driver has a connection of its own; SQLite lets them write in turn.
            let mut store = Store::open_writing(&dir)?;
            drive_one(&board, &mut store, &run, planner, contents, tell)
        }));
    }
    let window = prepared.conduct.rules.measure.duration;
    let mut lines = ProgressLines::new(lines, window);
    let mut tell = |board: usize, event: DriveEvent| lines.tell(board, &event);
    Ok(side_by_side(jobs, &mut tell))
}

fn drive_one(
    board: &impl Board,
    store: &mut Store,
    run: &RunId,
    mut planner: Box<dyn Planner + Send>,
    contents: Vec<Content>,
    tell: &mut dyn FnMut(DriveEvent),
) -> Result<DriveEnd, CommandError> {
    block_on(async {
        let mut interrupts = Interrupts::listen().map_err(anyhow::Error::from)?;
        let plan = Plan {
            run: run.clone(),
            planner: planner.as_mut(),
            contents,
            lease: LeaseWish::plain(),
        };
        let driver = Driver::new(board, store, plan, &mut interrupts, tell);
        Ok(driver.drive().await?)
    })
}
