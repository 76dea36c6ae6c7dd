//! What daemon and worker say to each other over their socket pair.

use edgedyno_shared::device::RuntimeFacts;
use edgedyno_shared::repeat::{Stage, StageSpan, WindowCalls};
use edgedyno_shared::units::Nanos;
use edgedyno_shared::wire::failure::Failure;
use edgedyno_shared::wire::record::Record;
use serde::{Deserialize, Serialize};

use super::job::Job;

/// Kind byte of a [`Task`] frame.
pub const TASK: u8 = 1;
/// Kind byte of a [`Message`] frame.
pub const MESSAGE: u8 = 2;
/// Kind byte of the frame without content that answers [`Message::AwaitsLoad`].
pub const GO: u8 = 3;
/// Kind byte of the frame without content that tells a tenant that the window is open.
pub const WINDOW: u8 = 4;
/// Kind byte of the frame without content that ends a tenant.
pub const STOP: u8 = 5;

/// Sent by the daemon once, after the worker has named its build.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Task {
    Measure(Box<Job>),
    /// Runs beside another case until told to stop, or until the deadline by the monotonic clock.
    Beside {
        job: Box<Job>,
        deadline: Nanos,
    },
    /// Opens a library only to ask what it is.
    Probe {
        backend: String,
        path: String,
    },
}

/// Sent by the worker, in the order things happen.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Message {
    /// The first message.
    Build(String),
    StageBegins {
        stage: Stage,
    },
    StageEnds(StageSpan),
    /// What the window had of them; said when it is over.
    Calls(WindowCalls),
    Record(Box<Record>),
    /// The cold trials are done. A case goes on when the load of its condition has settled, a tenant when
    /// all of that load is ready.
    AwaitsLoad,
    /// Answer to [`Task::Probe`].
    Facts(Result<RuntimeFacts, Failure>),
    Failed {
        stage: Stage,
        failure: Failure,
    },
    /// All is told; the worker leaves.
    Done,
}
