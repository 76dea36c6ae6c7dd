//! What earlier sessions on this board say about how far two runs lie apart by themselves.

use std::collections::{BTreeMap, BTreeSet};

use edgedyno_shared::ids::{RunId, Sha256};

use super::arm::Arm;
use super::conditions::{Weight, differences, same_board};
use super::load;
use super::matching::Pair;
use super::metric::Metric;
use super::rule::Pairing;
use crate::source::{Source, SourceError};
use crate::stats::session::{FEWEST_SESSIONS, SessionSpread};
use crate::store::Store;
use crate::store::rows::RunRow;

/// The newest sessions of a case that are looked at.
pub const MOST_SESSIONS: usize = 10;

/// Earlier arms of the cases that are compared and of sentinels, by case key.
#[derive(Debug, Default)]
pub struct Sessions {
    arms: BTreeMap<Sha256, Vec<Arm>>,
    sentinels: BTreeSet<Sha256>,
}

impl Sessions {
    /// Reads what separate pairs need; a case with too few earlier runs is not read at all.
    pub fn load(store: &Store, pairs: &[Pair], metrics: &[&Metric]) -> Result<Self, SourceError> {
        let separate = || {
            pairs
                .iter()
                .filter(|pair| pair.pairing == Pairing::Separate)
        };
        // Only what was measured before the later of two runs tells of them, however old they are.
        let Some(before) = separate().map(|pair| later(pair).created_unix_ns).max() else {
            return Ok(Self::default());
        };
        let mut wanted: BTreeSet<Sha256> =
            separate().flat_map(|p| [p.a.key(), p.b.key()]).collect();
        let sentinels = sentinels(store)?;
        wanted.extend(&sentinels);
        let by_case = store.runs_by_case()?;
        let mut by_run: BTreeMap<RunId, BTreeSet<Sha256>> = BTreeMap::new();
        for key in wanted {
            let runs = by_case.get(&key).map_or(&[][..], Vec::as_slice);
            let earlier = runs.iter().filter(|(_, created)| *created < before);
            // One more than are used: the earlier of the compared runs may be among them. Together with
            // it, which may be a file, they must be enough.
            let earlier: Vec<_> = earlier.take(MOST_SESSIONS + 1).collect();
            if earlier.len() + 1 < FEWEST_SESSIONS {
                continue;
            }
            for (run, _) in earlier {
                by_run.entry(run.clone()).or_default().insert(key);
            }
        }
        let mut all: BTreeMap<Sha256, Vec<Arm>> = BTreeMap::new();
        for (run, keys) in by_run {
            let mut cases = store.cases(&run)?;
            cases.retain(|case| keys.contains(&case.key));
            let store = Store::open_reading(store.dir())?;
            let source = Source::Stored { store, run };
            for arm in load::arms(&source, &cases, metrics)? {
                all.entry(arm.key()).or_default().push(arm);
            }
        }
        let newest_first = |arm: &Arm| std::cmp::Reverse(arm.created_unix_ns);
        all.values_mut()
            .for_each(|arms| arms.sort_by_key(newest_first));
        Ok(Self {
            arms: all,
            sentinels,
        })
    }

    /// The spread between sessions for one pair: from runs of its cases before the later of the two, under
    /// the same conditions, that one left out.
    pub fn spread(&self, pair: &Pair, metric: &Metric) -> SessionSpread {
        let later = later(pair);
        let mut groups: BTreeMap<Sha256, Vec<f64>> = BTreeMap::new();
        for arm in [&pair.a, &pair.b] {
            let usable = |earlier: &&Arm| {
                let is_earlier = earlier.created_unix_ns < later.created_unix_ns;
                is_earlier && earlier.run != arm.run && is_alike(earlier, arm)
            };
            // The earlier of the two is a session as well, whether the store has it or not.
            let own = (arm.run != later.run).then_some(arm);
            let figures = own
                .into_iter()
                .chain(self.arms_of(arm.key()).filter(usable));
            let figures = figures.filter(|earlier| earlier.run != later.run);
            let logs = logs(figures, metric);
            let group = groups.entry(arm.key()).or_default();
            if group.len() < logs.len() {
                *group = logs;
            }
        }
        match SessionSpread::of(&groups.into_values().collect::<Vec<_>>()) {
            unknown @ SessionSpread::Unknown { .. } => {
                self.spread_of_sentinels(later, metric).unwrap_or(unknown)
            }
            known => known,
        }
    }

    /// What the sentinels of the board tell, before the run that is asked about.
    fn spread_of_sentinels(&self, later: &Arm, metric: &Metric) -> Option<SessionSpread> {
        let group = |key: &Sha256| {
            let usable = |earlier: &&Arm| {
                earlier.created_unix_ns < later.created_unix_ns && same_board(earlier, later)
            };
            logs(self.arms_of(*key).filter(usable), metric)
        };
        let groups: Vec<Vec<f64>> = self.sentinels.iter().map(group).collect();
        match SessionSpread::of_sentinels(&groups) {
            SessionSpread::Unknown { .. } => None,
            known => Some(known),
        }
    }

    fn arms_of(&self, case: Sha256) -> impl Iterator<Item = &Arm> {
        self.arms.get(&case).into_iter().flatten()
    }
}

/// The arm of a pair that was measured later.
fn later(pair: &Pair) -> &Arm {
    match pair.a.created_unix_ns > pair.b.created_unix_ns {
        true => &pair.a,
        false => &pair.b,
    }
}

/// Logarithms of the figures of sessions, newest first, not more than are looked at.
fn logs<'a>(sessions: impl Iterator<Item = &'a Arm>, metric: &Metric) -> Vec<f64> {
    let centres = sessions.filter_map(|arm| arm.centre(metric));
    centres
        .filter(|centre| *centre > 0.0)
        .take(MOST_SESSIONS)
        .map(f64::ln)
        .collect()
}

/// Cases that some sweep measured again and again to watch its board.
fn sentinels(store: &Store) -> Result<BTreeSet<Sha256>, SourceError> {
    let key = |run: RunRow| run.plan["sentinel"]["case"].as_str()?.parse().ok();
    Ok(store.runs()?.into_iter().filter_map(key).collect())
}

fn is_alike(earlier: &Arm, arm: &Arm) -> bool {
    let unequal = differences(earlier, arm, &[], &[]);
    unequal
        .iter()
        .all(|difference| difference.weight != Weight::Refused)
}
