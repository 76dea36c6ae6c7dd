//! A host made of a few lines: speaks frames with a real daemon, whose workers are real processes.

use std::fs;
use std::io::Write;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::thread::sleep;
use std::time::Duration;

use edgedyno_agent::clock::{Clock, Monotonic};
use edgedyno_shared::case::{
    Case, Condition, Generator, InputPolicy, InputSource, InputSpec, Io, ModelRef, Scenario,
    Threads,
};
use edgedyno_shared::clocks::{ClockAnswer, ClockQuestion};
use edgedyno_shared::ids::{BuildId, RunId, Sha256, StoreId};
use edgedyno_shared::load::Load;
use edgedyno_shared::order::{
    ColdStart, Limits, OrderKey, OutputWish, Pass, Preparation, RepeatOrder, Rules, StopRule,
    WarmupRule,
};
use edgedyno_shared::repeat::{Outcome, RepeatEnd};
use edgedyno_shared::telemetry::{NOT_READ, TelemetryMode};
use edgedyno_shared::units::Nanos;
use edgedyno_shared::wire::failure::Failure;
use edgedyno_shared::wire::frame::{self, Frame, kind};
use edgedyno_shared::wire::hello::{Hello, HelloReply};
use edgedyno_shared::wire::record::{Record, SegmentHeader};
use edgedyno_shared::wire::request::{LeaseState, OrderAnswer, Reply, Request};

pub(crate) const STORE: StoreId = StoreId([9; 16]);

/// A daemon with a state folder of its own; both go when this is dropped.
pub(crate) struct Daemon {
    pub(crate) folder: tempfile::TempDir,
    variables: Vec<(String, String)>,
    child: Option<Child>,
}

impl Daemon {
    pub(crate) fn start(words: &[&str]) -> Self {
        Self::start_with(words, &[])
    }

    /// With variables in its environment.
    pub(crate) fn start_with(words: &[&str], variables: &[(&str, &str)]) -> Self {
        let variables = variables
            .iter()
            .map(|(name, value)| ((*name).into(), (*value).into()));
        let mut daemon = Self {
            folder: tempfile::tempdir().unwrap(),
            variables: variables.collect(),
            child: None,
        };
        daemon.restart(words);
        daemon
    }

    pub(crate) fn state(&self) -> PathBuf {
        self.folder.path().join("state")
    }

    pub(crate) fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_edgedyno-agent"));
        command
            .args(words)
            .env("EDGEDYNO_AGENT_STATE", self.state())
            .env("XDG_RUNTIME_DIR", self.folder.path().join("run"))
            .envs(self.variables.iter().map(|(name, value)| (name, value)));
        fs::create_dir_all(self.folder.path().join("run")).unwrap();
        command
    }

    pub(crate) fn restart(&mut self, words: &[&str]) {
        let mut command = self.command(words);
        command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        self.child = Some(command.spawn().unwrap());
        wait_for("the socket", || UnixStream::connect(self.socket()).is_ok());
    }

    pub(crate) fn socket(&self) -> PathBuf {
        self.state().join("agent.sock")
    }

    pub(crate) fn kill(&mut self) {
        let mut child = self.child.take().unwrap();
        child.kill().unwrap();
        child.wait().unwrap();
    }

    pub(crate) fn id(&self) -> u32 {
        self.child.as_ref().unwrap().id()
    }

    /// Waits for the daemon to leave by itself.
    pub(crate) fn wait(&mut self) -> Option<i32> {
        self.child.take().unwrap().wait().unwrap().code()
    }

    pub(crate) fn connect(&self) -> Host {
        let mut host = Host::raw(&self.socket());
        host.hello(&Hello::new(BuildId("test".into()), STORE));
        host.take_lease(false);
        host
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        if let Some(child) = self.child.as_mut() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// A finished repeat as the wire brought it.
#[derive(Debug)]
pub(crate) struct Segment {
    pub(crate) header: SegmentHeader,
    pub(crate) records: Vec<Record>,
}

impl Segment {
    pub(crate) fn end(&self) -> &RepeatEnd {
        match self.records.last() {
            Some(Record::End(end)) => end,
            other => panic!("segment ends with {other:?}"),
        }
    }

    pub(crate) fn failure(&self) -> (&'static str, &Failure) {
        match &self.end().outcome {
            Outcome::Failed { stage, failure } => (stage.name(), failure),
            other => panic!("no failure: {other:?}"),
        }
    }

    /// Cells of the repeat's own lane by column.
    pub(crate) fn columns(&self) -> Vec<Vec<i64>> {
        self.columns_of(0)
    }

    /// Cells of a lane by column.
    pub(crate) fn columns_of(&self, wanted: u16) -> Vec<Vec<i64>> {
        let schema = self.records.iter().find_map(|record| match record {
            Record::Schema { lane, schema } if *lane == wanted => Some(schema.columns.len()),
            _ => None,
        });
        let mut columns = vec![Vec::new(); schema.unwrap_or(0)];
        for record in &self.records {
            if let Record::Chunk(chunk) = record
                && chunk.lane == wanted
            {
                chunk.append_to(&mut columns).unwrap();
            }
        }
        columns
    }

    /// Moments and values of a channel, those that were not read left out.
    pub(crate) fn samples(&self, name: &str) -> Vec<(i64, i64)> {
        let id = self.records.iter().find_map(|record| match record {
            Record::Channel(channel) if channel.name == name => Some(channel.id),
            _ => None,
        });
        let pieces = self.records.iter().filter_map(|record| match record {
            Record::Samples(samples) if Some(samples.channel) == id => Some(samples),
            _ => None,
        });
        pieces
            .flat_map(|piece| piece.at_ns.iter().copied().zip(piece.value.iter().copied()))
            .filter(|(_, value)| *value != NOT_READ)
            .collect()
    }

    pub(crate) fn events(&self, code: &str) -> Vec<&str> {
        let events = self.records.iter().filter_map(|record| match record {
            Record::Event(event) => Some(event),
            _ => None,
        });
        events
            .filter(|event| event.code == code)
            .map(|event| event.text.as_str())
            .collect()
    }
}

/// One connection.
pub(crate) struct Host {
    stream: UnixStream,
    next: u64,
    segments: Vec<Segment>,
    pub(crate) is_silent_about_time: bool,
}

impl Host {
    pub(crate) fn raw(socket: &Path) -> Self {
        let stream = UnixStream::connect(socket).unwrap();
        stream
            .set_read_timeout(Some(Duration::from_secs(60)))
            .unwrap();
        Self {
            stream,
            next: 0,
            segments: Vec::new(),
            is_silent_about_time: false,
        }
    }

    pub(crate) fn send(&mut self, frame: &Frame) {
        self.stream.write_all(&frame.to_bytes()).unwrap();
    }

    pub(crate) fn read(&mut self) -> Option<Frame> {
        frame::read_blocking(&mut self.stream, frame::LIMIT).unwrap()
    }

    pub(crate) fn hello(&mut self, hello: &Hello) -> HelloReply {
        self.send(&hello.to_frame());
        let frame = self.read().unwrap();
        assert_eq!(frame.kind, kind::HELLO_REPLY);
        HelloReply::parse(&frame.payload).unwrap()
    }

    pub(crate) fn ask(&mut self, request: Request) -> Result<Reply, Failure> {
        self.next += 1;
        let number = self.next;
        self.send(&Frame::encode(kind::REQUEST, &(number, request)).unwrap());
        loop {
            let frame = self.read().expect("a reply before the end");
            if frame.kind == kind::REPLY {
                let (of, reply) = frame.decode::<(u64, Result<Reply, Failure>)>().unwrap();
                assert_eq!(of, number);
                return reply;
            }
            self.take(frame);
        }
    }

    pub(crate) fn take_lease(&mut self, steal: bool) -> LeaseState {
        let name = "a test".into();
        match self.ask(Request::TakeLease { steal, name }).unwrap() {
            Reply::Lease(state) => state,
            other => panic!("{other:?}"),
        }
    }

    pub(crate) fn submit(&mut self, orders: Vec<RepeatOrder>) -> Vec<OrderAnswer> {
        match self.ask(Request::Submit(orders)).unwrap() {
            Reply::Submitted(answers) => answers,
            other => panic!("{other:?}"),
        }
    }

    fn take(&mut self, frame: Frame) {
        match frame.kind {
            kind::SEGMENT => {
                let header = SegmentHeader::parse(&frame.payload).unwrap();
                self.segments.push(Segment {
                    header,
                    records: Vec::new(),
                });
            }
            kind::RECORD => {
                let (_, record) = Record::parse(&frame.payload).unwrap();
                self.segments.last_mut().unwrap().records.push(record);
            }
            kind::CLOCK if !self.is_silent_about_time => {
                let received = Monotonic.now();
                let ClockQuestion { number } = frame.decode().unwrap();
                let answer = ClockAnswer {
                    number,
                    received,
                    answered: Monotonic.now(),
                    unix_ns: 1,
                    clock: 7,
                };
                self.send(&Frame::encode(kind::CLOCK_ANSWER, &answer).unwrap());
            }
            _ => {}
        }
    }

    /// Waits for the next whole segment, without acknowledging it.
    pub(crate) fn segment(&mut self) -> Segment {
        loop {
            let first_ended = self
                .segments
                .first()
                .is_some_and(|s| matches!(s.records.last(), Some(Record::End(_))));
            if first_ended {
                return self.segments.remove(0);
            }
            let frame = self.read().expect("a segment before the end");
            self.take(frame);
        }
    }

    pub(crate) fn acknowledge(&mut self, segment: &Segment) {
        let segment = segment.header.segment;
        assert_eq!(self.ask(Request::Acknowledge { segment }), Ok(Reply::Done));
    }
}

/// A relay as a host's ssh starts it, on which the hello was answered.
pub(crate) struct Relay {
    pub(crate) child: Child,
    to: ChildStdin,
    from: ChildStdout,
    pub(crate) reply: HelloReply,
}

impl Relay {
    pub(crate) fn start(mut command: Command, store: StoreId) -> Self {
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let (mut to, mut from) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
        let hello = Hello::new(BuildId("test".into()), store);
        to.write_all(&hello.to_frame().to_bytes()).unwrap();
        let reply = frame::read_blocking(&mut from, frame::LIMIT).unwrap();
        let reply = reply.unwrap();
        assert_eq!(reply.kind, kind::HELLO_REPLY);
        Self {
            child,
            to,
            from,
            reply: HelloReply::parse(&reply.payload).unwrap(),
        }
    }

    /// Tells the daemon behind it to leave, and waits until the relay has ended too.
    pub(crate) fn retire(mut self) {
        let retire = Frame::empty(kind::RETIRE).to_bytes();
        self.to.write_all(&retire).unwrap();
        let last = frame::read_blocking(&mut self.from, frame::LIMIT).unwrap();
        assert_eq!(last.unwrap().kind, kind::RETIRE_REPLY);
        drop(self.to);
        self.child.wait().unwrap();
    }
}

/// An order for the fake backend with these options.
pub(crate) fn order(repeat: u32, options: &[(&str, &str)]) -> RepeatOrder {
    let mut options: Vec<(String, String)> = options
        .iter()
        .map(|(k, v)| ((*k).into(), (*v).into()))
        .collect();
    options.sort();
    let case = Case {
        board: "local".into(),
        model: ModelRef {
            name: "none".into(),
            sha256: Sha256([0; 32]),
        },
        backend: "fake".into(),
        runtime: None,
        options,
        parameters: vec![],
        shapes: vec![],
        batch: None,
        threads: Threads { intra: 1, inter: 1 },
        cpus: None,
        precision: None,
        scenario: Scenario::Single,
        io: Io::Resident,
        condition: Condition::idle(),
        tenants: Vec::new(),
        inputs: InputSpec {
            source: InputSource::Generated {
                generator: Generator::Normal,
                seed: 1,
            },
            policy: InputPolicy::Fixed,
        },
    };
    let key = OrderKey {
        run: RunId("testrun".into()),
        case: Sha256([3; 32]),
        repeat,
        attempt: 0,
        pass: Pass::Honest,
    };
    RepeatOrder {
        key,
        case,
        rules: Rules {
            warmup: WarmupRule {
                min_trials: 5,
                min_time: Nanos(0),
                max_time: Nanos::from_millis(50),
                until_steady: false,
            },
            measure: StopRule {
                duration: Nanos::from_millis(20),
                min_trials: 11,
                max_trials: 1000,
            },
        },
        limits: Limits {
            load: Nanos::from_secs(20),
            compile: Nanos::from_secs(20),
            trial: Nanos::from_secs(20),
            trial_factor: 50,
            memory: None,
        },
        cold: ColdStart::FreshProcess,
        outputs: OutputWish {
            save: false,
            reference: vec![],
        },
        load: Load::default(),
        telemetry: TelemetryMode::Normal,
        preparation: Preparation::default(),
    }
}

pub(crate) fn wait_for(what: &str, mut done: impl FnMut() -> bool) {
    for _ in 0..600 {
        if done() {
            return;
        }
        sleep(Duration::from_millis(50));
    }
    panic!("waited 30 s for {what}");
}
