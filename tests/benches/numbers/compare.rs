//! `compare`: two runs of a thousand cases, each with ten repeats of a thousand trials.

use anyhow::{Context as _, Result};
use edgedyno::store::Store;
use edgedyno_shared::columns::{Chunk, Role, TrialSchema};
use edgedyno_shared::device::{Fact, Reading, RuntimeFacts};
use edgedyno_shared::ids::{BuildId, Sha256};
use edgedyno_shared::repeat::{
    AgentCost, Effective, InputsUsed, Memory, ModelInfo, Moment, Outcome, Placement, RepeatEnd,
    RepeatStart, RuntimeUsed, Stage, StageSpan, ThreadPlace, WindowCalls,
};
use edgedyno_shared::units::{Bytes, Nanos};
use edgedyno_shared::wire::record::Record;
use edgedyno_tests::Sandbox;
use edgedyno_tests::bench::{Figure, Goal, neighbours};

use crate::Effort;
use crate::ingest::{begin, header};

const REPEATS: u32 = 10;
const TRIALS: i64 = 1_000;

pub(crate) fn measure(effort: Effort) -> Result<Vec<Figure>> {
    let sandbox = Sandbox::new();
    let count: u16 = effort.choose(50, 1_000);
    let cases: Vec<Sha256> = (0..count).map(key).collect();
    let mut store = Store::open_writing(&sandbox.store())?;
    for (run, shift) in [("aaa", 0), ("bbb", 20_000)] {
        begin(&store, run, &cases)?;
        let frames = (0..REPEATS).map(|repeat| repeat_of(i64::from(repeat) * 1_000 + shift));
        let frames: Vec<Vec<Vec<u8>>> = frames.collect::<Result<_>>()?;
        for (repeat, payloads) in (0..).zip(&frames) {
            for case in &cases {
                let header = header(&store, run, *case, repeat)?;
                let mut segment = store.segment(&header)?;
                payloads
                    .iter()
                    .try_for_each(|payload| segment.record(payload).map(drop))?;
                segment.commit()?;
            }
        }
    }
    drop(store);
    let mut seconds = Vec::new();
    for _ in 0..effort.choose(2, 10) {
        let line = ["compare", "aaa", "bbb", "--json", "--force"];
        seconds.push(sandbox.edgedyno(line).ok().elapsed.as_secs_f64());
    }
    Ok(vec![Figure {
        name: "compare",
        what: format!(
            "`edgedyno compare` of two runs of {count} cases, {REPEATS} repeats, {TRIALS} trials, start to end"
        ),
        unit: "s",
        control: neighbours(&seconds),
        samples: seconds,
        goal: Goal::AtMost(3.0),
        beside: Vec::new(),
    }])
}

fn key(n: u16) -> Sha256 {
    let mut bytes = [7; 32];
    bytes[..2].copy_from_slice(&n.to_be_bytes());
    Sha256(bytes)
}

/// What a worker tells of one repeat, with twenty facts of its board at both ends.
fn repeat_of(offset: i64) -> Result<Vec<Vec<u8>>> {
    let facts: Vec<Fact> = (0..20)
        .map(|i| Fact {
            name: format!("governor.policy{i}"),
            value: Reading::Ok("performance".into()),
        })
        .collect();
    let mut records = vec![Record::Start(RepeatStart {
        build: BuildId("b1".into()),
        wall_unix_ns: offset,
        mono: Nanos(0),
        environment: facts.clone(),
    })];
    let stages = [
        Stage::Spawn,
        Stage::Read,
        Stage::Dlopen,
        Stage::Load,
        Stage::Bind,
    ];
    records.extend(stages.map(|stage| {
        Record::Stage(StageSpan {
            stage,
            start: Nanos(0),
            end: Nanos(1_000),
        })
    }));
    records.push(Record::Runtime(RuntimeUsed {
        path: Some("/opt/lib.so".into()),
        facts: RuntimeFacts {
            version: "1.0".into(),
            sha256: Some(Sha256([3; 32])),
            build: None,
            build_id: None,
            providers: vec!["CPU".into()],
        },
    }));
    records.push(Record::Model(ModelInfo {
        inputs: Vec::new(),
        outputs: Vec::new(),
        facts: Vec::new(),
    }));
    records.push(Record::Inputs(InputsUsed {
        sha256: Sha256([4; 32]),
        sets: 1,
    }));
    let schema = TrialSchema::with(Vec::new());
    records.push(Record::Schema { lane: 0, schema });
    records.extend((0..8).map(|i| {
        Record::Effective(Effective {
            name: format!("setting{i}"),
            requested: Some("1".into()),
            observed: Some("1".into()),
        })
    }));
    for moment in [Moment::BeforeWindow, Moment::AfterWindow] {
        records.push(Record::Placement(Placement {
            moment,
            wanted: vec![0, 1],
            threads: (0..2)
                .map(|tid| ThreadPlace {
                    tid,
                    cpus: vec![0, 1],
                    cpu_time: Some(Nanos(5)),
                })
                .collect(),
        }));
        records.push(Record::Memory(Memory {
            moment,
            rss: Some(Bytes(1 << 20)),
            rss_peak: Some(Bytes(1 << 20)),
            arena: Bytes(1 << 20),
        }));
    }
    let (mut at, mut random) = (0, 1_u64);
    let slots: Vec<i64> = (0..TRIALS)
        .flat_map(|_| {
            random = random
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            let took = 1_000_000 + offset + (random >> 48) as i64;
            let start = at;
            at += took + 60;
            [Role::Measure.code(), start, start + took, 0]
        })
        .collect();
    records.push(Record::Chunk(Chunk::from_slots(0, 0, 4, &slots)));
    records.push(Record::AgentCost(AgentCost {
        cpu_time: Nanos(1),
        wall: Nanos(1),
        arena_reads: 1,
        calls: WindowCalls::default(),
        progress_bytes: 1,
        cpus: vec![0],
        arena_stalls: 0,
        spilled: Bytes(0),
    }));
    records.push(Record::End(RepeatEnd {
        outcome: Outcome::Complete,
        wall_unix_ns: offset,
        mono: Nanos(at),
        environment: facts,
        trials: TRIALS as u64,
        chunks: 1,
    }));
    let frames = records.iter().enumerate();
    let frames = frames.map(|(n, record)| record.to_frame(n as u64));
    frames
        .map(|frame| Ok(frame.context("a record has a frame")?.payload))
        .collect()
}
