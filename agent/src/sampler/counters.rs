//! Counters of the memory controller and of the cores: one parser of what an event source says of itself,
//! and one row for each controller.

use std::io;

use edgedyno_shared::telemetry::{ChannelKind, Fidelity, TelemetryMode};
use edgedyno_sys::kernel::perf::Event;

use super::board::{Board, plain};
use super::fault::Fault;
use super::files::Counting;
use super::offer::{Found, Offer, Tier};
use super::watch::Readings;
use super::{Sampler, Source};

const SOURCES: &str = "sys/bus/event_source/devices";

const TRAFFIC: Offer = Offer {
    name: "ddr.PMU.read_bytes",
    unit: "bytes",
    kind: ChannelKind::Counter,
    fidelity: Fidelity::Measured,
    native_period: None,
    source: "perf_event_open with /sys/bus/event_source/devices/PMU",
    rights: "perf_event_paranoid 0 or less, or CAP_PERFMON",
    boards: "Intel (uncore_imc), AMD (amd_umc), Rockchip mainline (rockchip_ddr), NXP (imx8_ddr; imx9_ddr of the i.MX94 and i.MX95), Amlogic (meson_ddr_bw), HiSilicon (hisi_*_ddrc)",
    meaning: "Bytes that the memory controller read for everybody on the board: CPUs, accelerators and devices. `write_bytes` beside it, or `bytes` where both are counted in one.",
};

const CYCLES: Offer = Offer {
    name: "worker.cycles",
    unit: "count",
    source: "perf_event_open of the worker, outside the kernel",
    rights: "perf_event_paranoid 2 or less",
    boards: "boards whose kernel counts; only with `--telemetry fast`, since each switch of threads then saves and loads counters",
    meaning: "Cycles of the worker's threads, scaled up where counters take turns.",
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

/// Generic events of a processor (`PERF_TYPE_HARDWARE`).
const CORE: [(Offer, u64); 4] = [(CYCLES, 0), (INSTRUCTIONS, 1), (MISSES, 3), (STALLS, 8)];

/// A memory controller: how its sources' names begin, and its events.
struct Controller {
    prefix: &'static str,
    /// Name of the event, what it counts, and bytes for one count where no scale file tells.
    events: &'static [(&'static str, Way, Option<u64>)],
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    Read,
    Write,
    Both,
}

/// Event names and units: kernel sources of the drivers, Documentation/admin-guide/perf, and the metrics of
/// perf (tools/perf/pmu-events). Events of one way are added up.
const CONTROLLERS: [Controller; 9] = [
    Controller {
        prefix: "uncore_imc_free_running",
        events: &[
            ("data_read", Way::Read, None),
            ("data_write", Way::Write, None),
        ],
    },
    Controller {
        prefix: "uncore_imc",
        events: &[
            ("cas_count_read", Way::Read, Some(64)),
            ("cas_count_write", Way::Write, Some(64)),
            // Two subchannels a controller, on Granite Rapids and later.
            ("cas_count_read_sch0", Way::Read, Some(64)),
            ("cas_count_read_sch1", Way::Read, Some(64)),
            ("cas_count_write_sch0", Way::Write, Some(64)),
            ("cas_count_write_sch1", Way::Write, Some(64)),
            ("data_reads", Way::Read, None),
            ("data_writes", Way::Write, None),
        ],
    },
    Controller {
        prefix: "amd_umc",
        events: &[
            ("umc_cas_cmd.rd", Way::Read, Some(64)),
            ("umc_cas_cmd.wr", Way::Write, Some(64)),
        ],
    },
    Controller {
        prefix: "rockchip_ddr",
        events: &[
            ("read-bytes", Way::Read, None),
            ("write-bytes", Way::Write, None),
        ],
    },
    Controller {
        prefix: "imx8_ddr",
        events: &[
            ("read-cycles", Way::Read, Some(16)),
            ("write-cycles", Way::Write, Some(16)),
        ],
    },
    Controller {
        // i.MX94 and i.MX95, of all masters where no mask is given; the i.MX93 has no such pair.
        prefix: "imx9_ddr",
        events: &[
            ("eddrtq_pm_rd_beat_filt0", Way::Read, Some(32)),
            ("eddrtq_pm_wr_beat_filt", Way::Write, Some(32)),
        ],
    },
    Controller {
        prefix: "meson_ddr_bw",
        events: &[("total_rw_bytes", Way::Both, Some(1))],
    },
    Controller {
        prefix: "hisi_sccl",
        events: &[
            ("flux_rd", Way::Read, Some(32)),
            ("flux_wr", Way::Write, Some(32)),
        ],
    },
    Controller {
        prefix: "mrvl_ddr_pmu",
        events: &[
            ("ddr_ddr_reads", Way::Read, Some(64)),
            ("ddr_ddr_writes", Way::Write, Some(64)),
        ],
    },
];

pub(super) struct Counters;

impl Sampler for Counters {
    fn name(&self) -> &'static str {
        "counters"
    }

    fn offers(&self) -> &'static [Offer] {
        &[TRAFFIC, CYCLES, INSTRUCTIONS, MISSES, STALLS]
    }

    fn find(&self, board: &Board) -> Vec<Found> {
        let sources = board.entries(SOURCES, "").unwrap_or_default();
        let mut found: Vec<Found> = sources
            .iter()
            .filter_map(|source| {
                let row = CONTROLLERS
                    .iter()
                    .find(|row| source.starts_with(row.prefix))?;
                Some((source, row))
            })
            .flat_map(|(source, row)| of_controller(board, source, row))
            .collect();
        if found.is_empty() {
            found
                .push(TRAFFIC.absent(format!("/{SOURCES} has no memory controller that is known")));
        }
        if let Some(worker) = board.worker.filter(|_| board.mode == TelemetryMode::Fast) {
            found.extend(
                CORE.iter()
                    .map(|(offer, event)| of_core(board, worker, offer, *event)),
            );
        }
        found
    }
}

fn of_controller(board: &Board, source: &str, row: &Controller) -> Vec<Found> {
    let ways = [
        (Way::Read, "read_bytes"),
        (Way::Write, "write_bytes"),
        (Way::Both, "bytes"),
    ];
    let found = ways.into_iter().filter_map(|(way, what)| {
        let of_way = row.events.iter().filter(|(_, of, _)| *of == way);
        let (names, counters): (Vec<&str>, Vec<_>) = of_way
            .filter_map(|(name, _, bytes)| Some((*name, counter(board, source, name, *bytes)?)))
            .unzip();
        let names = (!names.is_empty()).then(|| names.join(", "))?;
        let channel = format!("ddr.{}.{what}", plain(source));
        let spec = TRAFFIC.spec(channel, format!("perf {source}/{names}/"));
        let counters = Opened(counters.into_iter().collect());
        Some(Found::new(Tier::Normal, vec![spec], counters))
    });
    found.collect()
}

/// A counter of one event, running; none where the source has no such event.
fn counter(
    board: &Board,
    source: &str,
    name: &str,
    bytes: Option<u64>,
) -> Option<Result<Counter, Fault>> {
    const UNREAD: Fault = Fault::parse("the source's own description of the event cannot be read");
    let folder = format!("{SOURCES}/{source}");
    let path = format!("{folder}/events/{name}");
    let terms = board.line(&path)?;
    let scale = scale(board, &path).or(bytes.map(|bytes| bytes as f64));
    let described = event(board, &folder, &terms).zip(scale);
    Some(described.ok_or(UNREAD).and_then(|(event, scale)| {
        let cpu = first_cpu(&board.line(&format!("{folder}/cpumask")).unwrap_or_default());
        let opened = board.files.count(event, None, Some(cpu));
        let count = opened.map_err(|why| Fault::from(&why))?;
        Ok(Counter { count, scale })
    }))
}

fn of_core(board: &Board, worker: u32, offer: &Offer, number: u64) -> Found {
    let opened = board
        .files
        .count(core_event(number), Some(worker as i32), None);
    let counter = opened
        .map_err(|why| Fault::from(&why))
        .map(|count| vec![Counter { count, scale: 1.0 }]);
    let spec = offer.spec(offer.name, offer.source);
    Found::new(Tier::Fast, vec![spec], Opened(counter))
}

/// Every event of a memory controller of this board, with the CPU that it is counted on.
pub(crate) fn controller_events(board: &Board) -> Vec<(Event, i32)> {
    let sources = board.entries(SOURCES, "").unwrap_or_default();
    let of_source = |source: &String| -> Vec<(Event, i32)> {
        let row = CONTROLLERS
            .iter()
            .find(|row| source.starts_with(row.prefix));
        let names = row
            .map_or(&[][..], |row| row.events)
            .iter()
            .map(|(name, ..)| name);
        let folder = format!("{SOURCES}/{source}");
        let cpu = first_cpu(&board.line(&format!("{folder}/cpumask")).unwrap_or_default());
        let events = names.filter_map(|name| {
            let terms = board.line(&format!("{folder}/events/{name}"))?;
            Some((event(board, &folder, &terms)?, cpu))
        });
        events.collect()
    };
    sources.iter().flat_map(of_source).collect()
}

/// Whether an event is one that is counted of a worker.
pub(crate) fn is_core_event(event: &Event) -> bool {
    CORE.iter().any(|(_, number)| *event == core_event(*number))
}

fn core_event(number: u64) -> Event {
    Event {
        source: 0,
        config: [number, 0, 0],
        exclude_kernel: true,
        inherit: true,
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
struct Opened(Result<Vec<Counter>, Fault>);

impl Source for Opened {
    fn read(&mut self, out: &mut Readings<'_>) {
        let counters = &mut self.0;
        let value = out.timed(|| {
            let counters = counters.as_mut().map_err(|fault| *fault)?;
            let add = |sum: i64, counter: &mut Counter| Ok(sum.saturating_add(counter.value()?));
            counters.iter_mut().try_fold(0, add)
        });
        out.put(0, value);
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
fn scale(board: &Board, event: &str) -> Option<f64> {
    let scale: f64 = board.line(&format!("{event}.scale"))?.parse().ok()?;
    let unit = match board.line(&format!("{event}.unit")).as_deref() {
        Some("MiB" | "MB") => 1_048_576.0,
        Some("KiB" | "KB") => 1_024.0,
        Some("Bytes" | "bytes") | None => 1.0,
        Some(_) => return None,
    };
    Some(scale * unit)
}

fn first_cpu(mask: &str) -> i32 {
    let digits: String = mask.chars().take_while(char::is_ascii_digit).collect();
    digits.parse().unwrap_or(0)
}

fn number(text: &str) -> Option<u64> {
    match text.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16).ok(),
        None => text.parse().ok(),
    }
}

/// What a board without counters answers.
pub(super) fn no_counters() -> io::Error {
    io::Error::from_raw_os_error(nix::errno::Errno::ENOENT as i32)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use edgedyno_shared::units::Nanos;
    use edgedyno_sys::kernel::perf::Count;
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
        let bytes = scale(&board, &format!("{imc}/events/cas_count_read")).unwrap();
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
        let board = Board {
            files: Arc::new(Shown(tree.root())),
            ..tree.board()
        };
        let found = Counters.find(&board);
        let free = || Nanos::ZERO;
        let watch = Watch::new("s", found, board.mode, Turning::default(), free);
        let read = |name: &str| {
            let mut all = watch.latest();
            all.find_map(|(channel, last)| (channel.name == name).then_some(last?))
        };
        // Twice what was counted in half of the time, 64 bytes each.
        let both = read("ddr.uncore_imc_3.read_bytes");
        assert_eq!(both, Some(Ok(2 * (3 + 100) * 64)));
        // Half of them would be no total.
        let denied = read("ddr.uncore_imc_3.write_bytes").unwrap().unwrap_err();
        assert_eq!(denied.quality.name(), "denied");
    }

    #[test]
    fn every_controller_is_known_once_by_its_longest_name() {
        for (at, row) in CONTROLLERS.iter().enumerate() {
            let first = CONTROLLERS
                .iter()
                .position(|r| row.prefix.starts_with(r.prefix));
            assert_eq!(
                first,
                Some(at),
                "{} is hidden by a row before it",
                row.prefix
            );
        }
    }

    proptest! {
        #[test]
        fn no_description_makes_it_panic(format: String, terms: String, value: u64) {
            let _ = place(&format, value, &mut [0; 3]);
            let tree = Tree::with(&[("a/type", "1\n")]);
            let _ = (event(&tree.board(), "a", &terms), first_cpu(&terms), number(&terms));
        }

        #[test]
        fn a_value_comes_back_out_of_its_bits(value in 0_u64..256, low in 0_u32..56) {
            let mut config = [0; 3];
            place(&format!("config2:{low}-{}", low + 7), value, &mut config).unwrap();
            prop_assert_eq!(config[2] >> low, value);
        }
    }
}
