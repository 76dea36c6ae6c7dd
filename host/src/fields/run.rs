//! The run and the case.

use super::{Field, Subject, Unit, Value};

pub(super) const SUBJECT: Subject = Subject {
    name: "run",
    title: "Run and case",
    fields: FIELDS,
};

const FIELDS: &[Field] = &[
    Field {
        name: "run_id",
        unit: Unit::Text,
        definition: "id of the run",
        source: "run",
        get: |s| Value::text(Some(&s.run.id.0)),
    },
    Field {
        name: "run_created",
        unit: Unit::Text,
        definition: "when the run began, in UTC",
        source: "run",
        get: |s| Value::text(crate::documents::utc(s.run.created_unix_ns)),
    },
    Field {
        name: "run_status",
        unit: Unit::Text,
        definition: "how the run stands",
        source: "run",
        get: |s| Value::text(Some(s.run.status.name())),
    },
    Field {
        name: "run_tags",
        unit: Unit::Text,
        definition: "tags of the run",
        source: "run",
        get: |s| Value::text(Some(s.run.tags.join(", "))),
    },
    Field {
        name: "case_key",
        unit: Unit::Text,
        definition: "key of the case, with the hashes of its contents",
        source: "case",
        get: |s| Value::text(Some(s.key.to_string())),
    },
    Field {
        name: "case_match_key",
        unit: Unit::Text,
        definition: "key of the case by names and axis values only",
        source: "case",
        get: |s| Value::text(Some(s.match_key.to_string())),
    },
    Field {
        name: "repeats_planned_count",
        unit: Unit::Count,
        definition: "repeats that were planned",
        source: "run",
        get: |s| Value::count(s.counts.repeats_planned.map(u64::from)),
    },
    Field {
        name: "repeats_count",
        unit: Unit::Count,
        definition: "repeats that count",
        source: "repeats",
        get: |s| Value::Count(s.counts.repeats_complete.into()),
    },
    Field {
        name: "repeats_failed_count",
        unit: Unit::Count,
        definition: "repeats without a complete attempt",
        source: "repeats",
        get: |s| Value::Count(s.counts.repeats_failed.into()),
    },
    Field {
        name: "attempts_count",
        unit: Unit::Count,
        definition: "attempts of all repeats, both passes",
        source: "repeats",
        get: |s| Value::Count(s.counts.attempts.into()),
    },
    Field {
        name: "memory_limit_bytes",
        unit: Unit::Bytes,
        definition: "limit of the worker's data segment (RLIMIT_DATA); null where none was set",
        source: "rules",
        get: |s| Value::count(s.rules.limits.memory_bytes),
    },
    Field {
        name: "findings_count",
        unit: Unit::Count,
        definition: "findings of this case",
        source: "rule table",
        get: |s| Value::Count(s.findings.len() as u64),
    },
    Field {
        name: "simulated",
        unit: Unit::Flag,
        definition: "whether these figures are no measurements of a model",
        source: "board description",
        get: |s| Value::Flag(s.simulated),
    },
    Field {
        name: "tool_version",
        unit: Unit::Text,
        definition: "version of EdgeDyno that ran the plan",
        source: "run",
        get: |s| Value::text(Some(&s.run.tool_version)),
    },
    Field {
        name: "agent_version",
        unit: Unit::Text,
        definition: "version of the agent on the board",
        source: "board description",
        get: |s| Value::text(s.environment.agent_version.as_ref()),
    },
    Field {
        name: "agent_build",
        unit: Unit::Text,
        definition: "build of the agent that measured",
        source: "start of the repeat",
        get: |s| Value::text(s.environment.agent_build.as_ref()),
    },
    Field {
        name: "cite",
        unit: Unit::Text,
        definition: "one line to quote the result with",
        source: "all of it",
        get: |s| Value::text(Some(&s.cite)),
    },
];
