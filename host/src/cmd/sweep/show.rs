//! What a sweep shows: its plan, and what came of it.

use serde_json::{Value, json};

use super::execute::{Swept, planner};
use super::prepare::Prepared;
use super::record;
use crate::cmd::{read, summary};
use crate::documents;
use crate::drive::{self, DriveEnd};
use crate::exit::{CommandError, Exit};
use crate::findings::sweep::{GIVEN_UP, LARGER_THAN_OUT_OF_MEMORY, LEFT_OUT_BY_GOAL};
use crate::plan::answer::{Answer, answer};
use crate::plan::goal::Goal;
use crate::source::SourceError;
use crate::store::rows::FindingRow;
use crate::summary::best::best;
use crate::ui::print;
use crate::ui::sweep::{self as text, Expected, Plan};
use edgedyno_shared::ids::{RunId, Sha256};

/// Cases, order and expected time, without making anything of it.
pub(in crate::cmd) fn plan(prepared: &Prepared, as_json: bool) {
    let run = RunId(String::new());
    let boards: Vec<String> = prepared.devices.keys().cloned().collect();
    let planners = boards.iter().map(|board| planner(&run, prepared, board));
    let orders: Vec<Vec<_>> = planners.map(|planner| planner.keys().collect()).collect();
    // Boards work at the same time: the one with the most to do decides.
    let longest = orders.iter().map(Vec::len).max().unwrap_or(0);
    let span = Expected::of(&prepared.conduct.rules, longest)
        .with_preparation(&prepared.conduct.preparation, longest);
    let order = orders.concat();
    if as_json {
        let mut value = record::plan_value(prepared);
        let order = order
            .iter()
            .map(|key| json!([key.case.to_string(), key.repeat]));
        if let Value::Object(members) = &mut value {
            members.insert("cases".into(), record::cases_value(prepared));
            members.insert("sequence".into(), order.collect());
            members.insert(
                "expected".into(),
                json!({ "least_seconds": span.least_seconds, "most_seconds": span.most_seconds }),
            );
        }
        return print::json(&value);
    }
    let cases = prepared.cases.iter();
    print::result(text::plan(&Plan {
        cases: cases.map(|planned| (planned.key, &planned.case)).collect(),
        order,
        how: prepared.schedule.order,
        seed: prepared.conduct.seed,
        boards,
        span,
    }));
}

/// All cases, the best of them and how sure that is.
pub(in crate::cmd) fn outcome(
    swept: &Swept,
    prepared: &Prepared,
    force: bool,
    as_json: bool,
) -> Result<Exit, CommandError> {
    let source = &swept.source;
    let summaries = read::summaries(source, &source.cases()?)?;
    let best = best(&summaries, prepared.schedule.order);
    let run = source.run()?;
    let answer = match &prepared.goal {
        Some(goal) => Some((goal.clone(), answer_of(swept, goal)?)),
        None => None,
    };
    match as_json {
        true => print::json(&documents::sweep(&run, &summaries, &best, answer.as_ref())),
        false => {
            let mut notes = notes(swept, &run.id)?;
            if let Some((goal, answer)) = &answer {
                notes.insert(0, text::answer(goal, answer));
            }
            print::result(text::outcome(&summaries, &best, &notes));
        }
    }
    Ok(summary::verdict(&summaries, force))
}

/// What a search came to, by all that is stored.
fn answer_of(swept: &Swept, goal: &Goal) -> Result<Answer, CommandError> {
    let cases = swept.source.cases()?;
    let figures = swept.source.views(&cases)?.map(|view| {
        let view = view?;
        Ok((view.entry.key, drive::figures_of(&view)))
    });
    let figures: Vec<_> = figures.collect::<Result<_, SourceError>>()?;
    Ok(answer(goal, &figures))
}

/// What goes on with a sweep that was interrupted.
pub(in crate::cmd) fn how_to_go_on(swept: &Swept) -> Result<(), CommandError> {
    if swept.end == DriveEnd::Interrupted {
        let run = swept.source.run()?.id;
        print::note(format_args!("go on with `edgedyno sweep --resume {run}`"));
    }
    Ok(())
}

/// Cases that were left out are named one by one up to this many.
const MOST_LEFT_OUT: usize = 10;

/// Why cases were left out, one line each.
fn left_out(findings: &[(Option<Sha256>, FindingRow)]) -> Vec<String> {
    const CODES: [&str; 3] = [GIVEN_UP, LARGER_THAN_OUT_OF_MEMORY, LEFT_OUT_BY_GOAL];
    let told = findings.iter().filter_map(|(case, finding)| {
        let case = (*case)?.to_string();
        let is_told = CODES.contains(&finding.code.as_str());
        is_told.then(|| format!("case {}: {}", &case[..8], finding.text))
    });
    let mut lines: Vec<String> = told.collect();
    let more = lines.len().saturating_sub(MOST_LEFT_OUT);
    if more > 1 {
        lines.truncate(MOST_LEFT_OUT);
        lines.push(format!("and {more} more cases; their findings say why"));
    }
    lines
}

/// Findings about the sweep as a whole, what was left out, and where to go from here.
fn notes(swept: &Swept, run: &RunId) -> Result<Vec<String>, CommandError> {
    let crate::source::Source::Stored { store, run: id } = &swept.source else {
        return Ok(Vec::new());
    };
    let findings = store.findings(id)?;
    let of_run = findings.iter().filter(|(case, _)| case.is_none());
    let mut notes: Vec<String> = of_run
        .map(|(_, finding)| format!("{}: {}", finding.level, finding.text))
        .collect();
    notes.extend(left_out(&findings));
    notes.push(format!(
        "run {run}; `edgedyno summary {run} --case KEY` shows a case"
    ));
    Ok(notes)
}
