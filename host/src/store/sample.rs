//! A small run for tests: what a board might deliver, with figures chosen to be worked out by hand.

use edgedyno_shared::case::{
    Case, Condition, Generator, InputPolicy, InputSource, InputSpec, Io, ModelRef, NamedShape,
    Scenario, Threads,
};
use edgedyno_shared::columns::{Chunk, ColumnSpec, Role, TrialSchema};
use edgedyno_shared::device::{BackendInfo, Cpu, DeviceInfo, Fact, Reading, RuntimeFacts};
use edgedyno_shared::ids::{BootId, BuildId, RunId, Sha256};
use edgedyno_shared::order::{
    ColdStart, Limits, OrderKey, OutputWish, Pass, Rules, StopRule, WarmupRule,
};
use edgedyno_shared::repeat::{
    AgentCost, Dim, Effective, InputsUsed, Memory, ModelInfo, Moment, Outcome, OutputCheck,
    Placement, RepeatEnd, RepeatStart, RuntimeUsed, Stage, StageSpan, TensorInfo, TextEvent,
    ThreadPlace, WindowCalls,
};
use edgedyno_shared::telemetry::{
    Channel, ChannelKind, Fidelity, NOT_READ, Quality, Samples, TelemetryMode,
};
use edgedyno_shared::units::{Bytes, Nanos};
use edgedyno_shared::wire::record::{Record, SegmentHeader};

use super::rows::RulesRow;
use super::{Committed, NewCase, NewRun, Result, Store};

pub(crate) const MS: i64 = 1_000_000;

pub(crate) fn new_store() -> (tempfile::TempDir, Store) {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open_writing(&dir.path().join(super::FOLDER)).unwrap();
    (dir, store)
}

pub(crate) fn run_id(name: &str) -> RunId {
    RunId(name.into())
}

pub(crate) fn new_run(id: &str, created_unix_ns: i64) -> NewRun {
    NewRun {
        id: run_id(id),
        command: "run".into(),
        argv: vec!["edgedyno".into(), "run".into(), "net.onnx".into()],
        plan_json: serde_json::json!({"repeats": 3}),
        tags: Vec::new(),
        tool_version: "0.1.0".into(),
        created_unix_ns,
    }
}

pub(crate) fn case() -> Case {
    Case {
        board: "local".into(),
        model: ModelRef {
            name: "net.onnx".into(),
            sha256: Sha256([0x11; 32]),
        },
        backend: "onnxruntime".into(),
        runtime: None,
        options: vec![("graph_optimization".into(), "all".into())],
        parameters: Vec::new(),
        shapes: vec![NamedShape {
            input: "x".into(),
            dims: vec![1, 3, 224, 224],
        }],
        batch: Some(1),
        threads: Threads { intra: 2, inter: 1 },
        cpus: Some(vec![2, 3]),
        precision: None,
        scenario: Scenario::Single,
        io: Io::Resident,
        condition: Condition::idle(),
        tenants: Vec::new(),
        inputs: InputSpec {
            source: InputSource::Generated {
                generator: Generator::Normal,
                seed: 7,
            },
            policy: InputPolicy::Fixed,
        },
    }
}

pub(crate) fn rules() -> RulesRow {
    let rules = Rules {
        warmup: WarmupRule {
            min_trials: 2,
            min_time: Nanos::from_millis(10),
            max_time: Nanos::from_secs(10),
            until_steady: true,
        },
        measure: StopRule {
            duration: Nanos::from_secs(5),
            min_trials: 11,
            max_trials: 200_000,
        },
    };
    let limits = Limits {
        load: Nanos::from_secs(120),
        compile: Nanos::from_secs(600),
        trial: Nanos::from_secs(10),
        trial_factor: 50,
        memory: None,
    };
    let outputs = OutputWish {
        save: false,
        reference: Vec::new(),
    };
    RulesRow::new(Some(3), &rules, &limits, ColdStart::FreshProcess, &outputs)
        .watched(TelemetryMode::Off)
}

pub(crate) const CASE: Sha256 = Sha256([0xca; 32]);

/// A store with a run `id` of one case.
pub(crate) fn add_run(store: &Store, id: &str) {
    store
        .begin_run(&new_run(id, 1_790_000_000_000_000_000))
        .unwrap();
    store.add_case(&run_id(id), &new_case(&case())).unwrap();
    store.put_device(&run_id(id), "local", &device()).unwrap();
}

pub(crate) fn new_case(case: &Case) -> NewCase<'_> {
    NewCase {
        key: CASE,
        match_key: Sha256([0x0a; 32]),
        case,
        rules: rules(),
    }
}

pub(crate) fn key(run: &str, repeat: u32, attempt: u32) -> OrderKey {
    OrderKey {
        run: run_id(run),
        case: CASE,
        repeat,
        attempt,
        pass: Pass::Honest,
    }
}

pub(crate) fn header(store: &Store, key: OrderKey) -> SegmentHeader {
    let mut schema = [0; 32];
    let hash: Sha256 = edgedyno_shared::SCHEMA_HASH_HEX.parse().unwrap();
    schema.copy_from_slice(&hash.0);
    SegmentHeader {
        schema,
        store: store.id(),
        boot: BootId(0xb007),
        segment: 1,
        key,
    }
}

/// Delivers records as a link would: frame payloads, one after the other, then a commit.
pub(crate) fn deliver(store: &mut Store, key: OrderKey, records: &[Record]) -> Result<Committed> {
    let header = header(store, key);
    let mut segment = store.segment(&header)?;
    for (sequence, record) in records.iter().enumerate() {
        let frame = record.to_frame(sequence as u64).unwrap();
        segment.record(&frame.payload)?;
    }
    segment.commit()
}

pub(crate) fn fact(name: &str, value: &str) -> Fact {
    Fact {
        name: name.into(),
        value: Reading::Ok(value.into()),
    }
}

pub(crate) fn device() -> DeviceInfo {
    DeviceInfo {
        agent_version: "0.1.0".into(),
        build: BuildId("b1".into()),
        boot: BootId(0xb007),
        os: "linux".into(),
        arch: "x86_64".into(),
        cpus: (0..4)
            .map(|id| Cpu {
                id,
                online: Some(true),
                max_khz: Some(3_000_000),
            })
            .collect(),
        allowed_cpus: vec![0, 1, 2, 3],
        memory_total: Some(Bytes(8 << 30)),
        readiness: edgedyno_shared::device::Readiness::default(),
        facts: environment(),
        backends: vec![
            backend("onnxruntime", false, false),
            backend("rten", false, true),
            backend("fake", true, true),
        ],
    }
}

fn backend(name: &str, simulated: bool, built_in: bool) -> BackendInfo {
    BackendInfo {
        name: name.into(),
        summary: String::new(),
        simulated,
        built_in,
        formats: vec!["onnx".into()],
        version: None,
        runtimes: Vec::new(),
    }
}

pub(crate) fn environment() -> Vec<Fact> {
    vec![
        fact("kernel_release", "6.12.0"),
        fact("cpu_model", "Test CPU @ 3.0GHz"),
        fact("governor.policy0", "performance"),
        fact("clock_khz.policy0", "3000000"),
        fact("clock_max_khz.policy0", "3000000"),
        fact("load_average", "0.10 0.20 0.30 1/300 4242"),
        fact("steal_ticks", "1000"),
        Fact {
            name: "temperature_millicelsius".into(),
            value: Reading::Absent("no thermal zone".into()),
        },
    ]
}

/// One trial of a lane: role, start and duration.
pub(crate) type Timed = (Role, i64, i64);

/// Two cold trials, one of warm-up, then `durations` back to back from 100 ms.
pub(crate) fn trials(durations: &[i64]) -> Vec<Timed> {
    let mut out = vec![
        (Role::Cold, 50 * MS, 20 * MS),
        (Role::Cold, 70 * MS, 5 * MS),
        (Role::Warmup, 75 * MS, 4 * MS),
    ];
    let mut at = 100 * MS;
    for &duration in durations {
        out.push((Role::Measure, at, duration));
        at += duration;
    }
    out
}

pub(crate) fn chunk_of(number: u32, trials: &[Timed]) -> Chunk {
    let slot = |&(role, start, took): &Timed| [role.code(), start, start + took, 0, took / 2];
    let slots: Vec<i64> = trials.iter().flat_map(slot).collect();
    Chunk::from_slots(0, number, 5, &slots)
}

/// A whole repeat that ended well, its measured trials of these durations.
pub(crate) fn repeat(durations: &[i64]) -> Vec<Record> {
    repeat_of(&trials(durations))
}

pub(crate) fn repeat_of(trials: &[Timed]) -> Vec<Record> {
    let mut records = opening();
    let chunks: Vec<Record> = trials
        .chunks(4096)
        .enumerate()
        .map(|(number, rows)| Record::Chunk(chunk_of(number as u32, rows)))
        .collect();
    let count = chunks.len() as u32;
    records.extend(chunks);
    records.extend(closing());
    records.push(end(Outcome::Complete, trials.len() as u64, count));
    records
}

fn opening() -> Vec<Record> {
    let mut records = vec![Record::Start(RepeatStart {
        build: BuildId("b1".into()),
        wall_unix_ns: 1_790_000_001_000_000_000,
        mono: Nanos(0),
        environment: environment(),
    })];
    let stages = [
        (Stage::Spawn, 0, 2),
        (Stage::Dlopen, 2, 12),
        (Stage::Read, 12, 15),
        (Stage::Load, 15, 45),
        (Stage::Compile, 45, 45),
        (Stage::Bind, 45, 50),
    ];
    records.extend(stages.map(|(stage, from, to)| span(stage, from, to)));
    records.extend([
        Record::Runtime(RuntimeUsed {
            path: Some("/opt/libonnxruntime.so".into()),
            facts: RuntimeFacts {
                version: "1.27.1".into(),
                sha256: Some(Sha256([0x22; 32])),
                build: None,
                build_id: None,
                providers: vec!["CPUExecutionProvider".into()],
            },
        }),
        Record::Model(ModelInfo {
            inputs: vec![tensor("x", &[1, 3, 224, 224])],
            outputs: vec![tensor("y", &[1, 10])],
            facts: vec![fact("opset", "17")],
        }),
        Record::Schema {
            lane: 0,
            schema: TrialSchema::with(vec![ColumnSpec::new("device_ns", "ns")]),
        },
        Record::Inputs(InputsUsed {
            sha256: Sha256([0x33; 32]),
            sets: 1,
        }),
        placement(Moment::BeforeWindow, &[0, 0]),
        memory(Moment::Spawned, 10, 10),
        memory(Moment::Dlopened, 20, 20),
        memory(Moment::Loaded, 60, 64),
        memory(Moment::BeforeWindow, 70, 72),
    ]);
    records
}

fn closing() -> Vec<Record> {
    vec![
        placement(Moment::AfterWindow, &[900 * MS, 850 * MS]),
        memory(Moment::AfterWindow, 71, 73),
        Record::Effective(Effective {
            name: "graph_optimization".into(),
            requested: Some("all".into()),
            observed: Some("all".into()),
        }),
        Record::Event(TextEvent {
            lane: 0,
            trial: None,
            code: "stderr_tail".into(),
            text: "hello from the runtime".into(),
        }),
        Record::Output(OutputCheck {
            name: "y".into(),
            dtype: "f32".into(),
            shape: vec![1, 10],
            sha256: Sha256([0x44; 32]),
            elements: 10,
            nonfinite: 0,
            compared: None,
        }),
        Record::AgentCost(AgentCost {
            cpu_time: Nanos::from_millis(3),
            wall: Nanos::from_millis(1_000),
            arena_reads: 10,
            progress_bytes: 128,
            cpus: vec![0],
            arena_stalls: 0,
            spilled: Bytes(0),
            calls: WindowCalls {
                allocator: Some(0),
                kernel: None,
            },
        }),
    ]
}

pub(crate) fn end(outcome: Outcome, trials: u64, chunks: u32) -> Record {
    Record::End(RepeatEnd {
        outcome,
        wall_unix_ns: 1_790_000_003_000_000_000,
        mono: Nanos::from_secs(2),
        environment: environment(),
        trials,
        chunks,
    })
}

fn span(stage: Stage, from_ms: i64, to_ms: i64) -> Record {
    Record::Stage(StageSpan {
        stage,
        start: Nanos::from_millis(from_ms),
        end: Nanos::from_millis(to_ms),
    })
}

fn tensor(name: &str, dims: &[u64]) -> TensorInfo {
    TensorInfo {
        name: name.into(),
        dtype: "f32".into(),
        declared: std::iter::once(Dim::Symbol("batch".into()))
            .chain(dims[1..].iter().map(|&n| Dim::Fixed(n)))
            .collect(),
        effective: Some(dims.to_vec()),
    }
}

pub(crate) fn placement(moment: Moment, cpu_times: &[i64]) -> Record {
    Record::Placement(Placement {
        moment,
        wanted: vec![2, 3],
        threads: cpu_times
            .iter()
            .enumerate()
            .map(|(i, &time)| ThreadPlace {
                tid: 100 + i as u32,
                cpus: vec![2, 3],
                cpu_time: Some(Nanos(time)),
            })
            .collect(),
    })
}

pub(crate) fn memory(moment: Moment, rss_mib: u64, peak_mib: u64) -> Record {
    Record::Memory(Memory {
        moment,
        rss: Some(Bytes(rss_mib << 20)),
        rss_peak: Some(Bytes(peak_mib << 20)),
        arena: Bytes(8 << 20),
    })
}

/// A channel and what it gave: moments in milliseconds, and values where there were some.
pub(crate) fn watched(
    id: u16,
    name: &str,
    unit: &str,
    cells: &[(i64, Option<i64>)],
) -> [Record; 2] {
    let last = name.rsplit('.').next().unwrap_or(name);
    let kind = match last {
        "busy" | "steal" | "cpu" | "run_delay" | "swapped_out" | "swapped_in" | "throttles"
        | "package_throttles" | "energy" | "3" | "read_bytes" | "write_bytes" => {
            ChannelKind::Counter
        }
        "state" => ChannelKind::State,
        _ => ChannelKind::Gauge,
    };
    let has_values = cells.iter().any(|(_, value)| value.is_some());
    [
        Record::Channel(Channel {
            id,
            name: name.into(),
            unit: unit.into(),
            kind,
            source: "/a/file".into(),
            native_period: None,
            fidelity: Fidelity::Measured,
            period: Some(Nanos::from_millis(100)),
            probe: match has_values {
                true => Reading::Ok("1".into()),
                false => Reading::Denied("/a/file: Permission denied".into()),
            },
        }),
        Record::Samples(Samples {
            channel: id,
            at_ns: cells.iter().map(|(at, _)| at * MS).collect(),
            value: cells.iter().map(|(_, v)| v.unwrap_or(NOT_READ)).collect(),
            quality: cells
                .iter()
                .map(|(_, value)| match value {
                    Some(_) => Quality::Ok.code(),
                    None => Quality::Denied.code(),
                })
                .collect(),
        }),
    ]
}
