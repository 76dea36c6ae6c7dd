//! The protobuf that Perfetto reads: a packet for each event, tracks named beforehand.
//!
//! Field numbers are those of the public `perfetto_trace.proto`, whose text is not needed to build.

use prost::Message;

use super::{Content, Flow, Group, Trace};

/// `TrackEvent.Type`.
const BEGIN: i32 = 1;
const END: i32 = 2;
const INSTANT: i32 = 3;
const COUNTER: i32 = 4;

/// `TrackDescriptor.ChildTracksOrdering`: by rank.
const EXPLICIT: i32 = 3;

/// All packets are of one sequence, whose state begins with the first.
const SEQUENCE: u32 = 1;
const STATE_CLEARED: u32 = 1;

#[derive(Clone, PartialEq, Message)]
pub(super) struct TraceFile {
    #[prost(message, repeated, tag = "1")]
    pub(super) packet: Vec<Packet>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Packet {
    #[prost(uint64, optional, tag = "8")]
    pub(super) timestamp: Option<u64>,
    #[prost(uint32, optional, tag = "10")]
    pub(super) trusted_packet_sequence_id: Option<u32>,
    #[prost(message, optional, tag = "11")]
    pub(super) track_event: Option<TrackEvent>,
    #[prost(uint32, optional, tag = "13")]
    pub(super) sequence_flags: Option<u32>,
    #[prost(message, optional, tag = "60")]
    pub(super) track_descriptor: Option<TrackDescriptor>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct TrackEvent {
    #[prost(message, repeated, tag = "4")]
    pub(super) debug_annotations: Vec<DebugAnnotation>,
    #[prost(int32, optional, tag = "9")]
    pub(super) kind: Option<i32>,
    #[prost(uint64, optional, tag = "11")]
    pub(super) track_uuid: Option<u64>,
    #[prost(string, optional, tag = "23")]
    pub(super) name: Option<String>,
    #[prost(double, optional, tag = "44")]
    pub(super) double_counter_value: Option<f64>,
    #[prost(fixed64, repeated, packed = "false", tag = "47")]
    pub(super) flow_ids: Vec<u64>,
    #[prost(fixed64, repeated, packed = "false", tag = "48")]
    pub(super) terminating_flow_ids: Vec<u64>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct DebugAnnotation {
    #[prost(string, optional, tag = "6")]
    pub(super) string_value: Option<String>,
    #[prost(string, optional, tag = "10")]
    pub(super) name: Option<String>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct TrackDescriptor {
    #[prost(uint64, optional, tag = "1")]
    pub(super) uuid: Option<u64>,
    #[prost(string, optional, tag = "2")]
    pub(super) name: Option<String>,
    #[prost(message, optional, tag = "3")]
    pub(super) process: Option<ProcessDescriptor>,
    #[prost(uint64, optional, tag = "5")]
    pub(super) parent_uuid: Option<u64>,
    #[prost(message, optional, tag = "8")]
    pub(super) counter: Option<CounterDescriptor>,
    #[prost(int32, optional, tag = "11")]
    pub(super) child_ordering: Option<i32>,
    #[prost(int32, optional, tag = "12")]
    pub(super) sibling_order_rank: Option<i32>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct ProcessDescriptor {
    #[prost(int32, optional, tag = "1")]
    pub(super) pid: Option<i32>,
    #[prost(string, optional, tag = "6")]
    pub(super) process_name: Option<String>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct CounterDescriptor {
    #[prost(string, optional, tag = "6")]
    pub(super) unit_name: Option<String>,
}

/// The trace as bytes of a `.perfetto-trace` file.
pub fn perfetto(trace: &Trace) -> Vec<u8> {
    let mut packets = Vec::new();
    let mut next = 1_u64;
    for (number, group) in (1..).zip(&trace.groups) {
        let process = next;
        next += 1;
        packets.push(described(TrackDescriptor {
            uuid: Some(process),
            child_ordering: Some(EXPLICIT),
            process: Some(ProcessDescriptor {
                pid: Some(number),
                process_name: Some(group.name.clone()),
            }),
            ..TrackDescriptor::default()
        }));
        tracks(group, process, &mut next, &mut packets);
    }
    if let Some(first) = packets.first_mut() {
        first.sequence_flags = Some(STATE_CLEARED);
    }
    TraceFile { packet: packets }.encode_to_vec()
}

/// The tracks of a group; those of one shelf below a track that bears its name.
fn tracks(group: &Group, process: u64, next: &mut u64, packets: &mut Vec<Packet>) {
    let mut shelves: Vec<(&str, u64)> = Vec::new();
    for (rank, track) in (0..).zip(&group.tracks) {
        let mut fresh = || {
            *next += 1;
            *next - 1
        };
        let parent = match track.shelf.as_deref() {
            None => process,
            Some(shelf) => match shelves.iter().find(|(name, _)| *name == shelf) {
                Some((_, uuid)) => *uuid,
                None => {
                    let uuid = fresh();
                    shelves.push((shelf, uuid));
                    packets.push(described(TrackDescriptor {
                        uuid: Some(uuid),
                        name: Some(shelf.to_owned()),
                        parent_uuid: Some(process),
                        child_ordering: Some(EXPLICIT),
                        sibling_order_rank: Some(rank),
                        ..TrackDescriptor::default()
                    }));
                    uuid
                }
            },
        };
        let uuid = fresh();
        let counter = match &track.content {
            Content::Counter { unit, .. } => Some(CounterDescriptor {
                unit_name: Some(unit.clone()),
            }),
            _ => None,
        };
        packets.push(described(TrackDescriptor {
            uuid: Some(uuid),
            name: Some(track.name.clone()),
            parent_uuid: Some(parent),
            counter,
            sibling_order_rank: Some(rank),
            ..TrackDescriptor::default()
        }));
        events(&track.content, uuid, packets);
    }
}

fn events(content: &Content, uuid: u64, packets: &mut Vec<Packet>) {
    let mut put = |at: i64, event: TrackEvent| {
        packets.push(Packet {
            timestamp: Some(at.max(0) as u64),
            trusted_packet_sequence_id: Some(SEQUENCE),
            track_event: Some(TrackEvent {
                track_uuid: Some(uuid),
                ..event
            }),
            ..Packet::default()
        });
    };
    let kind = |kind: i32| TrackEvent {
        kind: Some(kind),
        ..TrackEvent::default()
    };
    match content {
        Content::Slices(slices) => {
            for slice in slices {
                let begin = TrackEvent {
                    name: Some(slice.name.clone()),
                    debug_annotations: annotations(&slice.notes),
                    flow_ids: match slice.flow {
                        Some(Flow::Begins(flow)) => vec![flow],
                        _ => Vec::new(),
                    },
                    terminating_flow_ids: match slice.flow {
                        Some(Flow::Ends(flow)) => vec![flow],
                        _ => Vec::new(),
                    },
                    ..kind(BEGIN)
                };
                put(slice.start_ns, begin);
                put(slice.end_ns, kind(END));
            }
        }
        Content::Marks(marks) => {
            for mark in marks {
                let instant = TrackEvent {
                    name: Some(mark.name.clone()),
                    debug_annotations: annotations(&mark.notes),
                    ..kind(INSTANT)
                };
                put(mark.at_ns, instant);
            }
        }
        Content::Counter { points, .. } => {
            for (at, value) in points {
                let counter = TrackEvent {
                    double_counter_value: Some(*value),
                    ..kind(COUNTER)
                };
                put(*at, counter);
            }
        }
    }
}

fn described(descriptor: TrackDescriptor) -> Packet {
    Packet {
        trusted_packet_sequence_id: Some(SEQUENCE),
        track_descriptor: Some(descriptor),
        ..Packet::default()
    }
}

fn annotations(notes: &[(&'static str, String)]) -> Vec<DebugAnnotation> {
    let note = |(name, value): &(&'static str, String)| DebugAnnotation {
        name: Some((*name).to_owned()),
        string_value: Some(value.clone()),
    };
    notes.iter().map(note).collect()
}
