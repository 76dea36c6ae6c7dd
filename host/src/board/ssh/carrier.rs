//! A session over ssh: joined to the agent's relay, which joins it to the daemon.

use std::time::Duration;

use edgedyno_shared::ids::StoreId;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, BufReader};
use tokio::process::{Child, ChildStderr};
use tokio::task::JoinHandle;
use tokio::time::timeout;

use super::Shell;
use super::fault::{Fault, SshError};
use super::shell::marker;
use crate::board::known::SshRoute;
use crate::board::link::{Greeted, Link, LinkError};
use crate::board::{Board, ConnectError};

/// From the first packet to the first word of the board's shell: slow boards take seconds to check a key.
const LOGIN_LIMIT: Duration = Duration::from_secs(30);

/// What a login prints before our marker.
const BANNER_LIMIT: u64 = 1 << 20;

/// How a program ends that is no agent any more: well, not started at all, by SIGBUS, by SIGSEGV.
const DAMAGED: [i32; 4] = [0, 126, 128 + 7, 128 + 11];

/// How long ssh may take to leave when it was told.
const LEAVE: Duration = Duration::from_secs(2);

/// A board behind ssh.
#[derive(Debug, Clone)]
pub struct Ssh {
    name: String,
    route: SshRoute,
}

impl Ssh {
    pub fn new(name: &str, route: SshRoute) -> Self {
        Self {
            name: name.to_owned(),
            route,
        }
    }

    pub fn route(&self) -> &SshRoute {
        &self.route
    }

    /// A relay on which the agent answered the hello, whatever its version.
    pub async fn greet(&self, store: StoreId) -> Result<Greeted, ConnectError> {
        let marker = marker();
        let program = &self.route.program;
        let environment = self.route.environment();
        // `exec` in the login's own shell and again in ours, so that one process is left.
        let line = format!(
            "exec /bin/sh -c 'echo; echo {marker}; {environment}exec {program} serve --stdio'"
        );
        let shell = Shell::new(self.route.destination.clone());
        let mut child = shell.start(&line)?;
        let streams = (child.stdin.take(), child.stdout.take(), child.stderr.take());
        let (Some(stdin), Some(stdout), Some(stderr)) = streams else {
            return Err(SshError::new(&shell, Fault::Other, "no pipes").into());
        };
        let words = tokio::spawn(listen(stderr));
        let mut stdout = BufReader::new(stdout);
        let answered = timeout(LOGIN_LIMIT, skip_banner(&mut stdout, &marker)).await;
        match answered {
            Ok(true) => {}
            Ok(false) => return Err(ended(&shell, child, words).await.into()),
            Err(_) => return Err(SshError::new(&shell, Fault::Slow, "").into()),
        }
        match Greeted::greet(stdout, stdin, store).await {
            Ok(greeted) => Ok(greeted.keeping(Box::pin(leave(child, words)))),
            // The shell answered and the relay did not: how it ended says why.
            Err(LinkError::Closed | LinkError::Frame(_)) => {
                let why = ended(&shell, child, words).await;
                Err(self.sound(&shell, why).await.into())
            }
            Err(why) => Err(why.into()),
        }
    }

    /// The same, unless a program that is no agent any more is why. An empty one, as a power cut leaves it, ends
    /// at once and well; half of one cannot be started, or ends by SIGBUS or SIGSEGV. A board that is short of
    /// memory ends it otherwise.
    async fn sound(&self, shell: &Shell, why: SshError) -> SshError {
        if why.fault != Fault::Other {
            return why;
        }
        match shell.run(&format!("{} version", self.route.program)).await {
            Ok(answer) if DAMAGED.contains(&answer.code) && !answer.output.contains(" build ") => {
                SshError::new(shell, Fault::AgentUnusable, "its program is damaged")
            }
            _ => why,
        }
    }
}

impl Board for Ssh {
    fn name(&self) -> &str {
        &self.name
    }

    fn is_remote(&self) -> bool {
        true
    }

    async fn connect(&self, store: StoreId) -> Result<Link, ConnectError> {
        Ok(self.greet(store).await?.into_link()?)
    }
}

/// Reads up to and with the line that is the marker; whether it came.
async fn skip_banner(
    from: &mut BufReader<impl tokio::io::AsyncRead + Unpin>,
    marker: &str,
) -> bool {
    let mut read = 0;
    let mut line = Vec::new();
    while read < BANNER_LIMIT {
        line.clear();
        let mut bounded = (&mut *from).take(BANNER_LIMIT - read);
        match bounded.read_until(b'\n', &mut line).await {
            Ok(0) | Err(_) => return false,
            Ok(bytes) => read += bytes as u64,
        }
        if line.trim_ascii() == marker.as_bytes() {
            return true;
        }
    }
    false
}

/// Keeps the last words of ssh and of the relay.
async fn listen(mut stderr: ChildStderr) -> String {
    let mut kept = Vec::new();
    let mut piece = [0; 1024];
    while let Ok(read) = stderr.read(&mut piece).await {
        if read == 0 {
            break;
        }
        kept.extend_from_slice(&piece[..read]);
        if kept.len() > 16 << 10 {
            kept.drain(..kept.len() - (8 << 10));
        }
    }
    String::from_utf8_lossy(&kept).into_owned()
}

async fn ended(shell: &Shell, mut child: Child, words: JoinHandle<String>) -> SshError {
    let status = timeout(LEAVE, child.wait()).await;
    let code = status
        .ok()
        .and_then(Result::ok)
        .and_then(|status| status.code());
    let said = timeout(LEAVE, words).await;
    let said = said.ok().and_then(Result::ok).unwrap_or_default();
    match code {
        // The relay's own word for an agent that failed.
        Some(4) => SshError::of_relay(shell, &said),
        code => SshError::ended(shell, code, &said),
    }
}

/// Its input was closed, which ends relay and ssh.
async fn leave(mut child: Child, words: JoinHandle<String>) {
    // Dropped after that, and killed.
    let _ = timeout(LEAVE, child.wait()).await;
    words.abort();
}

#[cfg(test)]
mod tests {
    use super::super::testing::{TOOLS, filtered, route};
    use super::*;
    use crate::board::known::Start;

    fn run<T>(work: impl Future<Output = T>) -> T {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build();
        runtime.unwrap().block_on(work)
    }

    /// What waiting would never mend.
    #[test]
    fn a_program_that_is_no_agent_any_more_is_told_and_not_waited_for() {
        let folder = tempfile::tempdir().unwrap();
        let shell = filtered(folder.path(), "cat", &TOOLS);
        let program = folder.path().join("agent");
        let board = Ssh::new(
            "x",
            SshRoute {
                // By a shell: a file that was just written cannot always be started.
                program: format!("/bin/sh {}", program.display()),
                ..route(Start::OnDemand, None)
            },
        );
        let ended = |text: &str, fault| {
            std::fs::write(&program, text).unwrap();
            run(board.sound(&shell, SshError::new(&shell, fault, "")))
        };
        let empty = ended("", Fault::Other);
        assert_eq!(empty.fault, Fault::AgentUnusable);
        assert!(!empty.is_away() && empty.hint("x").contains("board update x"));
        assert!(empty.to_string().ends_with(": its program is damaged"));
        assert_eq!(
            ended("kill -SEGV $$", Fault::Other).fault,
            Fault::AgentUnusable
        );
        // A daemon that was leaving, a board that was going down, one that is short of memory.
        let agent = "echo edgedyno-agent 0.1.0 build b00b\n";
        assert!(ended(agent, Fault::Other).is_away());
        assert_eq!(ended("", Fault::Reach).fault, Fault::Reach);
        assert!(ended("kill -KILL $$", Fault::Other).is_away());
    }

    async fn skipped(text: &[u8]) -> (bool, Vec<u8>) {
        let mut from = BufReader::new(text);
        let came = skip_banner(&mut from, "M").await;
        let mut rest = Vec::new();
        from.read_to_end(&mut rest).await.unwrap();
        (came, rest)
    }

    #[test]
    fn a_session_begins_behind_the_marker() {
        run(async {
            assert_eq!(
                skipped(b"Welcome\xff\n\nM\r\n\x01\nM\n").await,
                (true, b"\x01\nM\n".to_vec())
            );
            assert_eq!(skipped(b"\nM\n").await, (true, Vec::new()));
            assert!(!skipped(b"MM\nno M here").await.0);
        });
    }
}
