//! Who may come in over the network: a file with one line for each host, and a ticket while one is open.
//!
//! `ROLE KEY NAME`: a role (observe, run, admin), the host's key in 52 letters and digits, and a name for
//! people. Empty lines and those that begin with `#` are left alone.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use edgedyno_shared::file_mark::FileMark;
use edgedyno_shared::link::key::PublicKey;
use edgedyno_shared::link::role::Role;
use edgedyno_shared::link::ticket::Secret;
use edgedyno_shared::link::tls::Admission;

use super::identity;
use super::pairing::{Pairing, TIME_VARIABLE, Tried, open_for};
use crate::clock::{Clock, Monotonic};
use crate::disk;

/// Letters of a host's name that are kept.
const LONGEST_NAME: usize = 64;

/// A host that is known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KnownHost {
    pub role: Role,
    pub key: PublicKey,
    pub name: String,
}

/// The list in force, and the ticket that is open. Asked from TLS, which knows no single thread.
#[derive(Debug)]
pub struct Access {
    path: PathBuf,
    inner: Mutex<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    hosts: Vec<KnownHost>,
    /// What the file looked like when it was read.
    seen: Option<FileMark>,
    pairing: Pairing,
}

impl Access {
    /// Reads the file; none is an empty list.
    ///
    /// # Errors
    /// When it cannot be read, or has a line that cannot be understood: guessing who may come in is no way.
    pub fn open(state: &Path) -> io::Result<Self> {
        let access = Self {
            path: identity::folder(state).join("authorized_hosts"),
            inner: Mutex::default(),
        };
        access.reload()?;
        Ok(access)
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        // Nothing that panics leaves it half changed.
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reads the file again. One that cannot be understood lets nobody in until it can.
    pub fn reload(&self) -> io::Result<()> {
        let seen = self.look();
        let text = match fs::read_to_string(&self.path) {
            Ok(text) => text,
            Err(why) if why.kind() == io::ErrorKind::NotFound => String::new(),
            Err(why) => {
                self.inner().hosts.clear();
                return Err(why);
            }
        };
        if text.is_empty() && seen.is_some() {
            tracing::warn!(
                "{} is empty: no host comes in over the network",
                self.path.display()
            );
        }
        let hosts = parse(&text);
        let mut inner = self.inner();
        inner.seen = seen;
        match hosts {
            Ok(hosts) => {
                inner.hosts = hosts;
                Ok(())
            }
            Err(why) => {
                inner.hosts.clear();
                let text = format!("{}: {why}", self.path.display());
                Err(io::Error::new(io::ErrorKind::InvalidData, text))
            }
        }
    }

    fn look(&self) -> Option<FileMark> {
        let found = fs::metadata(&self.path).ok()?;
        Some(FileMark::of(&found))
    }

    /// Reads the file again if it is another than the one read. Who may come in is decided by what it says
    /// now, not by what a watcher has seen yet.
    fn refresh(&self) {
        let seen = self.inner().seen;
        if self.look() != seen
            && let Err(why) = self.reload()
        {
            tracing::error!("nobody comes in over the network: {why}");
        }
    }

    pub fn find(&self, key: PublicKey) -> Option<KnownHost> {
        self.refresh();
        self.inner()
            .hosts
            .iter()
            .find(|host| host.key == key)
            .cloned()
    }

    /// Lets one host in that knows the secret; returns for how long.
    pub fn open_pairing(&self, secret: Secret, role: Role) -> Duration {
        let variable = std::env::var(TIME_VARIABLE).ok();
        let open_for = open_for(variable.as_deref());
        self.inner()
            .pairing
            .open(Monotonic.now(), secret, role, open_for);
        open_for
    }

    /// Takes a proof; a host that is welcome stands in the file when this returns.
    pub fn pair(
        &self,
        exported: &[u8; 32],
        key: PublicKey,
        proof: &[u8],
        name: &str,
    ) -> io::Result<Tried> {
        let tried = self
            .inner()
            .pairing
            .take(Monotonic.now(), exported, key, proof);
        if let Tried::Welcome(role) = tried {
            let name = plain_name(name);
            self.add(KnownHost { role, key, name })?;
        }
        Ok(tried)
    }

    /// Lets a host in without a ticket: whoever may write the file may as well do it by this.
    pub fn admit(&self, host: &KnownHost) -> io::Result<()> {
        let name = plain_name(&host.name);
        self.add(KnownHost {
            name,
            ..host.clone()
        })
    }

    /// Adds a line, in the place of one with the same key. Commands and an agent may do it at once.
    fn add(&self, host: KnownHost) -> io::Result<()> {
        let _alone = disk::lock(&self.path.with_extension("lock"))?;
        let text = match fs::read_to_string(&self.path) {
            Err(why) if why.kind() != io::ErrorKind::NotFound => return Err(why),
            text => text.unwrap_or_default(),
        };
        let others = text.lines().filter(|line| match parse_line(line) {
            Ok(Some(known)) => known.key != host.key,
            _ => true,
        });
        let mut lines: Vec<String> = others.map(str::to_owned).collect();
        lines.push(format!("{} {} {}", host.role, host.key, host.name));
        disk::write_whole(&self.path, (lines.join("\n") + "\n").as_bytes())?;
        self.reload()
    }
}

impl Admission for Access {
    fn admits(&self, host: PublicKey) -> bool {
        self.refresh();
        let inner = self.inner();
        inner.hosts.iter().any(|known| known.key == host) || inner.pairing.is_open(Monotonic.now())
    }
}

/// A name as it goes into a line: letters that a terminal shows, no line ends.
fn plain_name(name: &str) -> String {
    let kept = name
        .chars()
        .filter(|c| c.is_alphanumeric() || " .-_@".contains(*c));
    let name: String = kept.take(LONGEST_NAME).collect();
    let name = name.trim();
    if name.is_empty() { "a host" } else { name }.to_owned()
}

fn parse(text: &str) -> Result<Vec<KnownHost>, String> {
    let lines = text.lines().enumerate();
    lines
        .filter_map(|(at, line)| {
            let parsed = parse_line(line).transpose()?;
            Some(parsed.map_err(|why| format!("line {}: {why}", at + 1)))
        })
        .collect()
}

fn parse_line(line: &str) -> Result<Option<KnownHost>, String> {
    let line = line.trim();
    if line.is_empty() || line.starts_with('#') {
        return Ok(None);
    }
    let mut words = line.split_whitespace();
    let role = words.next().unwrap_or_default();
    let role = role.parse::<Role>().map_err(|why| why.to_string())?;
    let key = words.next().unwrap_or_default();
    let key = key
        .parse::<PublicKey>()
        .map_err(|why| format!("the second word is {why}"))?;
    let name = words.collect::<Vec<_>>().join(" ");
    Ok(Some(KnownHost { role, key, name }))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const HOST: PublicKey = PublicKey([3; 32]);
    const EXPORTED: [u8; 32] = [4; 32];

    fn access() -> (tempfile::TempDir, Access) {
        let state = tempfile::tempdir().unwrap();
        disk::private_folder(&identity::folder(state.path())).unwrap();
        let access = Access::open(state.path()).unwrap();
        (state, access)
    }

    #[test]
    fn nobody_comes_in_before_a_ticket_and_one_host_after() {
        let (state, access) = access();
        assert!(!access.admits(HOST));
        let secret = Secret([1; 10]);
        access.open_pairing(secret.clone(), Role::Run);
        assert!(access.admits(HOST), "to prove that it has the ticket");
        let proof = secret.proof(&EXPORTED, HOST);
        let tried = access.pair(&EXPORTED, HOST, &proof, "lab\npc").unwrap();
        assert_eq!(tried, Tried::Welcome(Role::Run));
        assert!(access.admits(HOST) && !access.admits(PublicKey([5; 32])));
        let again = Access::open(state.path()).unwrap();
        let host = again.find(HOST).unwrap();
        assert_eq!((host.role, host.name.as_str()), (Role::Run, "labpc"));
    }

    #[test]
    fn pairing_again_replaces_the_line_and_keeps_what_people_wrote() {
        let (_state, access) = access();
        let other = format!("# the lab\n\nadmin {}  build server\n", PublicKey([6; 32]));
        fs::write(access.path(), other).unwrap();
        for role in [Role::Run, Role::Observe] {
            let secret = Secret([1; 10]);
            access.open_pairing(secret.clone(), role);
            let proof = secret.proof(&EXPORTED, HOST);
            access.pair(&EXPORTED, HOST, &proof, "pc").unwrap();
            assert_eq!(access.find(HOST).unwrap().role, role);
        }
        let text = fs::read_to_string(access.path()).unwrap();
        assert_eq!(text.lines().count(), 4, "{text}");
        assert!(text.starts_with("# the lab\n"));
        assert_eq!(
            access.find(PublicKey([6; 32])).unwrap().name,
            "build server"
        );
    }

    #[test]
    fn hosts_that_are_let_in_at_once_are_all_there() {
        let (state, access) = access();
        let key = |thread: u8, host: u8| {
            let mut key = [9; 32];
            (key[0], key[1]) = (thread, host);
            PublicKey(key)
        };
        std::thread::scope(|scope| {
            for thread in 0..6 {
                let state = state.path();
                // Each as a process of its own has it.
                scope.spawn(move || {
                    let own = Access::open(state).unwrap();
                    for host in 0..5 {
                        let (role, name) = (Role::Run, "pc".to_owned());
                        let key = key(thread, host);
                        own.admit(&KnownHost { role, key, name }).unwrap();
                    }
                });
            }
        });
        let all = (0..6).flat_map(|thread| (0..5).map(move |host| key(thread, host)));
        assert_eq!(all.filter(|key| access.find(*key).is_none()).count(), 0);
    }

    #[test]
    fn a_line_that_cannot_be_read_lets_nobody_in() {
        let (_state, access) = access();
        fs::write(access.path(), format!("run {HOST}\nroot {HOST}\n")).unwrap();
        let why = access.reload().unwrap_err().to_string();
        assert!(why.contains("line 2") && why.contains("root"), "{why}");
        assert!(!access.admits(HOST));
    }

    proptest! {
        #[test]
        fn no_file_makes_the_reader_panic(text: String) {
            let _ = parse(&text);
        }

        #[test]
        fn a_name_stays_in_its_line(name: String) {
            let name = plain_name(&name);
            let line = format!("run {HOST} {name}");
            prop_assert_eq!(line.lines().count(), 1);
            prop_assert!(parse(&line).is_ok());
        }
    }
}
