//! `ingest`: how fast the store takes in what an agent delivers.

use anyhow::{Context as _, Result};
use edgedyno::store::rows::RulesRow;
use edgedyno::store::{NewCase, NewRun, Store};
use edgedyno_agent::clock::{Clock as _, Monotonic};
use edgedyno_shared::case::{
    Case, Condition, Generator, InputPolicy, InputSource, InputSpec, Io, ModelRef, Scenario,
    Threads,
};
use edgedyno_shared::columns::{Chunk, ColumnSpec, MAX_ROWS, Role, TrialSchema};
use edgedyno_shared::ids::{BootId, RunId, Sha256};
use edgedyno_shared::order::{
    ColdStart, Limits, OrderKey, OutputWish, Pass, Rules, StopRule, WarmupRule,
};
use edgedyno_shared::repeat::{Outcome, RepeatEnd};
use edgedyno_shared::units::Nanos;
use edgedyno_shared::wire::record::{Record, SegmentHeader};
use edgedyno_tests::bench::{Figure, Goal, neighbours};

use crate::Effort;

pub(crate) const RUN: &str = "bench";
pub(crate) const CASE: Sha256 = Sha256([1; 32]);
const COLUMNS: usize = 8;

pub(crate) fn measure(effort: Effort) -> Result<Vec<Figure>> {
    let trials = effort.choose(100_000, 1_000_000);
    let payloads = payloads(trials)?;
    let folder = tempfile::tempdir()?;
    let mut store = Store::open_writing(&folder.path().join("store"))?;
    begin(&store, RUN, &[CASE])?;
    let mut rates = Vec::new();
    for repeat in 0..effort.choose(4, 20) {
        let header = header(&store, RUN, CASE, repeat)?;
        let begin = Monotonic.now();
        let mut segment = store.segment(&header)?;
        for payload in &payloads {
            segment.record(payload)?;
        }
        segment.commit()?;
        rates.push(f64::from(trials) / (Monotonic.now() - begin).as_secs_f64());
    }
    Ok(vec![Figure {
        name: "ingest",
        what: format!(
            "trials of {COLUMNS} columns stored a second, {trials} in one repeat, to the disk"
        ),
        unit: "trials/s",
        control: neighbours(&rates),
        samples: rates,
        goal: Goal::AtLeast(500_000.0),
        beside: Vec::new(),
    }])
}

/// A repeat as a link delivers it: latencies near 100 µs with four phases.
pub(crate) fn payloads(trials: u32) -> Result<Vec<Vec<u8>>> {
    let phases = ["device_ns", "preprocess_ns", "forward_ns", "postprocess_ns"];
    let schema = TrialSchema::with(phases.map(|name| ColumnSpec::new(name, "ns")).into());
    let mut records = vec![Record::Schema { lane: 0, schema }];
    let (mut at, mut random) = (0, 1_u64);
    let slots: Vec<i64> = (0..trials)
        .flat_map(|_| {
            random = random
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            let took = 100_000 + (random >> 52) as i64;
            let start = at;
            at += took + 60;
            let role = Role::Measure.code();
            [
                role,
                start,
                start + took,
                0,
                took - 40,
                took / 8,
                took / 2,
                took / 4,
            ]
        })
        .collect();
    let chunks = slots.chunks((512 * 1024 / 8 / COLUMNS).min(MAX_ROWS) * COLUMNS);
    let chunks = chunks.enumerate();
    records.extend(
        chunks.map(|(n, slots)| Record::Chunk(Chunk::from_slots(0, n as u32, COLUMNS, slots))),
    );
    let count = records.len() as u32 - 1;
    records.push(Record::End(RepeatEnd {
        outcome: Outcome::Complete,
        wall_unix_ns: 0,
        mono: Nanos(at),
        environment: Vec::new(),
        trials: u64::from(trials),
        chunks: count,
    }));
    let frames = records
        .iter()
        .enumerate()
        .map(|(n, record)| record.to_frame(n as u64));
    frames
        .map(|frame| Ok(frame.context("a record has a frame")?.payload))
        .collect()
}

/// The header of one repeat, as an agent sends it.
pub(crate) fn header(store: &Store, run: &str, case: Sha256, repeat: u32) -> Result<SegmentHeader> {
    let schema: Sha256 = edgedyno_shared::SCHEMA_HASH_HEX.parse()?;
    Ok(SegmentHeader {
        schema: schema.0,
        store: store.id(),
        boot: BootId(1),
        segment: u64::from(repeat) + 1,
        key: OrderKey {
            run: RunId(run.into()),
            case,
            repeat,
            attempt: 0,
            pass: Pass::Honest,
        },
    })
}

/// Begins a run with these cases, which differ in nothing but a parameter.
pub(crate) fn begin(store: &Store, run: &str, cases: &[Sha256]) -> Result<()> {
    let run = RunId(run.into());
    store.begin_run(&NewRun {
        id: run.clone(),
        command: "bench".into(),
        argv: Vec::new(),
        plan_json: serde_json::json!({}),
        tags: Vec::new(),
        tool_version: edgedyno_shared::VERSION.into(),
        created_unix_ns: 0,
    })?;
    let rules = Rules {
        warmup: WarmupRule {
            min_trials: 0,
            min_time: Nanos::ZERO,
            max_time: Nanos::ZERO,
            until_steady: false,
        },
        measure: StopRule {
            duration: Nanos::ZERO,
            min_trials: 1,
            max_trials: u64::from(u32::MAX),
        },
    };
    let limits = Limits {
        load: Nanos::from_secs(1),
        compile: Nanos::from_secs(1),
        trial: Nanos::from_secs(1),
        trial_factor: 50,
        memory: None,
    };
    let outputs = OutputWish {
        save: false,
        reference: Vec::new(),
    };
    for key in cases {
        let mut case = case();
        case.parameters.push(("n".into(), key.to_string()));
        store.add_case(
            &run,
            &NewCase {
                key: *key,
                match_key: *key,
                case: &case,
                rules: RulesRow::new(None, &rules, &limits, ColdStart::FreshProcess, &outputs),
            },
        )?;
    }
    Ok(())
}

fn case() -> Case {
    Case {
        board: "local".into(),
        model: ModelRef {
            name: "none".into(),
            sha256: CASE,
        },
        backend: "fake".into(),
        runtime: None,
        options: Vec::new(),
        parameters: Vec::new(),
        shapes: Vec::new(),
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
                generator: Generator::Zeros,
                seed: 1,
            },
            policy: InputPolicy::Fixed,
        },
    }
}
