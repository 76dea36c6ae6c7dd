//! What sessions and executor of one daemon share. All of it lives on the main thread.

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::Arc;

use edgedyno_shared::device::Fact;
use edgedyno_shared::folders::AgentFolders;
use edgedyno_shared::ids::{BootId, Sha256, StoreId};
use edgedyno_shared::order::OrderKey;
use edgedyno_shared::repeat::{Outcome, RepeatEnd, Stage};
use edgedyno_shared::wire::event::Event;
use edgedyno_shared::wire::hello::DaemonStatus;
use edgedyno_shared::wire::request::{QueueEntry, QueueState};
use tokio::sync::{Mutex, Notify, broadcast, watch};

use super::clocks::Hold;
use super::contents::{self, Contents};
use super::host_clock::HostClocks;
use super::lease::Moment;
use super::lease_file::LeaseFile;
use super::live::Live;
use super::network::Network;
use super::owners::Owners;
use super::program::Tenure;
use super::queue::{Queue, Queued};
use super::runtimes::Runtimes;
use super::spool::Spool;
use crate::clock::{self, Clock, Monotonic};
use crate::facts::Kernel;
use crate::neighbours;
use crate::privileged::client::Helper;
use crate::sampler::files::Files;
use crate::worker::spawn::SelfExec;
use crate::worker::supervise::Cancel;

/// One daemon.
pub struct Daemon {
    pub folders: AgentFolders,
    pub exec: SelfExec,
    pub kernel: Kernel,
    /// Where telemetry is read from.
    pub files: Arc<dyn Files>,
    /// Who opens what this user may not, when root started this daemon.
    pub helper: Option<Arc<Helper>>,
    /// The folder below which clocks are held.
    pub root: PathBuf,
    /// Clocks that are held for the repeat that runs.
    pub held: RefCell<Option<Hold>>,
    /// Who watches the board now.
    pub live: Live,
    pub boot: BootId,
    /// What sessions and the lease go by.
    pub clock: Rc<dyn Clock>,
    /// CPUs this process was given; workers and the daemon itself stay on them.
    pub allowed_cpus: Vec<u16>,
    pub spool: Spool,
    /// Segments that are damaged, and that there was no room to repair yet.
    pub unrepaired: RefCell<BTreeSet<(StoreId, u64)>>,
    pub queue: RefCell<Queue>,
    pub contents: RefCell<Contents>,
    pub runtimes: RefCell<Runtimes>,
    pub running: RefCell<Option<Running>>,
    /// Held by the one that has a worker run a vendor's code: a library that is looked at would disturb a
    /// repeat.
    pub vendor_code: Mutex<()>,
    /// Who may order.
    pub lease: RefCell<LeaseFile>,
    /// Whose each store is.
    pub owners: RefCell<Owners>,
    /// Whose clock can be asked for.
    pub host_clocks: RefCell<HostClocks>,
    /// The second listener, when there is one.
    pub network: RefCell<Option<Rc<Network>>>,
    /// Finish the running repeat, then leave.
    pub retiring: Cell<bool>,
    /// When to give way to another program.
    pub tenure: Tenure,
    /// Who goes on when this daemon has left.
    pub successor: RefCell<Option<PathBuf>>,
    pub sessions: Cell<u32>,
    /// Something to do for the executor, or a reason to look whether to leave.
    pub wake: Notify,
    /// Something to tell to sessions.
    pub news: broadcast::Sender<(StoreId, News)>,
}

/// What happens while sessions listen.
#[derive(Debug, Clone)]
pub enum News {
    Event(Event),
    /// A segment of the store was sealed.
    Sealed,
}

/// The repeat that runs.
pub struct Running {
    pub number: u64,
    pub store: StoreId,
    pub key: OrderKey,
    pub stage: Stage,
    pub cancel: watch::Sender<Cancel>,
}

impl Daemon {
    pub fn status(&self) -> DaemonStatus {
        let running = self.running.borrow().is_some();
        let queued = self.queue.borrow().entries().len() - usize::from(running);
        DaemonStatus {
            process: std::process::id(),
            sessions: self.sessions.get().min(255) as u8,
            queued: queued as u32,
            spooled: self.spool.load().map_or(0, |(_, files)| files),
            running,
        }
    }

    /// Keys of a store that are finished and wait for their host.
    pub fn spooled(&self, store: StoreId) -> BTreeSet<OrderKey> {
        let waiting = self.spool.waiting(store).unwrap_or_default();
        waiting.into_iter().map(|waiting| waiting.key).collect()
    }

    /// Everything of a store, in the order it will reach or has reached the end.
    pub fn entries(&self, store: StoreId) -> Vec<QueueEntry> {
        let spooled = self.spool.waiting(store).unwrap_or_default();
        let mut entries: Vec<QueueEntry> = spooled
            .into_iter()
            .map(|waiting| QueueEntry {
                key: waiting.key,
                state: QueueState::Spooled,
            })
            .collect();
        let running = self.running.borrow();
        let running = running.as_ref().map(|r| (r.number, r.stage));
        for entry in self
            .queue
            .borrow()
            .entries()
            .iter()
            .filter(|e| e.store == store)
        {
            let state = match running {
                Some((number, stage)) if number == entry.number => QueueState::Running(stage),
                _ => QueueState::Queued,
            };
            entries.push(QueueEntry {
                key: entry.order.key.clone(),
                state,
            });
        }
        entries
    }

    /// What the lease is to know of this moment.
    pub fn moment(&self) -> Moment {
        Moment {
            now: self.clock.now(),
            wall_unix_ns: self.clock.wall_unix_ns(),
            has_orders: self.holder_has_orders(),
        }
    }

    /// Whether an order counts: not when it is one of a store that lost the board since. Taking the board is
    /// on disk before the orders of the holder before are dropped, and an agent can die in between.
    pub fn may_run(&self, queued: &Queued) -> bool {
        let holder = self.lease.borrow().holder();
        holder.is_none_or(|store| store == queued.store)
    }

    /// Whether an order of who holds the board is queued or runs.
    pub fn holder_has_orders(&self) -> bool {
        let holder = self.lease.borrow().holder();
        let queue = self.queue.borrow();
        holder.is_some_and(|store| queue.entries().iter().any(|entry| entry.store == store))
    }

    /// Contents that orders in the queue name.
    pub fn contents_in_use(&self) -> BTreeSet<Sha256> {
        let queue = self.queue.borrow();
        let orders = queue.entries().iter().map(|entry| &entry.order);
        orders.flat_map(contents::named_by).collect()
    }

    /// The board's facts, and who else has its accelerators.
    pub fn environment(&self) -> Vec<Fact> {
        let mut facts = self.kernel.environment();
        facts.extend(neighbours::facts(self.kernel.root()));
        facts
    }

    /// The end of a repeat that is over now; its trials are counted where they are written.
    pub fn end_of(&self, outcome: Outcome) -> RepeatEnd {
        RepeatEnd {
            outcome,
            wall_unix_ns: clock::wall_unix_ns(),
            mono: Monotonic.now(),
            environment: self.environment(),
            trials: 0,
            chunks: 0,
        }
    }

    /// Whether a store has something on this board, as far as that can be seen.
    pub fn is_used_by(&self, store: StoreId) -> bool {
        let waits = |numbers: Vec<u64>| !numbers.is_empty();
        self.lease.borrow().holder() == Some(store)
            || self
                .running
                .borrow()
                .as_ref()
                .is_some_and(|r| r.store == store)
            || self
                .queue
                .borrow()
                .entries()
                .iter()
                .any(|entry| entry.store == store)
            || self.spool.numbers(store).map_or(true, waits)
    }

    /// Where repeats run: on tmpfs, else in the state folder.
    pub fn repeat_folders(&self) -> [PathBuf; 2] {
        [
            self.folders.runtime.clone(),
            self.folders.state.join("repeats"),
        ]
    }

    /// Tells whoever listens for this store; nobody listening is fine.
    pub fn tell(&self, store: StoreId, news: News) {
        let _ = self.news.send((store, news));
    }

    /// Tells every store with an order in the queue.
    pub fn tell_queued(&self, event: &Event) {
        let queue = self.queue.borrow();
        let stores: BTreeSet<StoreId> = queue.entries().iter().map(|entry| entry.store).collect();
        for store in stores {
            self.tell(store, News::Event(event.clone()));
        }
    }

    /// Where what stood in the clocks' files is written down while they are held.
    pub fn clock_journal(&self) -> PathBuf {
        self.folders.state.join("clocks")
    }

    /// Puts clocks back that are held.
    pub fn release_clocks(&self) {
        let held = self.held.borrow_mut().take();
        if let Some(Err(why)) = held.map(Hold::restore) {
            tracing::error!("clocks cannot be put back, the next start tries again: {why}");
        }
    }

    /// Begins to leave when another program is to serve; between two repeats only.
    pub fn give_way(&self) -> bool {
        let successor = self.tenure.successor(&self.folders.state);
        if let Some(program) = successor {
            tracing::info!("{} goes on from here", program.display());
            self.retiring.set(true);
            *self.successor.borrow_mut() = Some(program);
        }
        self.retiring.get()
    }

    pub fn is_idle(&self) -> bool {
        self.sessions.get() == 0 && self.queue.borrow().entries().is_empty()
    }
}

/// Counts a session for as long as it lives.
pub struct SessionCount(Rc<Daemon>);

impl SessionCount {
    pub fn new(daemon: &Rc<Daemon>) -> Self {
        daemon.sessions.set(daemon.sessions.get() + 1);
        Self(Rc::clone(daemon))
    }
}

impl Drop for SessionCount {
    fn drop(&mut self) {
        self.0.sessions.set(self.0.sessions.get() - 1);
        self.0.wake.notify_one();
    }
}
