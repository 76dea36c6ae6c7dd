//! Driving a prepared run into the store, and showing what came out.

use edgedyno_shared::ids::RunId;

use super::inventory::find_board;
use super::prepare::Prepared;
use super::{ConductOptions, outputs, record};
use crate::cli::Global;
use crate::clock;
use crate::cmd::{block_on, open_for_writing, summary};
use crate::drive::interrupts::Interrupts;
use crate::drive::{DriveEnd, Driver, Plan};
use crate::exit::{CommandError, CommandResult, Exit};
use crate::plan::axes::{case_key, match_key};
use crate::plan::fixed::StaticPlan;
use crate::store::rows::RunStatus;
use crate::store::{NewCase, NewRun, Store};
use crate::ui::progress::ProgressLine;

/// Measures what is not yet measured of the run; `resumed` is the run that is there already.
pub(super) fn execute(
    prepared: &Prepared,
    resumed: Option<&RunId>,
    options: &ConductOptions,
    global: &Global,
) -> CommandResult {
    let mut store = open_for_writing(global)?;
    let run = match resumed {
        Some(run) => run.clone(),
        None => begin(&store, prepared, options)?,
    };
    let end = drive(&mut store, &run, prepared);
    let status = match &end {
        Ok(DriveEnd::Complete) => RunStatus::Complete,
        Ok(DriveEnd::Interrupted) => RunStatus::Interrupted,
        Err(_) => RunStatus::Failed,
    };
    store.set_run_status(&run, status)?;
    let end = end?;
    if let Some(folder) = &prepared.save_outputs {
        outputs::save(&store, &run, folder)?;
    }
    let shown = summary::show(&store, &run, options.strict, global.json)?;
    let interrupted = (end == DriveEnd::Interrupted).then_some(Exit::INTERRUPTED);
    let shown = match (shown, options.force) {
        (Exit::INVALID, true) => Exit::GOOD,
        (shown, _) => shown,
    };
    Ok(Exit::of_all(interrupted.into_iter().chain([shown])))
}

fn begin(
    store: &Store,
    prepared: &Prepared,
    options: &ConductOptions,
) -> Result<RunId, CommandError> {
    let id = new_run_id()?;
    let argv = std::env::args_os().map(|word| word.to_string_lossy().into_owned());
    store.begin_run(&NewRun {
        id: id.clone(),
        command: "run".into(),
        argv: argv.collect(),
        plan_json: record::plan_value(prepared),
        tags: options.tags.clone(),
        tool_version: edgedyno_shared::VERSION.into(),
        created_unix_ns: clock::unix_ns(),
    })?;
    for case in &prepared.cases {
        store.add_case(
            &id,
            &NewCase {
                key: case_key(case),
                match_key: match_key(case),
                case,
                rules: record::rules_row(prepared),
            },
        )?;
    }
    store.put_device(&id, &prepared.board, &prepared.device)?;
    Ok(id)
}

fn drive(store: &mut Store, run: &RunId, prepared: &Prepared) -> Result<DriveEnd, CommandError> {
    let board = find_board(&prepared.board)?;
    let contents = prepared.contents.iter().map(|content| {
        let map = content.to_map();
        map.map_err(|why| {
            let path = content
                .files
                .first()
                .map(|(_, path)| path.display().to_string());
            let what = format!("`{}` cannot be read", path.unwrap_or_default());
            CommandError::usage(what).because(why)
        })
    });
    let contents = contents.collect::<Result<Vec<_>, _>>()?;
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
            contents,
        };
        let mut tell = |event| line.tell(&event);
        let driver = Driver::new(&board, store, plan, &mut interrupts, &mut tell);
        Ok(driver.drive().await?)
    })
}

/// Ten lowercase letters and digits at random: 51 bits, so that stores can be joined.
fn new_run_id() -> Result<RunId, CommandError> {
    const LETTERS: &[u8; 32] = b"abcdefghijkmnpqrstuvwxyz23456789";
    let mut bytes = [0; 10];
    getrandom::fill(&mut bytes).map_err(anyhow::Error::from)?;
    let letter = |byte: &u8| char::from(LETTERS[usize::from(byte % 32)]);
    Ok(RunId(bytes.iter().map(letter).collect()))
}
