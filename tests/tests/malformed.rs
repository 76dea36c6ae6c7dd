//! Bytes that no agent or host ever wrote, by the hundred thousand: every decoder refuses them or reads
//! something, and none panics, hangs or fills the memory.
//!
//! `EDGEDYNO_MALFORMED=1000000` makes a campaign of it, `EDGEDYNO_MALFORMED_SEED` another one.

use edgedyno_shared::clocks::{
    ClockAnswer, ClockExchange, ClockMoment, ClockQuestion, ExchangeResult, FourStamps, best, drift,
};
use edgedyno_shared::columns::{Chunk, ColumnSpec, TrialSchema};
use edgedyno_shared::content::{ContentOffer, OfferedFile, content_hash};
use edgedyno_shared::ids::{BootId, BuildId, RunId, Sha256, StoreId};
use edgedyno_shared::link::key::Fingerprint;
use edgedyno_shared::link::role::Role;
use edgedyno_shared::link::ticket::{Secret, Ticket};
use edgedyno_shared::order::{OrderKey, Pass};
use edgedyno_shared::repeat::{Outcome, RepeatEnd, Stage};
use edgedyno_shared::units::Nanos;
use edgedyno_shared::wire::event::{Event, Progress};
use edgedyno_shared::wire::failure::{Failure, FailureCode};
use edgedyno_shared::wire::frame::{self, Frame, LIMIT, kind};
use edgedyno_shared::wire::hello::{DaemonStatus, Hello, HelloReply};
use edgedyno_shared::wire::record::{Record, RecordHeader, SegmentHeader, read_chunk};
use edgedyno_shared::wire::request::{OrderAnswer, Reply, Request, Upload};

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
    let reply: (u64, Result<Reply, Failure>) = (1, Ok(Reply::Submitted(vec![OrderAnswer::Known])));
    let frames = [
        Frame::encode(kind::REQUEST, &(1_u64, Request::Offer(offer))),
        Frame::encode(kind::REQUEST, &(1_u64, Request::Upload(upload))),
        Frame::encode(kind::REPLY, &reply),
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
    frames
        .into_iter()
        .map(|frame| frame.unwrap().payload)
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
