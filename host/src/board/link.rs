//! A session with an agent over any carrier: hello, numbered requests, events, spooled records.

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use edgedyno_shared::clocks::{ClockAnswer, ClockQuestion};
use edgedyno_shared::ids::{BuildId, StoreId};
use edgedyno_shared::units::{Bytes, Nanos};
use edgedyno_shared::wire::event::Event;
use edgedyno_shared::wire::failure::Failure;
use edgedyno_shared::wire::frame::{self, Frame, FrameError, kind};
use edgedyno_shared::wire::hello::{DaemonStatus, Hello, HelloReply, NotHello, Verdict};
use edgedyno_shared::wire::record::{HeaderError, SegmentHeader};
use edgedyno_shared::wire::request::{Reply, Request};
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt};
use tokio::sync::{Mutex, mpsc};
use tokio::task::JoinHandle;
use tokio::time::timeout;

use crate::clock;

/// An agent that says nothing to a hello for this long is none.
const HELLO_TIMEOUT: Duration = Duration::from_secs(5);

/// An agent that takes nothing for this long is dead, or stopped: it reads on whatever it does.
const SEND_TIMEOUT: Duration = Duration::from_secs(if cfg!(test) { 1 } else { 120 });

/// Frames read ahead of the driver: more would be memory without use.
const READ_AHEAD: usize = 8;

/// What arrives on a link, in the order it was sent.
#[derive(Debug)]
pub enum LinkEvent {
    Reply {
        number: u64,
        answer: Result<Reply, Failure>,
    },
    Event(Event),
    /// A spooled repeat begins; its records follow.
    Segment(SegmentHeader),
    /// A record frame's payload, as the agent sent it.
    Record(Vec<u8>),
}

/// Why a session ended or never began.
#[derive(Debug, thiserror::Error)]
pub enum LinkError {
    #[error("the agent closed the connection")]
    Closed,
    #[error("the agent does not answer")]
    Silent,
    #[error(transparent)]
    NotHello(#[from] NotHello),
    #[error("the agent is of build {agent}, which speaks another protocol")]
    Incompatible { agent: BuildId },
    #[error("the agent does not know frames of kind {0}")]
    Unsupported(u8),
    #[error("the agent sent a frame that makes no sense: {0}")]
    Header(#[from] HeaderError),
    #[error(transparent)]
    Frame(#[from] FrameError),
    #[error("{what} of {} is over the limit of {}", Bytes(*length as u64), Bytes(*limit as u64))]
    TooLarge {
        what: &'static str,
        length: usize,
        limit: usize,
    },
    #[error("the agent answered with {0}, which was not asked")]
    Unexpected(&'static str),
    #[error(transparent)]
    Refused(#[from] Failure),
}

type Reader = Box<dyn AsyncRead + Send + Unpin>;
type Writer = Box<dyn AsyncWrite + Send + Unpin>;

/// What a carrier does at its end, and what it keeps until then.
pub type Farewell = Pin<Box<dyn Future<Output = ()> + Send>>;

/// A carrier on which the agent answered the hello, whatever its version.
pub struct Greeted {
    read: Reader,
    write: Writer,
    farewell: Option<Farewell>,
    pub reply: HelloReply,
}

impl Greeted {
    /// Says hello and waits for the answer.
    pub async fn greet(
        read: impl AsyncRead + Send + Unpin + 'static,
        write: impl AsyncWrite + Send + Unpin + 'static,
        store: StoreId,
    ) -> Result<Self, LinkError> {
        let (mut read, mut write): (Reader, Writer) = (Box::new(read), Box::new(write));
        let hello = Hello::new(own_build(), store);
        send_frame(&mut write, &hello.to_frame()).await?;
        let answer = timeout(HELLO_TIMEOUT, frame::read(&mut read, frame::LIMIT)).await;
        let answer = answer.map_err(|_| LinkError::Silent)??;
        let answer = answer.ok_or(LinkError::Closed)?;
        if answer.kind != kind::HELLO_REPLY {
            return Err(NotHello.into());
        }
        let reply = HelloReply::parse(&answer.payload)?;
        Ok(Self {
            read,
            write,
            farewell: None,
            reply,
        })
    }

    /// With something that lives as long as the session.
    #[must_use]
    pub fn keeping(mut self, farewell: Farewell) -> Self {
        self.farewell = Some(farewell);
        self
    }

    pub fn is_welcome(&self) -> bool {
        self.reply.verdict == Verdict::Welcome
    }

    /// Goes on as a session, when both sides are of the same schema.
    pub fn into_link(self) -> Result<Link, LinkError> {
        if !self.is_welcome() {
            let agent = self.reply.agent.build;
            return Err(LinkError::Incompatible { agent });
        }
        let (send, incoming) = mpsc::channel(READ_AHEAD);
        let (ask, questions) = mpsc::channel(2);
        let write = Arc::new(Mutex::new(self.write));
        let clock = tell_clock(questions, Arc::clone(&write));
        Ok(Link {
            write,
            incoming,
            reader: tokio::spawn(read_all(self.read, ask, send)),
            clock: tokio::spawn(clock),
            last: 0,
            held: VecDeque::new(),
            farewell: self.farewell,
            agent: self.reply.agent,
        })
    }

    /// Asks the daemon, of whatever version, to leave once its running repeat is finished.
    pub async fn retire(mut self) -> Result<DaemonStatus, LinkError> {
        self.frozen(kind::RETIRE, kind::RETIRE_REPLY).await
    }

    /// What the daemon, of whatever version, is doing.
    pub async fn status(&mut self) -> Result<DaemonStatus, LinkError> {
        self.frozen(kind::STATUS, kind::STATUS_REPLY).await
    }

    async fn frozen(&mut self, ask: u8, expected: u8) -> Result<DaemonStatus, LinkError> {
        send_frame(&mut self.write, &Frame::empty(ask)).await?;
        loop {
            let answer = timeout(HELLO_TIMEOUT, frame::read(&mut self.read, frame::LIMIT)).await;
            let answer = answer.map_err(|_| LinkError::Silent)??;
            match answer {
                None => return Err(LinkError::Closed),
                Some(f) if f.kind == expected => return Ok(DaemonStatus::parse(&f.payload)?),
                // A daemon of this schema may tell how its repeat goes in between.
                Some(f) if f.kind == kind::EVENT => {}
                Some(_) => return Err(LinkError::Unexpected("another frame than was asked for")),
            }
        }
    }

    /// Lets go of a carrier on which nothing more is wanted.
    pub async fn leave(mut self) {
        let _ = self.write.shutdown().await;
        if let Some(farewell) = self.farewell.take() {
            drop(self.read);
            farewell.await;
        }
    }
}

/// What this build calls itself in a hello; schemas decide, this is for people.
fn own_build() -> BuildId {
    BuildId(format!("edgedyno {}", edgedyno_shared::VERSION))
}

/// What makes a request large, when one is.
fn large_part(request: &Request) -> &'static str {
    match request {
        Request::Submit(_) => "an order for a repeat, with the list of its input files,",
        Request::Offer(_) | Request::MapContent(_) => "the list of a model's files",
        _ => "a request",
    }
}

async fn send_frame(write: &mut Writer, frame: &Frame) -> Result<(), LinkError> {
    frame::write(write, frame).await?;
    write.flush().await.map_err(FrameError::from)?;
    Ok(())
}

/// A session. Dropping it closes the carrier.
pub struct Link {
    /// Shared with the task that answers for this machine's clock.
    write: Arc<Mutex<Writer>>,
    incoming: mpsc::Receiver<Result<LinkEvent, LinkError>>,
    reader: JoinHandle<()>,
    clock: JoinHandle<()>,
    last: u64,
    held: VecDeque<LinkEvent>,
    farewell: Option<Farewell>,
    agent: Hello,
}

impl Link {
    /// Build of the agent on the other side.
    pub fn agent_build(&self) -> &BuildId {
        &self.agent.build
    }

    /// Ends the session so that the other side hears of it.
    pub async fn leave(mut self) {
        // A carrier that cannot be closed is closed all the same.
        let closed = async { self.write.lock().await.shutdown().await };
        let _ = timeout(SEND_TIMEOUT, closed).await;
        if let Some(farewell) = self.farewell.take() {
            farewell.await;
        }
    }

    /// Sends a request; its reply comes through [`Self::next`] under the number returned.
    pub async fn send(&mut self, request: Request) -> Result<u64, LinkError> {
        self.last += 1;
        let what = large_part(&request);
        let frame = Frame::encode(kind::REQUEST, &(self.last, request));
        let frame = frame.map_err(|why| match why {
            FrameError::TooLong { length, limit } => LinkError::TooLarge {
                what,
                length,
                limit,
            },
            other => other.into(),
        })?;
        let sent = async { send_frame(&mut *self.write.lock().await, &frame).await };
        let sent = timeout(SEND_TIMEOUT, sent).await;
        sent.map_err(|_| LinkError::Silent)??;
        Ok(self.last)
    }

    /// The next thing the agent says. Cancel-safe.
    pub async fn next(&mut self) -> Result<LinkEvent, LinkError> {
        if let Some(event) = self.held.pop_front() {
            return Ok(event);
        }
        self.receive().await
    }

    async fn receive(&mut self) -> Result<LinkEvent, LinkError> {
        self.incoming.recv().await.unwrap_or(Err(LinkError::Closed))
    }

    /// Asks and waits for the answer; what comes meanwhile is kept for [`Self::next`].
    ///
    /// For sessions without a store, where nothing is replayed: kept records would be memory.
    pub async fn ask(&mut self, request: Request) -> Result<Reply, LinkError> {
        let asked = self.send(request).await?;
        loop {
            match self.receive().await? {
                LinkEvent::Reply { number, answer } if number == asked => return Ok(answer?),
                other => self.held.push_back(other),
            }
        }
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        self.reader.abort();
        self.clock.abort();
    }
}

/// Reads until the carrier ends; the last message says why.
async fn read_all(
    mut read: Reader,
    questions: mpsc::Sender<(ClockQuestion, Nanos)>,
    to: mpsc::Sender<Result<LinkEvent, LinkError>>,
) {
    loop {
        let event = read_event(&mut read, &questions).await;
        let ended = event.is_err();
        if to.send(event).await.is_err() || ended {
            return;
        }
    }
}

async fn read_event(
    read: &mut Reader,
    questions: &mpsc::Sender<(ClockQuestion, Nanos)>,
) -> Result<LinkEvent, LinkError> {
    loop {
        let frame = frame::read(read, frame::LIMIT).await?;
        let frame = frame.ok_or(LinkError::Closed)?;
        if frame.kind != kind::CLOCK {
            return event_of(frame);
        }
        let received = Nanos(clock::monotonic_ns());
        // Reading never waits for writing: two sides that did would wait for each other. A question that
        // finds no place is one too many, and gets no answer.
        let _ = questions.try_send((frame.decode()?, received));
    }
}

/// Tells what this machine's clock says, for as long as an agent asks.
async fn tell_clock(
    mut questions: mpsc::Receiver<(ClockQuestion, Nanos)>,
    write: Arc<Mutex<Writer>>,
) {
    while let Some((question, received)) = questions.recv().await {
        let mut write = write.lock().await;
        let answer = ClockAnswer {
            number: question.number,
            received,
            answered: Nanos(clock::monotonic_ns()),
            unix_ns: clock::unix_ns(),
            clock: clock::own_id(),
        };
        let sent = match Frame::encode(kind::CLOCK_ANSWER, &answer) {
            Ok(frame) => send_frame(&mut write, &frame).await,
            Err(why) => Err(why.into()),
        };
        // A carrier that is gone is seen by who reads.
        if sent.is_err() {
            return;
        }
    }
}

fn event_of(frame: Frame) -> Result<LinkEvent, LinkError> {
    match frame.kind {
        kind::REPLY => {
            let (number, answer) = frame.decode()?;
            Ok(LinkEvent::Reply { number, answer })
        }
        kind::EVENT => Ok(LinkEvent::Event(frame.decode()?)),
        kind::SEGMENT => Ok(LinkEvent::Segment(SegmentHeader::parse(&frame.payload)?)),
        kind::RECORD => Ok(LinkEvent::Record(frame.payload)),
        kind::UNSUPPORTED => {
            let unknown = frame.payload.first().copied().unwrap_or_default();
            Err(LinkError::Unsupported(unknown))
        }
        _ => Err(LinkError::Unexpected("a frame of an unknown kind")),
    }
}

#[cfg(test)]
mod tests {
    use edgedyno_shared::ids::{BootId, RunId, Sha256};
    use edgedyno_shared::order::{OrderKey, Pass};
    use edgedyno_shared::repeat::Stage;
    use edgedyno_shared::units::Nanos;
    use edgedyno_shared::wire::event::Progress;
    use edgedyno_shared::wire::failure::FailureCode;

    use super::*;
    use crate::board::script::FakeAgent;

    const STORE: StoreId = StoreId([7; 16]);

    fn block_on<T>(future: impl Future<Output = T>) -> T {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build();
        runtime.unwrap().block_on(future)
    }

    async fn linked() -> (Link, FakeAgent) {
        let (near, far) = tokio::io::duplex(1 << 16);
        let agent = tokio::spawn(FakeAgent::welcome(far));
        let (read, write) = tokio::io::split(near);
        let greeted = Greeted::greet(read, write, STORE).await.unwrap();
        (greeted.into_link().unwrap(), agent.await.unwrap())
    }

    fn header() -> SegmentHeader {
        SegmentHeader {
            schema: edgedyno_shared::wire::hello::schema_hash(),
            store: STORE,
            boot: BootId(1),
            segment: 3,
            key: OrderKey {
                run: RunId("r".into()),
                case: Sha256([1; 32]),
                repeat: 0,
                attempt: 0,
                pass: Pass::Honest,
            },
        }
    }

    #[test]
    fn the_hello_names_the_store_and_the_schema() {
        block_on(async {
            let (_link, agent) = linked().await;
            assert_eq!(agent.host.store, STORE);
            assert_eq!(
                agent.host.schema,
                edgedyno_shared::wire::hello::schema_hash()
            );
        });
    }

    #[test]
    fn replies_find_their_requests_and_the_rest_keeps_its_order() {
        block_on(async {
            let (mut link, mut agent) = linked().await;
            let progress = Event::Progress(Progress {
                stage: Stage::Warmup,
                in_stage: Nanos(5),
                trials: 9,
                recent_p50: None,
            });
            let told = progress.clone();
            let serve = tokio::spawn(async move {
                let (number, request) = agent.request().await;
                assert_eq!(request, Request::Queue);
                agent.event(&told).await;
                agent.segment(&header()).await;
                agent.reply(number, Ok(Reply::Queue(Vec::new()))).await;
                let (number, _) = agent.request().await;
                let refused = Failure::new(FailureCode::NotFound, "no such run");
                agent.reply(number, Err(refused)).await;
            });
            assert_eq!(
                link.ask(Request::Queue).await.unwrap(),
                Reply::Queue(Vec::new())
            );
            assert!(matches!(link.next().await.unwrap(), LinkEvent::Event(e) if e == progress));
            assert!(matches!(link.next().await.unwrap(), LinkEvent::Segment(h) if h == header()));
            let refused = link.ask(Request::Acknowledge { segment: 1 }).await;
            assert!(
                matches!(refused, Err(LinkError::Refused(f)) if f.code == FailureCode::NotFound)
            );
            serve.await.unwrap();
            assert!(matches!(link.next().await, Err(LinkError::Closed)));
        });
    }

    #[test]
    fn an_agent_that_takes_nothing_is_given_up() {
        block_on(async {
            let (mut link, _agent) = linked().await;
            let large = Request::Upload(edgedyno_shared::wire::request::Upload {
                sha256: Sha256([1; 32]),
                offset: 0,
                bytes: vec![0; 1 << 18],
            });
            assert!(matches!(link.send(large).await, Err(LinkError::Silent)));
        });
    }

    #[test]
    fn a_question_for_the_clock_is_answered_while_nobody_waits_for_the_agent() {
        block_on(async {
            let (mut link, mut agent) = linked().await;
            let before = clock::monotonic_ns();
            agent.ask_clock(7).await;
            let answer = agent.clock_answer().await;
            assert_eq!(answer.number, 7);
            assert!(before <= answer.received.0 && answer.received <= answer.answered);
            assert!(answer.answered.0 <= clock::monotonic_ns());
            agent.ask_clock(8).await;
            assert_eq!(agent.clock_answer().await.clock, answer.clock);
            // It is no event of the session.
            let progress = Event::Waiting(Failure::new(FailureCode::Busy, "x"));
            agent.event(&progress).await;
            assert!(matches!(link.next().await.unwrap(), LinkEvent::Event(e) if e == progress));
        });
    }

    #[test]
    fn an_agent_of_another_schema_can_only_be_retired() {
        block_on(async {
            let (near, far) = tokio::io::duplex(1 << 16);
            let agent = tokio::spawn(async move {
                let mut agent = FakeAgent::incompatible(far).await;
                agent.retire().await;
            });
            let (read, write) = tokio::io::split(near);
            let greeted = Greeted::greet(read, write, STORE).await.unwrap();
            assert!(!greeted.is_welcome());
            assert!(greeted.retire().await.unwrap().running);
            agent.await.unwrap();
        });
    }

    #[test]
    fn what_is_no_agent_is_told_apart() {
        block_on(async {
            let (near, mut far) = tokio::io::duplex(1 << 16);
            let noise = Frame {
                kind: kind::HELLO_REPLY,
                payload: b"HTTP/1.1".to_vec(),
            };
            far.write_all(&noise.to_bytes()).await.unwrap();
            let (read, write) = tokio::io::split(near);
            let refused = Greeted::greet(read, write, STORE).await;
            assert!(matches!(refused, Err(LinkError::NotHello(_))));
        });
    }
}
