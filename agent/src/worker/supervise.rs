//! Watches one worker to its end: messages, arena, streams, time-outs.

use std::io;
use std::process::ExitStatus;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use edgedyno_shared::order::RepeatOrder;
use edgedyno_shared::repeat::{AgentCost, Outcome, Stage, TextEvent};
use edgedyno_shared::units::{Bytes, Nanos};
use edgedyno_shared::wire::event::Progress;
use edgedyno_shared::wire::failure::{Failure, FailureCode};
use edgedyno_shared::wire::frame::{self, Frame};
use edgedyno_shared::wire::record::Record;
use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;
use tokio::net::unix::OwnedReadHalf;
use tokio::process::Child;
use tokio::sync::{mpsc, watch};
use tokio::time::{sleep, timeout};

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

/// Runs a worker to its end. What it told is in the folder's log and files.
///
/// # Errors
/// When the folder cannot be written; the worker is killed then.
pub async fn supervise(
    started: Started,
    task: Task,
    order: &RepeatOrder,
    around: &mut Surroundings<'_>,
) -> io::Result<Outcome> {
    let kills_before = around.kernel.oom_kills();
    let mut child = started.child;
    let streams = Streams::drain(&mut child);
    let control = UnixStream::from_std(started.control)?;
    let (read, mut write) = control.into_split();
    let (give, mut messages) = mpsc::channel(16);
    tokio::task::spawn_local(read_messages(read, give));

    let mut watched = Watched::new(order, around.agent_cpus.clone());
    let mut task = Some(Frame::encode(TASK, &task).map_err(io::Error::other)?);
    let mut status = None;
    loop {
        tokio::select! {
            message = messages.recv(), if !watched.ended => match message {
                None => watched.ended = true,
                Some(Message::Build(build)) => {
                    if build == crate::BUILD_ID {
                        if let Some(frame) = task.take() {
                            // A worker that is gone already is seen by its exit.
                            let _ = write.write_all(&frame.to_bytes()).await;
                        }
                    } else {
                        watched.fail(build_mismatch(&build));
                        kill(&child);
                    }
                }
                Some(message) => watched.hear(message, around.folder)?,
            },
            exit = child.wait(), if status.is_none() => status = Some(exit?),
            () = sleep(watched.interval()) => {
                watched.look(around)?;
                if let Some(limit) = watched.overdue() {
                    let hang = verdict::hang(watched.stage, limit, watched.intake.trials());
                    watched.fail(hang);
                    kill(&child);
                }
            }
            Ok(()) = around.cancel.changed() => {
                if *around.cancel.borrow() == Cancel::Kill {
                    watched.cancelled = true;
                    kill(&child);
                }
            }
        }
        if watched.is_killed() && status.is_none() {
            match timeout(KILL_PATIENCE, child.wait()).await {
                Ok(exit) => status = Some(exit?),
                Err(_) => {
                    watched.failed = None;
                    watched.fail(verdict::wedged(child.id().unwrap_or(0)));
                    break;
                }
            }
        }
        if status.is_some() && (watched.ended || messages.is_closed() && messages.is_empty()) {
            break;
        }
    }
    watched.look(around)?;
    streams.settle().await;
    watched.close(around, &streams)?;
    let oom_killed = around.kernel.oom_kills() > kills_before;
    Ok(watched.outcome(status, &streams, oom_killed))
}

fn build_mismatch(build: &str) -> Failure {
    let detail = format!(
        "the worker is build {build}, the agent is build {}",
        crate::BUILD_ID
    );
    Failure::new(FailureCode::BuildMismatch, detail).hint("restart the agent")
}

/// Kills the worker's process group: also what it started itself.
fn kill(child: &Child) {
    if let Some(pid) = child.id() {
        // Gone already is as good as killed.
        let _ = killpg(Pid::from_raw(pid as i32), Signal::SIGKILL);
    }
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
    stage: Stage,
    stage_since: Nanos,
    intake: Intake,
    failed: Option<(Stage, Failure)>,
    cancelled: bool,
    done: bool,
    /// The worker's end of the socket is closed.
    ended: bool,
    progress_at: Nanos,
    cost: Cost,
}

/// What the daemon itself did since the window began.
#[derive(Default)]
struct Cost {
    began: Option<(Nanos, Nanos, u64)>,
    spent: Option<(Nanos, Nanos, u64)>,
    progress_bytes: u64,
}

impl<'a> Watched<'a> {
    fn new(order: &'a RepeatOrder, agent_cpus: Vec<u16>) -> Self {
        let now = Monotonic.now();
        Self {
            order,
            agent_cpus,
            stage: Stage::Spawn,
            stage_since: now,
            intake: Intake::default(),
            failed: None,
            cancelled: false,
            done: false,
            ended: false,
            progress_at: now,
            cost: Cost::default(),
        }
    }

    fn fail(&mut self, failure: Failure) {
        self.failed.get_or_insert((self.stage, failure));
    }

    fn is_killed(&self) -> bool {
        let by_us = [FailureCode::Hang, FailureCode::BuildMismatch];
        self.cancelled
            || self
                .failed
                .as_ref()
                .is_some_and(|(_, f)| by_us.contains(&f.code))
    }

    fn hear(&mut self, message: Message, folder: &mut RepeatFolder) -> io::Result<()> {
        match message {
            Message::Build(_) | Message::Facts(_) => {}
            Message::StageBegins { stage, .. } => self.begin(stage),
            Message::StageEnds(span) => {
                if span.stage == Stage::Measure {
                    self.cost.end(self.intake.reads());
                }
                folder.log(&Record::Stage(span))?;
            }
            Message::Record(record) => {
                if let Record::Schema { lane: 0, schema } = &*record {
                    if let Err(why) = schema.check() {
                        self.fail(Failure::new(FailureCode::Protocol, why.to_string()));
                        return Ok(());
                    }
                    self.intake.open(folder, schema.columns.len())?;
                }
                // The daemon's own words cannot come from a worker.
                if !matches!(
                    *record,
                    Record::Start(_) | Record::End(_) | Record::Chunk(_)
                ) {
                    folder.log(&record)?;
                }
            }
            Message::Failed { stage, failure } => {
                self.stage = stage;
                self.fail(failure);
            }
            Message::Done => self.done = true,
        }
        Ok(())
    }

    fn begin(&mut self, stage: Stage) {
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

    /// Takes trials out of the arena and says how far the repeat is.
    fn look(&mut self, around: &mut Surroundings<'_>) -> io::Result<()> {
        if let Err(failure) = self.intake.take()? {
            self.fail(failure);
        }
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
        Ok(())
    }

    /// The limit that is exceeded, if one is.
    fn overdue(&self) -> Option<Nanos> {
        let limits = &self.order.limits;
        let trial = || {
            let median = self.intake.recent_p50().unwrap_or(Nanos::ZERO);
            let by_median = median.0.saturating_mul(i64::from(limits.trial_factor));
            Nanos(limits.trial.0.max(by_median))
        };
        let limit = match self.stage {
            Stage::Spawn => SPAWN_LIMIT,
            Stage::Read | Stage::Dlopen | Stage::Load | Stage::Bind | Stage::Teardown => {
                limits.load
            }
            Stage::Compile | Stage::Cold => limits.compile,
            Stage::Warmup if self.intake.trials_of_stage() == 0 => limits.compile,
            Stage::Warmup | Stage::Measure => trial(),
        };
        let since = self
            .intake
            .last_trial()
            .map_or(self.stage_since, |at| at.max(self.stage_since));
        (!self.is_killed() && Monotonic.now() - since > limit).then_some(limit)
    }

    /// Last records before the end.
    fn close(&mut self, around: &mut Surroundings<'_>, streams: &Streams) -> io::Result<()> {
        for (code, tail) in [
            ("stdout_tail", &streams.stdout),
            ("stderr_tail", &streams.stderr),
        ] {
            let tail = lock(tail);
            if tail.total() > 0 {
                let text = format!("{} bytes in all\n{}", tail.total(), tail.text());
                around.folder.log(&Record::Event(event(code, text)))?;
            }
        }
        // A window that never ended has a wall time of zero beside its cost.
        let (cpu_time, wall, arena_reads) =
            self.cost.spent.unwrap_or((Nanos::ZERO, Nanos::ZERO, 0));
        around.folder.log(&Record::AgentCost(AgentCost {
            cpu_time,
            wall,
            arena_reads,
            progress_bytes: self.cost.progress_bytes,
            cpus: std::mem::take(&mut self.agent_cpus),
            arena_stalls: self.intake.stalls(),
            spilled: Bytes(self.intake.spilled()),
        }))
    }

    fn outcome(self, status: Option<ExitStatus>, streams: &Streams, oom_killed: bool) -> Outcome {
        if self.cancelled {
            return Outcome::Cancelled;
        }
        if let Some((stage, failure)) = self.failed {
            return Outcome::Failed { stage, failure };
        }
        let Some(status) = status else {
            let failure = Failure::new(FailureCode::Internal, "the worker's end was not seen");
            return Outcome::Failed {
                stage: self.stage,
                failure,
            };
        };
        // All was told before the process ended: how a library takes itself down is its own affair.
        if self.done {
            return Outcome::Complete;
        }
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

impl Cost {
    fn begin(&mut self, reads: u64) {
        self.progress_bytes = 0;
        self.began = Some((clock::process_cpu_time(), Monotonic.now(), reads));
    }

    fn end(&mut self, reads: u64) {
        if let Some((cpu, wall, before)) = self.began {
            let spent = (
                clock::process_cpu_time() - cpu,
                Monotonic.now() - wall,
                reads - before,
            );
            self.spent = Some(spent);
        }
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
