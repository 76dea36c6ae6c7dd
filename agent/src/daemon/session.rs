//! One connection: hello, requests and their replies, events, and the spooled repeats of its store.

use std::io;
use std::pin::pin;
use std::rc::Rc;
use std::time::Duration;

use edgedyno_shared::clocks::ClockAnswer;
use edgedyno_shared::content::ContentOffer;
use edgedyno_shared::ids::{BuildId, Sha256, StoreId};
use edgedyno_shared::link::role::Role;
use edgedyno_shared::printable;
use edgedyno_shared::wire::event::Event;
use edgedyno_shared::wire::failure::{Failure, FailureCode};
use edgedyno_shared::wire::frame::{self, Frame, FrameError, kind};
use edgedyno_shared::wire::hello::{Hello, Verdict};
use edgedyno_shared::wire::request::{Reply, Request, Upload};
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt};
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep_until, timeout};

use super::blobs::Piece;
use super::feed::feed;
use super::lease::Taken;
use super::owners::{Admitted, Owner};
use super::rights::{holds_board, may};
use super::state::{Daemon, News, SessionCount};
use super::submit::Orderer;
use super::{inventory, live, runtimes};
use crate::backend::{self, Candidate};
use crate::disk;
use crate::worker::supervise::Cancel;

/// Replies that may wait for a host that does not read.
const REPLIES: usize = 64;

/// A host that waits for something to be written hears so often that it is.
const WORD_EVERY: Duration = Duration::from_secs(5);

/// What the carrier knows of the other side.
#[derive(Debug, Clone, Copy)]
pub struct Peer {
    /// A process of the daemon's own user on this machine that is no relay: it may name local paths.
    pub may_name_paths: bool,
    /// A process of the daemon's own user on this machine, also through a relay.
    pub is_local: bool,
    /// Whose a store is that comes first with this connection.
    pub owner: Owner,
    pub role: Role,
    /// A stranger must say a welcome hello by then.
    pub hello_within: Option<Duration>,
}

/// Serves one connection to its end.
pub async fn serve<R, W>(daemon: Rc<Daemon>, mut read: R, write: W, peer: Peer)
where
    R: AsyncRead + Unpin + 'static,
    W: AsyncWrite + Unpin + 'static,
{
    let _count = SessionCount::new(&daemon);
    let (out, frames) = mpsc::channel(4);
    let (urgent, first) = mpsc::channel(REPLIES);
    let writer = tokio::task::spawn_local(write_frames(write, frames, first));
    let mut session = Session {
        daemon,
        out,
        peer,
        store: None,
        admitted: Admitted::Foreign,
        replay: None,
        pinned: Vec::new(),
        epoch: None,
        urgent,
        listening: None,
    };
    if let Err(why) = session.talk(&mut read).await {
        tracing::info!("a session ended: {why}");
    }
    if let Some(replay) = session.replay.take() {
        replay.abort();
    }
    drop(session);
    // What was answered is still written; a host that does not read is not waited for.
    let abort = writer.abort_handle();
    if timeout(Duration::from_secs(2), writer).await.is_err() {
        abort.abort();
    }
}

/// Replies, and questions for the host's clock, overtake what else waits. A host that sends much reads little
/// meanwhile: if its replies waited for what it does not read, the two would wait for each other.
async fn write_frames<W: AsyncWrite + Unpin>(
    mut to: W,
    mut frames: mpsc::Receiver<Frame>,
    mut first: mpsc::Receiver<Frame>,
) {
    loop {
        let (frame, is_last) = tokio::select! {
            biased;
            Some(frame) = first.recv() => (frame, true),
            frame = frames.recv() => match frame {
                Some(frame) => (frame, frames.is_empty()),
                None => return,
            },
        };
        let written = frame::write(&mut to, &frame).await;
        if written.is_err() || is_last && to.flush().await.is_err() {
            return;
        }
    }
}

struct Session {
    daemon: Rc<Daemon>,
    out: mpsc::Sender<Frame>,
    peer: Peer,
    /// Set by a hello that was welcome.
    store: Option<StoreId>,
    /// Whether it is this host's store.
    admitted: Admitted,
    replay: Option<tokio::task::JoinHandle<()>>,
    /// Uploaded contents that stay while this session lasts.
    pinned: Vec<Sha256>,
    /// The epoch in which this session took the board.
    epoch: Option<u64>,
    /// What overtakes.
    urgent: mpsc::Sender<Frame>,
    /// Its place in the list of those whose clock can be asked for.
    listening: Option<u64>,
}

impl Drop for Session {
    fn drop(&mut self) {
        if let (Some(store), Some(epoch)) = (self.store, self.epoch) {
            let now = self.daemon.clock.now();
            let mut lease = self.daemon.lease.borrow_mut();
            lease.session_ended(store, epoch, now);
        }
        if let Some(id) = self.listening {
            self.daemon.host_clocks.borrow_mut().remove(id);
        }
        let blobs = &mut self.daemon.contents.borrow_mut().blobs;
        self.pinned.iter().for_each(|sha256| blobs.unpin(sha256));
    }
}

impl Session {
    async fn talk<R: AsyncRead + Unpin>(&mut self, read: &mut R) -> Result<(), FrameError> {
        let hello_by = self.peer.hello_within.map(|within| Instant::now() + within);
        loop {
            let limit = match self.store {
                Some(_) => frame::LIMIT,
                None => frame::LIMIT_BEFORE_AUTHENTICATION,
            };
            let replay = &mut self.replay;
            let is_stranger = self.store.is_none();
            let by = hello_by.filter(|_| is_stranger);
            let frame = tokio::select! {
                frame = frame::read(read, limit) => frame?,
                // Without it nothing sealed would come any more: the host connects again.
                () = ended(replay) => {
                    return Err(io::Error::other("what is spooled could not be sent on").into());
                }
                () = over(by) => return Err(io::Error::from(io::ErrorKind::TimedOut).into()),
            };
            let Some(frame) = frame else {
                return Ok(());
            };
            if let Some(id) = self.listening {
                self.daemon.host_clocks.borrow_mut().heard(id);
            }
            self.take(frame).await?;
        }
    }

    async fn take(&mut self, frame: Frame) -> Result<(), FrameError> {
        match (frame.kind, self.store) {
            (kind::HELLO, None) => self.hello(&frame).await,
            (kind::STATUS, _) => {
                self.send(self.daemon.status().to_frame(kind::STATUS_REPLY))
                    .await
            }
            (kind::RETIRE, _) if self.peer.role < Role::Admin => {
                Err(io::Error::from(io::ErrorKind::PermissionDenied).into())
            }
            (kind::RETIRE, _) => {
                self.daemon.retiring.set(true);
                self.daemon.wake.notify_one();
                self.send(self.daemon.status().to_frame(kind::RETIRE_REPLY))
                    .await
            }
            (kind::RELAY, None) => {
                self.peer.may_name_paths = false;
                Ok(())
            }
            (kind::REQUEST, Some(store)) => {
                let (number, request): (u64, Request) = frame.decode()?;
                let reply = self.answer(store, request).await;
                self.send(Frame::encode(kind::REPLY, &(number, reply))?)
                    .await
            }
            (kind::CLOCK_ANSWER, Some(_)) => {
                let heard = self.daemon.clock.now();
                let answer: ClockAnswer = frame.decode()?;
                if let Some(id) = self.listening {
                    let mut clocks = self.daemon.host_clocks.borrow_mut();
                    clocks.answer(id, answer, heard);
                }
                Ok(())
            }
            (unknown, _) => {
                self.send(Frame {
                    kind: kind::UNSUPPORTED,
                    payload: vec![unknown],
                })
                .await
            }
        }
    }

    async fn send(&self, frame: Frame) -> Result<(), FrameError> {
        let gone = |_| io::Error::from(io::ErrorKind::BrokenPipe);
        self.urgent.send(frame).await.map_err(gone)?;
        Ok(())
    }

    async fn hello(&mut self, frame: &Frame) -> Result<(), FrameError> {
        let host = Hello::parse(&frame.payload).map_err(io::Error::other)?;
        let own = Hello::new(BuildId(crate::BUILD_ID.into()), StoreId::NONE);
        let reply = own.answer(&host);
        if reply.verdict == Verdict::Welcome {
            self.store = Some(host.store);
            // Listening starts before the spool is read, so that nothing sealed between is missed.
            let news = self.daemon.news.subscribe();
            let task = feed(Rc::clone(&self.daemon), host.store, self.out.clone(), news);
            self.send(reply.to_frame()).await?;
            // What was measured is for those who may measure, and whose store it is.
            self.admitted = self.admit(host.store);
            if self.admitted == Admitted::Yes && self.peer.role >= Role::Run {
                self.replay = Some(tokio::task::spawn_local(task));
                let clocks = &self.daemon.host_clocks;
                let ask = self.urgent.clone();
                self.listening = Some(clocks.borrow_mut().add(host.store, ask));
            }
            return Ok(());
        }
        self.send(reply.to_frame()).await
    }

    /// Whether this host may use the store that it comes with.
    fn admit(&self, store: StoreId) -> Admitted {
        let daemon = &self.daemon;
        let mut owners = daemon.owners.borrow_mut();
        let Peer { owner, role, .. } = self.peer;
        let admitted = owners.admit(store, owner, role, |store| daemon.is_used_by(store));
        match admitted {
            Admitted::Yes => {}
            Admitted::Foreign => {
                tracing::warn!("a host came with store {store}, which is another's");
            }
            Admitted::Full => {
                tracing::warn!("store {store} finds no place among those of its host");
            }
        }
        admitted
    }

    async fn answer(&mut self, store: StoreId, request: Request) -> Result<Reply, Failure> {
        self.may(role_for(&request))?;
        if concerns_store(&request) {
            may_use_store(self.admitted)?;
        }
        if let Some(epoch) = self.epoch {
            let now = self.daemon.clock.now();
            self.daemon.lease.borrow_mut().touch(store, epoch, now);
        }
        let daemon = &self.daemon;
        match request {
            Request::Info => Ok(Reply::Info(Box::new(inventory::read(daemon).await))),
            Request::MapContent(map) => {
                self.may_name_paths()?;
                daemon.contents.borrow_mut().learn(map)?;
                Ok(Reply::Done)
            }
            Request::ProbeRuntime { backend, path } => {
                let backend = backend::find(&backend).ok_or_else(|| no_backend(&backend))?;
                let candidate = Candidate {
                    path: path.into(),
                    origin: "asked for".into(),
                };
                Ok(Reply::Runtime(
                    runtimes::look_at(daemon, backend, candidate).await,
                ))
            }
            Request::Submit(orders) => {
                own_store(store)?;
                let orderer = Orderer {
                    daemon,
                    store,
                    role: self.peer.role,
                    epoch: self.epoch,
                };
                // Each order is a write to a card.
                let say = || self.say_busy("the board writes down the orders that it was sent");
                let submitted = saying(WORD_EVERY, say, orderer.submit(orders)).await?;
                Ok(Reply::Submitted(submitted))
            }
            Request::Queue => Ok(Reply::Queue(daemon.entries(store))),
            Request::Cancel { run, kill } => {
                self.holds_board(store)?;
                self.cancel(store, &run, kill)
            }
            Request::Acknowledge { segment } => {
                own_store(store)?;
                daemon.spool.acknowledge(store, segment).map_err(|why| {
                    Failure::new(FailureCode::Internal, format!("segment {segment}: {why}"))
                })?;
                Ok(Reply::Done)
            }
            Request::Offer(offer) => self.offer(offer).await,
            Request::Upload(upload) => self.upload(upload).await,
            Request::OpenPairing { role } => self.open_pairing(role),
            Request::Watch => Ok(Reply::Watched(live::watched(daemon).await)),
            Request::Waiting => {
                let waiting = daemon.spool.by_store().map_err(|why| spool_failed(&why))?;
                Ok(Reply::Waiting(waiting))
            }
            Request::DropResults { store } => self.drop_results(store).await,
            Request::TakeLease { steal, name } => {
                own_store(store)?;
                self.take_lease(store, steal, &name)
            }
            Request::GiveLease => {
                if let Some(epoch) = self.epoch.take() {
                    let given = daemon.lease.borrow_mut().give(store, epoch);
                    given.map_err(|why| lease_storage(&why))?;
                }
                Ok(Reply::Done)
            }
            Request::Lease => {
                let moment = daemon.moment();
                let state = daemon.lease.borrow_mut().state(store, moment);
                Ok(Reply::Lease(state))
            }
        }
    }

    /// Makes this session's store the one that orders, and drops the orders of all others.
    fn take_lease(&mut self, store: StoreId, steal: bool, name: &str) -> Result<Reply, Failure> {
        if steal {
            self.may(Role::Admin)?;
        }
        // It reaches other hosts and the log.
        let name = &printable::name(name);
        let daemon = Rc::clone(&self.daemon);
        let own = self
            .epoch
            .filter(|epoch| daemon.lease.borrow().holds(store, *epoch));
        if let Some(epoch) = own {
            let moment = daemon.moment();
            let mut lease = daemon.lease.borrow_mut();
            lease.touch(store, epoch, moment.now);
            return Ok(Reply::Lease(lease.state(store, moment)));
        }
        let moment = daemon.moment();
        let taken = daemon.lease.borrow_mut().take(store, name, steal, moment);
        match taken.map_err(|why| lease_storage(&why))? {
            Taken::Held { epoch } => self.epoch = Some(epoch),
            Taken::New { epoch, from } => {
                self.epoch = Some(epoch);
                // Also those of a store that lost it to one which has given it back since: a repeat that ran
                // then may have found no room, and wait.
                let running = daemon.running.borrow().as_ref().map(|r| r.number);
                let (mut robbed, removed) = daemon.queue.borrow_mut().keep_only(store, running);
                if let Some(from) = from {
                    tracing::warn!("{name} took the board from {}", from.name);
                    robbed.insert(from.store);
                }
                for store in robbed {
                    let to = name.to_owned();
                    daemon.tell(store, News::Event(Event::LeaseLost { to }));
                }
                // What stayed is not run: it is of a store that does not hold the board.
                removed.map_err(|why| lease_storage(&why))?;
            }
            Taken::Busy(_) => {}
        }
        let moment = daemon.moment();
        let state = daemon.lease.borrow_mut().state(store, moment);
        Ok(Reply::Lease(state))
    }

    async fn offer(&mut self, offer: ContentOffer) -> Result<Reply, Failure> {
        let daemon = Rc::clone(&self.daemon);
        let unfinished = daemon.contents.borrow_mut().blobs.unfinished(&offer);
        for piece in unfinished {
            let sha256 = piece.sha256();
            // What was wrong is gone, and is asked for anew.
            let _ = self.put(piece).await;
            daemon.contents.borrow_mut().blobs.settle(&sha256)?;
        }
        let in_use = daemon.contents_in_use();
        let blobs = &mut daemon.contents.borrow_mut().blobs;
        let have = blobs.offer(&offer, &in_use)?;
        blobs.pin(offer.sha256);
        self.pinned.push(offer.sha256);
        Ok(Reply::Offered(have))
    }

    async fn upload(&self, upload: Upload) -> Result<Reply, Failure> {
        let contents = &self.daemon.contents;
        let piece = contents.borrow_mut().blobs.piece(upload)?;
        let sha256 = piece.sha256();
        let have = self.put(piece).await?;
        contents.borrow_mut().blobs.settle(&sha256)?;
        Ok(Reply::Uploaded(have))
    }

    /// Files are written, and hashed, on the thread for that. A large one may take long to reach a slow card,
    /// and one that an earlier agent began is read from its beginning: a host that hears nothing meanwhile
    /// takes the agent for lost.
    async fn put(&self, piece: Piece) -> Result<u64, Failure> {
        let work = tokio::task::spawn_blocking(|| piece.put());
        let say = || self.say_busy("the board writes and checks a file that it was sent");
        let put = saying(WORD_EVERY, say, work).await;
        put.map_err(|why| Failure::new(FailureCode::Internal, why.to_string()))?
    }

    fn say_busy(&self, text: &str) {
        let event = Event::Waiting(Failure::new(FailureCode::Busy, text));
        if let Ok(frame) = Frame::encode(kind::EVENT, &event) {
            // A host that has much to read has heard enough.
            let _ = self.urgent.try_send(frame);
        }
    }

    /// Also the orders of that store, which would fill the spool again, and keep the board from everybody
    /// else for as long as it is full. A spool can hold many files: they go on the thread for that.
    async fn drop_results(&self, store: StoreId) -> Result<Reply, Failure> {
        let running = self.daemon.running.borrow().as_ref().map(|r| r.number);
        let removed = self.daemon.queue.borrow_mut().remove_store(store, running);
        removed.map_err(|why| spool_failed(&why))?;
        let spool = self.daemon.spool.clone();
        let dropped = tokio::task::spawn_blocking(move || spool.drop_all(store)).await;
        let dropped = dropped.map_err(io::Error::other).and_then(|count| count);
        let count = dropped.map_err(|why| spool_failed(&why))?;
        tracing::warn!("{count} repeats that waited for store {store} were thrown away, as asked");
        Ok(Reply::Done)
    }

    fn open_pairing(&self, role: Role) -> Result<Reply, Failure> {
        if !self.peer.is_local {
            let detail = "a ticket is given out on the board itself only";
            return Err(Failure::new(FailureCode::NotPermitted, detail));
        }
        let network = self.daemon.network.borrow();
        let Some(network) = network.as_ref() else {
            let detail = "this agent does not listen on the network";
            let hint = "start it with `edgedyno-agent serve --listen ADDRESS`";
            return Err(Failure::new(FailureCode::Unsupported, detail).hint(hint));
        };
        match network.open_pairing(role) {
            Ok((ticket, open_for)) => Ok(Reply::Ticket {
                ticket: ticket.to_string(),
                seconds: open_for.as_secs(),
            }),
            Err(why) => Err(Failure::new(
                FailureCode::Internal,
                format!("no ticket can be made: {why}"),
            )),
        }
    }

    fn may(&self, needed: Role) -> Result<(), Failure> {
        may(self.peer.role, needed)
    }

    fn holds_board(&self, store: StoreId) -> Result<(), Failure> {
        holds_board(&self.daemon, store, self.epoch)
    }

    fn cancel(
        &self,
        store: StoreId,
        run: &edgedyno_shared::ids::RunId,
        kill: bool,
    ) -> Result<Reply, Failure> {
        let running = self.daemon.running.borrow();
        let own = running
            .as_ref()
            .filter(|r| r.store == store && r.key.run == *run);
        if kill && let Some(running) = own {
            // A repeat that has just ended has nobody left to hear it.
            let _ = running.cancel.send(Cancel::Kill);
        }
        let number = running.as_ref().map(|r| r.number);
        self.daemon
            .queue
            .borrow_mut()
            .remove_run(store, run, number)
            .map_err(|why| {
                Failure::new(
                    FailureCode::Internal,
                    format!("the queue cannot be changed: {why}"),
                )
            })?;
        Ok(Reply::Done)
    }

    fn may_name_paths(&self) -> Result<(), Failure> {
        if self.peer.may_name_paths {
            return Ok(());
        }
        let detail = "only a local user of the agent's own account may name files on the board";
        Err(Failure::new(FailureCode::NotPermitted, detail))
    }
}

/// Who may ask for this at least.
fn role_for(request: &Request) -> Role {
    match request {
        Request::Info | Request::Queue | Request::Lease | Request::Watch | Request::Waiting => {
            Role::Observe
        }
        Request::MapContent(_)
        | Request::Submit(_)
        | Request::Cancel { .. }
        | Request::Acknowledge { .. }
        | Request::Offer(_)
        | Request::TakeLease { .. }
        | Request::GiveLease
        | Request::Upload(_) => Role::Run,
        // A library is code that runs on the board; results may be another's.
        Request::ProbeRuntime { .. }
        | Request::OpenPairing { .. }
        | Request::DropResults { .. } => Role::Admin,
    }
}

/// What reads or changes the part of a store on the board.
fn concerns_store(request: &Request) -> bool {
    matches!(
        request,
        Request::Submit(_)
            | Request::Queue
            | Request::Cancel { .. }
            | Request::Acknowledge { .. }
            | Request::TakeLease { .. }
            | Request::GiveLease
    )
}

fn may_use_store(admitted: Admitted) -> Result<(), Failure> {
    match admitted {
        Admitted::Yes => Ok(()),
        Admitted::Foreign => {
            let detail = "this store was first used on the board by another host";
            Err(Failure::new(FailureCode::NotPermitted, detail).hint(
                "measure into a store of your own (--store), or pair again with a ticket for the role admin",
            ))
        }
        Admitted::Full => {
            let detail = "results or orders of thousands of stores of this host wait on the board, and it remembers no more";
            Err(Failure::new(FailureCode::StorageFull, detail).hint(
                "run a command with one of those stores (--store), which fetches what waits for it, or have them dropped (`edgedyno board info BOARD --drop-results`)",
            ))
        }
    }
}

fn spool_failed(why: &io::Error) -> Failure {
    let text = format!("what waits on the board cannot be read or removed: {why}");
    Failure::new(FailureCode::Internal, text)
        .hint("see that the agent's state folder can be read and written")
}

fn lease_storage(why: &io::Error) -> Failure {
    let text = format!("who holds the board cannot be written down: {why}");
    Failure::new(FailureCode::StorageFull, text).hint(disk::MAKE_ROOM)
}

/// Waits for what may take long, and has a word said so often meanwhile.
async fn saying<T>(every: Duration, say: impl Fn(), work: impl Future<Output = T>) -> T {
    let mut work = pin!(work);
    loop {
        match timeout(every, &mut work).await {
            Ok(done) => return done,
            Err(_) => say(),
        }
    }
}

/// Over at that time; never without one.
async fn over(at: Option<Instant>) {
    match at {
        Some(at) => sleep_until(at).await,
        None => std::future::pending().await,
    }
}

/// Over when the task is; never without one.
async fn ended(task: &mut Option<tokio::task::JoinHandle<()>>) {
    match task {
        Some(task) => drop(task.await),
        None => std::future::pending().await,
    }
}

fn own_store(store: StoreId) -> Result<(), Failure> {
    if store == StoreId::NONE {
        return Err(Failure::new(
            FailureCode::Protocol,
            "a host without a store can only ask",
        ));
    }
    Ok(())
}

fn no_backend(name: &str) -> Failure {
    Failure::new(
        FailureCode::Unsupported,
        format!("this agent has no backend `{name}`"),
    )
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::thread;

    use super::super::testing::block_on;
    use super::*;

    #[test]
    fn who_waits_for_many_short_writes_hears_of_it_meanwhile() {
        let said = Cell::new(0);
        let say = || said.set(said.get() + 1);
        block_on(saying(Duration::from_millis(20), say, async {
            // Each keeps the thread, as a write does, and lets others have a turn after it.
            for _ in 0..50 {
                thread::sleep(Duration::from_millis(4));
                tokio::task::yield_now().await;
            }
        }));
        // 200 ms at least; a word of a busy machine may come late, and one of them must come.
        assert!((2..=50).contains(&said.get()), "{}", said.get());
        let quick = Cell::new(0);
        let say = || quick.set(quick.get() + 1);
        block_on(saying(Duration::from_secs(5), say, async {}));
        assert_eq!(quick.get(), 0);
    }
}
