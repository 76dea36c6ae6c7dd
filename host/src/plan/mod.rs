//! Planners: what to order next, worked out from what is done. Pure; the driver does the rest.

pub mod answer;
pub mod axes;
pub mod backend;
pub mod check;
pub mod condition;
pub mod feed;
pub mod figures;
pub mod fixed;
pub mod goal;
pub mod optimize;
pub mod plain;
pub mod schedule;
mod shuffle;
pub mod sweep;
pub mod tenant;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use edgedyno_shared::ids::Sha256;
use edgedyno_shared::order::{OrderKey, Pass, RepeatOrder};
use edgedyno_shared::wire::failure::FailureCode;

use self::figures::CaseFigures;

/// Decides what is measured, in which order, and when it is enough.
pub trait Planner {
    /// Orders to queue now, at most `progress.room`. Nothing, with nothing pending: the plan is done.
    fn next(&mut self, progress: &Progress) -> Vec<RepeatOrder>;

    /// Repeats planned in all, at most, where the plan knows.
    fn total(&self) -> Option<usize>;

    /// Whether what comes next depends on what was measured, and not only on how it ended.
    fn needs_figures(&self) -> bool {
        false
    }
}

/// What a planner knows: which attempts have ended and which are on the way.
#[derive(Debug, Clone, Default)]
pub struct Progress {
    ended: BTreeMap<OrderKey, Ended>,
    pending: BTreeSet<OrderKey>,
    /// By case; kept only for a planner that needs them.
    figures: BTreeMap<Sha256, CaseFigures>,
    /// Orders that may be queued now.
    pub room: usize,
    /// Since driving began.
    pub elapsed: Duration,
}

/// How an attempt ended, as far as planning is concerned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ended {
    Complete,
    /// A result too: the same would happen again.
    Failed,
    /// A failure of its own kind: what is larger will run out as well.
    OutOfMemory,
    /// Board or link were lost meanwhile; another attempt may do better.
    Lost,
    /// Stopped by the user; a resumed run measures it again.
    Cancelled,
}

impl Ended {
    /// How a failure of this code ends its attempt.
    pub fn from_failure(code: FailureCode) -> Self {
        match code {
            FailureCode::AgentRestarted | FailureCode::SpoolDamaged => Self::Lost,
            FailureCode::Cancelled => Self::Cancelled,
            FailureCode::OutOfMemory => Self::OutOfMemory,
            _ => Self::Failed,
        }
    }
}

impl Progress {
    /// An attempt that has its row.
    pub fn end(&mut self, key: OrderKey, how: Ended) {
        self.pending.remove(&key);
        self.ended.insert(key, how);
    }

    /// An order the agent has.
    pub fn begin(&mut self, key: OrderKey) {
        if !self.ended.contains_key(&key) {
            self.pending.insert(key);
        }
    }

    /// What the agent has is only this: said anew on every connection.
    pub fn only_pending(&mut self, keys: impl IntoIterator<Item = OrderKey>) {
        self.pending.clear();
        keys.into_iter().for_each(|key| self.begin(key));
    }

    /// What a case has come to by now.
    pub fn put_figures(&mut self, case: Sha256, figures: CaseFigures) {
        self.figures.insert(case, figures);
    }

    pub fn figures(&self, case: Sha256) -> Option<&CaseFigures> {
        self.figures.get(&case)
    }

    pub fn pending(&self) -> &BTreeSet<OrderKey> {
        &self.pending
    }

    pub fn ended(&self) -> &BTreeMap<OrderKey, Ended> {
        &self.ended
    }

    /// How often the attempts of `key`'s case, run and pass ended like this.
    pub fn count(&self, key: &OrderKey, how: impl Fn(Ended) -> bool) -> usize {
        let at = |repeat, attempt, pass| OrderKey {
            repeat,
            attempt,
            pass,
            ..key.clone()
        };
        let all = at(0, 0, Pass::Honest)..=at(u32::MAX, u32::MAX, Pass::Attributed);
        let ended = self.ended.range(all);
        let ended = ended.filter(|(k, ended)| k.pass == key.pass && how(**ended));
        ended.count()
    }

    /// Attempts so far of a repeat and pass; `key`'s own attempt does not matter.
    fn attempts(&self, key: &OrderKey) -> Vec<(u32, Option<Ended>)> {
        let at = |attempt, pass| OrderKey {
            attempt,
            pass,
            ..key.clone()
        };
        // Keys sort by attempt before pass, so the attempts of one repeat are neighbours.
        let all = at(0, Pass::Honest)..=at(u32::MAX, Pass::Attributed);
        let ended = self
            .ended
            .range(all.clone())
            .map(|(k, how)| (k, Some(*how)));
        let pending = self.pending.range(all).map(|k| (k, None));
        ended
            .chain(pending)
            .filter(|(k, _)| k.pass == key.pass)
            .map(|(k, how)| (k.attempt, how))
            .collect()
    }
}
