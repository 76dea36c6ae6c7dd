//! The JSON schema of the summary document; its fields are those of the table.

use serde_json::{Map, Value, json};

use crate::fields;
use crate::findings;
use crate::store::rows::OutcomeKind;

use super::DOCUMENT;

/// `docs/schema/summary.json` (draft 2020-12).
pub fn schema() -> Value {
    json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "edgedyno summary --json",
        "type": "object",
        "required": ["document", "cases"],
        "properties": {
            "document": {"const": DOCUMENT},
            "cases": {"type": "array", "items": {"$ref": "#/$defs/case"}},
        },
        "$defs": {
            "case": closed(json!({
                "fields": {"$ref": "#/$defs/fields"},
                "case": {"type": "object"},
                "rules": {"type": "object"},
                "repeats": list_of("repeat"),
                "settings": list_of("setting"),
                "model": {"type": ["object", "null"]},
                "runtime": {"type": ["object", "null"]},
                "outputs": {"type": "array", "items": {"type": "object"}},
                "tenants": list_of("tenant"),
                "environment": list_of("fact"),
                "not_watched": list_of("missing"),
                "failures": list_of("failure"),
                "findings": list_of("finding"),
            })),
            "fields": fields_schema(),
            "repeat": repeat(),
            "clock_exchange": clock_exchange(),
            "setting": closed(json!({
                "name": {"type": "string"},
                "requested": {"type": ["string", "null"]},
                "observed": {"type": ["string", "null"]},
                "differs": {"type": ["boolean", "null"]},
            })),
            "fact": closed(json!({
                "name": {"type": "string"},
                "state": {"enum": ["ok", "absent", "denied", "busy", "stale", "parse_error"]},
                "value": {"type": ["string", "null"]},
                "reason": {"type": ["string", "null"]},
            })),
            "missing": closed(json!({
                "channel": {"type": "string"},
                "state": {"enum": ["ok", "absent", "denied", "busy", "stale", "parse_error"]},
                "reason": {"type": "string"},
            })),
            "tenant": tenant(),
            "failure": failure(),
            "finding": finding(),
        },
    })
}

/// An object with exactly these members.
fn closed(properties: Value) -> Value {
    let names: Vec<&String> = properties
        .as_object()
        .into_iter()
        .flat_map(Map::keys)
        .collect();
    json!({
        "type": "object",
        "required": names,
        "additionalProperties": false,
        "properties": properties,
    })
}

fn list_of(name: &str) -> Value {
    json!({"type": "array", "items": {"$ref": format!("#/$defs/{name}")}})
}

fn fields_schema() -> Value {
    let properties = fields::all().map(|field| {
        let schema = json!({
            "type": [field.unit.json_type(), "null"],
            "description": format!("{} ({})", field.definition, field.unit.name()),
        });
        (field.name.to_owned(), schema)
    });
    closed(Value::Object(properties.collect()))
}

fn outcomes() -> Value {
    let all = [
        OutcomeKind::Complete,
        OutcomeKind::Cancelled,
        OutcomeKind::Failed,
        OutcomeKind::Raw,
    ];
    json!({"enum": all.map(OutcomeKind::name)})
}

fn repeat() -> Value {
    let number = json!({"type": ["number", "null"]});
    let count = json!({"type": "integer", "minimum": 0});
    closed(json!({
        "repeat": count,
        "attempt": count,
        "pass": {"enum": ["honest", "attributed"]},
        "outcome": outcomes(),
        "counts": {"type": "boolean"},
        "trials_count": count,
        "trials_failed_count": count,
        "warmup_trials_count": count,
        "window_ms": number,
        "rate_hz": number,
        "latency_p50_ms": number,
        "latency_p99_ms": number,
        "latency_mean_ms": number,
        "steadiness": {"type": ["object", "null"]},
        "began_unix_ns": {"type": ["integer", "null"]},
        "clock_exchanges": list_of("clock_exchange"),
        "clock_readings_count": count,
    }))
}

fn clock_exchange() -> Value {
    let known = json!({"type": ["integer", "null"]});
    closed(json!({
        "moment": {"enum": ["before", "after"]},
        "state": {"enum": ["answered", "no_host", "silent", "unsound"]},
        "rounds": {"type": "integer", "minimum": 0},
        "asked_ns": known,
        "received_ns": known,
        "answered_ns": known,
        "heard_ns": known,
        "host_clock": {"type": ["string", "null"]},
        "host_unix_ns": known,
        "offset_ns": known,
        "bound_ns": known,
        "drift_ppb": known,
        "drift_bound_ppb": known,
    }))
}

/// Another model that ran beside the case.
fn tenant() -> Value {
    let number = json!({"type": ["number", "null"]});
    let count = json!({"type": "integer", "minimum": 0});
    closed(json!({
        "lane": count,
        "model": {"type": "object"},
        "backend": {"type": "string"},
        "runtime": {"type": ["object", "null"]},
        "options": {"type": "object"},
        "threads": count,
        "cpus": {"type": "array", "items": count},
        "millihertz": {"type": ["integer", "null"]},
        "repeats_count": count,
        "trials_count": count,
        "trials_failed_count": count,
        "rate_hz": number,
        "latency_p50_ms": number,
        "latency_p95_ms": number,
        "latency_p99_ms": number,
        "failure": {"type": ["string", "null"]},
    }))
}

fn failure() -> Value {
    let text = json!({"type": ["string", "null"]});
    let count = json!({"type": "integer", "minimum": 0});
    closed(json!({
        "repeat": count,
        "attempt": count,
        "pass": {"enum": ["honest", "attributed"]},
        "outcome": outcomes(),
        "stage": text,
        "code": text,
        "detail": text,
        "hint": text,
        "trials_count": count,
        "stderr": text,
    }))
}

fn finding() -> Value {
    let codes: Vec<&str> = findings::rules().map(|rule| rule.code).collect();
    closed(json!({
        "code": {"enum": codes},
        "level": {"enum": ["note", "warning", "invalid"]},
        "case": {"type": "string", "pattern": "^[0-9a-f]{64}$"},
        "repeat": {"type": ["integer", "null"]},
        "span": {"type": ["array", "null"], "items": {"type": "integer"}, "minItems": 2, "maxItems": 2},
        "figures": {"type": "object"},
        "text": {"type": "string"},
    }))
}
