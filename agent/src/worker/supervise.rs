//! Watches one worker to its end: messages, arena, streams, time-outs.

use std::io;
use std::process::ExitStatus;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use edgedyno_shared::order::RepeatOrder;
use edgedyno_shared::repeat::{AgentCost, Outcome, Stage, StageSpan, TextEvent};
use edgedyno_shared::units::{Bytes, Nanos};
use edgedyno_shared::wire::event::Progress;
use edgedyno_shared::wire::failure::{Failure, FailureCode};
use edgedyno_shared::wire::frame::{self, Frame};
use edgedyno_shared::wire::record::Record;
use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::process::Child;
use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, sleep, sleep_until, timeout};

use super::message::{MESSAGE, Message, TASK, Task};
use super::tail::Tail;
use super::verdict::{self, Remains};
use crate::clock::{self, Clock, Monotonic};
use crate::daemon::repeat_folder::RepeatFolder;
use crate::facts::Kernel;
use crate::worker::intake::Intake;

/// How far a user wants a running repeat stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Cancel {
    No,
    /// Kill the worker; keep its finished trials.
    Kill,
}

/// A process that SIGKILL has not ended after this long hangs inside the kernel.
const KILL_PATIENCE: Duration = Duration::from_secs(5);

/// A worker names its build within this time, even on a slow and busy board.
const SPAWN_LIMIT: Nanos = Nanos::from_secs(30);

const PROGRESS_PERIOD: Nanos = Nanos::from_millis(500);

/// A started worker.
pub struct Started {
    /// Read before the process was made.
    pub begun: Nanos,
    pub child: Child,
    pub control: std::os::unix::net::UnixStream,
}

/// What a repeat needs beside its order.
pub struct Surroundings<'a> {
    pub kernel: &'a Kernel,
    pub folder: &'a mut RepeatFolder,
    /// CPUs the daemon was bound to; empty when none could be spared.
    pub agent_cpus: Vec<u16>,
    pub cancel: watch::Receiver<Cancel>,
    pub on_progress: &'a mut dyn FnMut(Progress) -> u64,
}

/// Runs a worker to its end. What it told is in the folder's log and files; whatever goes wrong, also on
/// the daemon's side, is in the outcome, and the worker's whole process group is gone.
pub async fn supervise(
    started: Started,
    task: Task,
    order: &RepeatOrder,
    around: &mut Surroundings<'_>,
) -> Outcome {
    let kills_before = around.kernel.oom_kills();
    let mut child = started.child;
    let mut group = Group::of(&child);
    let streams = Streams::drain(&mut child);
    let mut watched = Watched::new(order, std::mem::take(&mut around.agent_cpus));
    watched.stage_since = started.begun;
    let (give, mut messages) = mpsc::channel(16);
    let mut to_worker = match UnixStream::from_std(started.control) {
        Ok(control) => {
            let (read, write) = control.into_split();
            tokio::task::spawn_local(read_messages(read, give));
            Some((write, task))
        }
        Err(why) => {
            watched.fail(agent_failed(&why));
            None
        }
    };
    let status = loop {
        if watched.must_end() {
            group.kill();
        }
        tokio::select! {
            Some(message) = messages.recv() => match message {
                Message::Build(build) if build == crate::BUILD_ID => {
                    if let Some((mut write, task)) = to_worker.take() {
                        watched.spawned(around.folder);
                        watched.tell(&mut write, &task).await;
                        // Closing this end would read as the daemon's death.
                        watched.to_worker = Some(write);
                    }
                }
                Message::Build(build) => watched.fail(build_mismatch(&build)),
                message => watched.hear(message, around.folder),
            },
            exit = child.wait() => break exit.ok(),
            () = sleep(watched.interval()) => {
                watched.look(around);
                watched.judge_time();
            }
            Ok(()) = around.cancel.changed() => {
                watched.cancelled |= *around.cancel.borrow() == Cancel::Kill;
            }
            () = group.patience(), if group.killed_at.is_some() => {
                watched.failed = None;
                watched.fail(verdict::wedged(child.id().unwrap_or(0)));
                break None;
            }
        }
    };
    // Also what the worker started itself: it must not run on beside the next repeat.
    group.kill();
    // A child that kept the socket could keep it open for ever.
    let rest = async {
        while let Some(message) = messages.recv().await {
            watched.hear(message, around.folder);
        }
    };
    let _ = timeout(Duration::from_millis(500), rest).await;
    watched.look(around);
    streams.settle().await;
    watched.close(around, &streams);
    let oom_killed = match (kills_before, around.kernel.oom_kills()) {
        (Some(before), Some(after)) => after > before,
        _ => false,
    };
    watched.outcome(status, &streams, oom_killed)
}

fn agent_failed(why: &io::Error) -> Failure {
    let code = match why.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => FailureCode::StorageFull,
        _ => FailureCode::Internal,
    };
    Failure::new(
        code,
        format!("the agent could not keep what it measured: {why}"),
    )
    .hint("free room in the agent's runtime and state folders")
}

/// The worker's process group, killed when this is dropped.
struct Group {
    leader: Option<Pid>,
    killed_at: Option<Instant>,
}

impl Group {
    fn of(child: &Child) -> Self {
        Self {
            leader: child.id().map(|pid| Pid::from_raw(pid as i32)),
            killed_at: None,
        }
    }

    fn kill(&mut self) {
        if let Some(leader) = self.leader {
            // Nobody left to kill is what is wanted.
            let _ = killpg(leader, Signal::SIGKILL);
        }
        self.killed_at.get_or_insert_with(Instant::now);
    }

    /// Over when a killed process should have been gone for long.
    async fn patience(&self) {
        if let Some(at) = self.killed_at {
            sleep_until(at + KILL_PATIENCE).await;
        }
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        self.kill();
    }
}

fn build_mismatch(build: &str) -> Failure {
    let detail = format!(
        "the worker is build {build}, the agent is build {}",
        crate::BUILD_ID
    );
    Failure::new(FailureCode::BuildMismatch, detail).hint("restart the agent")
}

async fn read_messages(mut from: OwnedReadHalf, give: mpsc::Sender<Message>) {
    while let Ok(Some(frame)) = frame::read(&mut from, frame::LIMIT).await {
        // What does not decode comes from vendor code that found the descriptor: it is left out.
        let message = if frame.kind == MESSAGE {
            frame.decode().ok()
        } else {
            None
        };
        if let Some(message) = message
            && give.send(message).await.is_err()
        {
            return;
        }
    }
}

/// What is known of a repeat while it runs.
struct Watched<'a> {
    order: &'a RepeatOrder,
    agent_cpus: Vec<u16>,
    to_worker: Option<OwnedWriteHalf>,
    stage: Stage,
    stage_since: Nanos,
    intake: Intake,
    failed: Option<(Stage, Failure)>,
    /// The failure is one that the worker does not know of.
    by_agent: bool,
    cancelled: bool,
    done: bool,
    progress_at: Nanos,
    cost: Cost,
}

impl<'a> Watched<'a> {
    fn new(order: &'a RepeatOrder, agent_cpus: Vec<u16>) -> Self {
        let now = Monotonic.now();
        Self {
            order,
            agent_cpus,
            to_worker: None,
            stage: Stage::Spawn,
            stage_since: now,
            intake: Intake::default(),
            failed: None,
            by_agent: false,
            cancelled: false,
            done: false,
            progress_at: now,
            cost: Cost::default(),
        }
    }

    /// A failure found by the agent: the worker is ended for it.
    fn fail(&mut self, failure: Failure) {
        self.failed.get_or_insert((self.stage, failure));
        self.by_agent = true;
    }

    fn keep(&mut self, result: io::Result<()>) {
        if let Err(why) = result {
            self.fail(agent_failed(&why));
        }
    }

    /// Whether there is a reason to kill the worker.
    fn must_end(&self) -> bool {
        self.cancelled || self.by_agent
    }

    /// The worker's first word ends the stage that no worker can time.
    fn spawned(&mut self, folder: &mut RepeatFolder) {
        let span = StageSpan {
            stage: Stage::Spawn,
            start: self.stage_since,
            end: Monotonic.now(),
        };
        self.keep(folder.log(&Record::Stage(span)));
    }

    async fn tell(&mut self, write: &mut OwnedWriteHalf, task: &Task) {
        match Frame::encode(TASK, task) {
            // A worker that is gone already is seen by its exit.
            Ok(frame) => drop(write.write_all(&frame.to_bytes()).await),
            Err(why) => self.fail(Failure::new(FailureCode::Protocol, why.to_string())),
        }
    }

    fn hear(&mut self, message: Message, folder: &mut RepeatFolder) {
        match message {
            Message::Build(_) | Message::Facts(_) => {}
            Message::StageBegins { stage } => self.begin(stage),
            Message::StageEnds(span) => {
                if span.stage == Stage::Measure {
                    self.cost.end(self.intake.reads());
                }
                self.keep(folder.log(&Record::Stage(span)));
            }
            Message::Record(record) => self.hear_record(&record, folder),
            Message::Failed { stage, failure } => {
                self.stage = stage;
                self.failed.get_or_insert((stage, failure));
            }
            Message::Done => self.done = true,
        }
    }

    fn hear_record(&mut self, record: &Record, folder: &mut RepeatFolder) {
        match record {
            // The daemon's own words cannot come from a worker.
            Record::Start(_) | Record::End(_) | Record::Chunk(_) | Record::AgentCost(_) => return,
            Record::Schema { lane: 0, schema } => {
                if let Err(why) = schema.check() {
                    return self.fail(Failure::new(FailureCode::Protocol, why.to_string()));
                }
                if self.intake.is_open() {
                    let detail = "the worker declared its columns twice";
                    return self.fail(Failure::new(FailureCode::Protocol, detail));
                }
                let opened = self.intake.open(folder, schema.columns.len());
                self.keep(opened);
            }
            _ => {}
        }
        self.keep(folder.log(record));
    }

    fn begin(&mut self, stage: Stage) {
        // Trials of the stage before must not count as trials of this one.
        self.take();
        self.stage = stage;
        self.stage_since = Monotonic.now();
        self.intake.begin_stage();
        if stage == Stage::Measure {
            self.cost.begin(self.intake.reads());
        }
    }

    fn interval(&self) -> Duration {
        match self.stage {
            Stage::Cold | Stage::Warmup | Stage::Measure => self.intake.interval(),
            _ => Duration::from_millis(100),
        }
    }

    fn take(&mut self) {
        match self.intake.take() {
            Ok(Ok(())) => {}
            Ok(Err(failure)) => self.fail(failure),
            Err(why) => self.fail(agent_failed(&why)),
        }
    }

    /// Takes trials out of the arena and says how far the repeat is.
    fn look(&mut self, around: &mut Surroundings<'_>) {
        self.take();
        let now = Monotonic.now();
        if now - self.progress_at >= PROGRESS_PERIOD {
            self.progress_at = now;
            self.cost.progress_bytes += (around.on_progress)(Progress {
                stage: self.stage,
                in_stage: now - self.stage_since,
                trials: self.intake.trials_of_stage(),
                recent_p50: self.intake.recent_p50(),
            });
        }
    }

    /// Ends a stage that takes longer than its limit.
    fn judge_time(&mut self) {
        let limit = self.limit();
        let begun = self.stage_since;
        let since = self.intake.last_trial().map_or(begun, |at| at.max(begun));
        if !self.must_end() && Monotonic.now() - since > limit {
            self.fail(verdict::hang(self.stage, limit, self.intake.trials()));
        }
    }

    fn limit(&self) -> Nanos {
        let limits = &self.order.limits;
        match self.stage {
            Stage::Spawn => SPAWN_LIMIT,
            Stage::Read | Stage::Dlopen | Stage::Load | Stage::Bind | Stage::Teardown => {
                limits.load
            }
            Stage::Compile | Stage::Cold => limits.compile,
            Stage::Warmup if self.intake.trials_of_stage() == 0 => limits.compile,
            Stage::Warmup | Stage::Measure => {
                let median = self.intake.recent_p50().unwrap_or(Nanos::ZERO);
                let by_median = median.0.saturating_mul(i64::from(limits.trial_factor));
                Nanos(limits.trial.0.max(by_median))
            }
        }
    }

    /// Last records before the end.
    fn close(&mut self, around: &mut Surroundings<'_>, streams: &Streams) {
        for (code, tail) in [
            ("stdout_tail", &streams.stdout),
            ("stderr_tail", &streams.stderr),
        ] {
            let tail = lock(tail);
            if tail.total() > 0 {
                let text = format!("{} bytes in all\n{}", tail.total(), tail.text());
                self.keep(around.folder.log(&Record::Event(event(code, text))));
            }
        }
        if let Some((_, failure)) = self.failed.as_ref().filter(|_| self.done) {
            let logged = around
                .folder
                .log(&Record::Event(event("bad_end", failure.detail.clone())));
            self.keep(logged);
        }
        let Some(spent) = self.cost.spent else {
            return;
        };
        let cost = AgentCost {
            cpu_time: spent.cpu_time,
            wall: spent.wall,
            arena_reads: spent.arena_reads,
            progress_bytes: spent.progress_bytes,
            cpus: std::mem::take(&mut self.agent_cpus),
            arena_stalls: self.intake.stalls(),
            spilled: Bytes(self.intake.spilled()),
        };
        self.keep(around.folder.log(&Record::AgentCost(cost)));
    }

    fn outcome(self, status: Option<ExitStatus>, streams: &Streams, oom_killed: bool) -> Outcome {
        // All was told before the process ended: how a library takes itself down is its own affair, and
        // an event where it went wrong.
        let worker_failed = self.failed.is_some() && !self.by_agent;
        if self.done && !worker_failed {
            return Outcome::Complete;
        }
        if let Some((stage, failure)) = self.failed {
            return Outcome::Failed { stage, failure };
        }
        if self.cancelled {
            return Outcome::Cancelled { stage: self.stage };
        }
        let Some(status) = status else {
            let failure = Failure::new(FailureCode::Internal, "the worker's end was not seen");
            return Outcome::Failed {
                stage: self.stage,
                failure,
            };
        };
        let stderr = lock(&streams.stderr).clone();
        let memory_limit = self.order.limits.memory;
        let remains = Remains {
            status,
            stderr: &stderr,
            memory_limit,
            oom_killed,
        };
        Outcome::Failed {
            stage: self.stage,
            failure: verdict::of(&remains),
        }
    }
}

/// What the daemon itself did from the begin of the window to its end.
#[derive(Default)]
struct Cost {
    began: Option<(Nanos, Nanos, u64)>,
    progress_bytes: u64,
    spent: Option<Spent>,
}

#[derive(Clone, Copy)]
struct Spent {
    cpu_time: Nanos,
    wall: Nanos,
    arena_reads: u64,
    progress_bytes: u64,
}

impl Cost {
    fn begin(&mut self, reads: u64) {
        self.progress_bytes = 0;
        self.began = Some((clock::process_cpu_time(), Monotonic.now(), reads));
    }

    fn end(&mut self, reads: u64) {
        self.spent = self.began.map(|(cpu, wall, before)| Spent {
            cpu_time: clock::process_cpu_time() - cpu,
            wall: Monotonic.now() - wall,
            arena_reads: reads.saturating_sub(before),
            progress_bytes: self.progress_bytes,
        });
    }
}

fn event(code: &str, text: String) -> TextEvent {
    TextEvent {
        lane: 0,
        trial: None,
        code: code.into(),
        text,
    }
}

/// The worker's two streams, drained so that it never waits for a reader.
struct Streams {
    stdout: Arc<Mutex<Tail>>,
    stderr: Arc<Mutex<Tail>>,
    tasks: Mutex<Vec<tokio::task::JoinHandle<()>>>,
}

impl Streams {
    fn drain(child: &mut Child) -> Self {
        let (stdout, stderr) = (Arc::default(), Arc::default());
        let mut tasks = Vec::new();
        if let Some(stream) = child.stdout.take() {
            tasks.push(tokio::task::spawn_local(drain(stream, Arc::clone(&stdout))));
        }
        if let Some(stream) = child.stderr.take() {
            tasks.push(tokio::task::spawn_local(drain(stream, Arc::clone(&stderr))));
        }
        Self {
            stdout,
            stderr,
            tasks: Mutex::new(tasks),
        }
    }

    /// Waits for the ends of the streams; a grandchild that keeps them open is not waited for.
    async fn settle(&self) {
        let tasks = std::mem::take(&mut *self.tasks.lock().unwrap_or_else(PoisonError::into_inner));
        for task in tasks {
            let abort = task.abort_handle();
            if timeout(Duration::from_millis(500), task).await.is_err() {
                abort.abort();
            }
        }
    }
}

async fn drain(mut stream: impl AsyncRead + Unpin, tail: Arc<Mutex<Tail>>) {
    let mut buffer = vec![0; 16 * 1024];
    while let Ok(n @ 1..) = stream.read(&mut buffer).await {
        lock(&tail).push(&buffer[..n]);
    }
}

fn lock(tail: &Mutex<Tail>) -> std::sync::MutexGuard<'_, Tail> {
    tail.lock().unwrap_or_else(PoisonError::into_inner)
}
