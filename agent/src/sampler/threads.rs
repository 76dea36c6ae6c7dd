//! The threads that read while a repeat runs: one for everything, a second for what may wait.

use std::io;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::thread::{self, Thread};
use std::time::Duration;

use edgedyno_shared::repeat::TextEvent;
use edgedyno_shared::telemetry::{ChannelNow, TelemetryMode};
use edgedyno_shared::wire::record::Record;
use tokio::sync::oneshot;
use tokio::time::timeout;

use super::journal;
use super::offer::Found;
use super::pace::{Costs, THREADS};
use super::watch::{Plan, Watch};
use crate::clock::{self, Clock, Monotonic};

/// A read that hangs in a driver keeps its thread; the repeat goes on without what it holds.
const PATIENCE: Duration = Duration::from_secs(2);

/// Channels of the second thread are numbered from here.
const SECOND: u16 = 1 << 15;

/// A board that is being watched.
pub struct Sampling {
    stop: Arc<AtomicBool>,
    /// What was seen is not asked for.
    is_unwanted: Arc<AtomicBool>,
    window_ended: Arc<AtomicBool>,
    threads: Vec<Reader>,
    latest: Arc<Latest>,
    folder: Option<PathBuf>,
}

/// What the threads of a watch saw last, kept up to date while somebody looks.
#[derive(Default)]
pub struct Latest {
    is_wanted: AtomicBool,
    of_threads: [Mutex<Vec<ChannelNow>>; THREADS],
}

impl Latest {
    /// All channels with their newest values; empty until the board was looked around on.
    pub fn channels(&self) -> Vec<ChannelNow> {
        self.is_wanted.store(true, Ordering::Release);
        let of_threads = self.of_threads.iter();
        of_threads
            .flat_map(|held| held.lock().unwrap_or_else(PoisonError::into_inner).clone())
            .collect()
    }
}

struct Reader {
    name: &'static str,
    thread: Thread,
    records: oneshot::Receiver<Vec<Record>>,
}

impl Sampling {
    /// Starts to watch. The threads run where the calling one may. In `folder`, which is to be on tmpfs,
    /// samples are kept as they come, for who comes after a daemon that was killed.
    ///
    /// # Errors
    /// When no thread can be made.
    pub fn start(mut plan: Plan, folder: Option<PathBuf>) -> io::Result<Self> {
        let mode = plan.mode;
        let stop = Arc::new(AtomicBool::new(false));
        let is_unwanted = Arc::new(AtomicBool::new(false));
        let window_ended = Arc::new(AtomicBool::new(false));
        let latest = Arc::new(Latest::default());
        let costs = Arc::new(Costs::default());
        let (give, take) = mpsc::channel();
        let common = |name, place| Common {
            name,
            place,
            mode,
            stop: Arc::clone(&stop),
            is_unwanted: Arc::clone(&is_unwanted),
            window_ended: Arc::clone(&window_ended),
            latest: Arc::clone(&latest),
            costs: Arc::clone(&costs),
            folder: folder.clone(),
        };
        let first = reader(common("sampler", 0), move || {
            let found = plan.find();
            let (blocking, plain) = found.into_iter().partition(Found::is_blocking);
            // Nobody takes it when the second thread could not be made.
            let _ = give.send(blocking);
            plain
        })?;
        let second = reader(common("sampler_slow", 1), move || {
            take.recv().unwrap_or_default()
        })?;
        Ok(Self {
            stop,
            is_unwanted,
            window_ended,
            threads: vec![first, second],
            latest,
            folder,
        })
    }

    pub fn latest(&self) -> Arc<Latest> {
        Arc::clone(&self.latest)
    }

    /// The window of the trials is over, while the worker is still there.
    pub fn window_ends(&self) {
        self.window_ended.store(true, Ordering::Release);
        if let Some(reader) = self.threads.first() {
            reader.thread.unpark();
        }
    }

    /// Ends it and gives what was seen.
    pub async fn finish(mut self) -> Vec<Record> {
        self.stop();
        let mut records = Vec::new();
        for (place, reader) in std::mem::take(&mut self.threads).into_iter().enumerate() {
            match timeout(PATIENCE, reader.records).await {
                Ok(Ok(some)) => records.extend(some),
                _ => {
                    let folder = self.folder.iter();
                    records.extend(folder.flat_map(|folder| journal::of_thread(folder, place)));
                    records.push(wedged(reader.name));
                }
            }
        }
        records
    }

    /// Ends it, waits until it has let go of the board, and throws away what was seen. A thread that hangs in a
    /// driver is not waited for to its end.
    pub async fn end(mut self) {
        self.is_unwanted.store(true, Ordering::Release);
        self.stop();
        for reader in std::mem::take(&mut self.threads) {
            if timeout(PATIENCE, reader.records).await.is_err() {
                tracing::warn!("the {} thread does not come back from a read", reader.name);
            }
        }
    }

    fn stop(&self) {
        self.stop.store(true, Ordering::Release);
        let threads = self.threads.iter();
        threads.for_each(|reader| reader.thread.unpark());
    }
}

impl Drop for Sampling {
    /// Threads end by themselves; what they saw goes with them.
    fn drop(&mut self) {
        self.stop();
    }
}

fn wedged(name: &str) -> Record {
    Record::Event(TextEvent {
        lane: 0,
        trial: None,
        code: "sampler_wedged".into(),
        text: format!(
            "the {name} thread did not come back from a read: its channels end there, or are lost"
        ),
    })
}

/// What a thread shares with who started it.
struct Common {
    name: &'static str,
    /// The first or the second of the threads.
    place: usize,
    mode: TelemetryMode,
    stop: Arc<AtomicBool>,
    is_unwanted: Arc<AtomicBool>,
    window_ended: Arc<AtomicBool>,
    latest: Arc<Latest>,
    costs: Arc<Costs>,
    folder: Option<PathBuf>,
}

/// A thread that reads what `find` finds until it is stopped.
fn reader(
    common: Common,
    find: impl FnOnce() -> Vec<Found> + Send + 'static,
) -> io::Result<Reader> {
    let name = common.name;
    let (give, records) = oneshot::channel();
    let read = move || {
        let found = find();
        let is_idle = found.is_empty();
        let first = common.place as u16 * SECOND;
        let mut watch = Watch::new(name, found, common.mode, Monotonic, clock::thread_cpu_time);
        if is_idle {
            let _ = give.send(Vec::new());
            return;
        }
        watch.share(Arc::clone(&common.costs), common.place);
        if let Some(folder) = &common.folder
            && let Err(why) = watch.keep_in(folder, common.place, first)
        {
            tracing::warn!("telemetry would be lost with this daemon: {why}");
        }
        let latest = &common.latest;
        let shared = &latest.of_threads[common.place];
        let lock = || shared.lock().unwrap_or_else(PoisonError::into_inner);
        *lock() = watch.snapshot(first);
        watch.note_cost();
        // What belongs to the worker is read by the first thread.
        let sees_worker = common.place == 0;
        while !common.stop.load(Ordering::Acquire) {
            if sees_worker && common.window_ended.swap(false, Ordering::AcqRel) {
                watch.read_worker();
            }
            let wait = watch.next_due().map(|due| due - Monotonic.now());
            match wait {
                None => thread::park(),
                Some(wait) if wait.0 > 0 => thread::park_timeout(wait.as_duration()),
                Some(_) => {
                    watch.read_due();
                    if watch.take_new_names(first) {
                        *lock() = watch.snapshot(first);
                    } else if latest.is_wanted.load(Ordering::Acquire) {
                        watch.refresh(&mut lock());
                    }
                }
            }
        }
        let records = match common.is_unwanted.load(Ordering::Acquire) {
            true => Vec::new(),
            false => {
                watch.read_last();
                watch.note_cost();
                watch.records(first)
            }
        };
        // Devices that it held are let go before anybody can begin the next watch.
        drop(watch);
        // The repeat may be gone meanwhile.
        let _ = give.send(records);
    };
    let thread = thread::Builder::new().name(name.into()).spawn(read)?;
    Ok(Reader {
        name,
        thread: thread.thread().clone(),
        records,
    })
}
