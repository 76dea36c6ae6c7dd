//! One side of a comparison: what was measured of one case in one run, and under which conditions.

use std::collections::BTreeMap;

use edgedyno_shared::case::Case;
use edgedyno_shared::ids::Sha256;
use serde::{Deserialize, Serialize};

use super::conditions;
use super::metric::Metric;
use crate::findings::throttling;
use crate::plan::axes::axes;
use crate::stats::autocorrelation::exceedance_time;
use crate::stats::mean;
use crate::stats::random::Random;
use crate::store::rows::{HashRow, OutcomeKind};
use crate::view::{CaseView, RepeatView};

/// A case as one run has it. Small enough to be kept in a file beside the code.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Arm {
    pub run: String,
    pub created_unix_ns: i64,
    pub tool_version: String,
    pub key: HashRow,
    pub match_key: HashRow,
    /// Names and values of the case.
    pub axes: BTreeMap<String, String>,
    pub simulated: bool,
    /// How the board was held back, if it was.
    pub throttled: Option<String>,
    /// Repeats that have rows but no complete attempt.
    pub failed_repeats: u32,
    /// What was observed, by name; see [`conditions`].
    pub conditions: BTreeMap<String, String>,
    pub repeats: Vec<ArmRepeat>,
}

/// One repeat that counts.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ArmRepeat {
    pub repeat: u32,
    pub began_unix_ns: Option<i64>,
    pub trials: u64,
    /// By metric, in its base unit.
    pub figures: BTreeMap<String, Figure>,
}

/// A repeat's figure and, for a quantile, how many independent trials it stands on.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Figure {
    pub value: f64,
    pub n_eff: Option<f64>,
}

impl Arm {
    pub fn of(view: &CaseView, metrics: &[&Metric]) -> Self {
        let case = Case::from(&view.entry.case);
        let counting: Vec<u32> = view.counting().map(|r| r.row.key.repeat).collect();
        let mut failed: Vec<u32> = view
            .repeats
            .iter()
            .filter(|r| r.row.outcome != OutcomeKind::Complete)
            .map(|r| r.row.key.repeat)
            .filter(|repeat| !counting.contains(repeat))
            .collect();
        failed.sort_unstable();
        failed.dedup();
        let held_back = |repeat: &RepeatView| {
            let how = throttling(repeat)?;
            Some(format!("in repeat {} {how}", repeat.row.key.repeat))
        };
        Self {
            run: view.run.id.0.clone(),
            created_unix_ns: view.run.created_unix_ns,
            tool_version: view.run.tool_version.clone(),
            key: view.entry.key.into(),
            match_key: view.entry.match_key.into(),
            axes: axes(&case).into_iter().collect(),
            simulated: view.is_simulated(),
            throttled: view.counting().find_map(held_back),
            failed_repeats: failed.len() as u32,
            conditions: conditions::of(view),
            repeats: view
                .counting()
                .filter(|repeat| !repeat.trials.measured.is_empty())
                .map(|repeat| ArmRepeat::of(repeat, metrics))
                .collect(),
        }
    }

    pub fn key(&self) -> Sha256 {
        self.key.0
    }

    /// Figures of all repeats that have one.
    pub fn values(&self, metric: &Metric) -> Vec<f64> {
        let figures = self.repeats.iter().filter_map(|r| r.figure(metric));
        figures.map(|figure| figure.value).collect()
    }

    /// The geometric mean over repeats, as printed everywhere.
    pub fn centre(&self, metric: &Metric) -> Option<f64> {
        mean::over_repeats(&self.values(metric))
    }

    /// Trials of the repeats that count.
    pub fn trials(&self) -> u64 {
        self.repeats.iter().map(|repeat| repeat.trials).sum()
    }

    /// Independent trials that the measured ones are worth at a quantile.
    pub fn n_eff(&self, metric: &Metric) -> Option<f64> {
        let known = self.repeats.iter().filter_map(|r| r.figure(metric)?.n_eff);
        known.reduce(|a, b| a + b)
    }

    /// One arm as two: of each two repeats in a row a coin gives one to each side, so that what is
    /// compared are equals that took turns.
    pub fn halves(&self, seed: u64) -> (Self, Self) {
        let mut random = Random::seeded(seed);
        let (mut a, mut b) = (self.clone(), self.clone());
        (a.repeats, b.repeats) = (Vec::new(), Vec::new());
        for (round, pair) in self.repeats.chunks_exact(2).enumerate() {
            let first = random.below(2);
            for (half, index) in [(&mut a, first), (&mut b, 1 - first)] {
                half.repeats.push(ArmRepeat {
                    repeat: round as u32,
                    ..pair[index].clone()
                });
            }
        }
        (a, b)
    }
}

impl ArmRepeat {
    fn of(repeat: &RepeatView, metrics: &[&Metric]) -> Self {
        let figure = |metric: &&Metric| {
            let value = (metric.of)(repeat)?;
            let trials = &repeat.trials.measured;
            let worth = |_| trials.len() as f64 / exceedance_time(trials, value);
            let n_eff = metric.quantile.map(worth);
            Some((metric.name.to_owned(), Figure { value, n_eff }))
        };
        Self {
            repeat: repeat.row.key.repeat,
            began_unix_ns: repeat.row.start.as_ref().map(|start| start.wall_unix_ns),
            trials: repeat.trials.measured.len() as u64,
            figures: metrics.iter().filter_map(figure).collect(),
        }
    }

    pub fn figure(&self, metric: &Metric) -> Option<Figure> {
        self.figures.get(metric.name).copied()
    }
}
