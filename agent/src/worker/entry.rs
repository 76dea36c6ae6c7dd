//! What a worker does from its first message to its last.

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::thread;

use edgedyno_shared::columns::{Role, TrialSchema};
use edgedyno_shared::repeat::{
    InputsUsed, Memory, Moment, RuntimeUsed, Stage, StageSpan, TextEvent,
};
use edgedyno_shared::units::{Bytes, Nanos};
use edgedyno_shared::wire::failure::{Failure, FailureCode};
use edgedyno_shared::wire::frame::{self, Frame};
use edgedyno_shared::wire::record::Record;

use edgedyno_sys::kernel::process::set_data_limit;
use nix::sys::resource::{Resource, setrlimit};
use nix::unistd::alarm;

use super::calls::Calls;
use super::job::Job;
use super::message::{GO, MESSAGE, Message, STOP, TASK, Task, WINDOW};
use super::{bindings, memory, placement, probe};
use crate::arena::ArenaWriter;
use crate::arena::layout::FILE_BYTES;
use crate::backend::{self, Runner, Runtime};
use crate::clock::{Clock, Monotonic};
use crate::trial::TimedLoop;
use crate::trial::timed_loop::{TrialFailed, WarmupEnd};
use crate::trial::word::{LastWord, Told};
use crate::trial::{gap, rate};

/// Takes a task over `control` and does it. The daemon reads the rest from messages and arena.
pub fn run(control: UnixStream, arena: Option<File>) -> ExitCode {
    let mut worker = Worker {
        control,
        stage: Stage::Spawn,
        begun: Monotonic.now(),
    };
    match worker.task(arena) {
        Ok(()) => ExitCode::SUCCESS,
        // The daemon is gone, and with it everybody who could be told.
        Err(_) => ExitCode::FAILURE,
    }
}

/// What a worker is to its repeat.
#[derive(Clone, Copy)]
enum Part {
    /// The case that is measured.
    Case,
    /// Another model that keeps the board busy beside it.
    Tenant,
}

struct Worker {
    control: UnixStream,
    stage: Stage,
    begun: Nanos,
}

/// What ends a repeat early: a failure to tell of, or the way to the daemon itself.
enum Stop {
    Failed(Failure),
    Daemon(io::Error),
}

impl From<Failure> for Stop {
    fn from(failure: Failure) -> Self {
        Self::Failed(failure)
    }
}

impl From<io::Error> for Stop {
    fn from(why: io::Error) -> Self {
        Self::Daemon(why)
    }
}

impl Worker {
    fn task(&mut self, arena: Option<File>) -> io::Result<()> {
        self.send(&Message::Build(crate::BUILD_ID.into()))?;
        let frame =
            frame::read_blocking(&mut self.control, frame::LIMIT).map_err(io::Error::other)?;
        let Some(frame) = frame.filter(|f| f.kind == TASK) else {
            return Err(io::ErrorKind::UnexpectedEof.into());
        };
        match frame.decode().map_err(io::Error::other)? {
            Task::Probe { backend, path } => {
                self.send(&Message::Facts(probe::ask(&backend, path.as_ref())))?;
            }
            Task::Measure(job) => {
                let measured = self.measure(&job, arena, Part::Case);
                self.tell_failure(measured)?;
            }
            Task::Beside { job, deadline } => {
                set_deadline(deadline);
                let ran = self.measure(&job, arena, Part::Tenant);
                self.tell_failure(ran)?;
            }
        }
        self.send(&Message::Done)
    }

    fn tell_failure(&mut self, result: Result<(), Stop>) -> io::Result<()> {
        match result {
            Ok(()) => Ok(()),
            Err(Stop::Daemon(why)) => Err(why),
            Err(Stop::Failed(failure)) => self.send(&Message::Failed {
                stage: self.stage,
                failure,
            }),
        }
    }

    fn measure(&mut self, job: &Job, arena: Option<File>, part: Part) -> Result<(), Stop> {
        let arena = arena.ok_or_else(|| internal("the worker was given no arena"))?;
        placement::bind_all(&job.cpus).map_err(|why| cannot_place(job, &why))?;
        limit(job).map_err(|why| internal(format!("limits cannot be set: {why}")))?;
        self.record(Record::Memory(memory::read(Moment::Spawned)))?;
        let runtime = self.open(job)?;
        let mut runner = self.load_and_bind(runtime, job)?;
        let result = match part {
            Part::Case => self.trials(&mut *runner, job, &arena),
            Part::Tenant => self.beside(&mut *runner, job, &arena),
        };
        match result {
            // Said before anything is taken down: that may end the process in another way.
            Err(Stop::Failed(failure)) => {
                self.send(&Message::Failed {
                    stage: self.stage,
                    failure,
                })?;
            }
            result => result?,
        }
        self.enter(Stage::Teardown)?;
        drop(runner);
        self.leave()?;
        Ok(())
    }

    /// Reads the model once, so that loading does not time the disk, and opens the runtime.
    fn open(&mut self, job: &Job) -> Result<Box<dyn Runtime>, Stop> {
        let name = &job.order.case.backend;
        let backend = backend::find(name).ok_or_else(|| {
            Failure::new(
                FailureCode::Unsupported,
                format!("this agent has no backend `{name}`"),
            )
        })?;
        if !job.model_files.is_empty() {
            self.enter(Stage::Read)?;
            job.model_files
                .iter()
                .try_for_each(|file| read_through(file))?;
            self.leave()?;
        }
        self.enter(Stage::Dlopen)?;
        let runtime = backend.open(job.library.as_deref())?;
        if job.library.is_some() {
            self.leave()?;
        }
        let mut facts = runtime.facts();
        if let Some(reference) = &job.order.case.runtime {
            facts.sha256 = Some(reference.sha256);
        }
        let path = job.library.as_ref().map(|p| p.display().to_string());
        self.record(Record::Runtime(RuntimeUsed { path, facts }))?;
        self.record(Record::Memory(memory::read(Moment::Dlopened)))?;
        Ok(runtime)
    }

    fn load_and_bind(
        &mut self,
        runtime: Box<dyn Runtime>,
        job: &Job,
    ) -> Result<Box<dyn Runner>, Stop> {
        self.enter(Stage::Load)?;
        let mut model = runtime.load(job)?;
        self.leave()?;
        self.place(Moment::Loaded, job)?;
        self.record(Record::Memory(memory::read(Moment::Loaded)))?;
        self.enter(Stage::Compile)?;
        if model.compile()? {
            self.leave()?;
        }
        self.record(Record::Model(model.info().clone()))?;
        for effective in model.effective() {
            self.record(Record::Effective(effective))?;
        }
        // Begun twice: making the inputs belongs to the stage when it fails, and not to its time.
        self.enter(Stage::Bind)?;
        let sets = bindings::make(model.info(), job)?;
        let used = InputsUsed {
            sha256: sets.sha256(),
            sets: sets.sets.len() as u32,
        };
        self.record(Record::Inputs(used))?;
        self.enter(Stage::Bind)?;
        let runner = model.bind(sets, job)?;
        self.leave()?;
        Ok(runner)
    }

    /// Declares the columns and makes the loop of this job.
    fn timed<'a>(
        &mut self,
        runner: &'a mut dyn Runner,
        job: &Job,
        arena: &File,
    ) -> Result<TimedLoop<'a, Monotonic>, Stop> {
        let own = runner.columns();
        let own_columns = own.len();
        let period = rate::period(&job.order.case);
        let schedule = period.map(|_| rate::column());
        let schema = TrialSchema::with(own.into_iter().chain(schedule).collect());
        schema
            .check()
            .map_err(|why| Failure::new(FailureCode::Unsupported, why.to_string()))?;
        let columns = schema.columns.len();
        self.record(Record::Schema { lane: 0, schema })?;
        let arena = ArenaWriter::open(arena.as_fd(), columns)
            .map_err(|why| internal(format!("the arena cannot be mapped: {why}")))?;
        let gap = gap::of(&job.order.case).unwrap_or_default();
        let timed = TimedLoop::new(Monotonic, runner, arena, own_columns);
        Ok(timed.with_gap(gap).at_rate(period))
    }

    /// Placing between the two cold trials is in the stage's span and in neither trial.
    fn cold(&mut self, timed: &mut TimedLoop<'_, Monotonic>, job: &Job) -> Result<(), Stop> {
        self.enter(Stage::Cold)?;
        self.trial_result(timed.trial(Role::Cold))?;
        self.place(Moment::AfterFirstTrial, job)?;
        self.trial_result(timed.trial(Role::Cold))?;
        Ok(self.leave()?)
    }

    fn trials(&mut self, runner: &mut dyn Runner, job: &Job, arena: &File) -> Result<(), Stop> {
        let before = memory::read(Moment::Loaded);
        let mut timed = self.timed(runner, job, arena)?;
        self.cold(&mut timed, job)?;
        if job.order.is_loaded() {
            self.await_load()?;
        }

        self.enter(Stage::Warmup)?;
        let end = self.trial_result(timed.warm_up(&job.order.rules.warmup))?;
        self.leave()?;
        self.warmup_end(end)?;
        self.place(Moment::BeforeWindow, job)?;
        self.memory_beside_arena(Moment::BeforeWindow, &before)?;

        let calls = Calls::of(&job.order.case.backend);
        self.enter(Stage::Measure)?;
        let calls = calls.begin();
        let measured = timed.measure(&job.order.rules.measure);
        let calls = calls.end();
        self.trial_result(measured)?;
        self.leave()?;
        self.send(&Message::Calls(calls))?;
        drop(timed);

        self.enter(Stage::Teardown)?;
        self.after_window(job, &before)?;
        self.outputs(runner, job)
    }

    /// Trials beside another case, in its window and around it, until told to stop.
    fn beside(&mut self, runner: &mut dyn Runner, job: &Job, arena: &File) -> Result<(), Stop> {
        let before = memory::read(Moment::Loaded);
        let mut timed = self.timed(runner, job, arena)?;
        self.cold(&mut timed, job)?;
        self.place(Moment::BeforeWindow, job)?;
        self.memory_beside_arena(Moment::BeforeWindow, &before)?;
        self.await_load()?;
        let word = Arc::new(LastWord::default());
        listen(self.control.try_clone()?, &word)?;
        self.enter(Stage::Measure)?;
        let ran = timed.beside(&word);
        self.trial_result(ran)?;
        self.leave()?;
        self.enter(Stage::Teardown)?;
        self.after_window(job, &before)
    }

    fn after_window(&mut self, job: &Job, before: &Memory) -> Result<(), Stop> {
        let after = placement::read(Moment::AfterWindow, &job.cpus)
            .map_err(|why| internal(format!("threads cannot be read: {why}")))?;
        self.record(Record::Placement(after))?;
        Ok(self.memory_beside_arena(Moment::AfterWindow, before)?)
    }

    /// Cold is measured on an idle board; what follows is not.
    fn await_load(&mut self) -> io::Result<()> {
        self.send(&Message::AwaitsLoad)?;
        let frame =
            frame::read_blocking(&mut self.control, frame::LIMIT).map_err(io::Error::other)?;
        match frame {
            Some(frame) if frame.kind == GO => Ok(()),
            _ => Err(io::ErrorKind::UnexpectedEof.into()),
        }
    }

    fn memory_beside_arena(&mut self, moment: Moment, before: &Memory) -> io::Result<()> {
        let memory = memory::read_beside_arena(moment, Bytes(FILE_BYTES as u64), before);
        self.record(Record::Memory(memory))
    }

    fn warmup_end(&mut self, end: WarmupEnd) -> io::Result<()> {
        let mut say = |code: &str, what: &str| {
            let text = format!(
                "warm-up reached its maximum after {} trials {what}",
                end.trials
            );
            let event = TextEvent {
                lane: 0,
                trial: None,
                code: code.into(),
                text,
            };
            self.record(Record::Event(event))
        };
        if end.steady == Some(false) {
            say("warmup_not_steady", "and was not steady")?;
        }
        if !end.minima_met {
            say("warmup_cut_short", "before its minima were met")?;
        }
        Ok(())
    }

    /// A failed trial becomes an event beside its row, and the end of the repeat.
    fn trial_result<T>(&mut self, result: Result<T, TrialFailed>) -> Result<T, Stop> {
        let failed = match result {
            Ok(value) => return Ok(value),
            Err(failed) => failed,
        };
        let event = TextEvent {
            lane: 0,
            trial: Some(failed.trial),
            code: "trial_error".into(),
            text: failed.failure.detail.clone(),
        };
        self.record(Record::Event(event))?;
        Err(failed.failure.into())
    }

    fn outputs(&mut self, runner: &mut dyn Runner, job: &Job) -> Result<(), Stop> {
        let tensors = runner.outputs()?;
        let (checks, unusable) = bindings::check(&tensors, job);
        for check in checks {
            self.record(Record::Output(check))?;
        }
        for event in unusable {
            self.record(Record::Event(event))?;
        }
        if job.order.outputs.save {
            for record in bindings::artifacts(&tensors) {
                self.record(record)?;
            }
        }
        Ok(())
    }

    fn place(&mut self, moment: Moment, job: &Job) -> Result<(), Stop> {
        let placement = placement::read_and_bind(moment, &job.cpus);
        let placement = placement.map_err(|why| cannot_place(job, &why))?;
        Ok(self.record(Record::Placement(placement))?)
    }

    /// Begins a stage. One that is never left did not happen, or failed.
    fn enter(&mut self, stage: Stage) -> io::Result<()> {
        self.stage = stage;
        self.send(&Message::StageBegins { stage })?;
        // Sending is not part of the stage.
        self.begun = Monotonic.now();
        Ok(())
    }

    fn leave(&mut self) -> io::Result<()> {
        let span = StageSpan {
            stage: self.stage,
            start: self.begun,
            end: Monotonic.now(),
        };
        self.send(&Message::StageEnds(span))
    }

    fn record(&mut self, record: Record) -> io::Result<()> {
        self.send(&Message::Record(Box::new(record)))
    }

    fn send(&mut self, message: &Message) -> io::Result<()> {
        let frame = Frame::encode(MESSAGE, message).map_err(io::Error::other)?;
        frame::write_blocking(&mut self.control, &frame)
    }
}

/// Hears the daemon while the trials run: when the window opens, and when all is over. The end of the line
/// is an end too. This thread sleeps in the kernel but for those two moments.
fn listen(mut control: UnixStream, word: &Arc<LastWord>) -> Result<(), Stop> {
    let word = Arc::clone(word);
    let thread = thread::Builder::new().name("tenant-line".into());
    let heard = thread.spawn(move || {
        while let Ok(Some(frame)) = frame::read_blocking(&mut control, frame::LIMIT) {
            match frame.kind {
                WINDOW => word.say(Told::Measure),
                STOP => break,
                _ => {}
            }
        }
        word.say(Told::End);
    });
    let started = heard.map_err(|why| internal(format!("a thread cannot be made: {why}")))?;
    // It ends with the line, or with the process.
    drop(started);
    Ok(())
}

/// Whatever happens to the daemon, a tenant runs no longer: a signal ends it.
fn set_deadline(deadline: Nanos) {
    let left = (deadline - Monotonic.now()).0.max(0) as u64 / 1_000_000_000;
    alarm::set(u32::try_from(left).unwrap_or(u32::MAX - 1) + 1);
}

fn cannot_place(job: &Job, why: &io::Error) -> Failure {
    let detail = format!("CPUs {:?} cannot be used: {why}", job.cpus);
    Failure::new(FailureCode::SpawnFailed, detail).hint(
        "a control group or a container may leave this process fewer CPUs than the machine has",
    )
}

/// Reads a file to its end and forgets it: what is timed is the disk, or the page cache.
fn read_through(path: &Path) -> Result<(), Failure> {
    let unreadable = |why: io::Error| {
        let detail = format!("model file {} cannot be read: {why}", path.display());
        Failure::new(FailureCode::ModelUnreadable, detail)
    };
    let mut file = File::open(path).map_err(unreadable)?;
    let mut buffer = vec![0; 1 << 20];
    while file.read(&mut buffer).map_err(unreadable)? > 0 {}
    Ok(())
}

fn internal(detail: impl Into<String>) -> Failure {
    Failure::new(FailureCode::Internal, detail)
}

/// Limits of the process: memory as ordered, and no core file, whose writing would disturb the next repeat.
fn limit(job: &Job) -> io::Result<()> {
    setrlimit(Resource::RLIMIT_CORE, 0, 0)?;
    match job.order.limits.memory {
        Some(limit) => set_data_limit(limit.0),
        None => Ok(()),
    }
}
