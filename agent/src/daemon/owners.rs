//! Whose a store is: the first host that comes with a store's id over the network is the only one of its role
//! that gets what that store ordered. A file with one line for each store, `STORE OWNER`, the owner being a
//! host's key, or `board` for who came through the socket.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use edgedyno_shared::ids::StoreId;
use edgedyno_shared::link::key::PublicKey;
use edgedyno_shared::link::role::Role;

use crate::disk;

/// Stores of one owner that are remembered. One with something on the board is not forgotten for another:
/// that would give its results away.
const MOST: usize = 4 * 1024;

/// Stands for everybody who comes through the agent's own socket.
const BOARD: &str = "board";

/// Who came first with a store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Owner {
    /// A user of the board, through the socket.
    Board,
    Host(PublicKey),
}

/// Whether a host may use a store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Admitted {
    Yes,
    /// It is another's.
    Foreign,
    /// As many stores of this host as are remembered have something on the board.
    Full,
}

/// All stores and their owners, the oldest first.
#[derive(Debug)]
pub struct Owners {
    path: PathBuf,
    most: usize,
    all: Vec<(StoreId, Owner)>,
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
        let most = MOST;
        Ok(Self { path, most, all })
    }

    /// Whether this host may use the store. The first one that asks owns it from now on; who administers the
    /// board, or comes through its socket, may use every store. `is_used` says whether a store has results,
    /// orders or the board itself.
    pub fn admit(
        &mut self,
        store: StoreId,
        host: Owner,
        role: Role,
        is_used: impl Fn(StoreId) -> bool,
    ) -> Admitted {
        if store == StoreId::NONE {
            return Admitted::Yes;
        }
        if let Some((_, owner)) = self.all.iter().find(|(known, _)| *known == store) {
            return match *owner == host || role >= Role::Admin {
                true => Admitted::Yes,
                false => Admitted::Foreign,
            };
        }
        // Who only looks has nothing to come back for.
        if role < Role::Run {
            return Admitted::Yes;
        }
        if !self.make_room(host, is_used) {
            return match role >= Role::Admin {
                true => Admitted::Yes,
                false => Admitted::Full,
            };
        }
        self.all.push((store, host));
        if let Err(why) = self.write() {
            // It holds for this life of the agent.
            tracing::warn!("whose store {store} is cannot be written down: {why}");
        }
        Admitted::Yes
    }

    /// Forgets the oldest store of this owner that has nothing on the board, where it has as many as may be.
    /// Those of others stay: nobody pushes them out.
    fn make_room(&mut self, owner: Owner, is_used: impl Fn(StoreId) -> bool) -> bool {
        let own = |(_, of): &&(StoreId, Owner)| *of == owner;
        if self.all.iter().filter(own).count() < self.most {
            return true;
        }
        let is_idle = |(store, of): &(StoreId, Owner)| *of == owner && !is_used(*store);
        let oldest = self.all.iter().position(is_idle);
        oldest.is_some_and(|at| {
            self.all.remove(at);
            true
        })
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

    fn may(owners: &mut Owners, store: StoreId, host: Owner, role: Role) -> bool {
        owners.admit(store, host, role, |_| false) == Admitted::Yes
    }

    #[test]
    fn a_store_is_its_first_hosts_also_after_a_restart() {
        let state = tempfile::tempdir().unwrap();
        let mut owners = Owners::open(state.path()).unwrap();
        assert!(may(&mut owners, STORE, ONE, Role::Run));
        assert!(!may(&mut owners, STORE, OTHER, Role::Run));
        let mut again = Owners::open(state.path()).unwrap();
        assert!(!may(&mut again, STORE, OTHER, Role::Run));
        assert!(may(&mut again, STORE, ONE, Role::Run));
        assert!(
            may(&mut again, STORE, OTHER, Role::Admin),
            "who administers may"
        );
        assert!(
            !may(&mut again, STORE, OTHER, Role::Run),
            "and takes nothing over"
        );
    }

    #[test]
    fn what_came_through_the_socket_is_not_for_hosts_that_only_run() {
        let state = tempfile::tempdir().unwrap();
        let mut owners = Owners::open(state.path()).unwrap();
        assert!(may(&mut owners, STORE, Owner::Board, Role::Admin));
        assert!(!may(&mut owners, STORE, ONE, Role::Run));
        assert!(may(&mut owners, StoreId::NONE, ONE, Role::Observe));
        assert!(may(&mut owners, StoreId::NONE, OTHER, Role::Run));
        let free = StoreId([8; 16]);
        assert!(may(&mut owners, free, ONE, Role::Observe));
        assert!(
            may(&mut owners, free, OTHER, Role::Run),
            "who looks takes nothing"
        );
        assert!(!may(&mut owners, free, ONE, Role::Observe));
    }

    fn store(number: u8) -> StoreId {
        StoreId([number; 16])
    }

    #[test]
    fn the_oldest_of_a_hosts_own_stores_that_has_nothing_on_the_board_is_forgotten() {
        let state = tempfile::tempdir().unwrap();
        let mut owners = Owners::open(state.path()).unwrap();
        owners.most = 3;
        let is_used = |used: StoreId| used == store(1);
        let mut admit = |number, host| owners.admit(store(number), host, Role::Run, is_used);
        assert_eq!(admit(100, OTHER), Admitted::Yes);
        // A fresh store for each job, for ever.
        for number in 1..=50 {
            assert_eq!(admit(number, ONE), Admitted::Yes, "{number}");
        }
        // What waits for the first is not given away, nor are stores of others.
        assert_eq!(admit(1, OTHER), Admitted::Foreign);
        assert_eq!(admit(100, ONE), Admitted::Foreign);
        assert_eq!(admit(2, OTHER), Admitted::Yes, "it was forgotten");
        let text = fs::read_to_string(state.path().join("store_owners")).unwrap();
        let left: Vec<&str> = text.lines().map(|line| &line[..2]).collect();
        assert_eq!(left, ["64", "01", "31", "32", "02"], "{text}");
        let again = Owners::open(state.path()).unwrap();
        assert_eq!(again.all.len(), 5);
    }

    #[test]
    fn a_host_whose_stores_all_have_something_here_is_told_so() {
        let state = tempfile::tempdir().unwrap();
        let mut owners = Owners::open(state.path()).unwrap();
        owners.most = 2;
        let mut admit = |number, role| owners.admit(store(number), ONE, role, |_| true);
        assert_eq!(admit(1, Role::Run), Admitted::Yes);
        assert_eq!(admit(2, Role::Run), Admitted::Yes);
        assert_eq!(admit(3, Role::Run), Admitted::Full);
        assert_eq!(
            admit(3, Role::Observe),
            Admitted::Yes,
            "looking takes no place"
        );
        assert_eq!(admit(3, Role::Admin), Admitted::Yes);
        assert!(may(&mut owners, store(3), OTHER, Role::Run));
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
        for text in ["", &line[..line.len() - 1], &line[..20]] {
            fs::write(state.path().join("store_owners"), text).unwrap();
            let why = Owners::open(state.path()).unwrap_err().to_string();
            assert!(why.contains("cut short"), "{text:?}: {why}");
        }
    }
}
