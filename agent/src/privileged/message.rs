//! What daemon and helper say to each other: one message a request, one an answer.

use std::io;

use edgedyno_shared::repeat::Effective;
use edgedyno_sys::kernel::perf::Event;
use serde::{Deserialize, Serialize};

/// A request is a few words; a longer message is none.
pub const REQUEST_BYTES: usize = 1024;

/// An answer names each clock of the board.
pub const ANSWER_BYTES: usize = 64 << 10;

/// Sent by the daemon.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Request {
    /// A file of the list: its row, and what stands for its `*`.
    Open {
        row: u8,
        name: String,
    },
    Count(Counted),
    HoldClocks,
    RestoreClocks,
}

/// A counter: of a memory controller, or of a process of the daemon's own user.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counted {
    pub source: u32,
    pub config: [u64; 3],
    pub exclude_kernel: bool,
    pub inherit: bool,
    pub process: Option<i32>,
    pub cpu: Option<i32>,
}

impl Counted {
    pub fn new(event: Event, process: Option<i32>, cpu: Option<i32>) -> Self {
        Self {
            source: event.source,
            config: event.config,
            exclude_kernel: event.exclude_kernel,
            inherit: event.inherit,
            process,
            cpu,
        }
    }

    pub fn event(&self) -> Event {
        Event {
            source: self.source,
            config: self.config,
            exclude_kernel: self.exclude_kernel,
            inherit: self.inherit,
        }
    }
}

/// Sent by the helper.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Answer {
    /// The open file comes with the message.
    Opened,
    /// What was asked of each clock and what stands there now.
    Held(Vec<Effective>),
    Restored,
    /// The kernel's number of the error, and words.
    Refused {
        errno: i32,
        why: String,
    },
}

pub fn encode(message: &impl Serialize) -> io::Result<Vec<u8>> {
    postcard::to_stdvec(message).map_err(io::Error::other)
}

/// A message and nothing behind it.
pub fn decode<'a, T: Deserialize<'a>>(bytes: &'a [u8]) -> io::Result<T> {
    match postcard::take_from_bytes(bytes) {
        Ok((message, [])) => Ok(message),
        _ => Err(io::Error::new(
            io::ErrorKind::InvalidData,
            "not a message of ours",
        )),
    }
}
