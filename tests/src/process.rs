//! Starting a program and waiting for it with a limit.

use std::fs::{self, File};
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

use nix::sys::signal::{Signal, kill, killpg};
use nix::unistd::Pid;
use serde_json::Value;

use crate::clock::Deadline;

/// A started program in a process group of its own. Dropped, the whole group is killed.
#[derive(Debug)]
pub struct Running {
    child: Child,
    line: String,
    stdout: PathBuf,
    stderr: PathBuf,
    since: Deadline,
}

impl Running {
    /// Starts `command` with its output in two files `NAME.stdout` and `NAME.stderr`. Files and not
    /// pipes: whoever inherits the descriptors and stays could keep a reader of a pipe waiting.
    pub(crate) fn start(mut command: Command, name: &Path, limit: Duration) -> Self {
        let line = format!("{command:?}");
        let (stdout, stderr) = (name.with_extension("stdout"), name.with_extension("stderr"));
        let create = |path| File::create(path).expect("the sandbox takes files");
        command
            .stdin(Stdio::null())
            .stdout(create(&stdout))
            .stderr(create(&stderr))
            .process_group(0);
        let since = Deadline::after(limit);
        let child = command
            .spawn()
            .unwrap_or_else(|error| panic!("cannot start {line}: {error}"));
        Self {
            child,
            line,
            stdout,
            stderr,
            since,
        }
    }

    /// The process id, also the id of its group.
    pub fn pid(&self) -> Pid {
        Pid::from_raw(self.child.id().cast_signed())
    }

    /// Sends a signal to the program alone, as `kill` does.
    pub fn signal(&self, signal: Signal) {
        kill(self.pid(), signal).expect("the program still runs");
    }

    /// Sends a signal to its group, as a terminal does on Ctrl-C.
    pub fn signal_group(&self, signal: Signal) {
        killpg(self.pid(), signal).expect("the program still runs");
    }

    /// What it has written to stdout until now.
    pub fn stdout_so_far(&self) -> String {
        read_lossy(&self.stdout)
    }

    /// What it has written to stderr until now.
    pub fn stderr_so_far(&self) -> String {
        read_lossy(&self.stderr)
    }

    /// Waits until `is_there` holds; asks again and again within the time limit.
    ///
    /// # Panics
    /// When the limit is over first, or when the program ends before it holds.
    pub fn wait_until(&mut self, what: &str, mut is_there: impl FnMut(&Self) -> bool) {
        let since = self.since;
        let seen = since.poll(|| {
            if is_there(self) {
                return Some(true);
            }
            self.ended().map(|_| is_there(self))
        });
        if seen != Some(true) {
            panic!("{what} did not come{}", self.describe());
        }
    }

    /// Waits for the end, within the time limit it was started with.
    ///
    /// # Panics
    /// When the limit is over first; its group is killed then.
    pub fn wait(mut self) -> Output {
        let since = self.since;
        let Some(status) = since.poll(|| self.ended()) else {
            panic!("no end within the limit{}", self.describe());
        };
        Output {
            // As shells count: 128 + signal.
            code: status
                .code()
                .or_else(|| status.signal().map(|signal| 128 + signal))
                .unwrap_or(-1),
            stdout: self.stdout_so_far(),
            stderr: self.stderr_so_far(),
            elapsed: since.elapsed(),
            line: self.line.clone(),
        }
    }

    /// Whether it has ended by itself.
    pub fn has_ended(&mut self) -> bool {
        self.ended().is_some()
    }

    fn ended(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().expect("a child can be waited for")
    }

    fn describe(&self) -> String {
        let elapsed = self.since.elapsed().as_secs_f64();
        let (stdout, stderr) = (self.stdout_so_far(), self.stderr_so_far());
        format!(
            " after {elapsed:.1} s\n{}",
            transcript(&self.line, &stdout, &stderr)
        )
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // An error here says that nobody is left in the group, which is what is wanted. Once the child
        // was waited for, its id may belong to somebody else: then the group must be left alone.
        if matches!(self.child.try_wait(), Ok(None)) {
            let _ = killpg(self.pid(), Signal::SIGKILL);
            let _ = self.child.wait();
        }
    }
}

/// What a finished program left.
#[derive(Clone, Debug)]
pub struct Output {
    /// The exit code; 128 + N when signal N ended it.
    pub code: i32,
    /// What it printed as its result.
    pub stdout: String,
    /// Everything else it printed.
    pub stderr: String,
    /// From start to end.
    pub elapsed: Duration,
    line: String,
}

impl Output {
    /// Holds the exit code against the expected one, and hands itself on.
    ///
    /// # Panics
    /// When the code is another one, with all that was printed.
    #[track_caller]
    pub fn expect_code(self, code: i32) -> Self {
        assert!(
            self.code == code,
            "exit code {} instead of {code}\n{}",
            self.code,
            transcript(&self.line, &self.stdout, &self.stderr)
        );
        self
    }

    /// `expect_code(0)`.
    #[track_caller]
    pub fn ok(self) -> Self {
        self.expect_code(0)
    }

    /// Stdout as one JSON value.
    ///
    /// # Panics
    /// When it is not JSON, with all that was printed.
    #[track_caller]
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.stdout).unwrap_or_else(|error| {
            panic!(
                "stdout is not JSON: {error}\n{}",
                transcript(&self.line, &self.stdout, &self.stderr)
            )
        })
    }
}

fn transcript(line: &str, stdout: &str, stderr: &str) -> String {
    format!("command: {line}\n--- stdout\n{stdout}\n--- stderr\n{stderr}\n---")
}

fn read_lossy(path: &Path) -> String {
    String::from_utf8_lossy(&fs::read(path).unwrap_or_default()).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::leftovers::living_in;

    const LIMIT: Duration = Duration::from_secs(20);

    fn shell(folder: &Path, script: &str, limit: Duration) -> Running {
        let mut command = Command::new("sh");
        command.args(["-c", script]).current_dir(folder);
        Running::start(command, &folder.join("out"), limit)
    }

    #[test]
    fn an_output_has_code_and_both_streams() {
        let folder = tempfile::tempdir().unwrap();
        let output = shell(
            folder.path(),
            "echo '{\"a\":1}'; echo no >&2; exit 5",
            LIMIT,
        )
        .wait();
        let output = output.expect_code(5);
        assert_eq!(output.json()["a"], 1);
        assert_eq!(output.stderr, "no\n");
    }

    #[test]
    fn a_signal_is_counted_as_shells_do() {
        let folder = tempfile::tempdir().unwrap();
        let mut running = shell(folder.path(), "echo up; exec sleep 60", LIMIT);
        running.wait_until("the first line", |running| {
            running.stdout_so_far() == "up\n"
        });
        running.signal(Signal::SIGTERM);
        assert_eq!(running.wait().code, 128 + 15);
    }

    #[test]
    fn a_program_over_its_limit_is_killed_with_its_children() {
        let folder = tempfile::tempdir().unwrap();
        let running = shell(
            folder.path(),
            "sleep 61 & sleep 62",
            Duration::from_millis(300),
        );
        let waited = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| running.wait()));
        assert!(waited.is_err());
        let gone =
            Deadline::after(LIMIT).poll(|| living_in(folder.path()).is_empty().then_some(()));
        assert_eq!(gone, Some(()), "left: {:?}", living_in(folder.path()));
    }
}
