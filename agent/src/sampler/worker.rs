//! The worker as the kernel sees it: CPU time, waiting for a CPU, faults, memory, switches.
//!
//! All of it is bookkeeping that the kernel keeps anyway; for what it has to count anew see `footprint`.

use edgedyno_shared::telemetry::{ChannelKind, Fidelity};
use edgedyno_shared::units::Nanos;

use super::board::Board;
use super::fault::Fault;
use super::files::{Files, Kept, Numbers};
use super::offer::{Found, Offer, Tier};
use super::watch::Readings;
use super::{Sampler, Source, text};
use std::sync::Arc;

/// USER_HZ, see `cpu`.
const TICK_NS: i64 = 10_000_000;

/// Threads that are followed; more are counted with those, and not one by one.
const MOST_THREADS: usize = 512;

const RUN_DELAY: Offer = Offer {
    name: "worker.run_delay",
    unit: "ns",
    kind: ChannelKind::Counter,
    fidelity: Fidelity::Measured,
    native_period: None,
    source: "/proc/PID/task/*/schedstat",
    rights: "the worker's user",
    boards: "Linux with CONFIG_SCHED_INFO",
    meaning: "Time in which threads of the worker wanted to run and had to wait for a CPU, over all threads. The best single sign of disturbance. Read once more when the window of the trials ends, so that short windows have a figure too.",
};

const CPU_TIME: Offer = Offer {
    name: "worker.cpu",
    meaning: "CPU time of the worker's threads.",
    ..RUN_DELAY
};

const SLICES: Offer = Offer {
    name: "worker.slices",
    unit: "count",
    meaning: "Times that a thread of the worker was put on a CPU: twice as many context switches, wanted or not.",
    ..RUN_DELAY
};

const THREADS: Offer = Offer {
    name: "worker.threads",
    unit: "count",
    kind: ChannelKind::Gauge,
    source: "/proc/PID/stat",
    rights: "any user",
    boards: "every Linux",
    meaning: "Threads of the worker.",
    ..RUN_DELAY
};

const MINOR_FAULTS: Offer = Offer {
    name: "worker.minor_faults",
    kind: ChannelKind::Counter,
    meaning: "Page faults of the worker that needed no disk. In the window there should be next to none.",
    ..THREADS
};

const MAJOR_FAULTS: Offer = Offer {
    name: "worker.major_faults",
    meaning: "Page faults of the worker that waited for a disk.",
    ..MINOR_FAULTS
};

const USER_TIME: Offer = Offer {
    name: "worker.user",
    unit: "ns",
    native_period: Some(Nanos(TICK_NS)),
    meaning: "CPU time of the worker outside the kernel, in steps of 10 ms.",
    ..MINOR_FAULTS
};

const SYSTEM_TIME: Offer = Offer {
    name: "worker.system",
    meaning: "CPU time of the worker inside the kernel, in steps of 10 ms.",
    ..USER_TIME
};

const RSS: Offer = Offer {
    name: "worker.rss",
    unit: "bytes",
    source: "/proc/PID/stat",
    meaning: "Resident memory of the worker, with the arena's pages that it has touched.",
    ..THREADS
};

const CPU_NUMBER: Offer = Offer {
    name: "worker.on_cpu",
    unit: "cpu",
    kind: ChannelKind::State,
    meaning: "The CPU on which the worker's main thread ran last.",
    ..THREADS
};

const PREEMPTED: Offer = Offer {
    name: "worker.preempted",
    kind: ChannelKind::Counter,
    source: "/proc/PID/status nonvoluntary_ctxt_switches",
    meaning: "Times that the worker's main thread was put off its CPU while it wanted to go on.",
    ..THREADS
};

const WAITED: Offer = Offer {
    name: "worker.waited",
    source: "/proc/PID/status voluntary_ctxt_switches",
    meaning: "Times that the worker's main thread gave its CPU away to wait for something.",
    ..PREEMPTED
};

const SCHEDSTAT: [Offer; 3] = [CPU_TIME, RUN_DELAY, SLICES];

/// Offers read from `stat`, with the place behind the name in parentheses (proc_pid_stat(5): field 3 is
/// place 0), and their scale; the resident set is in pages.
const STAT: [(Offer, usize, Scale); 7] = [
    (MINOR_FAULTS, 7, Scale::One),
    (MAJOR_FAULTS, 9, Scale::One),
    (USER_TIME, 11, Scale::Ticks),
    (SYSTEM_TIME, 12, Scale::Ticks),
    (THREADS, 17, Scale::One),
    (RSS, 21, Scale::Pages),
    (CPU_NUMBER, 36, Scale::One),
];

#[derive(Clone, Copy)]
enum Scale {
    One,
    Ticks,
    Pages,
}

const STATUS: [(Offer, &[u8]); 2] = [
    (WAITED, b"voluntary_ctxt_switches:"),
    (PREEMPTED, b"nonvoluntary_ctxt_switches:"),
];

pub(super) struct Worker;

impl Sampler for Worker {
    fn name(&self) -> &'static str {
        "worker"
    }

    fn offers(&self) -> &'static [Offer] {
        &[
            CPU_TIME,
            RUN_DELAY,
            SLICES,
            MINOR_FAULTS,
            MAJOR_FAULTS,
            USER_TIME,
            SYSTEM_TIME,
            THREADS,
            RSS,
            CPU_NUMBER,
            WAITED,
            PREEMPTED,
        ]
    }

    fn find(&self, board: &Board) -> Vec<Found> {
        let Some(worker) = board.worker else {
            return vec![CPU_TIME.absent("no worker runs")];
        };
        let folder = format!("proc/{worker}");
        vec![
            schedstat(board, &folder),
            stat(board, &folder),
            status(board, &folder),
        ]
    }
}

fn schedstat(board: &Board, folder: &str) -> Found {
    let source = format!("/{folder}/task/*/schedstat");
    let specs = SCHEDSTAT
        .iter()
        .map(|offer| offer.spec(offer.name, &source));
    let task = format!("{folder}/task");
    let threads = Threads {
        files: Arc::clone(&board.files),
        numbers: board.files.numbers(&task).map_err(|why| Fault::from(&why)),
        task,
        threads: Vec::with_capacity(MOST_THREADS),
    };
    Found::new(Tier::Fast, specs.collect(), threads)
}

fn stat(board: &Board, folder: &str) -> Found {
    let path = format!("{folder}/stat");
    let specs = STAT
        .iter()
        .map(|(offer, ..)| offer.spec(offer.name, format!("/{path}")));
    let stat = Stat {
        file: board.keep(&path, 1024),
        page: edgedyno_sys::kernel::pages::page_size() as i64,
    };
    Found::new(Tier::Normal, specs.collect(), stat)
}

fn status(board: &Board, folder: &str) -> Found {
    let path = format!("{folder}/status");
    let specs = STATUS
        .iter()
        .map(|(offer, _)| offer.spec(offer.name, format!("/{path}")));
    let status = Status(board.keep(&path, 4096));
    Found::new(Tier::Slow, specs.collect(), status)
}

struct Threads {
    files: Arc<dyn Files>,
    numbers: Result<Box<dyn Numbers>, Fault>,
    task: String,
    /// By their numbers.
    threads: Vec<Thread>,
}

/// A thread and the figures it had when it was last seen: those of one that has ended stay in the sums.
struct Thread {
    number: u32,
    file: Option<Kept>,
    figures: [i64; 3],
}

impl Threads {
    /// Takes in threads that began since the last look, at every look: what a thread had used before it was
    /// seen would count as used at that moment. Opening one allocates; there are none to open in a window,
    /// where runtimes have their threads already.
    fn scan(&mut self) -> Result<(), Fault> {
        let (files, task, threads) = (&self.files, &self.task, &mut self.threads);
        let numbers = self.numbers.as_mut().map_err(|fault| *fault)?;
        // One that ended and one that began look alike by their count: the first shows when it is read.
        if numbers.links() == Some(2 + alive(threads)) {
            return Ok(());
        }
        let listed = numbers.each(&mut |number| {
            let place = threads.binary_search_by_key(&number, |thread| thread.number);
            let Some(place) = place.err().filter(|_| threads.len() < MOST_THREADS) else {
                return;
            };
            let path = format!("{task}/{number}/schedstat");
            let thread = Thread {
                number,
                file: Some(Kept::open(&**files, &path, 128)),
                figures: [0; 3],
            };
            threads.insert(place, thread);
        });
        listed.map_err(|why| Fault::from(&why))
    }

    fn sums(&mut self) -> Result<[i64; 3], Fault> {
        const NOTHING_KEPT: Fault = Fault::absent("this kernel keeps no times of threads");
        let mut sums = [0_i64; 3];
        let mut latest = Err(Fault::absent("no thread was seen"));
        for thread in &mut self.threads {
            if let Some(file) = &mut thread.file {
                match file.text().and_then(figures) {
                    Ok(figures) => {
                        thread.figures = figures;
                        latest = Ok(());
                    }
                    Err(fault) => {
                        thread.file = None;
                        latest = latest.or(Err(fault));
                    }
                }
            }
            for (sum, figure) in sums.iter_mut().zip(thread.figures) {
                *sum = sum.saturating_add(figure);
            }
        }
        // One that keeps nothing writes zeros, and who is read was put on a CPU at least once.
        latest.and(match sums {
            [0, 0, 0] => Err(NOTHING_KEPT),
            _ => Ok(sums),
        })
    }
}

impl Source for Threads {
    fn read(&mut self, out: &mut Readings<'_>) {
        let sums = out.timed(|| {
            self.scan()?;
            let before = alive(&self.threads);
            let sums = self.sums();
            if alive(&self.threads) == before {
                return sums;
            }
            self.scan()?;
            // Where none is left, why the last one could not be read is the reason.
            match alive(&self.threads) {
                0 => sums,
                _ => self.sums(),
            }
        });
        for slot in 0..SCHEDSTAT.len() {
            out.put(slot, sums.map(|sums| sums[slot]));
        }
    }
}

/// Threads that could be read when they were read last.
fn alive(threads: &[Thread]) -> u64 {
    threads
        .iter()
        .filter(|thread| thread.file.is_some())
        .count() as u64
}

/// CPU time, time waiting, times put on a CPU (Documentation/scheduler/sched-stats).
fn figures(held: &[u8]) -> Result<[i64; 3], Fault> {
    const SHORT: Fault = Fault::parse("fewer figures than schedstat has");
    let mut words = text::words(held.trim_ascii());
    let mut next = || words.next().and_then(text::number).ok_or(SHORT);
    Ok([next()?, next()?, next()?])
}

struct Stat {
    file: Kept,
    page: i64,
}

impl Source for Stat {
    fn read(&mut self, out: &mut Readings<'_>) {
        const SHORT: Fault = Fault::parse("fewer fields than stat has");
        let held = match out.timed(|| self.file.text()) {
            Ok(held) => held,
            Err(fault) => return out.put_all(fault),
        };
        // The name may hold blanks and parentheses itself: the last one ends it.
        let Some(end) = held.iter().rposition(|byte| *byte == b')') else {
            return out.put_all(SHORT);
        };
        let behind = held[end + 1..].trim_ascii();
        for (slot, (_, place, scale)) in STAT.iter().enumerate() {
            let value = text::words(behind).nth(*place).and_then(text::number);
            let scale = match scale {
                Scale::One => 1,
                Scale::Ticks => TICK_NS,
                Scale::Pages => self.page,
            };
            let value = value.and_then(|value| value.checked_mul(scale));
            out.put(slot, value.ok_or(SHORT));
        }
    }
}

struct Status(Kept);

impl Source for Status {
    fn read(&mut self, out: &mut Readings<'_>) {
        let read = out.timed(|| self.0.text());
        for (slot, (_, key)) in STATUS.iter().enumerate() {
            let value = read.and_then(|held| {
                let rest = text::after(held, key);
                let value = rest.map(<[u8]>::trim_ascii).and_then(text::number);
                value.ok_or(Fault::absent("the file has no such line"))
            });
            out.put(slot, value);
        }
    }
}

#[cfg(test)]
mod tests {
    use edgedyno_shared::telemetry::Quality;

    use super::*;
    use crate::sampler::testing::Tree;

    const LINE: &str = "42 (a ) (b) R 1 42 42 0 -1 4194560 900 0 3 0 12 5 0 0 20 0 4 0 100 5000000 256 18446744073709551615 1 1 0 0 0 0 0 0 0 0 0 0 17 6 0 0 0 0 0\n";

    fn tree() -> Tree {
        Tree::with(&[
            ("proc/42/stat", LINE),
            (
                "proc/42/status",
                "Name:\tx\nvoluntary_ctxt_switches:\t7\nnonvoluntary_ctxt_switches:\t9\n",
            ),
            ("proc/42/task/42/schedstat", "1000 20 3\n"),
            ("proc/42/task/43/schedstat", "500 5 1\n"),
        ])
    }

    #[test]
    fn a_worker_is_the_sum_of_its_threads() {
        let readings = tree().read(&Worker);
        assert_eq!(readings["worker.cpu"], Ok(1500));
        assert_eq!(readings["worker.run_delay"], Ok(25));
        assert_eq!(readings["worker.slices"], Ok(4));
        assert_eq!(readings["worker.minor_faults"], Ok(900));
        assert_eq!(readings["worker.major_faults"], Ok(3));
        assert_eq!(readings["worker.user"], Ok(120_000_000));
        assert_eq!(readings["worker.system"], Ok(50_000_000));
        assert_eq!(readings["worker.threads"], Ok(4));
        assert_eq!(readings["worker.on_cpu"], Ok(6));
        assert_eq!(readings["worker.waited"], Ok(7));
        assert_eq!(readings["worker.preempted"], Ok(9));
        let page = edgedyno_sys::kernel::pages::page_size() as i64;
        assert_eq!(readings["worker.rss"], Ok(256 * page));
    }

    #[test]
    fn a_thread_that_ended_stays_in_the_sums_and_a_new_one_joins() {
        let tree = tree();
        let mut watch = tree.watch(&Worker);
        tree.set("proc/42/task/43/schedstat", "");
        tree.set("proc/42/task/42/schedstat", "2000 30 4\n");
        tree.set("proc/42/task/44/schedstat", "7 1 1\n");
        let readings = watch.again();
        assert_eq!(readings["worker.cpu"], Ok(2000 + 500 + 7));
        assert_eq!(readings["worker.run_delay"], Ok(30 + 5 + 1));
    }

    #[test]
    fn a_kernel_that_keeps_no_times_is_absent_and_not_zero() {
        let tree = tree();
        for thread in [42, 43] {
            tree.set(&format!("proc/42/task/{thread}/schedstat"), "0 0 0\n");
        }
        let readings = tree.read(&Worker);
        for name in ["worker.cpu", "worker.run_delay", "worker.slices"] {
            assert_eq!(
                readings[name].unwrap_err().quality,
                Quality::Absent,
                "{name}"
            );
        }
        // One that began a moment ago may not have run yet.
        tree.set("proc/42/task/42/schedstat", "1000 0 1\n");
        assert_eq!(tree.read(&Worker)["worker.run_delay"], Ok(0));
    }

    /// A window may end long before the next reading, and the worker is gone by then.
    #[test]
    fn the_end_of_a_window_is_read_while_the_worker_is_there() {
        let tree = tree();
        let mut watch = tree.watch(&Worker);
        tree.set("proc/42/task/42/schedstat", "2000 30 4\n");
        assert_eq!(
            watch.after(Nanos::from_millis(40))["worker.run_delay"],
            Ok(25)
        );
        watch.watch.read_worker();
        let last = |name: &str| {
            let mut all = watch.watch.latest();
            all.find_map(|(channel, last)| (channel.name == name).then_some(last?))
        };
        assert_eq!(last("worker.run_delay"), Some(Ok(30 + 5)));
        assert_eq!(last("worker.cpu"), Some(Ok(2000 + 500)));
    }

    /// What it had used before would otherwise count as used in a window that began meanwhile.
    #[test]
    fn a_new_thread_joins_at_the_next_reading() {
        let tree = tree();
        let mut watch = tree.watch(&Worker);
        tree.set("proc/42/task/41/schedstat", "900 0 0\n");
        let readings = watch.after(Nanos::from_millis(100));
        assert_eq!(readings["worker.cpu"], Ok(1500 + 900));
    }
}
