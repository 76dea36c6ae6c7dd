//! Lines of NVIDIA's `tegrastats`, for what a Jetson's files do not show.
//!
//! The load of the memory controller is the one figure that no file gives in a unit that is known; the tool
//! prints it, to root. It is started only where the files give less than it does: to root, and where they show
//! no memory clock. It is a process of its own that runs beside the worker.

use std::process::Command;

use edgedyno_shared::telemetry::{ChannelKind, Fidelity};
use edgedyno_shared::units::Nanos;

use super::board::Board;
use super::fault::Fault;
use super::feed::{self, Digest, Feed, Look};
use super::labels::Labels;
use super::offer::{Found, Offer, Spec, Tier};
use super::watch::Readings;
use super::{Sampler, Source, text};

const SECOND: Nanos = Nanos::from_secs(1);

/// Where it lies.
const PROGRAM: &str = "usr/bin/tegrastats";

const RAILS: usize = 8;
const SENSORS: usize = 16;

const EMC_LOAD: Offer = Offer {
    name: "tegrastats.emc.load",
    unit: "ppm",
    kind: ChannelKind::Gauge,
    fidelity: Fidelity::DriverAveraged,
    native_period: Some(SECOND),
    source: "tegrastats EMC_FREQ",
    rights: "root: without it the tool leaves the field out",
    boards: "Jetson, where tegrastats is installed: for root, and where no file shows the memory's clock",
    meaning: "Busy share of the memory controller at its clock, in whole percent, as the vendor's tool prints it.",
};

const EMC_FREQ: Offer = Offer {
    name: "tegrastats.emc.freq",
    unit: "hz",
    fidelity: Fidelity::Measured,
    meaning: "Clock of the memory, in whole MHz.",
    ..EMC_LOAD
};

const GPU_LOAD: Offer = Offer {
    name: "tegrastats.gpu.load",
    source: "tegrastats GR3D_FREQ",
    rights: "any user",
    meaning: "Busy share of the GPU in whole percent. Thor prints none.",
    ..EMC_LOAD
};

const RAIL: Offer = Offer {
    name: "tegrastats.RAIL.power",
    unit: "microwatt",
    source: "tegrastats",
    rights: "any user",
    meaning: "Power of a rail as the tool prints it, in whole milliwatts, the first of its values: the one of now.",
    ..EMC_LOAD
};

const SENSOR: Offer = Offer {
    name: "tegrastats.SENSOR.temp",
    unit: "millicelsius",
    fidelity: Fidelity::Measured,
    source: "tegrastats",
    rights: "any user",
    meaning: "A temperature; -256 °C, which the tool prints for a sensor that is off, is no value.",
    ..EMC_LOAD
};

const CPU: Offer = Offer {
    name: "sensor.tegrastats.cpu",
    unit: "ns",
    kind: ChannelKind::Counter,
    fidelity: Fidelity::Measured,
    native_period: None,
    source: "clock_gettime of the tool's process",
    rights: "any user",
    meaning: "CPU time of the tool: it runs on the agent's CPUs, and is not part of `sampler.cpu`.",
    ..EMC_LOAD
};

/// Behind all that it tells.
const CPU_SLOT: usize = 3 + RAILS + SENSORS;

pub(super) struct Tegrastats;

impl Sampler for Tegrastats {
    fn name(&self) -> &'static str {
        "tegrastats"
    }

    fn offers(&self) -> &'static [Offer] {
        &[EMC_LOAD, EMC_FREQ, GPU_LOAD, RAIL, SENSOR, CPU]
    }

    fn find(&self, board: &Board) -> Vec<Found> {
        let Some(program) = board.files.program(PROGRAM) else {
            return vec![EMC_LOAD.absent(format!("/{PROGRAM} is not there"))];
        };
        if !tells_more(board) {
            let reason = "the files of this board show clock, GPU and rails, and the tool prints the memory's load to root only: it is left out";
            return vec![EMC_LOAD.absent(reason)];
        }
        let mut command = Command::new(program);
        command.args(["--interval", "1000"]);
        let feed = match Feed::lines_of(command, Nanos(5 * SECOND.0), |line| {
            Digest::Piece(line.to_vec())
        }) {
            Ok(feed) => feed,
            Err(why) => return vec![EMC_LOAD.absent(format!("/{PROGRAM}: {why}"))],
        };
        let source = format!("/{PROGRAM} --interval 1000");
        let unnamed = |offer: &Offer| Spec {
            name: String::new(),
            ..offer.spec("", &source)
        };
        let mut specs: Vec<Spec> = [EMC_LOAD, EMC_FREQ, GPU_LOAD]
            .iter()
            .map(|offer| offer.spec(offer.name, &source))
            .collect();
        specs.extend((0..RAILS).map(|_| unnamed(&RAIL)));
        specs.extend((0..SENSORS).map(|_| unnamed(&SENSOR)));
        specs.push(CPU.spec(CPU.name, CPU.source));
        let lines = Lines {
            feed,
            line: feed::room(),
            rails: Labels::new(RAILS, "tegrastats", "power"),
            sensors: Labels::new(SENSORS, "tegrastats", "temp"),
        };
        vec![Found::new(Tier::Normal, specs, lines)]
    }
}

/// Whether the tool tells what files do not: the load of the memory to whoever may read debugfs, as root may,
/// and all it has where no file shows the memory's clock.
fn tells_more(board: &Board) -> bool {
    const CLOCKS: [&str; 3] = [
        "sys/kernel/debug/bpmp/debug/clk/emc/rate",
        "sys/class/devfreq/bwmgr/cur_freq",
        "sys/kernel/debug/clk/emc/clk_rate",
    ];
    let shown = CLOCKS.iter().find(|path| board.has(path));
    shown.is_none_or(|path| path.starts_with("sys/kernel/debug/"))
}

struct Lines {
    feed: Feed,
    line: Vec<u8>,
    rails: Labels,
    sensors: Labels,
}

impl Source for Lines {
    fn read(&mut self, out: &mut Readings<'_>) {
        let (at, line) = match self.feed.look(&mut self.line) {
            Look::Nothing => return,
            Look::Piece(at, line) => (at, line),
            Look::Fault(fault) => {
                out.timed(|| ());
                return out.put_all(fault);
            }
        };
        let spent = out.timed(|| self.feed.cpu());
        out.put(CPU_SLOT, spent);
        out.at(at);
        let (load, clock) = emc(line);
        out.put(0, load);
        out.put(1, clock);
        out.put(2, gpu(line));
        let mut words = text::words(line.trim_ascii()).peekable();
        while let Some(word) = words.next() {
            if let Some((sensor, celsius)) = temperature(word) {
                if let Some(slot) = self.sensors.slot(&[sensor]) {
                    out.put(3 + RAILS + slot, celsius);
                }
            } else if let Some(power) = words.peek().and_then(|next| milliwatts(next))
                && is_rail(word)
                && let Some(slot) = self.rails.slot(&[word])
            {
                out.put(3 + slot, Ok(power.saturating_mul(1000)));
            }
        }
    }

    fn new_name(&mut self) -> Option<(usize, &str)> {
        if self.rails.has_untold() {
            let (slot, name) = self.rails.tell()?;
            return Some((3 + slot, name));
        }
        let (slot, name) = self.sensors.tell()?;
        Some((3 + RAILS + slot, name))
    }
}

const NO_FIELD: Fault =
    Fault::absent("the tool printed no such field: without root it leaves it out");

/// The word behind a name.
fn field<'a>(line: &'a [u8], name: &[u8]) -> Option<&'a [u8]> {
    let mut words = text::words(line.trim_ascii());
    words.find(|word| *word == name)?;
    words.next()
}

/// `2%@1600`: load and clock in MHz.
fn emc(line: &[u8]) -> (Result<i64, Fault>, Result<i64, Fault>) {
    let Some(word) = field(line, b"EMC_FREQ") else {
        return (Err(NO_FIELD), Err(NO_FIELD));
    };
    let clock = word.split(|byte| *byte == b'@').nth(1);
    let clock = clock.and_then(text::number).ok_or(NO_FIELD);
    let hz = clock.map(|mhz| mhz.saturating_mul(1_000_000));
    (text::percent_at(word), hz)
}

/// `0%`, `0%@1109`, `27%@[1172]`; Thor prints `@[1000,1000,1000]`, which is no load.
fn gpu(line: &[u8]) -> Result<i64, Fault> {
    let word = field(line, b"GR3D_FREQ").ok_or(NO_FIELD)?;
    match word.starts_with(b"@") {
        true => Err(Fault::absent(
            "this board's tool prints clocks of the GPU and no load",
        )),
        false => text::percent_at(word),
    }
}

/// `cpu@52.156C`, `CPU@33.5C`, `cpu@52.968C/52.968C` (now and mean).
fn temperature(word: &[u8]) -> Option<(&[u8], Result<i64, Fault>)> {
    let at = word.iter().position(|byte| *byte == b'@')?;
    let (name, value) = (&word[..at], &word[at + 1..]);
    let value = value
        .split(|byte| *byte == b'/')
        .next()?
        .strip_suffix(b"C")?;
    let milli = thousandths(value)?;
    let celsius = match milli {
        -256_000 => Err(Fault::absent("the sensor is switched off")),
        milli => Ok(milli),
    };
    (!name.is_empty() && name[0].is_ascii_alphabetic()).then_some((name, celsius))
}

/// `52.156` as 52156.
fn thousandths(text: &[u8]) -> Option<i64> {
    let mut parts = text.splitn(2, |byte| *byte == b'.');
    let whole = parts.next()?;
    let is_negative = whole.starts_with(b"-");
    let fraction = parts.next().unwrap_or_default();
    if fraction.len() > 9 || !fraction.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let digits = fraction.iter().chain(b"000").take(3);
    let milli = digits.fold(0_i64, |sum, digit| sum * 10 + i64::from(digit - b'0'));
    let whole = text::number(whole)?.checked_mul(1000)?;
    whole.checked_add(if is_negative { -milli } else { milli })
}

/// `4900mW/5000mW` or `6140/5510`: milliwatts of now, and a mean behind.
fn milliwatts(word: &[u8]) -> Option<i64> {
    let mut parts = word.split(|byte| *byte == b'/');
    let (now, mean) = (parts.next()?, parts.next()?);
    let number = |part: &[u8]| text::number(part.strip_suffix(b"mW").unwrap_or(part));
    number(mean)?;
    number(now)
}

/// Rails are named in capitals; `RAM 1954/7620MB` and `SWAP` are none, and `NC` is not connected.
fn is_rail(word: &[u8]) -> bool {
    let capitals = |byte: &u8| byte.is_ascii_uppercase() || byte.is_ascii_digit() || *byte == b'_';
    word.iter().all(capitals)
        && word.iter().any(u8::is_ascii_uppercase)
        && ![b"RAM" as &[u8], b"SWAP", b"NC"].contains(&word)
}

#[cfg(test)]
mod tests {
    use edgedyno_shared::telemetry::Quality;
    use proptest::prelude::*;

    use super::*;
    use crate::sampler::testing::Tree;

    const XAVIER: &str = "RAM 2362/7763MB (lfb 7x4MB) SWAP 0/3882MB (cached 0MB) CPU [12%@1190,off,5%@1190,3%@1190] EMC_FREQ 2%@1600 GR3D_FREQ 0%@1109 APE 150 MTS fg 1% bg 9% AO@33.5C GPU@33C PMIC@100C VDD_IN 6140/5510 VDD_CPU_GPU_CV 1680/1080";
    const ORIN: &str = "07-01-2024 10:00:00 RAM 1954/7620MB (lfb 1x2MB) SWAP 0/3810MB (cached 0MB) CPU [0%@729,0%@729] EMC_FREQ 0%@2133 GR3D_FREQ 27%@[305] APE 200 CV0@-256C cpu@48.062C tj@48.968C/48.968C VDD_IN 4523mW/4523mW VDD_CPU_GPU_CV 524mW/524mW NC 0mW/0mW";
    const USER: &str = "RAM 1954/7620MB CPU [0%@729] GR3D_FREQ 0% cpu@48.062C VDD_IN 4523mW/4523mW";

    #[test]
    fn fields_of_two_generations_are_read() {
        assert_eq!(emc(XAVIER.as_bytes()), (Ok(20_000), Ok(1_600_000_000)));
        assert_eq!(gpu(XAVIER.as_bytes()), Ok(0));
        assert_eq!(emc(ORIN.as_bytes()), (Ok(0), Ok(2_133_000_000)));
        assert_eq!(gpu(ORIN.as_bytes()), Ok(270_000));
        assert_eq!(temperature(b"cpu@48.062C"), Some((&b"cpu"[..], Ok(48_062))));
        assert_eq!(temperature(b"GPU@33C"), Some((&b"GPU"[..], Ok(33_000))));
        assert_eq!(
            temperature(b"tj@48.968C/48.1C"),
            Some((&b"tj"[..], Ok(48_968)))
        );
        assert_eq!(
            temperature(b"BCPU@-45.5C"),
            Some((&b"BCPU"[..], Ok(-45_500)))
        );
        let off = temperature(b"CV0@-256C").unwrap().1.unwrap_err();
        assert_eq!(off.quality, Quality::Absent);
        assert_eq!(milliwatts(b"6140/5510"), Some(6140));
        assert_eq!(milliwatts(b"4900mW/5000mW"), Some(4900));
        assert_eq!(milliwatts(b"5139mW/5139mW/5139mW"), Some(5139));
    }

    #[test]
    fn a_field_that_is_not_printed_is_not_zero() {
        let (load, clock) = emc(USER.as_bytes());
        assert_eq!(load.unwrap_err().quality, Quality::Absent);
        assert_eq!(clock.unwrap_err().quality, Quality::Absent);
        assert!(gpu(b"GR3D_FREQ @[1000,1000,1000]").is_err());
    }

    fn wait(watch: &mut crate::sampler::testing::Turned, name: &str) -> Result<i64, Fault> {
        for _ in 0..500 {
            let found = watch.again().get(name).copied();
            match found {
                Some(found) => return found,
                None => std::thread::sleep(std::time::Duration::from_millis(10)),
            }
        }
        panic!("{name} never came");
    }

    #[test]
    fn lines_of_the_tool_become_channels() {
        let tree = Tree::with(&[("usr/bin/tegrastats", "")]);
        let script = format!("#!/bin/sh\necho '{ORIN}'\nexec sleep 60\n");
        tree.program("usr/bin/tegrastats", &script);
        let mut watch = tree.watch(&Tegrastats);
        assert_eq!(wait(&mut watch, "tegrastats.vdd_in.power"), Ok(4_523_000));
        let readings = watch.again();
        assert_eq!(readings["tegrastats.emc.freq"], Ok(2_133_000_000));
        assert_eq!(readings["tegrastats.gpu.load"], Ok(270_000));
        assert_eq!(readings["tegrastats.cpu.temp"], Ok(48_062));
        assert!(readings["tegrastats.cv0.temp"].is_err());
        assert!(readings["sensor.tegrastats.cpu"].unwrap() > 0);
        assert!(
            !readings
                .keys()
                .any(|name| name.contains("ram") || name.contains(".nc."))
        );
    }

    #[test]
    fn a_tool_that_ends_is_told_and_one_that_is_not_needed_is_not_started() {
        let tree = Tree::with(&[("usr/bin/tegrastats", "")]);
        tree.program("usr/bin/tegrastats", "#!/bin/sh\nexit 3\n");
        let mut watch = tree.watch(&Tegrastats);
        let fault = wait(&mut watch, "tegrastats.emc.load").unwrap_err();
        assert!(fault.text().contains("has ended"), "{}", fault.text());
        tree.set("sys/class/devfreq/bwmgr/cur_freq", "1\n");
        tree.program("usr/bin/tegrastats", "#!/bin/sh\ntouch started\n");
        let (channel, _) = tree
            .watch(&Tegrastats)
            .watch
            .latest()
            .next()
            .map(|(c, l)| (c.clone(), l))
            .unwrap();
        assert!(channel.probe.reason().unwrap().contains("left out"));
        // Who may read debugfs is told the memory's load.
        tree.set("sys/kernel/debug/bpmp/debug/clk/emc/rate", "1\n");
        assert!(tells_more(&tree.board()));
    }

    proptest! {
        #[test]
        fn no_line_makes_it_panic(line: Vec<u8>, word in "[A-Za-z0-9@%./-]{0,20}") {
            for text in [&line[..], word.as_bytes()] {
                let _ = (emc(text), gpu(text), temperature(text), milliwatts(text));
            }
            let line = format!("EMC_FREQ {word} GR3D_FREQ {word}");
            let (load, _) = emc(line.as_bytes());
            if let Ok(share) = load {
                prop_assert!((0..=1_000_000).contains(&share));
            }
        }
    }
}
