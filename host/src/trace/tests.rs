//! Both forms of a trace hold the same: what ran, for how long, and what must not be overlooked.

use prost::Message as _;

use super::perfetto::TraceFile;
use super::*;
use crate::source::Source;
use crate::store::Store;
use crate::store::sample::{MS, add_run, deliver, key, new_store, repeat, run_id};

/// One repeat of a hundred trials, one of which took fifty times as long.
fn traced() -> (tempfile::TempDir, Trace) {
    let (dir, mut store) = new_store();
    add_run(&store, "a");
    let mut trials: Vec<i64> = (0..100).map(|i| MS + i % 7 * 1000).collect();
    trials[40] = 50 * MS;
    deliver(&mut store, key("a", 0, 0), &repeat(&trials)).unwrap();
    let source = Source::Stored {
        store: Store::open_reading(store.dir()).unwrap(),
        run: run_id("a"),
    };
    let cases = source.cases().unwrap();
    let trace = gather(&source, &cases).unwrap();
    (dir, trace)
}

fn track<'a>(trace: &'a Trace, name: &str) -> &'a Content {
    let found = trace.groups[0]
        .tracks
        .iter()
        .find(|track| track.name == name);
    &found.unwrap_or_else(|| panic!("no track {name}")).content
}

#[test]
fn an_outlier_stands_where_its_trial_does() {
    let (_dir, trace) = traced();
    assert_eq!(trace.groups.len(), 1);
    let Content::Slices(trials) = track(&trace, "trials") else {
        panic!("trials are slices");
    };
    let measured: Vec<&Slice> = trials.iter().filter(|t| t.name == "measure").collect();
    assert_eq!(measured.len(), 100);
    assert!(
        trials
            .windows(2)
            .all(|pair| pair[0].end_ns <= pair[1].start_ns)
    );
    let Content::Marks(marks) = track(&trace, "findings and outliers") else {
        panic!("findings are marks");
    };
    let outlier = marks.iter().find(|mark| mark.name == "outlier").unwrap();
    assert_eq!(outlier.at_ns, measured[40].start_ns);
    assert_eq!(outlier.notes[1], ("latency", "50 ms".into()));
    assert!(marks.iter().any(|mark| mark.name == "few_samples"));
    let Content::Slices(stages) = track(&trace, "stages") else {
        panic!("stages are slices");
    };
    assert!(stages.iter().any(|stage| stage.name == "load"));
}

#[test]
fn the_protobuf_holds_every_event_in_its_track() {
    let (_dir, trace) = traced();
    let decoded = TraceFile::decode(perfetto(&trace).as_slice()).unwrap();
    let descriptors = decoded
        .packet
        .iter()
        .filter_map(|p| p.track_descriptor.as_ref());
    let named: Vec<(u64, Option<&str>)> = descriptors
        .map(|d| (d.uuid.unwrap(), d.name.as_deref()))
        .collect();
    assert_eq!(named.len(), 1 + trace.groups[0].tracks.len());
    let (trials, _) = *named
        .iter()
        .find(|(_, name)| *name == Some("trials"))
        .unwrap();
    let events = decoded.packet.iter().filter_map(|p| {
        let event = p.track_event.as_ref()?;
        (event.track_uuid == Some(trials)).then_some((p.timestamp.unwrap(), event))
    });
    let events: Vec<_> = events.collect();
    let Content::Slices(slices) = track(&trace, "trials") else {
        panic!("trials are slices");
    };
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
        .find(|event| event["name"] == "outlier")
        .unwrap();
    assert_eq!(
        (&outlier["ph"], &outlier["args"]["latency"]),
        (&"i".into(), &"50 ms".into())
    );
    let long = events
        .iter()
        .find(|event| event["ph"] == "X" && event["ts"] == outlier["ts"])
        .unwrap();
    assert_eq!(long["dur"], 50_000.0);
    let names = events.iter().filter(|event| event["ph"] == "M");
    assert_eq!(names.count(), 1 + trace.groups[0].tracks.len());
}
