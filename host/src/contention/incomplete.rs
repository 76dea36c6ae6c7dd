//! How far an experiment came that was not measured to its end.

use std::collections::BTreeSet;

use edgedyno_shared::ids::Sha256;
use edgedyno_shared::order::Pass;
use serde::Serialize;
use serde_json::Value;

use super::report::Read;
use crate::plan::fixed;
use crate::store::rows::{OutcomeKind, RunRow, RunStatus};
use crate::view::CaseView;

/// What there is of the repeats that were planned.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Incomplete {
    /// How the run stands: one that its user ended, one that failed, or one that still runs or died.
    pub status: RunStatus,
    /// None where the plan decides as it goes.
    pub repeats_planned: Option<u64>,
    pub repeats_complete: u64,
    pub repeats_failed: u64,
}

impl Incomplete {
    /// None of a run that has a row for everything planned.
    pub(super) fn of(run: &RunRow, cases: &[Read]) -> Option<Self> {
        if run.status == RunStatus::Complete {
            return None;
        }
        let planned = cases.iter().map(|read| planned(&read.view, &run.plan));
        let (complete, failed) = cases
            .iter()
            .map(|read| measured(&read.view))
            .fold((0, 0), |sum, of_case| {
                (sum.0 + of_case.0, sum.1 + of_case.1)
            });
        Some(Self {
            status: run.status,
            repeats_planned: planned.sum(),
            repeats_complete: complete,
            repeats_failed: failed,
        })
    }
}

/// Repeats of a case that came to an end: those that count, and those that only failed. One that was cancelled
/// has neither.
fn measured(view: &CaseView) -> (u64, u64) {
    let complete: BTreeSet<u32> = view
        .counting()
        .map(|repeat| repeat.row.key.repeat)
        .collect();
    let rows = view.repeats.iter().map(|repeat| &repeat.row);
    let failed: BTreeSet<u32> = rows
        .filter(|row| row.key.pass == Pass::Honest && row.outcome == OutcomeKind::Failed)
        .map(|row| row.key.repeat)
        .filter(|repeat| !complete.contains(repeat))
        .collect();
    (complete.len() as u64, failed.len() as u64)
}

/// Repeats of a case, with those that only look at the board.
fn planned(view: &CaseView, plan: &Value) -> Option<u64> {
    let rounds = view.entry.rules.repeats?;
    let is_of = |part: &Value| {
        let case = part["case"].as_str().and_then(|key| key.parse().ok());
        case.is_some_and(|case: Sha256| case == view.entry.key)
    };
    let recovery = &plan["recovery"];
    let (from, last) = match is_of(recovery) {
        true => (recovery["from"].as_u64(), recovery["repeats"].as_u64()?),
        false => (None, 0),
    };
    let before = match from {
        Some(from) => from,
        None if is_of(&plan["sentinel"]) => with_sentinel(plan, rounds)?,
        None => u64::from(rounds),
    };
    Some(before + last)
}

/// Repeats of the case that is measured between the others; how those of several boards share them no plan says.
fn with_sentinel(plan: &Value, rounds: u32) -> Option<u64> {
    let boards = plan["boards"].as_array()?;
    let cases = plan["cases_count"].as_u64().filter(|_| boards.len() == 1)?;
    let every = u32::try_from(plan["sentinel"]["every"].as_u64()?).ok()?;
    let all = fixed::recovery_from(usize::try_from(cases).ok()?, rounds, Some(every));
    Some(u64::from(all))
}

#[cfg(test)]
mod tests {
    use edgedyno_shared::case::{Case, Condition};
    use serde_json::json;

    use super::super::testing::{read, store, take};
    use super::*;
    use crate::plan::axes::case_key;
    use crate::store::sample::{self, MS};

    /// An idle case and a loaded one, of both of which so many repeats were measured.
    fn found(status: RunStatus, plan: Value, idle: u32, loaded: u32) -> Option<Incomplete> {
        let (_dir, mut store) = store();
        let case = Case {
            condition: Condition("mem_read:cpu1".into()),
            ..sample::case()
        };
        let repeats = |count: u32| -> Vec<(u32, Vec<i64>)> {
            (0..count).map(|n| (n, vec![20 * MS; 20])).collect()
        };
        let idle = take(&mut store, &sample::case(), &repeats(idle), &[]);
        let loaded = take(&mut store, &case, &repeats(loaded), &[]);
        let run = sample::run_id("r1");
        store.set_run_status(&run, status).unwrap();
        let row = RunRow {
            plan,
            ..store.run(&run).unwrap()
        };
        Incomplete::of(&row, &[read(idle), read(loaded)])
    }

    /// Three rounds of two cases, a look at the idle one behind every second repeat, two looks at the end.
    fn plan() -> Value {
        let idle = case_key(&sample::case()).to_string();
        json!({
            "boards": ["local"],
            "cases_count": 2,
            "sentinel": { "case": idle, "every": 2 },
            "recovery": { "case": idle, "repeats": 2, "from": 6 },
        })
    }

    #[test]
    fn an_interrupted_experiment_says_how_much_of_its_plan_there_is() {
        let some = found(RunStatus::Interrupted, plan(), 2, 1).unwrap();
        // Three of each and three looks between them are nine, and two at the end.
        assert_eq!(some.repeats_planned, Some(11));
        assert_eq!((some.repeats_complete, some.repeats_failed), (3, 0));
        let mut before = plan();
        before["recovery"]["from"] = Value::Null;
        let before = found(RunStatus::Failed, before, 2, 1).unwrap();
        assert_eq!(before.repeats_planned, Some(11));
        assert_eq!(found(RunStatus::Complete, plan(), 2, 1), None);
    }

    #[test]
    fn a_plan_that_does_not_tell_leaves_the_number_open() {
        let mut several = plan();
        several["recovery"] = Value::Null;
        assert_eq!(
            found(RunStatus::Interrupted, several.clone(), 1, 1)
                .unwrap()
                .repeats_planned,
            Some(9)
        );
        several["boards"] = json!(["a", "b"]);
        let open = found(RunStatus::Interrupted, several, 1, 1).unwrap();
        assert_eq!((open.repeats_planned, open.repeats_complete), (None, 2));
    }
}
