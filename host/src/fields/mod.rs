//! The field table: every figure that has a name, with its unit, its meaning and where it comes from.
//!
//! One row makes a field known to `explain`, `get`, the JSON of `summary`, its schema and
//! `docs/fields.md`.

mod board;
mod clock;
mod cold;
pub mod condition;
mod cost;
mod environment;
mod latency;
mod load;
mod lookup;
mod memory;
mod model;
mod page;
mod placement;
mod run;
mod soak;
mod value;

#[cfg(test)]
mod tests;

use crate::summary::CaseSummary;

pub use lookup::{UnknownField, find, find_for_condition};
pub use page::page;
pub use value::Value;

/// One field.
#[derive(Debug, Clone, Copy)]
pub struct Field {
    /// snake_case, the unit last.
    pub name: &'static str,
    pub unit: Unit,
    pub definition: &'static str,
    /// Which records of a repeat it is made from.
    pub source: &'static str,
    pub get: fn(&CaseSummary) -> Value,
}

/// Fields of one subject.
#[derive(Debug, Clone, Copy)]
pub struct Subject {
    pub name: &'static str,
    pub title: &'static str,
    pub fields: &'static [Field],
}

/// What a field's number counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unit {
    Milliseconds,
    Hertz,
    Bytes,
    /// A number of things.
    Count,
    /// A part of one.
    Share,
    Celsius,
    Watts,
    Joules,
    /// A number without a unit.
    Figure,
    Text,
    Flag,
}

/// The table, by subject.
pub const SUBJECTS: &[Subject] = &[
    latency::SUBJECT,
    cold::SUBJECT,
    memory::SUBJECT,
    placement::SUBJECT,
    model::SUBJECT,
    environment::SUBJECT,
    load::SUBJECT,
    clock::SUBJECT,
    board::SUBJECT,
    soak::SUBJECT,
    cost::SUBJECT,
    run::SUBJECT,
];

/// All fields in the order of the table.
pub fn all() -> impl Iterator<Item = &'static Field> {
    SUBJECTS.iter().flat_map(|subject| subject.fields)
}

impl Unit {
    /// The unit as `explain` and the JSON of `explain` write it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Milliseconds => "ms",
            Self::Hertz => "Hz",
            Self::Bytes => "bytes",
            Self::Count => "count",
            Self::Share => "share of 1",
            Self::Celsius => "°C",
            Self::Watts => "W",
            Self::Joules => "J",
            Self::Figure => "number",
            Self::Text => "text",
            Self::Flag => "true or false",
        }
    }

    /// The JSON type of a known value.
    pub const fn json_type(self) -> &'static str {
        match self {
            Self::Milliseconds
            | Self::Hertz
            | Self::Share
            | Self::Celsius
            | Self::Watts
            | Self::Joules
            | Self::Figure => "number",
            Self::Bytes | Self::Count => "integer",
            Self::Text => "string",
            Self::Flag => "boolean",
        }
    }
}
