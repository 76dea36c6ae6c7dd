//! Runs the queue in order, one repeat at a time, and seals each into the spool.

use std::io;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use edgedyno_shared::clocks::ClockMoment;
use edgedyno_shared::device::Fact;
use edgedyno_shared::ids::BuildId;
use edgedyno_shared::repeat::{Outcome, RepeatStart, Stage, TextEvent};
use edgedyno_shared::telemetry::TelemetryMode;
use edgedyno_shared::units::Bytes;
use edgedyno_shared::wire::event::{Event, Progress};
use edgedyno_shared::wire::failure::{Failure, FailureCode};
use edgedyno_shared::wire::frame::{Frame, kind};
use edgedyno_shared::wire::record::{Record, SegmentHeader};
use nix::sys::statfs::{TMPFS_MAGIC, statfs};
use tokio::process::Command;
use tokio::sync::watch;
use tokio::time::sleep;

use super::clocks::Hold;
use super::measure_lock::MeasureLock;
use super::queue::Queued;
use super::repeat_folder::{self, RepeatFolder};
use super::state::{Daemon, News, Running};
use super::{around, cool_down, host_clock, prepare, recover};
use crate::clock::{self, Clock, Monotonic};
use crate::sampler::{Plan, Sampling};
use crate::worker::job::Job;
use crate::worker::message::Task;
use crate::worker::placement;
use crate::worker::supervise::{self, Cancel, Started, Surroundings};

/// Between two tries of something that the board must first make possible.
const RETRY: Duration = Duration::from_secs(1);

/// Works the queue off until the daemon retires, or another program is to go on with it.
pub async fn run(daemon: Rc<Daemon>) {
    loop {
        if daemon.retiring.get() || daemon.give_way() {
            return;
        }
        let first = daemon.queue.borrow().first().cloned();
        let Some(queued) = first else {
            daemon.wake.notified().await;
            continue;
        };
        if !daemon.may_run(&queued) {
            tracing::warn!("an order of a store that lost the board is dropped");
            let removed = daemon.queue.borrow_mut().remove(queued.number);
            if let Err(why) = removed {
                tracing::warn!("it cannot be removed: {why}");
                sleep(RETRY).await;
            }
            continue;
        }
        let Some(_lock) = room_and_right(&daemon).await else {
            continue;
        };
        let alone = daemon.vendor_code.lock().await;
        if !still_stands(&daemon, &queued) {
            continue;
        }
        match hand_over(&daemon, &queued) {
            Ok(true) => daemon.tell(queued.store, News::Sealed),
            Ok(false) => one(&daemon, queued).await,
            Err(why) => {
                drop(alone);
                wait_for_room(&daemon, &why).await;
            }
        }
    }
}

/// Whether an order is still to be run: while it waited it may have been taken off, or the board have changed
/// hands.
fn still_stands(daemon: &Daemon, queued: &Queued) -> bool {
    let queue = daemon.queue.borrow();
    let is_first = queue
        .first()
        .is_some_and(|first| first.number == queued.number);
    is_first && daemon.may_run(queued) && !daemon.retiring.get()
}

/// Says what is in the way, and gives it time to pass.
async fn wait(daemon: &Daemon, why: Failure) {
    // Everybody whose order stands in this queue waits, not only whose order is first.
    daemon.tell_queued(&Event::Waiting(why));
    sleep(RETRY).await;
}

fn no_room(text: String) -> Failure {
    Failure::new(FailureCode::StorageFull, text)
        .hint("free room in the agent's runtime and state folders; it goes on by itself then")
}

async fn wait_for_room(daemon: &Daemon, why: &io::Error) {
    tracing::warn!("a repeat waits: {why}");
    let text = format!("the board has no room for a repeat: {why}");
    wait(daemon, no_room(text)).await;
}

/// Waits for room in the spool and for the right to measure; `None` when the queue changed meanwhile.
async fn room_and_right(daemon: &Daemon) -> Option<MeasureLock> {
    let obstacle = match daemon.spool.load() {
        Ok((bytes, _)) if bytes <= daemon.spool.quota => match take_right(daemon) {
            Ok(Some(lock)) => return Some(lock),
            Ok(None) => {
                let text = "another agent or user measures on this board";
                Failure::new(FailureCode::Busy, text)
            }
            Err(why) => {
                let text = format!("the right to measure cannot be taken: {why}");
                Failure::new(FailureCode::Internal, text)
            }
        },
        Ok((bytes, _)) => {
            let text = format!("{} of results wait for their host", Bytes(bytes));
            Failure::new(FailureCode::Backpressured, text).hint(
                "go on with the runs that wait there; results of a store that is lost are shown by \
                 `edgedyno board info`, and dropped with --drop-results",
            )
        }
        Err(why) => no_room(format!("the spool cannot be read: {why}")),
    };
    wait(daemon, obstacle).await;
    None
}

fn take_right(daemon: &Daemon) -> io::Result<Option<MeasureLock>> {
    if daemon.folders.moved {
        Ok(Some(MeasureLock::independent()))
    } else {
        MeasureLock::take()
    }
}

/// One repeat from queue to spool.
async fn one(daemon: &Daemon, queued: Queued) {
    let (cancel, cancelled) = watch::channel(Cancel::No);
    let key = queued.order.key.clone();
    *daemon.running.borrow_mut() = Some(Running {
        number: queued.number,
        store: queued.store,
        key: key.clone(),
        stage: Stage::Spawn,
        cancel,
    });
    // To all who wait: another's repeat has begun, and theirs has not.
    daemon.tell_queued(&Event::Started(key.clone()));
    let header = repeat_folder::header(queued.store, daemon.boot, key);
    let sealed = match folder_for(daemon, &header) {
        Ok((mut folder, on_disk)) => {
            let outcome = measure(daemon, &queued, &mut folder, on_disk, cancelled).await;
            seal(daemon, &queued, folder, header, outcome).await;
            true
        }
        Err(why) => {
            wait_for_room(daemon, &why).await;
            false
        }
    };
    *daemon.running.borrow_mut() = None;
    if sealed {
        daemon.tell(queued.store, News::Sealed);
    }
}

/// Hands over an attempt under the same key that an earlier daemon left and could not hand over then.
///
/// # Errors
/// When it still cannot be: the order waits, since running it would throw the attempt away.
pub fn hand_over(daemon: &Daemon, queued: &Queued) -> io::Result<bool> {
    let stem = queued.order.key.file_stem();
    for base in daemon.repeat_folders() {
        let path = base.join(&stem);
        if path.join("log").exists() {
            recover::one(daemon, &path)?;
            return Ok(true);
        }
    }
    Ok(false)
}

/// A folder on tmpfs, else on disk, which is said.
fn folder_for(daemon: &Daemon, header: &SegmentHeader) -> io::Result<(RepeatFolder, bool)> {
    let stem = header.key.file_stem();
    let spill = daemon.folders.state.join("spill");
    let [memory, disk] = daemon.repeat_folders();
    match RepeatFolder::create(&memory, &spill, header) {
        Ok(folder) => Ok((folder, !is_tmpfs(&memory))),
        Err(why) => {
            tracing::warn!("no arena in {}: {why}", memory.display());
            clear_begun(&memory.join(&stem), &why);
            let on_disk = RepeatFolder::create(&disk, &spill, header);
            Ok((
                on_disk.inspect_err(|why| clear_begun(&disk.join(&stem), why))?,
                true,
            ))
        }
    }
}

/// Removes what a folder that could not be made had already: half of one would pass for a left-over.
fn clear_begun(path: &Path, why: &io::Error) {
    if why.kind() != io::ErrorKind::AlreadyExists {
        let _ = std::fs::remove_dir_all(path);
    }
}

fn is_tmpfs(path: &Path) -> bool {
    statfs(path).is_ok_and(|fs| fs.filesystem_type() == TMPFS_MAGIC)
}

/// The repeat itself; every error becomes its outcome.
async fn measure(
    daemon: &Daemon,
    queued: &Queued,
    folder: &mut RepeatFolder,
    on_disk: bool,
    cancel: watch::Receiver<Cancel>,
) -> Outcome {
    let at_spawn = |failure| Outcome::Failed {
        stage: Stage::Spawn,
        failure,
    };
    let (worker_cpus, agent_cpus) = prepare::share_cpus(&daemon.allowed_cpus, &queued.order);
    // A daemon that cannot move away is a finding of the repeat, by its empty list.
    let own = if agent_cpus.is_empty() {
        &daemon.allowed_cpus
    } else {
        &agent_cpus
    };
    let moved = placement::bind_all(own).is_ok();
    let job = prepare::job(daemon, &queued.order, worker_cpus);
    let (job, tenants) =
        match job.and_then(|job| Ok((job, prepare::tenants(daemon, &queued.order)?))) {
            Ok(jobs) => jobs,
            Err(failure) => return at_spawn(failure),
        };
    // Whoever looks on sees the repeat from here on: no second watch cools down, idles or runs beside it.
    daemon.live.yield_board().await;
    let cooled = cool_down::wait(daemon, queued, &cancel).await;
    // The idle board is watched under the clocks that its worker will have.
    let clocks = daemon.kernel.clocks();
    let held = hold_clocks(daemon, queued);
    let idle = around::before(daemon, queued, &cancel).await;
    if *cancel.borrow() == Cancel::Kill {
        daemon.release_clocks();
        let stage = Stage::Spawn;
        return Outcome::Cancelled { stage };
    }
    let begun = first_words(daemon, folder, on_disk, &job, clocks)
        .and_then(|()| cooled.map_or(Ok(()), |event| folder.log(&Record::Event(event))))
        .and_then(|()| held?.iter().try_for_each(|record| folder.log(record)));
    let asked = match begun {
        Ok(()) => look_at_clocks(daemon, queued, folder, ClockMoment::Before).await,
        Err(why) => Err(why),
    };
    let started = match asked.and_then(|()| start(daemon, folder)) {
        Ok(started) => started,
        Err(why) => {
            daemon.release_clocks();
            let detail = format!("the worker cannot be started: {why}");
            return at_spawn(Failure::new(FailureCode::SpawnFailed, detail));
        }
    };
    // On a disk, writing would disturb what is measured.
    let kept = (!on_disk).then(|| folder.path().to_owned());
    let sampling = watch_board(daemon, queued, started.child.id(), kept);
    let cancelled = cancel.clone();
    let mut on_progress = |progress: Progress| tell_progress(daemon, queued, progress);
    let mut around = Surroundings {
        kernel: &daemon.kernel,
        exec: &daemon.exec,
        scratch: &daemon.folders.state,
        folder,
        tenants,
        artifact_quota: daemon.spool.quota,
        agent_cpus: if moved { agent_cpus } else { Vec::new() },
        cancel,
        on_progress: &mut on_progress,
        on_window_end: &|| {
            if let Some(sampling) = &sampling {
                sampling.window_ends();
            }
        },
    };
    let task = Task::Measure(Box::new(job));
    daemon
        .live
        .begin_repeat(sampling.as_ref().map(Sampling::latest));
    let outcome = supervise::supervise(started, task, &queued.order, &mut around).await;
    if sampling.is_some() {
        around::after(daemon, queued, &cancelled).await;
    }
    daemon.live.end_repeat();
    // To its last read the board is watched under the clocks of the repeat.
    let seen = match sampling {
        Some(sampling) => Some(sampling.finish().await),
        None => None,
    };
    daemon.release_clocks();
    if let Some(seen) = seen {
        let records = around::join(idle, seen);
        if let Err(why) = records.iter().try_for_each(|record| folder.log(record)) {
            // What was measured is whole without it; a missing channel is seen by its absence.
            tracing::warn!("telemetry of a repeat cannot be kept: {why}");
        }
    }
    // What was measured stands without it.
    if let Err(why) = look_at_clocks(daemon, queued, folder, ClockMoment::After).await {
        tracing::warn!("how the clocks stand cannot be written down: {why}");
    }
    outcome
}

/// The board's clocks, and how the host's stands to them.
async fn look_at_clocks(
    daemon: &Daemon,
    queued: &Queued,
    folder: &mut RepeatFolder,
    moment: ClockMoment,
) -> io::Result<()> {
    let exchange = host_clock::exchange(daemon, queued.store, moment).await;
    folder.log(&Record::ClockExchange(exchange))?;
    folder.log(&Record::ClockReading(clock::read_all()))
}

/// Holds clocks where that is asked for; what stands there then is read back, to be logged.
fn hold_clocks(daemon: &Daemon, queued: &Queued) -> io::Result<Vec<Record>> {
    if !queued.order.preparation.fix_clocks {
        return Ok(Vec::new());
    }
    let helper = daemon.helper.as_ref();
    let (held, effective) = Hold::set(helper, &daemon.root, &daemon.clock_journal())?;
    *daemon.held.borrow_mut() = Some(held);
    if effective.is_empty() {
        let text = "this board shows no clock that can be held";
        return Ok(vec![Record::Event(TextEvent {
            lane: 0,
            trial: None,
            code: "no_clock_to_hold".into(),
            text: text.into(),
        })]);
    }
    Ok(effective.into_iter().map(Record::Effective).collect())
}

/// Starts to watch the board, where that is asked for and a thread can be made.
fn watch_board(
    daemon: &Daemon,
    queued: &Queued,
    worker: Option<u32>,
    kept: Option<PathBuf>,
) -> Option<Sampling> {
    let mode = queued.order.telemetry;
    if mode == TelemetryMode::Off {
        return None;
    }
    let plan = Plan {
        mode,
        files: Arc::clone(&daemon.files),
        worker,
        exec: Some(daemon.exec.clone()),
        extra: Vec::new(),
    };
    let started = Sampling::start(plan, kept);
    started
        .inspect_err(|why| tracing::warn!("the board is not watched: {why}"))
        .ok()
}

/// What is known before the worker starts; of the clocks, what was known before they were held, as at the end
/// what is known when they were let go.
fn first_words(
    daemon: &Daemon,
    folder: &mut RepeatFolder,
    on_disk: bool,
    job: &Job,
    clocks: Vec<Fact>,
) -> io::Result<()> {
    let mut environment = daemon.environment();
    for fact in clocks {
        if let Some(now) = environment.iter_mut().find(|now| now.name == fact.name) {
            *now = fact;
        }
    }
    folder.log(&Record::Start(RepeatStart {
        build: BuildId(crate::BUILD_ID.into()),
        wall_unix_ns: clock::wall_unix_ns(),
        mono: Monotonic.now(),
        environment,
    }))?;
    if on_disk {
        let text = format!("{} is not on tmpfs", folder.path().display());
        let code = "arena_on_disk".into();
        folder.log(&Record::Event(TextEvent {
            lane: 0,
            trial: None,
            code,
            text,
        }))?;
    }
    prepare::cold_pages(job)
        .into_iter()
        .try_for_each(|effective| folder.log(&Record::Effective(effective)))
}

fn start(daemon: &Daemon, folder: &RepeatFolder) -> io::Result<Started> {
    let (command, control) = daemon.exec.worker(Some(folder.lane(0).arena()?))?;
    control.set_nonblocking(true)?;
    let begun = Monotonic.now();
    let child = Command::from(command).kill_on_drop(true).spawn()?;
    Ok(Started {
        begun,
        child,
        control,
    })
}

/// Sends progress to whoever listens; returns the bytes that each of them gets.
fn tell_progress(daemon: &Daemon, queued: &Queued, progress: Progress) -> u64 {
    if let Some(running) = daemon.running.borrow_mut().as_mut() {
        running.stage = progress.stage;
    }
    if daemon.news.receiver_count() == 0 {
        return 0;
    }
    let event = Event::Progress(progress);
    let bytes = Frame::encode(kind::EVENT, &event).map_or(0, |frame| frame.to_bytes().len());
    daemon.tell(queued.store, News::Event(event));
    bytes as u64
}

/// Puts a finished repeat into the spool, however long it takes until there is room.
async fn seal(
    daemon: &Daemon,
    queued: &Queued,
    folder: RepeatFolder,
    header: SegmentHeader,
    outcome: Outcome,
) {
    let end = daemon.end_of(outcome);
    let folder = Arc::new(folder);
    loop {
        let (spool, folder) = (daemon.spool.clone(), Arc::clone(&folder));
        let (header, end) = (header.clone(), end.clone());
        // Coding and fsync take longer than a session may wait: they have a thread.
        let work = move || spool.seal(&folder, header, end);
        let result = tokio::task::spawn_blocking(work)
            .await
            .map_err(io::Error::other);
        let Err(why) = result.and_then(|number| number) else {
            break;
        };
        tracing::warn!("a finished repeat cannot be written to the spool: {why}");
        let text = format!("a finished repeat cannot be written on the board: {why}");
        wait(daemon, no_room(text)).await;
    }
    // Taken out of queue and tmpfs; what cannot be removed is recognised at the next start.
    if let Err(why) = daemon.queue.borrow_mut().remove(queued.number) {
        tracing::warn!("a finished order cannot be removed: {why}");
    }
    let now = daemon.clock.now();
    daemon.lease.borrow_mut().repeat_ended(queued.store, now);
    if let Some(Err(why)) = Arc::into_inner(folder).map(RepeatFolder::remove) {
        tracing::warn!("a finished repeat's folder cannot be removed: {why}");
    }
}

#[cfg(test)]
mod tests {
    use edgedyno_shared::ids::StoreId;
    use tokio::task::spawn_local;

    use super::super::testing::{block_on, daemon};
    use super::*;
    use crate::inputs::testing;

    const STORE: StoreId = StoreId([7; 16]);
    const THIEF: StoreId = StoreId([8; 16]);

    /// Whether an order is begun that `change` came between while the executor waited for its turn.
    fn is_begun_after(change: fn(&Daemon)) -> bool {
        let folder = tempfile::tempdir().unwrap();
        let daemon = daemon(folder.path());
        let order = testing::job().order;
        daemon.queue.borrow_mut().push(STORE, order).unwrap();
        block_on(async {
            let another = daemon.vendor_code.lock().await;
            let executor = spawn_local(run(Rc::clone(&daemon)));
            sleep(Duration::from_millis(20)).await;
            let queued = daemon.queue.borrow().first().cloned().unwrap();
            assert!(still_stands(&daemon, &queued));
            change(&daemon);
            assert!(!still_stands(&daemon, &queued));
            drop(another);
            let mut is_begun = false;
            for _ in 0..50 {
                sleep(Duration::from_millis(2)).await;
                let runs = daemon.running.borrow().is_some();
                is_begun |= runs || !daemon.spool.numbers(STORE).unwrap().is_empty();
            }
            executor.abort();
            is_begun
        })
    }

    #[test]
    fn an_order_that_goes_while_it_waits_for_its_turn_is_not_run() {
        assert!(!is_begun_after(|daemon| {
            let mut queue = daemon.queue.borrow_mut();
            queue.remove_store(STORE, None).unwrap();
        }));
        assert!(!is_begun_after(|daemon| {
            let moment = daemon.moment();
            let mut lease = daemon.lease.borrow_mut();
            lease.take(THIEF, "a thief", true, moment).unwrap();
        }));
        assert!(!is_begun_after(|daemon| daemon.retiring.set(true)));
    }
}
