//! Text about boards: the list, one board, what was set up or taken away, what is broken.

use std::collections::BTreeMap;

use edgedyno_shared::cpus;
use edgedyno_shared::device::{DeviceInfo, Fact, RuntimeVerdict};
use edgedyno_shared::wire::request::LeaseState;

use super::runtime::chosen;
use super::table::Table;
use super::units;
use crate::board::known::{KnownBoard, Start};
use crate::board::local;
use crate::board::setup::{Ready, Standing};
use crate::board::ssh::clear::Removed;
use crate::doctor::{Report, State};
use crate::documents::utc;
use crate::runtime::PACKAGES;
use crate::runtime::listing::Listing;

/// `board list`.
pub fn list<'a>(boards: impl Iterator<Item = (&'a str, &'a KnownBoard)>) -> String {
    let mut table = Table::new()
        .text("board")
        .text("reached by")
        .text("agent")
        .text("key");
    table.row([local::NAME, "this machine", "", ""]);
    for (name, board) in boards {
        let mut ways: Vec<String> = board.addresses.iter().map(ToString::to_string).collect();
        ways.extend(board.ssh.iter().map(|route| route.destination.to_string()));
        let agent = board
            .ssh
            .as_ref()
            .map(|route| format!("{}, {}", route.architecture, route.start.name()));
        let key = board.key.map(|key| key.fingerprint().to_string());
        table.row([
            name,
            &ways.join(" "),
            &agent.unwrap_or_default(),
            &key.unwrap_or_default(),
        ]);
    }
    table.render()
}

/// `board info`: what the board is, and who measures on it.
pub fn info(name: &str, device: &DeviceInfo, lease: &LeaseState) -> String {
    let held = match &lease.holder {
        None => "free".to_owned(),
        Some(holder) => {
            let since = utc(holder.since_unix_ns).unwrap_or_default();
            format!("{} since {since}", holder.name)
        }
    };
    let memory = units::bytes(device.memory_total.map(|bytes| bytes.0 as f64));
    let mut lines = vec![
        format!("board {name}"),
        format!(
            "  agent:   {}, build {}",
            device.agent_version, device.build
        ),
        format!(
            "  machine: {} {}, {} CPUs for the agent, {memory}",
            device.os,
            device.arch,
            device.allowed_cpus.len()
        ),
        format!("  in use:  {held}"),
    ];
    for (label, fact) in [
        ("model", "board_model"),
        ("soc", "soc"),
        ("cores", "cores"),
        ("memory", "memory"),
        ("engines", "engines"),
        ("kernel", "kernel_release"),
    ] {
        if let Some(fact) = device.facts.iter().find(|known| known.name == fact) {
            lines.push(format!("  {:<8} {}", format!("{label}:"), reading(fact)));
        }
    }
    // What only some boards have.
    for (label, fact) in [("release", "vendor_release"), ("power", "power_mode")] {
        let mut known = device.facts.iter().filter(|known| known.name == fact);
        if let Some(value) = known.find_map(|known| known.value.value()) {
            lines.push(format!("  {:<8} {value}", format!("{label}:")));
        }
    }
    lines.extend(clusters(device));
    lines.extend(runtimes(name, device));
    // Tools of others that a condition may name.
    let tools = device.facts.iter();
    lines.extend(tools.filter_map(|fact| {
        let name = fact.name.strip_prefix("stressor.")?;
        Some(format!("  loads:   {name} {}", reading(fact)))
    }));
    lines.join("\n")
}

fn reading(fact: &Fact) -> String {
    match fact.value.value() {
        Some(value) => value.to_owned(),
        None => {
            let reason = fact.value.reason().unwrap_or_default();
            format!("{} ({}: {reason})", units::UNKNOWN, fact.value.state())
        }
    }
}

/// CPUs of one top speed, and each clock policy.
fn clusters(device: &DeviceInfo) -> Vec<String> {
    let mut by_speed: BTreeMap<Option<u64>, Vec<u16>> = BTreeMap::new();
    for cpu in &device.cpus {
        by_speed.entry(cpu.max_khz).or_default().push(cpu.id);
    }
    let mut lines = Vec::new();
    for (khz, cpus) in by_speed {
        let speed = match khz {
            Some(khz) => format!("up to {}", units::hertz(khz as f64 * 1e3)),
            None => "clock not shown by the kernel".into(),
        };
        lines.push(format!("  cpus:    {} {speed}", cpus::ranges(&cpus)));
    }
    let policies = device
        .facts
        .iter()
        .filter_map(|fact| fact.name.strip_prefix("governor."))
        .filter(|name| !name.starts_with("devfreq."));
    for policy in policies {
        let value = |name: &str| {
            let name = format!("{name}.{policy}");
            let fact = device.facts.iter().find(|fact| fact.name == name);
            fact.and_then(|fact| fact.value.value())
        };
        let clock = |name: &str| {
            let khz = value(name).and_then(|khz| khz.parse::<f64>().ok());
            units::hertz(khz.map(|khz| khz * 1e3))
        };
        lines.push(format!(
            "  clock:   {policy} {} now, {} to {}, governor {}",
            clock("clock_khz"),
            clock("clock_min_khz"),
            clock("clock_max_khz"),
            value("governor").unwrap_or(units::UNKNOWN)
        ));
    }
    lines.extend(device_clocks(device));
    lines
}

/// What governs the clocks of memory, GPU and NPU.
fn device_clocks(device: &DeviceInfo) -> impl Iterator<Item = String> {
    device.facts.iter().filter_map(|fact| {
        let name = fact.name.strip_prefix("governor.devfreq.")?;
        let governor = fact.value.value().unwrap_or(units::UNKNOWN);
        Some(format!("  clock:   {name} governor {governor}"))
    })
}

/// What the board has to run models with, and which of it is taken.
fn runtimes(board: &str, device: &DeviceInfo) -> Vec<String> {
    let there = local::there(board);
    let mut lines = Vec::new();
    for backend in device.backends.iter().filter(|backend| !backend.simulated) {
        let name = &backend.name;
        if backend.built_in {
            let version = backend.version.as_deref().unwrap_or_default();
            lines.push(format!("  found:   {name} {version} (built in)"));
        } else if backend.runtimes.is_empty() {
            let from = match PACKAGES.contains(&name.as_str()) {
                true => format!("`edgedyno runtime install {name}{there}` installs it"),
                false => "it comes with the vendor's system".into(),
            };
            lines.push(format!("  missing: {name} is not installed; {from}"));
        }
        for found in &backend.runtimes {
            lines.push(match &found.verdict {
                RuntimeVerdict::Usable(facts) => {
                    format!("  found:   {name} {} ({})", facts.version, found.path)
                }
                RuntimeVerdict::Refused { reason, .. } => {
                    format!("  refused: {name} {}: {reason}", found.path)
                }
            });
        }
    }
    let listing = Listing::of(board, device, Vec::new());
    lines.push(match &listing.default {
        Some(choice) => format!(
            "  runs:    models by {}, unless --backend names another",
            chosen(&listing, choice)
        ),
        None => "  runs:    no model: there is no runtime for one".into(),
    });
    lines
}

/// `board add` and `board update`.
pub fn ready(name: &str, ready: &Ready) -> String {
    let Ready {
        board,
        probe,
        deployed,
        network,
        device,
        ..
    } = ready;
    let start = board
        .ssh
        .as_ref()
        .map_or(Start::OnDemand, |route| route.start);
    let libc = probe.libc.name();
    let libc = libc.unwrap_or_else(|| "C library unknown".into());
    let sent = match deployed.sent {
        0 => "was there already".to_owned(),
        bytes => format!("{} sent", units::bytes(bytes as f64)),
    };
    let way = match network {
        None => "ssh".to_owned(),
        Some(Ok(address)) => format!("the network at {address}, else ssh"),
        Some(Err(why)) => format!("ssh; the network is not used: {why}"),
    };
    let memory = units::bytes(device.memory_total.map(|bytes| bytes.0 as f64));
    let sha256 = deployed.sha256.to_string();
    let mut lines = vec![
        format!("board {name}"),
        format!(
            "  machine: {}, {libc}, Linux {}, {} CPUs, {memory}",
            device.arch,
            probe.kernel,
            device.cpus.len()
        ),
        format!(
            "  agent:   {} ({sent}), started {}",
            deployed.program,
            start.name()
        ),
        format!("  file:    sha256 {sha256:.12}, which names its folder"),
        serving(ready),
        format!("  reached: by {way}"),
    ];
    lines.extend(
        deployed
            .deleted
            .iter()
            .map(|folder| format!("  deleted: {folder}")),
    );
    lines.extend(runtimes(name, device));
    lines.push(format!("next: edgedyno run MODEL --board {name}"));
    lines.join("\n")
}

/// The build that was brought, and what is to be said when another one answers.
fn serving(ready: &Ready) -> String {
    let Ready {
        serving, deployed, ..
    } = ready;
    let build = &deployed.build;
    match ready.standing() {
        Standing::UpToDate => {
            format!("  build:   {build}, up to date: the board had it already, and it serves")
        }
        Standing::Serves => format!("  build:   {build}, which serves from now on"),
        Standing::WaitsForRepeat => format!(
            "  build:   {build}, which waits: the older build {serving} measures, and serves until that repeat has \
             ended"
        ),
        Standing::NotOurs => format!(
            "  build:   {build}, which does not serve: build {serving} does, and was started there by other means; \
             what started it must get the new program"
        ),
    }
}

/// `board remove`.
pub fn removed(name: &str, removed: &Removed) -> String {
    let deleted = removed.deleted.iter().map(|path| format!("deleted {path}"));
    let kept = removed.kept.iter();
    let kept =
        kept.map(|path| format!("kept {path}: the board is this machine, which uses it too"));
    let mut lines: Vec<String> = deleted.chain(kept).collect();
    if lines.is_empty() {
        lines.push("nothing was left there".into());
    }
    lines.push(format!("board {name} is off the list"));
    lines.join("\n")
}

/// `board doctor`.
pub fn doctor(name: &str, report: &Report) -> String {
    let mut lines = vec![format!("board {name}")];
    for check in &report.checks {
        let mark = match check.state {
            State::Good => "good   ",
            State::Warning => "WARNING",
            State::Failed => "FAILED ",
            State::Skipped => "-      ",
        };
        lines.push(format!("  {mark} {:<15}{}", check.name, check.detail));
        if let Some(remedy) = check.remedy.as_ref().filter(|remedy| !remedy.is_empty()) {
            lines.push(format!("{:<25}hint: {remedy}", ""));
        }
    }
    let worst = match report.broken() {
        Some(check) => format!("broken at: {}", check.name),
        None if report
            .checks
            .iter()
            .any(|check| check.state == State::Warning) =>
        {
            "it can be measured on, with a word of warning".into()
        }
        None => "all is well".into(),
    };
    lines.push(worst);
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use edgedyno_shared::device::{BackendInfo, RuntimeFacts, RuntimeFound};
    use edgedyno_shared::ids::{BuildId, Sha256};

    use super::*;
    use crate::board::setup::sample;

    fn backend(name: &str, version: Option<&str>) -> BackendInfo {
        BackendInfo {
            name: name.into(),
            summary: String::new(),
            simulated: name == "fake",
            built_in: version.is_some(),
            formats: Vec::new(),
            version: version.map(str::to_owned),
            runtimes: Vec::new(),
        }
    }

    fn library(version: &str) -> RuntimeFound {
        RuntimeFound {
            path: "/lib/ort.so".into(),
            origin: String::new(),
            verdict: RuntimeVerdict::Usable(RuntimeFacts {
                version: version.into(),
                sha256: Some(Sha256([1; 32])),
                build: None,
                build_id: None,
                providers: Vec::new(),
            }),
        }
    }

    fn with(backends: Vec<BackendInfo>) -> DeviceInfo {
        DeviceInfo {
            backends,
            ..sample().device
        }
    }

    #[test]
    fn what_is_there_what_is_missing_and_what_is_taken_are_told_apart() {
        let rten = || backend("rten", Some("0.27"));
        let fake = || backend("fake", Some("1"));
        let lacks = with(vec![fake(), rten(), backend("onnxruntime", None)]);
        assert_eq!(
            runtimes("x5", &lacks),
            [
                "  found:   rten 0.27 (built in)",
                "  missing: onnxruntime is not installed; `edgedyno runtime install onnxruntime --board x5` installs it",
                "  runs:    models by rten 0.27, unless --backend names another",
            ]
        );
        let here = &runtimes(local::NAME, &lacks)[1];
        assert!(
            here.contains("`edgedyno runtime install onnxruntime`"),
            "{here}"
        );

        let mut onnxruntime = backend("onnxruntime", None);
        onnxruntime.runtimes = vec![library("1.30.0")];
        let both = with(vec![rten(), onnxruntime]);
        assert_eq!(
            runtimes("x5", &both),
            [
                "  found:   rten 0.27 (built in)",
                "  found:   onnxruntime 1.30.0 (/lib/ort.so)",
                "  runs:    models by onnxruntime 1.30.0, unless --backend names another",
            ]
        );
        let nothing = with(vec![fake(), backend("vendor", None)]);
        assert_eq!(
            runtimes("x5", &nothing),
            [
                "  missing: vendor is not installed; it comes with the vendor's system",
                "  runs:    no model: there is no runtime for one",
            ]
        );
    }

    #[test]
    fn an_update_says_which_build_serves_and_which_id_is_which() {
        let text = |change: &dyn Fn(&mut Ready)| {
            let mut board = sample();
            change(&mut board);
            ready("x5", &board)
        };
        let new = text(&|_| {});
        assert!(new.contains("\n  file:    sha256 abababababab, which names its folder\n"));
        assert!(new.contains("\n  build:   b00b, which serves from now on\n"));
        assert!(!new.contains("up to date"), "{new}");
        let same = text(&|board| {
            board.was_known = true;
            board.deployed.sent = 0;
        });
        assert!(same.contains("  build:   b00b, up to date"), "{same}");
        let busy = text(&|board| {
            board.serving = BuildId("01d".into());
            board.makes_way = true;
        });
        assert!(busy.contains("the older build 01d measures"), "{busy}");
        assert!(busy.contains("until that repeat has ended"), "{busy}");
        let other = text(&|board| board.serving = BuildId("01d".into()));
        assert!(other.contains("build 01d does, and was started there by other means"));
    }
}
