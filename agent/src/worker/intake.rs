//! Takes a running repeat's trials out of its arena, often enough and no more often.

use std::collections::VecDeque;
use std::io;
use std::time::Duration;

use edgedyno_shared::columns::{END, START, STATUS, Status};
use edgedyno_shared::units::Nanos;
use edgedyno_shared::wire::failure::{Failure, FailureCode};

use crate::arena::reader::ArenaError;
use crate::arena::{ArenaReader, Sealed};
use crate::clock::{Clock, Monotonic};
use crate::daemon::repeat_folder::LaneFiles;
use crate::trial::steady::median;

/// Looks at least four times a second, and at least four times while the ring fills.
const SLOWEST: Duration = Duration::from_millis(250);
const FASTEST: Duration = Duration::from_millis(1);

/// Trials whose median is shown and limits a hang.
const RECENT: usize = 101;

/// The way from the arena to the sealed file, and what it shows of the repeat's pace.
#[derive(Debug)]
pub struct Intake {
    open: Option<(ArenaReader, Sealed)>,
    trials: u64,
    before_stage: u64,
    recent: VecDeque<i64>,
    last_trial: Option<Nanos>,
    reads: u64,
    stalls: u64,
    spilled: u64,
    looked: Nanos,
    interval: Duration,
}

impl Default for Intake {
    fn default() -> Self {
        Self {
            open: None,
            trials: 0,
            before_stage: 0,
            recent: VecDeque::with_capacity(RECENT),
            last_trial: None,
            reads: 0,
            stalls: 0,
            spilled: 0,
            looked: Nanos::ZERO,
            interval: FASTEST,
        }
    }
}

impl Intake {
    /// Opens the arena of a lane once the number of columns is known.
    pub fn open(&mut self, lane: &LaneFiles, columns: usize) -> io::Result<()> {
        lane.keep_columns(columns)?;
        self.open = Some((lane.arena_reader(columns, 0)?, lane.sealed()?));
        self.looked = Monotonic.now();
        Ok(())
    }

    pub fn is_open(&self) -> bool {
        self.open.is_some()
    }

    /// Moves all new trials to the sealed file, and only then lets the worker reuse their slots.
    pub fn take(&mut self) -> io::Result<Result<(), Failure>> {
        let Some((reader, sealed)) = self.open.as_mut() else {
            return Ok(Ok(()));
        };
        let mut slots = Vec::new();
        let taken = match reader.take(&mut slots) {
            Ok(taken) => taken,
            Err(ArenaError::Io(why)) => return Err(why),
            Err(why @ ArenaError::Counter { .. }) => {
                self.open = None;
                return Ok(Err(Failure::new(FailureCode::Protocol, why.to_string())));
            }
        };
        self.reads = reader.reads();
        let now = Monotonic.now();
        if taken > 0 {
            sealed.append(&slots)?;
            reader.release()?;
            self.trials += taken;
            self.stalls = reader.stalls()?;
            self.spilled = sealed.spilled();
            self.last_trial = Some(now);
            let columns = reader.layout().columns();
            let latest = slots.chunks_exact(columns).rev().take(RECENT).rev();
            // What a corrupt slot says of its time could make a hang look like patience.
            for slot in latest.filter(|slot| slot[STATUS] != Status::Corrupt.code()) {
                if self.recent.len() == RECENT {
                    self.recent.pop_front();
                }
                self.recent.push_back(slot[END].saturating_sub(slot[START]));
            }
        }
        let fill = reader.layout().ring_slots() as f64 / taken.max(1) as f64;
        let by_rate = Duration::from_secs_f64((now - self.looked).as_secs_f64() * fill / 4.0);
        self.interval = by_rate.min(self.interval * 2).clamp(FASTEST, SLOWEST);
        self.looked = now;
        Ok(Ok(()))
    }

    /// How long until the next look.
    pub fn interval(&self) -> Duration {
        self.interval
    }

    /// A new stage may be much faster than the last: look soon.
    pub fn begin_stage(&mut self) {
        self.before_stage = self.trials;
        self.interval = FASTEST;
    }

    pub fn trials(&self) -> u64 {
        self.trials
    }

    pub fn trials_of_stage(&self) -> u64 {
        self.trials - self.before_stage
    }

    /// When a new trial was last seen.
    pub fn last_trial(&self) -> Option<Nanos> {
        self.last_trial
    }

    pub fn recent_p50(&self) -> Option<Nanos> {
        if self.recent.is_empty() {
            return None;
        }
        let recent: Vec<i64> = self.recent.iter().copied().collect();
        Some(Nanos(median(&recent) as i64))
    }

    /// Times the arena was looked at.
    pub fn reads(&self) -> u64 {
        self.reads
    }

    /// Times the worker waited for room, as of the last trials taken.
    pub fn stalls(&self) -> u64 {
        self.stalls
    }

    /// Bytes of trials that did not fit on tmpfs.
    pub fn spilled(&self) -> u64 {
        self.spilled
    }
}
