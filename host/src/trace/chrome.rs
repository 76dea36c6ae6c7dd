//! The JSON that `chrome://tracing` and Perfetto read: times in microseconds, groups as processes.
//!
//! Google, *Trace Event Format* (2016).

use serde_json::{Map, Value, json};

use super::{Content, Trace};

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
                "args": { "name": track.name },
            }));
            match &track.content {
                Content::Slices(slices) => events.extend(slices.iter().map(|slice| {
                    json!({
                        "ph": "X", "pid": pid, "tid": tid, "name": slice.name,
                        "ts": micros(slice.start_ns), "dur": micros(slice.end_ns - slice.start_ns),
                        "args": notes(&slice.notes),
                    })
                })),
                Content::Marks(marks) => events.extend(marks.iter().map(|mark| {
                    json!({
                        "ph": "i", "s": "t", "pid": pid, "tid": tid, "name": mark.name,
                        "ts": micros(mark.at_ns), "args": notes(&mark.notes),
                    })
                })),
                Content::Counter { unit, points } => {
                    let name = format!("{} [{unit}]", track.name);
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

fn micros(ns: i64) -> f64 {
    ns as f64 / 1e3
}

fn notes(notes: &[(&'static str, String)]) -> Map<String, Value> {
    let note = |(name, value): &(&'static str, String)| ((*name).to_owned(), value.as_str().into());
    notes.iter().map(note).collect()
}
