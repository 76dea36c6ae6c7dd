//! Monitors of memory ports of D-Robotics' boards, by their devices: bytes that each port moved. One row for
//! each.
//!
//! Their drivers (axi_mon and ddrmonitor in the kernel sources of X5 and X3) take a period and a number of
//! records by one ioctl, and a read waits for that many. Closing it stops it for everybody who has it open: one
//! reader, this one, holds it for as long as it watches, and nobody opens it to see whether it is there. Not
//! tried on a board.

use std::io;

use edgedyno_shared::telemetry::{ChannelKind, Fidelity, Quality};
use edgedyno_shared::units::Nanos;
use edgedyno_sys::kernel::axi_monitor::ROOM;

use super::board::Board;
use super::fault::Fault;
use super::feed::{self, Feed, Look};
use super::files::Device;
use super::offer::{Found, Offer, Tier};
use super::watch::Readings;
use super::{Sampler, Source};

/// Between two records, in milliseconds; a read waits for one.
const PERIOD_MS: u32 = 100;

/// A device, and how its records are laid out: time of 64 bits, so many words of 32 for each port, and words
/// that are of no port, filled up to eight bytes.
struct Monitor {
    device: &'static str,
    name: &'static str,
    ports: &'static [&'static str],
    port_words: usize,
    /// Places of what was read and written among the words of a port.
    read: usize,
    written: usize,
    /// Bytes for one that is counted.
    unit: i64,
    other_words: usize,
}

static MONITORS: [Monitor; 2] = [
    // Behind the bytes latencies, times and outstanding ones; last the full bandwidth twice, and the period
    // that the record really covers.
    Monitor {
        device: "dev/axi_mon",
        name: "axi",
        ports: &["cpu", "bpu", "vin", "codec", "gpu"],
        port_words: 12,
        read: 1,
        written: 0,
        unit: 1,
        other_words: 3,
    },
    // Addresses, beats of data of 16 bytes, stalls and latencies, for writing and for reading; last the
    // controller's own commands.
    Monitor {
        device: "dev/ddrmonitor",
        name: "ddrmonitor",
        ports: &["cpu", "bif", "bpu0", "bpu1", "vio0", "vpu", "vio1", "peri"],
        port_words: 16,
        read: 5,
        written: 1,
        unit: 16,
        other_words: 11,
    },
];

impl Monitor {
    fn record(&self) -> usize {
        let bytes = 8 + 4 * (self.ports.len() * self.port_words + self.other_words);
        bytes.next_multiple_of(8)
    }
}

/// Whether a board has one of them, without opening it.
pub(super) fn is_there(board: &Board) -> bool {
    let listed = board.files.list("dev").unwrap_or_default();
    let mut devices = MONITORS
        .iter()
        .filter_map(|one| one.device.strip_prefix("dev/"));
    devices.any(|device| listed.iter().any(|name| name == device))
}

const READ: Offer = Offer {
    name: "ddr.MONITOR.read_bytes",
    unit: "bytes",
    kind: ChannelKind::Counter,
    fidelity: Fidelity::Measured,
    native_period: Some(Nanos::from_millis(PERIOD_MS as i64)),
    source: "/dev/axi_mon, /dev/ddrmonitor",
    rights: "root",
    boards: "D-Robotics X5 (axi), X3 (ddrmonitor)",
    meaning: "Bytes read from memory by all ports since the watch began. While it is read, hrut_ddr and hrt_ucp_monitor cannot be used.",
};

const WRITTEN: Offer = Offer {
    name: "ddr.MONITOR.write_bytes",
    meaning: "Bytes written to memory by all ports since the watch began.",
    ..READ
};

const PORT_READ: Offer = Offer {
    name: "port.PORT.read_bytes",
    meaning: "The part of one port: cpu, bpu, vin, codec or gpu; on an X3 cpu, bif, bpu0, bpu1, vio0, vpu, vio1 or peri.",
    ..READ
};

const PORT_WRITTEN: Offer = Offer {
    name: "port.PORT.write_bytes",
    meaning: "The part of one port: cpu, bpu, vin, codec or gpu; on an X3 cpu, bif, bpu0, bpu1, vio0, vpu, vio1 or peri.",
    ..WRITTEN
};

pub(super) struct Monitors;

impl Sampler for Monitors {
    fn name(&self) -> &'static str {
        "memory_monitors"
    }

    fn offers(&self) -> &'static [Offer] {
        &[READ, WRITTEN, PORT_READ, PORT_WRITTEN]
    }

    fn find(&self, board: &Board) -> Vec<Found> {
        let found: Vec<Found> = MONITORS.iter().filter_map(|one| of(board, one)).collect();
        match found.is_empty() {
            true => vec![READ.absent("this board has no such monitor")],
            false => found,
        }
    }
}

/// The channels of a monitor; none where the board has not got it.
fn of(board: &Board, monitor: &'static Monitor) -> Option<Found> {
    let source = format!("/{}", monitor.device);
    let named = |offer: &Offer, what: &str| offer.spec(format!("{what}_bytes"), &source);
    let total = |what: &str| format!("ddr.{}.{what}", monitor.name);
    let opened = board.files.monitor(monitor.device);
    let feed = match opened.and_then(|device| start(device, monitor)) {
        Ok(feed) => feed,
        Err(why) if why.kind() == io::ErrorKind::NotFound => return None,
        Err(why) => {
            let reading = Fault::from(&why).reading(&source);
            return Some(Found::Missing(named(&READ, &total("read")), reading));
        }
    };
    let mut specs = vec![
        named(&READ, &total("read")),
        named(&WRITTEN, &total("write")),
    ];
    for port in monitor.ports {
        specs.push(named(&PORT_READ, &format!("port.{port}.read")));
        specs.push(named(&PORT_WRITTEN, &format!("port.{port}.write")));
    }
    let records = Records {
        feed,
        sums: feed::room(),
    };
    Some(Found::new(Tier::Normal, specs, records))
}

/// Adds up records where they come: a look may miss some.
fn start(mut device: Box<dyn Device>, monitor: &'static Monitor) -> io::Result<Feed> {
    device.start(PERIOD_MS, 1)?;
    let mut sums = vec![0_i64; 2 * (1 + monitor.ports.len())];
    let mut bytes = vec![0; ROOM];
    Feed::of("sensor_memory", Nanos::from_secs(2), move |piece| {
        let held = device.read(&mut bytes).map_err(|why| Fault::from(&why))?;
        monitor.add(&bytes[..held.min(bytes.len())], &mut sums)?;
        piece.extend(sums.iter().flat_map(|sum| sum.to_le_bytes()));
        Ok(())
    })
}

impl Monitor {
    /// Read and written bytes of records onto the sums: of all ports, then of each.
    fn add(&self, records: &[u8], sums: &mut [i64]) -> Result<(), Fault> {
        const OTHER: Fault = Fault::new(
            Quality::ParseError,
            "records of another length than the driver's",
        );
        let each = records.chunks_exact(self.record());
        if records.is_empty() || !each.remainder().is_empty() {
            return Err(OTHER);
        }
        for record in each {
            for port in 0..self.ports.len() {
                let bytes = |place: usize| {
                    let at = 8 + 4 * (port * self.port_words + place);
                    let word = record[at..at + 4].try_into().unwrap_or_default();
                    i64::from(u32::from_le_bytes(word)) * self.unit
                };
                let (read, written) = (bytes(self.read), bytes(self.written));
                for (slot, bytes) in [
                    (0, read),
                    (1, written),
                    (2 + 2 * port, read),
                    (3 + 2 * port, written),
                ] {
                    sums[slot] = sums[slot].saturating_add(bytes);
                }
            }
        }
        Ok(())
    }
}

struct Records {
    feed: Feed,
    sums: Vec<u8>,
}

impl Source for Records {
    fn read(&mut self, out: &mut Readings<'_>) {
        match self.feed.look(&mut self.sums) {
            Look::Nothing => {}
            Look::Piece(at, sums) => {
                out.at(at);
                for (slot, sum) in sums.chunks_exact(8).enumerate() {
                    let sum = i64::from_le_bytes(sum.try_into().unwrap_or_default());
                    out.put(slot, Ok(sum));
                }
            }
            Look::Fault(fault) => {
                out.timed(|| ());
                out.put_all(fault);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use edgedyno_shared::telemetry::TelemetryMode;

    use super::*;
    use crate::sampler::Watch;
    use crate::sampler::files::{Files, Numbers, ReadAt, Root};
    use crate::sampler::testing::{Tree, Turned, Turning};

    static X5: &Monitor = &MONITORS[0];
    static X3: &Monitor = &MONITORS[1];

    /// A record with so many read and written for each port, and 9 in every other word.
    fn record(monitor: &Monitor, ports: &[(u32, u32)]) -> Vec<u8> {
        let mut bytes = 7_u64.to_le_bytes().to_vec();
        for (read, written) in ports {
            let mut words = vec![9_u32; monitor.port_words];
            words[monitor.read] = *read;
            words[monitor.written] = *written;
            bytes.extend(words.iter().flat_map(|word| word.to_le_bytes()));
        }
        bytes.resize(monitor.record(), 1);
        bytes
    }

    #[test]
    fn records_have_the_size_of_the_drivers_structures() {
        // 8 and 5 times 48 and 12, and 8 and 8 times 64 and 44, filled up to 8.
        assert_eq!((X5.record(), X3.record()), (264, 568));
        for monitor in &MONITORS {
            assert!(400 * monitor.record() <= ROOM);
            assert!(monitor.read.max(monitor.written) < monitor.port_words);
        }
    }

    #[test]
    fn bytes_of_ports_add_up() {
        let mut sums = [0; 12];
        let ports = [(1, 10), (2, 20), (3, 30), (4, 40), (u32::MAX, 50)];
        // Somebody else asked for two at once.
        let mut both = record(X5, &ports);
        both.extend(record(X5, &[(1, 0), (0, 0), (0, 0), (0, 0), (0, 0)]));
        X5.add(&both, &mut sums).unwrap();
        assert_eq!(sums[..4], [4_294_967_295 + 11, 150, 2, 10]);
        assert_eq!(sums[10..], [4_294_967_295, 50]);
        for wrong in [
            &both[..0],
            &both[..X5.record() - 4],
            &both[..both.len() - 1],
        ] {
            assert!(X5.add(wrong, &mut sums).is_err(), "{}", wrong.len());
        }
    }

    #[test]
    fn an_x3_counts_beats_of_sixteen_bytes() {
        let mut sums = [0; 18];
        let ports = [
            (1, 2),
            (0, 0),
            (100, 10),
            (0, 0),
            (0, 0),
            (0, 0),
            (0, 0),
            (5, 7),
        ];
        X3.add(&record(X3, &ports), &mut sums).unwrap();
        assert_eq!(sums[..4], [16 * 106, 16 * 19, 16, 32]);
        // bpu0 and peri.
        assert_eq!(
            (sums[6..8].to_vec(), sums[16..].to_vec()),
            (vec![1600, 160], vec![80, 112])
        );
    }

    /// A device as bytes that were made by hand.
    struct Made(Vec<Vec<u8>>);

    impl Device for Made {
        fn start(&mut self, period_ms: u32, records: u32) -> io::Result<()> {
            assert_eq!((period_ms, records), (PERIOD_MS, 1));
            Ok(())
        }

        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            if self.0.is_empty() {
                return Err(io::Error::from_raw_os_error(nix::libc::EBUSY));
            }
            assert!(buffer.len() >= ROOM, "the driver may write so much");
            let record = self.0.remove(0);
            buffer[..record.len()].copy_from_slice(&record);
            Ok(record.len())
        }
    }

    /// A board whose only monitor has so many records, or cannot be opened.
    struct WithMonitor(Root, &'static Monitor, io::Result<usize>);

    impl Files for WithMonitor {
        fn open(&self, path: &str) -> io::Result<Box<dyn ReadAt>> {
            self.0.open(path)
        }
        fn list(&self, folder: &str) -> io::Result<Vec<String>> {
            self.0.list(folder)
        }
        fn numbers(&self, folder: &str) -> io::Result<Box<dyn Numbers>> {
            self.0.numbers(folder)
        }
        fn monitor(&self, path: &str) -> io::Result<Box<dyn Device>> {
            if path != self.1.device {
                return Err(io::ErrorKind::NotFound.into());
            }
            let one = record(self.1, &vec![(5, 6); self.1.ports.len()]);
            match &self.2 {
                Ok(records) => Ok(Box::new(Made(vec![one; *records]))),
                Err(why) => Err(io::Error::from_raw_os_error(why.raw_os_error().unwrap())),
            }
        }
    }

    fn watch(monitor: &'static Monitor, records: io::Result<usize>) -> Turned {
        let tree = Tree::with(&[]);
        let board = Board {
            files: Arc::new(WithMonitor(tree.root(), monitor, records)),
            ..tree.board()
        };
        let clock = Turning::default();
        let found = Monitors.find(&board);
        let mode = TelemetryMode::Normal;
        Turned {
            watch: Watch::new("s", found, mode, clock.clone(), || Nanos::ZERO),
            clock,
        }
    }

    #[test]
    fn a_monitor_that_is_taken_away_says_so_after_its_last_record() {
        let mut watch = watch(X5, Ok(3));
        for _ in 0..500 {
            let readings = watch.again();
            if let Some(Err(fault)) = readings.get("ddr.axi.read_bytes") {
                assert_eq!(fault.quality, Quality::Busy);
                let records = watch.watch.records(0);
                let seen = records.iter().filter_map(|record| match record {
                    edgedyno_shared::wire::record::Record::Samples(s) if s.channel == 0 => {
                        Some(s.value.clone())
                    }
                    _ => None,
                });
                // Three records of five ports with five bytes, unless the end came before a look.
                assert!(seen.flatten().all(|v| [25, 50, 75, i64::MIN].contains(&v)));
                return;
            }
            std::thread::sleep(std::time::Duration::from_millis(2));
        }
        panic!("the end was never told");
    }

    #[test]
    fn a_device_that_may_not_be_opened_is_denied() {
        let watch = watch(X3, Err(io::Error::from_raw_os_error(nix::libc::EACCES)));
        let (channel, _) = watch.watch.latest().next().unwrap();
        assert_eq!(channel.probe.state(), "denied");
        assert_eq!(channel.name, "ddr.ddrmonitor.read_bytes");
    }

    #[test]
    fn a_monitor_of_an_x3_gives_its_ports() {
        let mut watch = watch(X3, Ok(1));
        for _ in 0..500 {
            let readings = watch.again();
            if readings.contains_key("ddr.ddrmonitor.read_bytes") {
                break;
            }
            std::thread::sleep(std::time::Duration::from_millis(2));
        }
        let channels: Vec<String> = watch
            .watch
            .latest()
            .map(|(channel, _)| channel.name.clone())
            .collect();
        for name in [
            "ddr.ddrmonitor.write_bytes",
            "port.bpu1.read_bytes",
            "port.peri.write_bytes",
        ] {
            assert!(channels.iter().any(|channel| channel == name), "{name}");
        }
    }

    #[test]
    fn a_device_is_seen_without_being_opened() {
        assert!(!is_there(&Tree::with(&[]).board()));
        assert!(is_there(&Tree::with(&[("dev/ddrmonitor", "")]).board()));
    }
}
