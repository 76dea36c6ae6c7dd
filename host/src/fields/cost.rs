//! The tool's own cost.

use super::{Field, Subject, Unit, Value};

pub(super) const SUBJECT: Subject = Subject {
    name: "cost",
    title: "The tool's own cost",
    fields: FIELDS,
};

const FIELDS: &[Field] = &[
    Field {
        name: "tool_cpu_ms",
        unit: Unit::Milliseconds,
        definition: "CPU time of the agent inside the windows, summed over repeats",
        source: "agent cost",
        get: |s| Value::ms(s.tool.cpu_ns.map(|ns| ns as f64)),
    },
    Field {
        name: "tool_cpu_share",
        unit: Unit::Share,
        definition: "the same as a share of one CPU",
        source: "agent cost",
        get: |s| Value::number(s.tool.cpu_share()),
    },
    Field {
        name: "tool_arena_reads_count",
        unit: Unit::Count,
        definition: "reads of the arena inside the windows",
        source: "agent cost",
        get: |s| Value::count(s.tool.arena_reads),
    },
    Field {
        name: "tool_arena_stalls_count",
        unit: Unit::Count,
        definition: "times a worker waited for the agent between two trials",
        source: "agent cost",
        get: |s| Value::count(s.tool.arena_stalls),
    },
    Field {
        name: "tool_progress_bytes",
        unit: Unit::Bytes,
        definition: "bytes of progress sent inside the windows",
        source: "agent cost",
        get: |s| Value::count(s.tool.progress_bytes),
    },
    Field {
        name: "tool_spilled_bytes",
        unit: Unit::Bytes,
        definition: "bytes of trials that did not fit on tmpfs and went to a disk meanwhile, summed over repeats",
        source: "agent cost",
        get: |s| Value::count(s.tool.spilled_bytes),
    },
    Field {
        name: "tool_allocator_calls_count",
        unit: Unit::Count,
        definition: "calls of the agent's allocator by the measuring threads inside the windows, summed over repeats: by the loop, and by a runtime written in Rust",
        source: "agent cost",
        get: |s| Value::count(s.tool.allocator_calls),
    },
    Field {
        name: "tool_system_calls_count",
        unit: Unit::Count,
        definition: "system calls of the measuring threads inside the windows, summed over repeats; counted with the backend null, where the kernel lets the worker count",
        source: "agent cost",
        get: |s| Value::count(s.tool.system_calls),
    },
    Field {
        name: "tool_cpus",
        unit: Unit::Text,
        definition: "CPUs the agent kept to; empty when it could not keep away from the worker's",
        source: "agent cost",
        get: |s| {
            Value::text(s.tool.cpus.as_ref().map(|cpus| {
                cpus.iter()
                    .map(u16::to_string)
                    .collect::<Vec<_>>()
                    .join(",")
            }))
        },
    },
];
