//! Small pieces that several rows share.

use std::fmt;

use edgedyno_shared::device::{Fact, Reading};
use edgedyno_shared::ids::{RunId, Sha256};
use edgedyno_shared::order::{OrderKey, Pass};
use edgedyno_shared::repeat::{Moment, Stage};
use edgedyno_shared::wire::failure::Failure;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error as _};

/// A stored enum that mirrors one of the wire, with the name it is stored by.
macro_rules! stored_enum {
    ($(#[$doc:meta])* $row:ident from $wire:ident { $($variant:ident = $name:literal),* $(,)? }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
        pub enum $row {
            $(#[serde(rename = $name)] $variant),*
        }

        impl $row {
            pub const fn name(self) -> &'static str {
                match self { $(Self::$variant => $name),* }
            }
        }

        impl From<$wire> for $row {
            fn from(wire: $wire) -> Self {
                match wire { $($wire::$variant => Self::$variant),* }
            }
        }

        impl From<$row> for $wire {
            fn from(row: $row) -> Self {
                match row { $($row::$variant => Self::$variant),* }
            }
        }
    };
}
pub(super) use stored_enum;

stored_enum! {
    /// A stage of a worker's life.
    StageName from Stage {
        Spawn = "spawn",
        Read = "read",
        Dlopen = "dlopen",
        Load = "load",
        Compile = "compile",
        Bind = "bind",
        Cold = "cold",
        Warmup = "warmup",
        Measure = "measure",
        Teardown = "teardown",
    }
}

stored_enum! {
    /// When placement and memory were read.
    MomentRow from Moment {
        Spawned = "spawned",
        Dlopened = "dlopened",
        Loaded = "loaded",
        AfterFirstTrial = "after_first_trial",
        BeforeWindow = "before_window",
        AfterWindow = "after_window",
    }
}

stored_enum! {
    /// Whether anything inside the region was synchronised or traced.
    PassRow from Pass {
        Honest = "honest",
        Attributed = "attributed",
    }
}

/// A SHA-256 as hex text.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HashRow(pub Sha256);

impl From<Sha256> for HashRow {
    fn from(hash: Sha256) -> Self {
        Self(hash)
    }
}

impl fmt::Display for HashRow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Debug for HashRow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

impl Serialize for HashRow {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(&self.0)
    }
}

impl<'de> Deserialize<'de> for HashRow {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let text = String::deserialize(from)?;
        text.parse().map(Self).map_err(D::Error::custom)
    }
}

/// A fact of the board: `state` is `ok` with a value, or says with a reason why there is none.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct FactRow {
    pub name: String,
    pub state: String,
    pub value: Option<String>,
    pub reason: Option<String>,
}

impl From<&Fact> for FactRow {
    fn from(fact: &Fact) -> Self {
        let reading: &Reading = &fact.value;
        Self {
            name: fact.name.clone(),
            state: reading.state().into(),
            value: reading.value().map(Into::into),
            reason: reading.reason().map(Into::into),
        }
    }
}

/// A failure as it crossed the wire.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FailureRow {
    pub code: String,
    pub detail: String,
    pub hint: Option<String>,
}

impl From<&Failure> for FailureRow {
    fn from(failure: &Failure) -> Self {
        Self {
            code: failure.code.name().into(),
            detail: failure.detail.clone(),
            hint: failure.hint.clone(),
        }
    }
}

/// An order's key in its stored form.
pub mod stored_key {
    use super::{
        Deserialize, Deserializer, HashRow, OrderKey, PassRow, RunId, Serialize, Serializer,
    };

    #[derive(Serialize, Deserialize)]
    struct KeyRow {
        run: String,
        case: HashRow,
        repeat: u32,
        attempt: u32,
        pass: PassRow,
    }

    pub fn serialize<S: Serializer>(key: &OrderKey, to: S) -> Result<S::Ok, S::Error> {
        KeyRow {
            run: key.run.0.clone(),
            case: key.case.into(),
            repeat: key.repeat,
            attempt: key.attempt,
            pass: key.pass.into(),
        }
        .serialize(to)
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<OrderKey, D::Error> {
        let row = KeyRow::deserialize(from)?;
        Ok(OrderKey {
            run: RunId(row.run),
            case: row.case.0,
            repeat: row.repeat,
            attempt: row.attempt,
            pass: row.pass.into(),
        })
    }
}
