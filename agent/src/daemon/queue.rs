//! Orders on disk: one file each, in the order they came, until their repeat is sealed.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use edgedyno_shared::ids::{RunId, StoreId};
use edgedyno_shared::order::{OrderKey, RepeatOrder};
use edgedyno_shared::wire::frame;
use edgedyno_shared::wire::hello::schema_hash;

use crate::disk;

/// The queue of all stores.
#[derive(Debug)]
pub struct Queue {
    folder: PathBuf,
    entries: Vec<Queued>,
    next: u64,
    /// Whether a power cut may still take orders back.
    is_unsynced: bool,
}

/// An order that waits, or runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Queued {
    pub number: u64,
    pub store: StoreId,
    pub order: RepeatOrder,
}

impl Queue {
    /// Reads what an earlier daemon left. Orders of another schema are dropped: their host, which has
    /// the same schema as this agent, sends them again.
    pub fn open(state: &Path) -> io::Result<Self> {
        let folder = state.join("queue");
        disk::private_folder(&folder)?;
        let mut queue = Self {
            folder,
            entries: Vec::new(),
            next: 0,
            is_unsynced: false,
        };
        for name in disk::names(&queue.folder, ".order")? {
            let path = queue.folder.join(&name);
            let bytes = match fs::read(&path) {
                // Nothing that was put here by an agent.
                Err(why) if why.kind() == io::ErrorKind::IsADirectory => continue,
                bytes => bytes.map_err(disk::at(&path))?,
            };
            match parse(&name, &bytes) {
                Some(entry) => {
                    queue.next = entry.number + 1;
                    queue.entries.push(entry);
                }
                None => disk::remove(&path)?,
            }
        }
        Ok(queue)
    }

    /// Appends an order, and returns its number; it is on disk for good after the next [`Self::sync`].
    pub fn push(&mut self, store: StoreId, order: RepeatOrder) -> io::Result<u64> {
        let number = self.next;
        let mut bytes = schema_hash().to_vec();
        bytes.extend(store.0);
        bytes.extend(postcard::to_stdvec(&order).map_err(io::Error::other)?);
        disk::write_one_of_many(&self.path(number), &bytes)?;
        self.is_unsynced = true;
        self.next += 1;
        self.entries.push(Queued {
            number,
            store,
            order,
        });
        Ok(number)
    }

    /// Makes durable what was pushed.
    pub fn sync(&mut self) -> io::Result<()> {
        if self.is_unsynced {
            disk::sync_folder(&self.folder)?;
            self.is_unsynced = false;
        }
        Ok(())
    }

    pub fn first(&self) -> Option<&Queued> {
        self.entries.first()
    }

    pub fn entries(&self) -> &[Queued] {
        &self.entries
    }

    pub fn contains(&self, store: StoreId, key: &OrderKey) -> bool {
        self.entries
            .iter()
            .any(|entry| entry.store == store && entry.order.key == *key)
    }

    /// Takes one order off, once its repeat is sealed.
    pub fn remove(&mut self, number: u64) -> io::Result<()> {
        disk::remove(&self.path(number))?;
        self.entries.retain(|entry| entry.number != number);
        Ok(())
    }

    /// Takes all orders of a run off, but for one that runs.
    pub fn remove_run(
        &mut self,
        store: StoreId,
        run: &RunId,
        running: Option<u64>,
    ) -> io::Result<()> {
        let of_run = |entry: &Queued| entry.store == store && entry.order.key.run == *run;
        self.remove_all(of_run, running)
    }

    /// Takes all orders of a store off, but for one that runs.
    pub fn remove_store(&mut self, store: StoreId, running: Option<u64>) -> io::Result<()> {
        self.remove_all(|entry| entry.store == store, running)
    }

    fn remove_all(
        &mut self,
        which: impl Fn(&Queued) -> bool,
        running: Option<u64>,
    ) -> io::Result<()> {
        let numbers = self.entries.iter().filter(|entry| which(entry));
        let numbers: Vec<u64> = numbers.map(|entry| entry.number).collect();
        numbers
            .into_iter()
            .filter(|number| Some(*number) != running)
            .try_for_each(|number| self.remove(number))
    }

    /// Takes the orders of all other stores off, but for one that runs. Returns whose went, who are to be
    /// told of it also when others could not be removed, and the first reason for that.
    pub fn keep_only(
        &mut self,
        store: StoreId,
        running: Option<u64>,
    ) -> (BTreeSet<StoreId>, io::Result<()>) {
        let of_others = |entry: &&Queued| entry.store != store && Some(entry.number) != running;
        let others = self.entries.iter().filter(of_others);
        let others: Vec<(u64, StoreId)> = others.map(|e| (e.number, e.store)).collect();
        let (mut robbed, mut removed) = (BTreeSet::new(), Ok(()));
        for (number, store) in others {
            match self.remove(number) {
                Ok(()) => drop(robbed.insert(store)),
                Err(why) => removed = removed.and(Err(why)),
            }
        }
        (robbed, removed)
    }

    fn path(&self, number: u64) -> PathBuf {
        self.folder.join(format!("{number:020}.order"))
    }
}

fn parse(name: &str, bytes: &[u8]) -> Option<Queued> {
    let number = name.strip_suffix(".order")?.parse().ok()?;
    let (schema, rest) = bytes.split_first_chunk::<32>()?;
    let (store, rest) = rest.split_first_chunk::<16>()?;
    if *schema != schema_hash() {
        return None;
    }
    let order = frame::decode(0, rest).ok()?;
    Some(Queued {
        number,
        store: StoreId(*store),
        order,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::inputs::testing;

    fn order(repeat: u32) -> RepeatOrder {
        let mut order = testing::job().order;
        order.key.repeat = repeat;
        order
    }

    #[test]
    fn a_queue_outlives_the_daemon_and_its_numbers_go_on() {
        let state = tempfile::tempdir().unwrap();
        let mut queue = Queue::open(state.path()).unwrap();
        let store = StoreId([1; 16]);
        assert_eq!(queue.push(store, order(0)).unwrap(), 0);
        assert_eq!(queue.push(store, order(1)).unwrap(), 1);
        queue.sync().unwrap();
        queue.remove(0).unwrap();
        let mut again = Queue::open(state.path()).unwrap();
        assert_eq!(again.entries(), queue.entries());
        assert!(again.contains(store, &order(1).key) && !again.contains(store, &order(0).key));
        assert_eq!(again.push(store, order(2)).unwrap(), 2);
    }

    #[test]
    fn whose_orders_went_is_told_also_when_one_cannot_be_removed() {
        let state = tempfile::tempdir().unwrap();
        let mut queue = Queue::open(state.path()).unwrap();
        let store = |which| StoreId([which; 16]);
        for (repeat, which) in [(0, 1), (1, 2), (2, 3), (3, 4), (4, 2)] {
            queue.push(store(which), order(repeat)).unwrap();
        }
        // A folder in the place of the third, which no `unlink` takes away.
        let third = queue.path(2);
        fs::remove_file(&third).unwrap();
        fs::create_dir(&third).unwrap();
        let (robbed, removed) = queue.keep_only(store(4), Some(0));
        assert_eq!(robbed, BTreeSet::from([store(2)]));
        removed.unwrap_err();
        let left: Vec<u64> = queue.entries().iter().map(|entry| entry.number).collect();
        assert_eq!(
            left,
            [0, 2, 3],
            "what runs, what stays by force, and the taker's own"
        );
        fs::remove_dir(&third).unwrap();
        let (robbed, removed) = queue.keep_only(store(4), None);
        removed.unwrap();
        assert_eq!(robbed, BTreeSet::from([store(1), store(3)]));
    }
}
