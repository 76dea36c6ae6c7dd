//! Telemetry: channels, and samples as columns of time, value and quality.

use serde::{Deserialize, Serialize};

use crate::units::Nanos;

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
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum ChannelKind {
    Gauge,
    Counter,
    State,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Fidelity {
    Measured,
    DriverAveraged,
    Derived,
    Estimated,
}

/// Samples of one channel: three columns of the same length.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Samples {
    pub channel: u16,
    /// Middle of each read, by the board's monotonic clock.
    pub at_ns: Vec<i64>,
    pub value: Vec<i64>,
    /// 0 ok, 1 stale, 2 absent, 3 denied, 4 busy, 5 parse_error.
    pub quality: Vec<u8>,
}
