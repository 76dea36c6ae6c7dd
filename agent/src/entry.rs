//! The agent's entry, shared by its own binary and the host's hidden one.

use std::ffi::OsString;
use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::net::UnixStream;
use std::process::ExitCode;

use edgedyno_shared::folders::{AgentFolders, TAKEN_EXIT};
use edgedyno_shared::link::role::Role;
use edgedyno_sys::kernel::process::inherited_fd;
use sha2::{Digest, Sha256};
use tracing::Level;
use tracing::subscriber::set_global_default;

use crate::args::{self, Command, HELP, Listen, Serve};
use crate::daemon::access::{Access, KnownHost};
use crate::daemon::program::{self, Tenure};
use crate::daemon::serve::{self, LOCAL_PATIENCE, RELAY_PATIENCE, StartError, Terms};
use crate::daemon::{ask, identity, pairing, relay, run_as, take_over};
use crate::disk;
use crate::privileged::client::Helper;
use crate::privileged::helper;
use crate::sensor;
use crate::stressor;
use crate::worker;
use crate::worker::spawn::SelfExec;

const USAGE: u8 = 2;
const AGENT_FAILED: u8 = 4;

/// A longer log is set aside at the next start; the one before that goes.
const LOG_BYTES: u64 = 1 << 20;

/// Runs the agent. `leading` are the words that bring a program of ours here again.
pub fn run(leading: Vec<OsString>, words: impl Iterator<Item = OsString>) -> ExitCode {
    let (words, lock) = args::split_lock(words.collect());
    let command = match args::parse(words.iter().cloned()) {
        Ok(command) => command,
        Err(why) => {
            say(&format!("error: {why}\nhint: edgedyno-agent help\n"));
            return ExitCode::from(USAGE);
        }
    };
    // Nobody watches the standard error of a daemon that another program started.
    let in_log = matches!(
        command,
        Command::Serve(Serve::OnDemandLocal | Serve::OnDemandRelay)
    );
    let result = match command {
        Command::Help => io::stdout().write_all(HELP.as_bytes()),
        Command::Version => {
            let line = format!(
                "edgedyno-agent {} build {}\n",
                edgedyno_shared::VERSION,
                crate::BUILD_ID
            );
            io::stdout().write_all(line.as_bytes())
        }
        Command::Worker { control, arena } => {
            return match inherit(control, arena) {
                Ok((control, arena)) => worker::entry::run(control, arena),
                Err(_) => ExitCode::from(AGENT_FAILED),
            };
        }
        Command::Stressor { control, board } => {
            return match inherit(control, Some(board)) {
                Ok((control, Some(board))) => stressor::entry::run(control, &board),
                _ => ExitCode::from(AGENT_FAILED),
            };
        }
        Command::Priv { control, user } => help(control, user),
        Command::Sensor { kind, root } => return sensor::run(kind, root),
        Command::Serve(how) => serve(&how, leading, words, lock),
        Command::TakeOver => take_over(),
        Command::Pair(role) => pair(role),
        Command::Admit(host) => admit(&host),
        Command::SelfHash => self_hash(),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            if in_log {
                tracing::error!("{why}");
            }
            say(&format!("error: {why}\n"));
            match why.kind() {
                // Whoever started it then looks for the one that is there.
                io::ErrorKind::AddrInUse if in_log => ExitCode::from(TAKEN_EXIT),
                _ => ExitCode::from(AGENT_FAILED),
            }
        }
    }
}

fn inherit(control: i32, file: Option<i32>) -> io::Result<(UnixStream, Option<File>)> {
    let control = UnixStream::from(inherited_fd(control)?);
    let file = file.map(inherited_fd).transpose()?.map(File::from);
    Ok((control, file))
}

/// The helper's words go where those of whoever started it go.
fn help(control: i32, user: u32) -> io::Result<()> {
    let log = tracing_subscriber::fmt()
        .with_max_level(Level::INFO)
        .with_ansi(false)
        .with_target(false);
    set_global_default(log.with_writer(io::stderr).finish()).map_err(io::Error::other)?;
    helper::run(inherited_fd(control)?, user)
}

fn folders() -> io::Result<AgentFolders> {
    let uid = nix::unistd::getuid().as_raw();
    AgentFolders::from_env(|name| std::env::var_os(name), uid).map_err(io::Error::other)
}

fn pair(role: Role) -> io::Result<()> {
    let (ticket, open_for) = ask::ticket(&folders()?, role)?;
    let within = pairing::in_words(open_for);
    say(&format!(
        "on the host, within {within}: edgedyno board pair TICKET --name NAME\n"
    ));
    io::stdout().write_all(format!("{ticket}\n").as_bytes())
}

/// The agent's key is made with it, when it is the first thing that this agent does.
fn admit(host: &KnownHost) -> io::Result<()> {
    let folders = folders()?;
    disk::private_folder(&folders.state)?;
    let own = identity::load_or_make(&folders.state)?.public();
    Access::open(&folders.state)?.admit(host)?;
    io::stdout().write_all(format!("key {own}\n").as_bytes())
}

/// What a host compares with the hash of the file that it sent.
fn self_hash() -> io::Result<()> {
    let mut hash = Sha256::new();
    let mut file = File::open(std::env::current_exe()?)?;
    let mut piece = vec![0; 64 << 10];
    loop {
        match file.read(&mut piece)? {
            0 => break,
            read => hash.update(&piece[..read]),
        }
    }
    let hex: String = hash
        .finalize()
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect();
    io::stdout().write_all(format!("{hex}\n").as_bytes())
}

/// Says who serves now, in a word.
fn take_over() -> io::Result<()> {
    let served = take_over::run(&folders()?)?;
    io::stdout().write_all(format!("{}\n", served.name()).as_bytes())
}

fn serve(
    how: &Serve,
    leading: Vec<OsString>,
    words: Vec<OsString>,
    lock: Option<RawFd>,
) -> io::Result<()> {
    let lock = lock.map(inherited_fd).transpose()?;
    let exec = SelfExec::new(leading)?;
    if let Serve::Service(listen) = how {
        become_user(listen, &exec)?;
    }
    let folders = folders()?;
    let patience = match how {
        Serve::Relay => {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()?;
            let result = runtime.block_on(relay::run(&folders, &exec));
            // The read of stdin cannot be cancelled, and must not keep a relay whose daemon is gone.
            runtime.shutdown_background();
            return result;
        }
        Serve::Service(_) => None,
        Serve::OnDemandLocal => Some(LOCAL_PATIENCE),
        Serve::OnDemandRelay => Some(RELAY_PATIENCE),
    };
    if patience.is_some() {
        // An emulator keeps descriptors of its own among ours.
        if exec.prefix.is_empty() {
            forget_descriptors(lock.as_ref());
        }
        // Fails where this process leads a session already, which is what is wanted.
        let _ = nix::unistd::setsid();
    }
    log_to(&folders, patience.is_some())?;
    let (address, helper) = match how {
        Serve::Service(listen) => (listen.address, listen.helper),
        _ => (None, None),
    };
    let helper = helper.map(Helper::inherited).transpose()?;
    let tenure = match how {
        Serve::OnDemandRelay => Tenure::OfRelay,
        // The helper stays of the build that root started.
        Serve::Service(_) if helper.is_none() => Tenure::OfService {
            at_start: program::named(&folders.state),
        },
        _ => Tenure::Fixed,
    };
    let terms = Terms {
        patience,
        address,
        helper,
        tenure,
        lock,
        words,
    };
    serve::run(folders, exec, terms).map_err(|why| {
        let hint = why.hint().map(|hint| format!("\nhint: {hint}"));
        let kind = match why {
            StartError::Taken { .. } => io::ErrorKind::AddrInUse,
            _ => io::ErrorKind::Other,
        };
        io::Error::new(kind, format!("{why}{}", hint.unwrap_or_default()))
    })
}

/// Whoever listens on the network as root says which user is to do the work.
fn become_user(listen: &Listen, exec: &SelfExec) -> io::Result<()> {
    if !nix::unistd::geteuid().is_root() {
        return match &listen.run_as {
            Some(_) => Err(io::Error::other(
                "--run-as is for an agent that root starts",
            )),
            None => Ok(()),
        };
    }
    match (&listen.run_as, listen.address) {
        (Some(user), _) => run_as::become_user(user, exec),
        (None, Some(_)) => Err(io::Error::other(
            "an agent on the network does not measure as root\n\
             hint: name a user with --run-as USER, or say --run-as root",
        )),
        (None, None) => Ok(()),
    }
}

/// Closes what the command that started this daemon had open, but for what was meant for it: a pipe kept by a
/// daemon would never end for whoever reads it. Nothing of this process is open yet but its standard streams.
fn forget_descriptors(kept: Option<&OwnedFd>) {
    let kept = kept.map(AsRawFd::as_raw_fd);
    let Ok(entries) = std::fs::read_dir("/proc/self/fd") else {
        return;
    };
    let numbers: Vec<i32> = entries
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .filter(|number| *number > 2 && Some(*number) != kept)
        .collect();
    for number in numbers {
        // One of them was the listing itself, and is closed by now.
        let _ = nix::unistd::close(number);
    }
}

/// A daemon nobody watches writes its log beside its state; a service leaves it to its manager.
fn log_to(folders: &AgentFolders, in_file: bool) -> io::Result<()> {
    let log = tracing_subscriber::fmt()
        .with_max_level(Level::INFO)
        .with_ansi(false)
        .with_target(false);
    if in_file {
        disk::private_folder(&folders.state)?;
        let path = folders.log();
        if std::fs::metadata(&path).is_ok_and(|log| log.len() > LOG_BYTES) {
            std::fs::rename(&path, path.with_extension("log.1"))?;
        }
        let file = OpenOptions::new()
            .append(true)
            .create(true)
            .mode(0o600)
            .open(path)?;
        let log = log.with_writer(std::sync::Mutex::new(file)).finish();
        set_global_default(log).map_err(io::Error::other)
    } else {
        set_global_default(log.with_writer(io::stderr).finish()).map_err(io::Error::other)
    }
}

fn say(text: &str) {
    // Nobody may be listening.
    let _ = io::stderr().write_all(text.as_bytes());
}
