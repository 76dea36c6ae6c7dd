//! Start and end of the daemon.

use std::cell::{Cell, RefCell};
use std::ffi::OsString;
use std::fs::{self, File, Metadata, OpenOptions};
use std::io::{self, Read, Write};
use std::net::SocketAddr;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::os::unix::net::UnixListener as StdListener;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use edgedyno_shared::folders::AgentFolders;
use edgedyno_shared::ids::BootId;
use edgedyno_shared::link::role::Role;
use edgedyno_shared::units::Nanos;
use edgedyno_sys::kernel::process::{allowed_cpus, inherit};
use nix::fcntl::{Flock, FlockArg};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::{Mutex, Notify, broadcast};
use tokio::task::LocalSet;
use tokio::time::{Instant, sleep, timeout};

use super::contents::Contents;
use super::ends::Ends;
use super::host_clock::HostClocks;
use super::lease_file::LeaseFile;
use super::live::Live;
use super::network::Network;
use super::owners::{Owner, Owners};
use super::program::Tenure;
use super::queue::Queue;
use super::runtimes::Runtimes;
use super::session::{self, Peer};
use super::spool::Spool;
use super::state::Daemon;
use super::{clocks, executor, recover};
use crate::clock::{self, Clock, Monotonic};
use crate::disk;
use crate::facts::Kernel;
use crate::privileged::client::{HelpedFiles, Helper};
use crate::sampler::files::Root;
use crate::worker::placement;
use crate::worker::spawn::SelfExec;

/// A daemon started on demand leaves after this long without a session and an order.
pub const LOCAL_PATIENCE: Duration = Duration::from_secs(5);

/// The same for one that a relay started.
pub const RELAY_PATIENCE: Duration = Duration::from_secs(600);

/// Before the number of a lock that is handed on.
pub const LOCK_WORD: &str = "--lock";

/// Names the folder below which the board's files are read, for a recorded board in the place of this one.
const ROOT_VARIABLE: &str = "EDGEDYNO_AGENT_ROOT";

/// A retiring daemon gives its sessions this long.
const GRACE: Duration = Duration::from_millis(100);

/// Somebody who connected at the last moment gets this long; a queue that grows meanwhile is on disk.
const LAST_SESSIONS: Duration = Duration::from_secs(2);

/// The daemon before may still be leaving.
const LOCK_PATIENCE: Duration = Duration::from_secs(2);

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
    #[error("cannot listen on {address}: {why}")]
    Listen { address: SocketAddr, why: io::Error },
    #[error("{0}")]
    Io(#[from] io::Error),
}

impl StartError {
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            Self::Taken { .. } => {
                Some("stop it first, or give this one a folder with EDGEDYNO_AGENT_STATE")
            }
            Self::Folder { .. } => Some("EDGEDYNO_AGENT_STATE names another folder"),
            Self::Listen { .. } => {
                Some("--listen takes an address of this machine, such as 0.0.0.0:7447")
            }
            Self::Io(_) => None,
        }
    }
}

/// How a daemon is started.
pub struct Terms {
    /// It leaves when nobody needed it for so long.
    pub patience: Option<Duration>,
    /// Where it listens on the network too.
    pub address: Option<SocketAddr>,
    /// Who opens what this user may not.
    pub helper: Option<Helper>,
    pub tenure: Tenure,
    /// The lock, from the program that served before in this process.
    pub lock: Option<OwnedFd>,
    /// The words that start another program as this one was.
    pub words: Vec<OsString>,
}

/// Serves until retired, or until idle, or until another program is to go on, which it then becomes. Runs on
/// the thread that calls it, which must be the process's main thread: workers die with it.
pub fn run(folders: AgentFolders, exec: SelfExec, terms: Terms) -> Result<(), StartError> {
    let Terms {
        patience,
        address,
        helper,
        tenure,
        lock: held,
        words,
    } = terms;
    let in_folder = |what, path: &Path| {
        let path = path.to_owned();
        move |why| StartError::Folder { what, path, why }
    };
    disk::private_folder(&folders.state)
        .map_err(in_folder("state folder cannot be used", &folders.state))?;
    let lock = lock(&folders, held)?;
    if let Some(parent) = folders.runtime.parent() {
        disk::private_folder(parent).map_err(in_folder("runtime folder cannot be used", parent))?;
    }
    disk::private_folder(&folders.runtime)
        .map_err(in_folder("runtime folder cannot be used", &folders.runtime))?;
    let mut daemon = assemble(folders, exec, Rc::new(Monotonic))?;
    daemon.tenure = tenure;
    if let Some(helper) = helper.map(Arc::new) {
        daemon.files = Arc::new(HelpedFiles {
            own: Root(daemon.root.clone()),
            helper: Arc::clone(&helper),
        });
        daemon.helper = Some(helper);
    }
    let daemon = Rc::new(daemon);
    match recover::run(&daemon) {
        Ok(0) => {}
        Ok(count) => tracing::warn!("{count} repeats of an earlier daemon were recovered"),
        Err(why) => tracing::error!("left-over repeats cannot be looked for: {why}"),
    }
    match clocks::restore_left_over(&daemon.root, &daemon.clock_journal()) {
        Ok(false) => {}
        Ok(true) => tracing::warn!("clocks that an earlier daemon held were put back"),
        Err(why) => tracing::error!("clocks that an earlier daemon held stay as they are: {why}"),
    }
    let listener = listen(&daemon.folders)?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .max_blocking_threads(1)
        .build()?;
    let local = LocalSet::new();
    let served = local.block_on(&runtime, async {
        let network = listen_on_network(&daemon, address)?;
        let served = serve(Rc::clone(&daemon), listener, patience).await;
        if let Some(network) = network {
            network.close().await;
        }
        served.map_err(StartError::Io)
    });
    // Waits for work under way on the other thread, while this daemon still holds the lock.
    drop(runtime);
    served?;
    match daemon.successor.take() {
        Some(program) => Err(become_program(&daemon, &program, &lock, &words).into()),
        None => {
            // Empty but for what a later daemon has to recover, which keeps it.
            let _ = fs::remove_dir(&daemon.folders.runtime);
            Ok(())
        }
    }
}

/// Goes on as another program, started by the same words. The lock goes along, so that nobody comes between.
/// Returns only when that cannot be done.
fn become_program(
    daemon: &Daemon,
    program: &Path,
    lock: &Flock<File>,
    words: &[OsString],
) -> io::Error {
    // The daemon moved aside for its workers; the next one must see all CPUs that there are.
    if let Err(why) = placement::bind_all(&daemon.allowed_cpus) {
        tracing::warn!("the next program is bound to fewer CPUs: {why}");
    }
    let lock = match lock.try_clone() {
        Ok(lock) => lock,
        Err(why) => return why,
    };
    let mut command = daemon.exec.other(program);
    command.args(words);
    let number = inherit(&mut command, lock.into());
    command.arg(LOCK_WORD).arg(number.to_string());
    let why = command.exec();
    io::Error::new(why.kind(), format!("{}: {why}", program.display()))
}

/// Must be called inside the runtime, which drives the endpoint.
fn listen_on_network(
    daemon: &Rc<Daemon>,
    address: Option<SocketAddr>,
) -> Result<Option<Rc<Network>>, StartError> {
    let Some(address) = address else {
        return Ok(None);
    };
    let bound = Network::bind(address, &daemon.folders.state);
    let network = Rc::new(bound.map_err(|why| StartError::Listen { address, why })?);
    *daemon.network.borrow_mut() = Some(Rc::clone(&network));
    tokio::task::spawn_local(Rc::clone(&network).serve(Rc::clone(daemon)));
    Ok(Some(network))
}

/// Held as long as the daemon lives; says who holds it. The program before in this process may have it already.
fn lock(folders: &AgentFolders, held: Option<OwnedFd>) -> Result<Flock<File>, StartError> {
    if let Some(held) = held.map(File::from)
        && is_same_file(&held, &folders.lock())
        && let Ok(held) = Flock::lock(held, FlockArg::LockExclusiveNonblock)
    {
        return Ok(held);
    }
    let until = Monotonic.now() + Nanos(LOCK_PATIENCE.as_nanos() as i64);
    loop {
        match try_lock(folders) {
            Err(StartError::Taken { .. }) if Monotonic.now() < until => {
                clock::pause(Duration::from_millis(20));
            }
            result => return result,
        }
    }
}

fn is_same_file(file: &File, path: &Path) -> bool {
    let identity = |found: Metadata| (found.dev(), found.ino());
    let held = file.metadata().map(identity);
    held.is_ok_and(|held| fs::metadata(path).is_ok_and(|found| identity(found) == held))
}

fn try_lock(folders: &AgentFolders) -> Result<Flock<File>, StartError> {
    let file = OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        .open(folders.lock())?;
    let mut held =
        Flock::lock(file, FlockArg::LockExclusiveNonblock).map_err(|(mut file, _)| {
            let mut process = String::new();
            // Who it is helps, and is not needed.
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

/// The folder below which the board's files are read: `/` but for a recorded board.
pub(crate) fn board_root() -> PathBuf {
    std::env::var_os(ROOT_VARIABLE).map_or_else(|| "/".into(), PathBuf::from)
}

/// A daemon from what its folders hold, which the caller has locked.
pub fn assemble(folders: AgentFolders, exec: SelfExec, clock: Rc<dyn Clock>) -> io::Result<Daemon> {
    let mut boot = [0; 8];
    File::open("/dev/urandom")?.read_exact(&mut boot)?;
    let (news, _) = broadcast::channel(256);
    let root = board_root();
    Ok(Daemon {
        exec,
        kernel: Kernel::at(&root),
        files: Arc::new(Root(root.clone())),
        root,
        helper: None,
        held: RefCell::new(None),
        live: Live::default(),
        boot: BootId(u64::from_le_bytes(boot)),
        allowed_cpus: allowed_cpus()?.into_iter().map(|cpu| cpu as u16).collect(),
        spool: Spool::new(&folders.state),
        unrepaired: RefCell::default(),
        queue: RefCell::new(Queue::open(&folders.state)?),
        contents: RefCell::new(Contents::open(&folders.state)?),
        runtimes: RefCell::new(Runtimes::open(&folders.state)),
        running: RefCell::new(None),
        vendor_code: Mutex::new(()),
        lease: RefCell::new(LeaseFile::open(&folders.state, clock.now())?),
        owners: RefCell::new(Owners::open(&folders.state)?),
        host_clocks: RefCell::new(HostClocks::default()),
        network: RefCell::new(None),
        retiring: Cell::new(false),
        tenure: Tenure::Fixed,
        successor: RefCell::new(None),
        sessions: Cell::new(0),
        wake: Notify::new(),
        news,
        folders,
        clock,
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
    tokio::task::spawn_local(recover::look_through(Rc::clone(&daemon)));
    let mut ends = Ends::listen()?;
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
            // Only a retiring executor ends by itself.
            ended = &mut work => match ended {
                Ok(()) => break,
                Err(why) => return Err(io::Error::other(format!("the executor ended: {why}"))),
            },
            // The worker ends with this process; what outlives it is put back first.
            code = ends.next() => {
                daemon.release_clocks();
                disk::remove(&daemon.folders.socket())?;
                std::process::exit(code);
            }
            accepted = accepted => match accepted {
                Ok(Some((stream, _))) => greet(&daemon, stream),
                Ok(None) if daemon.is_idle() => break,
                Ok(None) => {}
                Err(why) => {
                    tracing::warn!("a connection could not be accepted: {why}");
                    sleep(Duration::from_millis(100)).await;
                }
            },
            // The idle clock must start when the last session ends.
            () = sleep(Duration::from_millis(200)), if !idle && patience.is_some() => {}
        }
    }
    // Nobody new from here on; who came meanwhile is still served.
    disk::remove(&daemon.folders.socket())?;
    while let Ok(Ok((stream, _))) = timeout(Duration::from_millis(20), listener.accept()).await {
        greet(&daemon, stream);
    }
    // A retiring daemon answers what is under way and does not wait for who stays connected.
    let leave_by = Instant::now()
        + if daemon.retiring.get() {
            GRACE
        } else {
            LAST_SESSIONS
        };
    while daemon.sessions.get() > 0 && Instant::now() < leave_by {
        sleep(Duration::from_millis(10)).await;
    }
    Ok(())
}

fn greet(daemon: &Rc<Daemon>, stream: UnixStream) {
    let own = nix::unistd::geteuid().as_raw();
    let user = stream.peer_cred().ok().map(|peer| peer.uid());
    let (is_own, is_root) = (user == Some(own), user == Some(0));
    let peer = Peer {
        may_name_paths: is_own,
        is_local: is_own || is_root,
        owner: Owner::Board,
        // The socket's mode lets in its owner, and root, who is told nothing that is not root's anyway.
        role: Role::Admin,
        hello_within: None,
    };
    let (read, write) = stream.into_split();
    let session = session::serve(Rc::clone(daemon), read, write, peer);
    tokio::task::spawn_local(session);
}
