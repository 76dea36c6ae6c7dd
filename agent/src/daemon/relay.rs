//! `serve --stdio`: joins stdin and stdout to the daemon's socket, and starts the daemon when none runs.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream as StdStream;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use edgedyno_shared::folders::{AgentFolders, SERVICE_SOCKET};
use edgedyno_shared::wire::frame::{self, Frame, kind};
use tokio::io::{copy, stdin, stdout};
use tokio::net::UnixStream;
use tokio::time::sleep;

use crate::worker::spawn::SelfExec;

/// Tries while a daemon comes up.
const TRIES: u32 = 100;
const BETWEEN: Duration = Duration::from_millis(50);

/// Relays until either side ends.
pub async fn run(folders: &AgentFolders, exec: &SelfExec) -> io::Result<()> {
    let mut socket = connect_or_start(folders, exec).await?;
    let first = Frame::empty(kind::RELAY);
    frame::write(&mut socket, &first)
        .await
        .map_err(io::Error::other)?;
    let (mut from_daemon, mut to_daemon) = socket.into_split();
    let (mut stdin, mut stdout) = (stdin(), stdout());
    tokio::select! {
        up = copy(&mut stdin, &mut to_daemon) => up.map(drop),
        down = copy(&mut from_daemon, &mut stdout) => down.map(drop),
    }
}

async fn connect_or_start(folders: &AgentFolders, exec: &SelfExec) -> io::Result<UnixStream> {
    if !folders.moved
        && let Ok(socket) = UnixStream::connect(SERVICE_SOCKET).await
    {
        return Ok(socket);
    }
    if let Ok(socket) = connect(&folders.socket()) {
        return Ok(socket);
    }
    start(exec)?;
    for _ in 0..TRIES {
        if let Ok(socket) = connect(&folders.socket()) {
            return Ok(socket);
        }
        sleep(BETWEEN).await;
    }
    let text = format!("no daemon came up; {} may say why", folders.log().display());
    Err(io::Error::new(io::ErrorKind::TimedOut, text))
}

/// Connects through the folder's descriptor, so that the path may be of any length.
fn connect(path: &Path) -> io::Result<UnixStream> {
    let folder = File::open(path.parent().unwrap_or(Path::new("/")))?;
    let short = PathBuf::from(format!("/proc/self/fd/{}/agent.sock", folder.as_raw_fd()));
    let stream = StdStream::connect(short)?;
    stream.set_nonblocking(true)?;
    UnixStream::from_std(stream)
}

/// Starts a daemon that leaves this session by itself and writes its own log.
fn start(exec: &SelfExec) -> io::Result<()> {
    let mut command = exec.command("serve");
    command.args(["--on-demand", "relay"]);
    command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    command.spawn().map(drop)
}
