//! What must be known to read a comparison: sides, rule, sessions, unequal conditions, what would decide.

use std::collections::BTreeMap;

use super::label;
use crate::compare::cell::{Cell, Verdict, Why};
use crate::compare::conditions::{Difference, Weight};
use crate::compare::gate::Outcome;
use crate::compare::metric::Metric;
use crate::compare::report::{Comparison, Named};
use crate::compare::rule::Pairing;
use crate::stats::session::{FEWEST_SESSIONS, SessionSpread, UNKNOWN_SPREAD};
use crate::ui::units;

/// More undecided comparisons than this are counted and not named.
const MOST_NAMED: usize = 20;

/// Longest value of a condition that is shown whole.
const LONGEST: usize = 40;

/// One line each, not yet wrapped.
pub(crate) fn all(comparison: &Comparison) -> Vec<String> {
    let parts = [
        sides(comparison),
        simulated(comparison),
        rules(comparison),
        sessions(comparison),
        levels(comparison),
        differences(comparison),
        undecided(comparison),
        confirmations(comparison),
        missing(comparison),
        gates(comparison),
    ];
    parts.concat()
}

fn sides(comparison: &Comparison) -> Vec<String> {
    let side = |named: &Named| match &named.run {
        Some(run) if *run != named.name => format!("{} (run {run})", named.name),
        _ => named.name.clone(),
    };
    let (a, b) = (side(&comparison.a), side(&comparison.b));
    if a == b {
        return vec![format!(
            "A and B are cases of {a}; a change is that of B against A"
        )];
    }
    vec![format!(
        "A is {a}, B is {b}; a change is that of B against A"
    )]
}

fn simulated(comparison: &Comparison) -> Vec<String> {
    let made_up = comparison
        .pairs
        .iter()
        .any(|p| p.a.simulated || p.b.simulated);
    let text = "SIMULATED: figures of fake and null are made up and measure no model";
    made_up.then(|| text.to_owned()).into_iter().collect()
}

fn rules(comparison: &Comparison) -> Vec<String> {
    let mut lines = Vec::new();
    for cell in &comparison.cells {
        let pair = &comparison.pairs[cell.pair];
        let how = match (pair.pairing, pair.halves) {
            (Pairing::Interleaved, false) => "interleaved: arms took turns in one run",
            (Pairing::Interleaved, true) => {
                "A/A: one case against itself, its repeats dealt out to both sides"
            }
            (Pairing::Separate, _) => "separate: arms were measured at different times",
        };
        let effect = match cell.rule.is_for_parity() {
            true => String::new(),
            false => format!("; minimum effect {}", units::percent(cell.min_effect)),
        };
        let line = format!(
            "{how}; rule {}: {}{effect}",
            cell.rule.name(),
            cell.rule.text()
        );
        if !lines.contains(&line) {
            lines.push(line);
        }
    }
    let unpaired: usize = comparison.cells.iter().map(|cell| cell.unpaired).sum();
    if unpaired > 0 {
        lines.push(format!(
            "{unpaired} repeats have no counterpart in their round and are left out"
        ));
    }
    lines
}

fn sessions(comparison: &Comparison) -> Vec<String> {
    let mut lines = Vec::new();
    let several = comparison.ask.metrics.len() > 1;
    for cell in &comparison.cells {
        let Some(sessions) = cell.sessions else {
            continue;
        };
        let line = match sessions {
            SessionSpread::Unknown { sessions } => format!(
                "session spread taken as {}: {sessions} of the {FEWEST_SESSIONS} earlier sessions that would \
                 tell it are known; arms that take turns (--rerun) need none",
                units::percent(UNKNOWN_SPREAD)
            ),
            SessionSpread::Measured {
                sessions, sentinel, ..
            } => {
                let half = sessions_reach(comparison, cell.metric);
                let of = if sentinel { " of a sentinel" } else { "" };
                let differs = match several {
                    true => format!(
                        "{} of two sessions differs by up to {half} by itself",
                        cell.metric.title
                    ),
                    false => format!("two sessions differ by up to {half} by themselves"),
                };
                format!(
                    "session spread over {sessions} earlier sessions{of}: {differs} (95 %); an interval is \
                     no narrower than that"
                )
            }
        };
        if !lines.contains(&line) {
            lines.push(line);
        }
    }
    lines
}

/// The largest over cases.
fn sessions_reach(comparison: &Comparison, metric: &Metric) -> String {
    let cells = comparison.cells.iter();
    let of_metric = cells.filter(|cell| cell.metric.name == metric.name);
    let largest = of_metric
        .filter_map(|cell| cell.sessions)
        .filter(|spread| matches!(spread, SessionSpread::Measured { .. }))
        .filter_map(|spread| spread.half_width(0.95))
        .fold(0.0, f64::max);
    units::percent(largest.exp_m1())
}

fn levels(comparison: &Comparison) -> Vec<String> {
    let known: Vec<f64> = comparison
        .cells
        .iter()
        .filter_map(|cell| cell.decision.as_ref()?.level)
        .collect();
    if known.len() < 2 {
        return Vec::new();
    }
    let selected: Vec<f64> = known
        .iter()
        .copied()
        .filter(|level| *level > 0.95)
        .collect();
    let all = known.len();
    match selected.first() {
        Some(level) => vec![format!(
            "{} of {all} stand out by Benjamini–Hochberg at 5 %: their intervals are at {}, the others at 95 %",
            selected.len(),
            units::percent(*level)
        )],
        // All selected: the level is 95 % as well.
        None => vec![format!(
            "{all} comparisons decided together by Benjamini–Hochberg at 5 %; intervals at 95 %"
        )],
    }
}

/// Differences, each once with the cases that have it.
fn differences(comparison: &Comparison) -> Vec<String> {
    let mut by_text: BTreeMap<(std::cmp::Reverse<Weight>, String), usize> = BTreeMap::new();
    for difference in comparison.differences.iter().flatten() {
        if difference.weight == Weight::Compared && comparison.pairs.len() > 1 {
            continue;
        }
        let entry = (std::cmp::Reverse(difference.weight), text(difference));
        *by_text.entry(entry).or_default() += 1;
    }
    let all = comparison.pairs.len();
    let mut lines: Vec<String> = by_text
        .into_iter()
        .map(|((_, text), cases)| match cases == all {
            true => text,
            false => format!("{text} ({cases} of {all} cases)"),
        })
        .collect();
    let refused = comparison
        .cells
        .iter()
        .any(|c| c.verdict == Verdict::NotComparable);
    if refused {
        lines.push(
            "hint: measure both under the same conditions (--rerun), accept a difference with --allow NAME, \
             or look at it with --force".into(),
        );
    }
    lines
}

fn text(difference: &Difference) -> String {
    let shown = |value: &Option<String>| match value {
        Some(value) if value.chars().count() > LONGEST => {
            let begin: String = value.chars().take(12).collect();
            format!("{begin}…")
        }
        Some(value) => value.clone(),
        None => "not known".into(),
    };
    let Difference { name, a, b, weight } = difference;
    if name == "throttled" {
        let sides = [("A", a), ("B", b)].into_iter();
        let held: Vec<String> = sides
            .filter_map(|(side, how)| Some(format!("{side} {}", how.as_ref()?)))
            .collect();
        return format!("throttled: {}", held.join("; "));
    }
    let differ = match weight {
        Weight::Marked => "differs",
        Weight::Compared => "is compared",
        Weight::Refused => "is not equal",
    };
    format!("{name} {differ}: A {}, B {}", shown(a), shown(b))
}

fn undecided(comparison: &Comparison) -> Vec<String> {
    let labels = label::pairs(comparison);
    let mut lines: Vec<String> = Vec::new();
    for cell in &comparison.cells {
        let Verdict::Undecided(why) = cell.verdict else {
            continue;
        };
        let name = match comparison.ask.metrics.len() {
            1 => labels[cell.pair].clone(),
            _ => format!("{}, {}", labels[cell.pair], cell.metric.title),
        };
        lines.push(format!("undecided: {name}: {}", what_would_do(why, cell)));
    }
    let more = lines.len().saturating_sub(MOST_NAMED);
    if more > 1 {
        lines.truncate(MOST_NAMED);
        lines.push(format!(
            "undecided: {} more; --json names all",
            units::count(more as u64)
        ));
    }
    let few = comparison
        .cells
        .iter()
        .any(|cell| [&cell.a, &cell.b].iter().any(|s| s.enough == Some(false)));
    if few {
        lines.push("* too few independent trials to claim this percentile".into());
    }
    lines
}

fn what_would_do(why: Why, cell: &Cell) -> String {
    match why {
        Why::NotMeasured => "one side has no figure; `edgedyno summary` says why".into(),
        Why::FewRepeats(needed) => {
            let have = cell.a.repeats.min(cell.b.repeats);
            format!(
                "the rule needs {needed} repeats on each side, and there are {have}; measure with --repeat {}",
                needed.max(5)
            )
        }
        Why::FewTrials(needed) => format!(
            "{} needs {} independent trials on each side; A is worth {}, B {}",
            cell.metric.title,
            units::count(needed),
            worth(cell.a.n_eff),
            worth(cell.b.n_eff),
        ),
        Why::Wide(repeats) => format!("about {repeats} repeats of each arm would do"),
        Why::Sessions => match cell.sessions {
            Some(SessionSpread::Unknown { .. }) => format!(
                "how far two runs here differ by themselves is not known, and what is taken for it, {}, \
                 hides this; arms that take turns would do (--rerun), or more runs of the case in the store",
                units::percent(UNKNOWN_SPREAD)
            ),
            _ => "two runs differ by as much by themselves, so more repeats do not help; arms that take \
                  turns would (--rerun)"
                .into(),
        },
        Why::Hopeless => {
            "repeats differ too much; see the findings of both runs, and quieten the board".into()
        }
        Why::NotSignificant => {
            "within two standard errors, which does not show that they are equal".into()
        }
    }
}

fn worth(n_eff: Option<f64>) -> String {
    units::count(n_eff.map(|n| n.floor() as u64))
}

fn confirmations(comparison: &Comparison) -> Vec<String> {
    let again = comparison
        .cells
        .iter()
        .filter_map(|cell| Some((cell, cell.confirmation.as_ref()?)));
    let mut lines: Vec<String> = Vec::new();
    for (cell, second) in again {
        let first = second.first.words(cell.metric);
        let change = label::change(second.first_point.map(f64::exp_m1));
        lines.push(format!(
            "measured again in run {}: the first answer was {first}, {change}",
            second.run
        ));
    }
    lines
}

fn missing(comparison: &Comparison) -> Vec<String> {
    let count = |arms: usize, here: &str, there: &str| {
        (arms > 0).then(|| format!("{arms} cases of {here} have no counterpart in {there}"))
    };
    let a = count(comparison.only_a.len(), "A", "B");
    let b = count(comparison.only_b.len(), "B", "A");
    a.into_iter().chain(b).collect()
}

fn gates(comparison: &Comparison) -> Vec<String> {
    let mut lines = Vec::new();
    for gate in &comparison.gates {
        let outcome = match gate.outcome {
            Outcome::Passed => "passed",
            Outcome::Tripped => "TRIPPED",
            Outcome::Undecided => "cannot be decided",
        };
        lines.push(format!("gate {}: {outcome}", gate.gate));
        lines.extend(gate.reasons.iter().map(|reason| format!("  {reason}")));
    }
    lines.extend(finer_than_the_gate(comparison));
    lines
}

/// Where nothing but too fine a question leaves a gate undecided: how to ask for no more than the gate does.
fn finer_than_the_gate(comparison: &Comparison) -> Option<String> {
    let share = comparison.fail_over?;
    let undecided =
        |cell: &&Cell| matches!(cell.verdict, Verdict::Undecided(_) | Verdict::NotComparable);
    let mut cells = comparison.cells.iter().filter(undecided).peekable();
    cells.peek()?;
    let is_within = |cell: &Cell| {
        let point = cell.measured.as_ref().map(|measured| measured.point.abs());
        let reach = cell.decision.map(|decision| decision.half_width);
        let ends = point.zip(reach).map(|(point, reach)| point + reach);
        cell.min_effect < share && ends.is_some_and(|ends| ends <= share.ln_1p())
    };
    let percent = units::percent(share).replace(' ', "");
    cells.all(is_within).then(|| {
        format!(
            "hint: every change that is undecided is surely below {percent}; --min-effect {percent} asks for \
             no more than that"
        )
    })
}
