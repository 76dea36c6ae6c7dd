//! Threads and CPUs.

use super::{Field, Subject, Unit, Value};

pub(super) const SUBJECT: Subject = Subject {
    name: "placement",
    title: "Placement",
    fields: FIELDS,
};

const FIELDS: &[Field] = &[
    Field {
        name: "threads_requested_count",
        unit: Unit::Count,
        definition: "threads inside an operator as asked for; null leaves it to the runtime",
        source: "case",
        get: |s| Value::count(s.placement.threads_requested.map(u64::from)),
    },
    Field {
        name: "threads_observed_count",
        unit: Unit::Count,
        definition: "threads of the worker after the window, or when it was last looked at before it failed",
        source: "placement read from the kernel",
        get: |s| Value::count(s.placement.threads_observed.map(u64::from)),
    },
    Field {
        name: "threads_busy_count",
        unit: Unit::Count,
        definition: "threads that were on a CPU for at least 5 % of the window or a quarter of the busiest thread's time; null for windows below 50 ms",
        source: "CPU time of each thread",
        get: |s| Value::count(s.placement.threads_busy.map(u64::from)),
    },
    Field {
        name: "cpus_requested",
        unit: Unit::Text,
        definition: "CPUs asked for; null leaves it to the agent",
        source: "case",
        get: |s| cpus(s.placement.cpus_requested.as_ref()),
    },
    Field {
        name: "cpus_wanted",
        unit: Unit::Text,
        definition: "CPUs that the agent told every thread to use",
        source: "placement",
        get: |s| cpus(s.placement.cpus_wanted.as_ref()),
    },
    Field {
        name: "cpus_observed",
        unit: Unit::Text,
        definition: "CPUs that any thread was allowed to use then",
        source: "placement read from the kernel",
        get: |s| cpus(s.placement.cpus_observed.as_ref()),
    },
];

fn cpus(cpus: Option<&Vec<u16>>) -> Value {
    Value::text(cpus.map(|cpus| cpu_list(cpus)))
}

/// CPUs as a list of ranges: `0-3,6`.
fn cpu_list(cpus: &[u16]) -> String {
    let runs = cpus.chunk_by(|a, b| a + 1 == *b);
    let text = runs.map(|run| match run {
        [first, .., last] => format!("{first}-{last}"),
        [one] => one.to_string(),
        [] => String::new(),
    });
    text.collect::<Vec<_>>().join(",")
}
