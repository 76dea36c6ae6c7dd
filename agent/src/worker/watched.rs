//! What is known of a repeat while its worker runs, and what its end means. No process, no waiting.

use std::io;
use std::process::ExitStatus;
use std::time::Duration;

use edgedyno_shared::clocks::ClockReading;
use edgedyno_shared::order::RepeatOrder;
use edgedyno_shared::repeat::{AgentCost, Outcome, Stage, StageSpan, TextEvent};
use edgedyno_shared::units::{Bytes, Nanos};
use edgedyno_shared::wire::event::Progress;
use edgedyno_shared::wire::failure::{Failure, FailureCode};
use edgedyno_shared::wire::record::Record;

use super::artifacts::Artifacts;
use super::cost::Cost;
use super::intake::Intake;
use super::message::Message;
use super::tail::Tail;
use super::verdict::{self, Remains};
use crate::clock::{self, Clock, Monotonic};
use crate::daemon::repeat_folder::RepeatFolder;

/// A worker names its build within this time, even on a slow and busy board.
const SPAWN_LIMIT: Nanos = Nanos::from_secs(30);

const PROGRESS_PERIOD: Nanos = Nanos::from_millis(500);

/// The board's clocks are read so often.
const CLOCK_PERIOD: Nanos = Nanos::from_secs(10);

/// The state of one running repeat.
pub(super) struct Watched<'a> {
    order: &'a RepeatOrder,
    agent_cpus: Vec<u16>,
    stage: Stage,
    stage_since: Nanos,
    intake: Intake,
    artifacts: Artifacts,
    /// The first thing that makes the repeat fail: told by the worker, or found by the agent.
    failed: Option<(Stage, Failure)>,
    /// What went wrong after the worker had told all: an event, since how a library takes itself down
    /// is its own affair.
    bad_end: Option<Failure>,
    cancelled: bool,
    /// The agent wants the worker dead.
    condemned: bool,
    done: bool,
    /// The worker stands still until its load has settled.
    awaits_load: bool,
    progress_at: Nanos,
    cost: Cost,
    /// Written down when no window is open any more.
    clocks: Vec<ClockReading>,
    clocks_at: Nanos,
}

impl<'a> Watched<'a> {
    /// `begun`: before the worker's process was made; `quota`: bytes that files of the repeat may take.
    pub(super) fn new(
        order: &'a RepeatOrder,
        agent_cpus: Vec<u16>,
        begun: Nanos,
        quota: u64,
    ) -> Self {
        Self {
            order,
            agent_cpus,
            stage: Stage::Spawn,
            stage_since: begun,
            intake: Intake::default(),
            artifacts: Artifacts::new(quota),
            failed: None,
            bad_end: None,
            cancelled: false,
            condemned: false,
            done: false,
            awaits_load: false,
            progress_at: begun,
            cost: Cost::default(),
            clocks: Vec::new(),
            clocks_at: begun,
        }
    }

    /// Something the agent could not do for the repeat, or cannot believe: what was measured is no
    /// longer whole, also when the worker has told all.
    pub(super) fn fail(&mut self, failure: Failure) {
        self.failed.get_or_insert((self.stage, failure));
        self.condemned = true;
    }

    /// The worker takes too long. It has nothing more to tell when it had told all.
    fn overrun(&mut self, failure: Failure) {
        self.condemned = true;
        if self.done {
            self.bad_end.get_or_insert(failure);
        } else {
            self.failed.get_or_insert((self.stage, failure));
        }
    }

    /// Not even SIGKILL ends the worker: this says more than the time-out that led to it.
    pub(super) fn wedge(&mut self, process: u32) {
        let wedged = verdict::wedged(process);
        let by_time = |(_, failure): &(Stage, Failure)| failure.code == FailureCode::Hang;
        if self.failed.as_ref().is_some_and(by_time) {
            self.failed = None;
        }
        match self.failed {
            Some(_) => self.bad_end = Some(wedged),
            None => self.overrun(wedged),
        }
    }

    pub(super) fn cancel(&mut self) {
        self.cancelled = true;
        self.condemned = true;
    }

    pub(super) fn keep(&mut self, result: io::Result<()>) {
        if let Err(why) = result {
            self.fail(agent_failed(&why));
        }
    }

    /// Whether there is a reason to kill the worker.
    pub(super) fn must_end(&self) -> bool {
        self.condemned
    }

    /// The worker's first word ends the stage that no worker can time.
    pub(super) fn spawned(&mut self, folder: &mut RepeatFolder) {
        let span = StageSpan {
            stage: Stage::Spawn,
            start: self.stage_since,
            end: Monotonic.now(),
        };
        self.keep(folder.log(&Record::Stage(span)));
    }

    pub(super) fn hear(&mut self, message: Message, folder: &mut RepeatFolder) {
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
            Message::AwaitsLoad => self.awaits_load = true,
            Message::Done => self.done = true,
        }
    }

    fn hear_record(&mut self, record: &Record, folder: &mut RepeatFolder) {
        match record {
            // The daemon's own words cannot come from a worker.
            Record::Start(_)
            | Record::End(_)
            | Record::Chunk(_)
            | Record::AgentCost(_)
            | Record::Stress(_)
            | Record::Tenant(_)
            | Record::ClockExchange(_)
            | Record::ClockReading(_) => return,
            Record::Schema { lane: 0, schema } => {
                if let Err(why) = schema.check() {
                    return self.fail(Failure::new(FailureCode::Protocol, why.to_string()));
                }
                if self.intake.is_open() {
                    let detail = "the worker declared its columns twice";
                    return self.fail(Failure::new(FailureCode::Protocol, detail));
                }
                let opened = self.intake.open(&folder.lane(0), schema.columns.len());
                self.keep(opened);
            }
            // Each lane has an arena and a worker of its own.
            Record::Schema { lane, .. } => {
                let detail = format!("the worker declared lane {lane}, and trials come on lane 0");
                return self.fail(Failure::new(FailureCode::Protocol, detail));
            }
            Record::Artifact(artifact) => {
                let room = match folder.room() {
                    Ok(room) => room,
                    Err(why) => return self.fail(agent_failed(&why)),
                };
                if let Err(text) = self.artifacts.announce(artifact, room) {
                    let refused = Record::Event(event("output_not_kept", text));
                    return self.keep(folder.log(&refused));
                }
            }
            Record::ArtifactPart(part) if !self.artifacts.takes(part) => return,
            _ => {}
        }
        self.keep(folder.log(record));
    }

    fn begin(&mut self, stage: Stage) {
        // Trials of the stage before must not count as trials of this one.
        self.take();
        self.stage = stage;
        self.awaits_load = false;
        self.stage_since = Monotonic.now();
        self.intake.begin_stage();
        if stage == Stage::Measure {
            self.cost.begin(self.intake.reads());
        }
    }

    /// How long the ring may be left alone.
    pub(super) fn interval(&self) -> Duration {
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
    pub(super) fn look(&mut self, on_progress: &mut dyn FnMut(Progress) -> u64) {
        self.take();
        let now = Monotonic.now();
        if now - self.clocks_at >= CLOCK_PERIOD {
            self.clocks_at = now;
            self.clocks.push(clock::read_all());
        }
        if now - self.progress_at >= PROGRESS_PERIOD {
            self.progress_at = now;
            self.cost.progress_bytes += on_progress(Progress {
                stage: self.stage,
                in_stage: now - self.stage_since,
                trials: self.intake.trials_of_stage(),
                recent_p50: self.intake.recent_p50(),
            });
        }
    }

    /// Ends a stage that takes longer than its limit.
    pub(super) fn judge_time(&mut self) {
        let limit = self.limit();
        let begun = self.stage_since;
        let since = self.intake.last_trial().map_or(begun, |at| at.max(begun));
        let is_late = Monotonic.now() - since > limit;
        if !self.must_end() && !self.awaits_load && is_late {
            self.overrun(verdict::hang(self.stage, limit, self.intake.trials()));
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
    pub(super) fn close(
        &mut self,
        folder: &mut RepeatFolder,
        status: Option<ExitStatus>,
        stdout: &Tail,
        stderr: &Tail,
    ) {
        for reading in std::mem::take(&mut self.clocks) {
            self.keep(folder.log(&Record::ClockReading(reading)));
        }
        for (code, tail) in [("stdout_tail", stdout), ("stderr_tail", stderr)] {
            if tail.total() > 0 {
                let text = format!("{} bytes in all\n{}", tail.total(), tail.text());
                self.keep(folder.log(&Record::Event(event(code, text))));
            }
        }
        if let Some(text) = self.end_to_tell(status) {
            self.keep(folder.log(&Record::Event(event("bad_end", text))));
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
        self.keep(folder.log(&Record::AgentCost(cost)));
    }

    /// What went wrong behind the worker's last word.
    fn end_to_tell(&self, status: Option<ExitStatus>) -> Option<String> {
        if let Some(failure) = &self.bad_end {
            return Some(failure.detail.clone());
        }
        let status = status.filter(|status| self.done && !status.success())?;
        Some(format!("after all was told the worker ended with {status}"))
    }

    pub(super) fn outcome(
        self,
        status: Option<ExitStatus>,
        stderr: &Tail,
        oom_killed: bool,
    ) -> Outcome {
        let stage = self.stage;
        if let Some((stage, failure)) = self.failed {
            return Outcome::Failed { stage, failure };
        }
        if self.done {
            return Outcome::Complete;
        }
        if self.cancelled {
            return Outcome::Cancelled { stage };
        }
        let Some(status) = status else {
            let failure = Failure::new(FailureCode::Internal, "the worker's end was not seen");
            return Outcome::Failed { stage, failure };
        };
        let failure = verdict::of(&Remains {
            status,
            stderr,
            memory_limit: self.order.limits.memory,
            oom_killed,
        });
        Outcome::Failed { stage, failure }
    }
}

pub(super) fn agent_failed(why: &io::Error) -> Failure {
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

fn event(code: &str, text: String) -> TextEvent {
    TextEvent {
        lane: 0,
        trial: None,
        code: code.into(),
        text,
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt;

    use edgedyno_shared::artifact::{Artifact, ArtifactPart};
    use edgedyno_shared::ids::{BootId, Sha256, StoreId};

    use super::*;
    use crate::daemon::repeat_folder;
    use crate::inputs::testing;

    /// What a worker and its agent go through, in order; the outcome and the events kept.
    fn outcome_of(act: impl FnOnce(&mut Watched<'_>, &mut RepeatFolder)) -> (Outcome, Vec<String>) {
        let base = tempfile::tempdir().unwrap();
        let order = testing::job().order;
        let header = repeat_folder::header(StoreId([1; 16]), BootId(1), order.key.clone());
        let mut folder =
            RepeatFolder::without_arena(base.path(), &base.path().join("spill"), &header).unwrap();
        let mut watched = Watched::new(&order, Vec::new(), Nanos::ZERO, 100);
        act(&mut watched, &mut folder);
        let status = ExitStatus::from_raw(0);
        let tail = Tail::default();
        watched.close(&mut folder, Some(status), &tail, &tail);
        let events = folder.records().unwrap().filter_map(|frame| {
            match Record::parse(&frame.payload).unwrap().1 {
                Record::Event(event) => Some(event.code),
                _ => None,
            }
        });
        let events = events.collect();
        (watched.outcome(Some(status), &tail, false), events)
    }

    fn failed_trial() -> Message {
        Message::Failed {
            stage: Stage::Measure,
            failure: Failure::new(FailureCode::BackendError, "trial 7"),
        }
    }

    fn no_room() -> Failure {
        agent_failed(&io::Error::from(io::ErrorKind::StorageFull))
    }

    fn code(outcome: &Outcome) -> Option<FailureCode> {
        match outcome {
            Outcome::Failed { failure, .. } => Some(failure.code),
            _ => None,
        }
    }

    #[test]
    fn an_output_that_there_is_no_room_for_takes_nothing_from_what_was_measured() {
        let file = |number, bytes: usize| {
            [
                Record::Artifact(Artifact {
                    number,
                    name: format!("{number}.npy"),
                    kind: "output_tensor".into(),
                    sha256: Sha256([0; 32]),
                    bytes: bytes as u64,
                }),
                Record::ArtifactPart(ArtifactPart {
                    number,
                    bytes: vec![7; bytes],
                }),
            ]
        };
        let (mut parts, mut names) = (0, Vec::new());
        let (outcome, events) = outcome_of(|watched, folder| {
            for record in [file(0, 101), file(1, 100)].into_iter().flatten() {
                watched.hear(Message::Record(Box::new(record)), folder);
            }
            watched.hear(Message::Done, folder);
            for frame in folder.records().unwrap() {
                match Record::parse(&frame.payload).unwrap().1 {
                    Record::Artifact(artifact) => names.push(artifact.name),
                    Record::ArtifactPart(_) => parts += 1,
                    _ => {}
                }
            }
        });
        assert_eq!(
            (outcome, events),
            (Outcome::Complete, vec!["output_not_kept".to_owned()])
        );
        assert_eq!((names, parts), (vec!["1.npy".to_owned()], 1));
    }

    #[test]
    fn all_told_is_complete() {
        let (outcome, events) = outcome_of(|w, f| w.hear(Message::Done, f));
        assert_eq!((outcome, events), (Outcome::Complete, vec![]));
    }

    #[test]
    fn what_the_agent_lost_is_a_failure_although_the_worker_was_done() {
        for before in [true, false] {
            let (outcome, _) = outcome_of(|w, f| {
                if before {
                    w.fail(no_room());
                }
                w.hear(Message::Done, f);
                w.fail(no_room());
            });
            assert_eq!(code(&outcome), Some(FailureCode::StorageFull));
        }
    }

    #[test]
    fn a_failed_trial_stays_one_whatever_the_agent_loses_afterwards() {
        let (outcome, _) = outcome_of(|w, f| {
            w.hear(failed_trial(), f);
            w.fail(no_room());
            w.hear(Message::Done, f);
        });
        assert_eq!(code(&outcome), Some(FailureCode::BackendError));
    }

    #[test]
    fn a_hang_behind_the_last_word_is_an_event() {
        let hang = || Failure::new(FailureCode::Hang, "teardown");
        let (outcome, events) = outcome_of(|w, f| {
            w.hear(Message::Done, f);
            w.overrun(hang());
            w.wedge(7);
        });
        assert_eq!(
            (outcome, events),
            (Outcome::Complete, vec!["bad_end".into()])
        );
        // Slow, and done only while it was being killed for it.
        let (outcome, _) = outcome_of(|w, f| {
            w.overrun(hang());
            w.hear(Message::Done, f);
        });
        assert_eq!(code(&outcome), Some(FailureCode::Hang));
    }

    #[test]
    fn a_wedge_says_more_than_the_time_out_before_it_and_less_than_an_error() {
        let hang = || Failure::new(FailureCode::Hang, "measure");
        let (outcome, _) = outcome_of(|w, _| {
            w.overrun(hang());
            w.wedge(7);
        });
        assert_eq!(code(&outcome), Some(FailureCode::Wedged));
        let (outcome, events) = outcome_of(|w, f| {
            w.hear(failed_trial(), f);
            w.overrun(hang());
            w.wedge(7);
        });
        assert_eq!(code(&outcome), Some(FailureCode::BackendError));
        assert_eq!(events, ["bad_end"]);
    }

    #[test]
    fn a_cancelled_repeat_names_its_stage() {
        let (outcome, _) = outcome_of(|w, f| {
            w.hear(
                Message::StageBegins {
                    stage: Stage::Warmup,
                },
                f,
            );
            w.cancel();
        });
        let stage = Stage::Warmup;
        assert_eq!(outcome, Outcome::Cancelled { stage });
    }
}
