//! Planners: what to order next, worked out from what is done. Pure; the driver does the rest.

pub mod axes;
pub mod backend;
pub mod check;
pub mod feed;
pub mod fixed;
mod shuffle;

use std::collections::{BTreeMap, BTreeSet};

use edgedyno_shared::order::{OrderKey, Pass, RepeatOrder};
use edgedyno_shared::wire::failure::FailureCode;

/// Decides what is measured, in which order, and when it is enough.
pub trait Planner {
    /// Orders to queue now, at most `progress.room`. Nothing, with nothing pending: the plan is done.
    fn next(&mut self, progress: &Progress) -> Vec<RepeatOrder>;

    /// Repeats planned in all, where the plan knows.
    fn total(&self) -> Option<usize>;
}

/// What a planner knows: which attempts have ended and which are on the way.
#[derive(Debug, Clone, Default)]
pub struct Progress {
    ended: BTreeMap<OrderKey, Ended>,
    pending: BTreeSet<OrderKey>,
    /// Orders that may be queued now.
    pub room: usize,
}

/// How an attempt ended, as far as planning is concerned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ended {
    Complete,
    /// A result too: the same would happen again.
    Failed,
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

    pub fn pending(&self) -> &BTreeSet<OrderKey> {
        &self.pending
    }

    pub fn ended(&self) -> &BTreeMap<OrderKey, Ended> {
        &self.ended
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
