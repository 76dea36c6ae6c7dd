//! The agent for aarch64 on this machine: its programs under qemu's user emulation, and a whole board in
//! qemu. By hand, because it takes minutes and an emulator: `cargo test --workspace --locked --test emulated --
//! --ignored --test-threads 1`.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use edgedyno_tests::boards::Board;
use edgedyno_tests::clock::Deadline;
use edgedyno_tests::commands::{QUICK, small_model, summary};
use edgedyno_tests::emulated::{self, Emulated};
use edgedyno_tests::{Running, Sandbox, runtime};
use serde_json::Value;

/// Emulated trials take a thousand times as long.
const PATIENCE: Duration = Duration::from_secs(400);

/// The agent for aarch64 in a sandbox, listening on the loopback address.
struct Foreign {
    sandbox: Sandbox,
    prefix: Vec<String>,
    program: PathBuf,
    agent: Option<Running>,
}

impl Foreign {
    fn new() -> Option<Self> {
        Some(Self::start_in(Sandbox::new(), emulated::prefix()?))
    }

    /// The same where files of boards lie in the place of this machine's.
    fn on(boards: &[Board]) -> Option<Self> {
        let sandbox = Sandbox::new();
        let folder = sandbox.work().join("../board");
        let prefix = emulated::prefix_on(boards, &folder)?;
        Some(Self::start_in(sandbox, prefix))
    }

    fn start_in(mut sandbox: Sandbox, prefix: Vec<String>) -> Self {
        sandbox.limit(PATIENCE);
        let mut foreign = Self {
            sandbox,
            prefix,
            program: emulated::agent(),
            agent: None,
        };
        if let Some(library) = emulated::onnxruntime(runtime::ONNXRUNTIME) {
            foreign.sandbox.env("EDGEDYNO_ONNXRUNTIME", library);
        }
        foreign
            .sandbox
            .env("EDGEDYNO_AGENT_PREFIX", foreign.prefix.join(" "));
        let mut words = vec!["serve", "--listen", "127.0.0.1:0"];
        if nix::unistd::geteuid().is_root() {
            words.extend(["--run-as", "root"]);
        }
        let mut agent = foreign.start(&words);
        agent.wait_until("the listener", |agent| {
            agent.stderr_so_far().contains("listening on")
        });
        let log = agent.stderr_so_far();
        let (_, rest) = log.split_once("listening on ").unwrap();
        let address: SocketAddr = rest.split_whitespace().next().unwrap().parse().unwrap();
        assert_ne!(address.port(), 0);
        foreign.agent = Some(agent);
        let ticket = foreign.start(&["pair", "admin"]).wait().ok();
        let ticket = ticket.stdout.trim().to_owned();
        // What follows is the host's, which is of this machine's own architecture.
        foreign.sandbox.env_remove("EDGEDYNO_AGENT_PREFIX");
        foreign.sandbox.env_remove("EDGEDYNO_ONNXRUNTIME");
        foreign
            .sandbox
            .edgedyno(["board", "pair", &ticket, "--name", "x"])
            .ok();
        foreign
    }

    fn start(&self, words: &[&str]) -> Running {
        let program = self.program.display().to_string();
        let all = self.prefix[1..]
            .iter()
            .map(String::as_str)
            .chain([program.as_str()]);
        let all: Vec<&str> = all.chain(words.iter().copied()).collect();
        self.sandbox.start(&self.prefix[0], all)
    }

    /// Measures there, saves the outputs, and measures here against them.
    fn assert_same_outputs(&mut self, model: &Path, backend: &str, native: &[&str]) {
        let model = model.to_str().unwrap();
        let there = format!("there-{backend}");
        let words = [
            "run",
            model,
            "--backend",
            backend,
            "--repeat",
            "1",
            "--warmup",
            "1",
            "--trials",
            "2",
        ];
        let foreign = ["--board", "x", "--save-outputs", &there, "--json"];
        self.sandbox.edgedyno(words.iter().chain(&foreign)).ok();
        let measured = summary(&self.sandbox, "last");
        assert_eq!(
            measured["cases"][0]["repeats"][0]["outcome"], "complete",
            "{measured:#}"
        );
        // A host of its own, so that no agent of the other architecture is met.
        let here = ["--reference", &there];
        let state = self.sandbox.state().join("../native");
        self.sandbox.env("EDGEDYNO_AGENT_STATE", state);
        self.sandbox
            .edgedyno(words.iter().chain(&here).chain(native))
            .ok();
        let measured = summary(&self.sandbox, "last");
        assert_eq!(
            measured["cases"][0]["repeats"][0]["outcome"], "complete",
            "{measured:#}"
        );
        self.sandbox
            .env("EDGEDYNO_AGENT_STATE", self.sandbox.state());
    }
}

#[test]
#[ignore = "needs an agent for aarch64, which takes minutes to build"]
fn an_agent_of_another_architecture_computes_the_same() {
    let Some(mut foreign) = Foreign::new() else {
        return;
    };
    let info = foreign
        .sandbox
        .edgedyno(["board", "info", "x", "--json"])
        .ok()
        .json();
    assert_eq!(info["arch"], "aarch64");
    let model = small_model(&foreign.sandbox);
    foreign.assert_same_outputs(&model, "rten", &[]);
    if emulated::onnxruntime(runtime::ONNXRUNTIME).is_none() {
        return;
    }
    let Some(own) = runtime::onnxruntime() else {
        return;
    };
    let own = own.display().to_string();
    foreign.assert_same_outputs(&model, "onnxruntime", &["--runtime", &own]);
}

/// The value of each entry of a list by its name; what has none is left out.
fn by_name<'a>(list: &'a Value, value: &str) -> BTreeMap<&'a str, String> {
    let entries = list.as_array().unwrap().iter();
    let named = entries.filter(|entry| !entry[value].is_null());
    named
        .map(|entry| {
            let text = entry[value].as_str().map(str::to_owned);
            let text = text.unwrap_or_else(|| entry[value].to_string());
            (entry["name"].as_str().unwrap(), text)
        })
        .collect()
}

#[test]
#[ignore = "needs an agent for aarch64, which takes minutes to build"]
fn an_unmodified_agent_reads_the_files_of_a_board() {
    // Kilobytes as the board's /proc/meminfo has them.
    for (name, memory) in [("rk3588", 8_130_000_u64), ("x5", 7_900_000)] {
        let facts = Board::read(&format!("{name}.facts"));
        let tree = Board::read(&format!("{name}.tree"));
        let boards = [facts, tree];
        let Some(foreign) = Foreign::on(&boards) else {
            return;
        };
        let json = |words: &[&str]| foreign.sandbox.edgedyno(words).ok().json();
        let info = json(&["board", "info", "x", "--json"]);
        assert_eq!(info["arch"], "aarch64");
        assert_eq!(info["memory_total_bytes"], memory * 1024, "{name}");
        let read = by_name(&info["facts"], "value");
        for (fact, value) in boards[0].expected() {
            let read = read.get(fact).map_or("nothing", String::as_str);
            // An engine of this machine's may stand beside the board's.
            assert!(read.contains(value), "{name}, {fact}: {read}");
        }

        let mut top = Value::Null;
        let watched = Deadline::after(PATIENCE).poll(|| {
            // An emulated agent takes its time to look around.
            top = json(&["top", "--board", "x", "--once", "--json"]);
            let read = by_name(&top["channels"], "value");
            let is_read = |(channel, value): (&str, &str)| {
                read.get(channel).is_some_and(|found| found == value)
            };
            boards[1].expected().all(is_read).then_some(())
        });
        assert!(watched.is_some(), "{name}: {top:#}");

        // What a repeat keeps is the same.
        let model = small_model(&foreign.sandbox);
        let model = model.to_str().unwrap();
        let words = ["run", model, "--board", "x", "--backend", "fake", "--force"];
        let rules = ["--repeat", "1", "--warmup", "1", "--duration", "2s"];
        foreign.sandbox.edgedyno(words.iter().chain(&rules)).ok();
        let samples = json(&["samples", "last", "--json"]);
        let kept = by_name(&samples["cases"][0]["repeats"][0]["channels"], "last");
        // An emulated sampler is over its budget, and reads so seldom that some channels have no sample there.
        let both = boards[1].expected().filter_map(|(channel, value)| {
            let kept = kept.get(channel)?;
            Some((channel, kept.as_str(), value))
        });
        let both: Vec<(&str, &str, &str)> = both.collect();
        assert!(!both.is_empty(), "{name}: {samples:#}");
        for (channel, kept, value) in both {
            assert_eq!(kept, value, "{name}: {channel}");
        }
    }
}

/// A host with a whole emulated board called `x`.
struct Bench {
    board: Emulated,
    sandbox: Sandbox,
}

impl Bench {
    fn new(words: &str) -> Option<Self> {
        let bench = Self::boot(words)?;
        let added = bench.add(&[]);
        assert_eq!(added["arch"], "aarch64");
        assert!(
            added["libc"].as_str().unwrap().starts_with("glibc 2."),
            "{added:#}"
        );
        Some(bench)
    }

    fn boot(words: &str) -> Option<Self> {
        if !Emulated::is_possible() {
            return None;
        }
        let mut sandbox = Sandbox::new();
        sandbox.limit(PATIENCE);
        let board = Emulated::boot(&sandbox.work().join("../board"), words);
        sandbox.env("EDGEDYNO_SSH", board.ssh());
        Some(Self { board, sandbox })
    }

    /// `board add`, as `x`.
    fn add(&self, more: &[&str]) -> Value {
        let place = self.board.place();
        let agent = emulated::agent().display().to_string();
        let words = [
            "board", "add", &place, "--name", "x", "--agent", &agent, "--json",
        ];
        self.sandbox.edgedyno(words.iter().chain(more)).ok().json()
    }

    /// Every repeat was measured once, and only once.
    fn assert_whole(&self, repeats: u64) {
        let document = summary(&self.sandbox, "last");
        let rows = document["cases"][0]["repeats"].as_array().unwrap();
        let complete = rows.iter().filter(|row| row["outcome"] == "complete");
        let mut numbers: Vec<u64> = complete
            .map(|row| row["repeat"].as_u64().unwrap())
            .collect();
        numbers.sort_unstable();
        assert_eq!(numbers, (0..repeats).collect::<Vec<_>>(), "{rows:#?}");
    }
}

#[test]
#[ignore = "boots a board in an emulator"]
fn a_board_that_loses_its_power_is_measured_to_the_end() {
    let Some(mut bench) = Bench::new("netem=delay,40ms,loss,1%") else {
        return;
    };
    // What was brought there a moment ago is on its disk.
    bench.board.cut_power();
    bench.board.switch_on();
    let info = bench
        .sandbox
        .edgedyno(["board", "info", "x", "--json"])
        .ok()
        .json();
    assert_eq!(info["arch"], "aarch64");
    assert_eq!(info["cpus"].as_array().unwrap().len(), 2);
    assert!(
        bench.board.console().contains("board: netem"),
        "{}",
        bench.board.console()
    );
    let model = small_model(&bench.sandbox);
    let model = model.to_str().unwrap().to_owned();
    let words = [
        "run",
        &model,
        "--board",
        "x",
        "--backend",
        "rten",
        "--repeat",
        "20",
        "--warmup",
        "1",
        "--duration",
        "0.3s",
    ];
    let mut running = bench.sandbox.start_edgedyno(words);
    let store = bench.sandbox.store();
    running.wait_until("the store", |_| store.exists());
    // In the middle: some repeats are stored, others wait on the board.
    let stored = || {
        let shown = bench.sandbox.edgedyno(["runs", "list", "--json"]);
        shown.code == 0 && shown.json()["runs"][0]["attempts_count"].as_u64() >= Some(3)
    };
    running.wait_until("three repeats", |_| stored());
    bench.board.cut_power();
    std::thread::sleep(Duration::from_secs(2));
    bench.board.switch_on();
    running.wait().ok();
    bench.assert_whole(20);
    let (code, doctor) = {
        let output = bench.sandbox.edgedyno(["board", "doctor", "x", "--json"]);
        (output.code, output.json())
    };
    assert_eq!(code, 0, "{doctor:#}");
    bench.sandbox.edgedyno(["board", "remove", "x"]).ok();
    let left = bench
        .board
        .run("find /data/root -type f ! -path '*/.ssh/*'");
    assert_eq!(left, "", "what was brought there is gone");
}

#[test]
#[ignore = "boots a board in an emulator"]
fn a_bad_line_costs_time_and_no_result() {
    let Some(bench) = Bench::new("netem=delay,40ms,loss,1%") else {
        return;
    };
    assert!(
        bench.board.console().contains("board: netem"),
        "{}",
        bench.board.console()
    );
    let model = small_model(&bench.sandbox);
    let model = model.to_str().unwrap().to_owned();
    let words = ["run", &model, "--board", "x", "--backend", "rten"];
    bench.sandbox.edgedyno(words.iter().chain(&QUICK)).ok();
    bench.assert_whole(1);

    // The same over QUIC. The emulator gives the board's port another number here, so the first try of the
    // network fails, and the address is written down by hand.
    let added = bench.add(&["--force", "--listen", "0.0.0.0:7447", "--as-root"]);
    assert!(added["network_unused"].is_string(), "{added:#}");
    let boards = bench
        .sandbox
        .work()
        .join("../home/.config/edgedyno/boards.toml");
    let text = std::fs::read_to_string(&boards).unwrap();
    let address = format!("addresses = [\"127.0.0.1:{}\"]", bench.board.udp());
    std::fs::write(&boards, text.replace("addresses = []", &address)).unwrap();
    let doctor = bench
        .sandbox
        .edgedyno(["board", "doctor", "x", "--json"])
        .ok()
        .json();
    let network = doctor["checks"]
        .as_array()
        .unwrap()
        .iter()
        .find(|check| check["name"] == "network");
    assert_eq!(network.unwrap()["state"], "good", "{doctor:#}");
    let words = ["run", &model, "--board", "x", "--backend", "rten"];
    bench.sandbox.edgedyno(words.iter().chain(&QUICK)).ok();
    bench.assert_whole(1);
}

#[test]
#[ignore = "boots a board in an emulator"]
fn a_board_run_by_systemd_has_the_agent_as_its_service() {
    let Some(bench) = Bench::boot("systemd") else {
        return;
    };
    let is_up = || {
        let state = bench.board.run("systemctl is-system-running");
        ["running", "degraded"]
            .contains(&state.trim())
            .then_some(())
    };
    let up = Deadline::after(PATIENCE).poll(is_up);
    assert!(up.is_some(), "{}", bench.board.console());
    bench.add(&["--service"]);
    let process = || {
        bench
            .board
            .run("systemctl show --value -p MainPID edgedyno-agent")
    };
    let first = process();
    assert_ne!(first.trim(), "0", "the service runs");
    let model = small_model(&bench.sandbox);
    let model = model.to_str().unwrap().to_owned();
    let words = ["run", &model, "--board", "x", "--backend", "rten"];
    bench.sandbox.edgedyno(words.iter().chain(&QUICK)).ok();
    bench.assert_whole(1);
    assert_eq!(
        process(),
        first,
        "it was the service that measured, and no other agent"
    );
    let lines = r"for line in /proc/[0-9]*/cmdline; do tr '\0' ' ' <$line; echo; done";
    let daemons = bench
        .board
        .run(&format!("{lines} | grep -c 'edgedyno-agent serve $'"));
    assert_eq!(daemons.trim(), "1");

    // Whatever kills it, the manager starts it again, and the next run finds it.
    bench.board.run(&format!("kill -9 {}", first.trim()));
    let again = Deadline::after(PATIENCE).poll(|| {
        let now = process();
        (!["", "0", first.trim()].contains(&now.trim())).then_some(())
    });
    assert!(again.is_some());
    bench.sandbox.edgedyno(words.iter().chain(&QUICK)).ok();
    let removed = bench.sandbox.edgedyno(["board", "remove", "x", "--json"]);
    let removed = removed.ok().json();
    let unit = "/etc/systemd/system/edgedyno-agent.service";
    assert!(removed["deleted"].to_string().contains(unit), "{removed:#}");
    assert_eq!(
        bench.board.run("systemctl is-active edgedyno-agent").trim(),
        "inactive"
    );
}
