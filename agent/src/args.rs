//! The agent's command line: few words, so no parser crate.

use std::ffi::OsString;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::RawFd;
use std::path::PathBuf;

use edgedyno_shared::link::role::Role;

use crate::daemon::access::KnownHost;
use crate::daemon::network::PORT;
use crate::daemon::serve::LOCK_WORD;
use crate::sensor::Kind;

/// What the agent is started for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Command {
    Help,
    Version,
    Serve(Serve),
    /// Lets one host pair.
    Pair(Role),
    /// Lets the host with that key in; for a host that came by ssh.
    Admit(KnownHost),
    /// From now on this program serves here, in the place of another build.
    TakeOver,
    /// Prints the hash of this program's file.
    SelfHash,
    /// Started by the daemon only.
    Worker {
        control: RawFd,
        arena: Option<RawFd>,
    },
    /// Started by the agent only, while it is root.
    Priv {
        control: RawFd,
        user: u32,
    },
    /// Started by the daemon only.
    Sensor {
        kind: Kind,
        root: PathBuf,
    },
    /// Started by the daemon only.
    Stressor {
        control: RawFd,
        board: RawFd,
    },
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Serve {
    /// Until it is retired; on the network too when there is an address.
    Service(Listen),
    /// Until nobody needs it, for a host on this machine.
    OnDemandLocal,
    /// Until nobody needs it, for a relay.
    OnDemandRelay,
    /// Joins stdin and stdout to a daemon.
    Relay,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Listen {
    pub(crate) address: Option<SocketAddr>,
    /// The user to become, when started as root.
    pub(crate) run_as: Option<String>,
    /// The socket of the helper that stayed root, when this is what went on as another user.
    pub(crate) helper: Option<RawFd>,
}

pub(crate) const HELP: &str = "\
edgedyno-agent: measures neural networks on this board, for an EdgeDyno host

usage: edgedyno-agent serve                      run until retired, for a service manager
       edgedyno-agent serve --listen ADDRESS     the same, for hosts on the network too (UDP port 7447
                                                 unless ADDRESS names another); as root only with
                                                 --run-as USER, which is also what workers run as; a small
                                                 helper stays root, opens for them what only root may read of
                                                 the board's counters, and holds clocks
       edgedyno-agent pair [ROLE]                print a ticket that lets one host in, and says for how long;
                                                 ROLE is observe, run (unless told otherwise) or admin
       edgedyno-agent admit ROLE KEY [NAME]      let the host with that key in, and print this agent's own key:
                                                 what `edgedyno board add` does by ssh
       edgedyno-agent serve --on-demand [WHO]    run until idle; WHO is local (5 s) or relay (10 min)
       edgedyno-agent serve --stdio              join stdin and stdout to the daemon, starting it if needed
       edgedyno-agent take-over                  serve here from now on, in the place of another build, which ends
                                                 its running repeat first: what `edgedyno board update` does
       edgedyno-agent version                    name version and build

example: ssh board edgedyno-agent serve --stdio
         edgedyno-agent serve --listen 0.0.0.0

Hosts that may come in stand in identity/authorized_hosts in the state folder, one line each; taking a line
out ends its connections.

State lies in $EDGEDYNO_AGENT_STATE, else $XDG_STATE_HOME/edgedyno, else ~/.local/state/edgedyno.
Exit codes: 0 good, 2 bad argument, 4 the agent failed.
";

/// Why the words make no command.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub(crate) struct BadArgument(String);

/// Reads the words after the program's name.
pub(crate) fn parse(words: impl Iterator<Item = OsString>) -> Result<Command, BadArgument> {
    let words: Vec<String> = words.map(|w| w.to_string_lossy().into_owned()).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match words.as_slice() {
        [] | ["help" | "--help" | "-h", ..] | ["serve", "--help" | "-h"] => Ok(Command::Help),
        ["version" | "--version" | "-V"] => Ok(Command::Version),
        ["pair"] => Ok(Command::Pair(Role::Run)),
        ["pair", role] => role
            .parse()
            .map(Command::Pair)
            .map_err(|why| BadArgument(format!("{why}"))),
        ["admit", role, key, name @ ..] => admit(role, key, name).map(Command::Admit),
        ["take-over"] => Ok(Command::TakeOver),
        ["self-hash"] => Ok(Command::SelfHash),
        ["serve", "--stdio"] => Ok(Command::Serve(Serve::Relay)),
        ["serve", "--on-demand"] | ["serve", "--on-demand", "local"] => {
            Ok(Command::Serve(Serve::OnDemandLocal))
        }
        ["serve", "--on-demand", "relay"] => Ok(Command::Serve(Serve::OnDemandRelay)),
        ["serve", rest @ ..] => listen(rest).map(|how| Command::Serve(Serve::Service(how))),
        ["worker", rest @ ..] => worker(rest),
        ["stressor", rest @ ..] => stressor(rest),
        ["priv", rest @ ..] => helper(rest),
        ["sensor", kind, "--root", root] => sensor(kind, root),
        [first, ..] => Err(unknown(first)),
    }
}

/// Takes a lock that is handed on off the words.
pub(crate) fn split_lock(mut words: Vec<OsString>) -> (Vec<OsString>, Option<RawFd>) {
    let lock = match words.as_slice() {
        [first, .., word, number] if first == "serve" && word == LOCK_WORD => {
            number.to_str().and_then(|number| number.parse().ok())
        }
        _ => None,
    };
    if lock.is_some() {
        words.truncate(words.len() - 2);
    }
    (words, lock)
}

fn admit(role: &str, key: &str, name: &[&str]) -> Result<KnownHost, BadArgument> {
    let role = role.parse().map_err(|why| BadArgument(format!("{why}")))?;
    let key = key
        .parse()
        .map_err(|why| BadArgument(format!("`{key}` is {why}")))?;
    let name = name.join(" ");
    Ok(KnownHost { role, key, name })
}

fn unknown(word: &str) -> BadArgument {
    BadArgument(format!("`{word}` is not a word this agent knows here"))
}

fn listen(words: &[&str]) -> Result<Listen, BadArgument> {
    let mut listen = Listen::default();
    let mut words = words.iter();
    while let Some(word) = words.next() {
        let mut value = || {
            let value = words.next().copied();
            value.ok_or_else(|| BadArgument(format!("`{word}` needs a value")))
        };
        match *word {
            "--listen" => listen.address = Some(address(value()?)?),
            "--run-as" => listen.run_as = Some(value()?.to_owned()),
            "--helper" => listen.helper = value()?.parse().ok(),
            _ => return Err(unknown(word)),
        }
    }
    Ok(listen)
}

fn address(text: &str) -> Result<SocketAddr, BadArgument> {
    let with_port = text.parse::<SocketAddr>();
    let alone = || text.parse::<IpAddr>().map(|ip| SocketAddr::new(ip, PORT));
    with_port
        .or_else(|_| alone())
        .map_err(|_| BadArgument(format!("`{text}` is no IP address, with or without a port")))
}

fn worker(words: &[&str]) -> Result<Command, BadArgument> {
    let control = descriptor(words, "--control")
        .ok_or_else(|| BadArgument("a worker is started by the agent itself only".into()))?;
    Ok(Command::Worker {
        control,
        arena: descriptor(words, "--arena"),
    })
}

fn stressor(words: &[&str]) -> Result<Command, BadArgument> {
    let both = descriptor(words, "--control").zip(descriptor(words, "--board"));
    let (control, board) =
        both.ok_or_else(|| BadArgument("a stressor is started by the agent itself only".into()))?;
    Ok(Command::Stressor { control, board })
}

fn helper(words: &[&str]) -> Result<Command, BadArgument> {
    let user = words.iter().position(|word| *word == "--user");
    let user = user.and_then(|at| words.get(at + 1)?.parse().ok());
    let both = descriptor(words, "--control").zip(user);
    let (control, user) = both.ok_or_else(|| {
        BadArgument("the helper is started by `serve --run-as USER` of root itself only".into())
    })?;
    Ok(Command::Priv { control, user })
}

fn sensor(kind: &str, root: &str) -> Result<Command, BadArgument> {
    let kind = Kind::from_name(kind).ok_or_else(|| unknown(kind))?;
    let root = root.into();
    Ok(Command::Sensor { kind, root })
}

fn descriptor(words: &[&str], name: &str) -> Option<RawFd> {
    let at = words.iter().position(|word| *word == name)?;
    words.get(at + 1)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(line: &str) -> Result<Command, BadArgument> {
        parse(line.split_whitespace().map(OsString::from))
    }

    /// The help in the form of manual pages.
    fn manual() -> String {
        let line = |line: &str| {
            let line = line.replace('\\', "\\e").replace('-', "\\-");
            // A line that begins with a dot would be a command.
            match line.starts_with(['.', '\'']) {
                true => format!("\\&{line}"),
                false => line,
            }
        };
        let (first, rest) = HELP.split_once('\n').unwrap();
        let (name, about) = first.split_once(": ").unwrap();
        let text: Vec<String> = rest.trim_matches('\n').lines().map(line).collect();
        format!(
            ".TH EDGEDYNO\\-AGENT 1 \"\" \"edgedyno\" \"EdgeDyno\"\n.SH NAME\n{} \\- {}\n.SH SYNOPSIS\n.nf\n\
             {}\n.fi\n.SH SEE ALSO\n.BR edgedyno (1)\n",
            line(name),
            line(about),
            text.join("\n"),
        )
    }

    #[test]
    fn the_manual_page_of_packages_is_the_help() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/packaging/edgedyno-agent.1");
        if std::env::var_os("EDGEDYNO_REWRITE").is_some() {
            std::fs::write(path, manual()).unwrap();
        }
        assert_eq!(
            std::fs::read_to_string(path).unwrap(),
            manual(),
            "run with EDGEDYNO_REWRITE=1"
        );
    }

    #[test]
    fn commands_are_read() {
        let service = |listen| Ok(Command::Serve(Serve::Service(listen)));
        assert_eq!(read("serve"), service(Listen::default()));
        let address = Some("10.0.0.1:7447".parse().unwrap());
        let run_as = Some("bench".into());
        let listen = Listen {
            address,
            run_as,
            helper: None,
        };
        assert_eq!(
            read("serve --run-as bench --listen 10.0.0.1"),
            service(listen)
        );
        assert_eq!(read("pair"), Ok(Command::Pair(Role::Run)));
        assert_eq!(read("pair observe"), Ok(Command::Pair(Role::Observe)));
        assert_eq!(
            read("serve --on-demand"),
            Ok(Command::Serve(Serve::OnDemandLocal))
        );
        assert_eq!(
            read("worker --control 5 --arena 6"),
            Ok(Command::Worker {
                control: 5,
                arena: Some(6)
            })
        );
        let key = edgedyno_shared::link::key::PublicKey([3; 32]);
        let host = KnownHost {
            role: Role::Admin,
            key,
            name: "lab pc".into(),
        };
        assert_eq!(
            read(&format!("admit admin {key} lab pc")),
            Ok(Command::Admit(host))
        );
        assert_eq!(read(""), Ok(Command::Help));
    }

    #[test]
    fn a_wrong_word_is_named() {
        for (line, word) in [
            ("serv", "serv"),
            ("serve --on", "--on"),
            ("worker", "worker"),
            ("priv --control 5", "--run-as"),
            ("pair root", "root"),
            ("admit admin", "admit"),
            ("admit admin abc", "abc"),
            ("serve --listen", "--listen"),
            ("serve --listen here", "here"),
        ] {
            assert!(read(line).unwrap_err().to_string().contains(word), "{line}");
        }
    }

    #[test]
    fn a_lock_that_is_handed_on_is_no_word_of_the_command() {
        let split = |line: &str| {
            let (words, lock) = split_lock(line.split_whitespace().map(OsString::from).collect());
            let words: Vec<String> = words
                .into_iter()
                .map(|w| w.into_string().unwrap())
                .collect();
            (words.join(" "), lock)
        };
        let listening = "serve --listen 10.0.0.1";
        assert_eq!(
            split(&format!("{listening} --lock 7")),
            (listening.into(), Some(7))
        );
        assert_eq!(split("serve --lock 7"), ("serve".into(), Some(7)));
        assert_eq!(split(listening), (listening.into(), None));
        assert_eq!(split("serve --lock x"), ("serve --lock x".into(), None));
    }
}
