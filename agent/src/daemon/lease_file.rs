//! The lease as it lies on disk: a board that changes hands writes it down before it tells anybody.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use edgedyno_shared::ids::StoreId;
use edgedyno_shared::printable;
use edgedyno_shared::units::Nanos;
use edgedyno_shared::wire::request::{LeaseHolder, LeaseState};

use super::lease::{Lease, Moment, Taken};
use crate::disk;

/// The lease and its file: epoch, then holder's store, time and name, if any.
#[derive(Debug)]
pub struct LeaseFile {
    path: PathBuf,
    lease: Lease,
    /// Live sessions of the holder: several commands may work for one store.
    sessions: u32,
}

impl LeaseFile {
    /// # Errors
    /// When the file cannot be read or understood: an epoch that starts again would let old commands in.
    pub fn open(state: &Path, now: Nanos) -> io::Result<Self> {
        let path = state.join("lease");
        let lease = match fs::read_to_string(&path) {
            Ok(text) => parse(&text, now).ok_or_else(|| {
                let text = format!(
                    "{} is no lease, or only a part of one\n\
                     hint: move it away when no other host measures on this board",
                    path.display()
                );
                io::Error::new(io::ErrorKind::InvalidData, text)
            })?,
            Err(why) if why.kind() == io::ErrorKind::NotFound => Lease::default(),
            Err(why) => return Err(why),
        };
        Ok(Self {
            path,
            lease,
            sessions: 0,
        })
    }

    /// [`Lease::take`], durable; the name is one line, see [`printable::name`]. The epoch is the asker's when the answer says so, and the session that
    /// asked is counted until [`Self::give`] or [`Self::session_ended`].
    pub fn take(
        &mut self,
        store: StoreId,
        name: &str,
        steal: bool,
        moment: Moment,
    ) -> io::Result<Taken> {
        let name = &printable::name(name);
        let mut lease = self.lease.clone();
        let taken = lease.take(store, name, steal, moment);
        match taken {
            Taken::New { .. } => {
                self.write(&lease)?;
                self.sessions = 1;
            }
            Taken::Held { .. } => self.sessions += 1,
            Taken::Busy(_) => {}
        }
        self.lease = lease;
        Ok(taken)
    }

    /// [`Lease::release`], durable, once the last session of the holder gives it back.
    pub fn give(&mut self, store: StoreId, epoch: u64) -> io::Result<()> {
        if !self.holds(store, epoch) {
            return Ok(());
        }
        self.sessions = self.sessions.saturating_sub(1);
        let mut lease = self.lease.clone();
        if self.sessions == 0 && lease.release(store, epoch) {
            self.write(&lease)?;
            self.lease = lease;
        }
        Ok(())
    }

    pub fn holds(&self, store: StoreId, epoch: u64) -> bool {
        self.lease.holds(store, epoch)
    }

    pub fn touch(&mut self, store: StoreId, epoch: u64, now: Nanos) {
        self.lease.touch(store, epoch, now);
    }

    pub fn repeat_ended(&mut self, store: StoreId, now: Nanos) {
        self.lease.repeat_ended(store, self.sessions > 0, now);
    }

    pub fn session_ended(&mut self, store: StoreId, epoch: u64, now: Nanos) {
        if self.holds(store, epoch) {
            self.sessions = self.sessions.saturating_sub(1);
        }
        if self.sessions == 0 {
            self.lease.session_ended(store, epoch, now);
        }
    }

    pub fn holder(&self) -> Option<StoreId> {
        self.lease.holder().map(|holder| holder.store)
    }

    /// As a session of that store is told. A holder that is gone is none.
    pub fn state(&mut self, store: StoreId, moment: Moment) -> LeaseState {
        self.lease.note(moment);
        let holder = self.lease.holder();
        LeaseState {
            epoch: self.lease.epoch(),
            is_own: holder.is_some_and(|holder| holder.store == store),
            holder: holder.map(|holder| LeaseHolder {
                name: holder.name.clone(),
                since_unix_ns: holder.since_unix_ns,
            }),
        }
    }

    fn write(&self, lease: &Lease) -> io::Result<()> {
        let holder = lease.holder().map(|holder| {
            format!(
                "{} {} {}\n",
                holder.store, holder.since_unix_ns, holder.name
            )
        });
        let text = format!("{}\n{}", lease.epoch(), holder.unwrap_or_default());
        disk::write_whole(&self.path, text.as_bytes())
    }
}

/// A file that was cut short is none: half of an epoch is a lower one.
fn parse(text: &str, now: Nanos) -> Option<Lease> {
    let mut lines = text.strip_suffix('\n')?.lines();
    let epoch = lines.next()?.parse().ok()?;
    let holder = match lines.next() {
        None => None,
        Some(line) => {
            let mut words = line.splitn(3, ' ');
            let (store, since) = (words.next()?.parse().ok()?, words.next()?.parse().ok()?);
            Some((store, words.next().unwrap_or_default().to_owned(), since))
        }
    };
    Some(Lease::restore(epoch, holder, now))
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: StoreId = StoreId([1; 16]);
    const B: StoreId = StoreId([2; 16]);
    const NOW: Moment = Moment {
        now: Nanos(1),
        wall_unix_ns: 7,
        has_orders: false,
    };

    #[test]
    fn a_lease_outlives_the_daemon() {
        let state = tempfile::tempdir().unwrap();
        let mut lease = LeaseFile::open(state.path(), Nanos(0)).unwrap();
        lease.take(A, "ann\nroot@pc", false, NOW).unwrap();
        let mut again = LeaseFile::open(state.path(), Nanos(0)).unwrap();
        assert!(again.holds(A, 1));
        let told = again.state(B, NOW);
        assert_eq!((told.epoch, told.is_own), (1, false));
        assert_eq!(told.holder.unwrap().name, "annroot@pc");
        again.give(A, 1).unwrap();
        let mut last = LeaseFile::open(state.path(), Nanos(0)).unwrap();
        let taken = last.take(B, "", false, NOW).unwrap();
        assert_eq!(
            taken,
            Taken::New {
                epoch: 2,
                from: None
            }
        );
        assert!(
            LeaseFile::open(state.path(), Nanos(0)).unwrap().holds(B, 2),
            "also without a name"
        );
    }

    #[test]
    fn the_board_is_free_when_the_last_of_several_commands_gives_it_back() {
        let state = tempfile::tempdir().unwrap();
        let mut lease = LeaseFile::open(state.path(), Nanos(0)).unwrap();
        lease.take(A, "one", false, NOW).unwrap();
        lease.take(A, "two", false, NOW).unwrap();
        lease.give(A, 1).unwrap();
        assert!(lease.holds(A, 1));
        lease.give(A, 1).unwrap();
        assert!(!lease.holds(A, 1));
    }

    #[test]
    fn a_damaged_file_is_no_new_beginning() {
        let state = tempfile::tempdir().unwrap();
        let holder = format!("17\n{A} 7 ann\n");
        let cut = (0..holder.len())
            .filter(|at| *at != 3)
            .map(|at| &holder[..at]);
        for text in cut.chain(["x\n"]) {
            fs::write(state.path().join("lease"), text).unwrap();
            let why = LeaseFile::open(state.path(), Nanos(0)).unwrap_err();
            assert!(why.to_string().contains("is no lease"), "{text:?}: {why}");
        }
        fs::write(state.path().join("lease"), holder).unwrap();
        assert!(
            LeaseFile::open(state.path(), Nanos(0))
                .unwrap()
                .holds(A, 17)
        );
    }
}
