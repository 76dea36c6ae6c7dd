//! Whose a store is: the first host that comes with a store's id over the network is the only one of its role
//! that gets what that store ordered. A file with one line for each store, `STORE OWNER`, the owner being a
//! host's key, or `board` for who came through the socket.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use edgedyno_shared::ids::StoreId;
use edgedyno_shared::link::key::PublicKey;
use edgedyno_shared::link::role::Role;

use crate::disk;

/// Stores that are remembered. More would be somebody making them up: none is forgotten for it, since that
/// would give its results away.
const MOST: usize = 16 * 1024;

/// Stands for everybody who comes through the agent's own socket.
const BOARD: &str = "board";

/// Who came first with a store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Owner {
    /// A user of the board, through the socket.
    Board,
    Host(PublicKey),
}

/// All stores and their owners.
#[derive(Debug)]
pub struct Owners {
    path: PathBuf,
    all: BTreeMap<StoreId, Owner>,
}

impl Owners {
    /// Reads the file; none is an empty list.
    ///
    /// # Errors
    /// When it cannot be read or understood: guessing would give results away.
    pub fn open(state: &Path) -> io::Result<Self> {
        let path = state.join("store_owners");
        let text = match fs::read_to_string(&path) {
            Err(why) if why.kind() == io::ErrorKind::NotFound => String::new(),
            text => text
                .map_err(disk::at(&path))
                .and_then(|text| whole(&path, text))?,
        };
        let all = text.lines().enumerate().map(|(at, line)| {
            let parsed = parse(line);
            parsed.ok_or_else(|| {
                let text = format!("{}: line {} cannot be read", path.display(), at + 1);
                io::Error::new(io::ErrorKind::InvalidData, text)
            })
        });
        let all = all.collect::<io::Result<_>>()?;
        Ok(Self { path, all })
    }

    /// Whether this host may use the store. The first one that asks owns it from now on; who administers the
    /// board, or comes through its socket, may use every store.
    pub fn admit(&mut self, store: StoreId, host: Owner, role: Role) -> bool {
        if store == StoreId::NONE {
            return true;
        }
        if let Some(owner) = self.all.get(&store) {
            return *owner == host || role >= Role::Admin;
        }
        // Who only looks has nothing to come back for.
        if role < Role::Run {
            return true;
        }
        if self.all.len() >= MOST {
            return role >= Role::Admin;
        }
        self.all.insert(store, host);
        if let Err(why) = self.write() {
            // It holds for this life of the agent.
            tracing::warn!("whose store {store} is cannot be written down: {why}");
        }
        true
    }

    fn write(&self) -> io::Result<()> {
        let lines = self.all.iter().map(|(store, owner)| match owner {
            Owner::Board => format!("{store} {BOARD}\n"),
            Owner::Host(key) => format!("{store} {key}\n"),
        });
        disk::write_whole(&self.path, lines.collect::<String>().as_bytes())
    }
}

/// Nothing is ever written but whole lines, and at least one: less is what a disk made of them, and the first
/// to ask would get what another measured.
fn whole(path: &Path, text: String) -> io::Result<String> {
    if text.ends_with('\n') {
        return Ok(text);
    }
    let text = format!(
        "{} is empty or cut short\nhint: move it away when nobody's results wait on this board",
        path.display()
    );
    Err(io::Error::new(io::ErrorKind::InvalidData, text))
}

fn parse(line: &str) -> Option<(StoreId, Owner)> {
    let (store, owner) = line.split_once(' ')?;
    let owner = match owner {
        BOARD => Owner::Board,
        key => Owner::Host(key.parse().ok()?),
    };
    Some((store.parse().ok()?, owner))
}

#[cfg(test)]
mod tests {
    use super::*;

    const STORE: StoreId = StoreId([7; 16]);
    const ONE: Owner = Owner::Host(PublicKey([1; 32]));
    const OTHER: Owner = Owner::Host(PublicKey([2; 32]));

    #[test]
    fn a_store_is_its_first_hosts_also_after_a_restart() {
        let state = tempfile::tempdir().unwrap();
        let mut owners = Owners::open(state.path()).unwrap();
        assert!(owners.admit(STORE, ONE, Role::Run));
        assert!(!owners.admit(STORE, OTHER, Role::Run));
        let mut again = Owners::open(state.path()).unwrap();
        assert!(!again.admit(STORE, OTHER, Role::Run));
        assert!(again.admit(STORE, ONE, Role::Run));
        assert!(
            again.admit(STORE, OTHER, Role::Admin),
            "who administers may"
        );
        assert!(
            !again.admit(STORE, OTHER, Role::Run),
            "and takes nothing over"
        );
    }

    #[test]
    fn what_came_through_the_socket_is_not_for_hosts_that_only_run() {
        let state = tempfile::tempdir().unwrap();
        let mut owners = Owners::open(state.path()).unwrap();
        assert!(owners.admit(STORE, Owner::Board, Role::Admin));
        assert!(!owners.admit(STORE, ONE, Role::Run));
        assert!(owners.admit(StoreId::NONE, ONE, Role::Observe));
        assert!(owners.admit(StoreId::NONE, OTHER, Role::Run));
        let free = StoreId([8; 16]);
        assert!(owners.admit(free, ONE, Role::Observe));
        assert!(
            owners.admit(free, OTHER, Role::Run),
            "who looks takes nothing"
        );
        assert!(!owners.admit(free, ONE, Role::Observe));
    }

    #[test]
    fn a_file_that_cannot_be_understood_is_an_error() {
        let state = tempfile::tempdir().unwrap();
        fs::write(
            state.path().join("store_owners"),
            format!("{STORE} nobody\n"),
        )
        .unwrap();
        let why = Owners::open(state.path()).unwrap_err().to_string();
        assert!(why.contains("line 1"), "{why}");
        let line = format!("{STORE} board\n");
        for text in ["", &line[..line.len() - 1], &line[..40]] {
            fs::write(state.path().join("store_owners"), text).unwrap();
            let why = Owners::open(state.path()).unwrap_err().to_string();
            assert!(why.contains("cut short"), "{text:?}: {why}");
        }
    }
}
