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
use crate::contention::clocks;
use crate::contention::validity::{Mark, marks};
use crate::drive::{DriveEnd, LeaseWish};
use crate::exit::{CommandError, Exit};
use crate::options::rules;
use crate::plan::condition::{Calibrated, Ceilings, Condition};
use crate::plan::plain;
use crate::plan::schedule::Schedule;
use crate::source::Source;
use crate::store::rows::DeviceRow;
use crate::store::{Calibration, WIDE, ceilings, fingerprint};
use crate::telemetry::engines::Used;
use crate::ui::{print, units};
use crate::view::RepeatView;

/// Computes nothing and uses no memory of its own.
const BACKEND: &str = "fake";

/// Fresh processes in which each stressor is calibrated.
const REPEATS: u32 = 3;

/// Fewer of them that can be used make no calibration.
const FEWEST: usize = 2;

/// How long each is watched.
const WINDOW: Nanos = Nanos::from_millis(500);

/// What decides which calibrations a plan can use.
#[derive(Debug, Clone, Copy)]
pub(in crate::cmd) struct How {
    /// Measured now, whatever the store has.
    pub(in crate::cmd) again: bool,
    /// A share of what a stressor can do is one under the clocks that are measured.
    pub(in crate::cmd) holds_clocks: bool,
}

/// Finds what the shares of all conditions refer to, and measures what is not known yet.
pub(in crate::cmd) fn ensure(
    prepared: &mut Swept,
    again: bool,
    global: &Global,
) -> Result<(), CommandError> {
    let how = How {
        again,
        holds_clocks: prepared.conduct.preparation.fix_clocks,
    };
    for (board, device) in &prepared.devices {
        let cases = prepared.cases.iter().map(|planned| &planned.case);
        let found = of_board(board, device, cases, how, global)?;
        prepared.schedule.ceilings.0.extend(found.0);
    }
    Ok(())
}

/// The same for the cases of one board: what the store has is taken, unless it shall be measured again.
pub(in crate::cmd) fn of_board<'a>(
    board: &str,
    device: &DeviceInfo,
    cases: impl Iterator<Item = &'a Case>,
    how: How,
    global: &Global,
) -> Result<Ceilings, CommandError> {
    let needed = needed(cases, board);
    if needed.is_empty() {
        return Ok(Ceilings::default());
    }
    let fingerprint = fingerprint(&DeviceRow::from(device), how.holds_clocks);
    let store = open_for_writing(global)?;
    let mut known = match how.again {
        true => Vec::new(),
        false => store.calibrations(board, &fingerprint)?,
    };
    let missing = |of: &&Calibrated| known.iter().all(|known| known.of != **of);
    let missing: Vec<Calibrated> = needed.iter().filter(missing).cloned().collect();
    known.retain(|known| needed.contains(&known.of));
    known.iter().for_each(|known| tell(known, false));
    if !missing.is_empty() {
        drop(store);
        let prepared = prepare(board, device, &missing, how);
        let new = measure(&prepared, &fingerprint, &missing, global)?;
        new.iter().for_each(|new| tell(new, true));
        known.extend(new);
    }
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

/// Each at full effort, beside a worker that uses no memory.
fn prepare(board: &str, device: &DeviceInfo, missing: &[Calibrated], how: How) -> Prepared {
    let mut conduct = plain::conduct(REPEATS, conduct_rules(), 1);
    conduct.preparation.fix_clocks = how.holds_clocks;
    Prepared {
        board: board.to_owned(),
        device: device.clone(),
        cases: missing.iter().map(|of| case(board, of)).collect(),
        conduct,
        schedule: Schedule::default(),
        contents: Vec::new(),
        unpacked: Vec::new(),
        library: None,
        save_outputs: None,
        built_in_note: None,
    }
}

/// Measures what was prepared, and keeps what came out.
fn measure(
    prepared: &Prepared,
    fingerprint: &str,
    missing: &[Calibrated],
    global: &Global,
) -> Result<Vec<Calibration>, CommandError> {
    let names: Vec<&str> = missing.iter().map(|of| of.stressor.as_str()).collect();
    let (names, board) = (names.join(", "), &prepared.board);
    print::note(match prepared.conduct.preparation.fix_clocks {
        true => format!("calibrating {names} on {board}, its clocks held"),
        false => format!("calibrating {names} on {board}"),
    });
    let how = Begin::New {
        command: "calibrate",
        tags: &[],
    };
    let (source, end) = execute::execute(prepared, &how, &LeaseWish::plain(), global)?;
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
    let mut case = plain::case(board, &model, BACKEND);
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

/// The median over the repeats that can be used.
fn read(source: &Source, of: &Calibrated) -> Result<Calibration, CommandError> {
    let run = source.run()?;
    let condition = full(of);
    let cases = source.cases()?;
    let entry = cases.iter().find(|entry| entry.case.condition == condition);
    let view = entry.map(|entry| source.view(entry.key)).transpose()?;
    let (mut rates, mut against, mut moved) = (Vec::new(), Vec::new(), 0.0_f64);
    for repeat in view.iter().flat_map(|view| view.counting()) {
        match rate(repeat) {
            Ok(rate) => {
                rates.push(rate);
                moved = moved.max(clocks::most_of_load(repeat));
            }
            Err(why) => against.push(format!("repeat {}: {why}", repeat.row.key.repeat)),
        }
    }
    let failures = view.iter().flat_map(|view| &view.repeats);
    against.extend(failures.filter_map(|repeat| {
        let failure = repeat.row.failure.as_ref()?;
        Some(format!(
            "repeat {}: {}",
            repeat.row.key.repeat, failure.detail
        ))
    }));
    match centre(&mut rates) {
        Some((median, spread)) => Ok(Calibration {
            of: of.clone(),
            per_second: median as u64,
            spread: spread.max(moved),
            repeats: rates.len() as u32,
            run: run.id.0,
            made_unix_ns: clock::unix_ns(),
        }),
        None => Err(too_few(of, rates.len(), &against, &run.id.0)),
    }
}

/// What a stressor did in a repeat for each second of CPU time, of which other work on its CPU takes nothing, or
/// of the wall where it waits for something else; or why that cannot be used.
fn rate(repeat: &RepeatView) -> Result<f64, String> {
    let row = repeat.row.stress.first();
    let achieved = Achieved::of(row.ok_or("the stressor left no record")?);
    // A clock that moved makes it less sure by as much, which its spread says: a board whose clocks are free has
    // no other.
    let is_borne = |code: &str| match code {
        "load_starved" => !achieved.is_by_wall(),
        other => other.starts_with("clock_"),
    };
    let is_against = |mark: &Mark| mark.invalid && !is_borne(mark.code);
    let used = Used::of(BACKEND, None);
    match marks(repeat, used).into_iter().find(is_against) {
        Some(mark) => Err(mark.text),
        None => achieved
            .paced()
            .filter(|rate| *rate >= 1.0)
            .ok_or_else(|| "nothing was counted".into()),
    }
}

/// The median, and how far the least and the most are apart as a share of it; none of too few.
fn centre(rates: &mut [f64]) -> Option<(f64, f64)> {
    if rates.len() < FEWEST {
        return None;
    }
    rates.sort_by(f64::total_cmp);
    let last = rates.len() - 1;
    let median = f64::midpoint(rates[last / 2], rates[last.div_ceil(2)]);
    Some((median, (rates[last] - rates[0]) / median))
}

fn too_few(of: &Calibrated, good: usize, against: &[String], run: &str) -> CommandError {
    let what = format!(
        "stressor {} could not be calibrated on CPU {}: {good} repeats of it can be used, and {FEWEST} are needed",
        of.stressor, of.cpus
    );
    let mut error = CommandError::new(Exit::NOTHING_MEASURED, what);
    if !against.is_empty() {
        error = error.cause(against.join("; "));
    }
    error.hint(format!(
        "see to what kept it from being measured and try again; `edgedyno summary {run}` shows how its repeats ended"
    ))
}

/// Says how sure a calibration is: shares of one whose repeats were far apart are shares of nobody knows what.
fn tell(calibration: &Calibration, is_new: bool) {
    let of = &calibration.of;
    let figure = format!(
        "{} on CPU {}: {}/s at full effort, {}",
        of.stressor,
        of.cpus,
        units::bytes(calibration.per_second as f64),
        calibration.spread_text()
    );
    if calibration.spread > WIDE {
        print::note(format_args!(
            "{figure}: levels are no surer than that; close what else runs on the board and use --recalibrate"
        ));
    } else if is_new {
        print::note(figure);
    }
}

#[cfg(test)]
mod tests {
    use edgedyno_shared::load::{StressUsed, StressWindow, WorkUnit};
    use edgedyno_shared::wire::failure::{Failure, FailureCode};
    use edgedyno_shared::wire::record::Record as Wire;

    use super::*;
    use crate::contention::testing;
    use crate::store::sample::{self, MS};

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

    #[test]
    fn a_calibration_is_made_under_the_clocks_that_are_measured() {
        let fixes = |holds_clocks| {
            let how = How {
                again: false,
                holds_clocks,
            };
            let prepared = prepare("b", &sample::device(), &[], how);
            prepared.conduct.preparation.fix_clocks
        };
        assert!(fixes(true) && !fixes(false));
    }

    #[test]
    fn a_calibration_is_the_median_of_two_repeats_at_least() {
        assert_eq!(centre(&mut []), None);
        assert_eq!(centre(&mut [7.0]), None);
        // 12 - 8 of 10.
        assert_eq!(centre(&mut [12.0, 8.0]), Some((10.0, 0.4)));
        assert_eq!(centre(&mut [12.0, 8.0, 8.0]), Some((8.0, 0.5)));
    }

    /// A stressor that moved 4000 bytes in a second of the wall and so much CPU time.
    fn moved(stressor: &str, cpu_ms: i64) -> StressUsed {
        let window = StressWindow {
            start: Nanos(0),
            end: Nanos(1_000 * MS),
            work: 4_000,
            cpu_time: Nanos(cpu_ms * MS),
            worked: None,
            run_delay: Some(Nanos(0)),
        };
        testing::used(&format!("{stressor}:cpu1"), WorkUnit::Bytes, window)
    }

    /// What is made of one repeat with such records.
    fn judged(records: Vec<Wire>) -> Result<f64, String> {
        let (_dir, mut store) = sample::new_store();
        store.begin_run(&sample::new_run("r1", 1)).unwrap();
        let view = testing::measure(&mut store, &sample::case(), &[20 * MS; 40], &records);
        let repeat = view.counting().next().unwrap();
        rate(repeat)
    }

    #[test]
    fn only_repeats_that_nothing_speaks_against_make_a_calibration() {
        let of = |used: StressUsed| judged(vec![Wire::Stress(Box::new(used))]);
        assert_eq!(of(moved("mem_read", 1_000)), Ok(4_000.0));
        // Half of its CPU was somebody else's, and its own half says what it can.
        assert_eq!(of(moved("mem_read", 500)), Ok(8_000.0));
        // A disk is waited for.
        assert_eq!(of(moved("io", 50)), Ok(4_000.0));
        let mut elsewhere = moved("mem_read", 1_000);
        elsewhere.threads[0].cpus_at_end = Some(vec![0, 1]);
        assert!(of(elsewhere).unwrap_err().contains("not on its CPU"));
        let mut failed = moved("mem_read", 1_000);
        failed.failure = Some(Failure::new(FailureCode::StressorFailed, "it fell over"));
        assert!(of(failed).unwrap_err().contains("it fell over"));
        let mut unseen = moved("mem_read", 1_000);
        unseen.threads[0].window = None;
        assert!(of(unseen).unwrap_err().contains("not seen"));
        assert!(judged(Vec::new()).unwrap_err().contains("no record"));
        // Within the window, which lasts from 100 ms to 900 ms.
        let moves = |to: i64| {
            let cells = [(200, Some(1_800_000_000)), (600, Some(to))];
            let mut records = vec![Wire::Stress(Box::new(moved("mem_read", 1_000)))];
            records.extend(sample::watched(77, "cpu.policy0.freq", "hz", &cells));
            judged(records)
        };
        assert_eq!(moves(1_800_000_000), Ok(4_000.0));
        assert_eq!(moves(1_700_000_000), Ok(4_000.0), "it is only less sure");
    }

    #[test]
    fn too_few_repeats_say_what_was_against_each() {
        let of = Calibrated {
            board: "b".into(),
            stressor: "mem_read".into(),
            cpus: "1".into(),
            working_set: None,
        };
        let against = ["repeat 0: hot".to_owned(), "repeat 2: hotter".to_owned()];
        let error = too_few(&of, 1, &against, "abc");
        let said = format!("{error:?}");
        assert!(said.contains("1 repeats of it can be used"), "{said}");
        assert!(said.contains("repeat 0: hot; repeat 2: hotter"), "{said}");
    }
}
