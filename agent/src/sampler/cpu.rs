//! How busy each CPU is, and what a hypervisor took of it.

use edgedyno_shared::telemetry::{ChannelKind, Fidelity};
use edgedyno_shared::units::Nanos;

use super::board::Board;
use super::fault::Fault;
use super::files::Kept;
use super::offer::{Found, Offer, Tier};
use super::watch::Readings;
use super::{Sampler, Source, text};

/// USER_HZ is 100 on every Linux architecture that we build for.
const TICK_NS: i64 = 10_000_000;

const STAT: &str = "proc/stat";

/// The file has a line for each CPU and one word for each interrupt.
const ROOM: usize = 64 << 10;

const GONE: Fault = Fault::absent("the CPU is offline");

const BUSY: Offer = Offer {
    name: "cpu.N.busy",
    unit: "ns",
    kind: ChannelKind::Counter,
    fidelity: Fidelity::Measured,
    native_period: Some(Nanos(TICK_NS)),
    source: "/proc/stat",
    rights: "any user",
    boards: "every Linux",
    meaning: "Time in user, nice, system, interrupt and soft interrupt. It grows in steps of 10 ms, so a share needs 200 ms or more. The line goes when the CPU does.",
};

const STEAL: Offer = Offer {
    name: "cpu.N.steal",
    meaning: "Time that a hypervisor gave to others while this CPU wanted to run. Figures of a run with steal are not the board's alone.",
    ..BUSY
};

const RUNNABLE: Offer = Offer {
    name: "cpu.runnable",
    unit: "count",
    kind: ChannelKind::Gauge,
    native_period: None,
    meaning: "Threads that run or want to, at the moment of the read.",
    ..BUSY
};

pub(super) struct Cpu;

impl Sampler for Cpu {
    fn name(&self) -> &'static str {
        "cpu"
    }

    fn offers(&self) -> &'static [Offer] {
        &[BUSY, STEAL, RUNNABLE]
    }

    fn find(&self, board: &Board) -> Vec<Found> {
        let mut file = board.keep(STAT, ROOM);
        let cpus: Vec<u16> = match file.text() {
            Ok(text) => text::lines(text)
                .filter_map(cpu_of)
                .map(|(cpu, _)| cpu)
                .collect(),
            Err(fault) => {
                let spec = BUSY.spec(BUSY.name, BUSY.source);
                return vec![Found::Missing(spec, fault.reading(BUSY.source))];
            }
        };
        let mut channels = Vec::new();
        for cpu in &cpus {
            let source = format!("/{STAT} cpu{cpu}");
            channels.push(BUSY.spec(format!("cpu.{cpu}.busy"), &source));
            channels.push(STEAL.spec(format!("cpu.{cpu}.steal"), &source));
        }
        channels.push(RUNNABLE.spec(RUNNABLE.name, format!("/{STAT} procs_running")));
        vec![Found::new(Tier::Normal, channels, Stat { file, cpus })]
    }
}

struct Stat {
    file: Kept,
    /// Channels come in pairs, in this order.
    cpus: Vec<u16>,
}

impl Source for Stat {
    fn read(&mut self, out: &mut Readings<'_>) {
        let text = match out.timed(|| self.file.text()) {
            Ok(text) => text,
            Err(fault) => return out.put_all(fault),
        };
        let mut next = 0;
        for (cpu, rest) in text::lines(text).filter_map(cpu_of) {
            // Lines come in ascending order; those that are missing have gone offline.
            while self.cpus.get(next).is_some_and(|known| *known < cpu) {
                put(out, next, Err(GONE));
                next += 1;
            }
            if self.cpus.get(next) == Some(&cpu) {
                put(out, next, times(rest));
                next += 1;
            }
        }
        for left in next..self.cpus.len() {
            put(out, left, Err(GONE));
        }
        out.put(2 * self.cpus.len(), text::figure(text, b"procs_running "));
    }
}

fn put(out: &mut Readings<'_>, cpu: usize, times: Result<(i64, i64), Fault>) {
    out.put(2 * cpu, times.map(|(busy, _)| busy));
    out.put(2 * cpu + 1, times.map(|(_, steal)| steal));
}

/// Number of the CPU and the figures behind it, for a line that begins with `cpuN`.
fn cpu_of(line: &[u8]) -> Option<(u16, &[u8])> {
    let rest = line.strip_prefix(b"cpu")?;
    let end = rest.iter().position(|byte| *byte == b' ')?;
    let number = text::number(&rest[..end])?;
    Some((u16::try_from(number).ok()?, &rest[end..]))
}

/// Busy and stolen nanoseconds: user nice system idle iowait irq softirq steal guest guest_nice
/// (proc_stat(5)). Guest time is inside user already.
fn times(figures: &[u8]) -> Result<(i64, i64), Fault> {
    const SHORT: Fault = Fault::parse("fewer figures than a CPU line has");
    let mut ticks = [0_i64; 8];
    let mut words = text::words(figures);
    for tick in &mut ticks {
        *tick = words.next().and_then(text::number).ok_or(SHORT)?;
    }
    let [user, nice, system, _idle, _iowait, irq, softirq, steal] = ticks;
    let busy = [user, nice, system, irq, softirq];
    let busy = busy
        .into_iter()
        .try_fold(0_i64, i64::checked_add)
        .and_then(|ticks| ticks.checked_mul(TICK_NS));
    let steal = steal.checked_mul(TICK_NS);
    let beyond = Fault::parse("a value beyond what 64 bits hold");
    Ok((busy.ok_or(beyond)?, steal.ok_or(beyond)?))
}

#[cfg(test)]
mod tests {
    use edgedyno_shared::telemetry::Quality;
    use proptest::prelude::*;

    use super::*;
    use crate::sampler::testing::Tree;

    const TWO: &str = "cpu  30 0 0 100 0 0 0 0 0 0\ncpu0 10 1 2 50 7 3 4 5 9 9\ncpu1 20 0 0 50 0 0 0 0 0 0\nintr 1\nprocs_running 3\n";

    #[test]
    fn busy_leaves_out_idle_waiting_stolen_and_guest() {
        let tree = Tree::with(&[(STAT, TWO)]);
        let readings = tree.read(&Cpu);
        // (10 + 1 + 2 + 3 + 4) ticks of 10 ms.
        assert_eq!(readings["cpu.0.busy"], Ok(200_000_000));
        assert_eq!(readings["cpu.0.steal"], Ok(50_000_000));
        assert_eq!(readings["cpu.1.busy"], Ok(200_000_000));
        assert_eq!(readings["cpu.runnable"], Ok(3));
    }

    #[test]
    fn a_cpu_that_goes_offline_is_absent_and_not_zero() {
        let tree = Tree::with(&[(STAT, TWO)]);
        let mut watch = tree.watch(&Cpu);
        tree.set(
            STAT,
            "cpu  30\ncpu1 21 0 0 50 0 0 0 0 0 0\nprocs_running 1\n",
        );
        let readings = watch.again();
        assert_eq!(readings["cpu.0.busy"].unwrap_err().quality, Quality::Absent);
        assert_eq!(readings["cpu.1.busy"], Ok(210_000_000));
    }

    proptest! {
        #[test]
        fn no_line_makes_it_panic(line: Vec<u8>) {
            let _ = (cpu_of(&line), times(&line));
        }
    }
}
