//! One metric of one pair: both figures, what lies between them, and the verdict.

use super::arm::Arm;
use super::conditions::{Difference, Weight};
use super::matching::Pair;
use super::metric::{Better, Metric};
use super::rule::{Decision, Measured, Pairing, Rule, fewest};
use crate::stats::bound;
use crate::stats::judge::Judgement;
use crate::stats::power;
use crate::stats::session::SessionSpread;

/// A cell of the comparison.
#[derive(Debug, Clone)]
pub struct Cell {
    /// Its pair's place.
    pub pair: usize,
    pub metric: &'static Metric,
    pub a: Side,
    pub b: Side,
    /// Repeats without a counterpart in the same round; always 0 where arms are separate.
    pub unpaired: usize,
    pub rule: Rule,
    pub min_effect: f64,
    pub sessions: Option<SessionSpread>,
    pub measured: Option<Measured>,
    pub decision: Option<Decision>,
    pub verdict: Verdict,
    /// What a second measurement said, where one was made.
    pub confirmation: Option<Confirmation>,
}

/// One side's figures.
#[derive(Debug, Clone, PartialEq)]
pub struct Side {
    pub value: Option<f64>,
    pub repeats: usize,
    pub trials: u64,
    pub n_eff: Option<f64>,
    /// Whether there are independent trials enough for this quantile; none when it is no quantile.
    pub enough: Option<bool>,
}

/// What is said.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    Larger,
    Smaller,
    NoDifference,
    Undecided(Why),
    NotComparable,
}

/// Why nothing was decided, and what would do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Why {
    /// A side has no figure.
    NotMeasured,
    /// The rule needs this many repeats.
    FewRepeats(usize),
    /// The quantile needs this many independent trials on each side.
    FewTrials(u64),
    /// The interval is too wide; this many repeats would probably do.
    Wide(usize),
    /// The interval is too wide, and more repeats of separate runs would not narrow it enough.
    Sessions,
    /// No number of repeats that is worth planning would do.
    Hopeless,
    /// A parity rule found nothing, and it cannot show that there is nothing.
    NotSignificant,
}

/// A cell measured again.
#[derive(Debug, Clone, PartialEq)]
pub struct Confirmation {
    pub run: String,
    /// The first verdict, which the second measurement had to confirm.
    pub first: Verdict,
    pub first_point: Option<f64>,
}

impl Side {
    pub fn of(arm: &Arm, metric: &Metric) -> Self {
        let n_eff = arm.n_eff(metric);
        let needed = metric.quantile.and_then(bound::minimum_count);
        Self {
            value: arm.centre(metric),
            repeats: arm.values(metric).len(),
            trials: arm.trials(),
            n_eff,
            enough: needed.map(|needed| n_eff.is_some_and(|n| n >= needed as f64)),
        }
    }
}

impl Verdict {
    /// In the metric's own words.
    pub fn words(self, metric: &Metric) -> &'static str {
        match self {
            Self::Larger => metric.larger(),
            Self::Smaller => metric.smaller(),
            Self::NoDifference => "no difference shown",
            Self::Undecided(_) => "undecided",
            Self::NotComparable => "not comparable",
        }
    }

    /// As JSON and scripts have it: the words with underscores.
    pub fn code(self, metric: &Metric) -> String {
        self.words(metric).replace(' ', "_")
    }

    /// B is worse than A.
    pub fn is_worse(self, metric: &Metric) -> bool {
        matches!(
            (self, metric.better),
            (Self::Larger, Better::Less) | (Self::Smaller, Better::More)
        )
    }

    pub fn is_difference(self) -> bool {
        matches!(self, Self::Larger | Self::Smaller)
    }
}

impl Cell {
    /// The change of B against A as a share of A: 0.03 is 3 % more.
    pub fn change(&self) -> Option<f64> {
        let plain = || Some(self.b.value? / self.a.value? - 1.0).filter(|x| x.is_finite());
        self.measured
            .as_ref()
            .map(|m| m.point.exp_m1())
            .or_else(plain)
    }

    /// The interval of the change, as shares.
    pub fn interval(&self) -> Option<(f64, f64)> {
        let (measured, decision) = (self.measured.as_ref()?, self.decision?);
        let at = |sign: f64| (measured.point + sign * decision.half_width).exp_m1();
        Some((at(-1.0), at(1.0)))
    }
}

/// Per-repeat figures of both sides, ready for a rule: by round where they took turns.
#[derive(Debug, Clone, PartialEq)]
pub struct Figures {
    pub a: Vec<f64>,
    pub b: Vec<f64>,
    pub unpaired: usize,
}

impl Figures {
    pub fn of(pair: &Pair, metric: &Metric) -> Self {
        let (a, b) = (pair.a.values(metric), pair.b.values(metric));
        if pair.pairing == Pairing::Separate {
            return Self { a, b, unpaired: 0 };
        }
        let rounds = pair.a.repeats.iter().filter_map(|of_a| {
            let same = |of_b: &&super::arm::ArmRepeat| of_b.repeat == of_a.repeat;
            let of_b = pair.b.repeats.iter().find(same)?;
            Some((of_a.figure(metric)?.value, of_b.figure(metric)?.value))
        });
        let (paired_a, paired_b): (Vec<f64>, Vec<f64>) = rounds.unzip();
        Self {
            unpaired: a.len() + b.len() - 2 * paired_a.len(),
            a: paired_a,
            b: paired_b,
        }
    }
}

/// The verdict of a cell whose conditions and figures are known.
pub fn verdict(cell: &Cell, differences: &[Difference], force: bool) -> Verdict {
    let refused = differences.iter().any(|d| d.weight == Weight::Refused);
    if refused && !force {
        return Verdict::NotComparable;
    }
    if cell.a.value.is_none() || cell.b.value.is_none() {
        return Verdict::Undecided(Why::NotMeasured);
    }
    if cell.a.enough == Some(false) || cell.b.enough == Some(false) {
        let needed = cell.metric.quantile.and_then(bound::minimum_count);
        return Verdict::Undecided(Why::FewTrials(needed.unwrap_or_default()));
    }
    let (Some(measured), Some(decision)) = (&cell.measured, &cell.decision) else {
        return Verdict::Undecided(Why::FewRepeats(fewest(cell.rule)));
    };
    match decision.judgement {
        Judgement::Larger => Verdict::Larger,
        Judgement::Smaller => Verdict::Smaller,
        Judgement::NoDifference => Verdict::NoDifference,
        Judgement::Undecided => Verdict::Undecided(why(cell, measured, decision)),
    }
}

fn why(cell: &Cell, measured: &Measured, decision: &Decision) -> Why {
    let Some(level) = decision.level else {
        return Why::NotSignificant;
    };
    let decide = |floor: f64| {
        power::repeats_to_decide(
            measured.point,
            measured.spread,
            floor,
            cell.min_effect,
            level,
        )
    };
    let floor = decision.over_sessions.unwrap_or(0.0);
    match (decide(floor), floor > 0.0) {
        (Some(repeats), _) => Why::Wide(repeats),
        (None, true) => Why::Sessions,
        (None, false) => Why::Hopeless,
    }
}
