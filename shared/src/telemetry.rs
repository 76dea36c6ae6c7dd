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
    /// Why that read gave no value; none where it gave one, or where there was none.
    pub fault: Option<Reading>,
}

impl ChannelNow {
    /// Why there is no value now; none where there is one, or where nothing came yet.
    pub fn missing(&self) -> Option<&Reading> {
        if self.value.is_some() {
            return None;
        }
        let probe = Some(&self.channel.probe).filter(|probe| probe.value().is_none());
        self.fault.as_ref().or(probe)
    }
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

    /// What a reading's state is as the quality of a sample.
    pub fn of(reading: &Reading) -> Self {
        match reading {
            Reading::Ok(_) => Self::Ok,
            Reading::Stale(_) => Self::Stale,
            Reading::Absent(_) => Self::Absent,
            Reading::Denied(_) => Self::Denied,
            Reading::Busy(_) => Self::Busy,
            Reading::ParseError(_) => Self::ParseError,
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quality_and_the_state_of_a_reading_are_one() {
        for quality in Quality::ALL {
            let reading = quality.reading("why".into());
            assert_eq!(reading.state(), quality.name());
            assert_eq!(Quality::of(&reading), quality);
        }
    }
}
