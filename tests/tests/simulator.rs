//! The real session, queue, spool, lease and recovery of an agent, and the real driver and store of a host,
//! in one thread on simulated time, with every fault that a seed can think of.
//!
//! Only three things are made up: the clock, the line (bytes pass until it is cut, at any byte), and the
//! worker (a repeat is a pause and a handful of trials). An agent dies at any point between two steps, a host
//! at any point where it waits. `EDGEDYNO_SIMULATE=FIRST..LAST` runs other seeds than those of every test
//! run, `EDGEDYNO_SIMULATE_MINUTES` another length:
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
use std::time::Duration;

use edgedyno::board::link::{Greeted, Link};
use edgedyno::board::{Board, ConnectError};
use edgedyno::drive::interrupts::Interrupts;
use edgedyno::drive::{DriveEnd, Driver, LeaseWish, Plan};
use edgedyno::plan::axes::match_key;
use edgedyno::plan::fixed::{Conduct, StaticPlan};
use edgedyno::store::rows::RulesRow;
use edgedyno::store::{NewCase, NewRun, Store};
use edgedyno_agent::clock::Clock;
use edgedyno_agent::daemon::queue::Queued;
use edgedyno_agent::daemon::repeat_folder::{self, RepeatFolder};
use edgedyno_agent::daemon::session::{self, Peer};
use edgedyno_agent::daemon::state::{Daemon, News, Running};
use edgedyno_agent::daemon::{recover, serve};
use edgedyno_agent::worker::spawn::SelfExec;
use edgedyno_agent::worker::supervise::Cancel;
use edgedyno_shared::case::{
    Case, Condition, Generator, InputPolicy, InputSource, InputSpec, Io, ModelRef, Scenario,
    Threads,
};
use edgedyno_shared::columns::TrialSchema;
use edgedyno_shared::folders::AgentFolders;
use edgedyno_shared::ids::{RunId, Sha256, StoreId};
use edgedyno_shared::link::role::Role;
use edgedyno_shared::order::{
    ColdStart, Limits, OrderKey, OutputWish, Rules, StopRule, WarmupRule,
};
use edgedyno_shared::repeat::{Outcome, RepeatEnd, Stage};
use edgedyno_shared::telemetry::TelemetryMode;
use edgedyno_shared::units::Nanos;
use edgedyno_shared::wire::event::Event;
use edgedyno_shared::wire::record::Record;
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, ReadHalf, WriteHalf};
use tokio::sync::watch;
use tokio::task::{AbortHandle, JoinHandle, LocalSet, spawn_local};
use tokio::time::{Instant, sleep, timeout};

/// Seeds and simulated minutes of a test run; in CI, where nobody waits, more.
const SEEDS: Range<u64> = 0..50;
const SEEDS_STRICT: Range<u64> = 0..500;
const MINUTES: u64 = 10;

/// What every host plans.
const CASES: u32 = 2;
const REPEATS: u32 = 8;

/// A trial takes up to this long, so that the plans fill the time.
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

/// The simulated clock of the agent's machine.
#[derive(Clone, Copy)]
struct SimulatedClock(Instant);

impl Clock for SimulatedClock {
    fn now(&self) -> Nanos {
        Nanos(1_000_000_000 + self.0.elapsed().as_nanos() as i64)
    }
}

/// One board and the line to it.
struct World {
    dice: Dice,
    folder: PathBuf,
    began: Instant,
    daemon: RefCell<Option<Rc<Daemon>>>,
    /// Executor and sessions of the agent that lives.
    tasks: RefCell<Vec<AbortHandle>>,
    is_cut: Cell<bool>,
    /// The copying of every connection.
    lines: RefCell<Vec<AbortHandle>>,
    /// Which store was seen to own an epoch.
    owners: RefCell<BTreeMap<u64, StoreId>>,
    /// What was measured to its end.
    finished: RefCell<BTreeSet<OrderKey>>,
    faults: RefCell<BTreeMap<&'static str, u64>>,
    is_calm: Cell<bool>,
}

impl World {
    fn new(seed: u64, folder: &Path) -> Rc<Self> {
        Rc::new(Self {
            dice: Dice::new(seed),
            folder: folder.to_owned(),
            began: Instant::now(),
            daemon: RefCell::default(),
            tasks: RefCell::default(),
            is_cut: Cell::new(false),
            lines: RefCell::default(),
            owners: RefCell::default(),
            finished: RefCell::default(),
            faults: RefCell::default(),
            is_calm: Cell::new(false),
        })
    }

    fn count(&self, fault: &'static str) {
        *self.faults.borrow_mut().entry(fault).or_default() += 1;
    }

    /// Starts the agent from what lies on its disk.
    fn boot(self: &Rc<Self>) {
        let folders = AgentFolders {
            state: self.folder.join("state"),
            runtime: self.folder.join("run"),
            moved: true,
        };
        for folder in [&folders.state, &folders.runtime] {
            std::fs::create_dir_all(folder).unwrap();
        }
        let exec = SelfExec::new(Vec::new()).unwrap();
        let clock = Rc::new(SimulatedClock(self.began));
        let daemon = Rc::new(serve::assemble(folders, exec, clock).unwrap());
        recover::run(&daemon).unwrap();
        let work = spawn_local(Rc::clone(self).execute(Rc::clone(&daemon)));
        *self.tasks.borrow_mut() = vec![work.abort_handle()];
        *self.daemon.borrow_mut() = Some(daemon);
    }

    /// Ends the agent where it stands. What it wrote stays.
    fn kill(&self) {
        self.daemon.borrow_mut().take();
        self.tasks
            .borrow_mut()
            .drain(..)
            .for_each(|task| task.abort());
        self.lines
            .borrow_mut()
            .drain(..)
            .for_each(|line| line.abort());
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
        self.lines
            .borrow_mut()
            .drain(..)
            .for_each(|line| line.abort());
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
                daemon.queue.borrow_mut().remove(queued.number).unwrap();
                continue;
            }
            self.look_at_owner(&daemon, &queued);
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
        let mut folder = RepeatFolder::create(&memory, &spill, &header).unwrap();
        let schema = TrialSchema::with(vec![]);
        folder.log(&Record::Schema { lane: 0, schema }).unwrap();
        folder.keep_columns(COLUMNS).unwrap();
        if self.dies_here() {
            return None;
        }
        for trial in 0..trials_of(&key) {
            sleep(self.dice.pause(TRIAL)).await;
            let start = 10 + trial as i64 * 10;
            folder
                .sealed()
                .unwrap()
                .append(&[3, start, start + 5, 0])
                .unwrap();
            if self.dies_here() {
                return None;
            }
        }
        let end = RepeatEnd {
            outcome: Outcome::Complete,
            wall_unix_ns: 1,
            mono: Nanos(1),
            environment: vec![],
            trials: 0,
            chunks: 0,
        };
        daemon.spool.seal(&folder, header, end).unwrap();
        let is_first = self.finished.borrow_mut().insert(key.clone());
        assert!(is_first, "{key:?} was finished before, and lost since");
        if self.dies_here() {
            return None;
        }
        daemon.queue.borrow_mut().remove(queued.number).unwrap();
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
            match self.dice.roll(10) {
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

    /// Starts the agent again some time after each of its deaths.
    async fn keep_alive(self: Rc<Self>) {
        loop {
            let is_dead = self.daemon.borrow().is_none();
            if is_dead {
                sleep(self.dice.pause(Duration::from_secs(10))).await;
                self.boot();
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
        let line = spawn_local(carry(near_end, far_end, world.dice.roll(4000) + 1));
        world.lines.borrow_mut().push(line.abort_handle());
        let peer = Peer {
            may_name_paths: false,
            is_local: false,
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
async fn carry(near: DuplexStream, far: DuplexStream, piece: u64) {
    let (near_read, near_write) = tokio::io::split(near);
    let (far_read, far_write) = tokio::io::split(far);
    let piece = piece as usize;
    tokio::select! {
        () = one_way(near_read, far_write, piece) => {}
        () = one_way(far_read, near_write, piece) => {}
    }
}

async fn one_way(mut from: ReadHalf<DuplexStream>, mut to: WriteHalf<DuplexStream>, piece: usize) {
    let mut bytes = vec![0; piece];
    while let Ok(count @ 1..) = from.read(&mut bytes).await {
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
        let mut store = Store::open_writing(&world.folder.join(format!("store{which}"))).unwrap();
        let mut planner = StaticPlan::new(&run, cases(), conduct());
        begin(&store, &planner, &run);
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

fn begin(store: &Store, plan: &StaticPlan, run: &RunId) {
    if store.run(run).is_ok() {
        return;
    }
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

fn conduct() -> Conduct {
    Conduct {
        repeats: REPEATS,
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
        seed: 0,
    }
}

/// Every planned repeat has one complete attempt with all its trials, or two that were lost with their agent
/// and say so, with no more trials than there were; no attempt stands twice.
fn check(world: &World, hosts: usize) {
    for which in 0..hosts {
        let store = Store::open_reading(&world.folder.join(format!("store{which}"))).unwrap();
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
                REPEATS as usize,
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
        let world = World::new(seed, folder.path());
        let count = 1 + world.dice.roll(3) as usize;
        world.boot();
        let keeper = spawn_local(Rc::clone(&world).keep_alive());
        let hosts = Hosts::start(&world, count);
        let length = Duration::from_secs(60 * minutes);
        Rc::clone(&world).storm(Rc::clone(&hosts), length).await;
        let ended = timeout(CALM, hosts.end()).await;
        assert!(ended.is_ok(), "a plan never ends");
        keeper.abort();
        world.kill();
        check(&world, count);
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
) -> Result<BTreeMap<&'static str, u64>, (u64, String)> {
    let mut all: BTreeMap<&'static str, u64> = BTreeMap::new();
    for seed in seeds {
        let run = std::panic::AssertUnwindSafe(|| simulate(seed, minutes));
        let faults = std::panic::catch_unwind(run).map_err(|why| {
            let text = why.downcast_ref::<String>().cloned();
            let plain = why.downcast_ref::<&str>().map(|text| (*text).to_owned());
            (seed, text.or(plain).unwrap_or_default())
        })?;
        for (fault, count) in faults {
            *all.entry(fault).or_default() += count;
        }
    }
    Ok(all)
}

#[test]
fn nothing_is_lost_or_doubled_and_no_epoch_has_two_owners() {
    let minutes = std::env::var("EDGEDYNO_SIMULATE_MINUTES").ok();
    let minutes = minutes
        .and_then(|text| text.parse().ok())
        .unwrap_or(MINUTES);
    let range = seeds();
    let shares = std::thread::available_parallelism().map_or(1, usize::from);
    let threads = (0..shares).map(|share| {
        let seeds = range.clone().skip(share).step_by(shares);
        std::thread::spawn(move || simulate_all(seeds, minutes))
    });
    let threads: Vec<_> = threads.collect();
    let mut all: BTreeMap<&'static str, u64> = BTreeMap::new();
    for thread in threads {
        match thread.join().unwrap() {
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
    // A campaign says what it was made of.
    let line = format!(
        "{} seeds of {minutes} minutes: {all:?}\n",
        range.end - range.start
    );
    io::Write::write_all(&mut io::stderr(), line.as_bytes()).unwrap();
}
