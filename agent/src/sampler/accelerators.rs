//! Loads, clocks and heat of accelerators, by the files of their drivers: one row for each.

use std::io;

use edgedyno_shared::telemetry::{ChannelKind, Fidelity};
use edgedyno_shared::units::Nanos;

use super::board::Board;
use super::fault::Fault;
use super::files::Kept;
use super::offer::{Found, Offer, Tier};
use super::source::{Single, single};
use super::watch::Readings;
use super::{Sampler, Source, bpu_tasks, text};

const SECOND: Option<Nanos> = Some(Nanos::from_secs(1));

const BPU_LOAD: Offer = Offer {
    name: "bpu.N.load",
    unit: "ppm",
    kind: ChannelKind::Gauge,
    fidelity: Fidelity::DriverAveraged,
    native_period: SECOND,
    source: "/sys/devices/system/bpu/bpuN/ratio",
    rights: "any user",
    boards: "D-Robotics X3, X5, S100, S600",
    meaning: "Busy share of a BPU core: a mean that decays over about a second, in whole percent. Trust it after three seconds of the same load.",
};

const BPU_FREQ: Offer = Offer {
    name: "bpu.N.freq",
    unit: "hz",
    fidelity: Fidelity::Measured,
    native_period: None,
    source: "/sys/devices/system/bpu/bpuN/devfreq/*/cur_freq",
    meaning: "Clock of a BPU core.",
    ..BPU_LOAD
};

const NPU_LOAD: Offer = Offer {
    name: "npu.N.load",
    source: "/sys/kernel/debug/rknpu/load, else /proc/rknpu/load",
    rights: "root; the file in /proc any user, where the kernel has it",
    boards: "Rockchip with the rknpu driver 0.7.2 or later",
    meaning: "Busy share of an NPU core over the second before. A job that hangs has shown far more than 100 %: that is no value here.",
    ..BPU_LOAD
};

const GPU_LOAD: Offer = Offer {
    name: "gpu.N.load",
    native_period: None,
    source: "load of the GPU's device",
    boards: "Jetson Nano to Orin; Thor tells it by NVML only",
    meaning: "Busy share of the GPU in steps of 0.1 %, over the governor's own period.",
    ..BPU_LOAD
};

const EMC_ACTIVITY: Offer = Offer {
    name: "emc.activity",
    unit: "raw",
    kind: ChannelKind::Gauge,
    fidelity: Fidelity::DriverAveraged,
    native_period: None,
    source: "/sys/kernel/debug/cactmon/mc_all and its older names",
    rights: "root",
    boards: "Jetson",
    meaning: "What the memory controller's monitor shows. Its unit is not documented and differs between releases: no share is made of it here.",
};

const EMC_RATE: Offer = Offer {
    name: "emc.freq",
    unit: "hz",
    fidelity: Fidelity::Measured,
    source: "/sys/kernel/debug/bpmp/debug/clk/emc/rate and its older names",
    meaning: "Clock of the memory.",
    ..EMC_ACTIVITY
};

const NPU_BUSY: Offer = Offer {
    name: "npu.N.busy",
    unit: "ns",
    kind: ChannelKind::Counter,
    fidelity: Fidelity::Measured,
    native_period: None,
    source: "/sys/class/accel/accelN/device/npu_busy_time_us",
    rights: "any user",
    boards: "Intel with the intel_vpu driver",
    meaning: "Time in which the NPU worked.",
};

const NPU_MEMORY: Offer = Offer {
    name: "npu.N.memory_used",
    unit: "bytes",
    kind: ChannelKind::Gauge,
    source: "/sys/class/accel/accelN/device/npu_memory_utilization",
    meaning: "Memory that the NPU's buffers take, of everybody.",
    ..NPU_BUSY
};

const NPU_FREQ: Offer = Offer {
    name: "npu.N.freq",
    unit: "hz",
    source: "/sys/class/accel/accelN/device/npu_current_frequency_mhz",
    meaning: "Clock of the NPU: 0 while it sleeps between two jobs.",
    ..NPU_MEMORY
};

const APEX: Offer = Offer {
    name: "therm.apex_N.temp",
    unit: "millicelsius",
    kind: ChannelKind::Gauge,
    fidelity: Fidelity::Measured,
    native_period: None,
    source: "/sys/class/apex/apex_N/temp",
    rights: "any user",
    boards: "boards with a Coral on PCIe",
    meaning: "Temperature of the accelerator.",
};

const PI_THROTTLED: Offer = Offer {
    name: "power.firmware_flags",
    unit: "bits",
    kind: ChannelKind::State,
    fidelity: Fidelity::Measured,
    native_period: None,
    source: "/sys/devices/platform/soc*/soc*:firmware/get_throttled",
    rights: "any user",
    boards: "Raspberry Pi with the kernel of its vendor; Linux as such does not show it",
    meaning: "Bits of now: 1 voltage too low, 2 clock capped, 4 throttled, 8 soft temperature limit. The same from 65536 on: since boot.",
};

/// Files with one integer of which the first that opens is the one: offer, places, scale.
const FIRST_OF: [(Offer, &[&str], i64); 2] = [
    (
        EMC_ACTIVITY,
        &[
            "sys/kernel/debug/cactmon/mc_all",
            "sys/kernel/debug/bpmp/debug/actmon/mc_all_avg_activity",
            "sys/kernel/actmon_avg_activity/mc_all",
        ],
        1,
    ),
    (
        EMC_RATE,
        &[
            "sys/kernel/debug/bpmp/debug/clk/emc/rate",
            "sys/class/devfreq/bwmgr/cur_freq",
            "sys/kernel/debug/clk/override.emc/clk_rate",
            "sys/kernel/debug/clk/emc/clk_rate",
        ],
        1,
    ),
];

/// Files of Intel's NPU driver, which asks for a second between two reads: what, file, scale.
const INTEL_NPU: [(Offer, &str, &str, i64); 3] = [
    (NPU_BUSY, "busy", "npu_busy_time_us", 1_000),
    (NPU_MEMORY, "memory_used", "npu_memory_utilization", 1),
    (NPU_FREQ, "freq", "npu_current_frequency_mhz", 1_000_000),
];

/// Where a Jetson's GPU shows its load when no devfreq device leads there.
const GPU_LOADS: [&str; 4] = [
    "sys/devices/platform/bus@0/17000000.gpu/load",
    "sys/devices/platform/gpu.0/load",
    "sys/devices/gpu.0/load",
    "sys/devices/17000000.gp10b/load",
];

const RKNPU: [&str; 2] = ["sys/kernel/debug/rknpu/load", "proc/rknpu/load"];

/// Any user sees by it that there is a driver, where debugfs is root's alone.
const RKNPU_DRIVER: &str = "sys/bus/platform/drivers/RKNPU";

const BPUS: &str = "sys/devices/system/bpu";
/// Says which board it is: `Raspberry Pi 5 Model B Rev 1.0`.
const MODEL: &str = "proc/device-tree/model";

const PLATFORM: &str = "sys/devices/platform";

pub(super) struct Accelerators;

impl Sampler for Accelerators {
    fn name(&self) -> &'static str {
        "accelerators"
    }

    fn offers(&self) -> &'static [Offer] {
        &[
            BPU_LOAD,
            BPU_FREQ,
            bpu_tasks::MEAN,
            bpu_tasks::LONGEST,
            NPU_LOAD,
            NPU_BUSY,
            NPU_MEMORY,
            NPU_FREQ,
            GPU_LOAD,
            EMC_ACTIVITY,
            EMC_RATE,
            APEX,
            PI_THROTTLED,
        ]
    }

    fn find(&self, board: &Board) -> Vec<Found> {
        let mut found = bpus(board);
        found.extend(rknpu(board));
        found.extend(jetson(board));
        for accel in board
            .entries("sys/class/accel", "accel")
            .unwrap_or_default()
        {
            for (offer, what, file, scale) in INTEL_NPU {
                let path = format!("sys/class/accel/{accel}/device/{file}");
                if board.has(&path) {
                    let name = format!("npu.{}.{what}", &accel["accel".len()..]);
                    found.push(single(board, Tier::Slow, &offer, &name, &path, scale));
                }
            }
        }
        for apex in board.entries("sys/class/apex", "apex").unwrap_or_default() {
            let path = format!("sys/class/apex/{apex}/temp");
            let name = format!("therm.{apex}.temp");
            found.push(single(board, Tier::Normal, &APEX, &name, &path, 1));
        }
        if found.is_empty() {
            found.push(GPU_LOAD.absent("no driver of an accelerator shows its load here"));
        }
        found.extend(firmware_flags(board));
        found
    }
}

fn bpus(board: &Board) -> Vec<Found> {
    let mut found = Vec::new();
    for bpu in board.entries(BPUS, "bpu").unwrap_or_default() {
        let Some(number) = bpu.strip_prefix("bpu").and_then(|n| n.parse::<u16>().ok()) else {
            continue;
        };
        let folder = format!("{BPUS}/{bpu}");
        let path = format!("{folder}/ratio");
        let spec = BPU_LOAD.spec(format!("bpu.{number}.load"), format!("/{path}"));
        let source = Single::parsed(board, &path, percent, 1);
        found.push(Found::new(Tier::Slow, vec![spec], source));
        // Below the device there is one folder, named after it or after a number.
        let devices = board.entries(&format!("{folder}/devfreq"), "");
        for device in devices.unwrap_or_default().iter().take(1) {
            let path = format!("{folder}/devfreq/{device}/cur_freq");
            let name = format!("bpu.{number}.freq");
            found.push(single(board, Tier::Normal, &BPU_FREQ, &name, &path, 1));
        }
        found.extend(bpu_tasks::find(board, &folder, number));
    }
    found
}

/// Flags of a Raspberry Pi's firmware, below its node: `soc/soc:firmware`, on a Pi 5
/// `soc@107c000000/soc@107c000000:firmware`.
fn firmware_flags(board: &Board) -> Option<Found> {
    let below = |soc: String| {
        let folder = format!("{PLATFORM}/{soc}");
        let nodes = board.entries(&folder, "soc").unwrap_or_default();
        let mut nodes = nodes.into_iter().filter(|node| node.ends_with(":firmware"));
        nodes.next().map(|node| format!("{folder}/{node}"))
    };
    let nodes = board.entries(PLATFORM, "soc").unwrap_or_default();
    let node = nodes.into_iter().find_map(below)?;
    let path = format!("{node}/get_throttled");
    let listed = board.files.list(&node).unwrap_or_default();
    if !listed.iter().any(|name| name == "get_throttled") {
        let reason = format!("/{path} is not there: the kernel's firmware driver does not show it");
        // Other boards have a firmware below their SoC too.
        let is_pi = board
            .line(MODEL)
            .is_some_and(|model| model.starts_with("Raspberry Pi"));
        return is_pi.then(|| PI_THROTTLED.absent(reason));
    }
    let spec = PI_THROTTLED.spec(PI_THROTTLED.name, format!("/{path}"));
    let source = Single::parsed(board, &path, bits, 1);
    Some(Found::new(Tier::Normal, vec![spec], source))
}

fn rknpu(board: &Board) -> Option<Found> {
    // A file that may not be opened is a better answer than none.
    let listed = |path: &&&str| {
        let (folder, file) = path.rsplit_once('/').unwrap_or(("", path));
        board
            .files
            .list(folder)
            .is_ok_and(|names| names.iter().any(|name| name == file))
    };
    let path = RKNPU.iter().find(|path| board.has(path));
    let closed = || {
        let why = board.files.open(RKNPU[0]).err()?;
        let is_there = board.files.list(RKNPU_DRIVER).is_ok();
        (is_there && why.kind() != io::ErrorKind::NotFound).then_some(&RKNPU[0])
    };
    let path = path.or_else(|| RKNPU.iter().find(listed)).or_else(closed)?;
    let mut file = board.keep(path, 512);
    let cores = file.text().map_or(1, |held| cores(held).max(1));
    let specs =
        (0..cores).map(|core| NPU_LOAD.spec(format!("npu.{core}.load"), format!("/{path}")));
    Some(Found::new(
        Tier::Slow,
        specs.collect(),
        Rknpu { file, cores },
    ))
}

struct Rknpu {
    file: Kept,
    cores: usize,
}

impl Source for Rknpu {
    fn read(&mut self, out: &mut Readings<'_>) {
        let held = match out.timed(|| self.file.text()) {
            Ok(held) => held,
            Err(fault) => return out.put_all(fault),
        };
        for core in 0..self.cores {
            out.put(core, npu_share(held, core));
        }
    }
}

const NPU_PREFIX: &[u8] = b"NPU load:";

/// How many cores a load line names: `Core0: 25%, Core1:  0%,`; one that is not named is one all the same.
fn cores(held: &[u8]) -> usize {
    text::after(held, NPU_PREFIX).map_or(0, |rest| {
        rest.windows(4).filter(|window| *window == b"Core").count()
    })
}

/// The share of one core. The driver writes 0 with an empty precision, which some builds show as a blank.
fn npu_share(held: &[u8], core: usize) -> Result<i64, Fault> {
    const UNEXPECTED: Fault = Fault::parse("not a load line of rknpu");
    let rest = text::after(held, NPU_PREFIX).ok_or(UNEXPECTED)?;
    let part = rest
        .split(|byte| *byte == b',')
        .nth(core)
        .ok_or(UNEXPECTED)?;
    let part = match part.iter().position(|byte| *byte == b':') {
        Some(colon) => &part[colon + 1..],
        None => part,
    };
    let number = part.trim_ascii().strip_suffix(b"%").ok_or(UNEXPECTED)?;
    match number.trim_ascii() {
        b"" => Ok(0),
        number => text::share(text::number(number).ok_or(UNEXPECTED)?, 100),
    }
}

fn jetson(board: &Board) -> Vec<Found> {
    let mut found = Vec::new();
    let by_devfreq = board.entries("sys/class/devfreq", "").unwrap_or_default();
    let by_devfreq = by_devfreq.into_iter().filter_map(|device| {
        let folder = format!("sys/class/devfreq/{device}/device");
        let name = board.line(&format!("{folder}/of_node/name"))?;
        let is_gpu =
            ["gp10b", "gv11b", "ga10b", "gb10b"].contains(&name.as_str()) || name.contains("gpu");
        let path = format!("{folder}/load");
        (is_gpu && board.has(&path)).then_some(path)
    });
    let known = GPU_LOADS
        .iter()
        .filter(|path| board.has(path))
        .map(|p| (*p).to_owned());
    if let Some(path) = by_devfreq.chain(known).next() {
        let spec = GPU_LOAD.spec("gpu.0.load", format!("/{path}"));
        let source = Single::parsed(board, &path, permille, 1);
        found.push(Found::new(Tier::Normal, vec![spec], source));
    }
    // Only a Jetson has these folders; elsewhere their absence means nothing.
    let is_jetson = [
        "sys/kernel/debug/bpmp",
        "sys/kernel/actmon_avg_activity",
        "sys/kernel/debug/cactmon",
    ]
    .iter()
    .any(|folder| board.files.list(folder).is_ok())
        || !found.is_empty();
    for (offer, places, scale) in FIRST_OF.iter().filter(|_| is_jetson) {
        let place = first_that_answers(board, places);
        found.push(single(
            board,
            Tier::Normal,
            offer,
            offer.name,
            place,
            *scale,
        ));
    }
    found
}

/// The first file that can be opened, else the first that is there and cannot.
fn first_that_answers<'a>(board: &Board, places: &[&'a str]) -> &'a str {
    let opened = places.iter().map(|path| (path, board.files.open(path)));
    let mut closed = None;
    for (path, opened) in opened {
        match opened {
            Ok(_) => return path,
            Err(why) if why.kind() != io::ErrorKind::NotFound => {
                closed.get_or_insert(*path);
            }
            Err(_) => {}
        }
    }
    closed.unwrap_or(places[0])
}

fn percent(held: &[u8]) -> Result<i64, Fault> {
    text::share(text::integer(held)?, 100)
}

fn permille(held: &[u8]) -> Result<i64, Fault> {
    text::share(text::integer(held)?, 1_000)
}

/// A number in base 16, with or without `0x`.
fn bits(held: &[u8]) -> Result<i64, Fault> {
    const UNEXPECTED: Fault = Fault::parse("not a number in base 16");
    let held = held.trim_ascii();
    let digits = held.strip_prefix(b"0x").unwrap_or(held);
    if digits.is_empty() || digits.len() > 15 {
        return Err(UNEXPECTED);
    }
    digits.iter().try_fold(0_i64, |value, digit| {
        let digit = (*digit as char).to_digit(16).ok_or(UNEXPECTED)?;
        Ok(value << 4 | i64::from(digit))
    })
}

#[cfg(test)]
mod tests {
    use edgedyno_shared::telemetry::Quality;
    use proptest::prelude::*;

    use super::*;
    use crate::sampler::testing::Tree;

    #[test]
    fn load_lines_of_one_and_three_cores_are_read() {
        let three = b"NPU load:  Core0: 63%, Core1:  0%, Core2:   %,\n";
        assert_eq!(cores(three), 3);
        let shares = [0, 1, 2].map(|core| npu_share(three, core));
        assert_eq!(shares, [Ok(630_000), Ok(0), Ok(0)]);
        let one = b"NPU load:  7%\n";
        assert_eq!((cores(one), npu_share(one, 0)), (0, Ok(70_000)));
        let stuck = npu_share(b"NPU load:  20000%\n", 0);
        assert_eq!(stuck.unwrap_err().quality, Quality::ParseError);
        let missing = npu_share(b"NPU load:  \n", 0);
        assert_eq!(missing.unwrap_err().quality, Quality::ParseError);
    }

    #[test]
    fn an_intel_npu_gives_time_memory_and_clock() {
        let file = |name: &str| format!("sys/class/accel/accel0/device/{name}");
        let tree = Tree::with(&[
            (&file("npu_busy_time_us"), "1500\n"),
            (&file("npu_memory_utilization"), "4096\n"),
            (&file("npu_current_frequency_mhz"), "1400\n"),
        ]);
        let readings = tree.read(&Accelerators);
        assert_eq!(readings["npu.0.busy"], Ok(1_500_000));
        assert_eq!(readings["npu.0.memory_used"], Ok(4096));
        assert_eq!(readings["npu.0.freq"], Ok(1_400_000_000));
    }

    #[test]
    fn firmware_flags_are_read_in_base_16() {
        assert_eq!(bits(b"50005\n"), Ok(0x50005));
        assert_eq!(bits(b"0x0"), Ok(0));
        assert!(bits(b"").is_err() && bits(b"throttled").is_err());
    }

    #[test]
    fn firmware_flags_are_found_wherever_a_pi_has_its_firmware() {
        for node in ["soc/soc:firmware", "soc@107c000000/soc@107c000000:firmware"] {
            let path = format!("{PLATFORM}/{node}/get_throttled");
            let tree = Tree::with(&[
                (&format!("{PLATFORM}/soc.dummy/uevent"), ""),
                (&format!("{PLATFORM}/{node}/uevent"), ""),
                (&path, "50005\n"),
            ]);
            let readings = tree.read(&Accelerators);
            assert_eq!(readings["power.firmware_flags"], Ok(0x50005), "{node}");
        }
    }

    #[test]
    fn a_pi_whose_kernel_does_not_show_the_flags_says_so_and_another_board_does_not() {
        let node = format!("{PLATFORM}/soc@107c000000/soc@107c000000:firmware/uevent");
        for (model, is_told) in [
            ("Raspberry Pi 5 Model B Rev 1.0\0", true),
            ("Other\0", false),
        ] {
            let tree = Tree::with(&[(&node, ""), (MODEL, model)]);
            let found = Accelerators.find(&tree.board());
            let told = found.iter().any(
                |found| matches!(found, Found::Missing(spec, _) if spec.name == PI_THROTTLED.name),
            );
            assert_eq!(told, is_told, "{model}");
        }
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_panic(held: Vec<u8>, core in 0_usize..4) {
            let mut line = NPU_PREFIX.to_vec();
            line.extend(&held);
            for text in [&held, &line] {
                let _ = (cores(text), bits(text));
                if let Ok(share) = npu_share(text, core) {
                    prop_assert!((0..=1_000_000).contains(&share));
                }
            }
        }
    }
}
