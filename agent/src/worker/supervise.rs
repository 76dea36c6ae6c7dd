//! Watches one worker to its end: messages, arena, streams, time-outs.

use std::path::Path;
use std::time::Duration;

use edgedyno_shared::order::RepeatOrder;
use edgedyno_shared::repeat::{Outcome, Stage};
use edgedyno_shared::units::Nanos;
use edgedyno_shared::wire::event::Progress;
use edgedyno_shared::wire::failure::{Failure, FailureCode};
use edgedyno_shared::wire::frame::{self, Frame};
use tokio::io::AsyncWriteExt;
use tokio::net::UnixStream;
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::process::Child;
use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, sleep_until, timeout};

use super::group::Group;
use super::message::{GO, MESSAGE, Message, TASK, Task};
use super::streams::Streams;
use super::watched::{Watched, agent_failed};
use crate::daemon::repeat_folder::RepeatFolder;
use crate::facts::Kernel;
use crate::stressor::load::{Ground, Happening, LoadRun};
use crate::worker::job::Job;
use crate::worker::spawn::SelfExec;

/// How far a user wants a running repeat stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Cancel {
    No,
    /// Kill the worker; keep its finished trials.
    Kill,
}

/// Messages may still be in the socket when their worker is gone; a child of it that kept the socket could
/// keep it open for ever.
const LAST_WORDS: Duration = Duration::from_millis(500);

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
    /// Starts the stressors of the repeat's load.
    pub exec: &'a SelfExec,
    /// For files that stressors write.
    pub scratch: &'a Path,
    pub folder: &'a mut RepeatFolder,
    /// Jobs of the models that run beside the case.
    pub tenants: Vec<Job>,
    /// Bytes that files made in the repeat may take.
    pub artifact_quota: u64,
    /// CPUs the daemon was bound to; empty when none could be spared.
    pub agent_cpus: Vec<u16>,
    pub cancel: watch::Receiver<Cancel>,
    pub on_progress: &'a mut dyn FnMut(Progress) -> u64,
    /// Told when the window of the trials is over and the worker still there.
    pub on_window_end: &'a dyn Fn(),
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
    let mut streams = Streams::drain(&mut child);
    let agent_cpus = std::mem::take(&mut around.agent_cpus);
    let mut watched = Watched::new(order, agent_cpus, started.begun, around.artifact_quota);
    let (give, mut messages) = mpsc::channel(16);
    let mut line = match UnixStream::from_std(started.control) {
        Ok(control) => {
            let (read, write) = control.into_split();
            tokio::task::spawn_local(read_messages(read, give));
            Some((write, Some(task)))
        }
        Err(why) => {
            watched.fail(agent_failed(&why));
            None
        }
    };
    let mut load = None;
    // An absolute time, so that a worker that talks without end cannot put it off.
    let mut next_look = Instant::now() + watched.interval();
    let status = loop {
        if watched.must_end() {
            group.kill();
        }
        tokio::select! {
            Some(message) = messages.recv() => {
                if let Message::Build(build) = &message {
                    greet(build, line.as_mut(), &mut watched, around.folder).await;
                }
                follow(&message, &mut load, order, around);
                watched.hear(message, around.folder);
                next_look = next_look.min(Instant::now() + watched.interval());
            }
            happening = happening_of(&mut load) => match happening {
                Happening::Settled => let_go(line.as_mut()).await,
                Happening::Failed(failure) => watched.fail(failure),
                Happening::Record(record) => watched.keep(around.folder.log(&record)),
            },
            exit = child.wait() => break exit.ok(),
            () = sleep_until(next_look) => {
                watched.look(around.on_progress);
                watched.judge_time();
                next_look = Instant::now() + watched.interval();
            }
            Ok(()) = around.cancel.changed() => {
                if *around.cancel.borrow() == Cancel::Kill {
                    watched.cancel();
                }
            }
            () = group.patience(), if group.killed_at.is_some() => {
                watched.wedge(child.id().unwrap_or(0));
                break None;
            }
        }
    };
    // Also what the worker started itself: it must not run on beside the next repeat.
    match status {
        Some(_) => group.finish(),
        None => group.kill(),
    }
    // A worker's end can be seen before its last words, one of which may be the end of the window.
    let rest = async {
        while let Some(message) = messages.recv().await {
            // Nobody awaits a load any more.
            if !matches!(message, Message::AwaitsLoad) {
                follow(&message, &mut load, order, around);
            }
            watched.hear(message, around.folder);
        }
    };
    let _ = timeout(LAST_WORDS, rest).await;
    if let Some(load) = load {
        for record in load.end().await {
            watched.keep(around.folder.log(&record));
        }
    }
    watched.look(around.on_progress);
    streams.settle().await;
    watched.close(around.folder, status, &streams.stdout(), &streams.stderr());
    let oom_killed = match (kills_before, around.kernel.oom_kills()) {
        (Some(before), Some(after)) => after > before,
        _ => false,
    };
    watched.outcome(status, &streams.stderr(), oom_killed)
}

/// What a worker's message means for the load: its beginning, the window in it, and its end.
fn follow(
    message: &Message,
    load: &mut Option<LoadRun>,
    order: &RepeatOrder,
    around: &mut Surroundings<'_>,
) {
    match message {
        Message::AwaitsLoad if load.is_none() => {
            let ground = Ground {
                exec: around.exec,
                kernel: around.kernel,
                scratch: around.scratch,
                tenants: std::mem::take(&mut around.tenants),
                folder: around.folder,
            };
            *load = Some(LoadRun::start(order, ground));
        }
        Message::StageBegins {
            stage: Stage::Measure,
        } => {
            if let Some(load) = load {
                load.window_begins();
            }
        }
        Message::StageEnds(span) if span.stage == Stage::Measure => {
            (around.on_window_end)();
            if let Some(load) = load {
                load.window_ends();
            }
        }
        _ => {}
    }
}

/// Never ready where there is no load.
async fn happening_of(load: &mut Option<LoadRun>) -> Happening {
    match load {
        Some(load) => load.next().await,
        None => std::future::pending().await,
    }
}

/// The load has settled: the worker goes on.
async fn let_go(line: Option<&mut (OwnedWriteHalf, Option<Task>)>) {
    if let (Some((write, _)), Ok(frame)) = (line, Frame::encode(GO, &())) {
        // A worker that is gone already is seen by its exit.
        let _ = write.write_all(&frame.to_bytes()).await;
    }
}

/// Answers a worker's first word: one of this build gets its task, once.
async fn greet(
    build: &str,
    line: Option<&mut (OwnedWriteHalf, Option<Task>)>,
    watched: &mut Watched<'_>,
    folder: &mut RepeatFolder,
) {
    if build != crate::BUILD_ID {
        return watched.fail(build_mismatch(build));
    }
    // The line is kept: closing this end would read as the daemon's death.
    let Some((write, Some(task))) = line.map(|(write, task)| (write, task.take())) else {
        return;
    };
    watched.spawned(folder);
    match Frame::encode(TASK, &task) {
        // A worker that is gone already is seen by its exit.
        Ok(frame) => drop(write.write_all(&frame.to_bytes()).await),
        Err(why) => watched.fail(Failure::new(FailureCode::Protocol, why.to_string())),
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
