//! The load of one repeat: its stressors and tenants started together, watched, and ended.

use std::path::Path;
use std::time::Duration;

use edgedyno_shared::load::Load;
use edgedyno_shared::methods;
use edgedyno_shared::order::RepeatOrder;
use edgedyno_shared::units::Nanos;
use edgedyno_shared::wire::failure::{Failure, FailureCode};
use edgedyno_shared::wire::record::Record;
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep_until, timeout};

use super::message::{GO, STOP, TASK, Task, Word};
use super::process::{self, Process};
use super::tenant::{self, Heard, News};
use super::{caps, find, tool_run};
use crate::clock::{Clock, Monotonic};
use crate::daemon::repeat_folder::RepeatFolder;
use crate::facts::Kernel;
use crate::worker::job::Job;
use crate::worker::spawn::SelfExec;

/// Between two readings of what was achieved.
pub(super) const SAMPLE_PERIOD: Nanos = Nanos::from_millis(100);

/// Until every stressor has touched its memory, even on a slow board.
const PREPARE_LIMIT: Nanos = Nanos::from_secs(60);

/// For a stressor to say its last word.
const STOP_PATIENCE: Duration = Duration::from_secs(1);

/// For a tenant to end the trial that it is in, however long its trials are.
const LONGEST_TRIAL: Duration = Duration::from_secs(10);

/// What a load is started with.
pub struct Ground<'a> {
    pub exec: &'a SelfExec,
    pub kernel: &'a Kernel,
    /// A folder for files of stressors.
    pub scratch: &'a Path,
    /// Where trials of tenants go.
    pub folder: &'a RepeatFolder,
    /// A job for each tenant of the case, in its order.
    pub tenants: Vec<Job>,
}

/// Stressors and tenants of one repeat.
pub struct LoadRun {
    processes: Vec<Process>,
    tenants: Vec<tenant::Process>,
    /// Records of those that could not be started, and why the first of them could not.
    not_started: Vec<Record>,
    refused: Option<Failure>,
    words: mpsc::Receiver<Heard>,
    phase: Phase,
    settle: Duration,
    deadline: Nanos,
    scratch: std::path::PathBuf,
    next_sample: Instant,
    /// When rings of tenants are looked at next.
    next_take: Instant,
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
    /// Everything has run for the time asked for.
    Settled,
    /// The repeat cannot be what its condition says: never something less instead.
    Failed(Failure),
    /// To be kept with the repeat.
    Record(Box<Record>),
}

impl LoadRun {
    /// Starts a process for each stressor and each tenant. What the board cannot bear or does not have
    /// fails as soon as somebody listens, and leaves its records all the same.
    pub fn start(order: &RepeatOrder, ground: Ground<'_>) -> Self {
        let (give, words) = mpsc::channel(16);
        let now = Instant::now();
        let mut load = Self {
            processes: Vec::new(),
            tenants: Vec::new(),
            not_started: Vec::new(),
            refused: None,
            words,
            phase: Phase::Preparing {
                limit: now + prepare_limit(order).as_duration(),
            },
            settle: order.load.settle.as_duration(),
            deadline: Monotonic.now() + longest(order),
            scratch: ground.scratch.to_owned(),
            next_sample: now,
            next_take: now,
        };
        if let Err(why) = load.start_all(order, ground, &give) {
            load.leave_out(order, &why);
            load.refused = Some(why);
        }
        load
    }

    fn start_all(
        &mut self,
        order: &RepeatOrder,
        ground: Ground<'_>,
        give: &mpsc::Sender<Heard>,
    ) -> Result<(), Failure> {
        caps::check_temperature(ground.kernel)?;
        caps::check_wear(&order.load, order.rules.measure.duration)?;
        let stressors = &order.load.stressors;
        for (number, stressor) in stressors.iter().enumerate() {
            let known = known(&stressor.name)?;
            let count = stressors.len();
            let share = caps::share(ground.kernel, known, stressor, count, ground.scratch)?;
            let process = Process::start(ground.exec, stressor, share, number, give.clone());
            self.processes.push(process.map_err(|why| {
                let detail = format!("stressor {} cannot be started: {why}", stressor.name);
                Failure::new(FailureCode::StressorFailed, detail)
            })?);
        }
        for (job, (number, tenant)) in ground
            .tenants
            .into_iter()
            .zip(order.case.tenants.iter().enumerate())
        {
            let files = ground.folder.lane(number as u16 + 1);
            let (exec, deadline) = (ground.exec, self.deadline);
            let process = tenant::Process::start(exec, job, tenant, files, number, deadline, give);
            self.tenants.push(process.map_err(|why| {
                let detail = format!("tenant {} cannot be started: {why}", tenant.model.name);
                Failure::new(FailureCode::TenantFailed, detail)
            })?);
        }
        Ok(())
    }

    /// Those that were not started have records too.
    fn leave_out(&mut self, order: &RepeatOrder, why: &Failure) {
        let stressors = order.load.stressors.iter().skip(self.processes.len());
        self.not_started
            .extend(stressors.map(|order| process::not_started(order, why)));
        let tenants = order.case.tenants.iter().enumerate();
        let tenants = tenants.skip(self.tenants.len());
        self.not_started
            .extend(tenants.map(|(number, tenant)| tenant::not_started(number, tenant, why)));
    }

    /// The next thing to know of. Nothing is lost when this is dropped half-way.
    pub async fn next(&mut self) -> Happening {
        if let Some(why) = self.refused.take() {
            return self.give_up(why);
        }
        loop {
            let next_look = self.next_look();
            let happening = tokio::select! {
                Some(heard) = self.words.recv() => self.hear(heard),
                () = sleep_until(next_look) => self.look(),
            };
            if let Some(happening) = happening {
                return happening;
            }
        }
    }

    fn next_look(&self) -> Instant {
        let own = match self.phase {
            Phase::Preparing { limit } => limit,
            Phase::Settling { until } => until.min(self.next_sample),
            Phase::Running | Phase::Stopping => self.next_sample,
        };
        match self.tenants.is_empty() {
            true => own,
            false => own.min(self.next_take),
        }
    }

    fn look(&mut self) -> Option<Happening> {
        let now = Instant::now();
        if now >= self.next_take
            && let Some(happening) = self.look_at_tenants(now)
        {
            return Some(happening);
        }
        match self.phase {
            Phase::Preparing { limit } if now >= limit => {
                let detail = "the load was not ready in time";
                let why = Failure::new(FailureCode::StressorFailed, detail);
                return Some(self.give_up(why));
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

    fn look_at_tenants(&mut self, now: Instant) -> Option<Happening> {
        let mut failed = None;
        for (number, tenant) in self.tenants.iter_mut().enumerate() {
            if tenant.look().is_some() {
                failed.get_or_insert(number);
            }
        }
        let interval = self.tenants.iter().map(tenant::Process::interval).min();
        let period = SAMPLE_PERIOD.as_duration();
        self.next_take = now + interval.unwrap_or(period).min(period);
        self.without_tenant(failed?)
    }

    /// A repeat cannot begin without a tenant; one that has begun goes on, and is marked by the record.
    fn without_tenant(&mut self, number: usize) -> Option<Happening> {
        match self.phase {
            Phase::Running | Phase::Stopping => None,
            Phase::Preparing { .. } | Phase::Settling { .. } => {
                let why = self.tenants[number].failure();
                Some(self.give_up(why))
            }
        }
    }

    /// Ends it all; what was achieved so far stays to be told.
    fn give_up(&mut self, why: Failure) -> Happening {
        if self.phase != Phase::Stopping {
            self.sample();
            self.processes.iter_mut().for_each(Process::window_ends);
        }
        self.stop();
        Happening::Failed(why)
    }

    fn sample(&mut self) {
        if matches!(self.phase, Phase::Settling { .. } | Phase::Running) {
            self.processes.iter_mut().for_each(Process::sample);
        }
    }

    fn hear(&mut self, heard: Heard) -> Option<Happening> {
        match heard {
            Heard::Stressor(number, word) => self.hear_stressor(number, word),
            Heard::Tenant(number, said) => match self.tenants[number].hear(said)? {
                News::Record(record) => Some(Happening::Record(Box::new(record))),
                News::Ready => {
                    self.go_when_all_are_ready();
                    None
                }
                News::Failed => self.without_tenant(number),
            },
        }
    }

    fn hear_stressor(&mut self, number: usize, word: Option<Word>) -> Option<Happening> {
        let process = &mut self.processes[number];
        match word {
            Some(Word::Build(build)) if build != crate::BUILD_ID => {
                let detail = format!(
                    "the stressor is build {build}, the agent is {}",
                    crate::BUILD_ID
                );
                let failure = Failure::new(FailureCode::BuildMismatch, detail);
                return Some(self.without_stressor(number, failure.hint("restart the agent")));
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
                self.go_when_all_are_ready();
            }
            Some(Word::Started { at }) => {
                process.started = Some(at);
                process.read_back(false);
                self.settle_when_all_have_started();
            }
            Some(Word::Tool(used)) => process.tool = Some(used),
            Some(Word::Stopped { at }) => process.stopped = Some(at),
            Some(Word::Failed(failure)) => return Some(self.without_stressor(number, failure)),
            None => {
                process.is_over = true;
                if self.phase != Phase::Stopping {
                    let name = &process.order.name;
                    let detail = format!("stressor {name} ended before it was told to");
                    let failure = Failure::new(FailureCode::StressorFailed, detail);
                    return Some(self.without_stressor(number, failure));
                }
            }
        }
        None
    }

    fn without_stressor(&mut self, number: usize, why: Failure) -> Happening {
        self.processes[number].fail(why.clone());
        self.give_up(why)
    }

    fn go_when_all_are_ready(&mut self) {
        let stressors = self.processes.iter().all(|process| process.ready.is_some());
        if stressors && self.tenants.iter().all(tenant::Process::is_ready) {
            self.processes.iter_mut().for_each(|p| p.tell(GO, &()));
            self.tenants.iter_mut().for_each(tenant::Process::begin);
            self.settle_when_all_have_started();
        }
    }

    /// Tenants have started as soon as they were told.
    fn settle_when_all_have_started(&mut self) {
        if self.processes.iter().all(|p| p.started.is_some()) {
            let now = Instant::now();
            self.next_sample = now;
            self.phase = Phase::Settling {
                until: now + self.settle,
            };
        }
    }

    /// Marks the begin of the window in every thread's count.
    pub fn window_begins(&mut self) {
        self.sample();
        self.processes.iter_mut().for_each(Process::window_begins);
        let tenants = self.tenants.iter_mut();
        tenants.for_each(tenant::Process::window_begins);
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
        self.tenants.iter_mut().for_each(tenant::Process::stop);
    }

    /// Ends what still runs, and tells what was.
    pub async fn end(mut self) -> Vec<Record> {
        self.stop();
        let tenants = self.tenants.iter().map(tenant::Process::patience).max();
        let patience = tenants.map_or(STOP_PATIENCE, |p| p.clamp(STOP_PATIENCE, LONGEST_TRIAL));
        let patience = match self.processes.iter().any(Process::is_tool) {
            true => patience.max(tool_run::PATIENCE + STOP_PATIENCE),
            false => patience,
        };
        let mut records = std::mem::take(&mut self.not_started);
        let _ = timeout(patience, self.last_words(&mut records)).await;
        for process in &mut self.processes {
            process.reap(STOP_PATIENCE).await;
            // Its last word on the board, which lies behind the window.
            process.sample();
        }
        self.tenants.iter_mut().for_each(tenant::Process::kill);
        let _ = timeout(STOP_PATIENCE, self.last_words(&mut records)).await;
        let mut threads = 0;
        for (number, process) in self.processes.iter().enumerate() {
            records.extend(process.records(number, threads));
            threads += process.order.cpus.len();
        }
        for tenant in self.tenants {
            records.extend(tenant.records().await);
        }
        records
    }

    /// Listens until every process is gone.
    async fn last_words(&mut self, records: &mut Vec<Record>) {
        let is_over = |load: &Self| {
            let stressors = load.processes.iter().all(|process| process.is_over);
            stressors && load.tenants.iter().all(tenant::Process::is_over)
        };
        while !is_over(self) {
            match self.words.recv().await.map(|heard| self.hear(heard)) {
                Some(Some(Happening::Record(record))) => records.push(*record),
                Some(_) => {}
                None => return,
            }
        }
    }
}

/// How long it may take until all is ready.
fn prepare_limit(order: &RepeatOrder) -> Nanos {
    let models = match order.case.tenants.is_empty() {
        true => Nanos::ZERO,
        // Each ends by its own limits; together they get one time of both.
        false => order.limits.load + order.limits.compile,
    };
    Nanos(PREPARE_LIMIT.0.saturating_add(models.0))
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
        prepare_limit(order).0,
    ];
    let day = Nanos::from_secs(24 * 3600);
    let all = spans.into_iter().fold(0_i64, i64::saturating_add);
    Nanos(all).min(day)
}

/// Refuses what this board has not, before anything is started.
///
/// # Errors
/// `Unsupported` for an unknown stressor or one without a kernel here, `LoadRefused` for a way of a tool that
/// has no bound.
pub fn check(load: &Load) -> Result<(), Failure> {
    load.stressors.iter().try_for_each(|stressor| {
        let name = &stressor.name;
        if stressor.cpus.is_empty() {
            let detail = format!("stressor {name} is to run on no CPU");
            return Err(Failure::new(FailureCode::Protocol, detail));
        }
        let mut cpus = stressor.cpus.clone();
        cpus.sort_unstable();
        if cpus.windows(2).any(|pair| pair[0] == pair[1]) {
            let detail = format!("stressor {name} is to run on one CPU twice");
            return Err(Failure::new(FailureCode::Protocol, detail));
        }
        // Also where the tool is not on this board.
        methods::method_of(name, stressor.method.as_deref())
            .map_err(|why| Failure::new(FailureCode::LoadRefused, why))?;
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
