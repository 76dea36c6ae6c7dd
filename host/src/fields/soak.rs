//! Long runs.

use super::{Field, Subject, Unit, Value};
use crate::soak::Soak;
use crate::summary::CaseSummary;

pub(super) const SUBJECT: Subject = Subject {
    name: "soak",
    title: "Long runs",
    fields: FIELDS,
};

fn of<T>(s: &CaseSummary, get: impl Fn(&Soak) -> Option<T>) -> Option<T> {
    s.soak.as_ref().and_then(get)
}

fn ms(seconds: Option<f64>) -> Value {
    Value::ms(seconds.map(|seconds| seconds * 1e9))
}

const FIELDS: &[Field] = &[
    Field {
        name: "soak_first_p50_ms",
        unit: Unit::Milliseconds,
        definition: "median latency of the first minute of a `--soak`, or of its first tenth where that is shorter",
        source: "trials",
        get: |s| Value::number(of(s, |soak| Some(soak.first.p50_ms))),
    },
    Field {
        name: "soak_first_rate_hz",
        unit: Unit::Hertz,
        definition: "trials a second of the same stretch",
        source: "trials",
        get: |s| Value::number(of(s, |soak| Some(soak.first.rate_hz))),
    },
    Field {
        name: "soak_sustained_p50_ms",
        unit: Unit::Milliseconds,
        definition: "median latency of the last quarter",
        source: "trials",
        get: |s| Value::number(of(s, |soak| Some(soak.sustained.p50_ms))),
    },
    Field {
        name: "soak_sustained_rate_hz",
        unit: Unit::Hertz,
        definition: "trials a second of the last quarter",
        source: "trials",
        get: |s| Value::number(of(s, |soak| Some(soak.sustained.rate_hz))),
    },
    Field {
        name: "soak_sustained_share",
        unit: Unit::Share,
        definition: "soak_sustained_rate_hz as a share of soak_first_rate_hz",
        source: "trials",
        get: |s| {
            Value::number(of(s, |soak| {
                Some(soak.sustained.rate_hz / soak.first.rate_hz)
            }))
        },
    },
    Field {
        name: "soak_throttled_after_ms",
        unit: Unit::Milliseconds,
        definition: "from the first measured trial to the first sign that the board was held back: a cooling device at work, a limit that fell, a slow-down that was counted; unknown where there was no sign",
        source: "telemetry",
        get: |s| ms(of(s, |soak| Some(soak.throttled.as_ref()?.after_seconds))),
    },
    Field {
        name: "soak_throttled_by",
        unit: Unit::Text,
        definition: "the channel that showed it",
        source: "telemetry",
        get: |s| Value::text(of(s, |soak| Some(soak.throttled.as_ref()?.channel.clone()))),
    },
    Field {
        name: "soak_slowed_after_ms",
        unit: Unit::Milliseconds,
        definition: "from the first measured trial to when the rate fell for good below 95 % of the first stretch's, in steps of a sixtieth of the window; unknown where it did not",
        source: "trials",
        get: |s| ms(of(s, |soak| soak.slowed_after_seconds)),
    },
    Field {
        name: "soak_recovered_after_ms",
        unit: Unit::Milliseconds,
        definition: "from the last trial to when every sign was gone; unknown where there was none, or where one stayed for as long as the board was watched",
        source: "telemetry",
        get: |s| ms(of(s, |soak| soak.recovered_after_seconds)),
    },
    Field {
        name: "soak_p50_per_celsius_ms",
        unit: Unit::Milliseconds,
        definition: "how much the median grows with a degree of the hottest sensor: slope of the line of least squares over slices of the window",
        source: "trials, telemetry",
        get: |s| Value::number(of(s, |soak| Some(soak.heat.as_ref()?.p50_ms_per_celsius))),
    },
    Field {
        name: "soak_heat_correlation",
        unit: Unit::Figure,
        definition: "Pearson's coefficient of the two; it does not say which is the reason of which",
        source: "trials, telemetry",
        get: |s| Value::number(of(s, |soak| soak.heat.as_ref()?.correlation)),
    },
];
