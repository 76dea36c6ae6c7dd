//! A scripted agent for tests: one end of an in-memory carrier, told what to say.

use edgedyno_shared::clocks::{ClockAnswer, ClockQuestion};
use edgedyno_shared::ids::BuildId;
use edgedyno_shared::wire::event::Event;
use edgedyno_shared::wire::failure::Failure;
use edgedyno_shared::wire::frame::{self, Frame, kind};
use edgedyno_shared::wire::hello::{DaemonStatus, Hello};
use edgedyno_shared::wire::record::{Record, SegmentHeader};
use edgedyno_shared::wire::request::{Reply, Request};
use tokio::io::{AsyncWriteExt, DuplexStream};

/// The agent's end of a session.
pub(crate) struct FakeAgent {
    stream: DuplexStream,
    pub(crate) host: Hello,
}

impl FakeAgent {
    /// Answers the hello as an agent of the same build.
    pub(crate) async fn welcome(stream: DuplexStream) -> Self {
        Self::greet(stream, edgedyno_shared::wire::hello::schema_hash()).await
    }

    /// Answers as an agent of another schema.
    pub(crate) async fn incompatible(stream: DuplexStream) -> Self {
        Self::greet(stream, [0xee; 32]).await
    }

    async fn greet(mut stream: DuplexStream, schema: [u8; 32]) -> Self {
        let hello = frame::read(&mut stream, frame::LIMIT).await;
        let host = Hello::parse(&hello.unwrap().unwrap().payload).unwrap();
        let own = Hello {
            schema,
            ..Hello::new(BuildId("scripted".into()), host.store)
        };
        let mut agent = Self { stream, host };
        let reply = own.answer(&agent.host).to_frame();
        agent.write(&reply).await;
        agent
    }

    /// Says a frame of any kind, also one that makes no sense.
    pub(crate) async fn frame(&mut self, frame: &Frame) {
        self.write(frame).await;
    }

    async fn write(&mut self, frame: &Frame) {
        // A host that left meanwhile is part of some scripts.
        let _ = self.stream.write_all(&frame.to_bytes()).await;
    }

    /// The next request, none when the host left.
    pub(crate) async fn try_request(&mut self) -> Option<(u64, Request)> {
        let frame = frame::read(&mut self.stream, frame::LIMIT).await.ok()??;
        Some(frame.decode().unwrap())
    }

    pub(crate) async fn request(&mut self) -> (u64, Request) {
        self.try_request().await.expect("the host asks")
    }

    pub(crate) async fn reply(&mut self, number: u64, answer: Result<Reply, Failure>) {
        self.write(&Frame::encode(kind::REPLY, &(number, answer)).unwrap())
            .await;
    }

    pub(crate) async fn event(&mut self, event: &Event) {
        self.write(&Frame::encode(kind::EVENT, event).unwrap())
            .await;
    }

    pub(crate) async fn ask_clock(&mut self, number: u64) {
        let question = ClockQuestion { number };
        self.write(&Frame::encode(kind::CLOCK, &question).unwrap())
            .await;
    }

    pub(crate) async fn clock_answer(&mut self) -> ClockAnswer {
        let frame = frame::read(&mut self.stream, frame::LIMIT).await;
        let frame = frame.unwrap().expect("the host answers");
        assert_eq!(frame.kind, kind::CLOCK_ANSWER);
        frame.decode().unwrap()
    }

    pub(crate) async fn segment(&mut self, header: &SegmentHeader) {
        self.write(&header.to_frame()).await;
    }

    pub(crate) async fn record(&mut self, sequence: u64, record: &Record) {
        self.write(&record.to_frame(sequence).unwrap()).await;
    }

    /// Expects to be retired, and says that a repeat still runs.
    pub(crate) async fn retire(&mut self) {
        let frame = frame::read(&mut self.stream, frame::LIMIT).await;
        assert_eq!(frame.unwrap().unwrap().kind, kind::RETIRE);
        let status = DaemonStatus {
            process: 1,
            sessions: 1,
            queued: 0,
            spooled: 0,
            running: true,
        };
        self.write(&status.to_frame(kind::RETIRE_REPLY)).await;
    }
}
