//! A whole comparison: pairs, what differs in them, and a cell for each metric.

use super::cell::{self, Cell, Figures, Side, Verdict, Why};
use super::conditions::{self, Difference};
use super::gate::GateResult;
use super::matching::{Matched, Pair};
use super::metric::Metric;
use super::rule::{self, Pairing, Question, Rule};
use super::sessions::Sessions;
use crate::exit::Exit;
use crate::stats::judge::{MIN_EFFECT_INTERLEAVED, MIN_EFFECT_SEPARATE};

/// What was asked.
#[derive(Debug, Clone)]
pub struct Ask {
    pub metrics: Vec<&'static Metric>,
    /// None leaves it to the pairing.
    pub rule: Option<Rule>,
    pub min_effect: Option<f64>,
    /// Differences that are accepted, by name.
    pub allowed: Vec<String>,
    /// Unequal conditions are compared all the same.
    pub force: bool,
}

/// One side as it was named, and what it turned out to be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Named {
    pub name: String,
    pub run: Option<String>,
}

/// The answer.
#[derive(Debug, Clone)]
pub struct Comparison {
    pub a: Named,
    pub b: Named,
    pub ask: Ask,
    pub pairs: Vec<Pair>,
    /// Of each pair, the gravest first.
    pub differences: Vec<Vec<Difference>>,
    pub cells: Vec<Cell>,
    pub only_a: Vec<super::arm::Arm>,
    pub only_b: Vec<super::arm::Arm>,
    pub gates: Vec<GateResult>,
    /// The share of `--fail-over`, where it was given.
    pub fail_over: Option<f64>,
}

impl Ask {
    fn rule_of(&self, pairing: Pairing) -> Rule {
        self.rule.unwrap_or(Rule::default_of(pairing))
    }

    fn min_effect_of(&self, pairing: Pairing) -> f64 {
        self.min_effect.unwrap_or(match pairing {
            Pairing::Interleaved => MIN_EFFECT_INTERLEAVED,
            Pairing::Separate => MIN_EFFECT_SEPARATE,
        })
    }
}

impl Comparison {
    /// Compares what was matched: every metric of every pair, decided together.
    pub fn of(a: Named, b: Named, matched: Matched, ask: Ask, sessions: &Sessions) -> Self {
        let differences = matched
            .pairs
            .iter()
            .map(|pair| conditions::differences(&pair.a, &pair.b, &pair.compared, &ask.allowed));
        let differences: Vec<Vec<Difference>> = differences.collect();
        let mut cells = Vec::new();
        for (at, pair) in matched.pairs.iter().enumerate() {
            let metrics = ask.metrics.iter();
            cells.extend(metrics.map(|metric| measure(at, pair, metric, &ask, sessions)));
        }
        decide(&mut cells, &differences, ask.force);
        Self {
            a,
            b,
            ask,
            pairs: matched.pairs,
            differences,
            cells,
            only_a: matched.only_a,
            only_b: matched.only_b,
            gates: Vec::new(),
            fail_over: None,
        }
    }

    /// What it comes to for a script.
    pub fn exit(&self, force: bool) -> Exit {
        let mut codes: Vec<Exit> = self.gates.iter().filter_map(|gate| gate.exit()).collect();
        if self
            .cells
            .iter()
            .any(|cell| cell.verdict == Verdict::NotComparable)
        {
            codes.push(Exit::INVALID);
        }
        let empty = |cell: &&Cell| cell.verdict == Verdict::Undecided(Why::NotMeasured);
        match self.cells.iter().filter(empty).count() {
            0 => {}
            all if all == self.cells.len() => codes.push(Exit::NOTHING_MEASURED),
            _ => codes.push(Exit::SOME_FAILED),
        }
        match Exit::of_all(codes) {
            Exit::INVALID if force => Exit::GOOD,
            exit => exit,
        }
    }
}

fn measure(
    at: usize,
    pair: &Pair,
    metric: &'static Metric,
    ask: &Ask,
    sessions: &Sessions,
) -> Cell {
    let rule = ask.rule_of(pair.pairing);
    let figures = Figures::of(pair, metric);
    let separate = pair.pairing == Pairing::Separate && !rule.is_for_parity();
    Cell {
        pair: at,
        metric,
        a: Side::of(&pair.a, metric),
        b: Side::of(&pair.b, metric),
        unpaired: figures.unpaired,
        rule,
        min_effect: ask.min_effect_of(pair.pairing),
        sessions: separate.then(|| sessions.spread(pair, metric)),
        measured: rule::measure(rule, pair.pairing, &figures.a, &figures.b),
        decision: None,
        verdict: Verdict::Undecided(Why::NotMeasured),
        confirmation: None,
    }
}

/// Only what may be claimed takes part: a cell that is refused or has too few trials is no test.
fn decide(cells: &mut [Cell], differences: &[Vec<Difference>], force: bool) {
    let takes_part = |cell: &Cell| {
        let preliminary = cell::verdict(cell, &differences[cell.pair], force);
        matches!(preliminary, Verdict::Undecided(Why::FewRepeats(_)))
    };
    let questions: Vec<Option<Question<'_>>> = cells
        .iter()
        .map(|cell| {
            let measured = cell.measured.as_ref().filter(|_| takes_part(cell))?;
            Some(Question {
                measured,
                sessions: cell.sessions,
                min_effect: cell.min_effect,
            })
        })
        .collect();
    let decisions = rule::decide(&questions);
    for (cell, decision) in cells.iter_mut().zip(decisions) {
        cell.decision = decision;
        cell.verdict = cell::verdict(cell, &differences[cell.pair], force);
    }
}
