//! Gates: what a build server is told.

use super::cell::{Cell, Verdict};
use super::report::Comparison;
use crate::exit::Exit;
use crate::fields::condition::{Condition, Held};
use crate::summary::CaseSummary;

/// What became of a gate.
#[derive(Debug, Clone, PartialEq)]
pub struct GateResult {
    /// The gate as it was given: `--fail-over 3 %`, `--require p99 <= 33ms`.
    pub gate: String,
    pub outcome: Outcome,
    /// What made it so, one line each.
    pub reasons: Vec<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    Passed,
    Tripped,
    /// Something could not be decided, and nothing tripped.
    Undecided,
}

impl Outcome {
    pub const fn name(self) -> &'static str {
        match self {
            Self::Passed => "passed",
            Self::Tripped => "tripped",
            Self::Undecided => "undecided",
        }
    }
}

impl GateResult {
    pub(super) fn exit(&self) -> Option<Exit> {
        match self.outcome {
            Outcome::Passed => None,
            Outcome::Tripped => Some(Exit::GATE),
            Outcome::Undecided => Some(Exit::INVALID),
        }
    }

    fn new(gate: String, tripped: Vec<String>, undecided: Vec<String>) -> Self {
        let (outcome, reasons) = match (tripped.is_empty(), undecided.is_empty()) {
            (false, _) => (Outcome::Tripped, tripped),
            (true, false) => (Outcome::Undecided, undecided),
            (true, true) => (Outcome::Passed, Vec::new()),
        };
        Self {
            gate,
            outcome,
            reasons,
        }
    }
}

/// Whether a cell trips a gate at this share: it is worse, and the point by at least so much.
pub fn trips(cell: &Cell, share: f64) -> bool {
    let point = cell.measured.as_ref().map_or(0.0, |m| m.point.abs());
    cell.verdict.is_worse(cell.metric) && point >= share.ln_1p() * (1.0 - 1e-9)
}

/// `--fail-over`: trips on a cell that is worse by at least this share; a cell that could not be decided
/// or compared, and a case that is missing in B, leave it undecided.
pub fn fail_over(comparison: &Comparison, share: f64) -> GateResult {
    let name = |cell: &Cell| {
        let key = comparison.pairs[cell.pair].b.key.to_string();
        format!("case {} {}", &key[..8], cell.metric.title)
    };
    let percent = |share: f64| format!("{:+.2} %", share * 100.0);
    let (mut tripped, mut undecided) = (Vec::new(), Vec::new());
    for cell in &comparison.cells {
        let words = cell.verdict.words(cell.metric);
        if trips(cell, share) {
            let change = cell.change().map(percent).unwrap_or_default();
            tripped.push(format!("{}: {words}, {change}", name(cell)));
        } else if matches!(cell.verdict, Verdict::Undecided(_) | Verdict::NotComparable) {
            undecided.push(format!("{}: {words}", name(cell)));
        }
    }
    let missing = comparison.only_a.iter().map(|arm| {
        let key = arm.key.to_string();
        format!("case {} is missing in {}", &key[..8], comparison.b.name)
    });
    undecided.extend(missing);
    GateResult::new(
        format!("--fail-over {}", trimmed(share)),
        tripped,
        undecided,
    )
}

fn trimmed(share: f64) -> String {
    crate::ui::units::percent(share)
}

/// `--require`: every case of B must fulfil the condition.
pub fn require(condition: &Condition, cases: &[CaseSummary]) -> GateResult {
    let (mut tripped, mut undecided) = (Vec::new(), Vec::new());
    for case in cases {
        let key = &case.key.to_string()[..8];
        match condition.check(case) {
            Held::Yes => {}
            Held::No => {
                let value = (condition.field.get)(case);
                let unit = condition.field.unit.name();
                let number = value.as_f64().map(crate::ui::units::figure);
                let shown = number.unwrap_or_else(|| value.to_string());
                tripped.push(format!(
                    "case {key}: {} is {shown} {unit}",
                    condition.field.name
                ));
            }
            Held::Unknown(why) => undecided.push(format!("case {key}: {why}")),
        }
    }
    GateResult::new(format!("--require {condition}"), tripped, undecided)
}
