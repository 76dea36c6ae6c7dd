//! `serve --stdio`: joins stdin and stdout to the daemon's socket, and starts the daemon when none runs: of the
//! build that was brought last, whichever build the relay is of.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream as StdStream;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use edgedyno_shared::folders::AgentFolders;
use edgedyno_shared::ids::{BuildId, StoreId};
use edgedyno_shared::wire::frame::{self, Frame, kind};
use edgedyno_shared::wire::hello::{DaemonStatus, Hello, HelloReply, Verdict};
use tokio::io::{copy, stdin, stdout};
use tokio::net::UnixStream;
use tokio::time::{sleep, timeout};

use super::program;
use crate::disk;
use crate::worker::spawn::SelfExec;

/// Tries while a daemon comes up.
const TRIES: u32 = 100;
const BETWEEN: Duration = Duration::from_millis(50);

/// Lock, list of stores, log: a few blocks of a file system.
const LEAST_ROOM: u64 = 64 << 10;

/// A daemon that says nothing to a hello for this long is none.
const HELLO_PATIENCE: Duration = Duration::from_secs(5);

/// One of another build leaves when the repeat that it runs is finished.
const REPEAT_PATIENCE: Duration = Duration::from_secs(600);

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

/// The socket of a daemon that speaks as this build does: a host that starts this relay has put this build
/// here, and could do nothing with another.
async fn connect_or_start(folders: &AgentFolders, exec: &SelfExec) -> io::Result<UnixStream> {
    let own = folders.socket();
    match stays(&own).await {
        Ok(true) => return connect(&own),
        Ok(false) => wait_until_gone(&own).await?,
        // Nobody is there, or was leaving while we knocked.
        Err(_) => {}
    }
    start(folders, exec)?;
    for _ in 0..TRIES {
        if let Ok(socket) = connect(&folders.socket()) {
            return Ok(socket);
        }
        sleep(BETWEEN).await;
    }
    Err(io::Error::new(io::ErrorKind::TimedOut, none_came(folders)))
}

/// A daemon that finds its disk full can write no log either.
fn none_came(folders: &AgentFolders) -> String {
    match disk::free_bytes(&folders.state) {
        Ok(free) if free < LEAST_ROOM => format!(
            "no daemon came up: {free} bytes are free in {}, and it needs {LEAST_ROOM}\n\
             hint: make room on that disk, or name another folder with EDGEDYNO_AGENT_STATE",
            folders.state.display()
        ),
        _ => format!("no daemon came up; {} may say why", folders.log().display()),
    }
}

/// Whether the daemon behind a socket speaks as this build does; another is told to leave.
async fn stays(path: &Path) -> io::Result<bool> {
    let mut socket = connect(path)?;
    let hello = Hello::new(BuildId(crate::BUILD_ID.into()), StoreId::NONE);
    let reply = ask(&mut socket, &hello.to_frame()).await?;
    let reply = HelloReply::parse(&reply.payload).map_err(io::Error::other)?;
    if reply.verdict == Verdict::Welcome {
        return Ok(true);
    }
    let status = ask(&mut socket, &Frame::empty(kind::RETIRE)).await?;
    let status = DaemonStatus::parse(&status.payload).map_err(io::Error::other)?;
    tracing::info!(
        "the daemon of build {} (process {}) was told to leave",
        reply.agent.build,
        status.process
    );
    Ok(false)
}

async fn ask(socket: &mut UnixStream, frame: &Frame) -> io::Result<Frame> {
    frame::write(socket, frame)
        .await
        .map_err(io::Error::other)?;
    let answer = timeout(HELLO_PATIENCE, frame::read(socket, frame::LIMIT)).await;
    let answer = answer?.map_err(io::Error::other)?;
    answer.ok_or_else(|| io::ErrorKind::UnexpectedEof.into())
}

/// A daemon that retires takes its socket away.
async fn wait_until_gone(path: &Path) -> io::Result<()> {
    let gone = async {
        while connect(path).is_ok() {
            sleep(BETWEEN).await;
        }
    };
    let text = "an agent of another build is still finishing a repeat";
    timeout(REPEAT_PATIENCE, gone)
        .await
        .map_err(|_| io::Error::new(io::ErrorKind::TimedOut, text))
}

/// Connects through the folder's descriptor, so that the path may be of any length.
fn connect(path: &Path) -> io::Result<UnixStream> {
    let folder = File::open(path.parent().unwrap_or(Path::new("/")))?;
    let name = path.file_name().unwrap_or_default();
    let short = PathBuf::from(format!("/proc/self/fd/{}", folder.as_raw_fd())).join(name);
    let stream = StdStream::connect(short)?;
    stream.set_nonblocking(true)?;
    UnixStream::from_std(stream)
}

/// Starts a daemon that leaves this session by itself and writes its own log.
fn start(folders: &AgentFolders, exec: &SelfExec) -> io::Result<()> {
    let mut command = match program::other(&folders.state) {
        Some(program) => {
            let mut command = exec.other(&program);
            command.arg("serve");
            command
        }
        None => exec.command("serve"),
    };
    command.args(["--on-demand", "relay"]);
    command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    command.spawn().map(drop)
}
