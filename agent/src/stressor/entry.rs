//! What a stressor's process does from its first word to its last.

use std::fs::File;
use std::io;
use std::os::unix::net::UnixStream;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Condvar, Mutex, PoisonError, mpsc};
use std::thread;

use edgedyno_shared::load::{Effort, Kind, StressOrder, Throttle, kind_of};
use edgedyno_shared::units::{Bytes, Nanos};
use edgedyno_shared::wire::failure::{Failure, FailureCode};
use edgedyno_sys::kernel::process::{affinity_of, set_affinity};
use nix::unistd::{alarm, gettid};

use super::board::{Count, Writer};
use super::message::{GO, Ready, STOP, TASK, Task, Word, hear, say};
use super::pace::{Bucket, Pace};
use super::{Most, Settings, Stressor, Work, find, tool_run};
use crate::clock::{self, Clock, Monotonic};

/// Between two entries on the board.
const PUBLISH_PERIOD: Nanos = Nanos::from_millis(1);

/// Work between two looks at the clock that paces. A thread's CPU time is a system call, up to a microsecond
/// where machines are virtual: looked at after each piece it would cost as much as a copy within the caches.
const TURN: Nanos = Nanos(40_000);

/// Turns of an idle loop between two looks at the clock.
const TURNS: u32 = 32;

/// A sleep is no longer than this, so that an end is seen.
const LONGEST_SLEEP: Nanos = Nanos::from_millis(20);

/// Takes a task over `control`, does it, and counts on `board`.
pub fn run(control: UnixStream, board: &File) -> ExitCode {
    match serve(control, board) {
        Ok(()) => ExitCode::SUCCESS,
        // The daemon is gone, and with it everybody who could be told.
        Err(_) => ExitCode::FAILURE,
    }
}

fn serve(mut control: UnixStream, board: &File) -> io::Result<()> {
    let voice = Mutex::new(control.try_clone()?);
    say(&voice, &Word::Build(crate::BUILD_ID.into()))?;
    let task: Task = hear(&mut control, TASK)?
        .decode()
        .map_err(io::Error::other)?;
    set_deadline(&mut control, task.deadline)?;
    let writer = Writer::open(board, task.order.cpus.len())?;
    if let Some(tool) = find(&task.order.name).and_then(Stressor::tool) {
        return tool_run::serve(control, &voice, &task, &writer, tool);
    }
    let gate = Gate::default();
    let most = find(&task.order.name).and_then(Stressor::most);
    let bucket = bucket(&task.order, most);
    let (tell, ready) = mpsc::channel();
    thread::scope(|scope| {
        for at in 0..task.order.cpus.len() {
            let thread = Thread {
                at,
                task: &task,
                writer: &writer,
                gate: &gate,
                bucket: &bucket,
                most,
            };
            let (tell, voice) = (tell.clone(), &voice);
            scope.spawn(move || {
                if let Err(failure) = thread.run(&tell) {
                    // The daemon may be gone.
                    let _ = say(voice, &Word::Failed(failure));
                }
            });
        }
        drop(tell);
        let result = conduct(&mut control, &voice, &gate, &task, &ready);
        gate.close();
        result
    })?;
    say(
        &voice,
        &Word::Stopped {
            at: Monotonic.now(),
        },
    )
}

/// From ready to stop.
fn conduct(
    control: &mut UnixStream,
    voice: &Mutex<UnixStream>,
    gate: &Gate,
    task: &Task,
    ready: &mpsc::Receiver<Ready>,
) -> io::Result<()> {
    let mut all = Ready::default();
    for _ in &task.order.cpus {
        // A thread that fails says so itself.
        let Ok(one) = ready.recv() else {
            return hear(control, STOP).map(drop);
        };
        all.memory = sum(all.memory, one.memory);
        all.huge = sum(all.huge, one.huge);
        for note in one.notes {
            if !all.notes.contains(&note) {
                all.notes.push(note);
            }
        }
    }
    say(voice, &Word::Ready(all))?;
    hear(control, GO)?;
    let at = Monotonic.now();
    gate.open();
    say(voice, &Word::Started { at })?;
    // The end of the stream, or of the time, stops as well.
    hear(control, STOP).map(drop)
}

fn sum(a: Option<Bytes>, b: Option<Bytes>) -> Option<Bytes> {
    match (a, b) {
        (Some(a), Some(b)) => Some(Bytes(a.0 + b.0)),
        (one, other) => one.or(other),
    }
}

/// Whatever happens to the daemon, nothing runs longer: reading ends then, and a moment later a signal
/// ends the process.
fn set_deadline(control: &mut UnixStream, deadline: Nanos) -> io::Result<()> {
    let left = deadline - Monotonic.now();
    let left = Nanos(left.0.max(1_000_000)).as_duration();
    control.set_read_timeout(Some(left))?;
    alarm::set(u32::try_from(left.as_secs()).unwrap_or(u32::MAX - 2) + 2);
    Ok(())
}

/// Holds threads back until all begin, and tells them to end.
#[derive(Default)]
struct Gate {
    is_open: Mutex<bool>,
    opened: Condvar,
    is_over: AtomicBool,
}

impl Gate {
    fn wait(&self) {
        let mut is_open = self.is_open.lock().unwrap_or_else(PoisonError::into_inner);
        while !*is_open {
            is_open = self
                .opened
                .wait(is_open)
                .unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn open(&self) {
        *self.is_open.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.opened.notify_all();
    }

    fn close(&self) {
        self.is_over.store(true, Ordering::Relaxed);
        self.open();
    }

    fn is_over(&self) -> bool {
        self.is_over.load(Ordering::Relaxed)
    }
}

/// One thread of the stressor.
struct Thread<'a> {
    at: usize,
    task: &'a Task,
    writer: &'a Writer,
    gate: &'a Gate,
    /// That of all threads.
    bucket: &'a Bucket,
    most: Option<Most>,
}

/// How the rate of an order is shared by its threads; what has a bound keeps to it at full effort too.
fn bucket(order: &StressOrder, most: Option<Most>) -> Bucket {
    let effort = match (order.effort, most) {
        (Effort::Full, Some(most)) => Effort::Rate {
            per_second: most.per_second,
        },
        (effort, _) => effort,
    };
    Bucket::new(effort, throttle(order), order.cpus.len())
}

/// What waits by itself is paced by the wall, whatever was asked.
fn throttle(order: &StressOrder) -> Throttle {
    match kind_of(&order.name).is_some_and(Kind::waits) {
        true => Throttle::Sleep,
        false => order.throttle,
    }
}

impl Thread<'_> {
    fn run(&self, tell: &mpsc::Sender<Ready>) -> Result<(), Failure> {
        let cpu = self.task.order.cpus[self.at];
        bind(cpu)?;
        let mut work = self.prepare(cpu)?;
        self.publish(0, None);
        let memory = work.memory();
        // The one that listens waits for all of them.
        let _ = tell.send(Ready {
            memory: memory.bytes.map(Bytes),
            huge: memory.huge.map(Bytes),
            notes: work.notes(),
        });
        self.gate.wait();
        self.work(&mut *work)
            .map_err(|why| failed(format!("on CPU {cpu}: {why}")))?;
        std::hint::black_box(work.checksum());
        Ok(())
    }

    fn prepare(&self, cpu: u16) -> Result<Box<dyn Work>, Failure> {
        let task = self.task;
        let name = &task.order.name;
        let stressor =
            find(name).ok_or_else(|| failed(format!("there is no stressor `{name}`")))?;
        let threads = task.order.cpus.len().max(1) as u64;
        let settings = Settings {
            bytes: task.working_set.map_or(0, |all| all.0 / threads),
            seed: u64::from(cpu) + 1,
            scratch: &task.scratch,
        };
        let prepared = stressor.prepare(&settings);
        prepared.map_err(|why| failed(format!("{name} on CPU {cpu}: {why}")))
    }

    /// Works by the schedule until told otherwise.
    fn work(&self, work: &mut dyn Work) -> io::Result<()> {
        let order = &self.task.order;
        let throttle = throttle(order);
        let clock = || match throttle {
            Throttle::Spin => clock::thread_cpu_time(),
            Throttle::Sleep => Monotonic.now(),
        };
        let is_paced = order.effort != Effort::Full || self.most.is_some();
        let is_duty = matches!(order.effort, Effort::Duty { .. });
        let mut pace = Pace::new(self.bucket, clock());
        let mut done = 0;
        let mut published = self.publish(done, pace.worked());
        while !self.gate.is_over() {
            // At full effort all is due at any time: a look at the clock that paces would cost and say nothing.
            let own = if is_paced { clock() } else { Nanos::ZERO };
            if is_duty {
                pace.look(match throttle {
                    Throttle::Spin => own,
                    Throttle::Sleep => clock::thread_cpu_time(),
                });
            }
            self.check_most()?;
            let now = pace.time(own);
            let due = pace.due(now);
            if due > now {
                rest(throttle, due - now);
            } else {
                done += turn(work, |piece| {
                    pace.did(piece);
                    pace.due(now) <= now
                })?;
            }
            let at = Monotonic.now();
            if at - published >= PUBLISH_PERIOD {
                published = self.publish(done, pace.worked());
                if at >= self.task.deadline {
                    break;
                }
            }
        }
        self.publish(done, pace.worked());
        Ok(())
    }

    /// Ends what would wear something out.
    fn check_most(&self) -> io::Result<()> {
        match self.most {
            Some(most) if self.bucket.given() >= most.in_all => {
                let text = format!(
                    "it has done {} bytes, the most in one repeat: {}",
                    most.in_all, most.why
                );
                Err(io::Error::other(text))
            }
            _ => Ok(()),
        }
    }

    fn publish(&self, work: u64, worked: Option<Nanos>) -> Nanos {
        let count = Count {
            at: Monotonic.now(),
            work,
            cpu_time: clock::thread_cpu_time(),
            worked,
            tid: gettid().as_raw() as u32,
        };
        self.writer.publish(self.at, &count);
        count.at
    }
}

/// Pieces for [`TURN`], at least one, for as long as more is due by then; how much was done. `is_more_due` is
/// told of each piece.
fn turn(work: &mut dyn Work, mut is_more_due: impl FnMut(u64) -> bool) -> io::Result<u64> {
    let end = Monotonic.now() + TURN;
    let mut done = 0;
    loop {
        let piece = work.step()?;
        done += piece;
        if !is_more_due(piece) || Monotonic.now() >= end {
            return Ok(done);
        }
    }
}

fn rest(throttle: Throttle, span: Nanos) {
    match throttle {
        Throttle::Spin => (0..TURNS).for_each(|_| std::hint::spin_loop()),
        Throttle::Sleep => clock::pause(span.min(LONGEST_SLEEP).as_duration()),
    }
}

/// Binds the calling thread, and believes the kernel only.
fn bind(cpu: u16) -> Result<(), Failure> {
    let wanted = [usize::from(cpu)];
    let bound = set_affinity(0, &wanted).and_then(|()| affinity_of(0));
    match bound {
        Ok(found) if found == wanted => Ok(()),
        Ok(found) => Err(failed(format!(
            "bound to CPU {cpu} it may run on {found:?}"
        ))),
        Err(why) => Err(failed(format!("it cannot be bound to CPU {cpu}: {why}"))),
    }
}

fn failed(detail: String) -> Failure {
    Failure::new(
        FailureCode::StressorFailed,
        format!("a stressor failed: {detail}"),
    )
}

#[cfg(test)]
mod tests {
    use edgedyno_shared::wire::frame::{self, Frame};

    use super::super::board;
    use super::super::message::{Ready, WORD};
    use super::*;

    /// The daemon's end of the line to a stressor that spins in this process, after its `Ready`.
    fn spinning(lasts: Nanos) -> (UnixStream, File, thread::JoinHandle<ExitCode>) {
        let cpu = affinity_of(0).unwrap()[0] as u16;
        let (mut ours, theirs) = UnixStream::pair().unwrap();
        let board = board::create(1).unwrap();
        let of_theirs = board.try_clone().unwrap();
        let stressor = thread::spawn(move || run(theirs, &of_theirs));
        assert_eq!(word(&mut ours), Word::Build(crate::BUILD_ID.into()));
        let task = Task {
            order: StressOrder {
                name: "spin".into(),
                method: None,
                cpus: vec![cpu],
                effort: Effort::Full,
                throttle: Throttle::Spin,
                working_set: None,
            },
            working_set: None,
            scratch: "/nowhere".into(),
            deadline: Monotonic.now() + lasts,
        };
        tell(&mut ours, TASK, &task);
        assert_eq!(word(&mut ours), Word::Ready(Ready::default()));
        tell(&mut ours, GO, &());
        assert!(matches!(word(&mut ours), Word::Started { .. }));
        (ours, board, stressor)
    }

    fn word(from: &mut UnixStream) -> Word {
        hear(from, WORD).unwrap().decode().unwrap()
    }

    fn tell(to: &mut UnixStream, kind: u8, content: &impl serde::Serialize) {
        frame::write_blocking(to, &Frame::encode(kind, content).unwrap()).unwrap();
    }

    /// Pieces of one unit each; so many were done.
    struct Pieces(u64);

    impl Work for Pieces {
        fn step(&mut self) -> io::Result<u64> {
            self.0 += 1;
            Ok(1)
        }

        fn checksum(&self) -> u64 {
            self.0
        }
    }

    #[test]
    fn a_turn_does_what_is_due_and_at_least_one_piece() {
        let mut work = Pieces(0);
        assert_eq!(turn(&mut work, |_| false).unwrap(), 1);
        // Three of them, however long they take, unless the time of a turn was over before.
        let mut told = 0;
        let done = turn(&mut work, |piece| {
            told += piece;
            told < 3
        });
        let done = done.unwrap();
        assert!((1..=3).contains(&done) && told == done, "{done} {told}");
        let all = turn(&mut work, |_| true).unwrap();
        assert_eq!(work.0, 1 + done + all, "what is told is what was done");
    }

    #[test]
    fn what_has_bounds_keeps_to_them_and_what_waits_is_paced_by_the_wall() {
        let order = |name: &str, effort| StressOrder {
            name: name.into(),
            method: None,
            cpus: vec![0, 1],
            effort,
            throttle: Throttle::Spin,
            working_set: None,
        };
        let full = order("io", Effort::Full);
        let most = find("io").unwrap().most().unwrap();
        let bucket = bucket(&full, Some(most));
        let mut pace = Pace::new(&bucket, Nanos::ZERO);
        pace.due(Nanos::ZERO);
        pace.did(most.per_second);
        // A second's worth is done: the next piece is due in a second.
        assert_eq!(pace.due(Nanos::ZERO), Nanos::from_secs(1));
        assert_eq!(throttle(&full), Throttle::Sleep);
        assert_eq!(throttle(&order("chase", Effort::Full)), Throttle::Spin);
        let others = super::super::STRESSORS
            .iter()
            .filter(|s| s.most().is_some());
        assert_eq!(others.count(), 1, "only a disk wears out");
    }

    #[test]
    fn a_thread_ends_when_all_it_may_do_is_done() {
        let board = board::create(1).unwrap();
        let task = Task {
            order: StressOrder {
                name: "io".into(),
                method: None,
                cpus: vec![0],
                effort: Effort::Full,
                throttle: Throttle::Spin,
                working_set: None,
            },
            working_set: None,
            scratch: "/nowhere".into(),
            deadline: Monotonic.now() + Nanos::from_secs(60),
        };
        let most = Most {
            per_second: u64::MAX,
            in_all: 1_000,
            why: "as the test says",
        };
        let bucket = bucket(&task.order, Some(most));
        let thread = Thread {
            at: 0,
            task: &task,
            writer: &Writer::open(&board, 1).unwrap(),
            gate: &Gate::default(),
            bucket: &bucket,
            most: Some(most),
        };
        let mut work = Pieces(0);
        let why = thread.work(&mut work).unwrap_err().to_string();
        assert!(
            why.contains("1000 bytes") && why.ends_with("as the test says"),
            "{why}"
        );
        // Looked at between turns, so a turn more may be done.
        assert!(work.0 >= 999, "{}", work.0);
    }

    // One test, since the signal of the deadline is the process's: each run puts it off, and the end
    // takes it back.
    #[test]
    fn a_stressor_ends_when_told_when_nobody_listens_and_at_its_deadline() {
        let (mut ours, board, stressor) = spinning(Nanos::from_secs(60));
        thread::sleep(std::time::Duration::from_millis(20));
        tell(&mut ours, STOP, &());
        assert!(matches!(word(&mut ours), Word::Stopped { .. }));
        assert_eq!(stressor.join().unwrap(), ExitCode::SUCCESS);
        let count = board::read(&board, 0).unwrap();
        assert!(count.cpu_time > Nanos::ZERO && count.tid > 0);

        let (ours, _, stressor) = spinning(Nanos::from_secs(60));
        drop(ours);
        assert_eq!(stressor.join().unwrap(), ExitCode::FAILURE);

        let began = Monotonic.now();
        let (ours, _, stressor) = spinning(Nanos::from_millis(300));
        assert_eq!(stressor.join().unwrap(), ExitCode::FAILURE);
        assert!(Monotonic.now() - began >= Nanos::from_millis(300));
        drop(ours);
        alarm::cancel();
    }
}
