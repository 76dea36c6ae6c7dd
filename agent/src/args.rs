//! The agent's command line: few words, so no parser crate.

use std::ffi::OsString;
use std::os::fd::RawFd;

/// What the agent is started for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Command {
    Help,
    Version,
    Serve(Serve),
    /// Started by the daemon only.
    Worker {
        control: RawFd,
        arena: Option<RawFd>,
    },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Serve {
    /// Until it is retired.
    Service,
    /// Until nobody needs it, for a host on this machine.
    OnDemandLocal,
    /// Until nobody needs it, for a relay.
    OnDemandRelay,
    /// Joins stdin and stdout to a daemon.
    Relay,
}

pub(crate) const HELP: &str = "\
edgedyno-agent: measures neural networks on this board, for an EdgeDyno host

usage: edgedyno-agent serve                      run until retired, for a service manager
       edgedyno-agent serve --on-demand [WHO]    run until idle; WHO is local (5 s) or relay (10 min)
       edgedyno-agent serve --stdio              join stdin and stdout to the daemon, starting it if needed
       edgedyno-agent version                    name version and build

example: ssh board edgedyno-agent serve --stdio

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
        ["serve"] => Ok(Command::Serve(Serve::Service)),
        ["serve", "--stdio"] => Ok(Command::Serve(Serve::Relay)),
        ["serve", "--on-demand"] | ["serve", "--on-demand", "local"] => {
            Ok(Command::Serve(Serve::OnDemandLocal))
        }
        ["serve", "--on-demand", "relay"] => Ok(Command::Serve(Serve::OnDemandRelay)),
        ["worker", rest @ ..] => worker(rest),
        [first, rest @ ..] => {
            let wrong = if *first == "serve" {
                rest.first().unwrap_or(first)
            } else {
                first
            };
            Err(BadArgument(format!(
                "`{wrong}` is not a word this agent knows here"
            )))
        }
    }
}

fn worker(words: &[&str]) -> Result<Command, BadArgument> {
    let value = |name: &str| {
        let at = words.iter().position(|word| *word == name)?;
        words.get(at + 1)?.parse().ok()
    };
    let control = value("--control")
        .ok_or_else(|| BadArgument("a worker is started by the agent itself only".into()))?;
    Ok(Command::Worker {
        control,
        arena: value("--arena"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(line: &str) -> Result<Command, BadArgument> {
        parse(line.split_whitespace().map(OsString::from))
    }

    #[test]
    fn commands_are_read() {
        assert_eq!(read("serve"), Ok(Command::Serve(Serve::Service)));
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
        assert_eq!(read(""), Ok(Command::Help));
    }

    #[test]
    fn a_wrong_word_is_named() {
        for (line, word) in [
            ("serv", "serv"),
            ("serve --on", "--on"),
            ("worker", "worker"),
        ] {
            assert!(read(line).unwrap_err().to_string().contains(word), "{line}");
        }
    }
}
