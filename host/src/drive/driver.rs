//! One driver for each board: it connects, and connects again, until the plan is done.

use std::collections::BTreeSet;
use std::time::Duration;

use edgedyno_shared::ids::{RunId, Sha256};
use edgedyno_shared::wire::failure::FailureCode;
use edgedyno_shared::wire::frame::FrameError;
use tokio::time::{Instant, sleep};

use super::away::Away;
use super::interrupts::Interrupts;
use super::session::{Session, Stop};
use super::{DriveEnd, DriveError, DriveEvent, figures};
use crate::board::content::Content;
use crate::board::link::{Link, LinkError};
use crate::board::{Board, ConnectError};
use crate::plan::{Ended, Planner, Progress};
use crate::store::rows::{FailureRow, OutcomeKind};
use crate::store::{Store, StoreError};
use crate::view::CaseView;

/// A connection may be lost this often in a row without one repeat stored in between.
const MAX_LOSSES: u32 = 4;

/// The same where there is a network, which may be poor while the board does well.
const MAX_LOSSES_REMOTE: u32 = 1000;

/// An agent may say this often in a row what makes no sense: a line may be at fault once, and not every time.
const MOST_NONSENSE: u32 = 3;

/// Pause before the next try to connect, times the number of losses.
const PAUSE: Duration = Duration::from_millis(if cfg!(test) { 1 } else { 250 });

/// What a driver is told to do.
pub struct Plan<'a> {
    pub run: RunId,
    pub planner: &'a mut dyn Planner,
    /// Files behind the hashes of the cases; told, or offered, to the agent on every connection.
    pub contents: Vec<Content>,
    pub lease: LeaseWish,
}

/// What to do about a board that another host measures on.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LeaseWish {
    /// Wait until it is free.
    pub wait: bool,
    /// Take it.
    pub steal: bool,
    /// Who asks, for people.
    pub name: String,
}

impl LeaseWish {
    /// Neither waits nor takes.
    pub fn plain() -> Self {
        Self {
            name: crate::board::settings::own_name(),
            ..Self::default()
        }
    }
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
    /// How many of these wishes were told to have been heard.
    said: u32,
    losses: u32,
    /// Losses among them for which no line is to blame.
    nonsense: u32,
    pub(super) began: Instant,
    /// Taken from another host already: not again after a loss.
    pub(super) has_stolen: bool,
    /// Whether the board was reached at all.
    was_there: bool,
    away: Away,
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
            said: 0,
            losses: 0,
            nonsense: 0,
            began: Instant::now(),
            has_stolen: false,
            was_there: false,
            away: Away::default(),
        }
    }

    /// Drives the plan until every repeat has its row or the user has had enough.
    pub async fn drive(mut self) -> Result<DriveEnd, DriveError> {
        loop {
            let Some(connected) = self.connect().await else {
                return Ok(DriveEnd::Interrupted);
            };
            let session = match connected {
                Ok(link) => {
                    self.was_there = true;
                    self.away.is_back();
                    Session::new(link, &mut self).run().await
                }
                Err(why) if self.was_there && why.is_away() => {
                    self.wait_for(why).await?;
                    Err(Stop::Away)
                }
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
                Err(Stop::Held(holder)) => {
                    return Err(DriveError::Held {
                        board: self.board.name().to_owned(),
                        holder: holder.name,
                        since_unix_ns: holder.since_unix_ns,
                    });
                }
                Err(Stop::Taken { to }) => {
                    let board = self.board.name().to_owned();
                    return Err(DriveError::Taken { board, to });
                }
                Err(Stop::Content { path, source }) => {
                    return Err(DriveError::Content { path, source });
                }
                Err(Stop::Away) => {}
                // Asked for anew, which says who has it where somebody else does.
                Err(Stop::Lapsed(why)) => self.wait_after(why.into()).await?,
                Err(Stop::Lost(why)) => {
                    let why = self.may_pass(why)?;
                    self.wait_after(why).await?;
                }
            }
            if self.wishes > 1 {
                return Ok(DriveEnd::Interrupted);
            }
        }
    }

    /// Connects to the board; none when the user does not want to wait for that. One wish to stop is told and
    /// passed on once there is somebody to tell.
    async fn connect(&mut self) -> Option<Result<Link, ConnectError>> {
        let board = self.board;
        let mut connecting = std::pin::pin!(board.connect(self.store.id()));
        loop {
            tokio::select! {
                connected = &mut connecting => return Some(connected),
                () = self.interrupts.next() => {
                    self.wishes += 1;
                    say_wishes(&mut self.said, self.wishes, self.tell);
                    if self.wishes > 1 {
                        return None;
                    }
                }
            }
        }
    }

    /// Lets the user know at once that a wish to stop was heard: to pass it on may take its time.
    pub(super) fn say_wishes(&mut self) {
        say_wishes(&mut self.said, self.wishes, self.tell);
    }

    /// Reads from the store what is done of this run, by this life of it or an earlier one; every session
    /// begins so.
    pub(super) fn recall(&mut self) -> Result<(), StoreError> {
        let mut changed = BTreeSet::new();
        for (key, outcome, failure) in self.store.endings(&self.plan.run)? {
            if !self.progress.ended().contains_key(&key) {
                changed.insert(key.case);
            }
            self.progress.end(key, ending(outcome, failure.as_ref()));
        }
        if self.plan.planner.needs_figures() {
            changed
                .into_iter()
                .try_for_each(|case| self.look_at(case))?;
        }
        Ok(())
    }

    /// Lets the planner know what a case has come to.
    pub(super) fn look_at(&mut self, case: Sha256) -> Result<(), StoreError> {
        let view = CaseView::read(self.store, &self.plan.run, case)?;
        self.progress.put_figures(case, figures::of(&view));
        Ok(())
    }

    /// A repeat was stored: what was lost before counts no more.
    pub(super) fn has_come_further(&mut self) {
        self.losses = 0;
        self.nonsense = 0;
    }

    /// Whether another connection may end otherwise: the same request is not smaller then, and an agent that
    /// said what makes no sense says it again.
    fn may_pass(&mut self, why: LinkError) -> Result<LinkError, DriveError> {
        let board = self.board.name().to_owned();
        if matches!(why, LinkError::TooLarge { .. }) {
            return Err(DriveError::TooLarge { board, source: why });
        }
        self.nonsense += u32::from(!is_loss(&why));
        match self.nonsense < MOST_NONSENSE {
            true => Ok(why),
            false => Err(DriveError::Nonsense { board, source: why }),
        }
    }

    async fn wait_after(&mut self, why: LinkError) -> Result<(), DriveError> {
        self.losses += 1;
        let most = match self.board.is_remote() {
            true => MAX_LOSSES_REMOTE,
            false => MAX_LOSSES,
        };
        if self.losses > most {
            let board = self.board.name().to_owned();
            return Err(DriveError::Lost { board, source: why });
        }
        (self.tell)(DriveEvent::Reconnecting(why.to_string()));
        let pause = match self.board.is_remote() {
            true => self.next_pause().unwrap_or(PAUSE),
            false => PAUSE * self.losses,
        };
        self.rest(pause).await;
        Ok(())
    }

    /// Waits for a board that was there; it works on meanwhile.
    async fn wait_for(&mut self, why: ConnectError) -> Result<(), DriveError> {
        let Some(pause) = self.next_pause() else {
            return Err(self.unreachable(why));
        };
        (self.tell)(DriveEvent::Reconnecting(why.to_string()));
        self.rest(pause).await;
        Ok(())
    }

    fn next_pause(&mut self) -> Option<Duration> {
        let has_orders = !self.progress.pending().is_empty();
        self.away.pause(self.began.elapsed(), has_orders)
    }

    async fn rest(&mut self, pause: Duration) {
        tokio::select! {
            () = sleep(pause) => {}
            () = self.interrupts.next() => {
                self.wishes += 1;
                self.say_wishes();
            }
        }
    }

    fn unreachable(&self, source: ConnectError) -> DriveError {
        let board = self.board.name().to_owned();
        match self.was_there {
            true => DriveError::Gone { board, source },
            false => DriveError::Connect { board, source },
        }
    }
}

/// Says the latest of so many wishes, unless it was said.
fn say_wishes(said: &mut u32, wishes: u32, tell: &mut dyn FnMut(DriveEvent)) {
    let wishes = wishes.min(2);
    if *said < wishes {
        *said = wishes;
        tell(DriveEvent::Stopping { now: wishes > 1 });
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

/// Failures that only say that the board, or what it kept, was lost.
const LOST: [FailureCode; 2] = [FailureCode::AgentRestarted, FailureCode::SpoolDamaged];

/// Failures that only say that the board was lost are told from those of the case itself.
fn ending(outcome: OutcomeKind, failure: Option<&FailureRow>) -> Ended {
    let code = failure.map(|failure| failure.code.as_str());
    match outcome {
        OutcomeKind::Complete | OutcomeKind::Raw => Ended::Complete,
        OutcomeKind::Cancelled => Ended::Cancelled,
        OutcomeKind::Failed if LOST.iter().any(|lost| code == Some(lost.name())) => Ended::Lost,
        OutcomeKind::Failed if code == Some(FailureCode::OutOfMemory.name()) => Ended::OutOfMemory,
        OutcomeKind::Failed => Ended::Failed,
    }
}

/// Whether the line was lost, which a new connection may mend.
fn is_loss(why: &LinkError) -> bool {
    matches!(
        why,
        LinkError::Closed | LinkError::Silent | LinkError::Frame(FrameError::Io(_))
    )
}
