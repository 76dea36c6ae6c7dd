//! Tables of D-Robotics' `hrut_ddr` (X3, X5), for memory traffic where its device is not open to this program.
//!
//! The tool and the monitor device are one counter: who has it keeps others out, which the tool tells with
//! `Open failed`. Its real period is not the one asked for (0.45 s at 1 s was seen): only the time that it
//! prints itself counts. The table of S100 and S600 has another form, which is not read here.

use std::process::Command;

use edgedyno_shared::telemetry::{ChannelKind, Fidelity, Quality};
use edgedyno_shared::units::Nanos;

use super::board::Board;
use super::fault::Fault;
use super::feed::{self, Digest, Feed, Look};
use super::offer::{Found, Offer, Tier};
use super::watch::Readings;
use super::{Sampler, Source, axi, text};

const PROGRAMS: [&str; 2] = ["usr/hobot/bin/hrut_ddr", "usr/bin/hrut_ddr"];

const READ: Offer = Offer {
    name: "ddr.hrut.read_bytes",
    unit: "bytes",
    kind: ChannelKind::Counter,
    fidelity: Fidelity::Derived,
    native_period: None,
    source: "hrut_ddr -t all -p 1000 -r",
    rights: "root",
    boards: "D-Robotics X3 and X5, where the monitor's device cannot be opened and nobody else has it",
    meaning: "Bytes read from memory by all ports: the tool's MiB/s times the time between two of its tables. It is a process of its own, and keeps other monitors out meanwhile.",
};

const WRITTEN: Offer = Offer {
    name: "ddr.hrut.write_bytes",
    meaning: "Bytes written to memory by all ports.",
    ..READ
};

pub(super) struct Hrut;

impl Sampler for Hrut {
    fn name(&self) -> &'static str {
        "hrut_ddr"
    }

    fn offers(&self) -> &'static [Offer] {
        &[READ, WRITTEN]
    }

    fn find(&self, board: &Board) -> Vec<Found> {
        let program = PROGRAMS.iter().find_map(|path| board.files.program(path));
        let Some(program) = program else {
            return vec![READ.absent("hrut_ddr is not there")];
        };
        if board.has(axi::DEVICE) {
            return vec![READ.absent("the monitor's device is read instead")];
        }
        let mut command = Command::new(&program);
        command.args(["-t", "all", "-p", "1000", "-r"]);
        let mut table = Table::default();
        let digest = move |line: &[u8]| table.take(line);
        let feed = match Feed::lines_of(command, Nanos::from_secs(5), digest) {
            Ok(feed) => feed,
            Err(why) => return vec![READ.absent(format!("{}: {why}", program.display()))],
        };
        let source = format!("{} -t all -p 1000 -r", program.display());
        let specs = [READ, WRITTEN].map(|offer| offer.spec(offer.name, &source));
        let tables = Tables {
            feed,
            piece: feed::room(),
            before_ms: None,
            sums: [0; 2],
        };
        vec![Found::new(Tier::Normal, specs.to_vec(), tables)]
    }
}

/// A table as its lines come.
#[derive(Default)]
struct Table {
    time_ms: Option<i64>,
    /// The place of the column that sums up all ports.
    sum_at: Option<usize>,
    read: Option<i64>,
}

impl Table {
    /// The last line of a table gives `TIME_MS READ WRITTEN`, the two in bytes a second.
    fn take(&mut self, line: &[u8]) -> Digest {
        const REFUSED: Fault = Fault::new(
            Quality::Busy,
            "another tool holds the counter of memory traffic",
        );
        let text = String::from_utf8_lossy(line);
        let text = text.trim();
        if text.to_ascii_lowercase().contains("open failed") {
            return Digest::Fault(REFUSED);
        }
        if let Some(time) = text.strip_prefix("Time") {
            self.time_ms = time
                .trim()
                .trim_end_matches('s')
                .parse()
                .ok()
                .map(|s: f64| (s * 1e3).round() as i64);
            self.read = None;
        } else if text.starts_with("MB/S") {
            self.sum_at = text
                .split_whitespace()
                .skip(1)
                .position(|word| word == "SUM");
        } else if let Some(figures) = row(text, "Read") {
            self.read = self.rate(&figures);
        } else if let Some(figures) = row(text, "Write") {
            let written = self.rate(&figures);
            if let (Some(time), Some(read), Some(written)) =
                (self.time_ms, self.read.take(), written)
            {
                return Digest::Piece(format!("{time} {read} {written}").into_bytes());
            }
        }
        Digest::Nothing
    }

    /// The column of sums, else the sum of all; in bytes. What the tool calls MB is MiB.
    fn rate(&self, figures: &[f64]) -> Option<i64> {
        let mib = match self.sum_at {
            Some(at) => *figures.get(at)?,
            None => figures.iter().sum(),
        };
        (mib >= 0.0).then_some((mib * f64::from(1 << 20)) as i64)
    }
}

/// Figures of the row of that name: `Read :   110  4035 ...`.
fn row(text: &str, name: &str) -> Option<Vec<f64>> {
    let rest = text.strip_prefix(name)?.trim_start().strip_prefix(':')?;
    rest.split_whitespace()
        .map(|word| word.parse().ok())
        .collect()
}

struct Tables {
    feed: Feed,
    piece: Vec<u8>,
    before_ms: Option<i64>,
    sums: [i64; 2],
}

impl Source for Tables {
    fn read(&mut self, out: &mut Readings<'_>) {
        const UNEXPECTED: Fault = Fault::parse("not a table of hrut_ddr");
        let (at, piece) = match self.feed.look(&mut self.piece) {
            Look::Nothing => return,
            Look::Piece(at, piece) => (at, piece),
            Look::Fault(fault) => {
                out.timed(|| ());
                return out.put_all(fault);
            }
        };
        out.at(at);
        let mut words = text::words(piece).map(text::number);
        let mut next = || words.next().flatten();
        let (Some(time), Some(read), Some(written)) = (next(), next(), next()) else {
            return out.put_all(UNEXPECTED);
        };
        // A tool that started its clock anew covers no time.
        let span_ms = self.before_ms.map_or(0, |before| (time - before).max(0));
        self.before_ms = Some(time);
        for (slot, rate) in [read, written].into_iter().enumerate() {
            let by = i128::from(rate) * i128::from(span_ms) / 1000;
            self.sums[slot] = self.sums[slot].saturating_add(i64::try_from(by).unwrap_or(0));
            out.put(slot, Ok(self.sums[slot]));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sampler::testing::Tree;

    fn tables(lines: &[&str]) -> Vec<String> {
        let mut table = Table::default();
        let pieces = lines
            .iter()
            .filter_map(|line| match table.take(line.as_bytes()) {
                Digest::Piece(piece) => Some(String::from_utf8(piece).unwrap()),
                _ => None,
            });
        pieces.collect()
    }

    const HEAD: &str = "MB/S     P0:CPU  P1:BPU  P2:VIN  SUM";

    #[test]
    fn a_table_is_its_time_and_its_sums() {
        let lines = [
            "Time 364160.876s",
            HEAD,
            "Read :  110  4035  0  4145",
            "Write:  103  1175  0  1278",
        ];
        // 4 145 and 1 278 MiB.
        assert_eq!(tables(&lines), ["364160876 4346347520 1340080128"]);
        assert_eq!(
            tables(&lines[1..]),
            [] as [&str; 0],
            "a table without its time"
        );
        let without_sum = ["Time 1s", "Read : 1 2", "Write: 3 x", "Write: 3 4"];
        assert_eq!(tables(&without_sum), ["1000 3145728 7340032"]);
    }

    #[test]
    fn traffic_goes_by_the_time_that_is_printed() {
        let tree = Tree::with(&[]);
        // 0.45 s after the first, whatever was asked for; then nothing more.
        tree.program(
            PROGRAMS[1],
            "#!/bin/sh\necho 'Time 10.0s'; echo 'Read : 100'; echo 'Write: 10'\nsleep 0.3\necho 'Time 10.45s'; echo 'Read : 200'; echo 'Write: 20'\nexec sleep 60\n",
        );
        let mut watch = tree.watch(&Hrut);
        for _ in 0..500 {
            let readings = watch.again();
            if readings.get("ddr.hrut.read_bytes") == Some(&Ok(94_371_840)) {
                // 200 and 20 MiB/s for 0.45 s.
                assert_eq!(readings["ddr.hrut.write_bytes"], Ok(9_437_184));
                return;
            }
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
        panic!("the second table never came");
    }

    #[test]
    fn a_counter_that_another_holds_is_busy() {
        let tree = Tree::with(&[]);
        tree.program(PROGRAMS[1], "#!/bin/sh\necho 'Open failed' >&2\nexit 1\n");
        let mut watch = tree.watch(&Hrut);
        for _ in 0..500 {
            if let Some(Err(fault)) = watch.again().get("ddr.hrut.read_bytes") {
                assert_eq!(fault.quality, Quality::Busy);
                return;
            }
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
        panic!("it never said why");
    }

    #[test]
    fn without_the_tool_there_is_a_reason() {
        let watch = Tree::with(&[]).watch(&Hrut).watch;
        let (channel, _) = watch.latest().next().unwrap();
        assert!(channel.probe.reason().unwrap().contains("hrut_ddr"));
    }
}
