//! The board as it is now, for whoever asks: by the repeat that runs, else by a watch of its own that ends
//! when nobody asks any more.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use edgedyno_shared::telemetry::{ChannelNow, TelemetryMode, Watched};
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
}

impl Live {
    /// A repeat begins, which is watched or is to be left alone: a second watch would disturb it.
    pub fn begin_repeat(&self, latest: Option<Arc<Latest>>) {
        self.own.borrow_mut().take();
        *self.repeat.borrow_mut() = latest;
    }

    pub fn end_repeat(&self) {
        self.repeat.borrow_mut().take();
    }
}

/// Answers what the board does now.
pub async fn watched(daemon: &Rc<Daemon>) -> Watched {
    let running = daemon.running.borrow().as_ref().map(|r| r.key.clone());
    let until = Instant::now() + FIRST;
    let channels = loop {
        let channels = now(daemon, running.is_some());
        if !channels.is_empty() || Instant::now() >= until {
            break channels;
        }
        sleep(Duration::from_millis(20)).await;
    };
    Watched { running, channels }
}

fn now(daemon: &Rc<Daemon>, is_measuring: bool) -> Vec<ChannelNow> {
    let live = &daemon.live;
    if let Some(latest) = &*live.repeat.borrow() {
        return latest.channels();
    }
    if is_measuring {
        return Vec::new();
    }
    live.asked.set(Some(Instant::now()));
    if live.own.borrow().is_none() {
        start(daemon);
    }
    let own = live.own.borrow();
    own.as_ref()
        .map_or_else(Vec::new, |own| own.latest().channels())
}

fn start(daemon: &Rc<Daemon>) {
    let plan = Plan {
        mode: TelemetryMode::Normal,
        files: Arc::clone(&daemon.files),
        worker: None,
        exec: Some(daemon.exec.clone()),
        extra: Vec::new(),
    };
    match Sampling::start(plan, None) {
        Ok(own) => *daemon.live.own.borrow_mut() = Some(own),
        Err(why) => return tracing::warn!("the board is not watched: {why}"),
    }
    let daemon = Rc::clone(daemon);
    tokio::task::spawn_local(async move {
        let live = &daemon.live;
        while let Some(asked) = live.asked.get() {
            let over = asked + PATIENCE;
            if Instant::now() >= over {
                break;
            }
            sleep_until(over).await;
        }
        live.asked.set(None);
        live.own.borrow_mut().take();
    });
}
