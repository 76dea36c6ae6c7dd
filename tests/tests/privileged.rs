//! An agent that root starts and that works as an ordinary user: a helper that stays root opens for it what only
//! root may read, and nothing else of root is left.

use std::fs;
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use edgedyno_tests::clock::Deadline;
use edgedyno_tests::commands::{finding_codes, small_model, summary, text};
use edgedyno_tests::lab::{Lab, line};
use edgedyno_tests::skip::Need;
use edgedyno_tests::{Sandbox, skip};
use nix::sys::signal::{Signal, kill};
use nix::unistd::{Pid, User};
use serde_json::Value;

const LOAD: &str = "sys/kernel/debug/rknpu/load";
const ENERGY: &str = "sys/class/powercap/intel-rapl:0/energy_uj";
const GOVERNORS: &str = "sys/devices/system/cpu/cpufreq/policy0/scaling_available_governors";
const GOVERNOR: &str = "sys/devices/system/cpu/cpufreq/policy0/scaling_governor";

/// Half a second of the fake backend, with clocks held; where they are not, that is a finding and no end.
const HELD: [&str; 10] = [
    "--backend",
    "fake",
    "--repeat",
    "1",
    "--warmup",
    "2",
    "--duration",
    "0.6s",
    "--fix-clocks",
    "--force",
];

/// All arenas of one user lie in one folder, which each test removes.
static ALONE: Mutex<()> = Mutex::new(());

/// A board whose counters are root's alone, and an agent on it that works as `nobody`.
struct Bench {
    lab: Lab,
    board: PathBuf,
    program: PathBuf,
    nobody: User,
    _alone: MutexGuard<'static, ()>,
}

impl Bench {
    fn new() -> Option<Self> {
        let nobody = User::from_name("nobody").unwrap();
        let Some(nobody) = nobody.filter(|_| nix::unistd::geteuid().is_root()) else {
            skip(Need::Mount, "only root can become somebody else");
            return None;
        };
        let alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
        let mut sandbox = Sandbox::new();
        let state = sandbox.state();
        chown(&state, Some(nobody.uid.as_raw()), Some(nobody.gid.as_raw())).unwrap();
        let base = state.parent().unwrap().to_owned();
        fs::set_permissions(&base, fs::Permissions::from_mode(0o711)).unwrap();
        let program = base.join("edgedyno-agent");
        fs::copy(&edgedyno_tests::binaries().agent, &program).unwrap();
        let board = base.join("board");
        for (path, mode, text) in [
            (LOAD, 0o444, "NPU load:  7%\n"),
            (ENERGY, 0o400, "123456\n"),
            ("sys/bus/platform/drivers/RKNPU/bind", 0o200, ""),
            (GOVERNORS, 0o444, "schedutil performance\n"),
            (GOVERNOR, 0o644, "schedutil\n"),
        ] {
            let path = board.join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(&path, text).unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        }
        // As the kernel mounts it.
        let debug = board.join("sys/kernel/debug");
        fs::set_permissions(debug, fs::Permissions::from_mode(0o700)).unwrap();
        sandbox.env("EDGEDYNO_AGENT_ROOT", &board);
        sandbox.env("EDGEDYNO_HELPER_STATE", base.join("helper"));
        let lab = Lab {
            sandbox,
            agent: None,
            address: "127.0.0.1:0".parse().unwrap(),
        };
        let mut bench = Self {
            lab,
            board,
            program,
            nobody,
            _alone: alone,
        };
        bench.start();
        // Clocks are held for those who may do everything.
        bench.lab.pair(&bench.lab.ticket("admin"), "x").ok();
        Some(bench)
    }

    fn start(&mut self) {
        let address = self.lab.address.to_string();
        let serve = ["serve", "--listen", &address, "--run-as", "nobody"];
        let mut agent = self.lab.sandbox.start(&self.program, serve);
        let socket = self.lab.sandbox.state().join("agent.sock");
        agent.wait_until("the listener", |agent| {
            agent.stderr_so_far().contains("listening on") && socket.exists()
        });
        let log = agent.stderr_so_far();
        let (_, rest) = log.split_once("listening on ").unwrap();
        self.lab.address = rest.split_whitespace().next().unwrap().parse().unwrap();
        self.lab.agent = Some(agent);
    }

    fn helper(&self) -> Option<Pid> {
        let all = self.lab.sandbox.processes();
        let found = all.iter().find(|(_, line)| line.contains("priv --control"));
        found.map(|(pid, _)| *pid)
    }

    fn measure(&self) -> (Value, Value) {
        let model = small_model(&self.lab.sandbox);
        self.lab.sandbox.edgedyno(line(&model, &HELD)).ok();
        let samples = self.lab.sandbox.edgedyno(["samples", "last", "--json"]);
        (summary(&self.lab.sandbox, "last"), samples.ok().json())
    }

    fn governor(&self) -> String {
        fs::read_to_string(self.board.join(GOVERNOR))
            .unwrap()
            .trim()
            .to_owned()
    }
}

impl Drop for Bench {
    fn drop(&mut self) {
        // Its arenas are not in the sandbox: whoever becomes another user leaves root's folders behind.
        let _ = fs::remove_dir_all(format!("/dev/shm/edgedyno-{}", self.nobody.uid));
    }
}

fn user_of(pid: Pid) -> u32 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status
        .lines()
        .find(|line| line.starts_with("Uid:"))
        .unwrap();
    line.split_whitespace().nth(2).unwrap().parse().unwrap()
}

fn channel<'a>(samples: &'a Value, name: &str) -> &'a Value {
    let channels = samples["cases"][0]["repeats"][0]["channels"]
        .as_array()
        .unwrap();
    let found = channels.iter().find(|channel| channel["name"] == name);
    found.unwrap_or_else(|| panic!("no {name}: {samples:#}"))
}

#[test]
fn an_ordinary_agent_reads_and_holds_by_its_helper_what_is_roots() {
    let Some(mut bench) = Bench::new() else {
        return;
    };
    let helper = bench.helper().expect("a helper");
    assert_eq!(user_of(helper), 0);
    let agent = bench.lab.agent.as_ref().unwrap().pid();
    assert_eq!(user_of(agent), bench.nobody.uid.as_raw());

    let (document, samples) = bench.measure();
    // The first is read once a second, so a window of half a one may hold none.
    for (name, least) in [("npu.0.load", 0), ("power.rapl.intel_rapl_0.energy", 3)] {
        let channel = channel(&samples, name);
        assert_eq!(text(&channel["state"]), "ok", "{channel:#}");
        assert!(channel["samples"].as_u64() >= Some(least), "{channel:#}");
    }
    let codes = finding_codes(&document["cases"][0]);
    assert!(
        !codes.contains(&"clock_not_as_asked".to_owned()),
        "{codes:?}"
    );
    assert_eq!(bench.governor(), "schedutil", "put back after the repeat");

    // Without the helper the same channels say what would grant them, and the clocks stay.
    kill(helper, Signal::SIGKILL).unwrap();
    let (document, samples) = bench.measure();
    let load = channel(&samples, "npu.0.load");
    assert_eq!(text(&load["state"]), "denied", "{load:#}");
    assert!(text(&load["reason"]).contains("serve --run-as"), "{load:#}");
    assert!(finding_codes(&document["cases"][0]).contains(&"clock_not_as_asked".to_owned()));
    assert_eq!(bench.governor(), "schedutil");

    // The next start has one again.
    bench.lab.kill_agent();
    bench.start();
    let (_, samples) = bench.measure();
    assert_eq!(text(&channel(&samples, "npu.0.load")["state"]), "ok");
}

#[test]
fn clocks_are_put_back_when_agent_and_helper_are_killed_in_a_repeat() {
    let Some(mut bench) = Bench::new() else {
        return;
    };
    let model = small_model(&bench.lab.sandbox);
    let long = [
        "--backend",
        "fake",
        "--repeat",
        "1",
        "--duration",
        "60s",
        "--fix-clocks",
    ];
    let mut running = bench.lab.sandbox.start_edgedyno(line(&model, &long));
    running.wait_until("held clocks", |_| bench.governor() == "performance");
    let helper = bench.helper().unwrap();
    kill(helper, Signal::SIGKILL).unwrap();
    bench.lab.kill_agent();
    assert_eq!(
        bench.governor(),
        "performance",
        "nobody was left to put them back"
    );
    running.signal(Signal::SIGKILL);
    running.wait();
    // The queue still holds the repeat, which the next agent measures anew: look before it begins.
    for entry in fs::read_dir(bench.lab.sandbox.state().join("queue")).unwrap() {
        fs::remove_file(entry.unwrap().path()).unwrap();
    }
    bench.start();
    let is_back = || (bench.governor() == "schedutil").then_some(());
    assert!(
        Deadline::after(Duration::from_secs(10))
            .poll(is_back)
            .is_some()
    );
}
