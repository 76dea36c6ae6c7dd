//! The real session, queue, spool, lease and recovery of an agent, and the real driver and store of a host,
//! in one thread on simulated time, with every fault that a seed can think of.
//!
//! Only three things are made up: the clocks, the line (bytes pass until it is cut, at any byte, and some
//! requests come twice), and the worker (a repeat is a pause and a handful of trials). An agent dies at any point between two steps, a host
//! at any point where it waits. Full disks are real ones, small file systems in memory, which only root can
//! make. `EDGEDYNO_SIMULATE=FIRST..LAST` runs other seeds than those of every test run,
//! `EDGEDYNO_SIMULATE_MINUTES` another length, `EDGEDYNO_SIMULATE_THREADS` fewer at once than there are
//! processors:
//!
//! ```sh
//! EDGEDYNO_SIMULATE=0..10000 EDGEDYNO_SIMULATE_MINUTES=60 cargo test --release -p edgedyno-tests --test simulator
//! ```

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Once;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use edgedyno::board::link::{Greeted, Link, LinkError};
use edgedyno::board::{Board, ConnectError};
use edgedyno::drive::interrupts::Interrupts;
use edgedyno::drive::{DriveEnd, Driver, LeaseWish, Plan};
use edgedyno::plan::axes::match_key;
use edgedyno::plan::fixed::{Conduct, StaticPlan};
use edgedyno::plan::{Planner, Progress};
use edgedyno::store::rows::RulesRow;
use edgedyno::store::{NewCase, NewRun, Store};
use edgedyno_agent::clock::Clock;
use edgedyno_agent::daemon::owners::Owner;
use edgedyno_agent::daemon::queue::Queued;
use edgedyno_agent::daemon::repeat_folder::{self, RepeatFolder};
use edgedyno_agent::daemon::session::{self, Peer};
use edgedyno_agent::daemon::state::{Daemon, News, Running};
use edgedyno_agent::daemon::{executor, host_clock, recover, serve};
use edgedyno_agent::worker::spawn::SelfExec;
use edgedyno_agent::worker::supervise::Cancel;
use edgedyno_shared::case::{
    Case, Condition, Generator, InputPolicy, InputSource, InputSpec, Io, ModelRef, Scenario,
    Threads,
};
use edgedyno_shared::clocks::ClockMoment;
use edgedyno_shared::columns::TrialSchema;
use edgedyno_shared::folders::AgentFolders;
use edgedyno_shared::ids::{RunId, Sha256, StoreId};
use edgedyno_shared::link::role::Role;
use edgedyno_shared::order::{
    ColdStart, Limits, OrderKey, OutputWish, Preparation, Rules, StopRule, WarmupRule,
};
use edgedyno_shared::repeat::{Outcome, RepeatEnd, Stage};
use edgedyno_shared::telemetry::TelemetryMode;
use edgedyno_shared::units::Nanos;
use edgedyno_shared::wire::event::Event;
use edgedyno_shared::wire::failure::{Failure, FailureCode};
use edgedyno_shared::wire::frame::{self, Frame, kind};
use edgedyno_shared::wire::record::Record;
use edgedyno_shared::wire::request::Request;
use edgedyno_tests::small_disk::SmallDisk;
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, ReadHalf, WriteHalf};
use tokio::sync::watch;
use tokio::task::{AbortHandle, JoinHandle, LocalSet, spawn_local};
use tokio::time::{Instant, sleep, timeout};

/// Seeds and simulated minutes of a test run; in CI, where nobody waits, more.
const SEEDS: Range<u64> = 0..50;
const SEEDS_STRICT: Range<u64> = 0..500;
const MINUTES: u64 = 10;

/// What every host plans: so many cases, and so many repeats of each for every ten minutes that a seed lasts.
const CASES: u32 = 2;
const REPEATS: u32 = 8;

/// A trial takes up to this long, so that the plans of two hosts and what goes wrong fill the time.
const TRIAL: Duration = Duration::from_secs(8);

/// Columns of a trial: role, start, end, status.
const COLUMNS: usize = 4;

/// A plan that takes longer than this once all is calm never ends.
const CALM: Duration = Duration::from_secs(4 * 3600);

/// xorshift64*.
struct Dice(Cell<u64>);

impl Dice {
    fn new(seed: u64) -> Self {
        Self(Cell::new(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1))
    }

    fn roll(&self, sides: u64) -> u64 {
        let mut state = self.0.get();
        state ^= state >> 12;
        state ^= state << 25;
        state ^= state >> 27;
        self.0.set(state);
        (state.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 16) % sides
    }

    fn one_in(&self, sides: u64) -> bool {
        self.roll(sides) == 0
    }

    fn pause(&self, up_to: Duration) -> Duration {
        Duration::from_millis(self.roll(up_to.as_millis().max(1) as u64))
    }
}

/// The simulated clocks of the agent's machine: a steady one, and one that is set now and then.
#[derive(Clone)]
struct SimulatedClock {
    began: Instant,
    wall: Rc<Cell<i64>>,
}

impl Clock for SimulatedClock {
    fn now(&self) -> Nanos {
        Nanos(1_000_000_000 + self.began.elapsed().as_nanos() as i64)
    }

    fn wall_unix_ns(&self) -> i64 {
        self.wall.get() + self.began.elapsed().as_nanos() as i64
    }
}

/// One connection: its copying, and whether what the agent says is held back.
struct Wire {
    copying: AbortHandle,
    is_frozen: Rc<Cell<bool>>,
}

/// One board and the line to it.
struct World {
    dice: Dice,
    /// Repeats of each case that a host plans.
    repeats: u32,
    folder: PathBuf,
    began: Instant,
    daemon: RefCell<Option<Rc<Daemon>>>,
    /// Executor and sessions of the agent that lives.
    tasks: RefCell<Vec<AbortHandle>>,
    is_cut: Cell<bool>,
    /// Every connection.
    lines: RefCell<Vec<Wire>>,
    wall: Rc<Cell<i64>>,
    state: SmallDisk,
    stores: Vec<SmallDisk>,
    /// Stores that had lost the board when the agent that lives was started, with orders left in its queue.
    robbed: RefCell<BTreeSet<StoreId>>,
    /// Which store was seen to own an epoch.
    owners: RefCell<BTreeMap<u64, StoreId>>,
    /// What was measured to its end.
    finished: RefCell<BTreeSet<OrderKey>>,
    faults: RefCell<BTreeMap<&'static str, u64>>,
    /// Acknowledgements that come once more on the next line of their store.
    late: RefCell<BTreeMap<StoreId, u64>>,
    is_calm: Cell<bool>,
}

impl World {
    fn new(seed: u64, minutes: u64, folder: &Path) -> Rc<Self> {
        let dice = Dice::new(seed);
        let hosts = 1 + dice.roll(3);
        let disk = |name: &str, size| SmallDisk::new(&folder.join(name), size);
        Rc::new(Self {
            dice,
            repeats: (REPEATS * minutes as u32).div_ceil(10),
            wall: Rc::new(Cell::new(1_790_000_000_000_000_000)),
            state: disk("state", "1m"),
            stores: (0..hosts)
                .map(|which| disk(&format!("store{which}"), "8m"))
                .collect(),
            robbed: RefCell::default(),
            folder: folder.to_owned(),
            began: Instant::now(),
            daemon: RefCell::default(),
            tasks: RefCell::default(),
            is_cut: Cell::new(false),
            lines: RefCell::default(),
            owners: RefCell::default(),
            finished: RefCell::default(),
            faults: RefCell::default(),
            late: RefCell::default(),
            is_calm: Cell::new(false),
        })
    }

    fn count(&self, fault: &'static str) {
        *self.faults.borrow_mut().entry(fault).or_default() += 1;
    }

    /// Starts the agent from what lies on its disk, if there is room to.
    fn boot(self: &Rc<Self>) -> io::Result<()> {
        let folders = AgentFolders {
            state: self.folder.join("state"),
            runtime: self.folder.join("run"),
            moved: true,
        };
        for folder in [&folders.state, &folders.runtime] {
            std::fs::create_dir_all(folder).unwrap();
        }
        let exec = SelfExec::new(Vec::new()).unwrap();
        let clock = Rc::new(SimulatedClock {
            began: self.began,
            wall: Rc::clone(&self.wall),
        });
        let daemon = Rc::new(serve::assemble(folders, exec, clock)?);
        recover::run(&daemon)?;
        // Only a death between the two steps of a theft leaves such orders behind.
        let queue = daemon.queue.borrow();
        let left = queue.entries().iter();
        let left = left.filter(|queued| !daemon.may_run(queued));
        *self.robbed.borrow_mut() = left.map(|queued| queued.store).collect();
        drop(queue);
        let work = spawn_local(Rc::clone(self).execute(Rc::clone(&daemon)));
        *self.tasks.borrow_mut() = vec![work.abort_handle()];
        *self.daemon.borrow_mut() = Some(daemon);
        Ok(())
    }

    /// Ends the agent where it stands. What it wrote stays.
    fn kill(&self) {
        self.daemon.borrow_mut().take();
        self.tasks
            .borrow_mut()
            .drain(..)
            .for_each(|task| task.abort());
        self.hang_up();
    }

    fn hang_up(&self) {
        let mut lines = self.lines.borrow_mut();
        lines.drain(..).for_each(|wire| wire.copying.abort());
    }

    /// A death of the agent between two of its steps.
    fn dies_here(&self) -> bool {
        let dies = !self.is_calm.get() && self.dice.one_in(60);
        if dies {
            self.count("agent killed between two steps");
            self.kill();
        }
        dies
    }

    fn cut(&self) {
        self.is_cut.set(true);
        self.hang_up();
    }

    /// The agent dies when another store has the board on disk, and the orders of the one before are there
    /// still.
    fn die_in_a_theft(&self) {
        let Some(daemon) = self.daemon.borrow().clone() else {
            return;
        };
        let thief = StoreId([0xee; 16]);
        let moment = daemon.moment();
        let taken = daemon
            .lease
            .borrow_mut()
            .take(thief, "a thief", true, moment);
        if taken.is_ok() {
            self.count("agent killed in the middle of a theft");
        }
        drop(daemon);
        self.kill();
    }

    /// Works the queue off with made-up repeats.
    async fn execute(self: Rc<Self>, daemon: Rc<Daemon>) {
        loop {
            let first = daemon.queue.borrow().first().cloned();
            let Some(queued) = first else {
                daemon.wake.notified().await;
                continue;
            };
            if !daemon.may_run(&queued) {
                let robbed = self.robbed.borrow();
                assert!(
                    robbed.contains(&queued.store),
                    "an order was accepted from a host that had lost the board"
                );
                self.count("order of a robbed host dropped");
                daemon.queue.borrow_mut().remove(queued.number).unwrap();
                continue;
            }
            self.look_at_owner(&daemon, &queued);
            match executor::hand_over(&daemon, &queued) {
                Ok(false) => {}
                Ok(true) => {
                    daemon.tell(queued.store, News::Sealed);
                    continue;
                }
                Err(_) => {
                    self.wait_for_room(&daemon).await;
                    continue;
                }
            }
            if self.repeat(&daemon, &queued).await.is_none() {
                return;
            }
        }
    }

    /// What runs belongs to who holds the board, and no epoch ever had another owner.
    fn look_at_owner(&self, daemon: &Daemon, queued: &Queued) {
        let moment = daemon.moment();
        let state = daemon.lease.borrow_mut().state(queued.store, moment);
        assert!(
            state.is_own || state.holder.is_none(),
            "an order of who lost the board runs"
        );
        if state.is_own {
            let mut owners = self.owners.borrow_mut();
            let owner = *owners.entry(state.epoch).or_insert(queued.store);
            assert_eq!(owner, queued.store, "two owners in epoch {}", state.epoch);
        }
    }

    /// As the agent's own executor does it.
    async fn wait_for_room(&self, daemon: &Daemon) {
        self.count("agent waited for room");
        let full = Failure::new(FailureCode::StorageFull, "no room");
        daemon.tell_queued(&Event::Waiting(full));
        sleep(Duration::from_secs(1)).await;
    }

    /// One repeat from queue to spool; none when the agent dies on the way.
    async fn repeat(&self, daemon: &Rc<Daemon>, queued: &Queued) -> Option<()> {
        let key = queued.order.key.clone();
        let (cancel, _) = watch::channel(Cancel::No);
        *daemon.running.borrow_mut() = Some(Running {
            number: queued.number,
            store: queued.store,
            key: key.clone(),
            stage: Stage::Measure,
            cancel,
        });
        daemon.tell(queued.store, News::Event(Event::Started(key.clone())));
        let header = repeat_folder::header(queued.store, daemon.boot, key.clone());
        let [memory, _] = daemon.repeat_folders();
        let spill = daemon.folders.state.join("spill");
        let Ok(mut folder) = RepeatFolder::create(&memory, &spill, &header) else {
            let _ = std::fs::remove_dir_all(memory.join(key.file_stem()));
            *daemon.running.borrow_mut() = None;
            self.wait_for_room(daemon).await;
            return Some(());
        };
        let before = host_clock::exchange(daemon, queued.store, ClockMoment::Before).await;
        folder.log(&Record::ClockExchange(before)).unwrap();
        let schema = TrialSchema::with(vec![]);
        folder.log(&Record::Schema { lane: 0, schema }).unwrap();
        folder.lane(0).keep_columns(COLUMNS).unwrap();
        if self.dies_here() {
            return None;
        }
        for trial in 0..trials_of(&key) {
            sleep(self.dice.pause(TRIAL)).await;
            let start = 10 + trial as i64 * 10;
            folder
                .lane(0)
                .sealed()
                .unwrap()
                .append(&[3, start, start + 5, 0])
                .unwrap();
            if self.dies_here() {
                return None;
            }
        }
        let after = host_clock::exchange(daemon, queued.store, ClockMoment::After).await;
        folder.log(&Record::ClockExchange(after)).unwrap();
        let end = RepeatEnd {
            outcome: Outcome::Complete,
            wall_unix_ns: 1,
            mono: Nanos(1),
            environment: vec![],
            trials: 0,
            chunks: 0,
        };
        while daemon
            .spool
            .seal(&folder, header.clone(), end.clone())
            .is_err()
        {
            self.wait_for_room(daemon).await;
        }
        self.count("repeat measured to its end");
        let is_first = self.finished.borrow_mut().insert(key.clone());
        assert!(is_first, "{key:?} was finished before, and lost since");
        if self.dies_here() {
            return None;
        }
        daemon.queue.borrow_mut().remove(queued.number).unwrap();
        let now = daemon.clock.now();
        daemon.lease.borrow_mut().repeat_ended(queued.store, now);
        if self.dies_here() {
            return None;
        }
        folder.remove().unwrap();
        *daemon.running.borrow_mut() = None;
        daemon.tell(queued.store, News::Sealed);
        Some(())
    }

    /// Brings faults for as long as it is told to, then calm.
    async fn storm(self: Rc<Self>, hosts: Rc<Hosts>, length: Duration) {
        while self.began.elapsed() < length {
            sleep(self.dice.pause(Duration::from_secs(20))).await;
            match self.dice.roll(16) {
                0..4 => {
                    self.count("line cut");
                    self.cut();
                    let long = if self.dice.one_in(4) { 90 } else { 5 };
                    sleep(self.dice.pause(Duration::from_secs(long))).await;
                    self.is_cut.set(false);
                }
                4..6 => {
                    self.count("agent killed");
                    self.kill();
                }
                6..9 => {
                    self.count("host killed");
                    let which = self.dice.roll(hosts.tasks.borrow().len() as u64) as usize;
                    hosts.restart(&self, which, self.dice.one_in(4));
                }
                9 => {
                    // Asleep, or stopped by hand, while another takes the board: it hears of it late.
                    let frozen = self.freeze();
                    if frozen.is_some() {
                        self.count("host frozen");
                    }
                    if self.stores.len() > 1 {
                        let which = self.dice.roll(hosts.tasks.borrow().len() as u64) as usize;
                        hosts.restart(&self, which, true);
                    }
                    sleep(self.dice.pause(Duration::from_secs(25))).await;
                    if let Some(is_frozen) = frozen {
                        is_frozen.set(false);
                    }
                }
                10 => self.die_in_a_theft(),
                14 => self.order_too_late().await,
                11 => {
                    self.count("wall clock set");
                    let hour = 3_600_000_000_000;
                    let by = self.dice.roll(2 * hour as u64) as i64 - hour;
                    self.wall.set(self.wall.get() + by);
                }
                12 => {
                    self.fill(&self.state, "agent's disk full").await;
                }
                13 => {
                    let which = self.dice.roll(self.stores.len() as u64) as usize;
                    self.fill(&self.stores[which], "host's disk full").await;
                }
                _ => {
                    self.count("line and agent lost");
                    self.cut();
                    self.kill();
                    sleep(self.dice.pause(Duration::from_secs(30))).await;
                    self.is_cut.set(false);
                }
            }
        }
        self.is_calm.set(true);
    }

    /// One takes the board, sleeps while another takes it, and orders on its old line when it wakes up.
    async fn order_too_late(self: &Rc<Self>) {
        let board = SimulatedBoard(Rc::clone(self));
        let take = |name: &str| Request::TakeLease {
            steal: true,
            name: name.into(),
        };
        let Ok(mut sleeper) = board.connect(StoreId([0xdd; 16])).await else {
            return;
        };
        if sleeper.ask(take("a sleeper")).await.is_err() {
            return;
        }
        let Ok(mut other) = board.connect(StoreId([0xcc; 16])).await else {
            return;
        };
        if other.ask(take("one who is awake")).await.is_err() {
            return;
        }
        let mut plan = StaticPlan::new(&RunId("late".into()), cases(), conduct(1));
        let mut progress = Progress::default();
        progress.room = 1;
        match sleeper.ask(Request::Submit(plan.next(&progress))).await {
            Ok(_) => panic!("an order of an old epoch was accepted"),
            Err(LinkError::Refused(why)) => {
                assert_eq!(why.code, FailureCode::LeaseLost);
                self.count("order of an old epoch refused");
            }
            // The line was lost meanwhile.
            Err(_) => {}
        }
        let _ = other.ask(Request::GiveLease).await;
    }

    /// Holds back what the agent says on one connection.
    fn freeze(&self) -> Option<Rc<Cell<bool>>> {
        let mut lines = self.lines.borrow_mut();
        lines.retain(|wire| !wire.copying.is_finished());
        let count = lines.len() as u64;
        let wire = &lines[(count > 0).then(|| self.dice.roll(count) as usize)?];
        wire.is_frozen.set(true);
        Some(Rc::clone(&wire.is_frozen))
    }

    async fn fill(&self, disk: &SmallDisk, fault: &'static str) {
        if disk.fill() {
            self.count(fault);
            sleep(self.dice.pause(Duration::from_secs(60))).await;
        }
        disk.empty();
    }

    /// Starts the agent again some time after each of its deaths.
    async fn keep_alive(self: Rc<Self>) {
        loop {
            let is_dead = self.daemon.borrow().is_none();
            if is_dead {
                sleep(self.dice.pause(Duration::from_secs(10))).await;
                if self.boot().is_err() {
                    self.count("agent not started for want of room");
                }
            }
            sleep(Duration::from_millis(200)).await;
        }
    }
}

/// How many trials a repeat of that key has.
fn trials_of(key: &OrderKey) -> u64 {
    1 + u64::from(key.repeat * 7 + u32::from(key.case.0[0])) % 5
}

/// The board as a host finds it.
struct SimulatedBoard(Rc<World>);

impl Board for SimulatedBoard {
    fn name(&self) -> &str {
        "simulated"
    }

    fn is_remote(&self) -> bool {
        true
    }

    async fn connect(&self, store: StoreId) -> Result<Link, ConnectError> {
        let world = &self.0;
        sleep(Duration::from_millis(1)).await;
        let daemon = world.daemon.borrow().clone();
        let daemon = daemon.filter(|_| !world.is_cut.get());
        let Some(daemon) = daemon else {
            sleep(Duration::from_secs(3)).await;
            return Err(ConnectError::Unreachable {
                address: "10.0.0.1:7447".parse().expect("an address"),
                source: io::ErrorKind::TimedOut.into(),
            });
        };
        let (near, near_end) = tokio::io::duplex(1 << 12);
        let (far, far_end) = tokio::io::duplex(1 << 12);
        let is_frozen = Rc::new(Cell::new(false));
        let piece = world.dice.roll(4000) + 1;
        let twice = Twice {
            world: Rc::clone(world),
            store,
        };
        let line = spawn_local(carry(
            near_end,
            far_end,
            piece,
            Rc::clone(&is_frozen),
            twice,
        ));
        world.lines.borrow_mut().push(Wire {
            copying: line.abort_handle(),
            is_frozen,
        });
        let peer = Peer {
            may_name_paths: false,
            is_local: false,
            owner: Owner::Board,
            role: Role::Admin,
            hello_within: None,
        };
        let (read, write) = tokio::io::split(far);
        let session = spawn_local(session::serve(daemon, read, write, peer));
        world.tasks.borrow_mut().push(session.abort_handle());
        let (read, write) = tokio::io::split(near);
        Ok(Greeted::greet(read, write, store).await?.into_link()?)
    }
}

/// Carries bytes both ways in pieces, so that a cut falls on any of them.
async fn carry(
    near: DuplexStream,
    far: DuplexStream,
    piece: u64,
    is_frozen: Rc<Cell<bool>>,
    twice: Twice,
) {
    let (near_read, near_write) = tokio::io::split(near);
    let (far_read, far_write) = tokio::io::split(far);
    let piece = piece as usize;
    tokio::select! {
        () = to_agent(near_read, far_write, piece, twice) => {}
        () = to_host(far_read, near_write, piece, is_frozen) => {}
    }
}

/// Requests that come twice: at once, as a host sends them that does not trust its line, or an
/// acknowledgement once more on the next line, after the agent has long forgotten what it is of. An order is
/// doubled at once only: one that came again when its repeat was fetched is another wish to measure.
struct Twice {
    world: Rc<World>,
    store: StoreId,
}

impl Twice {
    /// What follows a frame that went to the agent.
    fn after(&self, frame: &[u8]) -> Vec<Vec<u8>> {
        let (dice, mut late) = (&self.world.dice, self.world.late.borrow_mut());
        let (what, payload) = (frame[4], &frame[5..]);
        if what == kind::HELLO
            && let Some(segment) = late.remove(&self.store)
        {
            self.world
                .count("acknowledgement sent again on the next line");
            // Under a number that is nobody's, so that its answer is none to another question.
            let request = (u64::MAX, Request::Acknowledge { segment });
            let frame = Frame::encode(kind::REQUEST, &request).unwrap();
            return vec![frame.to_bytes()];
        }
        if what != kind::REQUEST {
            return Vec::new();
        }
        let (_, request): (u64, Request) = frame::decode(what, payload).unwrap();
        let fault = match request {
            Request::Submit(_) => "order sent twice",
            Request::Acknowledge { segment } => {
                if dice.one_in(8) {
                    late.insert(self.store, segment);
                }
                "acknowledgement sent twice"
            }
            _ => return Vec::new(),
        };
        if !dice.one_in(4) {
            return Vec::new();
        }
        self.world.count(fault);
        vec![frame.to_vec()]
    }
}

/// Bytes that a frame lacks; those of its length first.
fn missing(frame: &[u8]) -> usize {
    match frame.first_chunk() {
        None => 4 - frame.len(),
        Some(length) => 4 + u32::from_le_bytes(*length) as usize - frame.len(),
    }
}

async fn to_agent(
    mut from: ReadHalf<DuplexStream>,
    mut to: WriteHalf<DuplexStream>,
    piece: usize,
    twice: Twice,
) {
    let mut bytes = vec![0; piece];
    let mut frame = Vec::new();
    while let Ok(count @ 1..) = from.read(&mut bytes).await {
        let mut rest = &bytes[..count];
        while !rest.is_empty() {
            let (part, more) = rest.split_at(missing(&frame).min(rest.len()));
            rest = more;
            frame.extend_from_slice(part);
            if to.write_all(part).await.is_err() {
                return;
            }
            if frame.len() <= 4 || missing(&frame) > 0 {
                continue;
            }
            for copy in twice.after(&frame) {
                if to.write_all(&copy).await.is_err() {
                    return;
                }
            }
            frame.clear();
        }
    }
}

async fn to_host(
    mut from: ReadHalf<DuplexStream>,
    mut to: WriteHalf<DuplexStream>,
    piece: usize,
    is_frozen: Rc<Cell<bool>>,
) {
    let mut bytes = vec![0; piece];
    while let Ok(count @ 1..) = from.read(&mut bytes).await {
        while is_frozen.get() {
            sleep(Duration::from_millis(100)).await;
        }
        if to.write_all(&bytes[..count]).await.is_err() {
            return;
        }
    }
}

/// The hosts, each with a store of its own and the same plan.
struct Hosts {
    tasks: RefCell<Vec<JoinHandle<()>>>,
}

impl Hosts {
    fn start(world: &Rc<World>, count: usize) -> Rc<Self> {
        let tasks = (0..count).map(|which| spawn_local(host(Rc::clone(world), which, false)));
        Rc::new(Self {
            tasks: RefCell::new(tasks.collect()),
        })
    }

    /// Ends a host where it waits, and starts it again on the same store.
    fn restart(&self, world: &Rc<World>, which: usize, steal: bool) {
        let mut tasks = self.tasks.borrow_mut();
        tasks[which].abort();
        if steal {
            world.count("board stolen");
        }
        tasks[which] = spawn_local(host(Rc::clone(world), which, steal));
    }

    async fn end(&self) {
        // Nobody restarts them any more.
        let tasks: Vec<_> = self.tasks.borrow_mut().drain(..).collect();
        for task in tasks {
            task.await.unwrap();
        }
    }
}

/// What a person does: starts the plan, and starts it again until it is done.
async fn host(world: Rc<World>, which: usize, steal: bool) {
    let board = SimulatedBoard(Rc::clone(&world));
    let run = RunId(format!("run{which}"));
    let mut steal = steal;
    loop {
        sleep(world.dice.pause(Duration::from_secs(2))).await;
        let Ok(mut store) = Store::open_writing(&store_of(&world, which)) else {
            world.count("plan given up and started again");
            continue;
        };
        let mut planner = StaticPlan::new(&run, cases(), conduct(world.repeats));
        let mut interrupts = Interrupts::none();
        let plan = Plan {
            run: run.clone(),
            planner: &mut planner,
            contents: Vec::new(),
            lease: LeaseWish {
                wait: true,
                steal: std::mem::take(&mut steal),
                name: format!("host {which}"),
            },
        };
        let mut tell = |_| {};
        let driver = Driver::new(&board, &mut store, plan, &mut interrupts, &mut tell);
        match driver.drive().await {
            Ok(DriveEnd::Complete) => return,
            Ok(DriveEnd::Interrupted) => panic!("nobody interrupts"),
            Err(_) => world.count("plan given up and started again"),
        }
    }
}

fn store_of(world: &World, which: usize) -> PathBuf {
    world.stores[which].folder().join("store")
}

/// Writes a host's plan into its store, as the command does before it measures.
fn begin(world: &World, which: usize) {
    let run = &RunId(format!("run{which}"));
    let store = Store::open_writing(&store_of(world, which)).unwrap();
    let plan = StaticPlan::new(run, cases(), conduct(world.repeats));
    let new = NewRun {
        id: run.clone(),
        command: "run".into(),
        argv: Vec::new(),
        plan_json: serde_json::json!({}),
        tags: Vec::new(),
        tool_version: "0".into(),
        created_unix_ns: 1,
    };
    store.begin_run(&new).unwrap();
    let conduct = plan.conduct();
    for (key, case) in plan.cases() {
        let rules = RulesRow::new(
            Some(conduct.repeats),
            &conduct.rules,
            &conduct.limits,
            conduct.cold,
            &conduct.outputs,
        );
        let new = NewCase {
            key: *key,
            match_key: match_key(case),
            case,
            rules,
        };
        store.add_case(run, &new).unwrap();
    }
}

fn cases() -> Vec<Case> {
    let case = |threads: u32| Case {
        board: "simulated".into(),
        model: ModelRef {
            name: "none".into(),
            sha256: Sha256([0; 32]),
        },
        backend: "fake".into(),
        runtime: None,
        options: vec![],
        parameters: vec![],
        shapes: vec![],
        batch: None,
        threads: Threads {
            intra: threads,
            inter: 1,
        },
        cpus: None,
        precision: None,
        scenario: Scenario::Single,
        io: Io::Resident,
        condition: Condition::idle(),
        tenants: Vec::new(),
        inputs: InputSpec {
            source: InputSource::Generated {
                generator: Generator::Normal,
                seed: 1,
            },
            policy: InputPolicy::Fixed,
        },
    };
    (1..=CASES).map(case).collect()
}

fn conduct(repeats: u32) -> Conduct {
    Conduct {
        repeats,
        rules: Rules {
            warmup: WarmupRule {
                min_trials: 0,
                min_time: Nanos(0),
                max_time: Nanos(0),
                until_steady: false,
            },
            measure: StopRule {
                duration: Nanos(0),
                min_trials: 1,
                max_trials: 1,
            },
        },
        limits: Limits {
            load: Nanos::from_secs(1),
            compile: Nanos::from_secs(1),
            trial: Nanos::from_secs(1),
            trial_factor: 50,
            memory: None,
        },
        cold: ColdStart::FreshProcess,
        outputs: OutputWish {
            save: false,
            reference: vec![],
        },
        telemetry: TelemetryMode::Off,
        preparation: Preparation::default(),
        seed: 0,
    }
}

/// Every planned repeat has one complete attempt with all its trials, or two that were lost with their agent
/// and say so, with no more trials than there were; no attempt stands twice.
fn check(world: &World, hosts: usize) {
    for which in 0..hosts {
        let store = Store::open_reading(&store_of(world, which)).unwrap();
        let run = RunId(format!("run{which}"));
        for case in store.cases(&run).unwrap() {
            let mut attempts: BTreeMap<u32, Vec<(String, u64, u64)>> = BTreeMap::new();
            for row in store.repeats(&run, case.key).unwrap() {
                let rows = store.columns(&row, 0).map_or(0, |columns| columns.rows()) as u64;
                let outcome = match &row.failure {
                    Some(failure) => failure.code.clone(),
                    None => "complete".into(),
                };
                let expected = trials_of(&row.key);
                attempts
                    .entry(row.key.repeat)
                    .or_default()
                    .push((outcome, rows, expected));
            }
            assert_eq!(
                attempts.len(),
                world.repeats as usize,
                "a repeat is missing: {attempts:?}"
            );
            for (repeat, all) in &attempts {
                let complete = all.iter().filter(|(outcome, ..)| outcome == "complete");
                let lost = all
                    .iter()
                    .filter(|(outcome, ..)| outcome == "agent_restarted");
                let (complete, lost) = (complete.count(), lost.count());
                assert_eq!(complete + lost, all.len(), "repeat {repeat}: {all:?}");
                assert!(
                    complete == 1 || (complete == 0 && lost == 2),
                    "repeat {repeat}: {all:?}"
                );
                for (outcome, rows, expected) in all {
                    let fits = if outcome == "complete" {
                        rows == expected
                    } else {
                        rows <= expected
                    };
                    assert!(fits, "repeat {repeat}: {all:?}");
                }
            }
        }
    }
    let spool = world.folder.join("state/spool");
    let left: usize = std::fs::read_dir(spool)
        .into_iter()
        .flatten()
        .flatten()
        .flat_map(|store| {
            std::fs::read_dir(store.path())
                .into_iter()
                .flatten()
                .flatten()
        })
        .filter(|file| {
            file.path()
                .extension()
                .is_some_and(|e| e == "seg" || e == "bad")
        })
        .count();
    assert_eq!(left, 0, "something waits that every host has stored");
}

thread_local! {
    /// The first panic of this thread since a seed began. A task that panics ends alone: what runs beside it
    /// goes on, and whoever started it may have let go of it.
    static VIOLATION: RefCell<Option<String>> = const { RefCell::new(None) };
}

/// Keeps panics of tasks for [`simulate`], besides printing them.
fn remember_panics() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let print = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            print(info);
            VIOLATION.with_borrow_mut(|first| {
                first.get_or_insert_with(|| info.to_string());
            });
        }));
    });
}

/// Runs one seed; says which faults it met.
fn simulate(seed: u64, minutes: u64) -> BTreeMap<&'static str, u64> {
    let memory = Path::new("/dev/shm");
    let base = if memory.is_dir() {
        memory.to_owned()
    } else {
        std::env::temp_dir()
    };
    let folder = tempfile::Builder::new()
        .prefix("eds-")
        .tempdir_in(base)
        .unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .start_paused(true)
        .build()
        .unwrap();
    let local = LocalSet::new();
    local.block_on(&runtime, async {
        let world = World::new(seed, minutes, folder.path());
        let count = world.stores.len();
        (0..count).for_each(|which| begin(&world, which));
        world.boot().unwrap();
        let keeper = spawn_local(Rc::clone(&world).keep_alive());
        let hosts = Hosts::start(&world, count);
        let length = Duration::from_secs(60 * minutes);
        Rc::clone(&world).storm(Rc::clone(&hosts), length).await;
        let ended = timeout(CALM, hosts.end()).await;
        assert!(ended.is_ok(), "a plan never ends");
        keeper.abort();
        world.kill();
        check(&world, count);
        let violation = VIOLATION.take();
        assert!(violation.is_none(), "{}", violation.unwrap_or_default());
        world.faults.take()
    })
}

fn seeds() -> Range<u64> {
    let text = std::env::var("EDGEDYNO_SIMULATE").unwrap_or_default();
    let range = text.split_once("..");
    let range = range.and_then(|(from, to)| Some(from.parse().ok()?..to.parse().ok()?));
    let is_strict = std::env::var_os("EDGEDYNO_TEST_STRICT").is_some_and(|strict| strict == "1");
    range.unwrap_or(if is_strict { SEEDS_STRICT } else { SEEDS })
}

/// Runs the seeds of one share; the faults met, or the seed that found something and what.
fn simulate_all(
    seeds: impl Iterator<Item = u64>,
    minutes: u64,
    is_over: &AtomicBool,
) -> Result<BTreeMap<&'static str, u64>, (u64, String)> {
    let mut all: BTreeMap<&'static str, u64> = BTreeMap::new();
    remember_panics();
    for seed in seeds {
        if is_over.load(Ordering::Relaxed) {
            break;
        }
        VIOLATION.take();
        let run = std::panic::AssertUnwindSafe(|| simulate(seed, minutes));
        let faults = std::panic::catch_unwind(run).map_err(|_| {
            is_over.store(true, Ordering::Relaxed);
            // The first of them: what followed it may only follow from it.
            (seed, VIOLATION.take().unwrap_or_default())
        })?;
        for (fault, count) in faults {
            *all.entry(fault).or_default() += count;
        }
    }
    Ok(all)
}

/// As many seeds at once as there are processors, or fewer where a campaign is to leave some.
fn shares() -> usize {
    let asked = std::env::var("EDGEDYNO_SIMULATE_THREADS").ok();
    let asked = asked.and_then(|text| text.parse().ok());
    asked.unwrap_or_else(|| std::thread::available_parallelism().map_or(1, usize::from))
}

#[test]
fn nothing_is_lost_or_doubled_and_no_epoch_has_two_owners() {
    let minutes = std::env::var("EDGEDYNO_SIMULATE_MINUTES").ok();
    let minutes = minutes
        .and_then(|text| text.parse().ok())
        .unwrap_or(MINUTES);
    let range = seeds();
    let shares = shares();
    let is_over = &AtomicBool::new(false);
    let ended = std::thread::scope(|scope| {
        let threads = (0..shares).map(|share| {
            let seeds = range.clone().skip(share).step_by(shares);
            scope.spawn(move || simulate_all(seeds, minutes, is_over))
        });
        let threads: Vec<_> = threads.collect();
        let ended = threads.into_iter().map(|thread| thread.join().unwrap());
        ended.collect::<Vec<_>>()
    });
    let mut all: BTreeMap<&'static str, u64> = BTreeMap::new();
    for share in ended {
        match share {
            Ok(faults) => {
                for (fault, count) in faults {
                    *all.entry(fault).or_default() += count;
                }
            }
            Err((seed, why)) => {
                let again = format!("EDGEDYNO_SIMULATE={seed}..{}", seed + 1);
                panic!("seed {seed}: {why}\n{again} shows it again");
            }
        }
    }
    // The two checks of the lease were put to the test, each by what it is for; and so was what makes that
    // nothing is done twice.
    if range.end - range.start >= SEEDS.end {
        for fault in [
            "order of an old epoch refused",
            "order of a robbed host dropped",
            "order sent twice",
            "acknowledgement sent twice",
            "acknowledgement sent again on the next line",
        ] {
            assert!(all.contains_key(fault), "no seed had: {fault}");
        }
    }
    // A campaign says what it was made of.
    let line = format!(
        "{} seeds of {minutes} minutes: {all:?}\n",
        range.end - range.start
    );
    io::Write::write_all(&mut io::stderr(), line.as_bytes()).unwrap();
}
