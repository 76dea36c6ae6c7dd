//! The JSON that `chrome://tracing` and Perfetto read: times in microseconds, groups as processes.
//!
//! Google, *Trace Event Format* (2016).

use serde_json::{Map, Value, json};

use super::{Content, Flow, Slice, Trace, Track};

/// The trace as one JSON document.
pub fn chrome(trace: &Trace) -> Value {
    let mut events = Vec::new();
    for (pid, group) in (1..).zip(&trace.groups) {
        events.push(json!({
            "ph": "M", "pid": pid, "name": "process_name", "args": { "name": group.name },
        }));
        for (tid, track) in (1..).zip(&group.tracks) {
            events.push(json!({
                "ph": "M", "pid": pid, "tid": tid, "name": "thread_name",
                "args": { "name": named(track) },
            }));
            events.push(json!({
                "ph": "M", "pid": pid, "tid": tid, "name": "thread_sort_index",
                "args": { "sort_index": tid },
            }));
            match &track.content {
                Content::Slices(slices) => {
                    for slice in slices {
                        events.push(json!({
                            "ph": "X", "pid": pid, "tid": tid, "name": slice.name,
                            "ts": micros(slice.start_ns), "dur": micros(slice.end_ns - slice.start_ns),
                            "args": notes(&slice.notes),
                        }));
                        events.extend(arrow(slice, pid, tid));
                    }
                }
                Content::Marks(marks) => events.extend(marks.iter().map(|mark| {
                    json!({
                        "ph": "i", "s": "t", "pid": pid, "tid": tid, "name": mark.name,
                        "ts": micros(mark.at_ns), "args": notes(&mark.notes),
                    })
                })),
                Content::Counter { unit, points } => {
                    let name = format!("{} [{unit}]", named(track));
                    events.extend(points.iter().map(|(at, value)| {
                        json!({
                            "ph": "C", "pid": pid, "name": name,
                            "ts": micros(*at), "args": { "value": value },
                        })
                    }));
                }
            }
        }
    }
    json!({ "traceEvents": events, "displayTimeUnit": "ns" })
}

/// An end of an arrow, bound to the slice that begins at that time.
fn arrow(slice: &Slice, pid: u64, tid: u64) -> Option<Value> {
    let (phase, id) = match slice.flow? {
        Flow::Begins(id) => ("s", id),
        Flow::Ends(id) => ("f", id),
    };
    Some(json!({
        "ph": phase, "bp": "e", "pid": pid, "tid": tid, "name": "due", "cat": "due", "id": id,
        "ts": micros(slice.start_ns),
    }))
}

/// These viewers know no lines below lines.
fn named(track: &Track) -> String {
    match &track.shelf {
        Some(shelf) => format!("{shelf}: {}", track.name),
        None => track.name.clone(),
    }
}

fn micros(ns: i64) -> f64 {
    ns as f64 / 1e3
}

/// A name that comes more than once is numbered.
fn notes(notes: &[(&'static str, String)]) -> Map<String, Value> {
    let mut out = Map::new();
    for (name, value) in notes {
        let names = (1..).map(|n| match n {
            1 => (*name).to_owned(),
            n => format!("{name} {n}"),
        });
        let free = names.into_iter().find(|name| !out.contains_key(name));
        out.extend(free.map(|name| (name, value.as_str().into())));
    }
    out
}
