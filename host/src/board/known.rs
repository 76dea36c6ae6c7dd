//! Boards that this user knows by name: where they are and which key they have.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::net::SocketAddr;

use edgedyno_shared::link::key::PublicKey;
use edgedyno_shared::link::transport::GSO_VARIABLE;
use serde::{Deserialize, Serialize};

use super::local;
use super::settings::{Settings, SettingsError};
use super::ssh::Destination;
use super::ssh::shell::is_plain_path;

/// A board on the network, behind ssh, or both.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KnownBoard {
    pub addresses: Vec<SocketAddr>,
    /// None when the agent was never asked for it: then only ssh reaches the board.
    pub key: Option<PublicKey>,
    pub ssh: Option<SshRoute>,
}

/// How ssh reaches a board, and what was put there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SshRoute {
    pub destination: Destination,
    /// The agent's program on the board.
    pub program: String,
    /// Of the board's programs, in the words of `std::env::consts::ARCH`.
    pub architecture: String,
    pub start: Start,
    /// Where the agent listens on the network.
    pub listen: Option<SocketAddr>,
    /// The folder for state and installed runtimes, where the home folder cannot be used.
    pub keep: Option<String>,
    /// Whether the agent's packets may leave it in batches; some drivers take them and lose them.
    pub offload: bool,
}

/// Who starts the agent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Start {
    /// The relay, when a host comes.
    OnDemand,
    /// systemd.
    Service,
    /// The host, once; after a restart of the board it is on demand.
    Detached,
}

impl Start {
    pub fn name(self) -> &'static str {
        match self {
            Self::OnDemand => "on demand",
            Self::Service => "as a service",
            Self::Detached => "once, by the host",
        }
    }
}

impl SshRoute {
    /// The folder that holds all builds.
    pub fn base(&self) -> Option<&str> {
        let (folder, _) = self.program.rsplit_once('/')?;
        let (base, _) = folder.rsplit_once('/')?;
        Some(base).filter(|base| !base.is_empty())
    }

    /// Variables before a command on the board, with a blank behind each, or nothing: state and runtimes in a
    /// folder other than home, and what the agent is told of its network.
    pub fn environment(&self) -> String {
        let with = |keep| format!("XDG_STATE_HOME={keep}/state XDG_CACHE_HOME={keep}/cache ");
        let mut variables = self.keep.as_ref().map(with).unwrap_or_default();
        if !self.offload {
            variables.extend([GSO_VARIABLE, "=off "]);
        }
        variables
    }
}

/// All of them, by name.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct KnownBoards(BTreeMap<String, KnownBoard>);

/// `boards.toml`, as written.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(default)]
    boards: BTreeMap<String, Entry>,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    #[serde(default)]
    addresses: Vec<String>,
    key: Option<String>,
    ssh: Option<SshEntry>,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct SshEntry {
    destination: String,
    program: String,
    architecture: String,
    start: Start,
    listen: Option<String>,
    keep: Option<String>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    no_segmentation_offload: bool,
}

impl Entry {
    fn of(board: &KnownBoard) -> Self {
        let ssh = board.ssh.as_ref().map(|route| SshEntry {
            destination: route.destination.to_string(),
            program: route.program.clone(),
            architecture: route.architecture.clone(),
            start: route.start,
            listen: route.listen.map(|address| address.to_string()),
            keep: route.keep.clone(),
            no_segmentation_offload: !route.offload,
        });
        Self {
            addresses: board.addresses.iter().map(ToString::to_string).collect(),
            key: board.key.map(|key| key.to_string()),
            ssh,
        }
    }

    fn understand(self) -> Result<KnownBoard, String> {
        let address = |text: &String| {
            let parsed = text.parse::<SocketAddr>();
            parsed.map_err(|_| format!("`{text}` is no address with a port"))
        };
        let key = self.key.map(|key| key.parse::<PublicKey>()).transpose();
        let ssh = self.ssh.map(|entry| {
            for path in std::iter::once(&entry.program).chain(&entry.keep) {
                if !is_plain_path(path) {
                    return Err(format!("`{path}` is no path that can be used on a board"));
                }
            }
            Ok(SshRoute {
                destination: entry.destination.parse().map_err(|why| format!("{why}"))?,
                listen: entry.listen.as_ref().map(address).transpose()?,
                program: entry.program,
                architecture: entry.architecture,
                start: entry.start,
                keep: entry.keep,
                offload: !entry.no_segmentation_offload,
            })
        });
        Ok(KnownBoard {
            addresses: self
                .addresses
                .iter()
                .map(address)
                .collect::<Result<_, _>>()?,
            key: key.map_err(|why| format!("its key is {why}"))?,
            ssh: ssh.transpose()?,
        })
    }
}

#[derive(Debug, thiserror::Error)]
pub enum KnownBoardsError {
    #[error(transparent)]
    Settings(#[from] SettingsError),
    #[error("`{}` is no list of boards: {why}", .path.display())]
    Content {
        path: std::path::PathBuf,
        why: String,
    },
    #[error("`{0}` cannot be the name of a board: letters, digits, `-`, `_` and `.` make one")]
    Name(String),
    #[error("`{}` is this machine", local::NAME)]
    Local,
}

impl KnownBoards {
    pub fn read(settings: &Settings) -> Result<Self, KnownBoardsError> {
        let path = settings.boards();
        let text = match fs::read_to_string(&path) {
            Ok(text) => text,
            Err(why) if why.kind() == io::ErrorKind::NotFound => return Ok(Self::default()),
            Err(source) => return Err(SettingsError::File { path, source }.into()),
        };
        if text.is_empty() {
            // No command writes that, not even when it takes the last board off.
            let why = "it is empty".into();
            return Err(KnownBoardsError::Content { path, why });
        }
        Self::parse(&text).map_err(|why| KnownBoardsError::Content { path, why })
    }

    fn parse(text: &str) -> Result<Self, String> {
        let file: File = toml::from_str(text).map_err(|why| why.message().to_owned())?;
        let known = file.boards.into_iter().map(|(name, entry)| {
            let board = entry.understand();
            let board = board.map_err(|why| format!("board `{name}`: {why}"))?;
            Ok((name, board))
        });
        Ok(Self(known.collect::<Result<_, String>>()?))
    }

    fn to_text(&self) -> String {
        let boards = self.0.iter();
        let boards = boards.map(|(name, board)| (name.clone(), Entry::of(board)));
        let file = File {
            boards: boards.collect(),
        };
        // Text keys and text values, which is all that could fail.
        toml::to_string(&file).unwrap_or_default()
    }

    /// Changes the list. It is read anew for that, and no other command changes it meanwhile: what was read
    /// before something long is old. A change that fails writes nothing.
    pub fn change<T, E: From<KnownBoardsError>>(
        settings: &Settings,
        change: impl FnOnce(&mut Self) -> Result<T, E>,
    ) -> Result<T, E> {
        let path = settings.boards();
        let locked = settings.lock(&path);
        let in_file = |source| KnownBoardsError::from(SettingsError::File { path, source });
        let _lock = locked.map_err(in_file)?;
        let mut boards = Self::read(settings)?;
        let done = change(&mut boards)?;
        boards.write(settings).map_err(KnownBoardsError::from)?;
        Ok(done)
    }

    fn write(&self, settings: &Settings) -> Result<(), SettingsError> {
        let path = settings.boards();
        let written = settings.write(&path, self.to_text().as_bytes());
        written.map_err(|source| SettingsError::File { path, source })
    }

    pub fn get(&self, name: &str) -> Option<&KnownBoard> {
        self.0.get(name)
    }

    pub fn iter(&self) -> impl Iterator<Item = (&str, &KnownBoard)> {
        self.0.iter().map(|(name, board)| (name.as_str(), board))
    }

    /// Adds a board, in the place of one with that name.
    pub fn add(&mut self, name: &str, board: KnownBoard) -> Result<(), KnownBoardsError> {
        Self::check_name(name)?;
        self.0.insert(name.to_owned(), board);
        Ok(())
    }

    /// Whether a board can have that name.
    pub fn check_name(name: &str) -> Result<(), KnownBoardsError> {
        if name == local::NAME {
            return Err(KnownBoardsError::Local);
        }
        let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
        match (1..=64).contains(&name.len()) && name.chars().all(is_plain) {
            true => Ok(()),
            false => Err(KnownBoardsError::Name(name.chars().take(80).collect())),
        }
    }

    /// Takes a board off the list; whether it was there.
    pub fn forget(&mut self, name: &str) -> bool {
        self.0.remove(name).is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn board() -> KnownBoard {
        KnownBoard {
            addresses: vec!["10.0.0.7:7447".parse().unwrap(), "[::1]:9".parse().unwrap()],
            key: Some(PublicKey([5; 32])),
            ssh: None,
        }
    }

    fn behind_ssh() -> KnownBoard {
        let route = SshRoute {
            destination: "ssh://u@h:2222".parse().unwrap(),
            program: "/var/tmp/edgedyno-7/0.1.0-ab/edgedyno-agent".into(),
            architecture: "aarch64".into(),
            start: Start::Detached,
            listen: Some("0.0.0.0:7447".parse().unwrap()),
            keep: Some("/var/tmp/edgedyno-7".into()),
            offload: true,
        };
        KnownBoard {
            addresses: Vec::new(),
            key: None,
            ssh: Some(route),
        }
    }

    #[test]
    fn boards_are_kept_by_name() {
        let folder = tempfile::tempdir().unwrap();
        let settings = Settings::at(folder.path());
        assert_eq!(KnownBoards::read(&settings).unwrap().iter().count(), 0);
        KnownBoards::change(&settings, |boards| {
            boards.add("s100-lab", board())?;
            boards.add("pi", behind_ssh())
        })
        .unwrap();
        let mut again = KnownBoards::read(&settings).unwrap();
        assert_eq!(again.get("s100-lab"), Some(&board()));
        assert_eq!(again.get("pi"), Some(&behind_ssh()));
        assert!(again.forget("s100-lab") && !again.forget("s100-lab"));
    }

    /// A list that is taken for an empty one is written over by the next command.
    #[test]
    fn a_file_of_which_a_disk_kept_nothing_or_half_is_no_list() {
        let folder = tempfile::tempdir().unwrap();
        let settings = Settings::at(folder.path());
        let none = |boards: &mut KnownBoards| Ok::<_, KnownBoardsError>(boards.forget("a"));
        KnownBoards::change(&settings, |boards| boards.add("a", board())).unwrap();
        let whole = fs::read_to_string(settings.boards()).unwrap();
        let half = &whole[..whole.rfind("key").unwrap() + 20];
        for spoiled in ["", half] {
            fs::write(settings.boards(), spoiled).unwrap();
            let why = KnownBoards::change(&settings, none)
                .unwrap_err()
                .to_string();
            assert!(why.contains("is no list of boards"), "{spoiled:?}: {why}");
            assert_eq!(fs::read_to_string(settings.boards()).unwrap(), spoiled);
        }
        fs::write(settings.boards(), &whole).unwrap();
        assert!(KnownBoards::change(&settings, none).unwrap());
        assert_eq!(KnownBoards::read(&settings).unwrap().iter().count(), 0);
    }

    #[test]
    fn changes_at_the_same_time_are_all_kept() {
        let folder = tempfile::tempdir().unwrap();
        let settings = Settings::at(&folder.path().join("not-there-yet"));
        std::thread::scope(|scope| {
            for thread in 0..8 {
                let settings = &settings;
                scope.spawn(move || {
                    for at in 0..5 {
                        let name = format!("b{thread}-{at}");
                        KnownBoards::change(settings, |boards| boards.add(&name, board())).unwrap();
                    }
                    let first = format!("b{thread}-0");
                    let was_there = KnownBoards::change(settings, |boards| {
                        Ok::<_, KnownBoardsError>(boards.forget(&first))
                    });
                    assert!(was_there.unwrap());
                });
            }
        });
        let boards = KnownBoards::read(&settings).unwrap();
        assert_eq!(boards.iter().count(), 8 * 4);
    }

    #[test]
    fn a_change_that_fails_changes_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let settings = Settings::at(folder.path());
        KnownBoards::change(&settings, |boards| boards.add("a", board())).unwrap();
        let failed = KnownBoards::change(&settings, |boards| {
            boards.forget("a");
            boards.add("not a name", board())
        });
        assert!(failed.is_err());
        let boards = KnownBoards::read(&settings).unwrap();
        assert_eq!(boards.get("a"), Some(&board()));
    }

    #[test]
    fn names_that_mean_something_else_are_refused() {
        let mut boards = KnownBoards::default();
        assert!(matches!(
            boards.add("local", board()),
            Err(KnownBoardsError::Local)
        ));
        for name in ["", "a b", "../x", "a/b", &"x".repeat(65)] {
            let refused = boards.add(name, board());
            assert!(matches!(refused, Err(KnownBoardsError::Name(_))), "{name}");
        }
    }

    #[test]
    fn a_route_knows_the_folder_of_all_builds() {
        let route = behind_ssh().ssh.unwrap();
        assert_eq!(route.base(), Some("/var/tmp/edgedyno-7"));
        let variables =
            "XDG_STATE_HOME=/var/tmp/edgedyno-7/state XDG_CACHE_HOME=/var/tmp/edgedyno-7/cache ";
        assert_eq!(route.environment(), variables);
    }

    #[test]
    fn an_agent_that_may_not_batch_its_packets_is_told_so_each_time() {
        let mut board = behind_ssh();
        let text = |board: &KnownBoard| {
            let mut boards = KnownBoards::default();
            boards.add("x", board.clone()).unwrap();
            boards.to_text()
        };
        assert!(!text(&board).contains("offload"), "an older host reads it");
        let route = board.ssh.as_mut().unwrap();
        route.offload = false;
        assert!(route.environment().ends_with(" EDGEDYNO_QUIC_GSO=off "));
        route.keep = None;
        assert_eq!(route.environment(), "EDGEDYNO_QUIC_GSO=off ");
        let again = KnownBoards::parse(&text(&board)).unwrap();
        assert_eq!(again.get("x"), Some(&board));
    }

    #[test]
    fn what_cannot_be_understood_is_named() {
        let key = PublicKey([5; 32]);
        for (text, word) in [
            ("x = 1", "x"),
            (
                &format!("[boards.a]\naddresses = [\"here\"]\nkey = \"{key}\""),
                "here",
            ),
            ("[boards.a]\naddresses = []\nkey = \"abc\"", "ed25519"),
            (
                "[boards.a.ssh]\ndestination = \"ssh://h\"\nprogram = \"/x/$(y)\"\narchitecture = \"arm\"\n\
                 start = \"on-demand\"",
                "$(y)",
            ),
        ] {
            assert!(
                KnownBoards::parse(text).unwrap_err().contains(word),
                "{text}"
            );
        }
    }
}
