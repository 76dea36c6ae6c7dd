//! A comparison as JSON.

use serde_json::{Value, json};

use super::arm::Arm;
use super::cell::{Cell, Side, Verdict, Why};
use super::conditions::{Difference, Weight};
use super::report::{Comparison, Named};
use super::rule::Pairing;
use crate::stats::discovery::FALSE_DISCOVERIES;
use crate::stats::session::{SessionSpread, UNKNOWN_SPREAD};

/// Names the form of the document.
pub const DOCUMENT: &str = "edgedyno/compare/1";

pub fn document(comparison: &Comparison) -> Value {
    let cells = comparison
        .cells
        .iter()
        .map(|cell| of_cell(comparison, cell));
    json!({
        "document": DOCUMENT,
        "a": side_name(&comparison.a),
        "b": side_name(&comparison.b),
        "false_discoveries_share": FALSE_DISCOVERIES,
        "cells_count": comparison.cells.iter().filter(|cell| cell.decision.is_some()).count(),
        "cells": cells.collect::<Vec<_>>(),
        "only_a": comparison.only_a.iter().map(brief).collect::<Vec<_>>(),
        "only_b": comparison.only_b.iter().map(brief).collect::<Vec<_>>(),
        "gates": comparison.gates.iter().map(|gate| json!({
            "gate": gate.gate,
            "outcome": gate.outcome.name(),
            "reasons": gate.reasons,
        })).collect::<Vec<_>>(),
    })
}

fn side_name(named: &Named) -> Value {
    json!({ "name": named.name, "run": named.run })
}

fn brief(arm: &Arm) -> Value {
    json!({ "run": arm.run, "case": arm.key.to_string(), "axes": arm.axes })
}

fn of_cell(comparison: &Comparison, cell: &Cell) -> Value {
    let pair = &comparison.pairs[cell.pair];
    let differences = comparison.differences[cell.pair].iter().map(difference);
    let interval = cell.interval();
    let decision = cell.decision.as_ref();
    json!({
        "a": { "arm": brief(&pair.a), "figures": side(&cell.a) },
        "b": { "arm": brief(&pair.b), "figures": side(&cell.b) },
        "compared": pair.compared,
        "halves": pair.halves,
        "simulated": pair.a.simulated || pair.b.simulated,
        "metric": cell.metric.name,
        "unit": cell.metric.unit(),
        "pairing": pairing(pair.pairing),
        "unpaired_repeats_count": cell.unpaired,
        "rule": cell.rule.name(),
        "min_effect_share": (!cell.rule.is_for_parity()).then_some(cell.min_effect),
        "change_share": cell.change(),
        "low_share": interval.map(|(low, _)| low),
        "high_share": interval.map(|(_, high)| high),
        "level": decision.and_then(|d| d.level),
        "p_value": decision.and_then(|d| d.p_value),
        "half_width_over_repeats": decision.map(|d| d.over_repeats),
        "half_width_over_sessions": decision.and_then(|d| d.over_sessions),
        "sessions": cell.sessions.as_ref().map(sessions),
        "hodges_lehmann_share": cell.measured.as_ref().and_then(|m| m.shift).map(f64::exp_m1),
        "verdict": cell.verdict.code(cell.metric),
        "reason": reason(cell),
        "repeats_that_would_do": match cell.verdict {
            Verdict::Undecided(Why::Wide(repeats)) => Some(repeats),
            _ => None,
        },
        "differences": differences.collect::<Vec<_>>(),
        "confirmed_by": cell.confirmation.as_ref().map(|second| json!({
            "run": second.run,
            "first_verdict": second.first.code(cell.metric),
            "first_change_share": second.first_point.map(f64::exp_m1),
        })),
    })
}

fn side(side: &Side) -> Value {
    json!({
        "value": side.value,
        "repeats_count": side.repeats,
        "trials_count": side.trials,
        "n_eff": side.n_eff,
        "enough": side.enough,
    })
}

pub(super) const fn pairing(pairing: Pairing) -> &'static str {
    match pairing {
        Pairing::Interleaved => "interleaved",
        Pairing::Separate => "separate",
    }
}

fn sessions(spread: &SessionSpread) -> Value {
    match *spread {
        SessionSpread::Measured {
            deviation,
            sessions,
            sentinel,
            ..
        } => json!({
            "known": true,
            "count": sessions,
            "deviation": deviation,
            "of_sentinel": sentinel,
        }),
        SessionSpread::Unknown { sessions } => {
            json!({ "known": false, "count": sessions, "taken_as_share": UNKNOWN_SPREAD })
        }
    }
}

fn reason(cell: &Cell) -> Option<&'static str> {
    match cell.verdict {
        Verdict::Undecided(why) => Some(match why {
            Why::NotMeasured => "not_measured",
            Why::FewRepeats(_) => "few_repeats",
            Why::FewTrials(_) => "few_trials",
            Why::Wide(_) => "wide_interval",
            Why::Sessions => "session_spread",
            Why::Hopeless => "too_noisy",
            Why::NotSignificant => "not_significant",
        }),
        Verdict::NotComparable => Some("unequal_conditions"),
        _ => None,
    }
}

fn difference(difference: &Difference) -> Value {
    json!({
        "name": difference.name,
        "a": difference.a,
        "b": difference.b,
        "weight": match difference.weight {
            Weight::Marked => "marked",
            Weight::Compared => "compared",
            Weight::Refused => "refused",
        },
    })
}
