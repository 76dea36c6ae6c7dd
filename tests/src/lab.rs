//! A board on the network: an agent that listens, and a host that comes to know it, in one sandbox.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use nix::sys::signal::Signal;

use crate::commands::summary;
use crate::process::{Output, Running};
use crate::sandbox::Sandbox;
use crate::udp_relay::{UdpRelay, Weather};

/// An agent that listens, and a host that may have come to know it, in one sandbox.
#[derive(Debug)]
pub struct Lab {
    pub sandbox: Sandbox,
    pub agent: Option<Running>,
    pub address: SocketAddr,
}

impl Lab {
    /// Starts an agent that knows nobody.
    #[expect(clippy::new_without_default, reason = "a laboratory has effects")]
    pub fn new() -> Self {
        Self::with(Sandbox::new())
    }

    /// In a sandbox that was prepared.
    ///
    /// # Panics
    /// When the agent does not start.
    pub fn with(sandbox: Sandbox) -> Self {
        let mut lab = Self {
            sandbox,
            agent: None,
            address: "127.0.0.1:0".parse().unwrap(),
        };
        lab.start();
        lab
    }

    /// Starts the agent; after the first time on the port that it had.
    pub fn start(&mut self) {
        let address = self.address.to_string();
        let mut words = vec!["serve", "--listen", &address];
        if nix::unistd::geteuid().is_root() {
            words.extend(["--run-as", "root"]);
        }
        let mut agent = self.sandbox.start_agent(words);
        agent.wait_until("the listener", |agent| {
            agent.stderr_so_far().contains("listening on")
        });
        let log = agent.stderr_so_far();
        let (_, rest) = log.split_once("listening on ").unwrap();
        self.address = rest.split_whitespace().next().unwrap().parse().unwrap();
        let socket = self.sandbox.state().join("agent.sock");
        agent.wait_until("the socket", |_| socket.exists());
        self.agent = Some(agent);
    }

    /// Kills the agent; its workers go with it.
    pub fn kill_agent(&mut self) {
        let agent = self.agent.take().unwrap();
        agent.signal(Signal::SIGKILL);
        agent.wait();
    }

    /// What `edgedyno-agent pair` prints.
    pub fn ticket(&self, role: &str) -> String {
        self.sandbox
            .agent(["pair", role])
            .ok()
            .stdout
            .trim()
            .to_owned()
    }

    /// `board pair TICKET --name NAME`.
    pub fn pair(&self, ticket: &str, name: &str) -> Output {
        self.sandbox
            .edgedyno(["board", "pair", ticket, "--name", name])
    }

    /// Paired as `x`.
    pub fn paired(role: &str) -> Self {
        let lab = Self::new();
        lab.pair(&lab.ticket(role), "x").ok();
        lab
    }

    /// `run MODEL --board x`.
    pub fn run(&self, model: &Path, args: &[&str]) -> Output {
        self.sandbox.edgedyno(line(model, args))
    }

    /// A file of the agent's identity folder.
    pub fn identity(&self, name: &str) -> PathBuf {
        self.sandbox.state().join("identity").join(name)
    }

    /// What the agent has said so far.
    pub fn log(&self) -> String {
        self.agent.as_ref().unwrap().stderr_so_far()
    }

    /// Puts a relay into the line of board `x`.
    pub fn through(&self, weather: Weather, seed: u64) -> UdpRelay {
        let relay = UdpRelay::start(self.address, weather, seed);
        let path = self.boards();
        let text = std::fs::read_to_string(&path).unwrap();
        let text = text.replace(&self.address.to_string(), &relay.address().to_string());
        std::fs::write(path, text).unwrap();
        relay
    }

    /// The host's list of boards.
    pub fn boards(&self) -> PathBuf {
        let base = self.sandbox.state();
        let base = base.parent().unwrap();
        base.join("home/.config/edgedyno/boards.toml")
    }

    /// Whether a worker runs.
    pub fn has_worker(&self) -> bool {
        let all = self.sandbox.processes();
        all.iter()
            .any(|(_, line)| line.contains("worker --control"))
    }

    /// Repeats that wait in the agent's spool.
    pub fn spooled(&self) -> usize {
        let stores = std::fs::read_dir(self.sandbox.state().join("spool"));
        let stores = stores.into_iter().flatten().flatten();
        let files = stores.flat_map(|store| std::fs::read_dir(store.path()).into_iter().flatten());
        let is_segment = |path: &Path| path.extension().is_some_and(|e| e == "seg");
        files.flatten().filter(|f| is_segment(&f.path())).count()
    }
}

/// The words of [`Lab::run`].
pub fn line(model: &Path, args: &[&str]) -> Vec<String> {
    let model = model.to_str().unwrap();
    let words = ["run", model, "--board", "x"]
        .into_iter()
        .chain(args.iter().copied());
    words.map(str::to_owned).collect()
}

/// Every repeat of the plan was measured once, and only once.
///
/// # Panics
/// When one is missing or there twice.
#[track_caller]
pub fn assert_whole(sandbox: &Sandbox, repeats: usize) {
    let document = summary(sandbox, "last");
    let rows = document["cases"][0]["repeats"].as_array().unwrap();
    let complete = rows.iter().filter(|row| row["outcome"] == "complete");
    let mut numbers: Vec<u64> = complete
        .map(|row| row["repeat"].as_u64().unwrap())
        .collect();
    numbers.sort_unstable();
    assert_eq!(
        numbers,
        (0..repeats as u64).collect::<Vec<_>>(),
        "{rows:#?}"
    );
}
