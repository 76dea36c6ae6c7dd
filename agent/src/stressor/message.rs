//! What daemon and stressor say to each other over their socket pair.

use std::io;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

use edgedyno_shared::load::{StressOrder, ToolUsed};
use edgedyno_shared::units::{Bytes, Nanos};
use edgedyno_shared::wire::failure::Failure;
use edgedyno_shared::wire::frame::{self, Frame};
use serde::{Deserialize, Serialize};

/// Kind bytes of the daemon's frames: a [`Task`], and two without content.
pub(super) const TASK: u8 = 1;
pub(super) const GO: u8 = 2;
pub(super) const STOP: u8 = 3;
/// Kind byte of a [`Word`] frame.
pub(super) const WORD: u8 = 4;

/// Sent by the daemon once, after the stressor has named its build.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Task {
    pub(super) order: StressOrder,
    /// Memory of all threads together; none for a stressor that uses none.
    pub(super) working_set: Option<Bytes>,
    pub(super) scratch: PathBuf,
    /// By the monotonic clock, which both share; the stressor ends then whatever the daemon does.
    pub(super) deadline: Nanos,
}

/// Sent by the stressor, in this order.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Word {
    Build(String),
    /// Every thread is bound and has its memory.
    Ready(Ready),
    Started {
        at: Nanos,
    },
    /// What a tool was and says it did.
    Tool(ToolUsed),
    Stopped {
        at: Nanos,
    },
    Failed(Failure),
}

#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub(super) struct Ready {
    pub(super) memory: Option<Bytes>,
    pub(super) huge: Option<Bytes>,
    pub(super) notes: Vec<String>,
}

/// Says a word to the daemon.
pub(super) fn say(voice: &Mutex<UnixStream>, word: &Word) -> io::Result<()> {
    let frame = Frame::encode(WORD, word).map_err(io::Error::other)?;
    let mut control = voice.lock().unwrap_or_else(PoisonError::into_inner);
    frame::write_blocking(&mut *control, &frame)
}

/// Waits for a frame of that kind; any other is the end.
pub(super) fn hear(control: &mut UnixStream, kind: u8) -> io::Result<Frame> {
    let frame = frame::read_blocking(control, frame::LIMIT).map_err(io::Error::other)?;
    let wanted = frame.filter(|frame| frame.kind == kind);
    wanted.ok_or_else(|| io::ErrorKind::UnexpectedEof.into())
}
