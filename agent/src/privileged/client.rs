//! The daemon's side: starts the helper while it is still root, and asks it afterwards.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd, RawFd};
use std::os::unix::process::CommandExt;
use std::process::Stdio;
use std::sync::{Arc, Mutex, PoisonError};

use edgedyno_shared::repeat::Effective;
use edgedyno_sys::kernel::descriptors::{pair, receive, send};
use edgedyno_sys::kernel::perf::{Counter, Event};
use edgedyno_sys::kernel::process::{inherit, inherited_fd};
use nix::errno::Errno;
use nix::sys::socket::{setsockopt, sockopt};
use nix::sys::time::{TimeVal, TimeValLike};

use super::grants::Grant;
use super::message::{ANSWER_BYTES, Answer, Counted, Request, decode, encode};
use crate::sampler::files::{Counting, Files, Numbers, ReadAt, Root};
use crate::worker::spawn::SelfExec;

/// A helper that says nothing for so long is given up.
const PATIENCE_S: i64 = 2;

/// Starts the helper for a daemon that is going to work as `user`; the daemon's end of the socket pair.
///
/// # Errors
/// When it cannot be started.
pub fn start(exec: &SelfExec, user: u32) -> io::Result<OwnedFd> {
    let (ours, theirs) = pair()?;
    let mut command = exec.command("priv");
    let control = inherit(&mut command, theirs);
    command.arg("--control").arg(control.to_string());
    command.arg("--user").arg(user.to_string());
    command.stdin(Stdio::null()).stdout(Stdio::null());
    // What ends the daemon from a terminal must not end the helper before it has put the clocks back.
    command.process_group(0).spawn()?;
    Ok(ours)
}

/// The helper, for as long as it answers.
#[derive(Debug)]
pub struct Helper(Mutex<Option<OwnedFd>>);

impl Helper {
    /// Takes over the descriptor that was handed to this process.
    ///
    /// # Errors
    /// When nothing was handed over there.
    pub fn inherited(number: RawFd) -> io::Result<Self> {
        let socket = inherited_fd(number)?;
        setsockopt(
            &socket,
            sockopt::ReceiveTimeout,
            &TimeVal::seconds(PATIENCE_S),
        )?;
        Ok(Self(Mutex::new(Some(socket))))
    }

    /// Opens a file of the list, by its path below the board's root.
    ///
    /// # Errors
    /// `EPERM` for every other file, `EACCES` when there is no helper any more, else what the kernel says.
    pub fn open(&self, path: &str) -> io::Result<File> {
        let Grant { row, name } = Grant::of(path).ok_or(Errno::EPERM)?;
        self.opened(&Request::Open { row, name }).map(File::from)
    }

    fn count(&self, event: Event, process: Option<i32>, cpu: Option<i32>) -> io::Result<Counter> {
        let counted = Counted::new(event, process, cpu);
        self.opened(&Request::Count(counted))
            .map(Counter::handed_over)
    }

    /// Holds every clock that can be held; what stands there now.
    ///
    /// # Errors
    /// When there is no helper any more, another holds them, or nothing could be written down first.
    pub fn hold_clocks(&self) -> io::Result<Vec<Effective>> {
        match self.ask(&Request::HoldClocks)? {
            (Answer::Held(effective), _) => Ok(effective),
            _ => Err(io::ErrorKind::InvalidData.into()),
        }
    }

    /// Puts them back.
    ///
    /// # Errors
    /// As [`hold_clocks`](Self::hold_clocks).
    pub fn restore_clocks(&self) -> io::Result<()> {
        self.ask(&Request::RestoreClocks).map(drop)
    }

    fn opened(&self, request: &Request) -> io::Result<OwnedFd> {
        let (_, file) = self.ask(request)?;
        file.ok_or_else(|| io::ErrorKind::InvalidData.into())
    }

    /// One request and its answer. After a failure of the socket the two could be out of step: then there is
    /// no helper any more.
    fn ask(&self, request: &Request) -> io::Result<(Answer, Option<OwnedFd>)> {
        let mut held = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let socket = held.as_ref().ok_or(Errno::EACCES)?;
        let exchange = || -> io::Result<(Answer, Option<OwnedFd>)> {
            send(socket.as_fd(), &encode(request)?, None)?;
            let mut buffer = vec![0; ANSWER_BYTES];
            let got = receive(socket.as_fd(), &mut buffer)?;
            match (got.len, got.is_whole) {
                (0, _) => Err(io::ErrorKind::UnexpectedEof.into()),
                (_, false) => Err(Errno::EMSGSIZE.into()),
                (len, true) => Ok((decode(&buffer[..len])?, got.file)),
            }
        };
        match exchange() {
            Ok((Answer::Refused { errno, why }, _)) => {
                tracing::debug!("the helper refuses {request:?}: {why}");
                Err(io::Error::from_raw_os_error(errno))
            }
            Ok(answered) => Ok(answered),
            Err(why) => {
                tracing::error!("the privileged helper does not answer any more: {why}");
                *held = None;
                Err(Errno::EACCES.into())
            }
        }
    }
}

/// The board's files, those that are denied by way of the helper.
pub struct HelpedFiles {
    pub own: Root,
    pub helper: Arc<Helper>,
}

impl Files for HelpedFiles {
    fn open(&self, path: &str) -> io::Result<Box<dyn ReadAt>> {
        match self.own.open(path) {
            Err(why) if is_denied(&why) && Grant::of(path).is_some() => {
                Ok(Box::new(self.helper.open(path)?))
            }
            result => result,
        }
    }

    fn list(&self, folder: &str) -> io::Result<Vec<String>> {
        self.own.list(folder)
    }

    fn numbers(&self, folder: &str) -> io::Result<Box<dyn Numbers>> {
        self.own.numbers(folder)
    }

    fn count(
        &self,
        event: Event,
        process: Option<i32>,
        cpu: Option<i32>,
    ) -> io::Result<Box<dyn Counting>> {
        match self.own.count(event, process, cpu) {
            Err(why) if is_denied(&why) => Ok(Box::new(self.helper.count(event, process, cpu)?)),
            result => result,
        }
    }
}

fn is_denied(why: &io::Error) -> bool {
    matches!(
        why.raw_os_error(),
        Some(nix::libc::EACCES | nix::libc::EPERM)
    )
}
