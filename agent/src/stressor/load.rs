//! The load of one repeat: its stressors started together, watched, and ended.

use std::path::Path;
use std::time::Duration;

use edgedyno_shared::load::Load;
use edgedyno_shared::order::RepeatOrder;
use edgedyno_shared::units::Nanos;
use edgedyno_shared::wire::failure::{Failure, FailureCode};
use edgedyno_shared::wire::record::Record;
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep_until, timeout};

use super::message::{GO, STOP, TASK, Task, Word};
use super::process::{Heard, Process};
use super::{caps, find};
use crate::clock::{Clock, Monotonic};
use crate::facts::Kernel;
use crate::worker::spawn::SelfExec;

/// Between two readings of what was achieved.
pub(super) const SAMPLE_PERIOD: Nanos = Nanos::from_millis(100);

/// Until every stressor has touched its memory, even on a slow board.
const PREPARE_LIMIT: Duration = Duration::from_secs(60);

/// For a stressor to say its last word.
const STOP_PATIENCE: Duration = Duration::from_secs(1);

/// What a load is started with.
pub struct Ground<'a> {
    pub exec: &'a SelfExec,
    pub kernel: &'a Kernel,
    /// A folder for files of stressors.
    pub scratch: &'a Path,
}

/// Stressors of one repeat.
pub struct LoadRun {
    processes: Vec<Process>,
    words: mpsc::Receiver<Heard>,
    phase: Phase,
    settle: Duration,
    deadline: Nanos,
    scratch: std::path::PathBuf,
    next_sample: Instant,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Phase {
    Preparing { limit: Instant },
    Settling { until: Instant },
    Running,
    Stopping,
}

/// What whoever watches has to know of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Happening {
    /// Every stressor has run for the time asked for.
    Settled,
    Failed(Failure),
}

impl LoadRun {
    /// Starts a process for each stressor.
    ///
    /// # Errors
    /// What the board cannot bear or does not have: never something less instead.
    pub fn start(order: &RepeatOrder, ground: &Ground<'_>) -> Result<Self, Failure> {
        let load = &order.load;
        caps::check_temperature(ground.kernel)?;
        let (give, words) = mpsc::channel(16);
        let mut processes = Vec::new();
        for (number, stressor) in load.stressors.iter().enumerate() {
            let known = known(&stressor.name)?;
            let count = load.stressors.len();
            let share = caps::share(ground.kernel, known, stressor, count, ground.scratch)?;
            let process = Process::start(ground.exec, stressor, share, number, give.clone());
            processes.push(process.map_err(|why| {
                let detail = format!("stressor {} cannot be started: {why}", stressor.name);
                Failure::new(FailureCode::StressorFailed, detail)
            })?);
        }
        let now = Instant::now();
        Ok(Self {
            processes,
            words,
            phase: Phase::Preparing {
                limit: now + PREPARE_LIMIT,
            },
            settle: load.settle.as_duration(),
            deadline: Monotonic.now() + longest(order),
            scratch: ground.scratch.to_owned(),
            next_sample: now,
        })
    }

    /// The next thing to know of. Nothing is lost when this is dropped half-way.
    pub async fn next(&mut self) -> Happening {
        loop {
            let next_look = self.next_look();
            let happening = tokio::select! {
                Some((number, word)) = self.words.recv() => self.hear(number, word),
                () = sleep_until(next_look) => self.look(),
            };
            if let Some(happening) = happening {
                return happening;
            }
        }
    }

    fn next_look(&self) -> Instant {
        match self.phase {
            Phase::Preparing { limit } => limit,
            Phase::Settling { until } => until.min(self.next_sample),
            Phase::Running | Phase::Stopping => self.next_sample,
        }
    }

    fn look(&mut self) -> Option<Happening> {
        let now = Instant::now();
        match self.phase {
            Phase::Preparing { limit } if now >= limit => {
                let detail = "stressors were not ready within a minute";
                return Some(failed(detail.into()));
            }
            Phase::Preparing { .. } => return None,
            _ => {}
        }
        if now >= self.next_sample {
            self.sample();
            self.next_sample = now + SAMPLE_PERIOD.as_duration();
        }
        match self.phase {
            Phase::Settling { until } if now >= until => {
                self.phase = Phase::Running;
                Some(Happening::Settled)
            }
            _ => None,
        }
    }

    fn sample(&mut self) {
        if self.phase != Phase::Stopping {
            self.processes.iter_mut().for_each(Process::sample);
        }
    }

    fn hear(&mut self, number: usize, word: Option<Word>) -> Option<Happening> {
        let process = &mut self.processes[number];
        match word {
            Some(Word::Build(build)) if build != crate::BUILD_ID => {
                let detail = format!(
                    "the stressor is build {build}, the agent is {}",
                    crate::BUILD_ID
                );
                let failure = Failure::new(FailureCode::BuildMismatch, detail);
                return Some(Happening::Failed(failure.hint("restart the agent")));
            }
            Some(Word::Build(_)) => {
                let task = Task {
                    order: process.order.clone(),
                    working_set: process.share.bytes,
                    scratch: self.scratch.clone(),
                    deadline: self.deadline,
                };
                process.tell(TASK, &task);
            }
            Some(Word::Ready(ready)) => {
                process.ready = Some((Monotonic.now(), ready));
                if self.processes.iter().all(|p| p.ready.is_some()) {
                    self.processes.iter_mut().for_each(|p| p.tell(GO, &()));
                }
            }
            Some(Word::Started { at }) => {
                process.started = Some(at);
                process.read_back(false);
                if self.processes.iter().all(|p| p.started.is_some()) {
                    let now = Instant::now();
                    self.next_sample = now;
                    self.phase = Phase::Settling {
                        until: now + self.settle,
                    };
                }
            }
            Some(Word::Stopped { at }) => process.stopped = Some(at),
            Some(Word::Failed(failure)) => return Some(Happening::Failed(failure)),
            None => {
                process.is_over = true;
                if self.phase != Phase::Stopping {
                    let name = &process.order.name;
                    return Some(failed(format!(
                        "stressor {name} ended before it was told to"
                    )));
                }
            }
        }
        None
    }

    /// Marks the begin of the window in every thread's count.
    pub fn window_begins(&mut self) {
        self.sample();
        self.processes.iter_mut().for_each(Process::window_begins);
    }

    /// Marks the end of the window, and ends the load: what follows is not measured.
    pub fn window_ends(&mut self) {
        self.sample();
        self.processes.iter_mut().for_each(Process::window_ends);
        self.stop();
    }

    fn stop(&mut self) {
        if self.phase == Phase::Stopping {
            return;
        }
        self.phase = Phase::Stopping;
        for process in &mut self.processes {
            process.read_back(true);
            process.tell(STOP, &());
        }
    }

    /// Ends what still runs, and tells what was.
    pub async fn end(mut self) -> Vec<Record> {
        self.stop();
        let last_words = async {
            while self.processes.iter().any(|process| !process.is_over) {
                match self.words.recv().await {
                    Some((number, word)) => drop(self.hear(number, word)),
                    None => return,
                }
            }
        };
        let _ = timeout(STOP_PATIENCE, last_words).await;
        for process in &mut self.processes {
            process.kill();
            let _ = timeout(STOP_PATIENCE, process.reap()).await;
            // Its last word on the board, which lies behind the window.
            process.sample();
        }
        let mut records = Vec::new();
        let mut threads = 0;
        for (number, process) in self.processes.iter().enumerate() {
            records.extend(process.records(number, threads));
            threads += process.order.cpus.len();
        }
        records
    }
}

/// How long a repeat can last at most once its load is asked for.
fn longest(order: &RepeatOrder) -> Nanos {
    let rules = &order.rules;
    let trials = i64::try_from(rules.measure.min_trials.min(1000)).unwrap_or(1000);
    let trials = order.limits.trial.0.saturating_mul(trials + 2);
    let spans = [
        order.load.settle.0,
        rules.warmup.max_time.0,
        rules.measure.duration.0.saturating_mul(2),
        order.limits.compile.0,
        trials,
        PREPARE_LIMIT.as_nanos() as i64,
    ];
    let day = Nanos::from_secs(24 * 3600);
    let all = spans.into_iter().fold(0_i64, i64::saturating_add);
    Nanos(all).min(day)
}

/// Refuses what this board has not, before anything is started.
///
/// # Errors
/// `Unsupported` for an unknown stressor or one without a kernel here.
pub fn check(load: &Load) -> Result<(), Failure> {
    load.stressors.iter().try_for_each(|stressor| {
        let name = &stressor.name;
        if stressor.cpus.is_empty() {
            let detail = format!("stressor {name} is to run on no CPU");
            return Err(Failure::new(FailureCode::Protocol, detail));
        }
        known(name).map(drop)
    })
}

fn known(name: &str) -> Result<&'static dyn super::Stressor, Failure> {
    let unsupported = |detail| Failure::new(FailureCode::Unsupported, detail);
    let stressor =
        find(name).ok_or_else(|| unsupported(format!("this agent has no stressor `{name}`")))?;
    match stressor.obstacle() {
        Some(why) => Err(unsupported(format!("stressor `{name}`: {why}"))),
        None => Ok(stressor),
    }
}

fn failed(detail: String) -> Happening {
    Happening::Failed(Failure::new(FailureCode::StressorFailed, detail))
}
