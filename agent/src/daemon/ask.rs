//! `edgedyno-agent pair`: asks the daemon of this machine for a ticket.

use std::fs::File;
use std::io::{self, Write};
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use edgedyno_shared::folders::AgentFolders;
use edgedyno_shared::ids::{BuildId, StoreId};
use edgedyno_shared::link::role::Role;
use edgedyno_shared::wire::failure::Failure;
use edgedyno_shared::wire::frame::{self, Frame, kind};
use edgedyno_shared::wire::hello::{Hello, HelloReply, Verdict};
use edgedyno_shared::wire::request::{Reply, Request};

/// A daemon answers within this time.
pub(super) const PATIENCE: Duration = Duration::from_secs(5);

/// A ticket for one host, and how long it is good.
///
/// # Errors
/// When no daemon of this build runs, or it does not listen on the network.
pub fn ticket(folders: &AgentFolders, role: Role) -> io::Result<(String, Duration)> {
    let mut socket = connect(folders).map_err(|why| {
        let hint = "start it with `edgedyno-agent serve --listen ADDRESS`";
        io::Error::other(format!(
            "no agent runs on this machine: {why}\nhint: {hint}"
        ))
    })?;
    socket.set_read_timeout(Some(PATIENCE))?;
    let hello = Hello::new(BuildId(crate::BUILD_ID.into()), StoreId::NONE);
    let reply = exchange(&mut socket, &hello.to_frame(), kind::HELLO_REPLY)?;
    let reply = HelloReply::parse(&reply.payload).map_err(io::Error::other)?;
    if reply.verdict != Verdict::Welcome {
        let text = format!(
            "the agent that runs is another build: {}",
            reply.agent.build
        );
        return Err(io::Error::other(text));
    }
    let request = (1_u64, Request::OpenPairing { role });
    let request = Frame::encode(kind::REQUEST, &request).map_err(io::Error::other)?;
    let reply = exchange(&mut socket, &request, kind::REPLY)?;
    let reply: (u64, Result<Reply, Failure>) = reply.decode().map_err(io::Error::other)?;
    match reply.1 {
        Ok(Reply::Ticket { ticket, seconds }) => Ok((ticket, Duration::from_secs(seconds))),
        Ok(_) => Err(io::ErrorKind::InvalidData.into()),
        Err(why) => {
            let hint = why.hint.as_deref().map(|hint| format!("\nhint: {hint}"));
            Err(io::Error::other(format!(
                "{why}{}",
                hint.unwrap_or_default()
            )))
        }
    }
}

pub(super) fn exchange(socket: &mut UnixStream, send: &Frame, expected: u8) -> io::Result<Frame> {
    socket.write_all(&send.to_bytes())?;
    loop {
        let frame = frame::read_blocking(socket, frame::LIMIT).map_err(io::Error::other)?;
        let frame = frame.ok_or(io::ErrorKind::UnexpectedEof)?;
        if frame.kind == expected {
            return Ok(frame);
        }
    }
}

/// The daemon of the state folder, also when a service manager started it.
pub(super) fn connect(folders: &AgentFolders) -> io::Result<UnixStream> {
    let path = folders.socket();
    // Through the folder's descriptor, so that the path may be of any length.
    let folder = File::open(path.parent().unwrap_or(Path::new("/")))?;
    let short = PathBuf::from(format!("/proc/self/fd/{}/agent.sock", folder.as_raw_fd()));
    UnixStream::connect(short)
}
