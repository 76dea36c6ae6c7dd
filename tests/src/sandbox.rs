//! A machine of its own for one test: home, state, runtime folder, store and working folder.

use std::ffi::{OsStr, OsString};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use tempfile::TempDir;

use crate::clock::Deadline;
use crate::leftovers::living_in;
use crate::process::{Output, Running};
use crate::terminal::Terminal;
use crate::{binaries, redact};

/// How long a command may take unless the test says otherwise. Far beyond what any needs: it is there
/// so that a hang fails the test and not the whole run.
const LIMIT: Duration = Duration::from_secs(120);

/// How long [`Sandbox::finish`] waits for processes to leave by themselves. A daemon that `local`
/// started does so 5 s after its last session.
const LEAVE: Duration = Duration::from_secs(10);

/// Folders and variables that keep a test from the user's own files, daemon and other tests.
///
/// Dropped, it kills every process that was started with these variables and deletes the folders
/// (`EDGEDYNO_TEST_KEEP=1` keeps them).
#[derive(Debug)]
pub struct Sandbox {
    folder: TempDir,
    runtime: TempDir,
    variables: Vec<(OsString, OsString)>,
    limit: Duration,
    started: AtomicU32,
}

impl Sandbox {
    /// Makes the folders, all empty.
    #[expect(clippy::new_without_default, reason = "a sandbox has effects")]
    pub fn new() -> Self {
        let folder = tempdir_in(&std::env::temp_dir());
        // The agent's arenas belong on a tmpfs; on a disk they would be a finding in every test.
        let memory = Path::new("/dev/shm");
        let runtime = if memory.is_dir() {
            tempdir_in(memory)
        } else {
            tempdir_in(&std::env::temp_dir())
        };
        let at = |name: &str| {
            let path = folder.path().join(name);
            std::fs::create_dir_all(&path).expect("the temporary folder takes folders");
            path.into_os_string()
        };
        let mut variables: Vec<(OsString, OsString)> = [
            ("HOME", at("home")),
            ("TMPDIR", at("tmp")),
            ("XDG_CACHE_HOME", at("home/.cache")),
            ("XDG_CONFIG_HOME", at("home/.config")),
            ("XDG_DATA_HOME", at("home/.local/share")),
            ("XDG_STATE_HOME", at("home/.local/state")),
            ("XDG_RUNTIME_DIR", runtime.path().into()),
            ("EDGEDYNO_AGENT_STATE", at("state")),
            ("EDGEDYNO_STORE", folder.path().join("store").into()),
            ("LC_ALL", "C.UTF-8".into()),
            ("TZ", "UTC".into()),
            ("TERM", "dumb".into()),
            ("RUST_BACKTRACE", "1".into()),
        ]
        .map(|(key, value)| (key.into(), value))
        .into();
        at("out");
        at("work");
        if let Some(path) = std::env::var_os("PATH") {
            variables.push(("PATH".into(), path));
        }
        Self {
            folder,
            runtime,
            variables,
            limit: LIMIT,
            started: AtomicU32::new(0),
        }
    }

    /// Sets a variable for the commands that follow.
    pub fn env(&mut self, key: impl AsRef<OsStr>, value: impl AsRef<OsStr>) -> &mut Self {
        self.env_remove(&key);
        self.variables
            .push((key.as_ref().into(), value.as_ref().into()));
        self
    }

    /// Takes a variable away from the commands that follow.
    pub fn env_remove(&mut self, key: impl AsRef<OsStr>) -> &mut Self {
        self.variables.retain(|(known, _)| known != key.as_ref());
        self
    }

    /// Sets the time that each of the commands that follow may take.
    pub fn limit(&mut self, limit: Duration) -> &mut Self {
        self.limit = limit;
        self
    }

    /// The working folder of every command.
    pub fn work(&self) -> PathBuf {
        self.folder.path().join("work")
    }

    /// The store that commands use; it exists once something was measured.
    pub fn store(&self) -> PathBuf {
        self.folder.path().join("store")
    }

    /// The state folder of the agent's daemon.
    pub fn state(&self) -> PathBuf {
        self.folder.path().join("state")
    }

    /// The runtime folder, where arenas and other files of a moment live.
    pub fn runtime(&self) -> &Path {
        self.runtime.path()
    }

    /// Writes a file in the working folder and returns its path.
    pub fn write(&self, name: &str, content: impl AsRef<[u8]>) -> PathBuf {
        let path = self.work().join(name);
        let parent = path.parent().expect("a file lies in a folder");
        std::fs::create_dir_all(parent).expect("the working folder takes folders");
        std::fs::write(&path, content).expect("the working folder takes files");
        path
    }

    /// Runs `edgedyno` to its end.
    ///
    /// # Panics
    /// When it does not end within the limit.
    pub fn edgedyno<A: AsRef<OsStr>>(&self, args: impl IntoIterator<Item = A>) -> Output {
        self.start_edgedyno(args).wait()
    }

    /// Starts `edgedyno` and goes on.
    pub fn start_edgedyno<A: AsRef<OsStr>>(&self, args: impl IntoIterator<Item = A>) -> Running {
        self.start(&binaries().host, args)
    }

    /// Runs `edgedyno-agent` to its end.
    ///
    /// # Panics
    /// When it does not end within the limit.
    pub fn agent<A: AsRef<OsStr>>(&self, args: impl IntoIterator<Item = A>) -> Output {
        self.start_agent(args).wait()
    }

    /// Starts `edgedyno-agent` and goes on.
    pub fn start_agent<A: AsRef<OsStr>>(&self, args: impl IntoIterator<Item = A>) -> Running {
        self.start(&binaries().agent, args)
    }

    /// Starts any program as the two above are started: `strace`, a shell, a copy of the agent.
    pub fn start<A: AsRef<OsStr>>(
        &self,
        program: impl AsRef<OsStr>,
        args: impl IntoIterator<Item = A>,
    ) -> Running {
        let mut command = Command::new(program);
        command
            .args(args)
            .env_clear()
            .envs(self.variables.iter().map(|(key, value)| (key, value)))
            .current_dir(self.work());
        let number = self.started.fetch_add(1, Ordering::Relaxed);
        Running::start(
            command,
            &self.folder.path().join(format!("out/{number}")),
            self.limit,
        )
    }

    /// Runs `edgedyno` at a terminal of so many rows and columns.
    pub fn terminal<A: AsRef<OsStr>>(
        &self,
        args: impl IntoIterator<Item = A>,
        rows: u16,
        columns: u16,
    ) -> Terminal {
        let mut command = Command::new(&binaries().host);
        command
            .args(args)
            .env_clear()
            .envs(self.variables.iter().map(|(key, value)| (key, value)))
            .env("TERM", "xterm")
            .current_dir(self.work());
        Terminal::start(command, rows, columns)
    }

    /// What still runs here: daemon, worker, stressor, or a command that was started.
    pub fn processes(&self) -> Vec<(nix::unistd::Pid, String)> {
        let mut all = living_in(self.folder.path());
        all.extend(living_in(self.runtime.path()));
        all.sort();
        all.dedup();
        all
    }

    /// Ends the sandbox of a test that cares about what stays behind: all must leave by itself.
    ///
    /// # Panics
    /// When a process is still there after ten seconds.
    #[track_caller]
    pub fn finish(self) {
        let left = Deadline::after(LEAVE).poll(|| self.processes().is_empty().then_some(()));
        assert!(
            left.is_some(),
            "still running after {LEAVE:?}: {:#?}",
            self.processes()
        );
    }

    /// A text with this sandbox's own folders and everything that varies from run to run redacted.
    pub fn redact(&self, text: &str) -> String {
        let work = self.work();
        redact::redact(&text.replace(&*work.to_string_lossy(), "[work]"))
    }
}

impl Drop for Sandbox {
    fn drop(&mut self) {
        // A killed daemon may have been starting a worker: look until there is nobody.
        let gone = Deadline::after(LEAVE).poll(|| {
            let left = self.processes();
            for (pid, _) in &left {
                // Fails only for one that is gone already.
                let _ = kill(*pid, Signal::SIGKILL);
            }
            left.is_empty().then_some(())
        });
        if gone.is_none() && !std::thread::panicking() {
            panic!("cannot be killed: {:#?}", self.processes());
        }
        if std::env::var_os("EDGEDYNO_TEST_KEEP").is_some_and(|keep| keep == "1") {
            self.folder.disable_cleanup(true);
            self.runtime.disable_cleanup(true);
        }
    }
}

/// A short name: a Unix socket's path has room for 107 bytes.
fn tempdir_in(parent: &Path) -> TempDir {
    tempfile::Builder::new()
        .prefix("edt-")
        .permissions(std::fs::Permissions::from_mode(0o700))
        .tempdir_in(parent)
        .expect("a temporary folder can be made")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A process that leaves session and group, as the daemon does, and stays.
    const DAEMON: &str = "setsid sleep 64 >/dev/null 2>&1 </dev/null & echo started";

    #[test]
    fn commands_see_only_the_variables_of_the_sandbox() {
        let mut sandbox = Sandbox::new();
        sandbox.env("A", "1").env("A", "2").env_remove("TERM");
        let output = sandbox
            .start("sh", ["-c", "echo $A $TERM $HOME $CARGO; pwd"])
            .wait()
            .ok();
        let home = sandbox.folder.path().join("home");
        let work = sandbox.work().canonicalize().unwrap();
        assert_eq!(
            output.stdout,
            format!("2 {}\n{}\n", home.display(), work.display())
        );
    }

    #[test]
    fn a_daemon_left_behind_is_killed_with_the_sandbox() {
        let sandbox = Sandbox::new();
        sandbox.start("sh", ["-c", DAEMON]).wait().ok();
        // The shell and setsid are on their way out.
        let alone = || (sandbox.processes().len() == 1).then_some(());
        assert!(Deadline::after(LIMIT).poll(alone).is_some());
        let folder = sandbox.folder.path().to_path_buf();
        drop(sandbox);
        assert!(living_in(&folder).is_empty());
        assert!(!folder.exists());
    }

    #[test]
    fn finish_finds_fault_with_a_daemon_that_stays() {
        let sandbox = Sandbox::new();
        sandbox.start("sh", ["-c", DAEMON]).wait().ok();
        assert!(
            std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| sandbox.finish())).is_err()
        );
    }

    #[test]
    fn finish_is_content_when_all_left() {
        let sandbox = Sandbox::new();
        sandbox.start("true", [""; 0]).wait().ok();
        sandbox.finish();
    }

    #[test]
    fn both_binaries_start_in_a_sandbox() {
        let sandbox = Sandbox::new();
        sandbox.edgedyno(["--version"]).ok();
        sandbox.agent(["--version"]).ok();
    }
}
