//! What a host asks of an agent, and the answers. Each request carries a number that its reply repeats.

use serde::{Deserialize, Serialize};

use crate::content::ContentOffer;
use crate::device::{DeviceInfo, RuntimeFound};
use crate::file_mark::FileMark;
use crate::ids::{RunId, Sha256, StoreId};
use crate::link::role::Role;
use crate::order::{OrderKey, RepeatOrder};
use crate::repeat::Stage;
use crate::telemetry::Watched;
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
    /// A content that orders will name, from a host that shares no files with the agent; answered by
    /// [`Reply::Offered`] before the first byte is sent.
    Offer(ContentOffer),
    /// The next bytes of an offered file; answered by [`Reply::Uploaded`].
    Upload(Upload),
    /// Asks to be the one who measures on this board, which orders and cancels need; answered by
    /// [`Reply::Lease`]. Counts for this session.
    TakeLease {
        /// Also from another host, which must ask again then.
        steal: bool,
        /// Who asks, for people.
        name: String,
    },
    /// Gives the board back.
    GiveLease,
    /// Who measures on this board; answered by [`Reply::Lease`].
    Lease,
    /// Lets one host pair for ten minutes at most. Only for a local user of the same uid; answered by
    /// [`Reply::Ticket`].
    OpenPairing { role: Role },
    /// What the board does now; answered by [`Reply::Watched`]. Asked again and again, at most a few times
    /// a second.
    Watch,
    /// Whose results wait on the board; answered by [`Reply::Waiting`].
    Waiting,
    /// Throws away what waits for a store, and its orders: results of one that is lost wait for ever, and
    /// fill the board.
    DropResults { store: StoreId },
}

/// A piece of a file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Upload {
    /// Of the whole file.
    pub sha256: Sha256,
    pub offset: u64,
    /// At most [`UPLOAD_BYTES`].
    pub bytes: Vec<u8>,
}

/// Bytes of one [`Upload`]: half a frame, so that a reply to something else waits little.
pub const UPLOAD_BYTES: usize = 512 << 10;

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
    /// How many bytes of each offered file are there already; a file that is there whole needs no upload.
    Offered(Vec<u64>),
    /// How many bytes of the file are there now. Another number than expected says where to go on.
    Uploaded(u64),
    Ticket {
        ticket: String,
        /// How long it is good.
        seconds: u64,
    },
    Lease(LeaseState),
    Watched(Watched),
    /// One for each store with something that waits.
    Waiting(Vec<WaitingResults>),
}

/// Finished repeats that wait on the board for one store.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WaitingResults {
    pub store: StoreId,
    pub repeats: u32,
    pub bytes: u64,
    /// When the oldest was finished, by the board's wall clock; none when its file does not say.
    pub oldest_unix_ns: Option<i64>,
}

/// Who measures on a board.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LeaseState {
    /// Grows whenever the board changes hands; orders of an epoch before are refused.
    pub epoch: u64,
    /// Whether it is this session's store.
    pub is_own: bool,
    /// None when nobody holds it.
    pub holder: Option<LeaseHolder>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LeaseHolder {
    pub name: String,
    /// By the board's wall clock.
    pub since_unix_ns: i64,
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
