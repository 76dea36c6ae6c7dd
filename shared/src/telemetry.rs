//! Telemetry: channels, and samples as columns of time, value and quality.

use serde::{Deserialize, Serialize};

use crate::columns::NULL;
use crate::device::Reading;
use crate::order::OrderKey;
use crate::units::Nanos;

/// How much of the board is watched while a repeat runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub enum TelemetryMode {
    Off,
    /// Everything ten times a second, what is slow or dear once a second.
    #[default]
    Normal,
    /// The few channels that move fast a hundred times a second, the others as in `Normal`.
    Fast,
}

impl TelemetryMode {
    pub const ALL: [Self; 3] = [Self::Off, Self::Normal, Self::Fast];

    pub const fn name(self) -> &'static str {
        match self {
            Self::Off => "off",
            Self::Normal => "normal",
            Self::Fast => "fast",
        }
    }
}

/// One telemetry series.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Channel {
    pub id: u16,
    pub name: String,
    pub unit: String,
    pub kind: ChannelKind,
    /// The file or call it is read from.
    pub source: String,
    /// How often the source itself changes; none when unknown.
    pub native_period: Option<Nanos>,
    pub fidelity: Fidelity,
    /// How often it was to be read; none for what is read once or cannot be read.
    pub period: Option<Nanos>,
    /// What the first read gave, or why it gave nothing.
    pub probe: Reading,
}

/// A channel and its newest sample.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChannelNow {
    pub channel: Channel,
    /// When it was read last; none when it never was.
    pub at: Option<Nanos>,
    /// None when that read gave no value.
    pub value: Option<i64>,
}

/// Sent by the agent in answer to `Watch`: the board as it is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Watched {
    /// The repeat that runs.
    pub running: Option<OrderKey>,
    pub channels: Vec<ChannelNow>,
}

/// What a sample is worth; the code is what the column holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Quality {
    Ok,
    /// The source itself says that its value is not of now.
    Stale,
    /// There is nothing to read (any more).
    Absent,
    Denied,
    /// Another tool holds it, or it sleeps: it may have a value later.
    Busy,
    ParseError,
}

impl Quality {
    pub const ALL: [Self; 6] = [
        Self::Ok,
        Self::Stale,
        Self::Absent,
        Self::Denied,
        Self::Busy,
        Self::ParseError,
    ];

    pub const fn code(self) -> u8 {
        self as u8
    }

    pub fn from_code(code: u8) -> Option<Self> {
        Self::ALL.get(usize::from(code)).copied()
    }

    pub const fn name(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Stale => "stale",
            Self::Absent => "absent",
            Self::Denied => "denied",
            Self::Busy => "busy",
            Self::ParseError => "parse_error",
        }
    }

    /// The same as the state of a reading, with its reason.
    pub fn reading(self, text: String) -> Reading {
        match self {
            Self::Ok => Reading::Ok(text),
            Self::Stale => Reading::Stale(text),
            Self::Absent => Reading::Absent(text),
            Self::Denied => Reading::Denied(text),
            Self::Busy => Reading::Busy(text),
            Self::ParseError => Reading::ParseError(text),
        }
    }
}

/// The value of a sample that was not read: unknown is never zero.
pub const NOT_READ: i64 = NULL;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum ChannelKind {
    /// A value of now.
    Gauge,
    /// It only grows; what counts is how much between two samples.
    Counter,
    /// A step on a scale of the source's own, such as the state of a cooling device.
    State,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Fidelity {
    Measured,
    /// A mean over a time of the driver's choice: faster reading gives a staircase.
    DriverAveraged,
    /// Worked out from other values.
    Derived,
    Estimated,
}

/// Samples of one channel: three columns of the same length.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Samples {
    pub channel: u16,
    /// Middle of each read, by the board's monotonic clock.
    pub at_ns: Vec<i64>,
    /// [`NOT_READ`] wherever the quality is not ok or stale.
    pub value: Vec<i64>,
    /// Codes of [`Quality`].
    pub quality: Vec<u8>,
}
