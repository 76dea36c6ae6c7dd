//! One connection of a driver: commit what is replayed, read the queue, order, receive.

use std::collections::{BTreeSet, VecDeque};
use std::io;
use std::path::PathBuf;
use std::time::Duration;

use edgedyno_shared::order::{OrderKey, RepeatOrder};
use edgedyno_shared::repeat::Stage;
use edgedyno_shared::wire::event::Event;
use edgedyno_shared::wire::failure::{Failure, FailureCode};
use edgedyno_shared::wire::record::SegmentHeader;
use edgedyno_shared::wire::request::{LeaseHolder, OrderAnswer, Reply, Request};
use tokio::time::{Instant, sleep_until};

use super::driver::Driver;
use super::{DriveEnd, DriveEvent, batches, delivery};
use crate::board::Board;
use crate::board::link::{Link, LinkError, LinkEvent};
use crate::plan::Ended;
use crate::store::StoreError;

/// Orders kept on the agent. One: on `local` the host then does nothing while a repeat is measured.
const QUEUED: usize = 1;

/// The same for a board that goes on while the network is away; what an agent keeps for one store.
const QUEUED_REMOTE: usize = 256;

/// How long an agent without room is left alone.
const PATIENCE: Duration = Duration::from_millis(if cfg!(test) { 5 } else { 1000 });

/// How long an agent may say that it has no room before the run is given up.
const ROOM_PATIENCE: Duration = if cfg!(test) {
    Duration::from_millis(50)
} else {
    Duration::from_secs(30)
};

/// An agent that has said nothing for this long is asked what it has: what was told may have been missed.
const QUIET: Duration = Duration::from_secs(5);

/// One that still says nothing is taken for lost; sooner when the user waits for the end.
const SILENCE: Duration = Duration::from_secs(30);
const SILENCE_AT_THE_END: Duration = Duration::from_secs(3);

/// Why a session ended before the plan did.
#[derive(Debug)]
pub(super) enum Stop {
    Lost(LinkError),
    /// The board became free while this host was silent, and does not take its orders any more.
    Lapsed(Failure),
    /// The board cannot be reached; it was waited for already.
    Away,
    Store(StoreError),
    Agent(Failure),
    /// Another host measures on the board.
    Held(LeaseHolder),
    /// Another host took it.
    Taken {
        to: String,
    },
    /// A file of this machine went away.
    Content {
        path: PathBuf,
        source: io::Error,
    },
    /// Only somebody at the board can help.
    Stuck(Failure),
}

impl From<LinkError> for Stop {
    fn from(why: LinkError) -> Self {
        Self::Lost(why)
    }
}

impl From<StoreError> for Stop {
    fn from(why: StoreError) -> Self {
        Self::Store(why)
    }
}

/// What a session waits for.
enum Next {
    Link(LinkEvent),
    /// The user wants to stop, or it is time to ask an agent again.
    Nudge,
    /// Nothing was heard for some time.
    Quiet,
}

pub(super) struct Session<'s, 'a, B> {
    pub(super) link: Link,
    pub(super) driver: &'s mut Driver<'a, B>,
    /// Arrived in the middle of a segment.
    aside: VecDeque<LinkEvent>,
    /// Acknowledgements not yet answered.
    acknowledged: BTreeSet<u64>,
    /// Wishes to stop that the agent knows of.
    told: u32,
    not_before: Option<Instant>,
    /// When anything last came.
    heard: Instant,
    /// Since when the agent has said nothing but that it cannot go on, and why.
    stuck: Option<(Instant, Failure)>,
}

impl<'s, 'a, B: Board> Session<'s, 'a, B> {
    pub(super) fn new(link: Link, driver: &'s mut Driver<'a, B>) -> Self {
        Self {
            link,
            driver,
            aside: VecDeque::new(),
            acknowledged: BTreeSet::new(),
            told: 0,
            not_before: None,
            heard: Instant::now(),
            stuck: None,
        }
    }

    pub(super) async fn run(mut self) -> Result<DriveEnd, Stop> {
        if let Some(end) = self.take_lease().await? {
            return Ok(end);
        }
        let contents = self.driver.plan.contents.clone();
        self.provide(&contents).await?;
        self.resync().await?;
        loop {
            self.pass_on_wishes().await?;
            if self.driver.wishes == 0 {
                self.order().await?;
            }
            if let Some((since, why)) = &self.stuck {
                if self.driver.wishes > 0 {
                    return Ok(DriveEnd::Interrupted);
                }
                if since.elapsed() >= ROOM_PATIENCE {
                    return Err(Stop::Stuck(why.clone()));
                }
            }
            if self.is_done() {
                return self.leave().await;
            }
            match self.next().await? {
                Next::Link(event) => self.handle(event).await?,
                Next::Nudge => {}
                Next::Quiet => self.resync().await?,
            }
        }
    }

    /// Becomes the one who measures on the board, at once or when it is free.
    async fn take_lease(&mut self) -> Result<Option<DriveEnd>, Stop> {
        let wish = self.driver.plan.lease.clone();
        loop {
            let steal = wish.steal && !self.driver.has_stolen;
            let name = wish.name.clone();
            let request = Request::TakeLease { steal, name };
            let Reply::Lease(state) = self.demand(request).await? else {
                return Err(LinkError::Unexpected("something else than who holds it").into());
            };
            self.driver.has_stolen |= steal && state.is_own;
            let holder = match state.holder {
                Some(holder) if !state.is_own => holder,
                _ => return Ok(None),
            };
            if !wish.wait {
                return Err(Stop::Held(holder));
            }
            let text = format!("{} measures on the board", holder.name);
            let busy = Failure::new(FailureCode::Busy, text);
            (self.driver.tell)(DriveEvent::Waiting(busy));
            self.not_before = Some(Instant::now() + PATIENCE);
            while self.not_before.is_some() {
                match self.next().await? {
                    Next::Link(event) => self.handle(event).await?,
                    Next::Nudge if self.driver.wishes > 0 => {
                        return Ok(Some(DriveEnd::Interrupted));
                    }
                    Next::Nudge | Next::Quiet => {}
                }
            }
        }
    }

    fn is_done(&self) -> bool {
        let waits = self.not_before.is_some() && self.driver.wishes == 0;
        self.driver.progress.pending().is_empty() && !waits
    }

    /// Stays until the agent has seen the last acknowledgement.
    async fn leave(mut self) -> Result<DriveEnd, Stop> {
        while !self.acknowledged.is_empty() {
            match self.next().await {
                Ok(Next::Link(event)) => self.handle(event).await?,
                Ok(Next::Nudge | Next::Quiet) => {}
                // Everything is stored; an agent that leaves now replays, and is told again.
                Err(_) => break,
            }
        }
        // An agent that is gone, or has given the board to another, needs no answer.
        let _ = self.demand(Request::GiveLease).await;
        self.link.leave().await;
        match self.driver.wishes {
            0 => Ok(DriveEnd::Complete),
            _ => Ok(DriveEnd::Interrupted),
        }
    }

    /// Learns from agent and store where the plan is: another process that uses the same store may have
    /// taken a repeat of this run.
    async fn resync(&mut self) -> Result<(), Stop> {
        self.read_queue().await?;
        Ok(self.driver.recall()?)
    }

    /// Makes what the agent has of this run the pending part of the progress.
    async fn read_queue(&mut self) -> Result<(), Stop> {
        let Reply::Queue(entries) = self.demand(Request::Queue).await? else {
            return Err(LinkError::Unexpected("something else than its queue").into());
        };
        let driver = &mut self.driver;
        let keys = entries.into_iter().map(|entry| entry.key);
        let ours = keys.filter(|key| key.run == driver.plan.run);
        driver.progress.only_pending(ours.collect::<Vec<_>>());
        Ok(())
    }

    /// Tells the agent to stop, when the user said so since the last time.
    async fn pass_on_wishes(&mut self) -> Result<(), Stop> {
        let wishes = self.driver.wishes.min(2);
        if wishes == self.told {
            return Ok(());
        }
        self.told = wishes;
        self.driver.say_wishes();
        let kill = wishes > 1;
        let run = self.driver.plan.run.clone();
        self.demand(Request::Cancel { run, kill }).await?;
        self.read_queue().await
    }

    /// Asks the planner and queues what it says.
    async fn order(&mut self) -> Result<(), Stop> {
        // Until the pause is over; `next` takes it away.
        while self.not_before.is_none() {
            let driver = &mut self.driver;
            driver.progress.elapsed = driver.began.elapsed();
            let most = match driver.board.is_remote() {
                true => QUEUED_REMOTE,
                false => QUEUED,
            };
            driver.progress.room = most.saturating_sub(driver.progress.pending().len());
            let orders = match driver.progress.room {
                0 => Vec::new(),
                _ => driver.plan.planner.next(&driver.progress),
            };
            if orders.is_empty() {
                break;
            }
            for batch in batches::cut(orders) {
                // What the agent had no room for, the planner names again; a user who wants to stop wants
                // no more of them.
                if self.not_before.is_some() || self.driver.wishes > 0 {
                    return Ok(());
                }
                self.submit(batch).await?;
            }
        }
        Ok(())
    }

    async fn submit(&mut self, orders: Vec<RepeatOrder>) -> Result<(), Stop> {
        let keys: Vec<_> = orders.iter().map(|order| order.key.clone()).collect();
        let Reply::Submitted(answers) = self.demand(Request::Submit(orders)).await? else {
            return Err(LinkError::Unexpected("something else than what it does").into());
        };
        if answers.len() != keys.len() {
            return Err(LinkError::Unexpected("another number of answers").into());
        }
        for (key, answer) in keys.into_iter().zip(answers) {
            match answer {
                OrderAnswer::Accepted | OrderAnswer::Known => {
                    self.stuck = None;
                    self.driver.progress.begin(key);
                }
                OrderAnswer::Refused(why) if passes_by_itself(why.code) => {
                    // A full disk may stay full: somebody must be told in the end.
                    if why.code == FailureCode::StorageFull && self.stuck.is_none() {
                        self.stuck = Some((Instant::now(), why.clone()));
                    }
                    (self.driver.tell)(DriveEvent::Waiting(why));
                    self.not_before = Some(Instant::now() + PATIENCE);
                }
                OrderAnswer::Refused(why) => {
                    self.driver.store.put_failure(&key, Stage::Spawn, &why)?;
                    self.end(key, Ended::Failed, Some((Stage::Spawn, why)));
                }
            }
        }
        Ok(())
    }

    /// Asks for something that an agent of the same build has no reason to refuse.
    pub(super) async fn demand(&mut self, request: Request) -> Result<Reply, Stop> {
        let asked = self.link.send(request).await?;
        self.answer(asked).await
    }

    /// Waits for the answer to what was asked. An agent answers in the order in which it was asked.
    pub(super) async fn answer(&mut self, asked: u64) -> Result<Reply, Stop> {
        loop {
            match self.next().await? {
                Next::Link(LinkEvent::Reply { number, answer }) if number == asked => {
                    return answer.map_err(|why| match why.code {
                        FailureCode::LeaseLost => Stop::Lapsed(why),
                        _ => Stop::Agent(why),
                    });
                }
                Next::Link(event) => self.handle(event).await?,
                // An agent that is at work may take a while to answer.
                Next::Nudge => self.driver.say_wishes(),
                Next::Quiet => {}
            }
        }
    }

    async fn next(&mut self) -> Result<Next, Stop> {
        if let Some(event) = self.aside.pop_front() {
            return Ok(Next::Link(event));
        }
        let later = self.not_before;
        let silence = match self.driver.wishes {
            0 | 1 => SILENCE,
            _ => SILENCE_AT_THE_END,
        };
        let (since, quiet) = (self.heard, self.heard + QUIET);
        // Once only: what follows is a question, and then its answer is due.
        let may_be_quiet = Instant::now() < quiet;
        let pause = async {
            match later {
                Some(at) => sleep_until(at).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            event = self.link.next() => {
                self.heard = Instant::now();
                Ok(Next::Link(event?))
            }
            () = sleep_until(quiet), if may_be_quiet => Ok(Next::Quiet),
            () = sleep_until(since + silence) => Err(LinkError::Silent.into()),
            () = self.driver.interrupts.next() => {
                self.driver.wishes += 1;
                Ok(Next::Nudge)
            }
            () = pause => {
                self.not_before = None;
                Ok(Next::Nudge)
            }
        }
    }

    async fn handle(&mut self, event: LinkEvent) -> Result<(), Stop> {
        match event {
            LinkEvent::Reply { number, answer } => {
                // An acknowledgement that is refused is one of a segment the agent no longer has.
                self.acknowledged.remove(&number);
                drop(answer);
                Ok(())
            }
            LinkEvent::Event(Event::Started(key)) if key.run == self.driver.plan.run => {
                (self.driver.tell)(DriveEvent::Started(key));
                Ok(())
            }
            LinkEvent::Event(Event::Started(key)) => {
                let text = format!("the board measures a repeat of run {} first", key.run);
                let why = Failure::new(FailureCode::Busy, text);
                (self.driver.tell)(DriveEvent::Waiting(why));
                Ok(())
            }
            LinkEvent::Event(Event::Progress(progress)) => {
                self.stuck = None;
                (self.driver.tell)(DriveEvent::Progress(progress));
                Ok(())
            }
            LinkEvent::Event(Event::Waiting(why)) => {
                // Another user's measurement ends by itself.
                if why.code != FailureCode::Busy && self.stuck.is_none() {
                    self.stuck = Some((Instant::now(), why.clone()));
                }
                (self.driver.tell)(DriveEvent::Waiting(why));
                Ok(())
            }
            LinkEvent::Event(Event::LeaseLost { to }) => Err(Stop::Taken { to }),
            LinkEvent::Segment(header) => self.commit(&header).await,
            LinkEvent::Record(_) => {
                Err(LinkError::Unexpected("a record that belongs to no repeat").into())
            }
        }
    }

    /// Commits the repeat that begins, then lets the agent forget it.
    async fn commit(&mut self, header: &SegmentHeader) -> Result<(), Stop> {
        let store = &mut *self.driver.store;
        let tell = &mut *self.driver.tell;
        let delivery = delivery::take(&mut self.link, store, header, &mut self.aside, tell).await?;
        self.heard = Instant::now();
        // An acknowledgement deletes the board's copy.
        self.driver.store.still_there()?;
        self.driver.has_come_further();
        self.stuck = None;
        let segment = header.segment;
        let number = self.link.send(Request::Acknowledge { segment }).await?;
        self.acknowledged.insert(number);
        if delivery.was_stored {
            // How it ended is what the store says, not what came now: an agent that died while its host
            // stored a repeat hands the same key over once more, as lost.
            self.driver.recall()?;
        } else if delivery.wanted {
            let is_ours = delivery.key.run == self.driver.plan.run;
            if is_ours && self.driver.plan.planner.needs_figures() {
                self.driver.look_at(delivery.key.case)?;
            }
            self.end(delivery.key, delivery.how, delivery.failure);
        } else if delivery.key.run == self.driver.plan.run {
            // Removed under our hands: the error says so.
            self.driver.store.run(&delivery.key.run)?;
        } else {
            (self.driver.tell)(DriveEvent::Dropped(delivery.key));
        }
        Ok(())
    }

    fn end(&mut self, key: OrderKey, how: Ended, failure: Option<(Stage, Failure)>) {
        if key.run != self.driver.plan.run {
            return (self.driver.tell)(DriveEvent::StoredOther(key));
        }
        self.driver.progress.end(key.clone(), how);
        (self.driver.tell)(DriveEvent::Stored { key, how, failure });
    }
}

/// No room for the moment, or an agent that is leaving: asking again later is the answer.
fn passes_by_itself(code: FailureCode) -> bool {
    matches!(
        code,
        FailureCode::Backpressured | FailureCode::Busy | FailureCode::StorageFull
    )
}
