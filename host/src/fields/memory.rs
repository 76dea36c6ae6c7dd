//! Memory of the worker.

use crate::store::rows::MomentRow;

use super::{Field, Subject, Unit, Value};

pub(super) const SUBJECT: Subject = Subject {
    name: "memory",
    title: "Memory",
    fields: FIELDS,
};

const FIELDS: &[Field] = &[
    Field {
        name: "rss_spawned_bytes",
        unit: Unit::Bytes,
        definition: "resident memory in a new worker, the largest over repeats, without the arena",
        source: "VmRSS",
        get: |s| Value::count(s.memory.rss_at(MomentRow::Spawned)),
    },
    Field {
        name: "rss_dlopened_bytes",
        unit: Unit::Bytes,
        definition: "resident memory after the library was opened, the largest over repeats, without the arena",
        source: "VmRSS",
        get: |s| Value::count(s.memory.rss_at(MomentRow::Dlopened)),
    },
    Field {
        name: "rss_loaded_bytes",
        unit: Unit::Bytes,
        definition: "resident memory after the model was loaded, the largest over repeats, without the arena",
        source: "VmRSS",
        get: |s| Value::count(s.memory.rss_at(MomentRow::Loaded)),
    },
    Field {
        name: "rss_before_window_bytes",
        unit: Unit::Bytes,
        definition: "resident memory before the window, the largest over repeats, without the arena",
        source: "VmRSS",
        get: |s| Value::count(s.memory.rss_at(MomentRow::BeforeWindow)),
    },
    Field {
        name: "rss_after_window_bytes",
        unit: Unit::Bytes,
        definition: "resident memory after the window, the largest over repeats, without the arena",
        source: "VmRSS",
        get: |s| Value::count(s.memory.rss_at(MomentRow::AfterWindow)),
    },
    Field {
        name: "rss_peak_bytes",
        unit: Unit::Bytes,
        definition: "high-water mark of resident memory, the largest over repeats, without the arena",
        source: "VmHWM",
        get: |s| Value::count(s.memory.peak_bytes),
    },
    Field {
        name: "arena_bytes",
        unit: Unit::Bytes,
        definition: "pages of the arena that the trials are written to, taken off the figures above",
        source: "size of the arena",
        get: |s| Value::count(s.memory.arena_bytes),
    },
];
