//! Both forms of a trace hold the same: what ran, for how long, and what must not be overlooked.

use std::collections::BTreeMap;

use edgedyno_shared::columns::{Chunk, ColumnSpec, TrialSchema};
use edgedyno_shared::wire::record::Record;
use prost::Message as _;

use super::perfetto::TraceFile;
use super::*;
use crate::source::Source;
use crate::store::Store;
use crate::store::sample::{MS, add_run, deliver, key, new_store, repeat, run_id, watched};

/// When the measured trials of a sample repeat begin, in milliseconds, and how long a hundred of them take.
fn window(store: &Store) -> (i64, i64) {
    let source = source(store);
    let cases = source.cases().unwrap();
    let view = source.view(cases[0].key).unwrap();
    let window = view.repeats[0].trials.window.unwrap();
    (window.start_ns / MS, window.end_ns / MS)
}

fn source(store: &Store) -> Source {
    Source::Stored {
        store: Store::open_reading(store.dir()).unwrap(),
        run: run_id("a"),
    }
}

/// A hundred trials of a millisecond, one of which took half a second.
fn latencies() -> Vec<i64> {
    let mut trials: Vec<i64> = (0..100).map(|i| MS + i % 7 * 1000).collect();
    trials[40] = 500 * MS;
    trials
}

/// One repeat with an outlier, during which another program took the CPU; and a channel that saw nothing.
fn traced() -> (tempfile::TempDir, Trace) {
    let (dir, mut store) = new_store();
    add_run(&store, "a");
    deliver(&mut store, key("a", 0, 0), &repeat(&latencies())).unwrap();
    let (begin, end) = window(&store);
    drop((dir, store));

    let (dir, mut store) = new_store();
    add_run(&store, "a");
    // Busy for 5 ms of each 10 ms, and all the time while the outlier ran.
    let mut busy = 0;
    let mut cells = Vec::new();
    for at in (begin - 100..end + 1300).step_by(10) {
        cells.push((at, Some(busy * MS)));
        let is_long = begin + 60 < at && at < begin + 500;
        busy += if is_long { 10 } else { 5 };
    }
    let temp: Vec<(i64, Option<i64>)> = cells.iter().map(|(at, _)| (*at, Some(41_000))).collect();
    let on_cpu = [
        (begin, Some(2)),
        (begin + 100, Some(2)),
        (begin + 200, Some(3)),
        (end, Some(3)),
    ];
    let mut records = repeat(&latencies());
    let last = records.len() - 1;
    let further = [
        watched(0, "therm.soc.temp", "millicelsius", &temp),
        watched(1, "cpu.2.busy", "ns", &cells),
        watched(2, "worker.on_cpu", "cpu", &on_cpu),
        watched(3, "psi.cpu.some", "ns", &[(begin, None)]),
    ];
    records.splice(last..last, further.into_iter().flatten());
    deliver(&mut store, key("a", 0, 0), &records).unwrap();
    let source = source(&store);
    let cases = source.cases().unwrap();
    let trace = gather(&source, &cases).unwrap();
    (dir, trace)
}

/// The group of the repeat; the one before it is the board's.
fn of_repeat(trace: &Trace) -> &Group {
    assert_eq!(trace.groups.len(), 2);
    &trace.groups[1]
}

fn track<'a>(trace: &'a Trace, name: &str) -> &'a Content {
    let mut tracks = of_repeat(trace).tracks.iter();
    let found = tracks.find(|track| track.name == name);
    &found.unwrap_or_else(|| panic!("no track {name}")).content
}

fn slices<'a>(trace: &'a Trace, name: &str) -> &'a [Slice] {
    match track(trace, name) {
        Content::Slices(slices) => slices,
        other => panic!("{name} is no line of slices: {other:?}"),
    }
}

#[test]
fn an_outlier_and_what_the_board_did_meanwhile_lie_one_below_the_other() {
    let (_dir, trace) = traced();
    let names: Vec<&str> = of_repeat(&trace)
        .tracks
        .iter()
        .map(|t| t.name.as_str())
        .collect();
    // The channel that was unlike itself comes before the one that never moved, and before all else.
    assert_eq!(
        names[..5],
        [
            "stages",
            "findings and loads",
            "trials",
            "outliers",
            "cpu.2.busy"
        ]
    );
    assert!(
        names.contains(&"therm.soc.temp") && !names.contains(&"psi.cpu.some"),
        "{names:?}"
    );

    let trials = slices(&trace, "trials");
    let measured: Vec<&Slice> = trials.iter().filter(|t| t.name == "measure").collect();
    assert_eq!(measured.len(), 100);
    assert!(
        trials
            .windows(2)
            .all(|pair| pair[0].end_ns <= pair[1].start_ns)
    );
    let outliers = slices(&trace, "outliers");
    assert_eq!(outliers.len(), 1);
    let outlier = &outliers[0];
    assert_eq!(outlier.name, "outlier 500 ms");
    assert_eq!(
        (outlier.start_ns, outlier.end_ns),
        (measured[40].start_ns, measured[40].end_ns)
    );
    let told = outlier
        .notes
        .iter()
        .filter(|(name, _)| *name == "meanwhile");
    let told: Vec<&str> = told.map(|(_, words)| words.as_str()).collect();
    assert_eq!(told, ["cpu.2.busy: 100 %, usually 50"]);
    let Content::Counter { unit, points } = track(&trace, "cpu.2.busy") else {
        panic!("telemetry is a counter");
    };
    assert_eq!(unit, "%");
    let during = points
        .iter()
        .filter(|(at, _)| outlier.start_ns < *at && *at < outlier.end_ns);
    let during: Vec<f64> = during.map(|(_, share)| *share).collect();
    assert!(during.len() > 30, "{}", during.len());
    assert!(
        during.iter().filter(|share| **share == 100.0).count() > 30,
        "{during:?}"
    );
}

#[test]
fn repeats_threads_cpus_and_findings_have_lines_of_their_own() {
    let (_dir, trace) = traced();
    let board = &trace.groups[0];
    assert_eq!(board.name, "all repeats on board local");
    let Content::Slices(repeats) = &board.tracks[0].content else {
        panic!("repeats are slices");
    };
    assert_eq!(repeats.len(), 1);
    assert!(
        repeats[0].name.ends_with(", repeat 0"),
        "{}",
        repeats[0].name
    );
    assert!(repeats[0].notes.contains(&("condition", "idle".into())));

    let Content::Marks(marks) = track(&trace, "findings and loads") else {
        panic!("findings are marks");
    };
    assert!(marks.iter().any(|mark| mark.name == "few_samples"));
    assert!(
        slices(&trace, "stages")
            .iter()
            .any(|stage| stage.name == "load")
    );

    let shelves: BTreeMap<&str, Vec<&str>> = of_repeat(&trace).tracks.iter().fold(
        BTreeMap::new(),
        |mut shelves: BTreeMap<&str, Vec<&str>>, track| {
            shelves
                .entry(track.shelf.as_deref().unwrap_or(""))
                .or_default()
                .push(&track.name);
            shelves
        },
    );
    assert_eq!(
        shelves["threads of the worker"],
        ["main thread 100", "thread 101"]
    );
    assert_eq!(shelves["CPU 2"], ["cpu.2.busy", "worker"]);
    assert_eq!(shelves["CPU 3"], ["worker"]);
    // 900 of some 600 ms, since the sample counts two CPUs' time as one thread's.
    let main = slices(&trace, "main thread 100");
    assert!(
        main[0].name.ends_with("% of the window on a CPU"),
        "{}",
        main[0].name
    );
    assert_eq!(main[0].notes[1], ("may run on CPUs", "2-3".into()));
}

/// Work that arrives by a clock: each trial with the moment at which it was due.
#[test]
fn an_arrow_leads_from_when_work_was_due_to_when_it_began() {
    let (dir, mut store) = new_store();
    add_run(&store, "a");
    let mut records = repeat(&[]);
    records.retain(|record| !matches!(record, Record::Chunk(_)));
    for record in &mut records {
        if let Record::Schema { schema, .. } = record {
            *schema = TrialSchema::with(vec![ColumnSpec::new("scheduled_ns", "ns")]);
        }
    }
    // Due every 10 ms, and 25 ms long: the second waits 15 ms, the third 30 ms.
    let slot = |i: i64| {
        [
            3,
            (100 + 25 * i) * MS,
            (125 + 25 * i) * MS,
            0,
            (100 + 10 * i) * MS,
        ]
    };
    let slots: Vec<i64> = (0..3).flat_map(slot).collect();
    let last = records.len() - 1;
    records.insert(last, Record::Chunk(Chunk::from_slots(0, 0, 5, &slots)));
    deliver(&mut store, key("a", 0, 0), &records).unwrap();
    let source = source(&store);
    let cases = source.cases().unwrap();
    let trace = gather(&source, &cases).unwrap();
    let (waits, trials) = (slices(&trace, "due, not begun"), slices(&trace, "trials"));
    assert_eq!((waits.len(), trials.len()), (3, 3));
    for (wait, trial) in waits.iter().zip(trials) {
        let (Some(Flow::Begins(from)), Some(Flow::Ends(to))) = (wait.flow, trial.flow) else {
            panic!("{wait:?} leads to {trial:?}");
        };
        assert_eq!(from, to);
        assert!(wait.start_ns <= trial.start_ns);
    }
    // They overlap, and lines do not: each ends where the next begins and says how long it was.
    assert_eq!(waits[1].end_ns, waits[2].start_ns);
    assert!(
        waits[1].notes.contains(&("waited", "15 ms".into())),
        "{:?}",
        waits[1]
    );
    assert_eq!(waits[2].end_ns - waits[2].start_ns, 30 * MS);
    let events = chrome(&trace);
    let arrows = events["traceEvents"].as_array().unwrap().iter();
    let phases: Vec<&str> = arrows
        .filter(|e| e["cat"] == "due")
        .map(|e| e["ph"].as_str().unwrap())
        .collect();
    assert_eq!(phases, ["s", "s", "s", "f", "f", "f"]);
    drop(dir);
}

#[test]
fn the_protobuf_holds_every_event_in_its_track() {
    let (_dir, trace) = traced();
    let decoded = TraceFile::decode(perfetto(&trace).as_slice()).unwrap();
    let descriptors: Vec<_> = decoded
        .packet
        .iter()
        .filter_map(|p| p.track_descriptor.as_ref())
        .collect();
    let ids: Vec<u64> = descriptors.iter().map(|d| d.uuid.unwrap()).collect();
    let unique: std::collections::BTreeSet<&u64> = ids.iter().collect();
    assert_eq!(unique.len(), ids.len());
    // Parents come before their children.
    for (at, descriptor) in descriptors.iter().enumerate() {
        let Some(parent) = descriptor.parent_uuid else {
            continue;
        };
        assert!(ids[..at].contains(&parent), "{descriptor:?}");
    }
    let trials = descriptors
        .iter()
        .find(|d| d.name.as_deref() == Some("trials"))
        .unwrap();
    let events = decoded.packet.iter().filter_map(|p| {
        let event = p.track_event.as_ref()?;
        (event.track_uuid == trials.uuid).then_some((p.timestamp.unwrap(), event))
    });
    let events: Vec<_> = events.collect();
    let slices = slices(&trace, "trials");
    // A begin and an end for each, in order, and at the right time.
    assert_eq!(events.len(), 2 * slices.len());
    for (pair, slice) in events.chunks(2).zip(slices) {
        assert_eq!((pair[0].1.kind, pair[1].1.kind), (Some(1), Some(2)));
        assert_eq!(
            (pair[0].0, pair[1].0),
            (slice.start_ns as u64, slice.end_ns as u64)
        );
    }
    assert_eq!(decoded.packet[0].sequence_flags, Some(1));
}

/// Bytes worked out by hand: field 1 of the file, a packet with time 5, sequence 1 and an instant `x` on
/// track 2.
#[test]
fn field_numbers_are_those_of_perfetto() {
    let trace = Trace {
        groups: vec![Group {
            name: "g".into(),
            tracks: vec![Track {
                name: "t".into(),
                shelf: None,
                content: Content::Marks(vec![Mark {
                    name: "x".into(),
                    at_ns: 5,
                    notes: Vec::new(),
                }]),
            }],
        }],
    };
    let bytes = perfetto(&trace);
    // timestamp = 8: 0x40; sequence = 10: 0x50; track_event = 11: 0x5a of 8 bytes: type = 9: 0x48,
    // track_uuid = 11: 0x58, name = 23: 0xba 0x01.
    let packet = [
        0x0a, 0x0e, 0x40, 5, 0x50, 1, 0x5a, 8, 0x48, 3, 0x58, 2, 0xba, 0x01, 1, b'x',
    ];
    assert!(bytes.ends_with(&packet), "{bytes:02x?}");
}

#[test]
fn the_json_holds_the_same_in_microseconds() {
    let (_dir, trace) = traced();
    let document = chrome(&trace);
    let events = document["traceEvents"].as_array().unwrap();
    let outlier = events
        .iter()
        .find(|event| event["name"] == "outlier 500 ms")
        .unwrap();
    assert_eq!(
        (&outlier["ph"], &outlier["args"]["latency"]),
        (&"X".into(), &"500 ms".into())
    );
    assert_eq!(
        outlier["args"]["meanwhile"],
        "cpu.2.busy: 100 %, usually 50"
    );
    let long = events
        .iter()
        .find(|event| event["name"] == "measure" && event["ts"] == outlier["ts"])
        .unwrap();
    assert_eq!(long["dur"], 500_000.0);
    let names = events.iter().filter(|event| event["name"] == "thread_name");
    let tracks: usize = trace.groups.iter().map(|group| group.tracks.len()).sum();
    assert_eq!(names.count(), tracks);
}
