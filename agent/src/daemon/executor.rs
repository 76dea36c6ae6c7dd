//! Runs the queue in order, one repeat at a time, and seals each into the spool.

use std::io;
use std::path::PathBuf;
use std::rc::Rc;
use std::time::Duration;

use edgedyno_shared::ids::BuildId;
use edgedyno_shared::ids::Sha256;
use edgedyno_shared::order::RepeatOrder;
use edgedyno_shared::repeat::{Outcome, RepeatEnd, RepeatStart, Stage};
use edgedyno_shared::units::Nanos;
use edgedyno_shared::wire::event::{Event, Progress};
use edgedyno_shared::wire::failure::{Failure, FailureCode};
use edgedyno_shared::wire::frame::{Frame, kind};
use edgedyno_shared::wire::record::{Record, SegmentHeader};
use tokio::process::Command;
use tokio::sync::watch;
use tokio::time::sleep;

use super::measure_lock::MeasureLock;
use super::queue::Queued;
use super::repeat_folder::{self, RepeatFolder};
use super::spool;
use super::state::{Daemon, News, Running};
use crate::clock::{self, Clock, Monotonic};
use crate::worker::entry::{drop_pages, wants_cold_pages};
use crate::worker::job::Job;
use crate::worker::message::Task;
use crate::worker::placement;
use crate::worker::supervise::{self, Cancel, Started, Surroundings};

/// Between two tries of something that the board must first make possible.
const RETRY: Duration = Duration::from_secs(1);

/// Works the queue off until the daemon retires.
pub async fn run(daemon: Rc<Daemon>) {
    loop {
        if daemon.retiring.get() {
            return;
        }
        let first = daemon.queue.borrow().first().cloned();
        let Some(queued) = first else {
            daemon.wake.notified().await;
            continue;
        };
        let Some(_lock) = room_and_right(&daemon, &queued).await else {
            continue;
        };
        one(&daemon, queued).await;
    }
}

/// Waits for room in the spool and for the right to measure; `None` when the queue changed meanwhile.
async fn room_and_right(daemon: &Daemon, queued: &Queued) -> Option<MeasureLock> {
    let obstacle = match daemon.spool.load() {
        Ok((bytes, _)) if bytes <= spool::QUOTA => match take_right(daemon) {
            Ok(Some(lock)) => return Some(lock),
            Ok(None) => "another agent or user measures on this board".to_owned(),
            Err(why) => format!("the right to measure cannot be taken: {why}"),
        },
        Ok((bytes, _)) => format!("{bytes} bytes of results wait for their host"),
        Err(why) => format!("the spool cannot be read: {why}"),
    };
    daemon.tell(queued.store, News::Event(Event::Waiting(obstacle)));
    sleep(RETRY).await;
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
    daemon.tell(queued.store, News::Event(Event::Started(key.clone())));
    let header = repeat_folder::header(queued.store, daemon.boot, key);
    let spill = daemon.folders.state.join("spill");
    let sealed = match RepeatFolder::create(&daemon.folders.runtime, &spill, &header) {
        Ok(mut folder) => {
            let outcome = measure(daemon, &queued, &mut folder, cancelled).await;
            seal(daemon, &queued, folder, header, outcome).await
        }
        Err(why) => no_folder(daemon, &queued, header, &why).await,
    };
    *daemon.running.borrow_mut() = None;
    if sealed {
        daemon.tell(queued.store, News::Sealed);
    }
}

/// The repeat itself; every error becomes its outcome.
async fn measure(
    daemon: &Daemon,
    queued: &Queued,
    folder: &mut RepeatFolder,
    cancel: watch::Receiver<Cancel>,
) -> Outcome {
    let order = &queued.order;
    let (worker_cpus, agent_cpus) = share_cpus(&daemon.allowed_cpus, order);
    // A daemon that cannot move away is a finding of the repeat, by its empty list.
    let own = if agent_cpus.is_empty() {
        &daemon.allowed_cpus
    } else {
        &agent_cpus
    };
    let agent_cpus = if placement::bind_all(own).is_ok() {
        agent_cpus
    } else {
        Vec::new()
    };
    let job = match job(daemon, order, worker_cpus) {
        Ok(job) => job,
        Err(failure) => {
            return Outcome::Failed {
                stage: Stage::Spawn,
                failure,
            };
        }
    };
    let result = start_and_supervise(daemon, queued, job, folder, agent_cpus, cancel).await;
    result.unwrap_or_else(|why| {
        let failure = Failure::new(
            FailureCode::Internal,
            format!("the agent could not go on: {why}"),
        );
        Outcome::Failed {
            stage: Stage::Spawn,
            failure,
        }
    })
}

async fn start_and_supervise(
    daemon: &Daemon,
    queued: &Queued,
    job: Job,
    folder: &mut RepeatFolder,
    agent_cpus: Vec<u16>,
    cancel: watch::Receiver<Cancel>,
) -> io::Result<Outcome> {
    folder.log(&Record::Start(RepeatStart {
        build: BuildId(crate::BUILD_ID.into()),
        wall_unix_ns: clock::wall_unix_ns(),
        mono: Monotonic.now(),
        environment: daemon.kernel.environment(),
    }))?;
    if wants_cold_pages(&job) {
        for path in job.model.iter().chain(&job.library) {
            drop_pages(path)?;
        }
    }
    let (command, control) = daemon.exec.worker(Some(folder.arena()?))?;
    control.set_nonblocking(true)?;
    let child = match Command::from(command).spawn() {
        Ok(child) => child,
        Err(why) => {
            let detail = format!("the worker cannot be started: {why}");
            let failure = Failure::new(FailureCode::SpawnFailed, detail);
            return Ok(Outcome::Failed {
                stage: Stage::Spawn,
                failure,
            });
        }
    };
    let mut on_progress = |progress: Progress| tell_progress(daemon, queued, progress);
    let mut around = Surroundings {
        kernel: &daemon.kernel,
        folder,
        agent_cpus,
        cancel,
        on_progress: &mut on_progress,
    };
    let task = Task::Measure(Box::new(job));
    supervise::supervise(Started { child, control }, task, &queued.order, &mut around).await
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

/// Divides the CPUs: the worker gets those asked for, else as many as it has threads, from the end,
/// where big cores usually are; the daemon gets the others, or none.
pub fn share_cpus(allowed: &[u16], order: &RepeatOrder) -> (Vec<u16>, Vec<u16>) {
    let threads = order
        .case
        .threads
        .intra
        .max(order.case.threads.inter)
        .max(1) as usize;
    let worker = match &order.case.cpus {
        Some(cpus) => cpus.clone(),
        None => allowed[allowed.len().saturating_sub(threads)..].to_vec(),
    };
    let agent = allowed
        .iter()
        .copied()
        .filter(|cpu| !worker.contains(cpu))
        .collect();
    (worker, agent)
}

/// Finds everything an order names on this machine.
fn job(daemon: &Daemon, order: &RepeatOrder, cpus: Vec<u16>) -> Result<Job, Failure> {
    let case = &order.case;
    let contents = daemon.contents.borrow();
    let backend = crate::backend::find(&case.backend).ok_or_else(|| {
        let detail = format!("this agent has no backend `{}`", case.backend);
        Failure::new(FailureCode::Unsupported, detail)
    })?;
    let reads_model = !backend.formats().is_empty();
    let model = reads_model
        .then(|| contents.find(&case.model.sha256))
        .transpose()?;
    let library = match &case.runtime {
        None => None,
        Some(runtime) => Some(
            daemon
                .runtimes
                .borrow()
                .path(&runtime.sha256)
                .map_or_else(|| contents.find(&runtime.sha256), Ok)?,
        ),
    };
    let files = files_of(order)
        .into_iter()
        .map(|sha256| Ok((sha256, contents.find(&sha256)?)))
        .collect::<Result<Vec<(Sha256, PathBuf)>, Failure>>()?;
    Ok(Job {
        order: order.clone(),
        model,
        library,
        files,
        cpus,
    })
}

/// Hashes of inputs and references.
fn files_of(order: &RepeatOrder) -> Vec<Sha256> {
    let inputs = match &order.case.inputs.source {
        edgedyno_shared::case::InputSource::Files { sets } => sets.concat(),
        edgedyno_shared::case::InputSource::Generated { .. } => Vec::new(),
    };
    inputs
        .iter()
        .chain(&order.outputs.reference)
        .map(|file| file.sha256)
        .collect()
}

pub(super) fn end_of(daemon: &Daemon, outcome: Outcome) -> RepeatEnd {
    RepeatEnd {
        outcome,
        wall_unix_ns: clock::wall_unix_ns(),
        mono: Monotonic.now(),
        environment: daemon.kernel.environment(),
        trials: 0,
        chunks: 0,
    }
}

/// Puts a finished repeat into the spool, however long it takes until there is room.
async fn seal(
    daemon: &Daemon,
    queued: &Queued,
    folder: RepeatFolder,
    header: SegmentHeader,
    outcome: Outcome,
) -> bool {
    let end = end_of(daemon, outcome);
    let mut folder = folder;
    loop {
        let (spool, header, end) = (daemon.spool.clone(), header.clone(), end.clone());
        // Hashing, coding and fsync take longer than a session may wait: they have a thread.
        let work = move || (spool.seal(&folder, header, end), folder);
        let (result, back) = match tokio::task::spawn_blocking(work).await {
            Ok(done) => done,
            Err(why) => {
                tracing::error!("sealing panicked: {why}");
                return false;
            }
        };
        folder = back;
        match result {
            Ok(_) => break,
            Err(why) => {
                tracing::warn!("a finished repeat cannot be written to the spool: {why}");
                let text = format!("a finished repeat cannot be written on the board: {why}");
                daemon.tell(queued.store, News::Event(Event::Waiting(text)));
                sleep(RETRY).await;
            }
        }
    }
    forget(daemon, queued, Some(folder));
    true
}

/// Takes a sealed repeat out of queue and tmpfs. What cannot be removed is tried again at the next start.
fn forget(daemon: &Daemon, queued: &Queued, folder: Option<RepeatFolder>) {
    if let Err(why) = daemon.queue.borrow_mut().remove(queued.number) {
        tracing::warn!("a finished order cannot be removed: {why}");
    }
    if let Some(Err(why)) = folder.map(RepeatFolder::remove) {
        tracing::warn!("a finished repeat's folder cannot be removed: {why}");
    }
}

/// The runtime folder cannot hold an arena: the failure itself is spooled from the state folder.
async fn no_folder(
    daemon: &Daemon,
    queued: &Queued,
    header: SegmentHeader,
    why: &io::Error,
) -> bool {
    let detail = format!(
        "no arena can be made in {}: {why}",
        daemon.folders.runtime.display()
    );
    let failure = Failure::new(FailureCode::StorageFull, detail).hint("free memory on its tmpfs");
    let outcome = Outcome::Failed {
        stage: Stage::Spawn,
        failure,
    };
    let base = daemon.folders.state.join("failed");
    match RepeatFolder::without_arena(&base, &daemon.folders.state.join("spill"), &header) {
        Ok(folder) => seal(daemon, queued, folder, header, outcome).await,
        Err(why) => {
            tracing::error!("neither runtime nor state folder can be written: {why}");
            sleep(RETRY).await;
            false
        }
    }
}

/// How long a worker may take to say what a library is.
pub const PROBE_LIMIT: Nanos = Nanos::from_secs(30);
