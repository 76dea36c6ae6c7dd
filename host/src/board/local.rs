//! This machine: the daemon behind a Unix socket, started when none answers.

use std::ffi::OsString;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use edgedyno_shared::folders::{AgentFolders, TAKEN_EXIT};
use edgedyno_shared::ids::StoreId;
use tokio::net::UnixStream;
use tokio::process::{Child, Command};
use tokio::time::{Instant, sleep};

use super::link::{Greeted, Link, LinkError};
use super::{Board, ConnectError};
use crate::whole_file::free_bytes;

/// The name of this machine as a board.
pub const NAME: &str = "local";

/// The words by which a command that is shown goes to a board; none for this machine.
pub fn there(board: &str) -> String {
    match board {
        NAME => String::new(),
        board => format!(" --board {board}"),
    }
}

/// Names an `edgedyno-agent` to start instead of this program's own entry.
pub const AGENT_VARIABLE: &str = "EDGEDYNO_AGENT";

/// The hidden first argument that makes `edgedyno` an agent.
pub const AGENT_ENTRY: &str = "__agent";

/// A started daemon listens within this time or something is wrong.
const START_PATIENCE: Duration = Duration::from_secs(5);

/// A daemon of another build may have this long a repeat to finish.
const RETIRE_PATIENCE: Duration = Duration::from_secs(600);

/// Lock, list of stores, log: a few blocks of a file system.
const LEAST_ROOM: u64 = 64 << 10;

/// A daemon that is killed while it starts is started again so often.
const MOST_KILLS: u32 = 3;

/// The longest path that fits the kernel's `sun_path` with its final zero.
const LONGEST_SOCKET_PATH: usize = 107;

/// What to start when no daemon answers.
#[derive(Debug, Clone)]
pub struct AgentProgram {
    pub program: PathBuf,
    pub leading: Vec<OsString>,
}

impl AgentProgram {
    fn from_env() -> io::Result<Self> {
        if let Some(program) = std::env::var_os(AGENT_VARIABLE).filter(|p| !p.is_empty()) {
            return Ok(Self {
                program: program.into(),
                leading: Vec::new(),
            });
        }
        Ok(Self {
            program: std::env::current_exe()?,
            leading: vec![AGENT_ENTRY.into()],
        })
    }

    /// Starts the daemon, which puts itself in the background.
    fn start(&self) -> Result<Child, ConnectError> {
        let mut command = Command::new(&self.program);
        command.args(&self.leading).args(["serve", "--on-demand"]);
        command.stdin(Stdio::null());
        command.stdout(Stdio::null()).stderr(Stdio::null());
        // The agent leaves this session by itself, which a leader of a process group could not.
        command.spawn().map_err(|source| ConnectError::Start {
            program: self.program.display().to_string(),
            source,
        })
    }
}

/// The daemon of this machine.
#[derive(Debug, Clone)]
pub struct Local {
    folders: AgentFolders,
    agent: AgentProgram,
    start_patience: Duration,
}

impl Local {
    /// Reads from the environment where the daemon lives and what to start.
    pub fn from_env() -> Result<Self, ConnectError> {
        let uid = nix::unistd::getuid().as_raw();
        let folders = AgentFolders::from_env(|name| std::env::var_os(name), uid)?;
        let agent = AgentProgram::from_env().map_err(|source| ConnectError::Start {
            program: "edgedyno".into(),
            source,
        })?;
        Ok(Self {
            folders,
            agent,
            start_patience: START_PATIENCE,
        })
    }

    async fn reach(&self, store: StoreId) -> Result<Link, ConnectError> {
        let mut patience = self.start_patience;
        // A second round finds our own daemon unless somebody keeps starting another build.
        for _ in 0..3 {
            let stream = match open(&self.folders.socket()).await {
                Ok(stream) => stream,
                Err(why) if is_nobody(&why) => self.start_and_open(patience).await?,
                Err(source) => return Err(self.socket_error(source)),
            };
            let greeted = match greet(stream, store).await {
                Ok(greeted) => greeted,
                // It was leaving while we knocked.
                Err(LinkError::Closed) => continue,
                Err(LinkError::Frame(edgedyno_shared::wire::frame::FrameError::Io(_))) => continue,
                Err(other) => return Err(other.into()),
            };
            if greeted.is_welcome() {
                return Ok(greeted.into_link()?);
            }
            if greeted.retire().await?.running {
                patience = RETIRE_PATIENCE;
            }
            self.wait_until_gone(patience).await?;
        }
        Err(LinkError::Closed.into())
    }

    async fn start_and_open(&self, patience: Duration) -> Result<UnixStream, ConnectError> {
        let deadline = Instant::now() + patience;
        let mut child = self.agent.start()?;
        let mut kills = 0;
        let mut pause = Duration::from_millis(1);
        loop {
            sleep(pause).await;
            pause = (pause * 2).min(Duration::from_millis(50));
            // Looked at before the socket: a daemon that was there and is gone is no answer.
            let ended = child.try_wait().ok().flatten();
            let why = match open(&self.folders.socket()).await {
                Ok(stream) => return Ok(stream),
                Err(why) => why,
            };
            if Instant::now() > deadline {
                return Err(self.no_answer(ended, patience, why));
            }
            match ended.filter(|status| !status.success()) {
                None => {}
                // The daemon before it has not left yet; another host's may be the one that answers.
                Some(status) if status.code() == Some(TAKEN_EXIT.into()) => {
                    child = self.agent.start()?;
                }
                Some(status) if status.signal().is_some() && kills < MOST_KILLS => {
                    kills += 1;
                    child = self.agent.start()?;
                }
                Some(status) => return Err(self.no_answer(Some(status), patience, why)),
            }
        }
    }

    async fn wait_until_gone(&self, patience: Duration) -> Result<(), ConnectError> {
        let deadline = Instant::now() + patience;
        while open(&self.folders.socket()).await.is_ok() {
            if Instant::now() > deadline {
                return Err(ConnectError::StillRetiring);
            }
            sleep(Duration::from_millis(20)).await;
        }
        Ok(())
    }

    fn no_answer(
        &self,
        ended: Option<ExitStatus>,
        patience: Duration,
        why: io::Error,
    ) -> ConnectError {
        let source = match ended.filter(|status| !status.success()) {
            Some(status) => {
                let said = last_error(&self.folders.log()).or_else(|| full(&self.folders.state));
                let said = said.map(|line| format!(": {line}")).unwrap_or_default();
                io::Error::other(format!("it ended with {status}{said}"))
            }
            None => why,
        };
        ConnectError::NoAnswer {
            seconds: patience.as_secs(),
            log: self.folders.log(),
            source,
        }
    }

    fn socket_error(&self, source: io::Error) -> ConnectError {
        ConnectError::Socket {
            path: self.folders.socket(),
            source,
        }
    }
}

impl Board for Local {
    fn name(&self) -> &str {
        NAME
    }

    async fn connect(&self, store: StoreId) -> Result<Link, ConnectError> {
        self.reach(store).await
    }
}

/// A daemon that finds its disk full can write no log either.
fn full(state: &Path) -> Option<String> {
    let free = free_bytes(state).filter(|free| *free < LEAST_ROOM)?;
    let folder = state.display();
    Some(format!(
        "{free} bytes are free in {folder}, and it needs {LEAST_ROOM}"
    ))
}

/// What a daemon wrote to its log last, if that was an error.
fn last_error(log: &Path) -> Option<String> {
    let text = std::fs::read(log).ok()?;
    let tail = &text[text.len().saturating_sub(8 << 10)..];
    let tail = String::from_utf8_lossy(tail);
    let last = tail.lines().rfind(|line| !line.trim().is_empty())?;
    let (_, said) = last.split_once(" ERROR ")?;
    Some(said.trim().to_owned())
}

async fn greet(stream: UnixStream, store: StoreId) -> Result<Greeted, LinkError> {
    let (read, write) = stream.into_split();
    Greeted::greet(read, write, store).await
}

/// Whether the error says that nobody listens, as opposed to nobody being allowed in.
fn is_nobody(why: &io::Error) -> bool {
    matches!(
        why.kind(),
        io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused
    )
}

async fn open(socket: &Path) -> io::Result<UnixStream> {
    if socket.as_os_str().len() <= LONGEST_SOCKET_PATH {
        return UnixStream::connect(socket).await;
    }
    let (folder, short) = shorten(socket)?;
    let stream = UnixStream::connect(short).await;
    drop(folder);
    stream
}

/// A short name for a socket in a deep folder; it holds while the folder is open.
fn shorten(socket: &Path) -> io::Result<(File, PathBuf)> {
    let (Some(folder), Some(name)) = (socket.parent(), socket.file_name()) else {
        return Err(io::ErrorKind::InvalidInput.into());
    };
    let flags = nix::libc::O_PATH | nix::libc::O_DIRECTORY;
    let folder = OpenOptions::new()
        .read(true)
        .custom_flags(flags)
        .open(folder)?;
    let short = PathBuf::from(format!("/proc/self/fd/{}", folder.as_raw_fd())).join(name);
    Ok((folder, short))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use edgedyno_shared::ids::BuildId;
    use edgedyno_shared::wire::frame::{self, kind};
    use edgedyno_shared::wire::hello::{DaemonStatus, Hello};
    use tokio::io::AsyncWriteExt;
    use tokio::net::UnixListener;

    use super::*;

    fn block_on<T>(future: impl Future<Output = T>) -> T {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build();
        runtime.unwrap().block_on(future)
    }

    fn local(state: &Path, program: &Path) -> Local {
        Local {
            folders: AgentFolders {
                state: state.into(),
                runtime: state.join("run"),
                moved: true,
            },
            agent: AgentProgram {
                program: program.into(),
                leading: Vec::new(),
            },
            start_patience: Duration::from_millis(300),
        }
    }

    fn script(folder: &Path, text: &str) -> PathBuf {
        let path = folder.join("agent.sh");
        std::fs::write(&path, format!("#!/bin/sh\n{text}\n")).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
        path
    }

    /// Serves hellos; one of another schema leaves when it is retired.
    async fn serve(listener: UnixListener, schema: [u8; 32]) {
        let own = Hello {
            schema,
            ..Hello::new(BuildId("test".into()), StoreId::NONE)
        };
        loop {
            let (mut stream, _) = listener.accept().await.unwrap();
            let Ok(Some(hello)) = frame::read(&mut stream, frame::LIMIT).await else {
                continue;
            };
            let answer = own
                .answer(&Hello::parse(&hello.payload).unwrap())
                .to_frame();
            stream.write_all(&answer.to_bytes()).await.unwrap();
            let next = frame::read(&mut stream, frame::LIMIT).await;
            if matches!(next, Ok(Some(f)) if f.kind == kind::RETIRE) {
                let status = DaemonStatus {
                    process: 1,
                    sessions: 1,
                    queued: 0,
                    spooled: 0,
                    running: false,
                };
                let reply = status.to_frame(kind::RETIRE_REPLY);
                stream.write_all(&reply.to_bytes()).await.unwrap();
                return;
            }
        }
    }

    #[test]
    fn a_socket_in_a_deep_folder_is_reached() {
        let folder = tempfile::tempdir().unwrap();
        let deep = folder.path().join("d".repeat(120));
        std::fs::create_dir(&deep).unwrap();
        block_on(async {
            let (open_folder, short) = shorten(&deep.join("agent.sock")).unwrap();
            let listener = UnixListener::bind(short).unwrap();
            drop(open_folder);
            let schema = edgedyno_shared::wire::hello::schema_hash();
            tokio::spawn(serve(listener, schema));
            let link = local(&deep, Path::new("/bin/false"))
                .connect(StoreId::NONE)
                .await;
            assert_eq!(link.unwrap().agent_build(), &BuildId("test".into()));
        });
    }

    #[test]
    fn a_daemon_that_never_listens_is_an_error_with_its_log() {
        let folder = tempfile::tempdir().unwrap();
        block_on(async {
            let board = local(folder.path(), Path::new("/bin/false"));
            let refused = board.connect(StoreId::NONE).await;
            let Err(ConnectError::NoAnswer { log, source, .. }) = refused else {
                panic!("no answer is expected");
            };
            assert_eq!(log, folder.path().join("agent.log"));
            assert!(source.to_string().contains("exit status: 1"), "{source}");
        });
    }

    #[test]
    fn a_missing_program_is_named() {
        let folder = tempfile::tempdir().unwrap();
        block_on(async {
            let refused = local(folder.path(), Path::new("/nonexistent/agent"));
            let Err(why) = refused.connect(StoreId::NONE).await else {
                panic!("nothing can be started");
            };
            assert!(why.to_string().contains("/nonexistent/agent"));
        });
    }

    #[test]
    fn a_daemon_of_another_schema_is_retired_and_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let asked = folder.path().join("asked");
        let program = script(folder.path(), &format!("echo \"$@\" > {}", asked.display()));
        block_on(async {
            let socket = folder.path().join("agent.sock");
            let old = tokio::spawn(serve(UnixListener::bind(&socket).unwrap(), [9; 32]));
            let replace = tokio::spawn({
                let (socket, asked) = (socket.clone(), asked.clone());
                async move {
                    old.await.unwrap();
                    while !asked.exists() {
                        sleep(Duration::from_millis(5)).await;
                    }
                    std::fs::remove_file(&socket).unwrap();
                    let schema = edgedyno_shared::wire::hello::schema_hash();
                    serve(UnixListener::bind(&socket).unwrap(), schema).await;
                }
            });
            let mut board = local(folder.path(), &program);
            board.start_patience = Duration::from_secs(20);
            assert!(board.connect(StoreId::NONE).await.is_ok());
            replace.abort();
        });
        let asked = std::fs::read_to_string(asked).unwrap();
        assert_eq!(asked.trim(), "serve --on-demand");
    }
}
