//! What a stressor can do on a board: measured once, kept, and taken from the store until the board is
//! another.

use edgedyno_shared::case::{Case, Condition as Named, ModelRef};
use edgedyno_shared::device::DeviceInfo;
use edgedyno_shared::ids::Sha256;
use edgedyno_shared::order::{Rules, StopRule};
use edgedyno_shared::units::Nanos;

use crate::cli::Global;
use crate::clock;
use crate::cmd::open_for_writing;
use crate::cmd::run::execute::{self, Begin};
use crate::cmd::run::prepare::Prepared;
use crate::cmd::sweep::prepare::Prepared as Swept;
use crate::contention::achieved::Achieved;
use crate::drive::{DriveEnd, LeaseWish};
use crate::exit::{CommandError, Exit};
use crate::options::rules;
use crate::plan::condition::{Calibrated, Ceilings, Condition};
use crate::plan::plain;
use crate::plan::schedule::Schedule;
use crate::source::Source;
use crate::store::rows::{DeviceRow, StressRow};
use crate::store::{Calibration, ceilings, fingerprint};
use crate::ui::print;

/// Fresh processes in which each stressor is calibrated.
const REPEATS: u32 = 3;

/// How long each is watched.
const WINDOW: Nanos = Nanos::from_millis(500);

/// Finds what the shares of all conditions refer to, and measures what is not known yet.
pub(in crate::cmd) fn ensure(
    prepared: &mut Swept,
    again: bool,
    global: &Global,
) -> Result<(), CommandError> {
    for (board, device) in &prepared.devices {
        let cases = prepared.cases.iter().map(|planned| &planned.case);
        let found = of_board(board, device, cases, again, global)?;
        prepared.schedule.ceilings.0.extend(found.0);
    }
    Ok(())
}

/// The same for the cases of one board: what the store has is taken, unless it shall be measured `again`.
pub(in crate::cmd) fn of_board<'a>(
    board: &str,
    device: &DeviceInfo,
    cases: impl Iterator<Item = &'a Case>,
    again: bool,
    global: &Global,
) -> Result<Ceilings, CommandError> {
    let needed = needed(cases, board);
    if needed.is_empty() {
        return Ok(Ceilings::default());
    }
    let fingerprint = fingerprint(&DeviceRow::from(device));
    let store = open_for_writing(global)?;
    let mut known = match again {
        true => Vec::new(),
        false => store.calibrations(board, &fingerprint)?,
    };
    let missing = |of: &&Calibrated| known.iter().all(|known| known.of != **of);
    let missing: Vec<Calibrated> = needed.iter().filter(missing).cloned().collect();
    if !missing.is_empty() {
        drop(store);
        known.extend(measure(board, device, &fingerprint, &missing, global)?);
    }
    known.retain(|known| needed.contains(&known.of));
    Ok(ceilings(&known))
}

/// Calibrations that conditions of a board's cases refer to, each once.
fn needed<'a>(cases: impl Iterator<Item = &'a Case>, board: &str) -> Vec<Calibrated> {
    let of_board = cases.filter(|case| case.board == board);
    let conditions = of_board.filter_map(|case| Condition::parse(&case.condition.0).ok());
    let mut all: Vec<Calibrated> = conditions.flat_map(|c| c.needs(board)).collect();
    all.sort();
    all.dedup();
    all
}

/// Measures each at full effort, beside a worker that uses no memory, and keeps what came out.
fn measure(
    board: &str,
    device: &DeviceInfo,
    fingerprint: &str,
    missing: &[Calibrated],
    global: &Global,
) -> Result<Vec<Calibration>, CommandError> {
    let names: Vec<&str> = missing.iter().map(|of| of.stressor.as_str()).collect();
    print::note(format_args!("calibrating {} on {board}", names.join(", ")));
    let prepared = Prepared {
        board: board.to_owned(),
        device: device.clone(),
        cases: missing.iter().map(|of| case(board, of)).collect(),
        conduct: plain::conduct(REPEATS, conduct_rules(), 1),
        schedule: Schedule::default(),
        contents: Vec::new(),
        unpacked: Vec::new(),
        library: None,
        save_outputs: None,
        built_in_note: None,
    };
    let how = Begin::New {
        command: "calibrate",
        tags: &[],
    };
    let (source, end) = execute::execute(&prepared, &how, &LeaseWish::plain(), global)?;
    if end == DriveEnd::Interrupted {
        return Err(CommandError::new(
            Exit::INTERRUPTED,
            "the calibration was interrupted",
        ));
    }
    let store = open_for_writing(global)?;
    let mut out = Vec::new();
    for of in missing {
        let calibration = read(&source, of)?;
        store.put_calibration(fingerprint, &calibration)?;
        out.push(calibration);
    }
    Ok(out)
}

fn conduct_rules() -> Rules {
    Rules {
        warmup: rules::until_steady(Nanos::from_millis(200)),
        measure: StopRule {
            duration: WINDOW,
            min_trials: 11,
            max_trials: 200_000,
        },
    }
}

/// A case of no model whose condition is the stressor at full effort.
fn case(board: &str, of: &Calibrated) -> Case {
    let model = ModelRef {
        name: "calibration".into(),
        sha256: Sha256([0; 32]),
    };
    let mut case = plain::case(board, &model, "fake");
    case.options = vec![("latency_us".into(), "10000".into())];
    case.condition = Named(full(of));
    case
}

fn full(of: &Calibrated) -> String {
    let working_set = of.working_set.map(|bytes| format!("/ws={bytes}B"));
    let text = format!(
        "{}:cpu{}{}",
        of.stressor,
        of.cpus,
        working_set.unwrap_or_default()
    );
    Condition::parse(&text).map_or(text, |condition| condition.to_string())
}

/// The median over repeats of what it did for each second of CPU time: other work on its CPU does not
/// count against it.
fn read(source: &Source, of: &Calibrated) -> Result<Calibration, CommandError> {
    let run = source.run()?;
    let condition = full(of);
    let cases = source.cases()?;
    let entry = cases.iter().find(|entry| entry.case.condition == condition);
    let view = entry.map(|entry| source.view(entry.key)).transpose()?;
    let repeats = view.iter().flat_map(|view| view.counting());
    let rows = repeats.filter_map(|repeat| repeat.row.stress.first());
    let mut rates: Vec<f64> = rows
        .filter_map(|row: &StressRow| Achieved::of(row).per_cpu_second)
        .collect();
    rates.sort_by(f64::total_cmp);
    let median = rates
        .get(rates.len() / 2)
        .copied()
        .filter(|rate| *rate >= 1.0);
    let Some(median) = median else {
        let failure = view.iter().flat_map(|view| &view.repeats);
        let failure = failure
            .filter_map(|repeat| repeat.row.failure.as_ref())
            .next();
        let what = format!(
            "stressor {} could not be calibrated on CPU {}",
            of.stressor, of.cpus
        );
        let mut error = CommandError::new(Exit::NOTHING_MEASURED, what);
        if let Some(failure) = failure {
            error = error.cause(failure.detail.clone());
        }
        return Err(error.hint(format!(
            "`edgedyno summary {}` shows how its repeats ended",
            run.id
        )));
    };
    let (least, most) = (rates[0], rates[rates.len() - 1]);
    Ok(Calibration {
        of: of.clone(),
        per_second: median as u64,
        spread: (most - least) / median,
        repeats: rates.len() as u32,
        run: run.id.0,
        made_unix_ns: clock::unix_ns(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::sample;

    #[test]
    fn a_calibration_is_needed_once_however_many_shares_refer_to_it() {
        let mut cases = Vec::new();
        for condition in [
            "idle",
            "mem_read:cpu1@10%",
            "mem_read:cpu1@50%",
            "spin:cpu1",
        ] {
            let mut case = sample::case();
            case.condition = Named(condition.into());
            cases.push(case);
        }
        let needed = needed(cases.iter(), "local");
        assert_eq!(needed.len(), 1);
        assert_eq!(full(&needed[0]), "mem_read:cpu1");
        assert!(super::needed(cases.iter(), "other").is_empty());
    }
}
