//! `compare`: which is better, by how much, and whether that can be said.

mod again;
mod options;
mod sides;

use std::collections::BTreeSet;
use std::path::Path;

use self::again::{Again, Remeasured};
use self::options::CompareArgs;
use self::sides::Side;
use crate::cli::Global;
use crate::compare::baseline::Baseline;
use crate::compare::cell::{Cell, Confirmation};
use crate::compare::gate;
use crate::compare::json;
use crate::compare::matching::{self, MatchError, Matched, Pair};
use crate::compare::metric::{METRICS, Metric, UnknownMetric};
use crate::compare::report::{Ask, Comparison};
use crate::compare::rule::{Pairing, Rule};
use crate::compare::sessions::Sessions;
use crate::drive::DriveEnd;
use crate::exit::{CommandError, CommandResult, Exit};
use crate::summary::CaseSummary;
use crate::ui::busy::Busy;
use crate::ui::compare as text;
use crate::ui::{print, units};

pub use options::CompareArgs as Args;
use options::Format;

pub fn run(args: &CompareArgs, global: &Global) -> CommandResult {
    let ask = args.ask()?;
    if let Some(path) = &args.save_baseline {
        return save(args, path, global);
    }
    let (names_a, names_b) = args.sides()?;
    let a = Side::open(&names_a, args.case.as_deref(), global)?;
    let b = match &names_b {
        Some(name) => Some(Side::open(name, args.case.as_deref(), global)?),
        None => None,
    };
    let (comparison, end, judged) = match args.rerun {
        true => rerun(args, &ask, &a, b.as_ref(), global)?,
        false => stored(args, &ask, &a, b.as_ref(), global)?,
    };
    let comparison = gates(args, comparison, &judged)?;
    match (global.json, args.format) {
        (true, _) => print::json(&json::document(&comparison)),
        (false, Format::Table) => print::result(text::table(&comparison)),
        (false, Format::Markdown) => print::result(text::markdown(&comparison)),
        (false, Format::Junit) => print::result(text::junit(&comparison)),
    }
    let interrupted = (end == DriveEnd::Interrupted).then_some(Exit::INTERRUPTED);
    let came_to = comparison.exit(args.force);
    Ok(Exit::of_all(interrupted.into_iter().chain([came_to])))
}

/// What a comparison gives: the answer, how a measurement of it ended, and where side B is stored.
type Answer = (Comparison, DriveEnd, Judged);

/// Cases of side B, for conditions on them.
enum Judged {
    Side(Vec<CaseSummary>),
    /// Nobody asked, or a file that has no trials.
    Nothing,
}

fn stored(
    args: &CompareArgs,
    ask: &Ask,
    a: &Side,
    b: Option<&Side>,
    global: &Global,
) -> Result<Answer, CommandError> {
    let matched = matched(args, ask, a, b)?;
    let separate = |pair: &Pair| pair.pairing == Pairing::Separate;
    if ask.rule == Some(Rule::PairedT) && matched.pairs.iter().any(separate) {
        return Err(
            CommandError::usage("repeats of separate runs are not pairs")
                .hint("use --rule welch-t, or --rerun, where arms take turns"),
        );
    }
    // The same trials on both sides are equal whatever the board did.
    if matched
        .pairs
        .iter()
        .any(|pair| (&pair.a.run, pair.a.key) == (&pair.b.run, pair.b.key))
    {
        return Err(MatchError::Itself.into());
    }
    let sessions = sessions(&matched, ask, global)?;
    let judged = judged(args, b.unwrap_or(a))?;
    let name_b = b.unwrap_or(a).named();
    let first = Comparison::of(a.named(), name_b, matched, ask.clone(), &sessions);
    if !args.confirm || !first.cells.iter().any(|cell| cell.verdict.is_difference()) {
        return Ok((first, DriveEnd::Complete, judged));
    }
    let wanted: BTreeSet<usize> = first
        .cells
        .iter()
        .filter(|cell| cell.verdict.is_difference())
        .map(|cell| cell.pair)
        .collect();
    let pairs: Vec<_> = wanted.iter().map(|at| first.pairs[*at].clone()).collect();
    let again = Again::of(&pairs, a, b.unwrap_or(a), true)?;
    let second = again.measure(args, ask, global)?;
    let end = second.end;
    let matched = Matched {
        pairs: second.pairs,
        ..Matched::default()
    };
    let sessions = self::sessions(&matched, ask, global)?;
    let (name_a, name_b) = (first.a.clone(), first.b.clone());
    let again = Comparison::of(name_a, name_b, matched, ask.clone(), &sessions);
    Ok((confirmed(first, again, &second.run), end, judged))
}

/// Both arms measured now, taking turns.
fn rerun(
    args: &CompareArgs,
    ask: &Ask,
    a: &Side,
    b: Option<&Side>,
    global: &Global,
) -> Result<Answer, CommandError> {
    let found = matched(args, ask, a, b)?;
    let again = Again::of(&found.pairs, a, b.unwrap_or(a), false)?;
    let Remeasured {
        run,
        pairs,
        end,
        summaries,
    } = again.measure(args, ask, global)?;
    let matched = Matched {
        pairs,
        only_a: found.only_a,
        only_b: found.only_b,
    };
    let (mut name_a, mut name_b) = (a.named(), b.unwrap_or(a).named());
    (name_a.run, name_b.run) = (Some(run.clone()), Some(run));
    let sessions = Sessions::default();
    let comparison = Comparison::of(name_a, name_b, matched, ask.clone(), &sessions);
    Ok((comparison, end, Judged::Side(summaries)))
}

/// The second measurement takes the place of the first wherever that had found a difference.
fn confirmed(mut first: Comparison, again: Comparison, run: &str) -> Comparison {
    let offset = first.pairs.len();
    for cell in &mut first.cells {
        if !cell.verdict.is_difference() {
            continue;
        }
        let (key_a, key_b) = (first.pairs[cell.pair].a.key, first.pairs[cell.pair].b.key);
        let same = |other: &&Cell| {
            let pair = &again.pairs[other.pair];
            let keys = (pair.a.key, pair.b.key) == (key_a, key_b);
            keys && other.metric.name == cell.metric.name
        };
        let Some(measured_again) = again.cells.iter().find(same) else {
            continue;
        };
        let confirmation = Confirmation {
            run: run.to_owned(),
            first: cell.verdict,
            first_point: cell.measured.as_ref().map(|m| m.point),
        };
        let mut replaced = measured_again.clone();
        replaced.pair += offset;
        replaced.confirmation = Some(confirmation);
        *cell = replaced;
    }
    first.pairs.extend(again.pairs);
    first.differences.extend(again.differences);
    first
}

fn matched(
    args: &CompareArgs,
    ask: &Ask,
    a: &Side,
    b: Option<&Side>,
) -> Result<Matched, CommandError> {
    let arms_a = a.arms(&ask.metrics)?;
    let found = match (b, &args.between) {
        (None, Some(between)) => matching::within(&arms_a, between),
        (None, None) => {
            return Err(CommandError::usage("there is nothing to compare with")
                .hint("name a second run, --baseline TAG|FILE, or --between AXIS=A,B"));
        }
        (Some(b), between) => {
            let arms_b = b.arms(&ask.metrics)?;
            match (arms_a.as_slice(), arms_b.as_slice()) {
                ([one], [other]) if between.is_none() && a.names_one_case && b.names_one_case => {
                    matching::named(one.clone(), other.clone())
                }
                _ => matching::two_runs(arms_a, arms_b, between.as_ref()),
            }
        }
    };
    Ok(found?)
}

fn sessions(matched: &Matched, ask: &Ask, global: &Global) -> Result<Sessions, CommandError> {
    match super::open_for_reading(global) {
        Ok(store) => {
            let _busy = Busy::with("reading earlier sessions");
            Ok(Sessions::load(&store, &matched.pairs, &ask.metrics)?)
        }
        // Two files are compared without a store: then nothing is known of other sessions.
        Err(_) => Ok(Sessions::default()),
    }
}

fn judged(args: &CompareArgs, b: &Side) -> Result<Judged, CommandError> {
    match args.require.is_empty() {
        true => Ok(Judged::Nothing),
        false => Ok(Judged::Side(b.summaries()?)),
    }
}

fn gates(
    args: &CompareArgs,
    mut comparison: Comparison,
    judged: &Judged,
) -> Result<Comparison, CommandError> {
    if let Some(share) = args.fail_over {
        let result = gate::fail_over(&comparison, share.0);
        comparison.gates.push(result);
        comparison.fail_over = Some(share.0);
    }
    for condition in &args.require {
        let cases = match judged {
            Judged::Side(cases) => cases.as_slice(),
            Judged::Nothing => &[],
        };
        comparison.gates.push(gate::require(condition, cases));
    }
    Ok(comparison)
}

/// `--save-baseline`: the arms of one run in a file.
fn save(args: &CompareArgs, path: &Path, global: &Global) -> CommandResult {
    let name = match args.runs.as_slice() {
        [] => "last",
        [one] => one,
        _ => {
            return Err(CommandError::usage("a baseline is made of one run")
                .hint("`edgedyno compare RUN --save-baseline FILE`"));
        }
    };
    let side = Side::open(name, args.case.as_deref(), global)?;
    let all: Vec<&Metric> = METRICS.iter().collect();
    let baseline = Baseline::of(side.arms(&all)?);
    if baseline.cases.iter().all(|arm| arm.repeats.is_empty()) {
        let what = format!("`{name}` has no measured trial to be held to");
        return Err(CommandError::new(Exit::NOTHING_MEASURED, what)
            .hint("`edgedyno summary RUN` says what went wrong"));
    }
    baseline.save(path)?;
    let cases = baseline.cases.len();
    match global.json {
        true => print::json(&serde_json::json!({
            "document": "edgedyno/baseline-saved/1",
            "file": path,
            "run": side.named().run,
            "cases_count": cases,
        })),
        false => print::note(format_args!(
            "{} written to {}",
            units::things(cases as u64, "case"),
            path.display()
        )),
    }
    Ok(Exit::GOOD)
}

impl From<MatchError> for CommandError {
    fn from(error: MatchError) -> Self {
        let hint = error.hint();
        Self::usage(error.to_string()).hint(hint)
    }
}

impl From<UnknownMetric> for CommandError {
    fn from(error: UnknownMetric) -> Self {
        Self::usage(error.to_string()).hint(error.hint)
    }
}
