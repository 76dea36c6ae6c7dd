//! A real line of the kernel's between host and agent, in network namespaces: one that loses packets, and one
//! that is cut.
//!
//! Only root can make them. `EDGEDYNO_CAMPAIGN_CUT=60 cargo test --workspace --locked --test namespaces` cuts
//! the line for that many seconds more.

use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use edgedyno_tests::commands::small_model;
use edgedyno_tests::lab::{assert_whole, line};
use edgedyno_tests::udp_relay::let_pass;
use edgedyno_tests::{Need, Running, Sandbox, binaries, skip};

const AGENT: &str = "10.213.7.1";
const HOST: &str = "10.213.7.2";

/// Two namespaces with a cable between them; they go when this is dropped.
struct Line {
    host: String,
    agent: String,
}

impl Line {
    /// None, and said so, where there can be none.
    fn lay() -> Option<Self> {
        let needs = [
            Need::Mount,
            Need::NetworkNamespace,
            Need::Program("ip"),
            Need::Program("nft"),
        ];
        if !skip::has(&needs) {
            return None;
        }
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = |end: &str| format!("edt{}-{number}{end}", std::process::id());
        let line = Self {
            host: name("h"),
            agent: name("a"),
        };
        let (host, agent) = (line.host.as_str(), line.agent.as_str());
        ip(&["netns", "add", host]);
        ip(&["netns", "add", agent]);
        ip(&[
            "-n", host, "link", "add", "eth0", "type", "veth", "peer", "name", "eth0", "netns",
            agent,
        ]);
        for (end, address) in [(host, HOST), (agent, AGENT)] {
            ip(&["-n", end, "link", "set", "lo", "up"]);
            ip(&["-n", end, "link", "set", "eth0", "up"]);
            ip(&[
                "-n",
                end,
                "address",
                "add",
                &format!("{address}/24"),
                "dev",
                "eth0",
            ]);
        }
        line.nft("add table inet line");
        for hook in ["input", "output"] {
            line.nft(&format!(
                "add chain inet line {hook} {{ type filter hook {hook} priority 0; }}"
            ));
        }
        Some(line)
    }

    /// Drops that many of a hundred packets, each way by chance.
    fn lose(&self, percent: u32) {
        self.clear();
        let what = format!("numgen random mod 100 < {percent} counter drop");
        self.both_ways(&what);
    }

    fn cut(&self) {
        self.clear();
        self.both_ways("counter drop");
    }

    fn clear(&self) {
        self.nft("flush table inet line");
    }

    fn both_ways(&self, what: &str) {
        for hook in ["input", "output"] {
            self.nft(&format!(
                "add rule inet line {hook} meta l4proto udp {what}"
            ));
        }
    }

    fn nft(&self, rule: &str) {
        run("ip", &["netns", "exec", &self.agent, "nft", rule]);
    }

    /// Whether the rules dropped anything.
    fn has_dropped(&self) -> bool {
        let listed = Command::new("ip")
            .args(["netns", "exec", &self.agent, "nft", "list table inet line"])
            .output()
            .unwrap();
        let text = String::from_utf8_lossy(&listed.stdout).into_owned();
        text.contains("counter packets") && !text.contains("counter packets 0 ")
    }
}

impl Drop for Line {
    fn drop(&mut self) {
        for end in [&self.host, &self.agent] {
            let _ = Command::new("ip").args(["netns", "delete", end]).status();
        }
    }
}

fn ip(words: &[&str]) {
    run("ip", words);
}

fn run(program: &str, words: &[&str]) {
    let status = Command::new(program)
        .args(words)
        .stdin(Stdio::null())
        .status();
    assert!(
        status.is_ok_and(|status| status.success()),
        "{program} {words:?}"
    );
}

/// A board at one end and its host at the other.
struct Ends {
    sandbox: Sandbox,
    _agent: Running,
    line: Line,
}

impl Ends {
    fn new() -> Option<Self> {
        let line = Line::lay()?;
        let mut sandbox = Sandbox::new();
        sandbox.limit(Duration::from_secs(300));
        let listen = format!("{AGENT}:7447");
        let serve = ["serve", "--listen", &listen, "--run-as", "root"];
        let program = binaries().agent.to_str().unwrap().to_owned();
        let words = ["netns", "exec", &line.agent, &program];
        let mut agent = sandbox.start("ip", [&words[..], &serve].concat());
        let socket = sandbox.state().join("agent.sock");
        agent.wait_until("the listener", |agent| {
            agent.stderr_so_far().contains("listening on") && socket.exists()
        });
        let ticket = sandbox.agent(["pair", "run"]).ok().stdout;
        let ends = Self {
            sandbox,
            _agent: agent,
            line,
        };
        ends.host(&["board", "pair", ticket.trim(), "--name", "x"])
            .wait()
            .ok();
        Some(ends)
    }

    /// Starts `edgedyno` at the host's end.
    fn host(&self, words: &[&str]) -> Running {
        let program = binaries().host.to_str().unwrap();
        let own = ["netns", "exec", &self.line.host, program];
        self.sandbox.start("ip", [&own[..], words].concat())
    }

    fn start(&self, repeats: &str, duration: &str) -> Running {
        let model = small_model(&self.sandbox);
        let rules = ["--warmup", "2", "--repeat", repeats, "--duration", duration];
        let plan = line(&model, &[&["--backend", "fake"][..], &rules].concat());
        self.host(&plan.iter().map(String::as_str).collect::<Vec<_>>())
    }

    fn has_worker(&self) -> bool {
        let all = self.sandbox.processes();
        all.iter()
            .any(|(_, line)| line.contains("worker --control"))
    }

    /// The line is cut in the middle of a run, and mended; returns what the host said.
    fn cut_for(&self, seconds: u64) -> String {
        let mut running = self.start("6", "0.5s");
        running.wait_until("a worker", |_| self.has_worker());
        self.line.cut();
        let_pass(Duration::from_secs(seconds));
        self.line.clear();
        let ended = running.wait().ok();
        assert_whole(&self.sandbox, 6);
        ended.stderr
    }
}

fn survive_loss(percent: u32) {
    let Some(ends) = Ends::new() else {
        return;
    };
    ends.line.lose(percent);
    ends.start("4", "0.3s").wait().ok();
    assert!(ends.line.has_dropped() || percent == 1, "nothing was lost");
    assert_whole(&ends.sandbox, 4);
}

#[test]
fn one_packet_of_a_hundred_lost_costs_nothing() {
    survive_loss(1);
}

#[test]
fn every_tenth_packet_lost_costs_nothing() {
    survive_loss(10);
}

#[test]
fn almost_every_third_packet_lost_costs_nothing() {
    survive_loss(30);
}

#[test]
fn a_cut_of_a_second_is_not_even_noticed() {
    let Some(ends) = Ends::new() else {
        return;
    };
    let said = ends.cut_for(1);
    assert!(!said.contains("connecting again"), "{said}");
}

#[test]
fn a_cut_of_fifteen_seconds_is_noticed_and_mended() {
    let Some(ends) = Ends::new() else {
        return;
    };
    let said = ends.cut_for(15);
    assert!(said.contains("connecting again"), "{said}");
}

#[test]
fn a_cut_of_the_campaign_is_noticed_and_mended() {
    let seconds = std::env::var("EDGEDYNO_CAMPAIGN_CUT").ok();
    let Some(seconds) = seconds.and_then(|text| text.parse().ok()) else {
        return;
    };
    let Some(ends) = Ends::new() else {
        return;
    };
    ends.cut_for(seconds);
}
