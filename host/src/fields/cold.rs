//! Cold start, stage by stage.

use super::{Field, Subject, Unit, Value};

pub(super) const SUBJECT: Subject = Subject {
    name: "cold",
    title: "Cold start",
    fields: FIELDS,
};

const FIELDS: &[Field] = &[
    Field {
        name: "cold_spawn_ms",
        unit: Unit::Milliseconds,
        definition: "starting the worker process",
        source: "stage spawn",
        get: |s| Value::ms(s.cold.spawn_ns),
    },
    Field {
        name: "cold_read_ms",
        unit: Unit::Milliseconds,
        definition: "reading the model file through",
        source: "stage read",
        get: |s| Value::ms(s.cold.read_ns),
    },
    Field {
        name: "cold_dlopen_ms",
        unit: Unit::Milliseconds,
        definition: "opening the vendor's library",
        source: "stage dlopen",
        get: |s| Value::ms(s.cold.dlopen_ns),
    },
    Field {
        name: "cold_load_ms",
        unit: Unit::Milliseconds,
        definition: "loading the model",
        source: "stage load",
        get: |s| Value::ms(s.cold.load_ns),
    },
    Field {
        name: "cold_compile_ms",
        unit: Unit::Milliseconds,
        definition: "compiling the model, where that is a step of its own",
        source: "stage compile",
        get: |s| Value::ms(s.cold.compile_ns),
    },
    Field {
        name: "cold_bind_ms",
        unit: Unit::Milliseconds,
        definition: "binding inputs and outputs; making the inputs is not in it",
        source: "stage bind",
        get: |s| Value::ms(s.cold.bind_ns),
    },
    Field {
        name: "cold_first_ms",
        unit: Unit::Milliseconds,
        definition: "the first run of the loaded model",
        source: "first trial of role cold",
        get: |s| Value::ms(s.cold.first_ns),
    },
    Field {
        name: "cold_second_ms",
        unit: Unit::Milliseconds,
        definition: "the second run",
        source: "second trial of role cold",
        get: |s| Value::ms(s.cold.second_ns),
    },
    Field {
        name: "cold_total_ms",
        unit: Unit::Milliseconds,
        definition: "all stages above up to the end of the first run, gaps left out",
        source: "stages and the first trial",
        get: |s| Value::ms(s.cold.total_ns),
    },
];
