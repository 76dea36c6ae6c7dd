//! Driving a prepared run into the store, and showing what came out.

use edgedyno_shared::case::Case;
use edgedyno_shared::ids::RunId;

use super::inventory::find_board;
use super::prepare::Prepared;
use super::record;
use crate::cli::Global;
use crate::clock;
use crate::cmd::{block_on, open_for_writing};
use crate::drive::interrupts::Interrupts;
use crate::drive::{DriveEnd, Driver, LeaseWish, Plan};
use crate::exit::CommandError;
use crate::findings::Level;
use crate::plan::axes::{case_key, match_key};
use crate::plan::condition::Condition;
use crate::plan::fixed::StaticPlan;
use crate::source::Source;
use crate::store::rows::{FindingRow, RunStatus};
use crate::store::{FirstRows, NewCase, NewRun, Store};
use crate::ui::progress::ProgressLine;

/// A run to begin, or one to go on with.
pub(in crate::cmd) enum Begin<'a> {
    New {
        command: &'static str,
        tags: &'a [String],
    },
    Resume(RunId),
}

/// Measures what is not yet measured of the run, and leaves its status with it.
pub(in crate::cmd) fn execute(
    prepared: &Prepared,
    how: &Begin<'_>,
    lease: &LeaseWish,
    global: &Global,
) -> Result<(Source, DriveEnd), CommandError> {
    prepared.cases.iter().try_for_each(refuse_shares)?;
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
    let end = drive(&mut store, &run, prepared, lease);
    let status = match &end {
        Ok(DriveEnd::Complete) => RunStatus::Complete,
        Ok(DriveEnd::Interrupted) => RunStatus::Interrupted,
        Err(_) => RunStatus::Failed,
    };
    // The error of the drive counts, also where a full disk takes no status any more.
    let kept = store.set_run_status(&run, status);
    let end = end?;
    kept?;
    Ok((Source::Stored { store, run }, end))
}

/// A share of a stressor's maximum needs a calibration, which a sweep makes and this does not.
fn refuse_shares(case: &Case) -> Result<(), CommandError> {
    let condition = Condition::parse(&case.condition.0).map_err(CommandError::usage)?;
    if condition.needs(&case.board).is_empty() {
        return Ok(());
    }
    let what = format!("condition `{condition}` is a share of what is not calibrated here");
    Err(CommandError::usage(what).hint(
        "measure its cases in one sweep with `--axis condition=`, or name a rate such as 4000MB/s",
    ))
}

fn begin(
    store: &Store,
    prepared: &Prepared,
    command: &str,
    tags: &[String],
) -> Result<RunId, CommandError> {
    let cases = prepared.cases.iter().map(|case| NewCase {
        key: case_key(case),
        match_key: match_key(case),
        case,
        rules: record::rules_row(prepared),
    });
    let note = prepared.built_in_note.as_deref();
    let first = FirstRows {
        cases: cases.collect(),
        devices: vec![(&prepared.board, &prepared.device)],
        findings: note
            .map(|note| (None, built_in_finding(note)))
            .into_iter()
            .collect(),
    };
    new_run(store, command, tags, record::plan_value(prepared), &first)
}

/// Only the host knows that nobody chose the built-in runtime.
pub(in crate::cmd) fn built_in_finding(note: &str) -> FindingRow {
    FindingRow {
        code: "built_in_used_because_no_library".into(),
        level: Level::Note.name().into(),
        repeat: None,
        text: note.into(),
        figures: serde_json::Map::new(),
    }
}

fn drive(
    store: &mut Store,
    run: &RunId,
    prepared: &Prepared,
    lease: &LeaseWish,
) -> Result<DriveEnd, CommandError> {
    let board = find_board(&prepared.board)?;
    for content in &prepared.contents {
        content.to_map().map_err(|why| {
            let path = content
                .files
                .first()
                .map(|(_, path)| path.display().to_string());
            let what = format!("`{}` cannot be read", path.unwrap_or_default());
            CommandError::usage(what).because(why)
        })?;
    }
    let conduct = prepared.conduct.clone();
    let window = conduct.rules.measure.duration;
    let mut planner = StaticPlan::new(run, prepared.cases.clone(), conduct);
    let total = planner.keys().count();
    let mut line = ProgressLine::new(total, window);
    block_on(async {
        let mut interrupts = Interrupts::listen().map_err(anyhow::Error::from)?;
        let plan = Plan {
            run: run.clone(),
            planner: &mut planner,
            contents: prepared.contents.clone(),
            lease: lease.clone(),
        };
        let mut tell = |event| line.tell(&event);
        let driver = Driver::new(&board, store, plan, &mut interrupts, &mut tell);
        Ok(driver.drive().await?)
    })
}

/// A run of this command line, begun now.
pub(in crate::cmd) fn new_run(
    store: &Store,
    command: &str,
    tags: &[String],
    plan_json: serde_json::Value,
    first: &FirstRows<'_>,
) -> Result<RunId, CommandError> {
    let id = new_run_id()?;
    let argv = std::env::args_os().map(|word| word.to_string_lossy().into_owned());
    let run = NewRun {
        id: id.clone(),
        command: command.into(),
        argv: argv.collect(),
        plan_json,
        tags: tags.to_vec(),
        tool_version: edgedyno_shared::VERSION.into(),
        created_unix_ns: clock::unix_ns(),
    };
    store.begin_run_with(&run, first)?;
    Ok(id)
}

/// Ten lowercase letters and digits at random: 51 bits, so that stores can be joined.
pub(in crate::cmd) fn new_run_id() -> Result<RunId, CommandError> {
    const LETTERS: &[u8; 32] = b"abcdefghijkmnpqrstuvwxyz23456789";
    let mut bytes = [0; 10];
    getrandom::fill(&mut bytes).map_err(anyhow::Error::from)?;
    let letter = |byte: &u8| char::from(LETTERS[usize::from(byte % 32)]);
    Ok(RunId(bytes.iter().map(letter).collect()))
}
