//! One stressor's process as the daemon sees it.

use std::fs::File;
use std::io::{self, Write};
use std::os::unix::net::UnixStream as StdStream;
use std::process::ExitStatus;
use std::time::Duration;

use edgedyno_shared::device::Reading;
use edgedyno_shared::load::{
    Effort, FIRST_CHANNEL, StressOrder, StressThread, StressUsed, StressWindow, ToolUsed, WorkUnit,
};
use edgedyno_shared::telemetry::{Channel, ChannelKind, Fidelity, Samples};
use edgedyno_shared::units::{Bytes, Nanos};
use edgedyno_shared::wire::failure::Failure;
use edgedyno_shared::wire::frame::{self, Frame};
use edgedyno_shared::wire::record::Record;
use edgedyno_sys::kernel::process::affinity_of;
use serde::Serialize;
use tokio::net::UnixStream;
use tokio::process::{Child, Command};
use tokio::sync::mpsc;
use tokio::time::timeout;

use super::board::{self, Count};
use super::caps::Share;
use super::find;
use super::message::{Ready, WORD};
use super::tenant::Heard;
use super::waiting;
use crate::worker::spawn::SelfExec;

/// Samples of one record, well below the limit of a frame.
const SAMPLES: usize = 20_000;

/// Channels that a thread may have: its work, its CPU time, and that of its turns of work.
const CHANNELS: u16 = 3;

/// A started stressor.
pub(super) struct Process {
    pub(super) order: StressOrder,
    pub(super) share: Share,
    child: Child,
    control: StdStream,
    board: File,
    threads: Vec<Thread>,
    pub(super) ready: Option<(Nanos, Ready)>,
    pub(super) started: Option<Nanos>,
    pub(super) stopped: Option<Nanos>,
    /// Its last word was said, or it is gone.
    pub(super) is_over: bool,
    pub(super) tool: Option<ToolUsed>,
    failure: Option<Failure>,
    exit: Option<ExitStatus>,
}

/// What is known of one thread.
#[derive(Default)]
struct Thread {
    cpus_at_start: Option<Vec<u16>>,
    cpus_at_end: Option<Vec<u16>>,
    begin: Option<Look>,
    end: Option<Look>,
    samples: Vec<Count>,
}

/// A thread's count, and the time it was kept waiting so far.
#[derive(Clone, Copy)]
struct Look {
    count: Count,
    run_delay: Option<Nanos>,
}

impl Process {
    /// Starts one, whose words come to `give` under `number`.
    pub(super) fn start(
        exec: &SelfExec,
        order: &StressOrder,
        share: Share,
        number: usize,
        give: mpsc::Sender<Heard>,
    ) -> io::Result<Self> {
        let board = board::create(order.cpus.len())?;
        let (command, control) = exec.stressor(board.try_clone()?)?;
        control.set_nonblocking(true)?;
        let child = Command::from(command).kill_on_drop(true).spawn()?;
        let reading = UnixStream::from_std(control.try_clone()?)?;
        tokio::task::spawn_local(listen(reading, number, give));
        Ok(Self {
            threads: order.cpus.iter().map(|_| Thread::default()).collect(),
            order: order.clone(),
            share,
            child,
            control,
            board,
            ready: None,
            started: None,
            stopped: None,
            is_over: false,
            tool: None,
            failure: None,
            exit: None,
        })
    }

    /// Sends a frame. A process that is gone is seen by the end of its words.
    pub(super) fn tell(&mut self, kind: u8, content: &impl Serialize) {
        if let Ok(frame) = Frame::encode(kind, content) {
            let _ = self.control.write_all(&frame.to_bytes());
        }
    }

    pub(super) fn kill(&mut self) {
        let _ = self.child.start_kill();
    }

    /// Waits for its end, and kills it when it takes longer than this.
    pub(super) async fn reap(&mut self, patience: Duration) {
        if let Ok(status) = timeout(patience, self.child.wait()).await {
            self.exit = status.ok();
            return;
        }
        self.kill();
        if let Ok(status) = timeout(patience, self.child.wait()).await {
            self.exit = status.ok();
        }
    }

    pub(super) fn is_tool(&self) -> bool {
        self.unit() == WorkUnit::Own
    }

    /// Why it cannot go on; the first reason counts.
    pub(super) fn fail(&mut self, failure: Failure) {
        self.failure.get_or_insert(failure);
    }

    /// Reads from the kernel where its threads may run, at their start or at their end.
    pub(super) fn read_back(&mut self, at_end: bool) {
        for at in 0..self.threads.len() {
            let Some(count) = board::read(&self.board, at) else {
                continue;
            };
            let cpus = affinity_of(count.tid as i32).ok();
            let cpus = cpus.map(|cpus| cpus.into_iter().map(|cpu| cpu as u16).collect());
            let thread = &mut self.threads[at];
            if at_end {
                thread.cpus_at_end = cpus;
            } else {
                thread.cpus_at_start = cpus;
            }
        }
    }

    pub(super) fn sample(&mut self) {
        for (at, thread) in self.threads.iter_mut().enumerate() {
            let Some(count) = board::read(&self.board, at) else {
                continue;
            };
            // A thread that was kept from running has written nothing new.
            if thread.samples.last().is_none_or(|last| last.at < count.at) {
                thread.samples.push(count);
            }
        }
    }

    pub(super) fn window_begins(&mut self) {
        for at in 0..self.threads.len() {
            self.threads[at].begin = self.look(at);
        }
    }

    pub(super) fn window_ends(&mut self) {
        for at in 0..self.threads.len() {
            self.threads[at].end = self.look(at);
        }
    }

    /// A thread as it is now; of a tool its share of the whole, as its CPU time is.
    fn look(&self, at: usize) -> Option<Look> {
        let count = board::read(&self.board, at)?;
        let run_delay = match self.is_tool() {
            true => waiting::of_tree(count.tid)
                .map(|all| Nanos(all.0 / self.threads.len().max(1) as i64)),
            false => self
                .child
                .id()
                .and_then(|id| waiting::of_thread(id, count.tid)),
        };
        Some(Look { count, run_delay })
    }

    /// What it was and did, and its samples.
    /// `first` is the number of its first thread among those of the load.
    pub(super) fn records(&self, number: usize, first: usize) -> Vec<Record> {
        let mut out = vec![Record::Stress(Box::new(self.used()))];
        for (at, thread) in self.threads.iter().enumerate() {
            let cpu = self.order.cpus[at];
            let id = FIRST_CHANNEL + CHANNELS * (first + at) as u16;
            let name = format!("stress.{number}.{}.cpu{cpu}", self.order.name);
            let work = thread.samples.iter().map(|count| count.work as i64);
            let unit = match self.unit() {
                WorkUnit::Bytes => Some("bytes"),
                WorkUnit::Operations | WorkUnit::Nothing => Some("operations"),
                // Nobody counts it, which is not zero.
                WorkUnit::Own => None,
            };
            if let Some(unit) = unit {
                let name = format!("{name}.work");
                out.extend(series(id, &name, unit, thread, work.collect()));
            }
            let cpu_time = thread.samples.iter().map(|count| count.cpu_time.0);
            out.extend(series(
                id + 1,
                &format!("{name}.cpu_time"),
                "ns",
                thread,
                cpu_time.collect(),
            ));
            out.extend(self.worked(id + 2, &format!("{name}.worked"), thread));
        }
        out
    }

    /// The CPU time of a thread's turns of work, where it was told to work a share of the time.
    fn worked(&self, id: u16, name: &str, thread: &Thread) -> Vec<Record> {
        // Its first word on the board is from before its first turn.
        let worked = thread.samples.iter().map(|c| c.worked.map_or(0, |w| w.0));
        match self.order.effort {
            Effort::Duty { .. } => series(id, name, "ns", thread, worked.collect()),
            Effort::Full | Effort::Rate { .. } => Vec::new(),
        }
    }

    fn unit(&self) -> WorkUnit {
        let kind = find(&self.order.name).and_then(super::Stressor::kind);
        kind.map_or(WorkUnit::Nothing, |kind| kind.unit)
    }

    fn used(&self) -> StressUsed {
        let (ready_at, ready) = match &self.ready {
            Some((at, ready)) => (Some(*at), ready.clone()),
            None => (None, Ready::default()),
        };
        let mut notes = vec![format!("working set: {}", self.share.rule)];
        notes.extend(ready.notes);
        let thread = |(cpu, thread): (&u16, &Thread)| StressThread {
            cpu: *cpu,
            tid: thread.samples.last().map_or(0, |count| count.tid),
            cpus_at_start: thread.cpus_at_start.clone(),
            cpus_at_end: thread.cpus_at_end.clone(),
            window: window(thread),
        };
        StressUsed {
            order: self.order.clone(),
            unit: self.unit(),
            working_set: ready.memory.filter(|bytes| *bytes != Bytes(0)),
            huge_pages: ready.huge,
            notes,
            ready: ready_at,
            started: self.started,
            stopped: self.stopped,
            failure: self.failure.clone(),
            exit: self.exit.map(|status| status.to_string()),
            tool: self.tool.clone(),
            threads: self
                .order
                .cpus
                .iter()
                .zip(&self.threads)
                .map(thread)
                .collect(),
        }
    }
}

/// The record of a stressor that could not be started at all.
pub(super) fn not_started(order: &StressOrder, why: &Failure) -> Record {
    let kind = edgedyno_shared::load::kind_of(&order.name);
    let thread = |cpu: &u16| StressThread {
        cpu: *cpu,
        tid: 0,
        cpus_at_start: None,
        cpus_at_end: None,
        window: None,
    };
    Record::Stress(Box::new(StressUsed {
        order: order.clone(),
        unit: kind.map_or(WorkUnit::Nothing, |kind| kind.unit),
        working_set: None,
        huge_pages: None,
        notes: Vec::new(),
        ready: None,
        started: None,
        stopped: None,
        failure: Some(why.clone()),
        exit: None,
        tool: None,
        threads: order.cpus.iter().map(thread).collect(),
    }))
}

/// What a thread did between the two looks.
fn window(thread: &Thread) -> Option<StressWindow> {
    let (begin, end) = (thread.begin?, thread.end?);
    // A board that went backwards is not believed.
    let work = end.count.work.checked_sub(begin.count.work)?;
    let (wall, cpu_time) = (
        end.count.at - begin.count.at,
        end.count.cpu_time - begin.count.cpu_time,
    );
    if wall <= Nanos::ZERO || cpu_time < Nanos::ZERO {
        return None;
    }
    let worked = end.count.worked.zip(begin.count.worked);
    Some(StressWindow {
        start: begin.count.at,
        end: end.count.at,
        work,
        cpu_time,
        worked: worked
            .map(|(end, begin)| end - begin)
            .filter(|worked| *worked >= Nanos::ZERO),
        // Not known of a thread that has ended, nor of a tool one of whose threads has.
        run_delay: end
            .run_delay
            .zip(begin.run_delay)
            .map(|(end, begin)| end - begin)
            .filter(|delay| *delay >= Nanos::ZERO),
    })
}

/// One counter of a thread as a channel with its samples.
fn series(id: u16, name: &str, unit: &str, thread: &Thread, values: Vec<i64>) -> Vec<Record> {
    let mut out = vec![Record::Channel(Channel {
        id,
        name: name.into(),
        unit: unit.into(),
        kind: ChannelKind::Counter,
        source: "the stressor itself".into(),
        native_period: Some(Nanos::from_millis(1)),
        fidelity: Fidelity::Measured,
        period: Some(super::load::SAMPLE_PERIOD),
        probe: Reading::Ok(values.first().map_or_else(String::new, i64::to_string)),
    })];
    let counts = thread.samples.chunks(SAMPLES).zip(values.chunks(SAMPLES));
    out.extend(counts.map(|(counts, values)| {
        Record::Samples(Samples {
            channel: id,
            at_ns: counts.iter().map(|count| count.at.0).collect(),
            value: values.to_vec(),
            quality: vec![0; values.len()],
        })
    }));
    out
}

async fn listen(mut from: UnixStream, number: usize, give: mpsc::Sender<Heard>) {
    while let Ok(Some(frame)) = frame::read(&mut from, frame::LIMIT).await {
        let Some(word) = Some(frame)
            .filter(|f| f.kind == WORD)
            .and_then(|f| f.decode().ok())
        else {
            continue;
        };
        if give
            .send(Heard::Stressor(number, Some(word)))
            .await
            .is_err()
        {
            return;
        }
    }
    let _ = give.send(Heard::Stressor(number, None)).await;
}
