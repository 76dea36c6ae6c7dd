//! Finding a field by what somebody typed.

use super::{Field, all};
use crate::near;

/// A name that no field has, with those it may have meant.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("no field `{wanted}`")]
pub struct UnknownField {
    pub wanted: String,
    pub near: Vec<String>,
}

impl UnknownField {
    pub fn hint(&self) -> String {
        match self.near.as_slice() {
            [] => "`edgedyno explain` lists all fields".into(),
            near => format!("did you mean {}?", near.join(" or ")),
        }
    }
}

/// The field of exactly this name.
pub fn find(name: &str) -> Result<&'static Field, UnknownField> {
    all()
        .find(|field| field.name == name)
        .ok_or_else(|| UnknownField {
            wanted: name.into(),
            near: near::matches(name, all().map(|field| field.name)),
        })
}

/// The field that a condition names: short for latencies and rate (`p99`, `mean`), else by name.
pub fn find_for_condition(name: &str) -> Result<&'static Field, UnknownField> {
    match name {
        "rate" => find("rate_hz"),
        "mean" => find("latency_mean_ms"),
        "p50" | "p90" | "p95" | "p99" | "p99.9" | "p99.99" => {
            find(&format!("latency_{}_ms", name.replace('.', "_")))
        }
        other => find(other),
    }
}
