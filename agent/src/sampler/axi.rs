//! The monitor of memory ports of D-Robotics' X5, by its device: bytes that each port moved.
//!
//! Its driver (axi_mon, X5 kernel sources) takes a period and a number of records by one ioctl, and a read
//! waits for that many. Closing it stops it for everybody who has it open: one reader, this one, holds it for
//! as long as it watches. Not tried on a board.

use std::io;

use edgedyno_shared::telemetry::{ChannelKind, Fidelity, Quality};
use edgedyno_shared::units::Nanos;

use super::board::Board;
use super::fault::Fault;
use super::feed::{self, Feed, Look};
use super::files::Device;
use super::offer::{Found, Offer, Tier};
use super::watch::Readings;
use super::{Sampler, Source};

pub(super) const DEVICE: &str = "dev/axi_mon";

/// Between two records, in milliseconds; a read waits for one.
const PERIOD_MS: u32 = 100;

/// Ports in the order of a record.
const PORTS: [&str; 5] = ["cpu", "bpu", "vin", "codec", "gpu"];

/// A record: time of 64 bits, twelve words of 32 for each port, of which the first are bytes written and
/// read, two words of the full bandwidth, and the period it really covers. The driver's structure ends so, or
/// is filled up to eight bytes.
const PORT_WORDS: usize = 12;
const RECORD: usize = 8 + PORTS.len() * PORT_WORDS * 4 + 3 * 4;
const FILLED: usize = RECORD.div_ceil(8) * 8;

const READ: Offer = Offer {
    name: "ddr.axi.read_bytes",
    unit: "bytes",
    kind: ChannelKind::Counter,
    fidelity: Fidelity::Measured,
    native_period: Some(Nanos::from_millis(PERIOD_MS as i64)),
    source: "/dev/axi_mon",
    rights: "root",
    boards: "D-Robotics X5",
    meaning: "Bytes read from memory by all ports since the watch began. While it is read, hrut_ddr and hrt_ucp_monitor cannot be used.",
};

const WRITTEN: Offer = Offer {
    name: "ddr.axi.write_bytes",
    meaning: "Bytes written to memory by all ports since the watch began.",
    ..READ
};

const PORT_READ: Offer = Offer {
    name: "port.PORT.read_bytes",
    meaning: "The part of one port: cpu, bpu, vin, codec or gpu.",
    ..READ
};

const PORT_WRITTEN: Offer = Offer {
    name: "port.PORT.write_bytes",
    meaning: "The part of one port: cpu, bpu, vin, codec or gpu.",
    ..WRITTEN
};

pub(super) struct AxiMonitor;

impl Sampler for AxiMonitor {
    fn name(&self) -> &'static str {
        "axi_monitor"
    }

    fn offers(&self) -> &'static [Offer] {
        &[READ, WRITTEN, PORT_READ, PORT_WRITTEN]
    }

    fn find(&self, board: &Board) -> Vec<Found> {
        let source = format!("/{DEVICE}");
        let opened = board.files.monitor(DEVICE);
        let feed = opened.and_then(start);
        let feed = match feed {
            Ok(feed) => feed,
            Err(why) if why.kind() == io::ErrorKind::NotFound => {
                return vec![READ.absent("this board has no such monitor")];
            }
            Err(why) => {
                let spec = READ.spec(READ.name, &source);
                let reading = Fault::from(&why).reading(&source);
                return vec![Found::Missing(spec, reading)];
            }
        };
        let mut specs = vec![
            READ.spec(READ.name, &source),
            WRITTEN.spec(WRITTEN.name, &source),
        ];
        for port in PORTS {
            specs.push(PORT_READ.spec(format!("port.{port}.read_bytes"), &source));
            specs.push(PORT_WRITTEN.spec(format!("port.{port}.write_bytes"), &source));
        }
        let records = Records {
            feed,
            sums: feed::room(),
        };
        vec![Found::new(Tier::Normal, specs, records)]
    }
}

/// Adds up records where they come: a look may miss some.
fn start(mut device: Box<dyn Device>) -> io::Result<Feed> {
    device.start(PERIOD_MS, 1)?;
    let mut sums = [0_i64; 2 * (1 + PORTS.len())];
    let mut bytes = vec![0; FILLED];
    Feed::of("sensor_axi", Nanos::from_secs(2), move |piece| {
        let held = device.read(&mut bytes).map_err(|why| Fault::from(&why))?;
        add(&bytes[..held.min(bytes.len())], &mut sums)?;
        piece.extend(sums.iter().flat_map(|sum| sum.to_le_bytes()));
        Ok(())
    })
}

/// Read and written bytes of a record onto the sums: of all ports, then of each.
fn add(record: &[u8], sums: &mut [i64]) -> Result<(), Fault> {
    if ![RECORD, FILLED].contains(&record.len()) {
        return Err(Fault::new(
            Quality::ParseError,
            "a record of another length than the driver's",
        ));
    }
    let word = |at: usize| {
        let bytes = record[at..at + 4].try_into().unwrap_or_default();
        i64::from(u32::from_le_bytes(bytes))
    };
    for port in 0..PORTS.len() {
        let at = 8 + port * PORT_WORDS * 4;
        let (written, read) = (word(at), word(at + 4));
        for (slot, bytes) in [
            (0, read),
            (1, written),
            (2 + 2 * port, read),
            (3 + 2 * port, written),
        ] {
            sums[slot] = sums[slot].saturating_add(bytes);
        }
    }
    Ok(())
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

    /// Read and written bytes for each port, at the length of the driver's structure.
    fn record(ports: [(u32, u32); 5], length: usize) -> Vec<u8> {
        let mut bytes = 7_u64.to_le_bytes().to_vec();
        for (read, written) in ports {
            bytes.extend(written.to_le_bytes());
            bytes.extend(read.to_le_bytes());
            // Latencies, times and outstanding ones say nothing of bytes.
            bytes.extend([9; (PORT_WORDS - 2) * 4]);
        }
        bytes.resize(length, 1);
        bytes
    }

    #[test]
    fn bytes_of_ports_add_up() {
        let mut sums = [0; 12];
        let ports = [(1, 10), (2, 20), (3, 30), (4, 40), (u32::MAX, 50)];
        add(&record(ports, RECORD), &mut sums).unwrap();
        add(
            &record([(1, 0), (0, 0), (0, 0), (0, 0), (0, 0)], FILLED),
            &mut sums,
        )
        .unwrap();
        assert_eq!(sums[..4], [4_294_967_295 + 11, 150, 2, 10]);
        assert_eq!(sums[10..], [4_294_967_295, 50]);
        assert!(add(&record(ports, RECORD - 4), &mut sums).is_err());
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
            let record = self.0.remove(0);
            buffer[..record.len()].copy_from_slice(&record);
            Ok(record.len())
        }
    }

    struct WithMonitor(Root, io::Result<usize>);

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
        fn monitor(&self, _: &str) -> io::Result<Box<dyn Device>> {
            let one = record([(5, 6); 5], RECORD);
            match &self.1 {
                Ok(records) => Ok(Box::new(Made(vec![one; *records]))),
                Err(why) => Err(io::Error::from_raw_os_error(why.raw_os_error().unwrap())),
            }
        }
    }

    fn watch(monitor: io::Result<usize>) -> Turned {
        let tree = Tree::with(&[]);
        let board = Board {
            files: Arc::new(WithMonitor(tree.root(), monitor)),
            ..tree.board()
        };
        let clock = Turning::default();
        let found = AxiMonitor.find(&board);
        let mode = TelemetryMode::Normal;
        Turned {
            watch: Watch::new("s", found, mode, clock.clone(), || Nanos::ZERO),
            clock,
        }
    }

    #[test]
    fn a_monitor_that_is_taken_away_says_so_after_its_last_record() {
        let mut watch = watch(Ok(3));
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
        let watch = watch(Err(io::Error::from_raw_os_error(nix::libc::EACCES)));
        let (channel, _) = watch.watch.latest().next().unwrap();
        assert_eq!(channel.probe.state(), "denied");
    }
}
