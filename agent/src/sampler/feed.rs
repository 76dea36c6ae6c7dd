//! Sources that give something when they like: a tool that prints lines, a device whose read waits. Each has
//! a thread of its own that waits; the watch only looks whether something new has come.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::os::fd::OwnedFd;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use edgedyno_shared::telemetry::Quality;
use edgedyno_shared::units::Nanos;
use edgedyno_sys::kernel::process::die_with_parent;

use super::fault::Fault;
use crate::clock::{self, Clock, Monotonic};

/// Longer lines and records are cut.
const ROOM: usize = 8 << 10;

/// How long a thread or a killed program is waited for, in steps: a device gives its next piece by then.
const FAREWELL: Duration = Duration::from_millis(300);
const STEP: Duration = Duration::from_millis(5);

/// What comes piece by piece. The thread that waits for it ends with what it waits for, and after the next
/// piece once nobody wants it any more.
pub(super) struct Feed {
    shared: Arc<Mutex<Latest>>,
    is_unwanted: Arc<AtomicBool>,
    thread: JoinHandle<()>,
    seen: u64,
    /// A piece is late after this long, and what was told before no longer holds.
    patience: Nanos,
    child: Option<Child>,
}

struct Latest {
    bytes: Vec<u8>,
    number: u64,
    at: Nanos,
    ended: Option<Fault>,
}

/// What a line of a program comes to.
pub(super) enum Digest {
    Nothing,
    Piece(Vec<u8>),
    /// Why there will be nothing more, when it ends.
    Fault(Fault),
}

/// What a look found.
pub(super) enum Look<'a> {
    /// Nothing since the look before.
    Nothing,
    /// The newest piece, and when it came.
    Piece(Nanos, &'a [u8]),
    Fault(Fault),
}

const ENDED: Fault = Fault::absent("the program that tells it has ended");
const SILENT: Fault = Fault::new(
    Quality::Stale,
    "nothing came for much longer than it should take",
);

impl Feed {
    /// Pieces that `next` waits for, until it has no more.
    ///
    /// # Errors
    /// When no thread can be made.
    pub(super) fn of(
        name: &str,
        patience: Nanos,
        mut next: impl FnMut(&mut Vec<u8>) -> Result<(), Fault> + Send + 'static,
    ) -> io::Result<Self> {
        let shared = Arc::new(Mutex::new(Latest {
            bytes: Vec::with_capacity(ROOM),
            number: 0,
            at: Monotonic.now(),
            ended: None,
        }));
        let to = Arc::clone(&shared);
        let is_unwanted = Arc::new(AtomicBool::new(false));
        let is_over = Arc::clone(&is_unwanted);
        let wait = move || {
            let mut piece = Vec::with_capacity(ROOM);
            loop {
                piece.clear();
                let came = next(&mut piece);
                if is_over.load(Ordering::Acquire) {
                    return;
                }
                let mut latest = to.lock().unwrap_or_else(PoisonError::into_inner);
                if let Err(fault) = came {
                    latest.ended = Some(fault);
                    return;
                }
                latest.bytes.clear();
                latest.bytes.extend(&piece[..piece.len().min(ROOM)]);
                latest.number += 1;
                latest.at = Monotonic.now();
            }
        };
        let thread = thread::Builder::new().name(name.into()).spawn(wait)?;
        Ok(Self {
            shared,
            is_unwanted,
            thread,
            seen: 0,
            patience,
            child: None,
        })
    }

    /// What `digest` makes of the lines of a program, which ends with the thread that starts it and with
    /// this feed. What it says on its standard error comes as lines too.
    ///
    /// # Errors
    /// When it cannot be started.
    pub(super) fn lines_of(
        mut command: Command,
        patience: Nanos,
        mut digest: impl FnMut(&[u8]) -> Digest + Send + 'static,
    ) -> io::Result<Self> {
        let (from, to) = io::pipe()?;
        command
            .stdin(Stdio::null())
            .stdout(to.try_clone()?)
            .stderr(to);
        die_with_parent(&mut command);
        let child = command.spawn()?;
        // The command holds the writing end too: the pipe would never end.
        drop(command);
        let mut lines = BufReader::new(File::from(OwnedFd::from(from)));
        let mut told = None;
        let mut line = Vec::with_capacity(ROOM);
        let next = move |piece: &mut Vec<u8>| {
            loop {
                line.clear();
                let mut from = (&mut lines).take(ROOM as u64);
                if !matches!(from.read_until(b'\n', &mut line), Ok(1..)) {
                    return Err(told.unwrap_or(ENDED));
                }
                match digest(&line) {
                    Digest::Nothing => {}
                    Digest::Fault(fault) => told = told.or(Some(fault)),
                    Digest::Piece(made) => {
                        *piece = made;
                        return Ok(());
                    }
                }
            }
        };
        let mut feed = Self::of("sensor_lines", patience, next)?;
        feed.child = Some(child);
        Ok(feed)
    }

    /// CPU time that its program has used so far; of a thread without one, none.
    pub(super) fn cpu(&self) -> Result<i64, Fault> {
        const NO_PROGRAM: Fault = Fault::absent("no program tells it");
        let child = self.child.as_ref().ok_or(NO_PROGRAM)?;
        let spent = clock::cpu_time_of(child.id()).ok_or(ENDED)?;
        Ok(spent.0)
    }

    /// What is new since the look before; allocates nothing once `into` has room.
    pub(super) fn look<'a>(&mut self, into: &'a mut Vec<u8>) -> Look<'a> {
        let latest = self.shared.lock().unwrap_or_else(PoisonError::into_inner);
        if latest.number != self.seen {
            self.seen = latest.number;
            into.clear();
            into.extend(&latest.bytes);
            return Look::Piece(latest.at, into);
        }
        match latest.ended {
            Some(fault) => Look::Fault(fault),
            None if Monotonic.now() - latest.at > self.patience => Look::Fault(SILENT),
            None => Look::Nothing,
        }
    }
}

impl Drop for Feed {
    /// What a thread or a program holds is let go with it: whoever comes next may want it.
    fn drop(&mut self) {
        self.is_unwanted.store(true, Ordering::Release);
        let Some(child) = &mut self.child else {
            wait_until(|| self.thread.is_finished());
            return;
        };
        // It may have ended by itself.
        let _ = child.kill();
        // One that hangs in a driver ends when the driver lets it, and is waited for elsewhere.
        if !wait_until(|| !matches!(child.try_wait(), Ok(None)))
            && let Some(mut child) = self.child.take()
        {
            let wait = move || drop(child.wait());
            let _ = thread::Builder::new().spawn(wait);
        }
    }
}

/// Whether it came true before the farewell was over.
fn wait_until(mut is_it: impl FnMut() -> bool) -> bool {
    let mut left = FAREWELL;
    while !is_it() {
        if left.is_zero() {
            return false;
        }
        clock::pause(STEP);
        left = left.saturating_sub(STEP);
    }
    true
}

/// Room for a piece, made beforehand.
pub(super) fn room() -> Vec<u8> {
    Vec::with_capacity(ROOM)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines_of(script: &str, patience: Nanos) -> Feed {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        let digest = |line: &[u8]| match line.trim_ascii() {
            b"refused" => Digest::Fault(Fault::new(Quality::Busy, "somebody else has it")),
            b"noise" => Digest::Nothing,
            line => Digest::Piece(line.to_vec()),
        };
        Feed::lines_of(command, patience, digest).unwrap()
    }

    /// Looks until there is what is waited for.
    fn wait<T>(feed: &mut Feed, is_it: impl Fn(Look<'_>) -> Option<T>) -> T {
        let mut piece = room();
        for _ in 0..1000 {
            if let Some(found) = is_it(feed.look(&mut piece)) {
                return found;
            }
            thread::sleep(Duration::from_millis(5));
        }
        panic!("it never came");
    }

    fn piece(look: Look<'_>) -> Option<Vec<u8>> {
        match look {
            Look::Piece(_, piece) => Some(piece.to_vec()),
            Look::Nothing | Look::Fault(_) => None,
        }
    }

    fn fault(look: Look<'_>) -> Option<Fault> {
        match look {
            Look::Fault(fault) => Some(fault),
            Look::Nothing | Look::Piece(..) => None,
        }
    }

    #[test]
    fn a_tool_that_falls_silent_is_stale_until_it_speaks() {
        let folder = tempfile::tempdir().unwrap();
        let go = folder.path().join("go");
        let script = format!(
            "echo noise; echo one; until [ -e {go} ]; do sleep 0.02; done; echo two; exec sleep 60",
            go = go.display()
        );
        let mut feed = lines_of(&script, Nanos::from_millis(50));
        assert_eq!(wait(&mut feed, piece), b"one");
        assert_eq!(wait(&mut feed, fault).quality, Quality::Stale);
        std::fs::write(go, "").unwrap();
        assert_eq!(wait(&mut feed, piece), b"two");
    }

    #[test]
    fn what_nobody_wants_any_more_is_let_go() {
        let held = Arc::new(());
        let inside = Arc::clone(&held);
        let feed = Feed::of("test_pieces", Nanos::from_secs(60), move |piece| {
            let _inside = &inside;
            clock::pause(Duration::from_millis(10));
            piece.push(1);
            Ok(())
        });
        assert_eq!(Arc::strong_count(&held), 2);
        drop(feed.unwrap());
        assert_eq!(Arc::strong_count(&held), 1, "its thread goes on");
    }

    #[test]
    fn what_a_tool_costs_is_known_while_it_runs() {
        let mut feed = lines_of(
            "i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done; echo one; exec sleep 60",
            Nanos::from_secs(60),
        );
        assert_eq!(wait(&mut feed, piece), b"one");
        let spent = feed.cpu().unwrap();
        // A shell needs more than 10 ns and less than a minute for twenty thousand rounds.
        assert!(200_000 < spent && spent < 60_000_000_000, "{spent} ns");
        let thread = Feed::of("test_pieces", Nanos::from_secs(60), |_| Err(ENDED)).unwrap();
        assert!(thread.cpu().is_err());
    }

    #[test]
    fn a_tool_that_nobody_wants_any_more_has_ended() {
        let mut feed = lines_of("echo one; exec sleep 60", Nanos::from_secs(60));
        assert_eq!(wait(&mut feed, piece), b"one");
        let process = feed.child.as_ref().unwrap().id();
        drop(feed);
        // Waited for as well: not even a zombie is left.
        assert!(!std::path::Path::new(&format!("/proc/{process}")).exists());
    }

    #[test]
    fn a_tool_that_ends_says_why_where_it_said_why() {
        for (script, quality) in [
            ("echo one; exit 1", Quality::Absent),
            ("echo one; echo refused >&2", Quality::Busy),
        ] {
            let mut feed = lines_of(script, Nanos::from_secs(60));
            // The end may come before the first look, and what came before it is told all the same.
            assert_eq!(wait(&mut feed, piece), b"one");
            assert_eq!(wait(&mut feed, fault).quality, quality, "{script}");
        }
    }
}
