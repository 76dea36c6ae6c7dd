//! Running scripts on a board through the system's ssh.
//!
//! Scripts go to `/bin/sh` by its standard input, whatever the login shell is, and their output begins
//! behind a random marker, whatever a login prints. Bytes go through `cat`: many boards have no sftp.

use std::ffi::OsString;
use std::fs::File;
use std::io::Read as _;
use std::path::Path;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};
use tokio::process::{Child, Command};
use tokio::time::timeout;

use super::Destination;
use super::fault::{Fault, SshError};

/// Program and first words, separated by spaces, instead of `ssh`.
pub const SSH_VARIABLE: &str = "EDGEDYNO_SSH";

const USUAL: &str = "ssh";

/// Everything of ours that a session needs and a configuration might turn round. Host keys are left to the
/// user's settings; nothing is asked, so that no command waits for somebody who is not there.
const OPTIONS: [&str; 9] = [
    "BatchMode=yes",
    "RequestTTY=no",
    "RemoteCommand=none",
    "ClearAllForwardings=yes",
    "PermitLocalCommand=no",
    "ConnectTimeout=10",
    // A line on which nothing is heard for fifteen seconds is dead.
    "ServerAliveInterval=5",
    "ServerAliveCountMax=3",
    "LogLevel=INFO",
];

/// A script that says nothing for this long never will.
const SCRIPT_LIMIT: Duration = Duration::from_secs(60);

/// Words on the standard error that are kept.
const STDERR_LIMIT: usize = 64 << 10;

/// A connection that is shared may hold our pipes open a little longer.
const LINGER: Duration = Duration::from_millis(300);

/// One place that ssh goes to.
#[derive(Debug, Clone)]
pub struct Shell {
    destination: Destination,
    program: Vec<OsString>,
}

/// What a script came to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    pub output: String,
    /// Exit code of the script.
    pub code: i32,
    /// What it, or the login, said on the standard error.
    pub stderr: String,
}

impl Shell {
    pub fn new(destination: Destination) -> Self {
        Self::by(
            &std::env::var(SSH_VARIABLE).unwrap_or_default(),
            destination,
        )
    }

    /// By the program and first words that are named; `ssh` where none is.
    pub(crate) fn by(words: &str, destination: Destination) -> Self {
        let mut program: Vec<OsString> = words.split_whitespace().map(OsString::from).collect();
        if program.is_empty() {
            program.push(USUAL.into());
        }
        Self {
            destination,
            program,
        }
    }

    pub fn destination(&self) -> &Destination {
        &self.destination
    }

    /// The program and its first words, as they are typed.
    pub fn program(&self) -> String {
        let words = self
            .program
            .iter()
            .map(|word| quoted(&word.to_string_lossy()));
        words.collect::<Vec<_>>().join(" ")
    }

    /// Whether it is the system's own ssh with nothing more.
    pub fn is_usual(&self) -> bool {
        self.program == [USUAL]
    }

    /// The destination as it is typed behind ssh.
    pub fn place(&self) -> String {
        let Destination { user, host, port } = &self.destination;
        let host = match user {
            Some(user) => quoted(&format!("{user}@{host}")),
            None => quoted(host),
        };
        match port {
            Some(port) => format!("-p {port} {host}"),
            None => host,
        }
    }

    /// What a user types to go the same way.
    pub fn typed(&self) -> String {
        format!("{} {}", self.program(), self.place())
    }

    fn ssh(&self) -> Command {
        let mut command = Command::new(&self.program[0]);
        command.args(&self.program[1..]);
        command
    }

    /// ssh with that command line for the login shell.
    pub(super) fn command(&self, line: &str) -> Command {
        let mut command = self.ssh();
        command.args(["-T", "-x", "-a"]);
        for option in OPTIONS {
            command.args(["-o", option]);
        }
        if let Some(port) = self.destination.port {
            command.args(["-p", &port.to_string()]);
        }
        if let Some(user) = &self.destination.user {
            command.args(["-l", user]);
        }
        command.args(["--", &self.destination.host, line]);
        command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        // Ctrl-C is for this program, which ends its sessions in order.
        command.process_group(0).kill_on_drop(true);
        command
    }

    pub(super) fn start(&self, line: &str) -> Result<Child, SshError> {
        let started = self.command(line).spawn();
        started.map_err(|why| SshError::start(self, &why))
    }

    /// What ssh itself makes of the destination: `hostname`, `port`, `proxyjump` and so on.
    pub async fn settings(&self) -> Result<Vec<(String, String)>, SshError> {
        let mut command = self.ssh();
        command.arg("-G");
        if let Some(port) = self.destination.port {
            command.args(["-p", &port.to_string()]);
        }
        command
            .args(["--", &self.destination.host])
            .stdin(Stdio::null());
        let output = command.output().await;
        let output = output.map_err(|why| SshError::start(self, &why))?;
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let pairs = text.lines().filter_map(|line| line.split_once(' '));
        Ok(pairs
            .map(|(key, value)| (key.to_owned(), value.to_owned()))
            .collect())
    }

    /// Runs a script of any number of lines. Whatever it reads, it reads nothing.
    pub async fn run(&self, script: &str) -> Result<Answer, SshError> {
        let ran = timeout(SCRIPT_LIMIT, self.run_unlimited(script)).await;
        ran.unwrap_or_else(|_| Err(SshError::new(self, Fault::Slow, "")))
    }

    async fn run_unlimited(&self, script: &str) -> Result<Answer, SshError> {
        let marker = marker();
        // A function is read to its end before it runs: what it calls cannot eat what is left of it. Its
        // `exit` leaves only the shell that it runs in.
        let text = format!(
            "edgedyno() (\n{script}\n)\nprintf '\\n%s\\n' {marker}\nedgedyno </dev/null\n\
             printf '\\n%s %s\\n' {marker} \"$?\"\nexit 0\n"
        );
        let mut child = self.start("exec /bin/sh")?;
        let (stdin, stdout, stderr) =
            (child.stdin.take(), child.stdout.take(), child.stderr.take());
        let write = async {
            if let Some(mut stdin) = stdin {
                // A shell that has gone is told by its end.
                let _ = stdin.write_all(text.as_bytes()).await;
                let _ = stdin.shutdown().await;
            }
        };
        let stderr = tokio::spawn(read_bounded(stderr));
        let ((), stdout) = tokio::join!(write, read_bounded(stdout));
        let status = child.wait().await;
        let stderr = finish(stderr).await;
        match between(&stdout, &marker) {
            Some((output, code)) => Ok(Answer {
                output,
                code,
                stderr,
            }),
            None => Err(self.no_answer(status.ok(), &stderr)),
        }
    }

    fn no_answer(&self, status: Option<ExitStatus>, stderr: &str) -> SshError {
        let error = SshError::ended(self, status.and_then(|s| s.code()), stderr);
        match error.fault {
            Fault::AgentMissing | Fault::AgentUnusable | Fault::Other => {
                let said = error.said;
                SshError::new(self, Fault::Shell, said)
            }
            _ => error,
        }
    }

    /// Sends a file through one line for `/bin/sh`, which must contain no quote; what it printed last, and
    /// its exit code.
    pub async fn send(
        &self,
        line: &str,
        file: &Path,
        tell: &mut dyn FnMut(u64),
    ) -> Result<Answer, SshError> {
        let failed = |why: std::io::Error| {
            SshError::new(self, Fault::Other, format!("{}: {why}", file.display()))
        };
        debug_assert!(is_plain(line), "{line}");
        let mut child = self.start(&format!("exec /bin/sh -c '{line}'"))?;
        let (stdin, stdout, stderr) =
            (child.stdin.take(), child.stdout.take(), child.stderr.take());
        let stderr = tokio::spawn(read_bounded(stderr));
        let stdout = tokio::spawn(read_bounded(stdout));
        let mut source = File::open(file).map_err(failed)?;
        if let Some(mut stdin) = stdin {
            let mut piece = vec![0; 64 << 10];
            let mut done = 0;
            loop {
                let read = source.read(&mut piece).map_err(failed)?;
                // Whoever does not take it any more says why by its end.
                if read == 0 || stdin.write_all(&piece[..read]).await.is_err() {
                    break;
                }
                done += read as u64;
                tell(done);
            }
            let _ = stdin.shutdown().await;
        }
        let status = child.wait().await.ok();
        let (output, stderr) = (finish(stdout).await, finish(stderr).await);
        match status.and_then(|status| status.code()) {
            None | Some(255) => {
                let code = status.and_then(|status| status.code());
                Err(SshError::ended(self, code, &stderr))
            }
            Some(code) => Ok(Answer {
                output,
                code,
                stderr,
            }),
        }
    }
}

/// Whether a text may stand between single quotes for every login shell there is: csh has its own idea of
/// `!` and of line ends, fish of backslashes.
pub fn is_plain(text: &str) -> bool {
    !text.contains(['\'', '\\', '!', '\n', '\r', '\0'])
}

/// Whether a path of a board can be used in our scripts as it is.
pub fn is_plain_path(path: &str) -> bool {
    let is_known = |c: char| c.is_ascii_alphanumeric() || "/._-+@,=:".contains(c);
    path.starts_with('/') && path.chars().all(is_known)
}

/// A word as a shell of this machine reads it back.
pub(super) fn quoted(word: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "/._-+@,=:%".contains(c);
    match !word.is_empty() && word.chars().all(is_plain) {
        true => word.to_owned(),
        false => format!("'{}'", word.replace('\'', "'\\''")),
    }
}

/// A word that no login prints by chance.
pub(super) fn marker() -> String {
    let mut bytes = [0; 8];
    // Without random bytes the marker is one that only a malicious login would know.
    let _ = getrandom::fill(&mut bytes);
    format!("edgedyno-{:016x}", u64::from_le_bytes(bytes))
}

/// What stands between the first line that is the marker and the last that begins with it.
fn between(text: &str, marker: &str) -> Option<(String, i32)> {
    let (_, rest) = text.split_once(&format!("\n{marker}\n"))?;
    let (output, end) = rest.rsplit_once(&format!("\n{marker} "))?;
    let code = end.lines().next()?.trim().parse().ok()?;
    let output = output.strip_suffix('\n').unwrap_or(output);
    Some((output.to_owned(), code))
}

/// Reads to the end, keeping the first part of what is too much.
async fn read_bounded(from: Option<impl AsyncRead + Unpin>) -> String {
    let mut kept = Vec::new();
    let Some(mut from) = from else {
        return String::new();
    };
    let mut piece = [0; 4096];
    while let Ok(read) = from.read(&mut piece).await {
        if read == 0 {
            break;
        }
        let room = STDERR_LIMIT.saturating_sub(kept.len());
        kept.extend_from_slice(&piece[..read.min(room)]);
    }
    String::from_utf8_lossy(&kept).into_owned()
}

/// What was read until a little after the end of the program.
async fn finish(mut reading: tokio::task::JoinHandle<String>) -> String {
    match timeout(LINGER, &mut reading).await {
        Ok(text) => text.unwrap_or_default(),
        Err(_) => {
            reading.abort();
            String::new()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn banners_before_and_after_are_left_out() {
        let noisy = "Welcome!\nedgedyno-0\n\nM\na=1\n\nM 3\nbye\n";
        assert_eq!(between(noisy, "M"), Some(("a=1".into(), 3)));
        let nothing = "\nM\n\nM 0\n";
        assert_eq!(between(nothing, "M"), Some((String::new(), 0)));
        for cut in ["", "\nM\na=1\n", "M\n\nM 0\n", "\nM\n\nM x\n"] {
            assert_eq!(between(cut, "M"), None, "{cut:?}");
        }
    }

    #[test]
    fn markers_differ() {
        assert_ne!(marker(), marker());
        assert!(is_plain_path(&format!("/x/{}", marker())));
    }

    #[test]
    fn paths_that_a_shell_could_read_as_more_are_not_plain() {
        assert!(is_plain_path("/home/a.b/.local/lib/edgedyno"));
        for path in [
            "", "relative", "/a b", "/a'b", "/a$b", "/a;b", "/a\nb", "/ä",
        ] {
            assert!(!is_plain_path(path), "{path}");
        }
    }

    #[test]
    fn what_is_typed_goes_the_way_that_is_gone() {
        let typed = |words: &str, place: &str| Shell::by(words, place.parse().unwrap()).typed();
        assert_eq!(typed("", "ssh://bench"), "ssh bench");
        assert_eq!(typed(" ssh -F  lab ", "ssh://u@h:7"), "ssh -F lab -p 7 u@h");
        assert_eq!(typed("ssh", "ssh://[fe80::1%eth0]"), "ssh fe80::1%eth0");
        assert_eq!(typed("ssh", "ssh://LAB\\u@h"), "ssh 'LAB\\u@h'");
        assert_eq!(typed("ssh -oX=$Y", "ssh://h"), "ssh '-oX=$Y' h");
        assert_eq!(quoted("it's"), "'it'\\''s'");
    }

    #[test]
    fn host_keys_are_never_weakened_and_nothing_is_asked() {
        let shell = Shell {
            destination: "ssh://u@h:7".parse().unwrap(),
            program: vec!["ssh".into(), "-F".into(), "x".into()],
        };
        let command = shell.command("exec /bin/sh");
        let words: Vec<String> = command
            .as_std()
            .get_args()
            .map(|word| word.to_string_lossy().into_owned())
            .collect();
        assert_eq!(words[..2], ["-F", "x"]);
        assert_eq!(
            words[words.len() - 7..],
            ["-p", "7", "-l", "u", "--", "h", "exec /bin/sh"]
        );
        assert!(words.contains(&"BatchMode=yes".to_owned()));
        let weak = ["StrictHostKeyChecking", "UserKnownHostsFile", "CheckHostIP"];
        assert!(
            !words
                .iter()
                .any(|word| weak.iter().any(|weak| word.contains(weak)))
        );
    }

    #[cfg(unix)]
    #[test]
    fn a_script_runs_whatever_it_reads_and_prints() {
        // A stand-in for ssh: the login prints a banner and runs the last word by its shell.
        let folder = tempfile::tempdir().unwrap();
        let ssh = folder.path().join("ssh");
        let text =
            "#!/bin/sh\necho 'edgedyno banner'; for last; do :; done; exec /bin/sh -c \"$last\"\n";
        std::fs::write(&ssh, text).unwrap();
        std::fs::set_permissions(&ssh, std::os::unix::fs::PermissionsExt::from_mode(0o755))
            .unwrap();
        let shell = Shell {
            destination: "ssh://h".parse().unwrap(),
            program: vec![ssh.into_os_string()],
        };
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        runtime.block_on(async {
            let answer = shell.run("cat\necho one; printf two\nfalse").await.unwrap();
            assert_eq!((answer.output.as_str(), answer.code), ("one\ntwo", 1));
            let left = shell.run("echo x; exit 9; echo y").await.unwrap();
            assert_eq!((left.output.as_str(), left.code), ("x", 9));
            let file = folder.path().join("sent");
            std::fs::write(&file, vec![7_u8; 200_000]).unwrap();
            let there = folder.path().join("there");
            let mut told = Vec::new();
            let line = format!("cat > {}; echo good", there.display());
            let sent = shell
                .send(&line, &file, &mut |done| told.push(done))
                .await
                .unwrap();
            assert_eq!(std::fs::read(there).unwrap(), vec![7_u8; 200_000]);
            assert_eq!(told.last(), Some(&200_000));
            assert!(sent.output.ends_with("good\n"), "{sent:?}");
            let gone = shell.run("exit 3\n)\nkill -9 $$\n(").await.unwrap_err();
            assert_eq!(gone.fault, Fault::Shell);
        });
    }
}
