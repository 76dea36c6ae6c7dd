//! Plans over boards of the network: measured side by side, one of them dying, and again elsewhere.

use std::collections::BTreeMap;

use edgedyno_tests::commands::{number, small_model, text};
use edgedyno_tests::{Running, Sandbox};
use nix::sys::signal::Signal;
use serde_json::Value;

/// An agent that listens, with a state of its own.
struct Agent {
    sandbox: Sandbox,
    running: Option<Running>,
    address: String,
}

impl Agent {
    fn start() -> Self {
        let mut agent = Self {
            sandbox: Sandbox::new(),
            running: None,
            address: "127.0.0.1:0".into(),
        };
        agent.listen();
        agent
    }

    /// After the first time on the port that it had.
    fn listen(&mut self) {
        let mut words = vec!["serve", "--listen", &self.address];
        if nix::unistd::geteuid().is_root() {
            words.extend(["--run-as", "root"]);
        }
        let mut running = self.sandbox.start_agent(words);
        running.wait_until("the listener", |agent| {
            agent.stderr_so_far().contains("listening on")
        });
        let log = running.stderr_so_far();
        let (_, rest) = log.split_once("listening on ").unwrap();
        self.address = rest.split_whitespace().next().unwrap().to_owned();
        let socket = self.sandbox.state().join("agent.sock");
        running.wait_until("the socket", |_| socket.exists());
        self.running = Some(running);
    }

    fn kill(&mut self) {
        let running = self.running.take().unwrap();
        running.signal(Signal::SIGKILL);
        running.wait();
    }
}

/// A host that knows two boards, `x` and `y`.
fn lab() -> (Sandbox, Agent, Agent) {
    let (host, x, y) = (Sandbox::new(), Agent::start(), Agent::start());
    for (agent, name) in [(&x, "x"), (&y, "y")] {
        let ticket = agent.sandbox.agent(["pair", "run"]).ok().stdout;
        host.edgedyno(["board", "pair", ticket.trim(), "--name", name])
            .ok();
    }
    small_model(&host);
    (host, x, y)
}

/// Cases of a document by their board.
fn by_board(document: &Value) -> BTreeMap<String, Vec<Value>> {
    let mut boards: BTreeMap<String, Vec<Value>> = BTreeMap::new();
    for case in document["cases"].as_array().unwrap() {
        let board = text(&case["case"]["board"]);
        boards.entry(board).or_default().push(case.clone());
    }
    boards
}

/// Numbers of the repeats of a case that are complete, each once.
fn complete(case: &Value) -> Vec<u64> {
    let rows = case["repeats"].as_array().unwrap();
    let complete = rows.iter().filter(|row| row["outcome"] == "complete");
    let mut numbers: Vec<u64> = complete
        .map(|row| row["repeat"].as_u64().unwrap())
        .collect();
    numbers.sort_unstable();
    numbers
}

#[test]
fn two_boards_are_measured_at_once_and_one_that_dies_goes_on_when_it_is_back() {
    let (host, mut x, mut y) = lab();
    host.write(
        "plan.toml",
        "repeats = 4\n[axes]\nmodel = 'small.onnx'\nbackend = 'fake'\nboard = ['x', 'y']\nthreads = [1, 2]\n\
         [rules]\nwarmup = '2'\nduration = '0.3s'\n",
    );
    let dry = host
        .edgedyno(["sweep", "plan.toml", "--dry-run"])
        .ok()
        .stdout;
    assert!(dry.contains("on x and y at the same time"), "{dry}");

    let mut running = host.start_edgedyno(["sweep", "plan.toml", "--tag", "both"]);
    running.wait_until("a worker of y", |_| {
        let workers = y.sandbox.processes();
        workers
            .iter()
            .any(|(_, line)| line.contains("worker --control"))
    });
    y.kill();
    // The other board loses nothing by it and waits for nobody.
    let of = |board: &str| {
        let document = host.edgedyno(["summary", "both", "--json"]).json();
        by_board(&document).remove(board).unwrap()
    };
    let is_done = |case: &Value| complete(case) == [0, 1, 2, 3];
    running.wait_until("all of x", |_| of("x").iter().all(is_done));
    assert!(!of("y").iter().all(is_done));

    y.listen();
    running.wait().ok();
    let document = host.edgedyno(["summary", "both", "--json"]).json();
    for case in by_board(&document).values().flatten() {
        assert_eq!(complete(case), [0, 1, 2, 3], "{case:#}");
    }
    x.kill();
}

#[test]
fn a_run_is_measured_again_on_another_board_and_against_itself_on_its_own() {
    let (host, _x, _y) = lab();
    let line = |board: &'static str, tag: &'static str| {
        [
            "run",
            "small.onnx",
            "--board",
            board,
            "--backend",
            "fake",
            "--warmup",
            "2",
            "--trials",
            "60",
            "--repeat",
            "2",
            "--tag",
            tag,
            "--force",
        ]
    };
    host.edgedyno(line("x", "first")).ok();
    host.edgedyno(line("x", "second")).ok();

    let moved = host
        .edgedyno(["rerun", "first", "--board", "y", "--json", "--force"])
        .ok()
        .json();
    assert_eq!(moved["cases"][0]["case"]["board"], "y");
    assert_eq!(complete(&moved["cases"][0]), [0, 1]);

    // Arms on two boards cannot take turns, and the hint says what to do.
    let apart = ["compare", "first", "last", "--between", "board", "--rerun"];
    let refused = host.edgedyno(apart).expect_code(2);
    assert!(!refused.stderr.is_empty());

    let again = [
        "compare", "first", "second", "--rerun", "--repeat", "2", "--json", "--force",
    ];
    let document = host.edgedyno(again).ok().json();
    let cell = &document["cells"][0];
    assert_eq!(cell["pairing"], "interleaved");
    assert_eq!(number(&cell["a"]["figures"]["repeats_count"]), 2.0);
    assert_eq!(cell["a"]["arm"]["axes"]["board"], "x");
}
