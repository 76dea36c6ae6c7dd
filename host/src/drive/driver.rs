//! One driver for each board: it connects, and connects again, until the plan is done.

use std::collections::BTreeSet;
use std::time::Duration;

use edgedyno_shared::ids::{RunId, Sha256};
use edgedyno_shared::wire::failure::FailureCode;
use edgedyno_shared::wire::request::ContentMap;
use tokio::time::{Instant, sleep};

use super::interrupts::Interrupts;
use super::session::{Session, Stop};
use super::{DriveEnd, DriveError, DriveEvent, figures};
use crate::board::link::LinkError;
use crate::board::{Board, ConnectError};
use crate::plan::{Ended, Planner, Progress};
use crate::store::rows::{FailureRow, OutcomeKind};
use crate::store::{Store, StoreError};
use crate::view::CaseView;

/// A connection may be lost this often in a row without one repeat stored in between.
const MAX_LOSSES: u32 = 4;

/// Pause before the next try to connect, times the number of losses.
const PAUSE: Duration = Duration::from_millis(if cfg!(test) { 1 } else { 250 });

/// What a driver is told to do.
pub struct Plan<'a> {
    pub run: RunId,
    pub planner: &'a mut dyn Planner,
    /// Files behind the hashes of the cases; told to the agent on every connection.
    pub contents: Vec<ContentMap>,
}

/// Drives one plan on one board.
pub struct Driver<'a, B> {
    pub(super) board: &'a B,
    pub(super) store: &'a mut Store,
    pub(super) plan: Plan<'a>,
    pub(super) interrupts: &'a mut Interrupts,
    pub(super) tell: &'a mut dyn FnMut(DriveEvent),
    pub(super) progress: Progress,
    /// How often the user asked to stop.
    pub(super) wishes: u32,
    pub(super) losses: u32,
    pub(super) began: Instant,
}

impl<'a, B: Board> Driver<'a, B> {
    pub fn new(
        board: &'a B,
        store: &'a mut Store,
        plan: Plan<'a>,
        interrupts: &'a mut Interrupts,
        tell: &'a mut dyn FnMut(DriveEvent),
    ) -> Self {
        Self {
            board,
            store,
            plan,
            interrupts,
            tell,
            progress: Progress::default(),
            wishes: 0,
            losses: 0,
            began: Instant::now(),
        }
    }

    /// Drives the plan until every repeat has its row or the user has had enough.
    pub async fn drive(mut self) -> Result<DriveEnd, DriveError> {
        self.progress = recall(self.store, &self.plan.run)?;
        if self.plan.planner.needs_figures() {
            let ended = self.progress.ended().keys();
            let cases: BTreeSet<Sha256> = ended.map(|key| key.case).collect();
            cases.into_iter().try_for_each(|case| self.look_at(case))?;
        }
        loop {
            let session = match self.board.connect(self.store.id()).await {
                Ok(link) => Session::new(link, &mut self).run().await,
                Err(ConnectError::Link(why)) if is_loss(&why) => Err(Stop::Lost(why)),
                Err(source) => return Err(self.unreachable(source)),
            };
            match session {
                Ok(end) => return Ok(end),
                Err(Stop::Store(why)) => return Err(why.into()),
                Err(Stop::Agent(source)) => {
                    let board = self.board.name().to_owned();
                    return Err(DriveError::Agent { board, source });
                }
                Err(Stop::Stuck(source)) => {
                    let board = self.board.name().to_owned();
                    return Err(DriveError::Stuck { board, source });
                }
                Err(Stop::Lost(why)) => self.wait_after(why).await?,
            }
            if self.wishes > 1 {
                return Ok(DriveEnd::Interrupted);
            }
        }
    }

    /// Learns from the store what is done, by whomever.
    pub(super) fn recall(&mut self) -> Result<(), StoreError> {
        for (key, how) in recall(self.store, &self.plan.run)?.ended() {
            self.progress.end(key.clone(), *how);
        }
        Ok(())
    }

    /// Lets the planner know what a case has come to.
    pub(super) fn look_at(&mut self, case: Sha256) -> Result<(), StoreError> {
        let view = CaseView::read(self.store, &self.plan.run, case)?;
        self.progress.put_figures(case, figures::of(&view));
        Ok(())
    }

    async fn wait_after(&mut self, why: LinkError) -> Result<(), DriveError> {
        self.losses += 1;
        if self.losses > MAX_LOSSES {
            let board = self.board.name().to_owned();
            return Err(DriveError::Lost { board, source: why });
        }
        (self.tell)(DriveEvent::Reconnecting(why.to_string()));
        tokio::select! {
            () = sleep(PAUSE * self.losses) => {}
            () = self.interrupts.next() => self.wishes += 1,
        }
        Ok(())
    }

    fn unreachable(&self, source: ConnectError) -> DriveError {
        let board = self.board.name().to_owned();
        DriveError::Connect { board, source }
    }
}

/// What the store has of a run: done by an earlier life of it, or just now.
pub fn recall(store: &Store, run: &RunId) -> Result<Progress, StoreError> {
    let mut progress = Progress::default();
    for (key, outcome, failure) in store.endings(run)? {
        progress.end(key, ending(outcome, failure.as_ref()));
    }
    Ok(progress)
}

/// Failures that only say that the board was lost are told from those of the case itself.
fn ending(outcome: OutcomeKind, failure: Option<&FailureRow>) -> Ended {
    let code = failure.map(|failure| failure.code.as_str());
    match outcome {
        OutcomeKind::Complete | OutcomeKind::Raw => Ended::Complete,
        OutcomeKind::Cancelled => Ended::Cancelled,
        OutcomeKind::Failed if code == Some(FailureCode::AgentRestarted.name()) => Ended::Lost,
        OutcomeKind::Failed if code == Some(FailureCode::OutOfMemory.name()) => Ended::OutOfMemory,
        OutcomeKind::Failed => Ended::Failed,
    }
}

/// Whether a new connection may mend it.
fn is_loss(why: &LinkError) -> bool {
    matches!(
        why,
        LinkError::Closed | LinkError::Silent | LinkError::Frame(_)
    )
}
