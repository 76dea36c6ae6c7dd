//! Why ssh did not come through, in classes that a program can act on. ssh has one exit code for all of its
//! own failures, so its words must tell.

use std::io;

use super::Shell;
use super::shell::{is_plain_path, quoted};

/// The link of the chain that broke.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// ssh, or what is named instead of it, cannot be started on this machine.
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

#[cfg(test)]
impl Fault {
    /// Every one, for tests that walk them.
    pub(crate) const ALL: [Self; 11] = [
        Self::NoProgram,
        Self::Name,
        Self::Reach,
        Self::HostKeyUnknown,
        Self::HostKeyChanged,
        Self::Authentication,
        Self::Shell,
        Self::AgentMissing,
        Self::AgentUnusable,
        Self::Slow,
        Self::Other,
    ];
}

/// What ssh said.
#[derive(Debug, thiserror::Error)]
#[error("{what}{}", said_after(said))]
pub struct SshError {
    pub fault: Fault,
    what: String,
    /// The last words on its standard error.
    pub said: String,
    /// What mends it, in commands that go the same way.
    remedy: Box<str>,
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
    pub fn new(shell: &Shell, fault: Fault, said: impl Into<String>) -> Self {
        Self::of(shell, fault, said.into(), "")
    }

    pub(super) fn start(shell: &Shell, why: &io::Error) -> Self {
        Self::new(shell, Fault::NoProgram, why.to_string())
    }

    /// From how ssh ended and what it said.
    pub(super) fn ended(shell: &Shell, code: Option<i32>, stderr: &str) -> Self {
        let fault = match code {
            Some(OWN_FAILURE) => classify(stderr),
            Some(NOT_FOUND) => Fault::AgentMissing,
            Some(NOT_EXECUTABLE) => Fault::AgentUnusable,
            _ => Fault::Other,
        };
        Self::of(shell, fault, last_words(stderr), stderr)
    }

    /// From the relay's own words, which may say themselves what helps.
    pub(super) fn of_relay(shell: &Shell, stderr: &str) -> Self {
        let said = last_words(stderr);
        let (said, hint) = said.split_once("; hint: ").unwrap_or((&said, ""));
        let mut error = Self::new(shell, Fault::AgentUnusable, said);
        error.remedy = hint.into();
        error
    }

    fn of(shell: &Shell, fault: Fault, said: String, stderr: &str) -> Self {
        let destination = shell.destination();
        let what = match fault {
            Fault::NoProgram => format!("the program `{}` cannot be started", shell.program()),
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
            fault,
            what,
            said,
            remedy: remedy(shell, fault, stderr).into(),
        }
    }

    /// Whether waiting may mend it.
    pub fn is_away(&self) -> bool {
        // A board that boots takes connections and ends them without a word, and one that tells its own name on
        // the network (mDNS) has none meanwhile.
        matches!(
            self.fault,
            Fault::Name | Fault::Reach | Fault::Slow | Fault::Other
        )
    }

    /// Whether it is sure that ssh did not come as far as the board's shell.
    pub fn is_outside(&self) -> bool {
        match self.fault {
            Fault::NoProgram
            | Fault::Name
            | Fault::Reach
            | Fault::HostKeyUnknown
            | Fault::HostKeyChanged
            | Fault::Authentication
            | Fault::Slow => true,
            // A relay that ended may be behind the last.
            Fault::Shell | Fault::AgentMissing | Fault::AgentUnusable | Fault::Other => false,
        }
    }

    /// What the user may do about it, where the board has that name.
    pub fn hint(&self, board: &str) -> String {
        match self.fault {
            Fault::AgentMissing | Fault::AgentUnusable if self.remedy.is_empty() => {
                format!("bring it there again with `edgedyno board update {board}`")
            }
            _ => self.remedy.to_string(),
        }
    }
}

/// What mends a fault that lies before the agent. Commands name the program that was run: another one may
/// have other settings, keys and known hosts.
fn remedy(shell: &Shell, fault: Fault, stderr: &str) -> String {
    let ssh = shell.typed();
    match fault {
        Fault::NoProgram if shell.is_usual() => {
            "install OpenSSH's client (Debian: apt install openssh-client)".into()
        }
        Fault::NoProgram => {
            "EDGEDYNO_SSH names it: see that it is there, or unset the variable for `ssh`".into()
        }
        Fault::Name => "check the spelling, or name its address".into(),
        Fault::Reach => {
            format!("see that the board is on and that sshd runs there; try `{ssh}`")
        }
        Fault::HostKeyUnknown => {
            format!("run `{ssh}` once and compare the fingerprint it shows with the board's")
        }
        Fault::HostKeyChanged => format!(
            "if the board was set up anew, run `{}` and `{ssh}`; otherwise something else answers in its place",
            forget_key(shell, stderr)
        ),
        Fault::Authentication if shell.is_usual() => format!(
            "no password is asked for: run `ssh-copy-id {}`, or start your ssh agent",
            shell.place()
        ),
        // ssh-copy-id goes its own way.
        Fault::Authentication => format!(
            "no password is asked for: put your public key into ~/.ssh/authorized_keys there, or start your \
             ssh agent, until `{ssh}` asks nothing"
        ),
        Fault::Shell => format!("see what `{ssh} /bin/sh -c id` says"),
        Fault::AgentMissing | Fault::AgentUnusable => String::new(),
        Fault::Slow => "try again when the board has less to do".into(),
        Fault::Other => format!("see what `{ssh}` says"),
    }
}

/// The command that forgets a host's key, in the file that ssh found it in.
fn forget_key(shell: &Shell, stderr: &str) -> String {
    let destination = shell.destination();
    let host = match destination.port {
        Some(port) if port != 22 => quoted(&format!("[{}]:{port}", destination.host)),
        _ => quoted(&destination.host),
    };
    // `Offending ED25519 key in /home/u/.ssh/known_hosts:3`
    let mut lines = stderr.lines().map(str::trim);
    let file = lines.find_map(|line| {
        let (_, place) = line.strip_prefix("Offending ")?.split_once(" key in ")?;
        let (file, _) = place.rsplit_once(':')?;
        is_plain_path(file).then_some(file)
    });
    match file {
        Some(file) => format!("ssh-keygen -f {file} -R {host}"),
        None => format!("ssh-keygen -R {host}"),
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

    fn shell(program: &str, place: &str) -> Shell {
        Shell::by(program, place.parse().unwrap())
    }

    fn ended(code: i32, stderr: &str) -> SshError {
        SshError::ended(&shell("ssh", "ssh://u@h:2222"), Some(code), stderr)
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
        let hint = error.hint("x5");
        assert!(hint.contains("`ssh-copy-id -p 2222 u@h`"), "{hint}");
        assert!(!error.is_away());
        for of_boot in ["Connection refused", ""] {
            assert!(ended(255, of_boot).is_away(), "{of_boot}");
        }
    }

    #[test]
    fn every_fault_is_on_the_list_once() {
        for (at, fault) in Fault::ALL.into_iter().enumerate() {
            assert_eq!(fault as usize, at, "{fault:?}");
        }
        assert_eq!(Fault::ALL.len(), Fault::Other as usize + 1);
    }

    #[test]
    fn hints_name_the_program_that_is_run_and_no_other() {
        for program in ["/opt/lab/ssh -F lab.config", "dbclient"] {
            let shell = shell(program, "ssh://u@bench:2222");
            for fault in Fault::ALL {
                let error = SshError::new(&shell, fault, "");
                let hint = error.hint("x5");
                let own = format!("`{program} -p 2222 u@bench");
                assert!(!hint.contains("`ssh "), "{fault:?}: {hint}");
                assert!(!hint.contains("ssh-copy-id"), "{fault:?}: {hint}");
                let goes_there = matches!(
                    fault,
                    Fault::Reach
                        | Fault::HostKeyUnknown
                        | Fault::HostKeyChanged
                        | Fault::Authentication
                        | Fault::Shell
                        | Fault::Other
                );
                assert_eq!(hint.contains(&own), goes_there, "{fault:?}: {hint}");
            }
            let missing = SshError::new(&shell, Fault::NoProgram, "");
            assert!(missing.to_string().contains(program), "{missing}");
            assert!(missing.hint("x5").contains("EDGEDYNO_SSH"));
        }
        let usual = SshError::new(&shell("", "ssh://bench"), Fault::Reach, "");
        assert!(usual.hint("x5").ends_with("try `ssh bench`"));
    }

    /// Another program would find the disk as full.
    #[test]
    fn what_the_agent_says_helps_is_the_hint() {
        let shell = shell("", "ssh://u@h");
        let full = "error: 0 bytes are free in /state\nhint: make room on that disk\n";
        let error = SshError::of_relay(&shell, full);
        assert!(!error.is_away());
        assert!(
            error.to_string().ends_with("0 bytes are free in /state"),
            "{error}"
        );
        assert_eq!(error.hint("x5"), "make room on that disk");
        let bare = SshError::of_relay(&shell, "error: no daemon came up\n");
        assert!(bare.hint("x5").contains("board update x5"));
    }

    #[test]
    fn a_missing_agent_is_brought_again_to_the_board_of_that_name() {
        for fault in [Fault::AgentMissing, Fault::AgentUnusable] {
            let hint = SshError::new(&shell("ssh", "ssh://h"), fault, "").hint("x5");
            assert!(hint.contains("`edgedyno board update x5`"), "{hint}");
        }
    }

    #[test]
    fn a_key_is_forgotten_where_ssh_found_it() {
        let said = |line: &str| {
            format!("@  WARNING: REMOTE HOST IDENTIFICATION HAS CHANGED!  @\r\n{line}\r\n")
        };
        let hint = |line: &str| ended(255, &said(line)).hint("x5");
        let found = hint("Offending ED25519 key in /home/u/lab hosts:3");
        assert!(found.contains("`ssh-keygen -R '[h]:2222'`"), "{found}");
        let found = hint("Offending ED25519 key in /home/u/.ssh/lab:3");
        let whole = "`ssh-keygen -f /home/u/.ssh/lab -R '[h]:2222'` and `ssh -p 2222 u@h`";
        assert!(found.contains(whole), "{found}");
        let usual = SshError::new(&shell("ssh", "ssh://h:22"), Fault::HostKeyChanged, "");
        assert!(usual.hint("x5").contains("`ssh-keygen -R h`"));
    }
}
