//! The board as it is now, for whoever asks: by the repeat that runs, else by a watch of its own that ends
//! when nobody asks any more.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use edgedyno_shared::telemetry::{ChannelNow, TelemetryMode, Watched};
use tokio::sync::Mutex;
use tokio::time::{Instant, sleep, sleep_until};

use super::state::Daemon;
use crate::sampler::{Latest, Plan, Sampling};

/// A watch of its own goes on for this long after it was asked for.
const PATIENCE: Duration = Duration::from_secs(5);

/// The first answer waits this long at most, until the board was looked around on.
const FIRST: Duration = Duration::from_secs(2);

/// Who watches now.
#[derive(Default)]
pub struct Live {
    /// Of the repeat that runs.
    repeat: RefCell<Option<Arc<Latest>>>,
    own: RefCell<Option<Sampling>>,
    asked: Cell<Option<Instant>>,
    /// Held by whoever waits for the end of a watch of its own.
    ending: Mutex<()>,
}

impl Live {
    /// Ends the watch of its own, if there is one, and waits until it has let go of the board: a device that
    /// only one may have is free then, and nobody is disturbed by a second watch.
    pub async fn yield_board(&self) {
        // Another may have taken it out and wait for it still.
        let _ending = self.ending.lock().await;
        let own = self.own.borrow_mut().take();
        if let Some(own) = own {
            own.end().await;
        }
    }

    /// A repeat is watched, or is left alone; the board was yielded to it.
    pub fn begin_repeat(&self, latest: Option<Arc<Latest>>) {
        *self.repeat.borrow_mut() = latest;
    }

    pub fn end_repeat(&self) {
        self.repeat.borrow_mut().take();
    }

    /// Begins a watch of its own, but while there is one, or one that has not let go of the board yet;
    /// whether it did.
    fn begin_own(&self, plan: impl FnOnce() -> Plan) -> bool {
        let Ok(_ending) = self.ending.try_lock() else {
            return false;
        };
        if self.own.borrow().is_some() {
            return false;
        }
        match Sampling::start(plan(), None) {
            Ok(own) => {
                *self.own.borrow_mut() = Some(own);
                true
            }
            Err(why) => {
                tracing::warn!("the board is not watched: {why}");
                false
            }
        }
    }
}

/// Answers what the board does now.
pub async fn watched(daemon: &Rc<Daemon>) -> Watched {
    let until = Instant::now() + FIRST;
    let channels = loop {
        let channels = now(daemon);
        if !channels.is_empty() || is_left_alone(daemon) || Instant::now() >= until {
            break channels;
        }
        sleep(Duration::from_millis(20)).await;
    };
    let running = daemon.running.borrow().as_ref().map(|r| r.key.clone());
    Watched { running, channels }
}

/// Whether a repeat runs that is not watched, or not yet: nothing will be seen for as long as that lasts.
fn is_left_alone(daemon: &Daemon) -> bool {
    daemon.running.borrow().is_some() && daemon.live.repeat.borrow().is_none()
}

fn now(daemon: &Rc<Daemon>) -> Vec<ChannelNow> {
    let live = &daemon.live;
    if let Some(latest) = &*live.repeat.borrow() {
        return latest.channels();
    }
    // A repeat that began since has the board.
    if daemon.running.borrow().is_some() {
        return Vec::new();
    }
    live.asked.set(Some(Instant::now()));
    if live.begin_own(|| plan(daemon)) {
        let daemon = Rc::clone(daemon);
        tokio::task::spawn_local(async move { end_unasked(&daemon.live).await });
    }
    let own = live.own.borrow();
    own.as_ref()
        .map_or_else(Vec::new, |own| own.latest().channels())
}

fn plan(daemon: &Daemon) -> Plan {
    Plan {
        mode: TelemetryMode::Normal,
        files: Arc::clone(&daemon.files),
        worker: None,
        exec: Some(daemon.exec.clone()),
        extra: Vec::new(),
    }
}

/// Ends the watch when nobody has asked for a while.
async fn end_unasked(live: &Live) {
    while let Some(asked) = live.asked.get() {
        let over = asked + PATIENCE;
        if Instant::now() >= over {
            break;
        }
        sleep_until(over).await;
    }
    live.asked.set(None);
    live.yield_board().await;
}

#[cfg(test)]
mod tests {
    use std::io;
    use std::path::PathBuf;
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::thread;

    use edgedyno_shared::ids::StoreId;
    use edgedyno_shared::repeat::Stage;
    use tokio::sync::watch;

    use super::super::state::Running;
    use super::super::testing::{block_on, daemon};
    use super::*;
    use crate::inputs;
    use crate::sampler::files::{Device, Files, Numbers, ReadAt, Root};
    use crate::worker::supervise::Cancel;

    const CHANNEL: &str = "ddr.axi.read_bytes";

    /// A board with a monitor of memory that only one may have open, and nothing else.
    struct Exclusive {
        empty: Root,
        is_open: Arc<AtomicBool>,
    }

    impl Files for Exclusive {
        fn open(&self, path: &str) -> io::Result<Box<dyn ReadAt>> {
            self.empty.open(path)
        }
        fn list(&self, folder: &str) -> io::Result<Vec<String>> {
            self.empty.list(folder)
        }
        fn numbers(&self, folder: &str) -> io::Result<Box<dyn Numbers>> {
            self.empty.numbers(folder)
        }
        fn monitor(&self, path: &str) -> io::Result<Box<dyn Device>> {
            if path != "dev/axi_mon" {
                return Err(io::ErrorKind::NotFound.into());
            }
            match self.is_open.swap(true, Ordering::AcqRel) {
                true => Err(io::Error::from_raw_os_error(nix::libc::EBUSY)),
                false => Ok(Box::new(Opened(Arc::clone(&self.is_open)))),
            }
        }
    }

    struct Opened(Arc<AtomicBool>);

    impl Device for Opened {
        fn start(&mut self, _: u32, _: u32) -> io::Result<()> {
            Ok(())
        }
        /// As the driver does, it keeps whoever reads until there is a record: here one of five ports.
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            thread::sleep(Duration::from_millis(100));
            buffer[..264].fill(0);
            Ok(264)
        }
    }

    impl Drop for Opened {
        fn drop(&mut self) {
            self.0.store(false, Ordering::Release);
        }
    }

    fn board() -> (Arc<AtomicBool>, impl Fn() -> Plan) {
        let is_open = Arc::new(AtomicBool::new(false));
        let files: Arc<dyn Files> = Arc::new(Exclusive {
            empty: Root(PathBuf::from("/nowhere")),
            is_open: Arc::clone(&is_open),
        });
        let plan = move || Plan {
            mode: TelemetryMode::Normal,
            files: Arc::clone(&files),
            worker: None,
            exec: None,
            extra: Vec::new(),
        };
        (is_open, plan)
    }

    /// What the watch says of the monitor at its first look: its state, once the board was looked around on.
    async fn state(sampling: &Sampling) -> &'static str {
        for _ in 0..500 {
            let channels = sampling.latest().channels();
            let found = channels.iter().find(|now| now.channel.name == CHANNEL);
            if let Some(now) = found {
                return now.channel.probe.state();
            }
            sleep(Duration::from_millis(10)).await;
        }
        panic!("the board was never looked around on");
    }

    #[tokio::test]
    async fn whoever_is_given_the_board_finds_its_only_device_free() {
        let (is_open, plan) = board();
        let live = Live::default();
        for _ in 0..3 {
            assert!(live.begin_own(&plan));
            assert!(!live.begin_own(&plan), "one is enough");
            while !is_open.load(Ordering::Acquire) {
                sleep(Duration::from_millis(1)).await;
            }
            // At any moment of the device's period.
            live.yield_board().await;
            assert!(!is_open.load(Ordering::Acquire), "it is held still");
            let run = Sampling::start(plan(), None).unwrap();
            assert_ne!(state(&run).await, "busy");
            drop(run.finish().await);
        }
    }

    #[tokio::test]
    async fn a_watch_that_ends_because_nobody_asks_is_waited_for_too() {
        let (is_open, plan) = board();
        let live = Live::default();
        assert!(live.begin_own(&plan));
        while !is_open.load(Ordering::Acquire) {
            sleep(Duration::from_millis(1)).await;
        }
        let nobody_asks = end_unasked(&live);
        let repeat = async {
            live.yield_board().await;
            is_open.load(Ordering::Acquire)
        };
        let begins_early = async { live.begin_own(&plan) };
        // In this order: the second comes when the first waits for the end, and so does the third.
        let ((), is_held, begun) = tokio::join!(nobody_asks, repeat, begins_early);
        assert!(!is_held, "the repeat did not wait");
        assert!(!begun, "a new watch met the old one");
    }

    #[test]
    fn a_repeat_without_a_watch_is_answered_at_once() {
        let folder = tempfile::tempdir().unwrap();
        let daemon = daemon(folder.path());
        *daemon.running.borrow_mut() = Some(Running {
            number: 0,
            store: StoreId([7; 16]),
            key: inputs::testing::job().order.key,
            stage: Stage::Spawn,
            cancel: watch::channel(Cancel::No).0,
        });
        let begun = Instant::now();
        let seen = block_on(watched(&daemon));
        assert!(begun.elapsed() < FIRST);
        assert!(seen.running.is_some() && seen.channels.is_empty());
    }

    #[tokio::test]
    async fn a_board_that_nobody_watches_is_yielded_at_once() {
        let begun = Instant::now();
        Live::default().yield_board().await;
        assert!(begun.elapsed() < FIRST);
    }
}
