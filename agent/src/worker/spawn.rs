//! Starts processes of this same program: workers, stressors, and the daemon itself.

use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use edgedyno_sys::kernel::process::{die_with_parent, inherit};

/// Set by a test or an emulator: words before the program, such as `qemu-aarch64 -L SYSROOT`.
pub const PREFIX_VARIABLE: &str = "EDGEDYNO_AGENT_PREFIX";

/// How this program starts itself again.
#[derive(Debug, Clone)]
pub struct SelfExec {
    /// An emulator and its arguments; empty on the machine's own architecture.
    pub prefix: Vec<OsString>,
    pub program: PathBuf,
    /// Arguments before ours, such as `__agent` inside the host's binary.
    pub leading: Vec<OsString>,
}

impl SelfExec {
    /// Without a prefix the program is /proc/self/exe, so that a replaced file cannot start another
    /// build; an emulator would take that for itself and needs the path.
    pub fn new(leading: Vec<OsString>) -> io::Result<Self> {
        let prefix = std::env::var_os(PREFIX_VARIABLE).unwrap_or_default();
        let prefix: Vec<OsString> = prefix
            .to_string_lossy()
            .split_whitespace()
            .map(OsString::from)
            .collect();
        let program = if prefix.is_empty() {
            PathBuf::from("/proc/self/exe")
        } else {
            std::env::current_exe()?
        };
        Ok(Self {
            prefix,
            program,
            leading,
        })
    }

    /// The command for one of our own entries.
    pub fn command(&self, entry: &str) -> Command {
        let mut command = self.other(&self.program);
        command.args(&self.leading).arg(entry);
        command
    }

    /// The command for another build of the agent, as yet without a word.
    pub fn other(&self, program: &Path) -> Command {
        let mut words = self.prefix.iter().cloned();
        match words.next() {
            Some(emulator) => {
                let mut command = Command::new(emulator);
                command.args(words).arg(program);
                command
            }
            None => Command::new(program),
        }
    }

    /// A worker, not yet started: in its own process group, ended with this thread, its streams piped,
    /// nothing on its standard input.
    ///
    /// The daemon's end of the socket pair is returned beside the command.
    pub fn worker(&self, arena: Option<File>) -> io::Result<(Command, UnixStream)> {
        let (ours, theirs) = UnixStream::pair()?;
        let mut command = self.command("worker");
        let control = inherit(&mut command, OwnedFd::from(theirs));
        command.arg("--control").arg(control.to_string());
        if let Some(arena) = arena {
            let number = inherit(&mut command, OwnedFd::from(arena));
            command.arg("--arena").arg(number.to_string());
        }
        command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        // rten starts a pool for the whole process beside the one it is given: keep that at one thread.
        if std::env::var_os("RTEN_NUM_THREADS").is_none() {
            command.env("RTEN_NUM_THREADS", "1");
        }
        // Official builds of ONNX Runtime from 1.29 on send what they do to their maker, from threads beside
        // the one that measures, and keep a number of the device in ~/.cache/Microsoft. Only before it begins
        // can that be prevented (ONNX Runtime, docs/Privacy.md, "Disabling Telemetry").
        command.env("ORT_DISABLE_TELEMETRY", "1");
        // The backtrace of a panic for lack of memory allocates, and waits for itself for ever.
        command
            .env("RUST_BACKTRACE", "0")
            .env_remove("RUST_LIB_BACKTRACE");
        command.process_group(0);
        die_with_parent(&mut command);
        Ok((command, ours))
    }

    /// A stressor, not yet started: in its own process group, ended with this thread, deaf and dumb but
    /// for its socket and the board it counts on.
    ///
    /// The daemon's end of the socket pair is returned beside the command.
    pub fn stressor(&self, board: File) -> io::Result<(Command, UnixStream)> {
        let (ours, theirs) = UnixStream::pair()?;
        let mut command = self.command("stressor");
        let control = inherit(&mut command, OwnedFd::from(theirs));
        let board = inherit(&mut command, OwnedFd::from(board));
        command.arg("--control").arg(control.to_string());
        command.arg("--board").arg(board.to_string());
        command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        command.process_group(0);
        die_with_parent(&mut command);
        Ok((command, ours))
    }
}

#[cfg(test)]
mod tests {
    use std::ffi::OsStr;

    use super::*;

    #[test]
    fn no_worker_lets_a_runtime_report_to_its_maker() {
        let (command, _control) = SelfExec::new(Vec::new()).unwrap().worker(None).unwrap();
        let set = command
            .get_envs()
            .find(|(name, _)| *name == "ORT_DISABLE_TELEMETRY");
        assert_eq!(set.unwrap().1, Some(OsStr::new("1")));
    }
}
