//! The board and its state.

use crate::summary::CaseSummary;

use super::{Field, Subject, Unit, Value};

pub(super) const SUBJECT: Subject = Subject {
    name: "environment",
    title: "Environment",
    fields: FIELDS,
};

const FIELDS: &[Field] = &[
    Field {
        name: "board",
        unit: Unit::Text,
        definition: "the board as it was named",
        source: "case",
        get: |s| Value::text(Some(&s.environment.board)),
    },
    Field {
        name: "os",
        unit: Unit::Text,
        definition: "operating system",
        source: "board description",
        get: |s| Value::text(s.environment.os.as_ref()),
    },
    Field {
        name: "arch",
        unit: Unit::Text,
        definition: "processor architecture",
        source: "board description",
        get: |s| Value::text(s.environment.arch.as_ref()),
    },
    Field {
        name: "cpu_model",
        unit: Unit::Text,
        definition: "processor by its kernel's name",
        source: "fact cpu_model",
        get: |s| fact(s, "cpu_model"),
    },
    Field {
        name: "board_model",
        unit: Unit::Text,
        definition: "board by its device tree",
        source: "fact board_model",
        get: |s| fact(s, "board_model"),
    },
    Field {
        name: "cpus_online_count",
        unit: Unit::Count,
        definition: "CPUs that were online",
        source: "board description",
        get: |s| Value::count(s.environment.cpus.map(u64::from)),
    },
    Field {
        name: "memory_total_bytes",
        unit: Unit::Bytes,
        definition: "memory of the board",
        source: "board description",
        get: |s| Value::count(s.environment.memory_bytes),
    },
    Field {
        name: "kernel_release",
        unit: Unit::Text,
        definition: "kernel release",
        source: "fact kernel_release",
        get: |s| fact(s, "kernel_release"),
    },
    Field {
        name: "governor",
        unit: Unit::Text,
        definition: "frequency governors of the CPUs in use when the repeat began",
        source: "facts governor.POLICY",
        get: |s| facts(s, "governor"),
    },
    Field {
        name: "clock_khz",
        unit: Unit::Text,
        definition: "CPU clocks when the repeat began, in kHz",
        source: "facts clock_khz.*",
        get: |s| facts(s, "clock_khz"),
    },
    Field {
        name: "clock_max_khz",
        unit: Unit::Text,
        definition: "highest CPU clocks allowed, in kHz",
        source: "facts clock_max_khz.*",
        get: |s| facts(s, "clock_max_khz"),
    },
    Field {
        name: "load_average",
        unit: Unit::Text,
        definition: "load averages when the repeat began",
        source: "fact load_average",
        get: |s| fact(s, "load_average"),
    },
    Field {
        name: "temperature_millicelsius",
        unit: Unit::Text,
        definition: "temperatures when the repeat began, in thousandths of a degree",
        source: "facts temperature_millicelsius.*",
        get: |s| facts(s, "temperature_millicelsius"),
    },
    Field {
        name: "environment_id",
        unit: Unit::Text,
        definition: "fingerprint over the lasting facts and the runtime's hash",
        source: "facts",
        get: |s| Value::text(s.environment.fingerprint.as_ref()),
    },
];

fn fact(summary: &CaseSummary, name: &str) -> Value {
    Value::text(summary.environment.fact(name))
}

fn facts(summary: &CaseSummary, subject: &str) -> Value {
    Value::text(summary.environment.facts_of(subject))
}
