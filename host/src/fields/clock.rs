//! The clocks of board and host.

use super::{Field, Subject, Unit, Value};

pub(super) const SUBJECT: Subject = Subject {
    name: "clock",
    title: "Clocks",
    fields: FIELDS,
};

/// Parts in a million.
fn ppm(ppb: Option<i64>) -> Value {
    Value::number(ppb.map(|ppb| ppb as f64 / 1e3))
}

fn ms(ns: Option<i64>) -> Value {
    Value::ms(ns.map(|ns| ns as f64))
}

const FIELDS: &[Field] = &[
    Field {
        name: "clock_offset_ms",
        unit: Unit::Milliseconds,
        definition: "to be added to the board's monotonic clock to get the host's, by the latest exchange",
        source: "clock exchanges",
        get: |s| ms(s.clock.offset_ns),
    },
    Field {
        name: "clock_offset_bound_ms",
        unit: Unit::Milliseconds,
        definition: "the true offset is no further than this from the one found: half the shortest round trip of an exchange, the largest of all exchanges",
        source: "clock exchanges",
        get: |s| ms(s.clock.bound_ns),
    },
    Field {
        name: "clock_drift_ppm",
        unit: Unit::Figure,
        definition: "how much faster the host's clock ran than the board's, in parts in a million, from before to after a repeat; of all repeats the one furthest from zero",
        source: "clock exchanges",
        get: |s| ppm(s.clock.drift_ppb),
    },
    Field {
        name: "clock_drift_bound_ppm",
        unit: Unit::Figure,
        definition: "the true drift is no further than this from that one",
        source: "clock exchanges",
        get: |s| ppm(s.clock.drift_bound_ppb),
    },
    Field {
        name: "clock_exchanges_count",
        unit: Unit::Count,
        definition: "exchanges that the host answered, of two a repeat",
        source: "clock exchanges",
        get: |s| Value::count(Some(s.clock.answered)),
    },
    Field {
        name: "clock_wall_offset_ms",
        unit: Unit::Milliseconds,
        definition: "to be added to the board's wall clock to get the host's, by the latest exchange",
        source: "clock exchanges and clock readings",
        get: |s| ms(s.clock.wall_offset_ns),
    },
    Field {
        name: "clock_wall_step_ms",
        unit: Unit::Milliseconds,
        definition: "how far the board's wall clock was set or slewed against its boot clock between two readings of a repeat, the furthest",
        source: "clock readings",
        get: |s| ms(s.clock.wall_step_ns),
    },
    Field {
        name: "clock_suspended_ms",
        unit: Unit::Milliseconds,
        definition: "time the board slept within repeats, in all",
        source: "clock readings",
        get: |s| ms(s.clock.suspended_ns),
    },
];
