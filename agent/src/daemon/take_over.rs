//! `edgedyno-agent take-over`: from now on this program serves here. What `board add` and `board update` run
//! once they have brought it.

use std::io;
use std::os::unix::net::UnixStream;
use std::time::Duration;

use edgedyno_shared::folders::AgentFolders;
use edgedyno_shared::ids::{BuildId, StoreId};
use edgedyno_shared::units::Nanos;
use edgedyno_shared::wire::frame::{Frame, kind};
use edgedyno_shared::wire::hello::{DaemonStatus, Hello, HelloReply, Verdict};

use super::{ask, program};
use crate::clock::{self, Clock, Monotonic};
use crate::disk;

/// A daemon that measures nothing makes way within this time.
const PATIENCE: Nanos = Nanos::from_secs(10);

/// One that does not know of programs that follow one another is told to leave after this.
const TOLD_AFTER: Nanos = Nanos::from_secs(2);

const BETWEEN: Duration = Duration::from_millis(100);

/// Who serves now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Served {
    /// Nobody, until a relay or a service manager starts this program.
    Nobody,
    /// This build.
    ByThis,
    /// Another build, until the repeat that it runs has ended.
    ByAnother,
}

impl Served {
    pub fn name(self) -> &'static str {
        match self {
            Self::Nobody => "nobody",
            Self::ByThis => "this",
            Self::ByAnother => "another",
        }
    }
}

/// Names this program, and waits until another makes way, unless that one has a repeat to end.
///
/// # Errors
/// When the state folder cannot be written, or a daemon that measures nothing stays.
pub fn run(folders: &AgentFolders) -> io::Result<Served> {
    disk::private_folder(&folders.state)?;
    program::put_own(&folders.state)?;
    let begun = Monotonic.now();
    loop {
        let waited = Monotonic.now() - begun;
        match look(folders, waited >= TOLD_AFTER) {
            Ok(Look::This) => return Ok(Served::ByThis),
            Ok(Look::Another { running: true }) => return Ok(Served::ByAnother),
            Ok(Look::Another { running: false }) => {}
            Err(why) if is_nobody(&why) => return Ok(Served::Nobody),
            // It was leaving while we asked.
            Err(why) if waited < PATIENCE => tracing::debug!("asked in vain: {why}"),
            Err(why) => return Err(why),
        }
        if waited >= PATIENCE {
            return Err(io::Error::other("the agent before this one stays"));
        }
        clock::pause(BETWEEN);
    }
}

enum Look {
    This,
    Another { running: bool },
}

/// Who answers. That somebody came and went is what makes a daemon look whether it is still wanted; one of
/// another schema cannot know the name of this program, and one that is told leaves.
fn look(folders: &AgentFolders, tell: bool) -> io::Result<Look> {
    let mut socket = ask::connect(folders)?;
    socket.set_read_timeout(Some(ask::PATIENCE))?;
    let hello = Hello::new(BuildId(crate::BUILD_ID.into()), StoreId::NONE);
    let reply = ask::exchange(&mut socket, &hello.to_frame(), kind::HELLO_REPLY)?;
    let reply = HelloReply::parse(&reply.payload).map_err(io::Error::other)?;
    if reply.verdict == Verdict::Welcome && reply.agent.build.0 == crate::BUILD_ID {
        return Ok(Look::This);
    }
    let running = match tell || reply.verdict != Verdict::Welcome {
        true => status(&mut socket, kind::RETIRE, kind::RETIRE_REPLY)?.running,
        false => status(&mut socket, kind::STATUS, kind::STATUS_REPLY)?.running,
    };
    Ok(Look::Another { running })
}

fn status(socket: &mut UnixStream, ask: u8, answer: u8) -> io::Result<DaemonStatus> {
    let reply = ask::exchange(socket, &Frame::empty(ask), answer)?;
    DaemonStatus::parse(&reply.payload).map_err(io::Error::other)
}

/// Whether the error says that nobody listens.
fn is_nobody(why: &io::Error) -> bool {
    matches!(
        why.kind(),
        io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused
    )
}
