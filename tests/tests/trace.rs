//! Traces of real runs, read by Perfetto's own description of its format.

use std::fs;
use std::process::Command;

use edgedyno_tests::commands::small_model;
use edgedyno_tests::schema::assert_matches_schema;
use edgedyno_tests::skip::{Need, skip};
use edgedyno_tests::{Sandbox, assets};
use serde_json::Value;

/// Reads a trace with the message classes that Perfetto publishes, and prints what it found as JSON. What its
/// description does not know ends up in a message's unknown fields.
const READER: &str = r#"
import collections, json, sys
from google.protobuf import unknown_fields
from perfetto.protos.perfetto.trace import perfetto_trace_pb2 as pb

trace = pb.Trace()
trace.ParseFromString(open(sys.argv[1], "rb").read())

unknown = 0
def look(message):
    global unknown
    unknown += len(unknown_fields.UnknownFieldSet(message))
    for field, value in message.ListFields():
        if field.message_type is not None:
            for one in value if field.is_repeated else [value]:
                look(one)
look(trace)

names, parents, counters = {}, {}, {}
for packet in trace.packet:
    if packet.HasField("track_descriptor"):
        track = packet.track_descriptor
        names[track.uuid] = track.process.process_name or track.name
        parents[track.uuid] = track.parent_uuid
        if track.HasField("counter"):
            counters[track.uuid] = track.counter.unit_name

open_slices = collections.defaultdict(list)
slices, marks, points, bad = collections.Counter(), collections.Counter(), collections.Counter(), []
for packet in trace.packet:
    if not packet.HasField("track_event"):
        continue
    event = packet.track_event
    track, kind = event.track_uuid, pb.TrackEvent.Type.Name(event.type)
    if track not in names:
        bad.append(f"event on unknown track {track}")
    if kind == "TYPE_SLICE_BEGIN":
        open_slices[track].append(packet.timestamp)
    elif kind == "TYPE_SLICE_END":
        if open_slices[track].pop() > packet.timestamp:
            bad.append("a slice ends before it begins")
        slices[names[track]] += 1
    elif kind == "TYPE_INSTANT":
        marks[event.name] += 1
    elif kind == "TYPE_COUNTER":
        if not event.HasField("double_counter_value") or track not in counters:
            bad.append(f"no counter: {event}")
        points[names[track]] += 1
bad += [f"track {t} is left open" for t, starts in open_slices.items() if starts]
bad += [f"track {t} has no parent {p}" for t, p in parents.items() if p and p not in names]
print(json.dumps({"unknown": unknown, "bad": bad, "slices": slices, "marks": marks, "points": points,
                  "groups": [names[t] for t, p in parents.items() if not p],
                  "tracks": sorted(names.values())}))
"#;

/// Perfetto's description and what it needs, from their packages; none after a skip.
fn python_path() -> Option<String> {
    let folders = [
        assets::wheel("perfetto-0.59.1", "perfetto==0.59.1", |name| {
            name.starts_with("perfetto/")
        }),
        assets::wheel("protobuf-7.36.2", "protobuf==7.36.2", |name| {
            name.starts_with("google/")
        }),
    ];
    let mut path = Vec::new();
    for folder in folders {
        match folder {
            Ok(folder) => path.push(folder.display().to_string()),
            Err(why) => {
                skip(Need::Package, format!("{why:#}"));
                return None;
            }
        }
    }
    Some(path.join(":"))
}

#[test]
fn a_trace_holds_to_the_description_of_its_format() {
    let Some(path) = python_path() else { return };
    let sandbox = Sandbox::new();
    small_model(&sandbox);
    let line = "run small.onnx --backend fake --option latency_us=500 --warmup 5 --duration 0.5s --repeat 2";
    sandbox.edgedyno(line.split(' '));
    let document = sandbox.edgedyno(["trace", "last", "--json"]).ok().json();
    assert_matches_schema(&document, "trace");
    let reader = sandbox.write("reader.py", READER);
    let output = Command::new("python3")
        .arg(reader)
        .arg(sandbox.work().join("trace.perfetto-trace"))
        .env("PYTHONPATH", path)
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .output()
        .unwrap();
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let found: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(found["unknown"], 0, "{found:#}");
    assert_eq!(found["bad"], serde_json::json!([]), "{found:#}");
    let groups = found["groups"].as_array().unwrap();
    assert_eq!(groups.len(), 3, "the board and two repeats: {groups:?}");
    assert_eq!(groups[0], "all repeats on board local");
    assert_eq!(found["slices"]["repeats"], 2);
    // As many trials as the store has, of whatever role.
    let records = sandbox.edgedyno(["summary", "last", "--json"]).json();
    let trials = records["cases"][0]["repeats"].as_array().unwrap().iter();
    let measured: u64 = trials
        .map(|repeat| repeat["trials_count"].as_u64().unwrap())
        .sum();
    let drawn = found["slices"]["trials"].as_u64().unwrap();
    assert!(
        measured > 500 && drawn > measured && drawn < measured + 100,
        "{drawn} of {measured}"
    );
    for name in [
        "stages",
        "threads of the worker",
        "the worker",
        "worker.cpu",
    ] {
        assert!(
            found["tracks"].as_array().unwrap().contains(&name.into()),
            "no {name}: {found:#}"
        );
    }
    assert!(
        found["points"]["worker.cpu"].as_u64().unwrap() > 3,
        "{found:#}"
    );
    assert_eq!(found["marks"]["simulated"], 2, "{found:#}");

    let chrome = sandbox
        .edgedyno(["trace", "last", "--format", "chrome", "--json"])
        .ok()
        .json();
    let text = fs::read(sandbox.work().join(chrome["file"].as_str().unwrap())).unwrap();
    let chrome: Value = serde_json::from_slice(&text).unwrap();
    let events = chrome["traceEvents"].as_array().unwrap().iter();
    let whole = events.filter(|event| event["name"] == "measure").count();
    assert_eq!(whole as u64, measured + 2, "and the stage of each repeat");
}
