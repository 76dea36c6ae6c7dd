//! Boards that this user knows by name: where they are and which key they have.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::net::SocketAddr;

use edgedyno_shared::link::key::PublicKey;
use serde::{Deserialize, Serialize};

use super::local;
use super::settings::{Settings, SettingsError};

/// A board on the network.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KnownBoard {
    pub addresses: Vec<SocketAddr>,
    pub key: PublicKey,
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
    addresses: Vec<String>,
    key: String,
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
        Self::parse(&text).map_err(|why| KnownBoardsError::Content { path, why })
    }

    fn parse(text: &str) -> Result<Self, String> {
        let file: File = toml::from_str(text).map_err(|why| why.message().to_owned())?;
        let known = file.boards.into_iter().map(|(name, entry)| {
            let in_board = |why: String| format!("board `{name}`: {why}");
            let addresses = entry.addresses.iter();
            let addresses = addresses.map(|address| {
                let parsed = address.parse::<SocketAddr>();
                parsed.map_err(|_| in_board(format!("`{address}` is no address with a port")))
            });
            let key = entry.key.parse::<PublicKey>();
            let known = KnownBoard {
                addresses: addresses.collect::<Result<_, _>>()?,
                key: key.map_err(|why| in_board(format!("its key is {why}")))?,
            };
            Ok((name, known))
        });
        Ok(Self(known.collect::<Result<_, String>>()?))
    }

    fn to_text(&self) -> String {
        let boards = self.0.iter().map(|(name, board)| {
            let entry = Entry {
                addresses: board.addresses.iter().map(ToString::to_string).collect(),
                key: board.key.to_string(),
            };
            (name.clone(), entry)
        });
        let file = File {
            boards: boards.collect(),
        };
        // Text keys and text values, which is all that could fail.
        toml::to_string(&file).unwrap_or_default()
    }

    pub fn write(&self, settings: &Settings) -> Result<(), SettingsError> {
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
            key: PublicKey([5; 32]),
        }
    }

    #[test]
    fn boards_are_kept_by_name() {
        let folder = tempfile::tempdir().unwrap();
        let settings = Settings::at(folder.path());
        let mut boards = KnownBoards::read(&settings).unwrap();
        assert_eq!(boards.iter().count(), 0);
        boards.add("s100-lab", board()).unwrap();
        boards.write(&settings).unwrap();
        let mut again = KnownBoards::read(&settings).unwrap();
        assert_eq!(again.get("s100-lab"), Some(&board()));
        assert!(again.forget("s100-lab") && !again.forget("s100-lab"));
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
    fn what_cannot_be_understood_is_named() {
        let key = PublicKey([5; 32]);
        for (text, word) in [
            ("x = 1", "x"),
            (
                &format!("[boards.a]\naddresses = [\"here\"]\nkey = \"{key}\""),
                "here",
            ),
            ("[boards.a]\naddresses = []\nkey = \"abc\"", "ed25519"),
        ] {
            assert!(
                KnownBoards::parse(text).unwrap_err().contains(word),
                "{text}"
            );
        }
    }
}
