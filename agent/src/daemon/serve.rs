//! Start and end of the daemon.

use std::cell::{Cell, RefCell};
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::os::unix::net::UnixListener as StdListener;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::Duration;

use edgedyno_shared::folders::AgentFolders;
use edgedyno_shared::ids::BootId;
use edgedyno_sys::kernel::process::allowed_cpus;
use nix::fcntl::{Flock, FlockArg};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::{Notify, broadcast};
use tokio::task::LocalSet;
use tokio::time::timeout;

use super::contents::Contents;
use super::queue::Queue;
use super::runtimes::Runtimes;
use super::session::{self, Peer};
use super::spool::Spool;
use super::state::Daemon;
use super::{executor, recover};
use crate::disk;
use crate::facts::Kernel;
use crate::worker::spawn::SelfExec;

/// A daemon started on demand leaves after this long without a session and an order.
pub const LOCAL_PATIENCE: Duration = Duration::from_secs(5);

/// The same for one that a relay started.
pub const RELAY_PATIENCE: Duration = Duration::from_secs(600);

/// Why a daemon did not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    #[error("another daemon (process {process}) serves the state folder {}", folder.display())]
    Taken { folder: PathBuf, process: String },
    #[error("{what} {}: {why}", path.display())]
    Folder {
        what: &'static str,
        path: PathBuf,
        why: io::Error,
    },
    #[error("{0}")]
    Io(#[from] io::Error),
}

/// Serves until retired, or until idle for `patience`. Runs on the thread that calls it, which must be the
/// process's main thread: workers die with it.
pub fn run(
    folders: AgentFolders,
    exec: SelfExec,
    patience: Option<Duration>,
) -> Result<(), StartError> {
    let in_folder = |what, path: &Path| {
        let path = path.to_owned();
        move |why| StartError::Folder { what, path, why }
    };
    disk::private_folder(&folders.state)
        .map_err(in_folder("state folder cannot be used", &folders.state))?;
    let _lock = lock(&folders)?;
    if let Some(parent) = folders.runtime.parent().filter(|_| folders.moved) {
        disk::private_folder(parent).map_err(in_folder("runtime folder cannot be used", parent))?;
    }
    disk::private_folder(&folders.runtime)
        .map_err(in_folder("runtime folder cannot be used", &folders.runtime))?;
    let daemon = Rc::new(assemble(folders, exec)?);
    match recover::run(&daemon) {
        Ok(0) => {}
        Ok(count) => tracing::warn!("{count} repeats of an earlier daemon were recovered"),
        Err(why) => tracing::error!("left-over repeats cannot be looked for: {why}"),
    }
    let listener = listen(&daemon.folders)?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .max_blocking_threads(1)
        .build()?;
    let served = LocalSet::new().block_on(&runtime, serve(Rc::clone(&daemon), listener, patience));
    // A daemon that leaves takes its socket with it, while it still holds the lock.
    disk::remove(&daemon.folders.socket())?;
    served?;
    Ok(())
}

/// Held as long as the daemon lives; says who holds it.
fn lock(folders: &AgentFolders) -> Result<Flock<File>, StartError> {
    let path = folders.lock();
    let file = OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        .open(&path)?;
    let mut held =
        Flock::lock(file, FlockArg::LockExclusiveNonblock).map_err(|(mut file, _)| {
            let mut process = String::new();
            let _ = file.read_to_string(&mut process);
            StartError::Taken {
                folder: folders.state.clone(),
                process: process.trim().into(),
            }
        })?;
    held.set_len(0)?;
    writeln!(held, "{}", std::process::id())?;
    Ok(held)
}

fn assemble(folders: AgentFolders, exec: SelfExec) -> io::Result<Daemon> {
    let mut boot = [0; 8];
    File::open("/dev/urandom")?.read_exact(&mut boot)?;
    let (news, _) = broadcast::channel(256);
    Ok(Daemon {
        exec,
        kernel: Kernel::default(),
        boot: BootId(u64::from_le_bytes(boot)),
        allowed_cpus: allowed_cpus()?.into_iter().map(|cpu| cpu as u16).collect(),
        spool: Spool::new(&folders.state),
        queue: RefCell::new(Queue::open(&folders.state)?),
        contents: RefCell::new(Contents::open(&folders.state)?),
        runtimes: RefCell::new(Runtimes::open(&folders.state)),
        running: RefCell::new(None),
        retiring: Cell::new(false),
        sessions: Cell::new(0),
        wake: Notify::new(),
        news,
        folders,
    })
}

/// Binds the socket; a path too long for the kernel goes through the folder's descriptor.
fn listen(folders: &AgentFolders) -> io::Result<StdListener> {
    let path = folders.socket();
    disk::remove(&path)?;
    let folder = File::open(&folders.state)?;
    let short = PathBuf::from(format!("/proc/self/fd/{}/agent.sock", folder.as_raw_fd()));
    let listener = StdListener::bind(short)?;
    fs::set_permissions(&path, fs::Permissions::from_mode(0o600))?;
    listener.set_nonblocking(true)?;
    Ok(listener)
}

async fn serve(
    daemon: Rc<Daemon>,
    listener: StdListener,
    patience: Option<Duration>,
) -> io::Result<()> {
    let listener = UnixListener::from_std(listener)?;
    let mut work = tokio::task::spawn_local(executor::run(Rc::clone(&daemon)));
    loop {
        let idle = daemon.is_idle();
        let accepted = async {
            match patience.filter(|_| idle) {
                None => listener.accept().await.map(Some),
                Some(patience) => match timeout(patience, listener.accept()).await {
                    Ok(accepted) => accepted.map(Some),
                    Err(_) => Ok(None),
                },
            }
        };
        tokio::select! {
            // Only a retiring executor ends.
            _ = &mut work => break,
            accepted = accepted => match accepted {
                Ok(Some((stream, _))) => greet(&daemon, stream),
                Ok(None) if daemon.is_idle() => break,
                Ok(None) => {}
                Err(why) => {
                    tracing::warn!("a connection could not be accepted: {why}");
                    tokio::time::sleep(Duration::from_millis(100)).await;
                }
            },
            // The idle clock must start when the last session ends.
            () = tokio::time::sleep(Duration::from_millis(200)), if !idle && patience.is_some() => {}
        }
    }
    // Answers that are under way reach their hosts.
    tokio::time::sleep(Duration::from_millis(50)).await;
    Ok(())
}

fn greet(daemon: &Rc<Daemon>, stream: UnixStream) {
    let own = nix::unistd::geteuid().as_raw();
    let may_name_paths = stream.peer_cred().is_ok_and(|peer| peer.uid() == own);
    let (read, write) = stream.into_split();
    let session = session::serve(Rc::clone(daemon), read, write, Peer { may_name_paths });
    tokio::task::spawn_local(session);
}
