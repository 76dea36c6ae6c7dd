//! CPU clocks: what runs, what is allowed, how long each was held, and throttling that x86 counts.

use edgedyno_shared::telemetry::{ChannelKind, Fidelity};

use super::Sampler;
use super::board::Board;
use super::offer::{Found, Offer, Tier};
use super::source::{Fields, Place, single};

const POLICIES: &str = "sys/devices/system/cpu/cpufreq";
const CPUS: &str = "sys/devices/system/cpu";

/// Files are in kHz.
const KHZ: i64 = 1_000;

/// `time_in_state` counts ticks of 10 ms.
const TICK_NS: i64 = 10_000_000;

const FREQ: Offer = Offer {
    name: "cpu.POLICY.freq",
    unit: "hz",
    kind: ChannelKind::Gauge,
    fidelity: Fidelity::Measured,
    native_period: None,
    source: "/sys/devices/system/cpu/cpufreq/POLICY/scaling_cur_freq",
    rights: "any user",
    boards: "every Linux that shows CPU clocks",
    meaning: "On x86 a mean that the processor measured, on many Arm drivers only what was asked for last: compare with the residency.",
};

const ALLOWED: Offer = Offer {
    name: "cpu.POLICY.freq_max",
    source: "/sys/devices/system/cpu/cpufreq/POLICY/scaling_max_freq",
    meaning: "The highest clock allowed now; heat lowers it on many boards.",
    ..FREQ
};

const LOWEST: Offer = Offer {
    name: "cpu.POLICY.freq_min",
    source: "/sys/devices/system/cpu/cpufreq/POLICY/scaling_min_freq",
    meaning: "The lowest clock allowed now.",
    ..FREQ
};

const HARDWARE: Offer = Offer {
    name: "cpu.POLICY.freq_limit",
    source: "/sys/devices/system/cpu/cpufreq/POLICY/cpuinfo_max_freq",
    meaning: "The highest clock that the hardware has.",
    ..FREQ
};

const RESIDENCY: Offer = Offer {
    name: "cpu.POLICY.at_KHZ",
    unit: "ns",
    kind: ChannelKind::Counter,
    source: "/sys/devices/system/cpu/cpufreq/POLICY/stats/time_in_state",
    boards: "Linux with CONFIG_CPU_FREQ_STAT",
    meaning: "Time at that clock: exact over any span, however seldom it is read.",
    ..FREQ
};

const MOVES: Offer = Offer {
    name: "cpu.POLICY.transitions",
    unit: "count",
    source: "/sys/devices/system/cpu/cpufreq/POLICY/stats/total_trans",
    meaning: "Times that the clock moved: exact over any span, however seldom it is read.",
    ..RESIDENCY
};

const THROTTLES: Offer = Offer {
    name: "cpu.N.throttles",
    unit: "count",
    kind: ChannelKind::Counter,
    source: "/sys/devices/system/cpu/cpuN/thermal_throttle/core_throttle_count",
    boards: "x86 hardware, not virtual machines",
    meaning: "Times that the core was slowed because it was hot.",
    ..FREQ
};

const PACKAGE_THROTTLES: Offer = Offer {
    name: "cpu.N.package_throttles",
    source: "/sys/devices/system/cpu/cpuN/thermal_throttle/package_throttle_count",
    meaning: "Times that the whole package that CPU N is of was slowed because it was hot; one CPU of each package has it.",
    ..THROTTLES
};

pub(super) struct Clocks;

impl Sampler for Clocks {
    fn name(&self) -> &'static str {
        "clocks"
    }

    fn offers(&self) -> &'static [Offer] {
        &[
            FREQ,
            ALLOWED,
            LOWEST,
            HARDWARE,
            RESIDENCY,
            MOVES,
            THROTTLES,
            PACKAGE_THROTTLES,
        ]
    }

    fn find(&self, board: &Board) -> Vec<Found> {
        let mut found = Vec::new();
        match board.entries(POLICIES, "policy") {
            Ok(policies) => policies
                .iter()
                .for_each(|policy| found.extend(of_policy(board, policy))),
            Err(_) => found.push(FREQ.absent(format!(
                "/{POLICIES} has no policies: this kernel does not show CPU clocks"
            ))),
        }
        found.extend(throttles(board));
        found
    }
}

fn of_policy(board: &Board, policy: &str) -> Vec<Found> {
    let folder = format!("{POLICIES}/{policy}");
    let one = |tier, offer: &Offer, name: &str, file: &str| {
        let name = format!("cpu.{policy}.{name}");
        single(board, tier, offer, &name, &format!("{folder}/{file}"), KHZ)
    };
    let mut found = vec![
        one(Tier::Fast, &FREQ, "freq", "scaling_cur_freq"),
        one(Tier::Slow, &ALLOWED, "freq_max", "scaling_max_freq"),
        one(Tier::Slow, &LOWEST, "freq_min", "scaling_min_freq"),
        one(Tier::Once, &HARDWARE, "freq_limit", "cpuinfo_max_freq"),
    ];
    let moves = format!("{folder}/stats/total_trans");
    if board.has(&moves) {
        let name = format!("cpu.{policy}.transitions");
        found.push(single(board, Tier::Slow, &MOVES, &name, &moves, 1));
    }
    let path = format!("{folder}/stats/time_in_state");
    let table = board.line(&path).unwrap_or_default();
    let clocks = table
        .lines()
        .filter_map(|line| line.split(' ').next()?.parse::<u64>().ok());
    let clocks: Vec<u64> = clocks.collect();
    if !clocks.is_empty() {
        let specs = clocks
            .iter()
            .map(|khz| RESIDENCY.spec(format!("cpu.{policy}.at_{khz}"), format!("/{path}")));
        let places = clocks
            .iter()
            .map(|khz| (Place::Line(format!("{khz} ").into_bytes()), TICK_NS));
        let source = Fields::new(board, &path, 4096, places.collect());
        found.push(Found::new(Tier::Slow, specs.collect(), source));
    }
    found
}

fn throttles(board: &Board) -> Vec<Found> {
    let mut found = Vec::new();
    let mut packages = Vec::new();
    for cpu in board.entries(CPUS, "cpu").unwrap_or_default() {
        let Some(number) = cpu.strip_prefix("cpu").and_then(|n| n.parse::<u16>().ok()) else {
            continue;
        };
        let folder = format!("{CPUS}/{cpu}/thermal_throttle");
        let core = format!("{folder}/core_throttle_count");
        if !board.has(&core) {
            continue;
        }
        let name = format!("cpu.{number}.throttles");
        found.push(single(board, Tier::Slow, &THROTTLES, &name, &core, 1));
        // All cores of a package count the same; of which package a core is may not be told.
        let of = board.line(&format!("{CPUS}/{cpu}/topology/physical_package_id"));
        let of = of.and_then(|number| number.parse::<u16>().ok());
        let is_known = of.is_some() && packages.contains(&of);
        let package = format!("{folder}/package_throttle_count");
        if !is_known && board.has(&package) {
            packages.push(of);
            let name = format!("cpu.{number}.package_throttles");
            found.push(single(
                board,
                Tier::Slow,
                &PACKAGE_THROTTLES,
                &name,
                &package,
                1,
            ));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sampler::testing::Tree;

    #[test]
    fn a_policy_gives_clock_limits_and_residency() {
        let policy = format!("{POLICIES}/policy4");
        let tree = Tree::with(&[
            (&format!("{policy}/scaling_cur_freq"), "1699981\n"),
            (&format!("{policy}/scaling_max_freq"), "2000000\n"),
            (
                &format!("{policy}/stats/time_in_state"),
                "600000 25\n1800000 7\n",
            ),
            (&format!("{policy}/stats/total_trans"), "31\n"),
            (
                &format!("{CPUS}/cpu3/thermal_throttle/core_throttle_count"),
                "2\n",
            ),
        ]);
        let readings = tree.read(&Clocks);
        assert_eq!(readings["cpu.policy4.freq"], Ok(1_699_981_000));
        assert_eq!(readings["cpu.policy4.freq_max"], Ok(2_000_000_000));
        assert!(readings["cpu.policy4.freq_min"].is_err());
        assert_eq!(readings["cpu.policy4.at_600000"], Ok(250_000_000));
        assert_eq!(readings["cpu.policy4.transitions"], Ok(31));
        assert_eq!(readings["cpu.3.throttles"], Ok(2));
    }

    #[test]
    fn every_package_has_its_throttles_once() {
        let file = |cpu: u16, name: &str| format!("{CPUS}/cpu{cpu}/{name}");
        let tree = Tree::with(&[]);
        // CPUs of two sockets lie in turns.
        for (cpu, package) in [(0, "0\n"), (1, "1\n"), (2, "0\n"), (3, "1\n")] {
            let slowed = if package == "0\n" { "4\n" } else { "9\n" };
            tree.set(&file(cpu, "thermal_throttle/core_throttle_count"), "0\n");
            tree.set(
                &file(cpu, "thermal_throttle/package_throttle_count"),
                slowed,
            );
            tree.set(&file(cpu, "topology/physical_package_id"), package);
        }
        let told = |tree: &Tree| {
            let readings = tree.read(&Clocks).into_iter();
            let all = readings.filter(|(name, _)| name.ends_with("package_throttles"));
            all.map(|(name, count)| (name, count.unwrap()))
                .collect::<Vec<_>>()
        };
        let named = |cpu: u16, count: i64| (format!("cpu.{cpu}.package_throttles"), count);
        assert_eq!(told(&tree), [named(0, 4), named(1, 9)]);
        // One that does not say where it is may be of a third.
        tree.set(&file(2, "topology/physical_package_id"), "\n");
        assert_eq!(told(&tree), [named(0, 4), named(1, 9), named(2, 4)]);
    }

    #[test]
    fn a_machine_without_clocks_says_so() {
        let found = Clocks.find(&Tree::with(&[]).board());
        let [Found::Missing(spec, why)] = found.as_slice() else {
            panic!("one channel with a reason");
        };
        assert_eq!(spec.name, "cpu.POLICY.freq");
        assert!(why.reason().unwrap().contains("no policies"));
    }
}
