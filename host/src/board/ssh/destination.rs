//! Where ssh goes: `ssh://user@host:port`.

use std::fmt;
use std::str::FromStr;

/// What is written after `ssh://`. A host may be a name of the user's ssh configuration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Destination {
    pub user: Option<String>,
    pub host: String,
    pub port: Option<u16>,
}

/// A text that names no such place.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is no place that ssh can go to: ssh://USER@HOST or ssh://USER@HOST:PORT is needed")]
pub struct NoDestination(String);

impl FromStr for Destination {
    type Err = NoDestination;

    fn from_str(text: &str) -> Result<Self, NoDestination> {
        let refused = || NoDestination(text.chars().take(200).collect());
        let rest = text.strip_prefix("ssh://").ok_or_else(refused)?;
        let rest = rest.strip_suffix('/').unwrap_or(rest);
        let (user, place) = match rest.rsplit_once('@') {
            Some((user, place)) => (Some(user), place),
            None => (None, rest),
        };
        let (host, port) = split_port(place).ok_or_else(refused)?;
        // Neither may be taken for an option, nor for more than one word.
        let is_plain = |word: &str, more: &str| {
            !word.is_empty()
                && !word.starts_with('-')
                && word
                    .chars()
                    .all(|c| c.is_ascii_alphanumeric() || more.contains(c))
        };
        if !is_plain(host, "-_.:%") || !user.is_none_or(|user| is_plain(user, "-_.+\\")) {
            return Err(refused());
        }
        Ok(Self {
            user: user.map(str::to_owned),
            host: host.to_owned(),
            port,
        })
    }
}

/// The host and its port; an IPv6 address stands in brackets.
fn split_port(place: &str) -> Option<(&str, Option<u16>)> {
    let (host, port) = match place.strip_prefix('[') {
        Some(rest) => {
            let (host, rest) = rest.split_once(']')?;
            match rest {
                "" => (host, None),
                rest => (host, Some(rest.strip_prefix(':')?)),
            }
        }
        None => match place.split_once(':') {
            Some((host, port)) => (host, Some(port)),
            None => (place, None),
        },
    };
    let port = port.map(str::parse::<u16>).transpose().ok()?;
    (port != Some(0)).then_some((host, port))
}

impl fmt::Display for Destination {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ssh://")?;
        if let Some(user) = &self.user {
            write!(f, "{user}@")?;
        }
        match self.host.contains(':') {
            true => write!(f, "[{}]", self.host)?,
            false => f.write_str(&self.host)?,
        }
        match self.port {
            Some(port) => write!(f, ":{port}"),
            None => Ok(()),
        }
    }
}

impl Destination {
    /// A name for the board, where its host's makes one.
    pub fn short_name(&self) -> &str {
        let is_address = self.host.contains(':') || self.host.parse::<std::net::IpAddr>().is_ok();
        match is_address {
            true => &self.host,
            false => self.host.split('.').next().unwrap_or(&self.host),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_read_and_written_alike() {
        for (text, user, host, port) in [
            ("ssh://s100", None, "s100", None),
            (
                "ssh://root@10.0.0.7:2222",
                Some("root"),
                "10.0.0.7",
                Some(2222),
            ),
            (
                "ssh://a.b@[fe80::1%eth0]:22",
                Some("a.b"),
                "fe80::1%eth0",
                Some(22),
            ),
            ("ssh://[::1]", None, "::1", None),
        ] {
            let read: Destination = text.parse().unwrap();
            assert_eq!(read.user.as_deref(), user, "{text}");
            assert_eq!((read.host.as_str(), read.port), (host, port), "{text}");
            assert_eq!(read.to_string(), text);
        }
        let slash: Destination = "ssh://lab-7.example.org/".parse().unwrap();
        assert_eq!(slash.short_name(), "lab-7");
    }

    #[test]
    fn what_could_be_an_option_or_several_words_is_refused() {
        for text in [
            "s100",
            "ssh://",
            "ssh://-oProxyCommand=x",
            "ssh://-l@host",
            "ssh://a b",
            "ssh://host:0",
            "ssh://host:70000",
            "ssh://host:x",
            "ssh://user@",
            "ssh://[::1",
            "ssh://host;ls",
        ] {
            assert!(text.parse::<Destination>().is_err(), "{text}");
        }
    }
}
