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

    /// Appends an order; it is on disk when this returns.
    pub fn push(&mut self, store: StoreId, order: RepeatOrder) -> io::Result<()> {
        let number = self.next;
        let mut bytes = schema_hash().to_vec();
        bytes.extend(store.0);
        bytes.extend(postcard::to_stdvec(&order).map_err(io::Error::other)?);
        disk::write_whole(&self.path(number), &bytes)?;
        self.next += 1;
        self.entries.push(Queued {
            number,
            store,
            order,
        });
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

    /// Takes the orders of all other stores off, but for one that runs; returns whose they were.
    pub fn keep_only(
        &mut self,
        store: StoreId,
        running: Option<u64>,
    ) -> io::Result<BTreeSet<StoreId>> {
        let of_others = |entry: &&Queued| entry.store != store && Some(entry.number) != running;
        let others = self.entries.iter().filter(of_others);
        let others: Vec<(u64, StoreId)> = others.map(|e| (e.number, e.store)).collect();
        for (number, _) in &others {
            self.remove(*number)?;
        }
        Ok(others.into_iter().map(|(_, store)| store).collect())
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
