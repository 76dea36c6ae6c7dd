//! What D-Robotics' `hrut_ddr` prints, for memory traffic where its device is not open to this program.
//!
//! The tool and the monitor device are one counter: who has it keeps others out, which the tool tells with
//! `Open failed`. Its real period is not the one asked for (0.45 s at 1 s was seen): only the time that it
//! prints itself counts. On X3 and X5 it prints all ports, raw where it is asked so (`-r`: a line for each
//! port) and as a table else: both are read, and where the one says nothing the other is asked for. On an S100
//! it takes other words and prints lines of commas ([`Lines`]) of one kind of port on one device of memory; its
//! table of all of them (`-t rr_all`) has no public description and is not read, and neither is anything of an
//! S600.

use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

use edgedyno_shared::telemetry::{ChannelKind, Fidelity, Quality};
use edgedyno_shared::units::Nanos;

use super::board::Board;
use super::fault::Fault;
use super::feed::{self, Digest, Feed, Look};
use super::offer::{Found, Offer, Tier};
use super::watch::Readings;
use super::{Sampler, Source, monitors, text};

const PROGRAMS: [&str; 2] = ["usr/hobot/bin/hrut_ddr", "usr/bin/hrut_ddr"];

const READ: Offer = Offer {
    name: "ddr.hrut.read_bytes",
    unit: "bytes",
    kind: ChannelKind::Counter,
    fidelity: Fidelity::Derived,
    native_period: None,
    source: "hrut_ddr -t all -p 1000 -r, else without -r",
    rights: "root",
    boards: "D-Robotics X3 and X5 without the monitor's device, where nobody else has the counter",
    meaning: "Bytes read from memory by all ports: the tool's MiB/s times the time between two of its tables. It is a process of its own, and keeps other monitors out meanwhile.",
};

const WRITTEN: Offer = Offer {
    name: "ddr.hrut.write_bytes",
    meaning: "Bytes written to memory by all ports.",
    ..READ
};

const BPU_READ: Offer = Offer {
    name: "port.bpu.device_0.read_bytes",
    source: "hrut_ddr -t bpu -d 0 -p 1000000 -c",
    boards: "D-Robotics S100, where nobody else has the counter",
    meaning: "Bytes that the BPU read from the first device of memory, of six on an S100: how many of all its bytes these are is not documented, so it shows when and in which proportion, and is no total. Other ports are not in it. The tool's MiB/s times the time between two of its lines, which it tells in whole seconds; it is a process of its own, and keeps hrt_ucp_monitor out meanwhile. Not tried on a board.",
    ..READ
};

const BPU_WRITTEN: Offer = Offer {
    name: "port.bpu.device_0.write_bytes",
    meaning: "Bytes that the BPU wrote to the first device of memory.",
    ..BPU_READ
};

const CPU: Offer = Offer {
    name: "sensor.hrut.cpu",
    unit: "ns",
    fidelity: Fidelity::Measured,
    source: "clock_gettime of the tool's process",
    boards: "D-Robotics boards whose traffic hrut_ddr tells",
    meaning: "CPU time of the tool: it runs on the agent's CPUs, and is not part of `sampler.cpu`.",
    ..READ
};

/// Behind what was read and written.
const CPU_SLOT: usize = 2;

/// What the tool is told, and what it gives then.
struct Ask {
    words: &'static [&'static str],
    /// What it is told where it gave nothing for the first.
    else_words: Option<&'static [&'static str]>,
    form: Form,
    offers: [Offer; 2],
}

#[derive(Clone, Copy)]
enum Form {
    Tables,
    Lines,
}

const OF_X: Ask = Ask {
    words: &["-t", "all", "-p", "1000", "-r"],
    else_words: Some(&["-t", "all", "-p", "1000"]),
    form: Form::Tables,
    offers: [READ, WRITTEN],
};

const OF_S: Ask = Ask {
    words: &["-t", "bpu", "-d", "0", "-p", "1000000", "-c"],
    else_words: None,
    form: Form::Lines,
    offers: [BPU_READ, BPU_WRITTEN],
};

/// Says which board it is: `D-Robotics RDK S100 V1P0`.
const MODEL: &str = "proc/device-tree/model";

pub(super) struct Hrut;

impl Sampler for Hrut {
    fn name(&self) -> &'static str {
        "hrut_ddr"
    }

    fn offers(&self) -> &'static [Offer] {
        &[READ, WRITTEN, BPU_READ, BPU_WRITTEN, CPU]
    }

    fn find(&self, board: &Board) -> Vec<Found> {
        let program = PROGRAMS.iter().find_map(|path| board.files.program(path));
        let Some(program) = program else {
            return vec![READ.absent("hrut_ddr is not there")];
        };
        if monitors::is_there(board) {
            return vec![READ.absent("the monitor's device is read instead")];
        }
        let model = board.line(MODEL).unwrap_or_default();
        if model.contains("S600") {
            return vec![READ.absent("what hrut_ddr prints on an S600 is not known")];
        }
        let ask = if model.contains("S100") { OF_S } else { OF_X };
        let feed = match begin(&program, ask.words, ask.form) {
            Ok(feed) => feed,
            Err(why) => return vec![ask.offers[0].absent(format!("{}: {why}", program.display()))],
        };
        let source = format!("{} {}", program.display(), ask.words.join(" "));
        let mut specs = ask
            .offers
            .map(|offer| offer.spec(offer.name, &source))
            .to_vec();
        specs.push(CPU.spec(CPU.name, CPU.source));
        let tables = Tables {
            feed,
            other: ask.else_words.map(|words| (program, words, ask.form)),
            piece: feed::room(),
            before_ms: None,
            sums: [0; 2],
            spent_before: 0,
        };
        vec![Found::new(Tier::Normal, specs, tables)]
    }
}

/// Starts the tool; it ends with the feed.
fn begin(program: &Path, words: &[&str], form: Form) -> io::Result<Feed> {
    let mut command = Command::new(program);
    command.args(words);
    let (mut table, mut lines) = (Table::default(), Lines::default());
    let digest = move |line: &[u8]| {
        let text = String::from_utf8_lossy(line);
        match (text.to_ascii_lowercase().contains("open failed"), form) {
            (true, _) => Digest::Fault(REFUSED),
            (false, Form::Lines) => lines.take(text.trim()),
            (false, Form::Tables) => table.take(text.trim()),
        }
    };
    Feed::lines_of(command, Nanos::from_secs(5), digest)
}

const REFUSED: Fault = Fault::new(
    Quality::Busy,
    "another tool holds the counter of memory traffic",
);

/// `TIME_MS READ WRITTEN`, the two in bytes a second: what a source here is handed.
fn piece(time_ms: i64, read: i64, written: i64) -> Digest {
    Digest::Piece(format!("{time_ms} {read} {written}").into_bytes())
}

/// The tool's time: `364160.876s`, and in its raw form milliseconds.
fn time(text: &str) -> Option<i64> {
    let text = text.trim();
    match text.strip_suffix('s') {
        Some(seconds) => milliseconds(seconds),
        None => text.parse().ok(),
    }
}

/// Seconds as they are printed.
fn milliseconds(seconds: &str) -> Option<i64> {
    let seconds: f64 = seconds.trim().parse().ok()?;
    Some((seconds * 1e3).round() as i64)
}

/// Bytes; what the tool calls MB is MiB.
fn bytes(mib: f64) -> Option<i64> {
    (mib.is_finite() && mib >= 0.0).then_some((mib * f64::from(1 << 20)) as i64)
}

/// Lines such as `1699000000,2048.5,1024.3` behind a head with the names of the columns, as D-Robotics'
/// notes on watching a board show them.
#[derive(Default)]
struct Lines {
    /// Places of time, read and written; none before the head.
    columns: Option<[usize; 3]>,
}

impl Lines {
    fn take(&mut self, text: &str) -> Digest {
        let words: Vec<&str> = text.split(',').map(str::trim).collect();
        let place = |name: &str| words.iter().position(|word| *word == name);
        if let (Some(time), Some(read), Some(written)) = (
            place("timestamp"),
            place("read_MiB/s"),
            place("write_MiB/s"),
        ) {
            self.columns = Some([time, read, written]);
            return Digest::Nothing;
        }
        let figures = self.columns.and_then(|[time, read, written]| {
            let rate = |at: usize| words.get(at)?.parse().ok().and_then(bytes);
            Some((milliseconds(words.get(time)?)?, rate(read)?, rate(written)?))
        });
        figures.map_or(Digest::Nothing, |(time, read, written)| {
            piece(time, read, written)
        })
    }
}

/// A table as its lines come, or the same raw.
#[derive(Default)]
struct Table {
    time_ms: Option<i64>,
    /// The place of the column that sums up all ports.
    sum_at: Option<usize>,
    read: Option<i64>,
    raw: Option<Raw>,
}

/// What ports read and wrote so far, in the tool's MB; none before one told it.
#[derive(Default)]
struct Raw {
    read: Option<f64>,
    written: Option<f64>,
    is_writing: bool,
}

impl Table {
    /// The last line of a table gives the piece; a raw one ends with the controller's own line, or with the next.
    fn take(&mut self, text: &str) -> Digest {
        if let Some(rest) = text.strip_prefix("Time") {
            let before = self.end_raw();
            self.time_ms = time(rest);
            self.read = None;
            return before;
        }
        if text.starts_with("MB/S") {
            self.sum_at = text
                .split_whitespace()
                .skip(1)
                .position(|word| word == "SUM");
        } else if let Some(figures) = row(text, "Read") {
            match figures.is_empty() {
                true => self.raw = Some(Raw::default()),
                false => self.read = self.rate(&figures),
            }
        } else if let Some(figures) = row(text, "Write") {
            match &mut self.raw {
                Some(raw) if figures.is_empty() => raw.is_writing = true,
                _ => return self.end(&figures),
            }
        } else if text.starts_with("ddrc") && self.raw.as_ref().is_some_and(|raw| raw.is_writing) {
            return self.end_raw();
        } else if let (Some(raw), Some(rate)) = (&mut self.raw, port_rate(text)) {
            let sum = match raw.is_writing {
                true => &mut raw.written,
                false => &mut raw.read,
            };
            *sum = Some(sum.unwrap_or(0.0) + rate);
        }
        Digest::Nothing
    }

    fn end(&mut self, figures: &[f64]) -> Digest {
        let written = self.rate(figures);
        match (self.time_ms, self.read.take(), written) {
            (Some(time), Some(read), Some(written)) => piece(time, read, written),
            _ => Digest::Nothing,
        }
    }

    fn end_raw(&mut self) -> Digest {
        let raw = self.raw.take().filter(|raw| raw.is_writing);
        let figures = raw.and_then(|raw| Some((bytes(raw.read?)?, bytes(raw.written?)?)));
        match (self.time_ms, figures) {
            (Some(time), Some((read, written))) => piece(time, read, written),
            _ => Digest::Nothing,
        }
    }

    /// The column of sums, else the sum of all.
    fn rate(&self, figures: &[f64]) -> Option<i64> {
        match self.sum_at {
            Some(at) => bytes(*figures.get(at)?),
            None if figures.is_empty() => None,
            None => bytes(figures.iter().sum()),
        }
    }
}

/// The rate of one port in the raw form: `p[0](bw:   110 stall:     2 delay:    30)`.
fn port_rate(text: &str) -> Option<f64> {
    let (_, rest) = text.strip_prefix("p[")?.split_once("bw:")?;
    rest.split_whitespace().next()?.parse().ok()
}

/// Figures of the row of that name: `Read :   110  4035 ...`.
fn row(text: &str, name: &str) -> Option<Vec<f64>> {
    let rest = text.strip_prefix(name)?.trim_start().strip_prefix(':')?;
    rest.split_whitespace()
        .map(|word| word.parse().ok())
        .collect()
}

/// Two tables are never so far apart while the tool runs: it tells its time in another unit then.
const LONGEST_MS: i64 = 60_000;

struct Tables {
    feed: Feed,
    /// The tool with other words, for when it gives nothing.
    other: Option<(PathBuf, &'static [&'static str], Form)>,
    piece: Vec<u8>,
    before_ms: Option<i64>,
    sums: [i64; 2],
    /// CPU time of a tool that was asked in vain.
    spent_before: i64,
}

impl Tables {
    /// Asks for the other form, once, where the first gave nothing and nobody else has the counter.
    fn ask_again(&mut self, why: Fault) -> bool {
        let may = self.before_ms.is_none() && why.quality != Quality::Busy;
        let Some((program, words, form)) = self.other.take().filter(|_| may) else {
            return false;
        };
        match begin(&program, words, form) {
            Ok(feed) => {
                self.spent_before = self.feed.cpu().unwrap_or(0);
                self.feed = feed;
                true
            }
            Err(_) => false,
        }
    }
}

impl Source for Tables {
    fn read(&mut self, out: &mut Readings<'_>) {
        const UNEXPECTED: Fault = Fault::parse("not a table of hrut_ddr");
        const HOLE: Fault = Fault::parse("hrut_ddr's time went by much faster than ours");
        let (at, piece) = match self.feed.look(&mut self.piece) {
            Look::Nothing => return,
            Look::Piece(at, piece) => (at, piece),
            Look::Fault(fault) => {
                if self.ask_again(fault) {
                    return;
                }
                out.timed(|| ());
                return out.put_all(fault);
            }
        };
        let spent = out.timed(|| self.feed.cpu());
        out.put(CPU_SLOT, spent.map(|spent| spent + self.spent_before));
        out.at(at);
        let mut words = text::words(piece).map(text::number);
        let mut next = || words.next().flatten();
        let (Some(time), Some(read), Some(written)) = (next(), next(), next()) else {
            return spoilt(out, UNEXPECTED);
        };
        // A tool that started its clock anew covers no time.
        let span_ms = self.before_ms.map_or(0, |before| (time - before).max(0));
        self.before_ms = Some(time);
        if span_ms > LONGEST_MS {
            return spoilt(out, HOLE);
        }
        for (slot, rate) in [read, written].into_iter().enumerate() {
            let by = i128::from(rate) * i128::from(span_ms) / 1000;
            self.sums[slot] = self.sums[slot].saturating_add(i64::try_from(by).unwrap_or(0));
            out.put(slot, Ok(self.sums[slot]));
        }
    }
}

/// No traffic is known by this piece; what the tool costs is.
fn spoilt(out: &mut Readings<'_>, fault: Fault) {
    (0..CPU_SLOT).for_each(|slot| out.put(slot, Err(fault)));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sampler::testing::Tree;

    fn tables(lines: &[&str]) -> Vec<String> {
        let mut table = Table::default();
        let pieces = lines.iter().filter_map(|line| match table.take(line) {
            Digest::Piece(piece) => Some(String::from_utf8(piece).unwrap()),
            _ => None,
        });
        pieces.collect()
    }

    #[test]
    fn a_table_that_names_no_port_is_no_traffic_of_zero() {
        let raw = ["Time 1000", "Read :", "Write :", "ddrc 0", "Time 2000"];
        assert_eq!(tables(&raw), [] as [&str; 0]);
        // Two ports, 3 MiB read and 1 MiB written together.
        let ports = "p[0](bw: 1 stall: 2 delay: 3)";
        let more = "p[1](bw: 2 stall: 2 delay: 3)";
        let told = [
            "Time 1000",
            "Read :",
            ports,
            more,
            "Write :",
            ports,
            "ddrc 0",
        ];
        assert_eq!(tables(&told), ["1000 3145728 1048576"]);
        let blank = ["Time 1s", "MB/S P0:CPU", "Read : 5", "Write :"];
        assert_eq!(tables(&blank), [] as [&str; 0]);
    }

    #[test]
    fn lines_of_an_s100_are_read_by_the_names_of_their_columns() {
        let taken = |lines: &[&str]| -> Vec<String> {
            let mut reader = Lines::default();
            let pieces = lines.iter().filter_map(|line| match reader.take(line) {
                Digest::Piece(piece) => Some(String::from_utf8(piece).unwrap()),
                _ => None,
            });
            pieces.collect()
        };
        let lines = [
            "timestamp,read_MiB/s,write_MiB/s",
            "1699000000,2048.5,1024.25",
            "1699000001.5,0,0.5",
            "1699000002,-1,0",
            "1699000003,nan",
            "",
        ];
        // 2 048.5 and 1 024.25 MiB, then half of one.
        let expected = [
            "1699000000000 2148007936 1074003968",
            "1699000001500 0 524288",
        ];
        assert_eq!(taken(&lines), expected);
        assert_eq!(taken(&lines[1..]), [] as [&str; 0], "columns without names");
        let turned = ["write_MiB/s,timestamp,read_MiB/s", "1,7,2"];
        assert_eq!(taken(&turned), ["7000 2097152 1048576"]);
    }

    /// Answers to what an S100 is asked, and to nothing else.
    fn of_s(tree: &Tree, prints: &str) {
        tree.set(MODEL, "D-Robotics RDK S100 V1P0\0");
        let words = OF_S.words.join(" ");
        let script =
            format!("#!/bin/sh\n[ \"$*\" = \"{words}\" ] || exit 2\n{prints}\nexec sleep 60\n");
        tree.program(PROGRAMS[0], &script);
    }

    #[test]
    fn an_s100_tells_what_its_bpu_moved_on_one_device() {
        let tree = Tree::with(&[]);
        of_s(
            &tree,
            "echo timestamp,read_MiB/s,write_MiB/s; echo 100,5,5\nsleep 0.3\necho 102,100,10",
        );
        let mut watch = tree.watch(&Hrut);
        for _ in 0..500 {
            let readings = watch.again();
            if readings.get(BPU_READ.name) == Some(&Ok(209_715_200)) {
                // 100 and 10 MiB/s for two seconds.
                assert_eq!(readings[BPU_WRITTEN.name], Ok(20_971_520));
                assert!(!readings.contains_key(READ.name), "it is no total");
                return;
            }
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
        panic!("the second line never came");
    }

    #[test]
    fn a_time_in_another_unit_gives_no_bytes() {
        let tree = Tree::with(&[]);
        of_s(
            &tree,
            "echo timestamp,read_MiB/s,write_MiB/s; echo 1699000000000,5,5\nsleep 0.3\necho 1699000001000,5,5",
        );
        let mut watch = tree.watch(&Hrut);
        for _ in 0..500 {
            if let Some(Err(fault)) = watch.again().get(BPU_READ.name) {
                assert_eq!(fault.quality, Quality::ParseError);
                return;
            }
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
        panic!("a thousand seconds went by in one");
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

    /// As the X3's tool prints it, by its source.
    #[test]
    fn a_raw_table_is_the_sum_of_its_ports() {
        let lines = [
            "Time 364160876 ",
            "Read : ",
            "p[0](bw:   110 stall:     2 delay:    30) (maxRTrans:1 maxRvalid:2 accRtrans:3 minRtrans:4)",
            "p[1](bw:  4035 stall:     2 delay:    30)",
            "ddrc:  4200 MB/s;",
            "Write: ",
            "p[0](bw:   103 stall:     2 delay:    30)",
            "p[1](bw:  1175 stall:     0 delay:     0)",
            "ddrc   1300 MB/s, mask      0 MB/s",
        ];
        let whole = "364160876 4346347520 1340080128";
        assert_eq!(tables(&lines), [whole]);
        // Without the controller's line it ends where the next begins.
        let mut others = lines.to_vec();
        others.retain(|line| !line.starts_with("ddrc"));
        assert_eq!(tables(&others), [] as [&str; 0]);
        others.push("Time 364161876 ");
        assert_eq!(tables(&others), [whole]);
        // A table that was cut off has no written bytes.
        assert_eq!(
            tables(&[&lines[..4], &["Time 1 "][..]].concat()),
            [] as [&str; 0]
        );
    }

    #[test]
    fn a_tool_that_says_nothing_raw_is_asked_for_its_table() {
        let tree = Tree::with(&[]);
        tree.program(
            PROGRAMS[1],
            "#!/bin/sh\ncase \"$*\" in *-r) echo noise; exit 1;; esac\necho 'Time 10.0s'; echo 'Read : 1'; echo 'Write: 1'\nexec sleep 60\n",
        );
        let mut watch = tree.watch(&Hrut);
        for _ in 0..500 {
            match watch.again().get(READ.name) {
                Some(Ok(bytes)) => return assert_eq!(*bytes, 0, "the first table has no span"),
                Some(Err(fault)) => panic!("{}", fault.text()),
                None => std::thread::sleep(std::time::Duration::from_millis(10)),
            }
        }
        panic!("the table never came");
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
                assert!(readings["sensor.hrut.cpu"].unwrap() > 0);
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
    fn a_board_whose_form_nobody_knows_is_not_guessed_at() {
        let tree = Tree::with(&[(MODEL, "D-Robotics RDK S600 V1P0\0")]);
        tree.program(PROGRAMS[1], "#!/bin/sh\nexec sleep 60\n");
        let watch = tree.watch(&Hrut).watch;
        let (channel, _) = watch.latest().next().unwrap();
        assert!(channel.probe.reason().unwrap().contains("S600"));
    }

    #[test]
    fn without_the_tool_there_is_a_reason() {
        let watch = Tree::with(&[]).watch(&Hrut).watch;
        let (channel, _) = watch.latest().next().unwrap();
        assert!(channel.probe.reason().unwrap().contains("hrut_ddr"));
    }
}
