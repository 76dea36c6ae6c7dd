//! A terminal of its own for a program, as a person sits at one: keys go in, the screen comes out.

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::os::fd::{AsFd as _, OwnedFd};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use nix::pty::{OpenptyResult, Winsize, openpty};
use nix::sys::signal::{Signal, kill};
use nix::unistd::{Pid, ttyname};

use crate::clock::Deadline;

/// A program on a terminal. Dropped, the program is killed.
#[derive(Debug)]
pub struct Terminal {
    child: Child,
    keys: File,
    /// Kept, so that its size can be changed and what it became can be read.
    line: OwnedFd,
    shown: Arc<Mutex<String>>,
}

impl Terminal {
    pub(crate) fn start(mut command: Command, rows: u16, columns: u16) -> Self {
        let size = Winsize {
            ws_row: rows,
            ws_col: columns,
            ws_xpixel: 0,
            ws_ypixel: 0,
        };
        let OpenptyResult { master, slave } =
            openpty(&size, None).expect("this system has terminals");
        let end = || Stdio::from(slave.try_clone().expect("a descriptor is free"));
        command.stdin(end()).stdout(end()).stderr(end());
        let child = command
            .spawn()
            .unwrap_or_else(|why| panic!("cannot start {command:?}: {why}"));
        let shown = Arc::new(Mutex::new(String::new()));
        let mut from = File::from(master.try_clone().expect("a descriptor is free"));
        let to = Arc::clone(&shown);
        thread::spawn(move || {
            let mut bytes = [0; 4096];
            while let Ok(count @ 1..) = from.read(&mut bytes) {
                let text = String::from_utf8_lossy(&bytes[..count]);
                to.lock()
                    .unwrap_or_else(PoisonError::into_inner)
                    .push_str(&text);
            }
        });
        Self {
            child,
            keys: File::from(master),
            line: slave,
            shown,
        }
    }

    /// All that was written to it, with its control sequences.
    pub fn shown(&self) -> String {
        let shown = self.shown.lock();
        shown.unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The last whole screen, line by line, without control sequences.
    pub fn screen(&self) -> Vec<String> {
        let shown = self.shown();
        let mut frames = shown.rsplit("\x1b[H");
        let unfinished = frames.next().unwrap_or_default();
        let whole = match unfinished.ends_with("\x1b[J") {
            true => unfinished,
            false => frames.next().unwrap_or_default(),
        };
        let whole = whole.replace("\x1b[K", "").replace("\x1b[J", "");
        whole.lines().map(str::to_owned).collect()
    }

    /// Presses keys.
    ///
    /// # Panics
    /// When the terminal is gone.
    pub fn press(&mut self, keys: &str) {
        self.keys
            .write_all(keys.as_bytes())
            .expect("the terminal takes keys");
    }

    /// Ctrl-C, as the terminal gives it to its program.
    ///
    /// # Panics
    /// When the program is gone.
    pub fn interrupt(&self) {
        let pid = Pid::from_raw(self.child.id().cast_signed());
        kill(pid, Signal::SIGINT).expect("the program still runs");
    }

    /// Makes it another size, which its program is told by a signal.
    ///
    /// # Panics
    /// When there is no `stty`.
    pub fn resize(&self, rows: u16, columns: u16) {
        let name = ttyname(self.line.as_fd()).expect("a terminal has a name");
        let set = Command::new("stty")
            .arg("-F")
            .arg(name)
            .args(["rows", &rows.to_string(), "cols", &columns.to_string()])
            .status();
        assert!(set.expect("stty is there").success());
    }

    /// What `stty` says of it: whether lines and echo are as a shell wants them.
    ///
    /// # Panics
    /// When there is no `stty`.
    pub fn settings(&self) -> String {
        let name = ttyname(self.line.as_fd()).expect("a terminal has a name");
        let output = Command::new("stty").arg("-a").arg("-F").arg(name).output();
        String::from_utf8_lossy(&output.expect("stty is there").stdout).into_owned()
    }

    /// Waits until the screen shows something.
    ///
    /// # Panics
    /// When it does not within the limit.
    #[track_caller]
    pub fn wait_for(&self, what: &str, is_there: impl Fn(&[String]) -> bool) {
        let limit = Duration::from_secs(60);
        let seen = Deadline::after(limit).poll(|| is_there(&self.screen()).then_some(()));
        assert!(seen.is_some(), "{what} within {limit:?}:\n{}", self.shown());
    }

    /// Waits for its end; the exit code.
    ///
    /// # Panics
    /// When it does not end within the limit.
    #[track_caller]
    pub fn wait(&mut self) -> Option<i32> {
        let limit = Duration::from_secs(60);
        let ended = Deadline::after(limit).poll(|| self.child.try_wait().ok().flatten());
        let ended = ended.unwrap_or_else(|| panic!("still there after {limit:?}"));
        ended.code()
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
