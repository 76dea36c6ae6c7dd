//! What a host asks of an agent, and the answers. Each request carries a number that its reply repeats.

use serde::{Deserialize, Serialize};

use crate::device::{DeviceInfo, RuntimeFound};
use crate::file_mark::FileMark;
use crate::ids::{RunId, Sha256};
use crate::order::{OrderKey, RepeatOrder};
use crate::repeat::Stage;
use crate::wire::failure::Failure;

/// Sent by the host as `(number, request)`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Request {
    /// Answered by [`Reply::Info`].
    Info,
    /// Where a content named by hash lies on this machine. Only for a local user of the same uid.
    MapContent(ContentMap),
    /// Looks at one library file; answered by [`Reply::Runtime`].
    ProbeRuntime { backend: String, path: String },
    /// Orders to queue, in order; answered by [`Reply::Submitted`], one answer for each.
    Submit(Vec<RepeatOrder>),
    /// What is queued, running or spooled for this store; answered by [`Reply::Queue`].
    Queue,
    /// Ends a run: drops what is queued, and lets the running repeat finish or kills it.
    Cancel { run: RunId, kill: bool },
    /// Everything of this segment is committed: the agent may delete it.
    Acknowledge { segment: u64 },
}

/// A content, the file that holds it, and the files that belong beside it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ContentMap {
    pub sha256: Sha256,
    /// The content's own file first; then those it refers to, by the name it uses.
    pub files: Vec<MappedFile>,
}

/// A file and what it looked like when its hash was taken.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MappedFile {
    pub name: String,
    pub path: String,
    pub mark: FileMark,
}

/// Sent by the agent as `(number, Result<Reply, Failure>)`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Reply {
    Done,
    Info(Box<DeviceInfo>),
    Runtime(RuntimeFound),
    Submitted(Vec<OrderAnswer>),
    Queue(Vec<QueueEntry>),
}

/// What became of one order.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum OrderAnswer {
    Accepted,
    /// Its key is queued, running or spooled already.
    Known,
    Refused(Failure),
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct QueueEntry {
    pub key: OrderKey,
    pub state: QueueState,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum QueueState {
    Queued,
    Running(Stage),
    /// Finished, waiting to be acknowledged.
    Spooled,
}
