//! The end of a sweep: what was left out, whose outputs differ, and whether the board drifted.

use edgedyno_shared::ids::{RunId, Sha256};
use serde_json::{Map, Value, json};

use super::execute::{planner, search};
use super::prepare::Prepared;
use crate::drive::{self, DriveEnd};
use crate::findings::sweep::{
    GIVEN_UP, LARGER_THAN_OUT_OF_MEMORY, LEFT_OUT_BY_GOAL, OUT_OF_TIME, OUTPUTS_NOT_COMPARED,
    SENTINEL_DRIFT, WRONG_OUTPUTS,
};
use crate::guard;
use crate::plan::fixed::LeftOut;
use crate::plan::goal::Goal;
use crate::plan::optimize::Standing;
use crate::plan::{Planner, Progress};
use crate::stats::steady;
use crate::store::rows::FindingRow;
use crate::store::{Result, Store};
use crate::summary::RepeatFigures;
use crate::ui::units;
use crate::view::{CaseView, RunView};

/// A drift of the sentinel below this is not worth a word, however certain.
const LEAST_DRIFT: f64 = 0.01;

/// Findings that the end makes, and a later end makes anew.
const MADE_HERE: [&str; 7] = [
    GIVEN_UP,
    LEFT_OUT_BY_GOAL,
    LARGER_THAN_OUT_OF_MEMORY,
    OUT_OF_TIME,
    OUTPUTS_NOT_COMPARED,
    SENTINEL_DRIFT,
    WRONG_OUTPUTS,
];

/// Whether anything is left that a resumed sweep would measure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Rest {
    None,
    Some,
}

/// Keeps with the run what only its end can tell.
pub(super) fn finish(
    store: &Store,
    run: &RunId,
    prepared: &Prepared,
    end: DriveEnd,
) -> Result<Rest> {
    store.drop_findings(run, &MADE_HERE)?;
    let (mut findings, rest) = left_out(store, run, prepared, end)?;
    if let Some(references) = &prepared.references {
        findings.extend(guard::compare(store, run, references, prepared.tolerance)?);
    }
    if let Some(sentinel) = prepared.schedule.sentinel {
        findings.extend(drift(store, run, sentinel.case)?.map(|finding| (None, finding)));
    }
    store.put_findings(run, &findings)?;
    Ok(rest)
}

type Findings = Vec<(Option<Sha256>, FindingRow)>;

fn left_out(
    store: &Store,
    run: &RunId,
    prepared: &Prepared,
    end: DriveEnd,
) -> Result<(Findings, Rest)> {
    let mut progress = drive::recall(store, run)?;
    if prepared.schedule.within.is_some() || prepared.goal.is_some() {
        let shared = RunView::read(store, run)?;
        for entry in store.cases(run)? {
            let view = shared.brief(store, &entry)?;
            progress.put_figures(entry.key, drive::figures_of(&view));
        }
    }
    if let Some(goal) = &prepared.goal {
        return Ok(by_goal(run, prepared, goal, progress));
    }
    let mut findings = Findings::new();
    let mut rest = Rest::None;
    let mut to_go = 0;
    for board in prepared.devices.keys() {
        for (case, repeats, why) in planner(run, prepared, board).left_out(&progress) {
            let finding = match why {
                LeftOut::Failing => {
                    let text = format!(
                        "{repeats} more repeats were left out: the case failed as often as it may"
                    );
                    guard::finding(GIVEN_UP, text, repeats_left_out(repeats.into()))
                }
                LeftOut::LargerThan(smaller) => larger_than(smaller, repeats),
                LeftOut::Stopped => {
                    rest = Rest::Some;
                    to_go += u64::from(repeats);
                    continue;
                }
            };
            findings.push((Some(case), finding));
        }
    }
    // One for the run and not one for each case: a plan of very many cases has little but these.
    let out_of_time = end == DriveEnd::Complete && prepared.schedule.time_budget.is_some();
    if out_of_time && to_go > 0 {
        let text = format!("the time budget was over with {to_go} repeats to go");
        let figures = repeats_left_out(to_go);
        findings.push((None, guard::finding(OUT_OF_TIME, text, figures)));
    }
    Ok((findings, rest))
}

fn larger_than(smaller: Sha256, repeats: u32) -> FindingRow {
    let text = format!(
        "left out: case {}, which is smaller, ran out of memory",
        short(smaller)
    );
    let figures = match repeats {
        0 => Map::new(),
        repeats => repeats_left_out(repeats.into()),
    };
    guard::finding(LARGER_THAN_OUT_OF_MEMORY, text, figures)
}

fn repeats_left_out(repeats: u64) -> Map<String, Value> {
    Map::from_iter([("repeats_left_out".to_owned(), json!(repeats))])
}

/// Cases that a search did not go on with, and why.
fn by_goal(
    run: &RunId,
    prepared: &Prepared,
    goal: &Goal,
    mut progress: Progress,
) -> (Findings, Rest) {
    let mut findings = Findings::new();
    let mut rest = Rest::None;
    progress.room = 1;
    for board in prepared.devices.keys() {
        let mut search = search(run, prepared, board, goal);
        for (case, standing) in search.standings(&progress) {
            let why = match standing {
                Standing::Open => continue,
                Standing::LargerThan(smaller) => {
                    findings.push((Some(case), larger_than(smaller, 0)));
                    continue;
                }
                Standing::PastTheKnee => "more threads brought no more before it".into(),
                Standing::Fails => format!("it does not fulfil `{}`", goal.text),
                Standing::WorseThan(other) => format!("case {} is surely better", short(other)),
                Standing::Broken => "it failed as often as it may".into(),
            };
            let text = format!("left out of the search: {why}");
            findings.push((
                Some(case),
                guard::finding(LEFT_OUT_BY_GOAL, text, Map::new()),
            ));
        }
        if !search.next(&progress).is_empty() {
            rest = Rest::Some;
        }
    }
    (findings, rest)
}

/// Whether the sentinel became slower or faster.
fn drift(store: &Store, run: &RunId, case: Sha256) -> Result<Option<FindingRow>> {
    let view = CaseView::read(store, run, case)?;
    let mut repeats: Vec<RepeatFigures> = view.counting().map(RepeatFigures::of).collect();
    repeats.sort_by_key(|repeat| repeat.wall_unix_ns);
    let medians: Vec<f64> = repeats.iter().filter_map(|repeat| repeat.p50_ns).collect();
    let Some(drift) = steady::drift(&medians) else {
        return Ok(None);
    };
    if drift.p_value > 0.01 || drift.over_window.abs() < LEAST_DRIFT {
        return Ok(None);
    }
    let text = format!(
        "sentinel {} changed by {} over the sweep ({} repeats)",
        short(case),
        units::percent(drift.over_window),
        medians.len()
    );
    let figures = Map::from_iter([
        ("case".to_owned(), json!(case.to_string())),
        ("drift_share".to_owned(), json!(drift.over_window)),
        ("p_value".to_owned(), json!(drift.p_value)),
        ("repeats".to_owned(), json!(medians.len())),
    ]);
    Ok(Some(guard::finding(SENTINEL_DRIFT, text, figures)))
}

fn short(case: Sha256) -> String {
    case.to_string()[..8].to_owned()
}
