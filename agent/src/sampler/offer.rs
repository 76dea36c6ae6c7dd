//! Channels before they have a number: what a sampler offers, and what it found.

use edgedyno_shared::device::Reading;
use edgedyno_shared::telemetry::{ChannelKind, Fidelity, TelemetryMode};
use edgedyno_shared::units::Nanos;

use super::Source;

/// A channel, or a family of them, as documented.
#[derive(Debug, Clone, Copy)]
pub struct Offer {
    /// Parts that a board fills in are in capitals: `cpu.N.busy`.
    pub name: &'static str,
    pub unit: &'static str,
    pub kind: ChannelKind,
    pub fidelity: Fidelity,
    /// How often the source itself changes, where that is known.
    pub native_period: Option<Nanos>,
    pub source: &'static str,
    /// Who may read it.
    pub rights: &'static str,
    /// Which boards have it.
    pub boards: &'static str,
    /// What it means and what it does not.
    pub meaning: &'static str,
}

/// One channel of a source.
#[derive(Debug, Clone)]
pub struct Spec {
    pub name: String,
    pub unit: &'static str,
    pub kind: ChannelKind,
    pub fidelity: Fidelity,
    pub native_period: Option<Nanos>,
    /// The file or call it is read from.
    pub source: String,
}

impl Offer {
    /// The family's member of that name.
    pub fn spec(&self, name: impl Into<String>, source: impl Into<String>) -> Spec {
        Spec {
            name: name.into(),
            unit: self.unit,
            kind: self.kind,
            fidelity: self.fidelity,
            native_period: self.native_period,
            source: source.into(),
        }
    }

    /// The channel as this board has not got it.
    pub fn absent(&self, reason: impl Into<String>) -> Found {
        let spec = self.spec(self.name, self.source);
        Found::Missing(spec, Reading::Absent(reason.into()))
    }
}

/// How often a source is worth reading.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tier {
    /// Tiny files that move fast.
    Fast,
    Normal,
    /// It moves in moments, and its file is dear to read.
    Dear,
    /// Large files, and what changes once a second or slower.
    Slow,
    /// It does not change while the board runs.
    Once,
}

impl Tier {
    pub const fn period(self, mode: TelemetryMode) -> Option<Nanos> {
        match (self, mode) {
            (Self::Fast, TelemetryMode::Fast) => Some(Nanos::from_millis(10)),
            (Self::Fast | Self::Normal, _) | (Self::Dear, TelemetryMode::Fast) => {
                Some(Nanos::from_millis(100))
            }
            (Self::Dear | Self::Slow, _) => Some(Nanos::from_secs(1)),
            (Self::Once, _) => None,
        }
    }
}

/// What a sampler found.
pub enum Found {
    Source {
        tier: Tier,
        /// A read may wait for a bus or a firmware: it must not hold up the others.
        is_blocking: bool,
        channels: Vec<Spec>,
        source: Box<dyn Source>,
    },
    /// A channel that this board has not got, with the reason.
    Missing(Spec, Reading),
}

impl Found {
    pub fn new(tier: Tier, channels: Vec<Spec>, source: impl Source + 'static) -> Self {
        Self::Source {
            tier,
            is_blocking: false,
            channels,
            source: Box::new(source),
        }
    }

    /// The same for a source that may wait.
    pub fn blocking(tier: Tier, channels: Vec<Spec>, source: impl Source + 'static) -> Self {
        Self::Source {
            tier,
            is_blocking: true,
            channels,
            source: Box::new(source),
        }
    }

    /// How many channels it has.
    pub fn count(&self) -> usize {
        match self {
            Self::Missing(..) => 1,
            Self::Source { channels, .. } => channels.len(),
        }
    }

    pub fn is_blocking(&self) -> bool {
        matches!(
            self,
            Self::Source {
                is_blocking: true,
                ..
            }
        )
    }
}
