//! Why ssh did not come through, in classes that a program can act on. ssh has one exit code for all of its
//! own failures, so its words must tell.

use std::io;

use super::Destination;

/// The link of the chain that broke.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// There is no ssh on this machine.
    NoProgram,
    /// The host's name has no address.
    Name,
    /// Nothing answers there, or what answers hangs up.
    Reach,
    /// The host's key is not known yet.
    HostKeyUnknown,
    /// The host has another key than the one that is known.
    HostKeyChanged,
    /// The host lets this user in by none of its keys.
    Authentication,
    /// There is no shell there that does as a shell should.
    Shell,
    /// The agent's program is not where it was put.
    AgentMissing,
    /// The agent's program cannot be started.
    AgentUnusable,
    /// It took too long.
    Slow,
    Other,
}

/// What ssh said.
#[derive(Debug, thiserror::Error)]
#[error("{what}{}", said_after(said))]
pub struct SshError {
    pub destination: Box<Destination>,
    pub fault: Fault,
    what: String,
    /// The last words on its standard error.
    pub said: String,
}

fn said_after(said: &str) -> String {
    match said {
        "" => String::new(),
        said => format!(": {said}"),
    }
}

/// ssh's exit code for failures of its own.
const OWN_FAILURE: i32 = 255;
const NOT_EXECUTABLE: i32 = 126;
const NOT_FOUND: i32 = 127;

impl SshError {
    pub fn new(destination: &Destination, fault: Fault, said: impl Into<String>) -> Self {
        let what = match fault {
            Fault::NoProgram => "the program `ssh` cannot be started".into(),
            Fault::Name => format!("the host of {destination} is not known by name"),
            Fault::Reach => format!("no ssh answers at {destination}"),
            Fault::HostKeyUnknown => format!("the key of {destination} is not known yet"),
            Fault::HostKeyChanged => format!("{destination} has another key than the known one"),
            Fault::Authentication => format!("{destination} does not let this user in"),
            Fault::Shell => format!("{destination} has no shell that does as it should"),
            Fault::AgentMissing => format!("the agent is not there any more on {destination}"),
            Fault::AgentUnusable => format!("the agent cannot be started on {destination}"),
            Fault::Slow => format!("{destination} takes too long"),
            Fault::Other => format!("ssh to {destination} failed"),
        };
        Self {
            destination: Box::new(destination.clone()),
            fault,
            what,
            said: said.into(),
        }
    }

    pub(super) fn start(destination: &Destination, why: &io::Error) -> Self {
        Self::new(destination, Fault::NoProgram, why.to_string())
    }

    /// From how ssh ended and what it said.
    pub(super) fn ended(destination: &Destination, code: Option<i32>, stderr: &str) -> Self {
        let fault = match code {
            Some(OWN_FAILURE) => classify(stderr),
            Some(NOT_FOUND) => Fault::AgentMissing,
            Some(NOT_EXECUTABLE) => Fault::AgentUnusable,
            _ => Fault::Other,
        };
        Self::new(destination, fault, last_words(stderr))
    }

    /// Whether waiting may mend it.
    pub fn is_away(&self) -> bool {
        // A board that boots takes connections and ends them without a word.
        matches!(self.fault, Fault::Reach | Fault::Slow | Fault::Other)
    }

    /// What the user may do about it.
    pub fn hint(&self) -> String {
        let Destination { user, host, port } = &*self.destination;
        let user = user
            .as_ref()
            .map(|user| format!("{user}@"))
            .unwrap_or_default();
        let port = port.map(|port| format!("-p {port} ")).unwrap_or_default();
        let place = format!("{port}{user}{host}");
        match self.fault {
            Fault::NoProgram => {
                "install OpenSSH's client (Debian: apt install openssh-client)".into()
            }
            Fault::Name => "check the spelling, or name its address".into(),
            Fault::Reach => {
                format!("see that the board is on and that sshd runs there; try `ssh {place}`")
            }
            Fault::HostKeyUnknown => {
                format!(
                    "run `ssh {place}` once and compare the fingerprint it shows with the board's"
                )
            }
            Fault::HostKeyChanged => format!(
                "if the board was set up anew, run `ssh-keygen -R {host}` and `ssh {place}`; otherwise \
                 something else answers in its place"
            ),
            Fault::Authentication => {
                format!(
                    "no password is asked for: run `ssh-copy-id {place}`, or start your ssh agent"
                )
            }
            Fault::Shell => format!("see what `ssh {place} /bin/sh -c id` says"),
            Fault::AgentMissing | Fault::AgentUnusable => {
                "bring it there again with `edgedyno board update NAME`".into()
            }
            Fault::Slow => "try again when the board has less to do".into(),
            Fault::Other => format!("see what `ssh {place}` says"),
        }
    }
}

fn classify(stderr: &str) -> Fault {
    let has = |words: &[&str]| words.iter().any(|word| stderr.contains(word));
    if has(&["Could not resolve hostname", "Name or service not known"]) {
        Fault::Name
    } else if has(&["REMOTE HOST IDENTIFICATION HAS CHANGED"]) {
        Fault::HostKeyChanged
    } else if has(&["Host key verification failed", "host key is known for"]) {
        Fault::HostKeyUnknown
    } else if has(&[
        "Permission denied (",
        "Too many authentication failures",
        "Authentication failed",
    ]) {
        Fault::Authentication
    } else if has(&[
        "Connection refused",
        "onnection timed out",
        "Operation timed out",
        "No route to host",
        "Network is unreachable",
        "Host is down",
        "onnection closed",
        "Connection reset",
        "Broken pipe",
        "not responding",
        "kex_exchange_identification",
        "banner exchange",
    ]) {
        Fault::Reach
    } else {
        Fault::Other
    }
}

/// The last lines that say something: banners come before them.
pub(super) fn last_words(stderr: &str) -> String {
    let lines = stderr.lines().map(str::trim);
    let lines: Vec<&str> = lines
        .filter(|line| !line.is_empty() && !line.starts_with("Warning:"))
        .collect();
    let last = &lines[lines.len().saturating_sub(2)..];
    let text = last.join("; ");
    text.chars().filter(|c| !c.is_control()).take(300).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ended(code: i32, stderr: &str) -> SshError {
        SshError::ended(&"ssh://u@h:2222".parse().unwrap(), Some(code), stderr)
    }

    /// What OpenSSH 9.2 says.
    #[test]
    fn failures_of_ssh_are_told_apart() {
        for (stderr, fault) in [
            (
                "ssh: Could not resolve hostname x: Name or service not known",
                Fault::Name,
            ),
            (
                "ssh: connect to host 127.0.0.1 port 9: Connection refused",
                Fault::Reach,
            ),
            (
                "ssh: connect to host 10.9.9.9 port 22: Connection timed out",
                Fault::Reach,
            ),
            (
                "kex_exchange_identification: Connection closed by remote host",
                Fault::Reach,
            ),
            (
                "No ED25519 host key is known for [h]:2 and you have requested strict checking.\n\
              Host key verification failed.",
                Fault::HostKeyUnknown,
            ),
            (
                "@  WARNING: REMOTE HOST IDENTIFICATION HAS CHANGED!  @\nHost key verification failed.",
                Fault::HostKeyChanged,
            ),
            ("u@h: Permission denied (publickey).", Fault::Authentication),
            ("Bad configuration option: nonsense", Fault::Other),
        ] {
            assert_eq!(ended(255, stderr).fault, fault, "{stderr}");
        }
    }

    #[test]
    fn what_the_boards_shell_says_is_not_taken_for_ssh() {
        let refused = "sh: 1: exec: /x/agent: Permission denied";
        assert_eq!(ended(126, refused).fault, Fault::AgentUnusable);
        assert_eq!(
            ended(127, "exec: /x/agent: not found").fault,
            Fault::AgentMissing
        );
        assert_eq!(ended(4, "Connection refused").fault, Fault::Other);
    }

    #[test]
    fn an_error_says_what_ssh_said_last_and_what_to_do() {
        let error = ended(
            255,
            "Welcome to the lab!\n\n\nu@h: Permission denied (publickey).\r\n",
        );
        assert!(
            error
                .to_string()
                .ends_with("u@h: Permission denied (publickey)."),
            "{error}"
        );
        assert!(
            error.hint().contains("ssh-copy-id -p 2222 u@h"),
            "{}",
            error.hint()
        );
        assert!(!error.is_away());
        for of_boot in ["Connection refused", ""] {
            assert!(ended(255, of_boot).is_away(), "{of_boot}");
        }
    }
}
