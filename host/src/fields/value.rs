//! The value of a field.

use std::fmt;

/// A value in its field's unit.
#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    Number(f64),
    Count(u64),
    Text(String),
    Flag(bool),
    /// Not measured, or not known; never zero and never empty.
    Unknown,
}

impl Value {
    /// Nanoseconds as milliseconds.
    pub(super) fn ms(ns: Option<f64>) -> Self {
        Self::number(ns.map(|ns| ns / 1e6))
    }

    /// A number; what is not finite is not known.
    pub(super) fn number(number: Option<f64>) -> Self {
        number
            .filter(|x| x.is_finite())
            .map_or(Self::Unknown, Self::Number)
    }

    pub(super) fn count(count: Option<u64>) -> Self {
        count.map_or(Self::Unknown, Self::Count)
    }

    pub(super) fn flag(flag: Option<bool>) -> Self {
        flag.map_or(Self::Unknown, Self::Flag)
    }

    pub(super) fn text(text: Option<impl Into<String>>) -> Self {
        text.map_or(Self::Unknown, |text| Self::Text(text.into()))
    }

    /// The value as a number, for conditions and axes; none for text and what is not known.
    pub fn as_f64(&self) -> Option<f64> {
        match self {
            Self::Number(number) => Some(*number),
            Self::Count(count) => Some(*count as f64),
            Self::Text(_) | Self::Flag(_) | Self::Unknown => None,
        }
    }
}

impl From<&Value> for serde_json::Value {
    fn from(value: &Value) -> Self {
        match value {
            Value::Number(number) => (*number).into(),
            Value::Count(count) => (*count).into(),
            Value::Text(text) => text.as_str().into(),
            Value::Flag(flag) => (*flag).into(),
            Value::Unknown => Self::Null,
        }
    }
}

/// The bare value as `get` prints it: unrounded, `null` when not known.
impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Number(number) => write!(f, "{number}"),
            Self::Count(count) => write!(f, "{count}"),
            Self::Text(text) => f.write_str(text),
            Self::Flag(flag) => write!(f, "{flag}"),
            Self::Unknown => f.write_str("null"),
        }
    }
}
