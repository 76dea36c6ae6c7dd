//! Bytes that no agent or host ever wrote, by the hundred thousand: every decoder refuses them or reads
//! something, and none panics, hangs or fills the memory.
//!
//! `EDGEDYNO_MALFORMED=1000000` makes a campaign of it, `EDGEDYNO_MALFORMED_SEED` another one.

use edgedyno_agent::daemon::{pairing, spool_file};
use edgedyno_agent::privileged::message as privileged;
use edgedyno_agent::privileged::message::Counted;
use edgedyno_agent::worker::job::Job;
use edgedyno_agent::worker::message::{MESSAGE, Message, TASK, Task};
use edgedyno_shared::case::{
    Case, Condition, InputFile, InputPolicy, InputSource, InputSpec, Io, ModelRef, RuntimeRef,
    Scenario, Tenant, Threads,
};
use edgedyno_shared::clocks::{
    ClockAnswer, ClockExchange, ClockMoment, ClockQuestion, ExchangeResult, FourStamps, best, drift,
};
use edgedyno_shared::columns::{Chunk, ColumnSpec, TrialSchema};
use edgedyno_shared::content::{ContentOffer, OfferedFile, content_hash};
use edgedyno_shared::device::{
    BackendInfo, Cpu, DeviceFile, DeviceInfo, Fact, Readiness, Reading, RuntimeFacts, RuntimeFound,
    RuntimeVerdict,
};
use edgedyno_shared::ids::{BootId, BuildId, RunId, Sha256, StoreId};
use edgedyno_shared::link::key::Fingerprint;
use edgedyno_shared::link::role::Role;
use edgedyno_shared::link::ticket::{Secret, Ticket};
use edgedyno_shared::load::{Effort, Load, StressOrder, Throttle};
use edgedyno_shared::order::{
    ColdStart, CoolDown, Limits, OrderKey, OutputWish, Pass, Preparation, RepeatOrder, Rules,
    StopRule, WarmupRule,
};
use edgedyno_shared::repeat::{Outcome, RepeatEnd, Stage};
use edgedyno_shared::telemetry::{
    Channel, ChannelKind, ChannelNow, Fidelity, NOT_READ, Quality, Samples, TelemetryMode, Watched,
};
use edgedyno_shared::units::{Bytes, Nanos};
use edgedyno_shared::wire::event::{Event, Progress};
use edgedyno_shared::wire::failure::{Failure, FailureCode};
use edgedyno_shared::wire::frame::{self, Frame, LIMIT, kind};
use edgedyno_shared::wire::hello::{DaemonStatus, Hello, HelloReply};
use edgedyno_shared::wire::record::{Record, RecordHeader, SegmentHeader, read_chunk};
use edgedyno_shared::wire::request::{
    LeaseHolder, LeaseState, OrderAnswer, QueueEntry, QueueState, Reply, Request, Upload,
    WaitingResults,
};

const EVERY_RUN: u64 = 100_000;

struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: usize) -> usize {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 20) as usize % sides
    }

    /// Flips, cuts, doubles, and puts in what makes lengths large.
    fn spoil(&mut self, bytes: &mut Vec<u8>) {
        for _ in 0..=self.roll(4) {
            let at = self.roll(bytes.len().max(1));
            match self.roll(6) {
                _ if bytes.is_empty() => bytes.push(self.roll(256) as u8),
                0 => bytes[at] ^= 1 << self.roll(8),
                1 => bytes[at] = self.roll(256) as u8,
                2 => bytes.truncate(at),
                3 => bytes.extend_from_within(at..),
                4 => drop(bytes.splice(at..at, [0xff; 9])),
                _ => bytes.insert(at, self.roll(256) as u8),
            }
            bytes.truncate(1 << 14);
        }
    }
}

fn key() -> OrderKey {
    OrderKey {
        run: RunId("run".into()),
        case: Sha256([1; 32]),
        repeat: 2,
        attempt: 3,
        pass: Pass::Honest,
    }
}

/// An order with everything in it that an order can have.
fn order() -> RepeatOrder {
    let second = Nanos::from_secs(1);
    let runtime = RuntimeRef {
        version: "1.32.0".into(),
        sha256: Sha256([4; 32]),
    };
    let file = |byte| InputFile {
        input: "input".into(),
        sha256: Sha256([byte; 32]),
    };
    let tenant = Tenant {
        model: model(),
        backend: "rten".into(),
        runtime: None,
        options: vec![("a".into(), "b".into())],
        threads: 2,
        cpus: vec![3],
        millihertz: Some(10_000),
    };
    let stressor = StressOrder {
        name: "mem_copy_nt".into(),
        method: Some("x".into()),
        cpus: vec![1, 2],
        effort: Effort::Rate {
            per_second: 1 << 30,
        },
        throttle: Throttle::Spin,
        working_set: Some(Bytes(1 << 24)),
    };
    RepeatOrder {
        key: key(),
        case: Case {
            board: "x5".into(),
            model: model(),
            backend: "onnxruntime".into(),
            runtime: Some(runtime),
            options: vec![("graph".into(), "all".into())],
            parameters: vec![("p".into(), "1".into())],
            shapes: Vec::new(),
            batch: Some(4),
            threads: Threads { intra: 4, inter: 1 },
            cpus: Some(vec![0, 1]),
            precision: Some("int8".into()),
            scenario: Scenario::Rate { millihertz: 5000 },
            io: Io::Transfer,
            condition: Condition("mem_copy_nt:cpu1@50%".into()),
            tenants: vec![tenant],
            inputs: InputSpec {
                source: InputSource::Files {
                    sets: vec![vec![file(1)], vec![file(2)]],
                },
                policy: InputPolicy::Cycle,
            },
        },
        rules: Rules {
            warmup: WarmupRule {
                min_trials: 5,
                min_time: second,
                max_time: second,
                until_steady: true,
            },
            measure: StopRule {
                duration: second,
                min_trials: 11,
                max_trials: 1000,
            },
        },
        limits: Limits {
            load: second,
            compile: second,
            trial: second,
            trial_factor: 50,
            memory: Some(Bytes(1 << 30)),
        },
        cold: ColdStart::PageCache,
        outputs: OutputWish {
            save: true,
            reference: vec![file(3)],
        },
        load: Load {
            stressors: vec![stressor],
            settle: second,
        },
        telemetry: TelemetryMode::Fast,
        preparation: Preparation {
            cool_down: Some(CoolDown {
                below_millicelsius: 50_000,
                sensor: Some("thermal.cpu".into()),
                at_most: second,
            }),
            fix_clocks: true,
            watch_before: second,
            watch_after: second,
        },
    }
}

fn model() -> ModelRef {
    ModelRef {
        name: "m.onnx".into(),
        sha256: Sha256([9; 32]),
    }
}

fn channel() -> Channel {
    Channel {
        id: 7,
        name: "mem.available".into(),
        unit: "bytes".into(),
        kind: ChannelKind::Gauge,
        source: "/proc/meminfo".into(),
        native_period: Some(Nanos(1)),
        fidelity: Fidelity::Measured,
        period: Some(Nanos(2)),
        probe: Reading::Ok("1".into()),
    }
}

fn device() -> DeviceInfo {
    let verdict = RuntimeVerdict::Usable(RuntimeFacts {
        version: "1".into(),
        sha256: Some(Sha256([5; 32])),
        build: Some("b".into()),
        build_id: None,
        providers: vec!["CPU".into()],
    });
    DeviceInfo {
        agent_version: "0.1.0".into(),
        build: BuildId("b".into()),
        boot: BootId(1),
        os: "linux".into(),
        arch: "aarch64".into(),
        cpus: vec![Cpu {
            id: 0,
            online: Some(true),
            max_khz: Some(1_800_000),
        }],
        allowed_cpus: vec![0],
        memory_total: Some(Bytes(1 << 32)),
        facts: vec![Fact {
            name: "soc".into(),
            value: Reading::Denied("why".into()),
        }],
        backends: vec![BackendInfo {
            name: "rten".into(),
            summary: "s".into(),
            simulated: false,
            built_in: true,
            formats: vec!["onnx".into()],
            version: Some("1".into()),
            runtimes: vec![RuntimeFound {
                path: "/lib/x.so".into(),
                origin: "o".into(),
                verdict,
            }],
        }],
        readiness: Readiness {
            state_free: Some(Bytes(1 << 30)),
            unix_seconds: Some(1),
            device_files: vec![DeviceFile {
                path: "/dev/x".into(),
                usable: false,
            }],
        },
    }
}

/// What an agent answers, of each kind that has more than a number in it.
fn replies() -> Vec<Reply> {
    let refused = Failure::new(FailureCode::Backpressured, "full").hint("wait");
    vec![
        Reply::Submitted(vec![
            OrderAnswer::Known,
            OrderAnswer::Accepted,
            OrderAnswer::Refused(refused),
        ]),
        Reply::Info(Box::new(device())),
        Reply::Queue(vec![
            QueueEntry {
                key: key(),
                state: QueueState::Running(Stage::Warmup),
            },
            QueueEntry {
                key: key(),
                state: QueueState::Spooled,
            },
        ]),
        Reply::Lease(LeaseState {
            epoch: 3,
            is_own: false,
            holder: Some(LeaseHolder {
                name: "ann".into(),
                since_unix_ns: 4,
            }),
        }),
        Reply::Watched(Watched {
            running: Some(key()),
            channels: vec![ChannelNow {
                channel: channel(),
                at: Some(Nanos(1)),
                value: None,
                fault: Some(Reading::Denied("why".into())),
            }],
        }),
        Reply::Waiting(vec![WaitingResults {
            store: StoreId([2; 16]),
            repeats: 3,
            bytes: 4,
            oldest_unix_ns: Some(5),
        }]),
        Reply::Offered(vec![1, u64::MAX]),
    ]
}

/// What daemon and worker, and daemon and helper, say to each other. A vendor's library can write where the
/// worker does.
fn own_messages() -> Vec<Vec<u8>> {
    let job = Job {
        order: order(),
        model: Some("/m".into()),
        model_files: vec!["/m".into()],
        library: Some("/l".into()),
        files: vec![(Sha256([1; 32]), "/f".into())],
        cpus: vec![0],
    };
    let record = Record::Channel(channel());
    let messages = [
        Message::Build("b".into()),
        Message::StageBegins {
            stage: Stage::Measure,
        },
        Message::Record(Box::new(record)),
        Message::Failed {
            stage: Stage::Load,
            failure: Failure::new(FailureCode::Crash, "why"),
        },
    ];
    let counted = Counted {
        source: 8,
        config: [1, 2, 3],
        exclude_kernel: true,
        inherit: false,
        process: Some(1),
        cpu: None,
    };
    let opened = privileged::Request::Open {
        row: 3,
        name: "fde00000.npu".into(),
    };
    let refused = privileged::Answer::Refused {
        errno: 13,
        why: "no".into(),
    };
    let mut all: Vec<Vec<u8>> = messages
        .iter()
        .map(|message| Frame::encode(MESSAGE, message).unwrap().payload)
        .collect();
    let task = Task::Measure(Box::new(job));
    all.push(Frame::encode(TASK, &task).unwrap().payload);
    all.push(privileged::encode(&opened).unwrap());
    all.push(privileged::encode(&privileged::Request::Count(counted)).unwrap());
    all.push(privileged::encode(&refused).unwrap());
    all
}

/// A file of the spool with a repeat in it.
fn spooled(frames: &[Frame]) -> Vec<u8> {
    let mut bytes = spool_file::MAGIC.to_vec();
    for frame in frames {
        spool_file::write(&mut bytes, frame).unwrap();
    }
    bytes
}

/// One true message of each kind, as payloads.
fn true_payloads() -> Vec<Vec<u8>> {
    let files = vec![OfferedFile {
        name: "m.onnx".into(),
        sha256: Sha256([1; 32]),
        bytes: 7,
    }];
    let offer = ContentOffer {
        sha256: content_hash(&files),
        files,
    };
    let upload = Upload {
        sha256: Sha256([1; 32]),
        offset: 3,
        bytes: vec![5; 40],
    };
    let end = RepeatEnd {
        outcome: Outcome::Failed {
            stage: Stage::Load,
            failure: Failure::new(FailureCode::Crash, "why").hint("what"),
        },
        wall_unix_ns: 1,
        mono: Nanos(2),
        environment: vec![],
        trials: 3,
        chunks: 4,
    };
    let progress = Progress {
        stage: Stage::Measure,
        in_stage: Nanos(1),
        trials: 2,
        recent_p50: Some(Nanos(3)),
    };
    let header = SegmentHeader {
        schema: [1; 32],
        store: StoreId([2; 16]),
        boot: BootId(3),
        segment: 4,
        key: key(),
    };
    let answer = ClockAnswer {
        number: 1,
        received: Nanos(2),
        answered: Nanos(3),
        unix_ns: 4,
        clock: 5,
    };
    let exchange = ClockExchange {
        moment: ClockMoment::After,
        result: ExchangeResult::Answered {
            best: FourStamps {
                asked: Nanos(1),
                received: Nanos(2),
                answered: Nanos(3),
                heard: Nanos(4),
            },
            rounds: 5,
            host_clock: 6,
            host_unix_ns: 7,
        },
    };
    let schema = TrialSchema::with(vec![ColumnSpec::new("forward_ns", "ns")]);
    let slots: Vec<i64> = (0..40).map(|cell| cell * 1_000_003).collect();
    let hello = Hello::new(BuildId("b".into()), StoreId([2; 16]));
    let samples = Samples {
        channel: 7,
        at_ns: vec![1, 2],
        value: vec![3, NOT_READ],
        quality: vec![Quality::Ok.code(), Quality::Absent.code()],
    };
    let waiting = Event::Waiting(Failure::new(FailureCode::StorageFull, "full").hint("free it"));
    let replies = replies().into_iter().map(|reply| {
        let reply: (u64, Result<Reply, Failure>) = (1, Ok(reply));
        Frame::encode(kind::REPLY, &reply)
    });
    let refused: (u64, Result<Reply, Failure>) = (1, Err(Failure::new(FailureCode::Busy, "x")));
    let chunk = Record::Chunk(Chunk::from_slots(0, 0, 5, &slots)).to_frame(3);
    let spooled = spooled(&[header.to_frame(), chunk.unwrap()]);
    let proof = [&[7; 32][..], b"a host"].concat();
    let frames = [
        Frame::encode(kind::REQUEST, &(1_u64, Request::Submit(vec![order()]))),
        Frame::encode(kind::REPLY, &refused),
        Frame::encode(kind::EVENT, &waiting),
        Frame::encode(kind::EVENT, &Event::Started(key())),
        Record::Channel(channel()).to_frame(7),
        Record::Samples(samples).to_frame(8),
        Frame::encode(kind::REQUEST, &(1_u64, Request::Offer(offer))),
        Frame::encode(kind::REQUEST, &(1_u64, Request::Upload(upload))),
        Frame::encode(kind::EVENT, &Event::Progress(progress)),
        Record::End(end).to_frame(5),
        Record::Chunk(Chunk::from_slots(0, 0, 5, &slots)).to_frame(3),
        Record::Schema { lane: 0, schema }.to_frame(2),
        Record::ClockExchange(exchange).to_frame(6),
        Frame::encode(kind::CLOCK_ANSWER, &answer),
        Ok(header.to_frame()),
        Ok(hello.to_frame()),
        Ok(hello.answer(&hello).to_frame()),
    ];
    let framed = frames.into_iter().chain(replies);
    framed
        .map(|frame| frame.unwrap().payload)
        .chain(own_messages())
        .chain([spooled, proof])
        .collect()
}

fn decode_all(bytes: &[u8]) {
    let _ = frame::decode::<(u64, Request)>(kind::REQUEST, bytes);
    let _ = frame::decode::<(u64, Result<Reply, Failure>)>(kind::REPLY, bytes);
    let _ = frame::decode::<Event>(kind::EVENT, bytes);
    let _ = frame::decode::<ClockQuestion>(kind::CLOCK, bytes);
    let _ = frame::decode::<ClockAnswer>(kind::CLOCK_ANSWER, bytes);
    if let Ok((_, Record::ClockExchange(exchange))) = Record::parse(bytes)
        && let ExchangeResult::Answered { best: stamps, .. } = exchange.result
        && let Some(stamps) = best(&[stamps])
    {
        let _ = (stamps.offset(), stamps.bound(), drift(stamps, stamps));
    }
    match Record::parse(bytes) {
        Ok((_, Record::Chunk(chunk))) => drop(chunk.columns()),
        Ok((_, Record::Schema { schema, .. })) => drop(schema.check()),
        _ => {}
    }
    let _ = RecordHeader::parse(bytes);
    if let Ok(chunk) = read_chunk(bytes) {
        let _ = chunk.columns();
    }
    let _ = SegmentHeader::parse(bytes);
    let _ = Hello::parse(bytes);
    let _ = HelloReply::parse(bytes);
    let _ = DaemonStatus::parse(bytes);
    let _ = frame::read_blocking(&mut &bytes[..], LIMIT);
    let _ = frame::decode::<Message>(MESSAGE, bytes);
    let _ = frame::decode::<Task>(TASK, bytes);
    let _ = privileged::decode::<privileged::Request>(bytes);
    let _ = privileged::decode::<privileged::Answer>(bytes);
    let _ = pairing::proof_and_name(bytes);
    if let Ok(frames) = spool_file::frames(bytes) {
        let _ = frames.count();
    }
    if let Ok((_, Request::Offer(offer))) = frame::decode::<(u64, Request)>(kind::REQUEST, bytes) {
        let _ = offer.check();
    }
}

fn resident_kib() -> u64 {
    let text = std::fs::read_to_string("/proc/self/statm").unwrap();
    text.split_whitespace()
        .nth(1)
        .unwrap()
        .parse::<u64>()
        .unwrap()
        * 4
}

fn variable(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

/// A message that none of them reads would be spoilt in vain.
#[test]
fn every_true_message_is_read_by_a_decoder() {
    for payload in true_payloads() {
        let is_read = frame::decode::<(u64, Request)>(kind::REQUEST, &payload).is_ok()
            || frame::decode::<(u64, Result<Reply, Failure>)>(kind::REPLY, &payload).is_ok()
            || frame::decode::<Event>(kind::EVENT, &payload).is_ok()
            || frame::decode::<ClockAnswer>(kind::CLOCK_ANSWER, &payload).is_ok()
            || Record::parse(&payload).is_ok()
            || SegmentHeader::parse(&payload).is_ok()
            || Hello::parse(&payload).is_ok()
            || HelloReply::parse(&payload).is_ok()
            || frame::decode::<Message>(MESSAGE, &payload).is_ok()
            || frame::decode::<Task>(TASK, &payload).is_ok()
            || privileged::decode::<privileged::Request>(&payload).is_ok()
            || privileged::decode::<privileged::Answer>(&payload).is_ok()
            || spool_file::frames(&payload[..])
                .is_ok_and(|mut frames| frames.all(|frame| frame.is_ok()))
            || pairing::proof_and_name(&payload).is_some_and(|(_, name)| name == "a host");
        assert!(is_read, "{payload:?}");
    }
}

#[test]
fn no_decoder_panics_or_takes_memory_without_end() {
    let payloads = true_payloads();
    let mut dice = Dice(variable("EDGEDYNO_MALFORMED_SEED").unwrap_or(20_261_129) | 1);
    payloads.iter().for_each(|payload| decode_all(payload));
    let before = resident_kib();
    for _ in 0..variable("EDGEDYNO_MALFORMED").unwrap_or(EVERY_RUN) {
        let mut bytes = payloads[dice.roll(payloads.len())].clone();
        dice.spoil(&mut bytes);
        decode_all(&bytes);
    }
    let grown = resident_kib().saturating_sub(before);
    assert!(grown < 16 * 1024, "{grown} KiB more than before");
}

#[test]
fn no_text_makes_the_ticket_reader_panic() {
    let ticket = Ticket {
        addresses: vec!["10.0.0.1:7447".parse().unwrap()],
        agent: Fingerprint([1; 16]),
        secret: Secret([2; 10]),
    };
    let mut dice = Dice(7);
    for _ in 0..variable("EDGEDYNO_MALFORMED").unwrap_or(EVERY_RUN) {
        let mut bytes = ticket.to_string().into_bytes();
        dice.spoil(&mut bytes);
        let text = String::from_utf8_lossy(&bytes);
        let _ = text.parse::<Ticket>();
        let _ = text.parse::<Role>();
    }
}
