//! The threads that read while a repeat runs: one for everything, a second for what may wait.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::thread::{self, Thread};
use std::time::Duration;

use edgedyno_shared::repeat::TextEvent;
use edgedyno_shared::telemetry::TelemetryMode;
use edgedyno_shared::wire::record::Record;
use tokio::sync::oneshot;
use tokio::time::timeout;

use super::offer::Found;
use super::watch::{Plan, Watch};
use crate::clock::{self, Clock, Monotonic};

/// A read that hangs in a driver keeps its thread; the repeat goes on without what it holds.
const PATIENCE: Duration = Duration::from_secs(2);

/// Channels of the second thread are numbered from here.
const SECOND: u16 = 1 << 15;

/// A board that is being watched.
pub struct Sampling {
    stop: Arc<AtomicBool>,
    threads: Vec<Reader>,
}

struct Reader {
    name: &'static str,
    thread: Thread,
    records: oneshot::Receiver<Vec<Record>>,
}

impl Sampling {
    /// Starts to watch. The threads run where the calling one may.
    ///
    /// # Errors
    /// When no thread can be made.
    pub fn start(mut plan: Plan) -> io::Result<Self> {
        let mode = plan.mode;
        let stop = Arc::new(AtomicBool::new(false));
        let (give, take) = mpsc::channel();
        let first = reader("sampler", Arc::clone(&stop), 0, mode, move || {
            let found = plan.find();
            let (blocking, plain) = found.into_iter().partition(Found::is_blocking);
            // Nobody takes it when the second thread could not be made.
            let _ = give.send(blocking);
            plain
        })?;
        let second = reader("sampler_slow", Arc::clone(&stop), SECOND, mode, move || {
            take.recv().unwrap_or_default()
        })?;
        Ok(Self {
            stop,
            threads: vec![first, second],
        })
    }

    /// Ends it and gives what was seen.
    pub async fn finish(self) -> Vec<Record> {
        self.stop.store(true, Ordering::Release);
        self.threads
            .iter()
            .for_each(|reader| reader.thread.unpark());
        let mut records = Vec::new();
        for reader in self.threads {
            match timeout(PATIENCE, reader.records).await {
                Ok(Ok(some)) => records.extend(some),
                _ => records.push(wedged(reader.name)),
            }
        }
        records
    }
}

fn wedged(name: &str) -> Record {
    Record::Event(TextEvent {
        lane: 0,
        trial: None,
        code: "sampler_wedged".into(),
        text: format!("the {name} thread did not come back from a read: its channels are lost"),
    })
}

/// A thread that reads what `find` finds until it is stopped.
fn reader(
    name: &'static str,
    stop: Arc<AtomicBool>,
    first: u16,
    mode: TelemetryMode,
    find: impl FnOnce() -> Vec<Found> + Send + 'static,
) -> io::Result<Reader> {
    let (give, records) = oneshot::channel();
    let read = move || {
        let found = find();
        if found.is_empty() {
            let _ = give.send(Vec::new());
            return;
        }
        let mut watch = Watch::new(name, found, mode, Monotonic, clock::thread_cpu_time);
        while !stop.load(Ordering::Acquire) {
            let wait = watch.next_due().map(|due| due - Monotonic.now());
            match wait {
                None => thread::park(),
                Some(wait) if wait.0 > 0 => thread::park_timeout(wait.as_duration()),
                Some(_) => watch.read_due(),
            }
        }
        // The repeat may be gone meanwhile.
        let _ = give.send(watch.records(first));
    };
    let thread = thread::Builder::new().name(name.into()).spawn(read)?;
    Ok(Reader {
        name,
        thread: thread.thread().clone(),
        records,
    })
}
