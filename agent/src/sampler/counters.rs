//! Counters of the memory controller and of the cores: one parser of what an event source says of itself.
//! Which sources count memory is a table (`controllers`).

use std::io;

use edgedyno_shared::device::Reading;
use edgedyno_shared::telemetry::{ChannelKind, Fidelity, Quality, TelemetryMode};
use edgedyno_sys::kernel::perf::{Count, Event};

use super::board::{Board, plain};
use super::controllers::{self, Controller, SOURCES, Sees, Way};
use super::fault::Fault;
use super::files::Counting;
use super::offer::{Found, Offer, Tier};
use super::watch::Readings;
use super::{Sampler, Source};
use crate::facts::parse_list;

const TRAFFIC: Offer = Offer {
    name: "ddr.PMU.read_bytes",
    unit: "bytes",
    kind: ChannelKind::Counter,
    fidelity: Fidelity::Measured,
    native_period: None,
    source: "perf_event_open with /sys/bus/event_source/devices/PMU",
    rights: "perf_event_paranoid 0 or less, or CAP_PERFMON",
    boards: "Intel (uncore_imc), AMD (amd_umc from Zen 4 on; amd_df up to Zen 3, an estimate), Rockchip mainline (rockchip_ddr), NXP (imx8_ddr, imx9_ddr), Amlogic (meson_ddr_bw), HiSilicon (hisi_*_ddrc), Marvell (mrvl_ddr_pmu), Arm (arm_dmc620), Ampere (ampere_mcu_pmu), Alibaba (ali_drw)",
    meaning: "Bytes that the memory controller read for everybody on the board: CPUs, accelerators and devices. `write_bytes` beside it, or `bytes` where both are counted in one.",
};

const PART: Offer = Offer {
    name: "port.PMU.read_bytes",
    fidelity: Fidelity::Estimated,
    boards: "Arm (arm_dsu: what a cluster of cores fetched and wrote back; arm_cmn: requests of the mesh to memory), NVIDIA Grace and its kin (nvidia_scf_pmu: CPUs; nvidia_pcie_pmu, nvidia_nvlink_c2c, nvidia_cnvlink_pmu)",
    meaning: "Bytes that some of the board moved, as the event source of that name counts them. It may be seen by others too, so it is no total and is never added to one. `write_bytes` or `bytes` beside it.",
    ..TRAFFIC
};

const CYCLES: Offer = Offer {
    name: "worker.cycles",
    unit: "count",
    source: "perf_event_open of the worker, outside the kernel",
    rights: "perf_event_paranoid 2 or less",
    boards: "boards whose kernel counts; only with `--telemetry fast`, since each switch of threads then saves and loads counters",
    meaning: "Cycles of the worker's threads, scaled up where counters take turns. Where cores are of several kinds, each kind has a counter of its own, and this is their sum.",
    ..TRAFFIC
};

const INSTRUCTIONS: Offer = Offer {
    name: "worker.instructions",
    meaning: "Instructions of the worker's threads.",
    ..CYCLES
};

const MISSES: Offer = Offer {
    name: "worker.cache_misses",
    meaning: "Cache misses as the processor defines them: on many Arm cores those of the first level, so no measure of memory traffic.",
    ..CYCLES
};

const STALLS: Offer = Offer {
    name: "worker.backend_stalls",
    meaning: "Cycles in which no instruction could be finished, mostly for want of memory.",
    ..CYCLES
};

/// An event of a core: its number among the generic ones (`PERF_TYPE_HARDWARE`), and its name in the sources that
/// the driver of Arm's cores makes, which are the events that it takes for the generic ones.
struct OfCore {
    offer: Offer,
    number: u64,
    arm: &'static str,
}

static CORE: [OfCore; 4] = [
    OfCore {
        offer: CYCLES,
        number: 0,
        arm: "cpu_cycles",
    },
    OfCore {
        offer: INSTRUCTIONS,
        number: 1,
        arm: "inst_retired",
    },
    OfCore {
        offer: MISSES,
        number: 3,
        arm: "l1d_cache_refill",
    },
    OfCore {
        offer: STALLS,
        number: 8,
        arm: "stall_backend",
    },
];

pub(super) struct Counters;

impl Sampler for Counters {
    fn name(&self) -> &'static str {
        "counters"
    }

    fn offers(&self) -> &'static [Offer] {
        &[TRAFFIC, PART, CYCLES, INSTRUCTIONS, MISSES, STALLS]
    }

    fn find(&self, board: &Board) -> Vec<Found> {
        let known = known(board);
        let mut found: Vec<Found> = known
            .iter()
            .flat_map(|(source, row)| of_controller(board, source, row))
            .collect();
        found.extend(nameless(board, &known));
        if !known.iter().any(|(_, row)| row.sees == Sees::Whole) {
            found
                .push(TRAFFIC.absent(format!("/{SOURCES} has no memory controller that is known")));
        }
        if let Some(worker) = board.worker.filter(|_| board.mode == TelemetryMode::Fast) {
            let kinds = kinds_of_cores(board);
            found.extend(CORE.iter().map(|row| of_core(board, worker, row, &kinds)));
        }
        found
    }
}

/// Sources of this board that count memory.
fn known(board: &Board) -> Vec<(String, &'static Controller)> {
    let sources = board.entries(SOURCES, "").unwrap_or_default();
    let known = sources.into_iter().filter_map(|source| {
        let row = controllers::row(board, &source)?;
        Some((source, row))
    });
    known.collect()
}

fn of_controller(board: &Board, source: &str, row: &Controller) -> Vec<Found> {
    let ways = [
        (Way::Read, "read_bytes"),
        (Way::Write, "write_bytes"),
        (Way::Both, "bytes"),
    ];
    let (begin, offer) = channel_of(row);
    let found = ways.into_iter().filter_map(|(way, what)| {
        let of_way = row.events.iter().filter(|(_, of, _)| *of == way);
        let (names, counters): (Vec<&str>, Vec<Vec<_>>) = of_way
            .filter_map(|(name, _, bytes)| Some((*name, counters(board, source, name, *bytes)?)))
            .unzip();
        let names = (!names.is_empty()).then(|| names.join(" "))?;
        let channel = format!("{begin}.{}.{what}", plain(source));
        let spec = offer.spec(channel, format!("perf {source}/{names}/"));
        let counters = counters.into_iter().flatten().collect();
        Some(Found::new(Tier::Normal, vec![spec], Opened::new(counters)))
    });
    found.collect()
}

/// Rows of which this board has sources, and none of them lists an event that is known: a channel each, with that
/// reason. Sources of other things may share the beginning of a name with those of memory, and are left out.
fn nameless(board: &Board, known: &[(String, &'static Controller)]) -> Vec<Found> {
    let lists = |(source, row): &(String, &Controller)| {
        let folder = format!("{SOURCES}/{source}");
        let mut names = row.events.iter();
        names.any(|(name, ..)| terms(board, &folder, name).is_some())
    };
    let firsts = known.iter().enumerate().filter(|(at, (_, row))| {
        let is_same = |one: &&(String, &Controller)| std::ptr::eq(*row, one.1);
        let before = known[..*at].iter().any(|one| is_same(&one));
        !before && !known.iter().filter(is_same).any(lists)
    });
    let told = firsts.map(|(_, (source, row))| {
        let (begin, offer) = channel_of(row);
        let names: Vec<&str> = row.events.iter().map(|(name, ..)| *name).collect();
        let channel = format!("{begin}.{}.read_bytes", plain(source));
        let spec = offer.spec(channel, format!("perf {source}"));
        let why = format!(
            "/{SOURCES}/{source}/events has none of {}: another kernel or chip names them otherwise",
            names.join(", ")
        );
        Found::Missing(spec, Reading::Absent(why))
    });
    told.collect()
}

/// How the names of a source's channels begin, and what they are.
fn channel_of(row: &Controller) -> (&'static str, Offer) {
    let (begin, offer) = match row.sees {
        Sees::Whole => ("ddr", TRAFFIC),
        Sees::Part => ("port", PART),
    };
    let fidelity = row.fidelity;
    (begin, Offer { fidelity, ..offer })
}

/// Counters of one event, running, one on each CPU that its source asks for; none where it has no such
/// event.
fn counters(
    board: &Board,
    source: &str,
    name: &str,
    bytes: Option<i64>,
) -> Option<Vec<Result<Counter, Fault>>> {
    const UNREAD: Fault = Fault::parse("the source's own description of the event cannot be read");
    let folder = format!("{SOURCES}/{source}");
    let terms = terms(board, &folder, name)?;
    let scale = scale(board, &folder, name).or(bytes.map(|bytes| bytes as f64));
    let Some((event, scale)) = event(board, &folder, &terms).zip(scale) else {
        return Some(vec![Err(UNREAD)]);
    };
    let open = |cpu| {
        let opened = board.files.count(event, None, Some(cpu));
        let count = opened.map_err(|why| Fault::from(&why))?;
        Ok(Counter { count, scale })
    };
    Some(cpus(board, &folder).into_iter().map(open).collect())
}

/// The terms of an event that a row names: the source's own and those behind, or the row's alone.
fn terms(board: &Board, folder: &str, name: &str) -> Option<String> {
    let (first, more) = name.split_once(',').unwrap_or((name, ""));
    if first.contains('=') {
        return Some(name.to_owned());
    }
    let own = board.line(&format!("{folder}/events/{first}"))?;
    Some(format!("{own},{more}"))
}

/// A channel of the worker's, counted by one counter or by one for each kind of core: time on a kind that is not
/// counted would seem to be time that the counters had no turn, so where one kind lacks there is no channel.
fn of_core(board: &Board, worker: u32, row: &OfCore, kinds: &[String]) -> Found {
    let source = match kinds {
        [] => row.offer.source.to_owned(),
        kinds => format!("{}, on {}", row.offer.source, kinds.join(" and ")),
    };
    let spec = row.offer.spec(row.offer.name, source);
    let events = match events_of(board, row, kinds) {
        Ok(events) => events,
        Err(kind) => {
            let why = format!("/{SOURCES}/{kind} does not say how its event is counted");
            return Found::Missing(spec, Quality::ParseError.reading(why));
        }
    };
    let open = |event| board.files.count(event, Some(worker as i32), None);
    let counters: io::Result<Vec<_>> = events.into_iter().map(open).collect();
    let cores = Cores {
        counters: counters.map_err(|why| Fault::from(&why)),
        highest: 0,
    };
    Found::new(Tier::Fast, vec![spec], cores)
}

/// Sources of the cores of a board that has several kinds of them; none where all are alike. Each counts on some
/// of the CPUs, which its `cpus` names; a generic event would be counted on those of one source only, and time on
/// the others would seem to be time that the counter had no turn.
fn kinds_of_cores(board: &Board) -> Vec<String> {
    let sources = board.entries(SOURCES, "").unwrap_or_default();
    let of_cores = |source: &String| board.has(&format!("{SOURCES}/{source}/cpus"));
    let kinds: Vec<String> = sources.into_iter().filter(of_cores).collect();
    match kinds.len() {
        0 | 1 => Vec::new(),
        _ => kinds,
    }
}

/// Events that are one of the worker's together, or the kind of core whose own cannot be told.
fn events_of<'a>(board: &Board, row: &OfCore, kinds: &'a [String]) -> Result<Vec<Event>, &'a str> {
    if kinds.is_empty() {
        return Ok(vec![core_event(row.number)]);
    }
    let of_kind = |source: &'a String| {
        let folder = format!("{SOURCES}/{source}");
        let own = terms(board, &folder, row.arm).and_then(|terms| event(board, &folder, &terms));
        // Since Linux 5.13 (of Arm's cores 6.6) a generic event names its source in its upper half.
        let extended = || {
            let number: u64 = board.line(&format!("{folder}/type"))?.parse().ok()?;
            Some(core_event(number << 32 | row.number))
        };
        let found = own.or_else(extended).ok_or(source.as_str())?;
        Ok(Event {
            exclude_kernel: true,
            inherit: true,
            ..found
        })
    };
    kinds.iter().map(of_kind).collect()
}

/// Every event of a source of memory traffic of this board, with each CPU that it is counted on.
pub(crate) fn controller_events(board: &Board) -> Vec<(Event, i32)> {
    let of_source = |(source, row): &(String, &Controller)| -> Vec<(Event, i32)> {
        let folder = format!("{SOURCES}/{source}");
        let cpus = cpus(board, &folder);
        let events = row.events.iter().filter_map(|(name, ..)| {
            let event = event(board, &folder, &terms(board, &folder, name)?)?;
            Some(cpus.iter().map(move |cpu| (event, *cpu)))
        });
        events.flatten().collect()
    };
    known(board).iter().flat_map(of_source).collect()
}

/// Whether an event is one that is counted of a worker on this board.
pub(crate) fn is_core_event(board: &Board, event: &Event) -> bool {
    let kinds = kinds_of_cores(board);
    let is_it = |row: &OfCore| events_of(board, row, &kinds).is_ok_and(|all| all.contains(event));
    CORE.iter().any(is_it)
}

fn core_event(config: u64) -> Event {
    Event {
        source: 0,
        config: [config, 0, 0],
        exclude_kernel: true,
        inherit: true,
    }
}

/// Counters of one event on all kinds of cores.
struct Cores {
    counters: Result<Vec<Box<dyn Counting>>, Fault>,
    /// What was told so far.
    highest: i64,
}

impl Cores {
    /// At any moment a thread is on one kind of core: together the counters ran for all the time, but for turns
    /// that they had to leave to others, which are made up for.
    fn sum(&mut self) -> Result<i64, Fault> {
        const UNREAD: Fault =
            Fault::parse("the source's own description of the event cannot be read");
        const NO_TURN: Fault = Fault::absent("the counter has not had its turn yet");
        let counters = self.counters.as_mut().map_err(|fault| *fault)?;
        let mut sum = Count {
            value: 0,
            enabled: 0,
            running: 0,
        };
        if counters.is_empty() {
            return Err(UNREAD);
        }
        for counter in counters {
            let count = counter.read().map_err(|why| Fault::from(&why))?;
            sum.value = sum.value.saturating_add(count.value);
            sum.running = sum.running.saturating_add(count.running);
            sum.enabled = sum.enabled.max(count.enabled);
        }
        match sum.running {
            0 => Err(NO_TURN),
            // They are read one after the other, so they may seem to have run for longer than there was.
            running if running >= sum.enabled => Ok(i64::try_from(sum.value).unwrap_or(i64::MAX)),
            running => {
                let whole = sum.value as f64 * sum.enabled as f64 / running as f64;
                Ok(whole.round() as i64)
            }
        }
    }
}

impl Source for Cores {
    fn read(&mut self, out: &mut Readings<'_>) {
        let sum = out.timed(|| self.sum());
        // What takes turns is estimated: it may seem to go back.
        let told = sum.map(|sum| {
            self.highest = self.highest.max(sum);
            self.highest
        });
        out.put(0, told);
    }
}

struct Counter {
    count: Box<dyn Counting>,
    scale: f64,
}

impl Counter {
    fn value(&mut self) -> Result<i64, Fault> {
        let count = self.count.read().map_err(|why| Fault::from(&why))?;
        // Counters that take turns see a part of the time: the whole is in proportion.
        match count.running {
            0 => Err(Fault::absent("the counter has not had its turn yet")),
            running => {
                let whole = count.value as f64 * count.enabled as f64 / running as f64;
                Ok((whole * self.scale).round() as i64)
            }
        }
    }
}

/// Counters that are one channel together.
struct Opened {
    counters: Result<Vec<Counter>, Fault>,
    /// What was told so far.
    highest: i64,
}

impl Opened {
    fn new(counters: Result<Vec<Counter>, Fault>) -> Self {
        Self {
            counters,
            highest: 0,
        }
    }
}

impl Source for Opened {
    fn read(&mut self, out: &mut Readings<'_>) {
        let counters = &mut self.counters;
        let sum: Result<i64, Fault> = out.timed(|| {
            let counters = counters.as_mut().map_err(|fault| *fault)?;
            let add = |sum: i64, counter: &mut Counter| Ok(sum.saturating_add(counter.value()?));
            counters.iter_mut().try_fold(0, add)
        });
        // They are read one after the other, and what takes turns is estimated: a sum may seem to go back.
        let told = sum.map(|sum| {
            self.highest = self.highest.max(sum);
            self.highest
        });
        out.put(0, told);
    }
}

/// The event that terms such as `event=0x04,umask=0x03` name, by the source's formats.
fn event(board: &Board, folder: &str, terms: &str) -> Option<Event> {
    let source = board.line(&format!("{folder}/type"))?.parse().ok()?;
    let mut config = [0_u64; 3];
    for term in terms
        .split(',')
        .map(str::trim)
        .filter(|term| !term.is_empty())
    {
        let (field, value) = term.split_once('=').unwrap_or((term, "1"));
        let value = number(value)?;
        let direct = ["config", "config1", "config2"]
            .iter()
            .position(|word| *word == field);
        match direct {
            Some(word) => config[word] |= value,
            None => place(
                &board.line(&format!("{folder}/format/{field}"))?,
                value,
                &mut config,
            )?,
        }
    }
    Some(Event {
        source,
        config,
        exclude_kernel: false,
        inherit: false,
    })
}

/// Puts a value into the bits of a format: `config:0-7,32-35`, the lowest bits first.
fn place(format: &str, value: u64, config: &mut [u64; 3]) -> Option<()> {
    let (word, ranges) = format.trim().split_once(':')?;
    let word = ["config", "config1", "config2"]
        .iter()
        .position(|known| *known == word)?;
    let mut rest = value;
    for range in ranges.split(',') {
        let (low, high) = range.split_once('-').unwrap_or((range, range));
        let (low, high): (u32, u32) = (low.trim().parse().ok()?, high.trim().parse().ok()?);
        let width = high
            .checked_sub(low)?
            .checked_add(1)
            .filter(|_| high < 64)?;
        let mask = if width == 64 {
            u64::MAX
        } else {
            (1 << width) - 1
        };
        config[word] |= (rest & mask) << low;
        rest = rest.checked_shr(width).unwrap_or(0);
    }
    Some(())
}

/// Bytes for one count, where the source has a scale and a unit that is one of size.
fn scale(board: &Board, folder: &str, name: &str) -> Option<f64> {
    let event = format!("{folder}/events/{name}");
    let scale: f64 = board.line(&format!("{event}.scale"))?.parse().ok()?;
    let unit = match board.line(&format!("{event}.unit")).as_deref() {
        Some("MiB" | "MB") => 1_048_576.0,
        Some("KiB" | "KB") => 1_024.0,
        Some("Bytes" | "bytes") | None => 1.0,
        Some(_) => return None,
    };
    Some(scale * unit)
}

/// CPUs that a source asks to be counted on: one for each of its dies or sockets.
fn cpus(board: &Board, folder: &str) -> Vec<i32> {
    /// More than any board has; a file that says more is not believed.
    const MOST: usize = 64;
    let mask = board.line(&format!("{folder}/cpumask"));
    let cpus = mask.and_then(|mask| parse_list(&mask)).unwrap_or_default();
    let cpus: Vec<i32> = cpus.into_iter().take(MOST).map(i32::from).collect();
    match cpus.is_empty() {
        true => vec![0],
        false => cpus,
    }
}

fn number(text: &str) -> Option<u64> {
    match text.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16).ok(),
        None => text.parse().ok(),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use edgedyno_shared::units::Nanos;
    use proptest::prelude::*;

    use super::*;
    use crate::sampler::Watch;
    use crate::sampler::files::{Files, Numbers, ReadAt, Root};
    use crate::sampler::testing::{Tree, Turning};

    #[test]
    fn terms_are_put_where_the_formats_say() {
        let mut config = [0; 3];
        place("config:0-7", 0x04, &mut config).unwrap();
        place("config:8-15", 0x03, &mut config).unwrap();
        place("config1:0-3,32-35", 0xab, &mut config).unwrap();
        assert_eq!(config, [0x0304, 0x0a_0000_000b, 0]);
        for wrong in [
            "config",
            "config:8-0",
            "config:60-70",
            "config9:0",
            "config:x",
        ] {
            assert_eq!(place(wrong, 1, &mut [0; 3]), None, "{wrong}");
        }
    }

    #[test]
    fn an_event_of_a_memory_controller_is_read_from_its_description() {
        let imc = format!("{SOURCES}/uncore_imc_0");
        let tree = Tree::with(&[
            (&format!("{imc}/type"), "14\n"),
            (&format!("{imc}/cpumask"), "0,28\n"),
            (&format!("{imc}/format/event"), "config:0-7\n"),
            (&format!("{imc}/format/umask"), "config:8-15\n"),
            (
                &format!("{imc}/events/cas_count_read"),
                "event=0x04,umask=0x03\n",
            ),
            (
                &format!("{imc}/events/cas_count_read.scale"),
                "6.103515625e-5\n",
            ),
            (&format!("{imc}/events/cas_count_read.unit"), "MiB\n"),
        ]);
        let board = tree.board();
        let found = event(&board, &imc, "event=0x04,umask=0x03").unwrap();
        assert_eq!((found.source, found.config), (14, [0x0304, 0, 0]));
        // 2^-14 MiB are 64 bytes.
        let bytes = scale(&board, &imc, "cas_count_read").unwrap();
        assert!((bytes - 64.0).abs() < 1e-9);
        // There is a description and no counter behind it.
        let readings = tree.read(&Counters);
        let state = readings["ddr.uncore_imc_0.read_bytes"].unwrap_err().quality;
        assert_eq!(state.name(), "absent");
    }

    /// A machine whose counters show what they were told to count, half of the time.
    struct Shown(Root);

    impl Files for Shown {
        fn open(&self, path: &str) -> io::Result<Box<dyn ReadAt>> {
            self.0.open(path)
        }
        fn list(&self, folder: &str) -> io::Result<Vec<String>> {
            self.0.list(folder)
        }
        fn numbers(&self, folder: &str) -> io::Result<Box<dyn Numbers>> {
            self.0.numbers(folder)
        }
        fn count(
            &self,
            event: Event,
            _process: Option<i32>,
            _cpu: Option<i32>,
        ) -> io::Result<Box<dyn Counting>> {
            match event.config[0] {
                0 => Err(io::Error::from_raw_os_error(nix::libc::EACCES)),
                config => Ok(Box::new(Half(config))),
            }
        }
    }

    struct Half(u64);

    impl Counting for Half {
        fn read(&mut self) -> io::Result<Count> {
            Ok(Count {
                value: self.0,
                enabled: 10,
                running: 5,
            })
        }
    }

    #[test]
    fn events_of_one_way_are_one_channel() {
        let file = |name: &str| format!("{SOURCES}/uncore_imc_3/{name}");
        let tree = Tree::with(&[
            (&file("type"), "14\n"),
            (&file("format/event"), "config:0-15\n"),
            (&file("events/cas_count_read_sch0"), "event=3\n"),
            (&file("events/cas_count_read_sch1"), "event=100\n"),
            (&file("events/cas_count_write_sch0"), "event=7\n"),
            (&file("events/cas_count_write_sch1"), "event=0\n"),
        ]);
        // Twice what was counted in half of the time, 64 bytes each.
        let both = read_of(&tree, "ddr.uncore_imc_3.read_bytes");
        assert_eq!(both, Some(Ok(2 * (3 + 100) * 64)));
        // Half of them would be no total.
        let denied = read_of(&tree, "ddr.uncore_imc_3.write_bytes");
        let denied = denied.unwrap().unwrap_err();
        assert_eq!(denied.quality.name(), "denied");
    }

    /// What `find` gives where every counter shows its first word of configuration.
    fn read_of(tree: &Tree, name: &str) -> Option<Result<i64, Fault>> {
        let board = Board {
            files: Arc::new(Shown(tree.root())),
            ..tree.board()
        };
        let found = Counters.find(&board);
        let free = || Nanos::ZERO;
        let watch = Watch::new("s", found, board.mode, Turning::default(), free);
        let mut all = watch.latest();
        all.find_map(|(channel, last)| (channel.name == name).then_some(last?))
    }

    #[test]
    fn a_source_of_several_dies_is_counted_on_each() {
        let file = |name: &str| format!("{SOURCES}/ali_drw_21000/{name}");
        let tree = Tree::with(&[
            (&file("type"), "9\n"),
            (&file("cpumask"), "0,4-5\n"),
            (&file("format/event"), "config:0-7\n"),
            (&file("events/hif_rd"), "event=0x10\n"),
        ]);
        let read = read_of(&tree, "ddr.ali_drw_21000.read_bytes");
        // 16 on each of three CPUs, twice since half was seen, 64 bytes each.
        assert_eq!(read, Some(Ok(3 * 2 * 16 * 64)));
        assert_eq!(cpus(&tree.board(), "nowhere"), [0]);
        for (mask, expected) in [
            ("0-99", (0..64).collect()),
            ("1,x", vec![0]),
            ("3-1", vec![0]),
        ] {
            tree.set(&file("cpumask"), mask);
            assert_eq!(
                cpus(&tree.board(), &file("").replace("21000/", "21000")),
                expected,
                "{mask}"
            );
        }
        tree.set(&file("cpumask"), "0,4-5\n");
        assert_eq!(controller_events(&tree.board()).len(), 3);
    }

    #[test]
    fn what_is_in_another_count_is_taken_off_it() {
        let file = |name: &str| format!("{SOURCES}/imx9_ddr0/{name}");
        let tree = Tree::with(&[
            (&file("type"), "11\n"),
            (&file("identifier"), "imx93\n"),
            (&file("format/event"), "config:0-7\n"),
            (&file("format/counter"), "config:8-15\n"),
            (&file("events/ddrc_pm_0"), "event=0x0f\n"),
            (&file("events/ddrc_pm_2"), "event=0x11\n"),
            (&file("events/ddrc_pm_3"), "event=0x12\n"),
        ]);
        // Counter 1 for pm_0, 3 and 2 for the others.
        let read = read_of(&tree, "ddr.imx9_ddr0.read_bytes");
        assert_eq!(read, Some(Ok(2 * 0x010f * 16)));
        let written = read_of(&tree, "ddr.imx9_ddr0.write_bytes");
        assert_eq!(written, Some(Ok(2 * (0x0312 - 0x0211) * 32)));
    }

    #[test]
    fn a_source_that_lists_no_events_is_asked_by_the_terms_of_its_row() {
        // As Zen 4 has it: a format for each term, and no events.
        let file = |name: &str| format!("{SOURCES}/amd_umc_0/{name}");
        let tree = Tree::with(&[
            (&file("type"), "13\n"),
            (&file("cpumask"), "0\n"),
            (&file("format/event"), "config:0-7\n"),
            (&file("format/rdwrmask"), "config:8-9\n"),
        ]);
        let read = read_of(&tree, "ddr.amd_umc_0.read_bytes");
        assert_eq!(read, Some(Ok(2 * 0x010a * 64)));
        let written = read_of(&tree, "ddr.amd_umc_0.write_bytes");
        assert_eq!(written, Some(Ok(2 * 0x020a * 64)));
    }

    #[test]
    fn a_cache_of_a_chip_whose_memory_is_counted_is_not_missed() {
        let file = |name: &str| format!("{SOURCES}/{name}");
        let tree = Tree::with(&[
            (&file("hisi_sccl1_ddrc0/type"), "9\n"),
            (&file("hisi_sccl1_ddrc0/format/event"), "config:0-7\n"),
            (&file("hisi_sccl1_ddrc0/events/flux_rd"), "event=0x01\n"),
            (&file("hisi_sccl1_l3c0/type"), "10\n"),
            (&file("hisi_sccl1_l3c0/events/rd_cpipe"), "event=0x00\n"),
        ]);
        let found = Counters.find(&tree.board());
        let names: Vec<&str> = found
            .iter()
            .map(|found| match found {
                Found::Missing(spec, _) => spec.name.as_str(),
                Found::Source { channels, .. } => channels[0].name.as_str(),
            })
            .collect();
        assert_eq!(names, ["ddr.hisi_sccl1_ddrc0.read_bytes"]);
    }

    #[test]
    fn every_known_source_gives_channels_or_says_that_its_events_are_missing() {
        for prefix in controllers::prefixes() {
            let file = |name: &str| format!("{SOURCES}/{prefix}_0/{name}");
            let tree = Tree::with(&[
                (&file("type"), "13\n"),
                (&file("format/event"), "config:0-7\n"),
                ("proc/cpuinfo", "cpu family\t: 25\nmodel\t\t: 80\n"),
            ]);
            let found = Counters.find(&tree.board());
            let name = plain(&format!("{prefix}_0"));
            let of_it = found.iter().filter(|found| match found {
                Found::Missing(spec, why) => {
                    spec.name.contains(&name) && why.reason().unwrap().contains(prefix)
                }
                Found::Source { channels, .. } => channels[0].name.contains(&name),
            });
            assert!(of_it.count() > 0, "{prefix} says nothing");
        }
    }

    #[test]
    fn a_part_of_the_traffic_is_no_total() {
        let file = |name: &str| format!("{SOURCES}/arm_dsu_0/{name}");
        let tree = Tree::with(&[
            (&file("type"), "12\n"),
            (&file("format/event"), "config:0-31\n"),
            (&file("events/l3d_cache_refill"), "event=0x2a\n"),
        ]);
        let read = read_of(&tree, "port.arm_dsu_0.read_bytes");
        assert_eq!(read, Some(Ok(2 * 0x2a * 64)));
        let found = Counters.find(&tree.board());
        let has_no_total =
            |found: &Found| matches!(found, Found::Missing(spec, _) if spec.name == TRAFFIC.name);
        assert!(found.iter().any(has_no_total));
    }

    #[test]
    fn a_sum_never_goes_back() {
        struct Falling(u64);
        impl Counting for Falling {
            fn read(&mut self) -> io::Result<Count> {
                self.0 -= 1;
                Ok(Count {
                    value: self.0,
                    enabled: 1,
                    running: 1,
                })
            }
        }
        let count = Box::new(Falling(10));
        let counters = Opened::new(Ok(vec![Counter { count, scale: 1.0 }]));
        let spec = TRAFFIC.spec("ddr.x.bytes", "nowhere");
        let found = vec![Found::new(Tier::Normal, vec![spec], counters)];
        let clock = Turning::default();
        let mut watch = Watch::new("s", found, TelemetryMode::Normal, clock.clone(), || {
            Nanos::ZERO
        });
        clock.by(Nanos::from_secs(1));
        watch.read_due();
        let (_, last) = watch.latest().next().unwrap();
        assert_eq!(last, Some(Ok(9)));
    }

    /// Of two kinds as a Rockchip RK3588 has them, and what a source of memory traffic is besides.
    fn big_and_little() -> Tree {
        let file = |kind: &str, name: &str| format!("{SOURCES}/armv8_cortex_{kind}/{name}");
        Tree::with(&[
            (&file("a55", "type"), "8\n"),
            (&file("a55", "cpus"), "0-3\n"),
            (&file("a55", "format/event"), "config:0-15\n"),
            (&file("a55", "events/cpu_cycles"), "event=0x0011\n"),
            (&file("a55", "events/inst_retired"), "event=0x0008\n"),
            (&file("a76", "type"), "9\n"),
            (&file("a76", "cpus"), "4-7\n"),
            (&file("a76", "format/event"), "config:0-15\n"),
            (&file("a76", "events/cpu_cycles"), "event=0x0011\n"),
            (&format!("{SOURCES}/rockchip_ddr/type"), "12\n"),
            (&format!("{SOURCES}/rockchip_ddr/cpumask"), "0\n"),
        ])
    }

    #[test]
    fn each_kind_of_core_has_an_event_of_its_own() {
        let tree = big_and_little();
        let board = tree.board();
        let kinds = kinds_of_cores(&board);
        assert_eq!(kinds, ["armv8_cortex_a55", "armv8_cortex_a76"]);
        let of = |row: &OfCore| -> Vec<(u32, u64)> {
            let events = events_of(&board, row, &kinds).unwrap();
            assert!(
                events
                    .iter()
                    .all(|event| event.exclude_kernel && event.inherit)
            );
            events
                .iter()
                .map(|event| (event.source, event.config[0]))
                .collect()
        };
        assert_eq!(of(&CORE[0]), [(8, 0x11), (9, 0x11)]);
        // What a source does not list is asked for by its generic number and the source's type above it.
        assert_eq!(of(&CORE[1]), [(8, 0x08), (0, 9 << 32 | 1)]);
        assert_eq!(of(&CORE[3]), [(0, 8 << 32 | 8), (0, 9 << 32 | 8)]);
        let is_allowed = |source, config| {
            let event = Event {
                source,
                ..core_event(config)
            };
            is_core_event(&board, &event)
        };
        assert!(is_allowed(8, 0x11) && is_allowed(0, 9 << 32 | 1));
        assert!(!is_allowed(8, 0x12) && !is_allowed(12, 0x11) && !is_allowed(0, 0));
    }

    #[test]
    fn a_kind_of_core_that_cannot_be_counted_leaves_no_sum_of_the_others() {
        let tree = big_and_little();
        // Neither a number for the generic event nor one for its own.
        tree.set(&format!("{SOURCES}/armv8_cortex_a76/type"), "?\n");
        let board = Board {
            mode: TelemetryMode::Fast,
            ..tree.board()
        };
        for found in Counters.find(&board) {
            let Found::Missing(spec, why) = found else {
                panic!("nothing can be counted here");
            };
            let is_of_cores = spec.name.starts_with("worker.");
            assert!(!is_of_cores || why.reason().unwrap().contains("cortex_a76"));
        }
        let names = Counters.find(&board);
        let missing = names.iter().filter(
            |found| matches!(found, Found::Missing(spec, _) if spec.name.starts_with("worker.")),
        );
        assert_eq!(missing.count(), CORE.len());
    }

    #[test]
    fn a_board_of_one_kind_of_core_counts_by_the_generic_events() {
        let file = |name: &str| format!("{SOURCES}/armv8_pmuv3_0/{name}");
        let tree = Tree::with(&[(&file("type"), "8\n"), (&file("cpus"), "0-3\n")]);
        for tree in [tree, Tree::with(&[])] {
            let board = tree.board();
            let kinds = kinds_of_cores(&board);
            assert_eq!(events_of(&board, &CORE[2], &kinds), Ok(vec![core_event(3)]));
            assert!(is_core_event(&board, &core_event(8)));
        }
    }

    #[test]
    fn kinds_of_cores_are_added_up_and_turns_are_made_up_for_once() {
        struct Fixed(Count);
        impl Counting for Fixed {
            fn read(&mut self) -> io::Result<Count> {
                Ok(self.0)
            }
        }
        let sum = |counts: &[(u64, u64, u64)]| {
            let fixed = counts.iter().map(|&(value, enabled, running)| {
                let count = Count {
                    value,
                    enabled,
                    running,
                };
                Box::new(Fixed(count)) as Box<dyn Counting>
            });
            let mut cores = Cores {
                counters: Ok(fixed.collect()),
                highest: 0,
            };
            cores.sum()
        };
        // Three quarters of the time on big cores: nothing is missing.
        assert_eq!(sum(&[(300, 1000, 250), (4_000, 1000, 750)]), Ok(4_300));
        // Never on a little one.
        assert_eq!(sum(&[(0, 1000, 0), (4_000, 1000, 1000)]), Ok(4_000));
        // Half of the time another had the counters: what was seen is half.
        assert_eq!(sum(&[(100, 1000, 200), (400, 1000, 300)]), Ok(1_000));
        assert_eq!(sum(&[(7, 10, 5)]), Ok(14), "as with one counter");
        assert!(sum(&[(0, 1000, 0), (0, 1000, 0)]).is_err());
        assert!(sum(&[]).is_err());
    }

    proptest! {
        #[test]
        fn no_description_makes_it_panic(format: String, terms: String, value: u64) {
            let _ = place(&format, value, &mut [0; 3]);
            let tree = Tree::with(&[("a/type", "1\n"), ("a/cpumask", &format)]);
            let board = tree.board();
            let _ = (event(&board, "a", &terms), cpus(&board, "a"), number(&terms));
        }

        #[test]
        fn a_value_comes_back_out_of_its_bits(value in 0_u64..256, low in 0_u32..56) {
            let mut config = [0; 3];
            place(&format!("config2:{low}-{}", low + 7), value, &mut config).unwrap();
            prop_assert_eq!(config[2] >> low, value);
        }
    }
}
