//! Another model beside the case as the daemon sees it: a worker of its own, with an arena and a lane of
//! its own.

use std::io::{self, Write};
use std::os::unix::net::UnixStream as StdStream;
use std::process::ExitStatus;
use std::time::Duration;

use edgedyno_shared::case::Tenant;
use edgedyno_shared::load::TenantUsed;
use edgedyno_shared::order::Limits;
use edgedyno_shared::repeat::Stage;
use edgedyno_shared::units::Nanos;
use edgedyno_shared::wire::failure::{Failure, FailureCode};
use edgedyno_shared::wire::frame::{self, Frame};
use edgedyno_shared::wire::record::Record;
use serde::Serialize;
use tokio::net::UnixStream;
use tokio::process::Command;
use tokio::sync::mpsc;

use super::message::Word;
use crate::clock::{Clock, Monotonic};
use crate::daemon::repeat_folder::LaneFiles;
use crate::worker::group::Group;
use crate::worker::intake::Intake;
use crate::worker::job::Job;
use crate::worker::message::{GO, MESSAGE, Message, STOP, TASK, Task, WINDOW};
use crate::worker::spawn::SelfExec;
use crate::worker::streams::Streams;
use crate::worker::verdict::{self, Remains};

/// Bytes of its standard error that are kept.
const WORDS: usize = 4096;

/// What a process of a load said, by its number; none when a stressor is gone.
pub(super) enum Heard {
    Stressor(usize, Option<Word>),
    Tenant(usize, Said),
}

/// What a tenant's process said or did.
#[derive(Debug)]
pub(super) enum Said {
    Message(Box<Message>),
    /// Nothing more comes over its line.
    Silent,
    Exit(Option<ExitStatus>),
}

/// What whoever runs the load has to know of.
#[derive(Debug, PartialEq)]
pub(super) enum News {
    /// To be kept with the repeat at once.
    Record(Record),
    Ready,
    Failed,
}

/// A started tenant.
pub(super) struct Process {
    lane: u16,
    files: LaneFiles,
    task: Option<Task>,
    limits: Limits,
    control: StdStream,
    group: Group,
    streams: Streams,
    intake: Intake,
    stage: Stage,
    /// Since when it has shown no progress.
    since: Nanos,
    used: TenantUsed,
    /// Records that are told at the end.
    held: Vec<Record>,
    is_done: bool,
    is_silent: bool,
    status: Option<Option<ExitStatus>>,
}

impl Process {
    /// Starts one, whose words come to `give` under `number`.
    pub(super) fn start(
        exec: &SelfExec,
        job: Job,
        tenant: &Tenant,
        files: LaneFiles,
        number: usize,
        deadline: Nanos,
        give: &mpsc::Sender<Heard>,
    ) -> io::Result<Self> {
        files.create()?;
        let (command, control) = exec.worker(Some(files.arena()?))?;
        control.set_nonblocking(true)?;
        let mut child = Command::from(command).kill_on_drop(true).spawn()?;
        let (group, streams) = (Group::of(&child), Streams::drain(&mut child));
        let reading = UnixStream::from_std(control.try_clone()?)?;
        tokio::task::spawn_local(listen(reading, number, give.clone()));
        let tell = give.clone();
        tokio::task::spawn_local(async move {
            let status = child.wait().await.ok();
            let _ = tell.send(Heard::Tenant(number, Said::Exit(status))).await;
        });
        let lane = number as u16 + 1;
        Ok(Self {
            lane,
            files,
            limits: job.order.limits.clone(),
            task: Some(Task::Beside {
                job: Box::new(job),
                deadline,
            }),
            control,
            group,
            streams,
            intake: Intake::default(),
            stage: Stage::Spawn,
            since: Monotonic.now(),
            used: unused(lane, tenant),
            held: Vec::new(),
            is_done: false,
            is_silent: false,
            status: None,
        })
    }

    /// Sends a frame. A process that is gone is seen by its exit.
    fn tell(&mut self, kind: u8, content: &impl Serialize) {
        if let Ok(frame) = Frame::encode(kind, content) {
            let _ = self.control.write_all(&frame.to_bytes());
        }
    }

    /// Takes in what it said.
    pub(super) fn hear(&mut self, said: Said) -> Option<News> {
        match said {
            Said::Message(message) => return self.hear_message(*message),
            Said::Silent => self.is_silent = true,
            Said::Exit(status) => {
                self.status = Some(status);
                // What it started itself must not outlive it.
                self.group.finish();
            }
        }
        if !self.is_over() {
            return None;
        }
        self.take();
        if self.is_done || self.was_called_off() || self.used.failure.is_some() {
            return self.used.failure.is_some().then_some(News::Failed);
        }
        let status = self.status.flatten();
        let failure = status.map_or_else(
            || Failure::new(FailureCode::Internal, "its end was not seen"),
            |status| {
                verdict::of(&Remains {
                    status,
                    stderr: &self.streams.stderr(),
                    memory_limit: self.limits.memory,
                    oom_killed: false,
                })
            },
        );
        self.fail(failure);
        Some(News::Failed)
    }

    fn hear_message(&mut self, message: Message) -> Option<News> {
        match message {
            Message::Build(build) if build != crate::BUILD_ID => {
                let detail = format!("it is build {build}, the agent is {}", crate::BUILD_ID);
                self.fail(
                    Failure::new(FailureCode::BuildMismatch, detail).hint("restart the agent"),
                );
                return Some(News::Failed);
            }
            Message::Build(_) => {
                if let Some(task) = self.task.take() {
                    self.tell(TASK, &task);
                }
            }
            Message::StageBegins { stage } => {
                self.take();
                self.stage = stage;
                self.since = Monotonic.now();
                self.intake.begin_stage();
            }
            Message::StageEnds(span) => self.used.stages.push(span),
            Message::Record(record) => return self.hear_record(*record),
            Message::AwaitsLoad => {
                self.used.ready = Some(Monotonic.now());
                return Some(News::Ready);
            }
            Message::Failed { stage, failure } => {
                self.stage = stage;
                // It leaves by itself, and how it does is worth knowing.
                self.used.failure.get_or_insert((stage, failure));
                return Some(News::Failed);
            }
            Message::Done => self.is_done = true,
            Message::Facts(_) | Message::Calls(_) => {}
        }
        None
    }

    fn hear_record(&mut self, record: Record) -> Option<News> {
        let used = &mut self.used;
        match record {
            Record::Schema { lane: 0, schema } => {
                let columns = schema.columns.len();
                let opened = match schema.check() {
                    Ok(()) if !self.intake.is_open() => self.intake.open(&self.files, columns),
                    Ok(()) => Err(io::Error::other("it declared its columns twice")),
                    Err(why) => Err(io::Error::other(why)),
                };
                if let Err(why) = opened {
                    self.fail(Failure::new(FailureCode::Protocol, why.to_string()));
                    return Some(News::Failed);
                }
                let lane = self.lane;
                return Some(News::Record(Record::Schema { lane, schema }));
            }
            Record::Event(mut event) => {
                event.lane = self.lane;
                // A window may be open: nothing is written then.
                self.held.push(Record::Event(event));
            }
            Record::Runtime(runtime) => used.runtime = Some(runtime),
            Record::Placement(placement) => used.placements.push(placement),
            Record::Memory(memory) => used.memory.push(memory),
            Record::Effective(effective) => used.effective.push(effective),
            // What its model and inputs are is known from when it ran alone.
            _ => {}
        }
        None
    }

    /// Its process is gone, and all that it said was heard.
    pub(super) fn is_over(&self) -> bool {
        self.is_silent && self.status.is_some()
    }

    /// It was told to end before it was told to begin: nobody can blame it for what it did not do.
    fn was_called_off(&self) -> bool {
        self.used.stopped.is_some() && self.used.started.is_none()
    }

    pub(super) fn is_ready(&self) -> bool {
        self.used.ready.is_some()
    }

    /// Where it failed and why, as the failure of a repeat that cannot be without it.
    pub(super) fn failure(&self) -> Failure {
        let name = &self.used.tenant.model.name;
        let (stage, why) = match &self.used.failure {
            Some((stage, why)) => (*stage, why.clone()),
            None => (self.stage, Failure::new(FailureCode::Internal, "unknown")),
        };
        let detail = format!(
            "tenant {name} failed in stage {} ({}): {}",
            stage.name(),
            why.code,
            why.detail
        );
        Failure {
            detail,
            code: FailureCode::TenantFailed,
            hint: why.hint,
        }
    }

    fn fail(&mut self, failure: Failure) {
        self.used.failure.get_or_insert((self.stage, failure));
        self.group.kill();
    }

    pub(super) fn begin(&mut self) {
        self.used.started = Some(Monotonic.now());
        self.tell(GO, &());
    }

    pub(super) fn window_begins(&mut self) {
        self.tell(WINDOW, &());
    }

    pub(super) fn stop(&mut self) {
        self.used.stopped = Some(Monotonic.now());
        self.tell(STOP, &());
    }

    pub(super) fn kill(&mut self) {
        self.group.kill();
    }

    /// How long its last trial may take to end once it was told to.
    pub(super) fn patience(&self) -> Duration {
        let median = self.intake.recent_p50().unwrap_or(Nanos::ZERO);
        Nanos(median.0.saturating_mul(4)).as_duration()
    }

    /// How long its ring may be left alone.
    pub(super) fn interval(&self) -> Duration {
        self.intake.interval()
    }

    /// Takes trials out of its arena; says so when it has made none for too long.
    pub(super) fn look(&mut self) -> Option<News> {
        self.take();
        if self.used.failure.is_some() || self.is_over() {
            return None;
        }
        let limit = self.limit();
        let since = self
            .intake
            .last_trial()
            .map_or(self.since, |at| at.max(self.since));
        if Monotonic.now() - since <= limit {
            return None;
        }
        self.fail(verdict::hang(self.stage, limit, self.intake.trials()));
        Some(News::Failed)
    }

    fn limit(&self) -> Nanos {
        let limits = &self.limits;
        match self.stage {
            // While others make ready, it waits.
            _ if self.used.ready.is_some() && self.used.started.is_none() => Nanos(i64::MAX),
            Stage::Compile | Stage::Cold => limits.compile,
            Stage::Measure => {
                let period = self.used.tenant.millihertz.map_or(0, |millihertz| {
                    1_000_000_000_000 / i64::try_from(millihertz.max(1)).unwrap_or(i64::MAX)
                });
                let median = self.intake.recent_p50().unwrap_or(Nanos::ZERO);
                let by_median = median.0.saturating_mul(i64::from(limits.trial_factor));
                Nanos(limits.trial.0.max(by_median).saturating_add(period))
            }
            _ => limits.load.max(limits.compile),
        }
    }

    fn take(&mut self) {
        let failure = match self.intake.take() {
            Ok(Ok(())) => return,
            Ok(Err(failure)) => failure,
            Err(why) => Failure::new(
                FailureCode::StorageFull,
                format!("its trials cannot be kept: {why}"),
            ),
        };
        self.fail(failure);
    }

    /// All that is known of it once it is gone.
    pub(super) async fn records(mut self) -> Vec<Record> {
        self.take();
        self.streams.settle().await;
        let tail = self.streams.stderr().text();
        let from = tail.len().saturating_sub(WORDS);
        let from = (from..=tail.len()).find(|at| tail.is_char_boundary(*at));
        self.used.stderr = tail[from.unwrap_or(tail.len())..].to_owned();
        self.used.exit = self.status.flatten().map(|status| status.to_string());
        if self.used.failure.is_none() && !self.is_done && !self.was_called_off() {
            let detail = "it did not end when it was told to, and was killed";
            self.used.failure = Some((self.stage, Failure::new(FailureCode::Hang, detail)));
        }
        self.held.push(Record::Tenant(Box::new(self.used)));
        self.held
    }
}

/// A tenant that was not started yet.
fn unused(lane: u16, tenant: &Tenant) -> TenantUsed {
    TenantUsed {
        lane,
        tenant: tenant.clone(),
        runtime: None,
        stages: Vec::new(),
        placements: Vec::new(),
        memory: Vec::new(),
        effective: Vec::new(),
        ready: None,
        started: None,
        stopped: None,
        failure: None,
        exit: None,
        stderr: String::new(),
    }
}

/// The record of a tenant that could not be started at all.
pub(super) fn not_started(number: usize, tenant: &Tenant, why: &Failure) -> Record {
    let mut used = unused(number as u16 + 1, tenant);
    used.failure = Some((Stage::Spawn, why.clone()));
    Record::Tenant(Box::new(used))
}

async fn listen(mut from: UnixStream, number: usize, give: mpsc::Sender<Heard>) {
    while let Ok(Some(frame)) = frame::read(&mut from, frame::LIMIT).await {
        // What does not decode comes from vendor code that found the descriptor: it is left out.
        let message = Some(frame).filter(|frame| frame.kind == MESSAGE);
        let Some(message) = message.and_then(|frame| frame.decode().ok()) else {
            continue;
        };
        let said = Said::Message(Box::new(message));
        if give.send(Heard::Tenant(number, said)).await.is_err() {
            return;
        }
    }
    let _ = give.send(Heard::Tenant(number, Said::Silent)).await;
}
