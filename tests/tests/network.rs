//! A board on the network: come to know it by a ticket, measure on it as on this machine, and nobody else.

use std::time::Duration;

use edgedyno_tests::commands::{QUICK, small_model, summary};
use edgedyno_tests::lab::{Lab, assert_whole, line};
use edgedyno_tests::udp_relay::{Weather, let_pass};
use edgedyno_tests::{Need, Sandbox, skip};
use serde_json::Value;

fn outcomes(document: &Value) -> Vec<String> {
    let repeats = document["cases"][0]["repeats"].as_array().unwrap();
    let text = |row: &Value| row["outcome"].as_str().unwrap().to_owned();
    repeats.iter().map(text).collect()
}

#[test]
fn a_model_is_measured_on_a_board_of_the_network() {
    let lab = Lab::paired("run");
    let listed = lab
        .sandbox
        .edgedyno(["board", "list", "--json"])
        .ok()
        .json();
    assert_eq!(listed["boards"][0]["name"], "local");
    assert_eq!(listed["boards"][1]["name"], "x");
    assert_eq!(listed["boards"][1]["addresses"][0], lab.address.to_string());

    let model = small_model(&lab.sandbox);
    let quick = [&QUICK[..], &["--backend", "rten"]].concat();
    lab.run(&model, &quick).ok();
    let document = summary(&lab.sandbox, "last");
    assert_eq!(outcomes(&document), ["complete"]);
    assert!(
        document["cases"][0]["fields"]["latency_p50_ms"]
            .as_f64()
            .unwrap()
            > 0.0
    );
    let bundles = lab.sandbox.state().join("bundles");
    assert!(bundles.is_dir(), "the model came by its bytes");

    // What is there already is not sent again, and its file is the one that came.
    let blobs = lab.sandbox.state().join("blobs");
    let blob = std::fs::read_dir(&blobs).unwrap().next().unwrap().unwrap();
    let before = blob.metadata().unwrap().modified().unwrap();
    lab.run(&model, &quick).ok();
    assert_eq!(blob.metadata().unwrap().modified().unwrap(), before);
    lab.sandbox
        .edgedyno(["runtime", "list", "--board", "x"])
        .ok();
}

#[test]
fn a_model_with_weight_files_and_inputs_of_the_user_arrive_whole() {
    let lab = Lab::paired("run");
    let model = edgedyno_tests::commands::make(&lab.sandbox, "big.onnx", &["--external"]);
    let quick = [
        &QUICK[..],
        &["--backend", "rten", "--save-outputs", "there"],
    ]
    .concat();
    lab.run(&model, &quick).ok();
    let there = std::fs::read_dir(lab.sandbox.work().join("there"))
        .unwrap()
        .count();
    assert_eq!(there, 1);
    let here = [
        "run",
        model.to_str().unwrap(),
        "--backend",
        "rten",
        "--reference",
        "there",
    ];
    let here = [&here[..], &QUICK].concat();
    lab.sandbox.edgedyno(here).ok();
    assert_eq!(outcomes(&summary(&lab.sandbox, "last")), ["complete"]);
}

#[test]
fn a_plan_of_a_thousand_input_files_is_ordered_and_measured() {
    let lab = Lab::paired("run");
    let make = ["model", "make", "conv", "--out", "tiny.onnx"];
    let sizes = ["--channels", "2", "--depth", "1", "--image", "8"];
    lab.sandbox.edgedyno(make.iter().chain(&sizes)).ok();
    for at in 0..1000_u16 {
        // An image of 3x8x8, no two alike: each order names a thousand hashes, 34 kB, and forty of them are
        // more than one message takes.
        let values = (0..3 * 8 * 8).flat_map(|_| f32::from(at).to_le_bytes());
        let name = format!("sets/{at:04}.raw");
        lab.sandbox.write(&name, values.collect::<Vec<u8>>());
    }
    let plan = ["--backend", "rten", "--repeat", "40", "--warmup", "1"];
    let inputs = ["--trials", "11", "--input", "input=sets/"];
    let model = lab.sandbox.work().join("tiny.onnx");
    let ended = lab.run(&model, &[&plan[..], &inputs].concat()).ok();
    assert!(
        !ended.stderr.contains("connecting again"),
        "{}",
        ended.stderr
    );
    assert_whole(&lab.sandbox, 40);
}

#[test]
fn a_board_of_the_network_is_shown_as_it_is_now() {
    let lab = Lab::paired("observe");
    let words = [
        "top", "--board", "x", "--once", "--json", "--every", "300ms",
    ];
    let shown = lab.sandbox.edgedyno(words).ok().json();
    edgedyno_tests::schema::assert_matches_schema(&shown, "top");
    assert_eq!(shown["board"], "x");
    let channels = shown["channels"].as_array().unwrap();
    let memory = channels.iter().find(|c| c["name"] == "mem.available");
    assert!(memory.unwrap()["value"].as_i64().unwrap() > 0);
}

#[test]
fn a_ticket_lets_one_host_in_and_no_second() {
    let lab = Lab::new();
    let ticket = lab.ticket("run");
    lab.pair(&ticket, "x").ok();
    let again = lab.pair(&ticket, "y").expect_code(4);
    assert!(
        again.stderr.contains("no ticket is open"),
        "{}",
        again.stderr
    );
    let hosts = std::fs::read_to_string(lab.identity("authorized_hosts")).unwrap();
    assert_eq!(hosts.lines().count(), 1, "{hosts}");
    lab.pair(&ticket, "x").expect_code(2);
}

#[test]
fn a_ticket_that_has_expired_lets_nobody_in() {
    let mut sandbox = Sandbox::new();
    sandbox.env("EDGEDYNO_AGENT_TICKET", "2");
    let lab = Lab::with(sandbox);
    let ticket = lab.ticket("run");
    let_pass(Duration::from_millis(2500));
    let refused = lab.pair(&ticket, "x").expect_code(4);
    // Strangers come no further than the handshake then.
    assert!(
        refused.stderr.contains("does not know this host"),
        "{}",
        refused.stderr
    );
    assert!(!lab.identity("authorized_hosts").exists());
}

#[test]
fn a_ticket_that_was_typed_wrong_costs_no_try_and_a_wrong_secret_burns_it() {
    let lab = Lab::new();
    let ticket = lab.ticket("run");
    let mut typed = ticket.clone();
    let last = typed.pop().unwrap();
    typed.push(if last == 'a' { 'b' } else { 'a' });
    let refused = lab.pair(&typed, "x").expect_code(2);
    assert!(
        refused.stderr.contains("typing error"),
        "{}",
        refused.stderr
    );

    let mut other: edgedyno_shared::link::ticket::Ticket = ticket.parse().unwrap();
    other.secret.0[0] ^= 1;
    for left in (0..5).rev() {
        let refused = lab.pair(&other.to_string(), "x").expect_code(4);
        let words = format!("{left} tries are left");
        assert!(refused.stderr.contains(&words), "{}", refused.stderr);
    }
    lab.pair(&ticket, "x").expect_code(4);
    assert!(!lab.identity("authorized_hosts").exists());
}

#[test]
fn a_host_without_a_line_is_refused_and_told_why() {
    let lab = Lab::paired("run");
    let hosts = lab.identity("authorized_hosts");
    std::fs::write(&hosts, "# nobody\n").unwrap();
    let refused = lab
        .sandbox
        .edgedyno(["runtime", "list", "--board", "x"])
        .expect_code(4);
    assert!(
        refused.stderr.contains("does not know this host"),
        "{}",
        refused.stderr
    );
    assert!(
        refused.stderr.contains("edgedyno-agent pair"),
        "{}",
        refused.stderr
    );
}

#[test]
fn taking_a_line_out_ends_a_live_session() {
    let lab = Lab::paired("run");
    let model = small_model(&lab.sandbox);
    let long = [
        "--backend",
        "fake",
        "--repeat",
        "1",
        "--warmup",
        "2",
        "--duration",
        "60s",
    ];
    let mut running = lab.sandbox.start_edgedyno(line(&model, &long));
    running.wait_until("a worker", |_| {
        lab.sandbox
            .processes()
            .iter()
            .any(|(_, line)| line.contains("worker --control"))
    });
    std::fs::write(lab.identity("authorized_hosts"), "").unwrap();
    let ended = running.wait().expect_code(4);
    assert!(
        ended.stderr.contains("does not know this host"),
        "{}",
        ended.stderr
    );
}

#[test]
fn a_role_allows_what_it_says() {
    let lab = Lab::paired("observe");
    lab.sandbox
        .edgedyno(["runtime", "list", "--board", "x"])
        .ok();
    let model = small_model(&lab.sandbox);
    let refused = lab.run(&model, &[&QUICK[..], &["--backend", "fake"]].concat());
    let refused = refused.expect_code(4);
    assert!(
        refused.stderr.contains("needs the role run"),
        "{}",
        refused.stderr
    );
    assert!(
        !lab.sandbox
            .state()
            .join("blobs")
            .read_dir()
            .unwrap()
            .any(|_| true)
    );
    // A library is code on the board, and naming one is for who administers it.
    let probe = ["--backend", "onnxruntime", "--runtime", "/bin/sh"];
    let refused = lab
        .run(&model, &[&QUICK[..], &probe].concat())
        .expect_code(4);
    assert!(
        refused.stderr.contains("needs the role admin"),
        "{}",
        refused.stderr
    );
}

#[test]
fn an_agent_with_another_key_is_not_the_board() {
    let mut lab = Lab::paired("run");
    lab.kill_agent();
    std::fs::remove_file(lab.identity("agent.key")).unwrap();
    lab.start();
    let refused = lab
        .sandbox
        .edgedyno(["runtime", "list", "--board", "x"])
        .expect_code(4);
    assert!(refused.stderr.contains("another key"), "{}", refused.stderr);
}

#[test]
fn a_board_that_is_not_there_is_unreachable() {
    let mut lab = Lab::paired("run");
    lab.kill_agent();
    let refused = lab
        .sandbox
        .edgedyno(["runtime", "list", "--board", "x"])
        .expect_code(4);
    assert!(
        refused.stderr.contains("nothing answers"),
        "{}",
        refused.stderr
    );
    lab.sandbox.edgedyno(["board", "forget", "x"]).ok();
    lab.sandbox
        .edgedyno(["runtime", "list", "--board", "x"])
        .expect_code(2);
}

#[test]
fn the_agent_says_what_it_listens_with_and_root_must_say_who_works() {
    let lab = Lab::paired("run");
    let log = lab.log();
    assert!(
        log.contains("receive buffer") && log.contains("stream window"),
        "{log}"
    );
    if nix::unistd::geteuid().is_root() {
        let mut other = Sandbox::new();
        other.limit(Duration::from_secs(20));
        let refused = other
            .agent(["serve", "--listen", "127.0.0.1:0"])
            .expect_code(4);
        assert!(refused.stderr.contains("--run-as"), "{}", refused.stderr);
    }
}

#[test]
fn a_run_survives_the_death_of_its_agent() {
    let mut lab = Lab::paired("run");
    let model = small_model(&lab.sandbox);
    let plan = [
        "--backend",
        "fake",
        "--repeat",
        "6",
        "--warmup",
        "2",
        "--duration",
        "0.4s",
    ];
    let mut running = lab.sandbox.start_edgedyno(line(&model, &plan));
    running.wait_until("a worker", |_| {
        lab.sandbox
            .processes()
            .iter()
            .any(|(_, line)| line.contains("worker --control"))
    });
    let_pass(Duration::from_millis(200));
    lab.kill_agent();
    let_pass(Duration::from_millis(500));
    lab.start();
    running.wait().ok();
    assert_whole(&lab.sandbox, 6);
}

#[test]
fn the_board_works_on_while_the_line_is_cut_and_all_arrives_once_it_heals() {
    let lab = Lab::paired("run");
    let relay = lab.through(Weather::default(), 1);
    let model = small_model(&lab.sandbox);
    let plan = [
        "--backend",
        "fake",
        "--repeat",
        "4",
        "--warmup",
        "2",
        "--duration",
        "0.4s",
    ];
    let mut running = lab.sandbox.start_edgedyno(line(&model, &plan));
    running.wait_until("a worker", |_| {
        lab.sandbox
            .processes()
            .iter()
            .any(|(_, line)| line.contains("worker --control"))
    });
    relay.cut(true);
    let spool = lab.sandbox.state().join("spool");
    let spooled = || {
        let stores = std::fs::read_dir(&spool).into_iter().flatten().flatten();
        let files = stores.flat_map(|store| std::fs::read_dir(store.path()).into_iter().flatten());
        files
            .flatten()
            .filter(|f| f.path().extension().is_some_and(|e| e == "seg"))
            .count()
    };
    running.wait_until("the whole plan in the spool", |_| spooled() == 4);
    running.wait_until("the host to notice", |host| {
        host.stderr_so_far().contains("connecting again")
    });
    relay.cut(false);
    running.wait().ok();
    assert_whole(&lab.sandbox, 4);
    assert_eq!(spooled(), 0, "what is stored is not kept");
}

#[test]
fn a_board_whose_spool_is_full_starts_nothing_until_its_host_is_back() {
    let mut sandbox = Sandbox::new();
    // Any repeat that waits is too much.
    sandbox.env("EDGEDYNO_AGENT_SPOOL", "1");
    let lab = Lab::with(sandbox);
    lab.pair(&lab.ticket("run"), "x").ok();
    let relay = lab.through(Weather::default(), 1);
    let model = small_model(&lab.sandbox);
    let plan = ["--backend", "fake", "--repeat", "4", "--warmup", "2"];
    let plan = [&plan[..], &["--duration", "0.4s"]].concat();
    let mut running = lab.sandbox.start_edgedyno(line(&model, &plan));
    running.wait_until("a worker", |_| lab.has_worker());
    relay.cut(true);
    running.wait_until("a repeat in the spool", |_| lab.spooled() > 0);
    running.wait_until("its worker's end", |_| !lab.has_worker());
    // Longer than an agent with room takes to start the next one.
    let_pass(Duration::from_secs(2));
    assert!(!lab.has_worker());
    assert_eq!(lab.spooled(), 1);
    relay.cut(false);
    let ended = running.wait().ok();
    assert_whole(&lab.sandbox, 4);
    assert!(
        ended.stderr.contains("of results wait for their host"),
        "{}",
        ended.stderr
    );
}

#[test]
fn results_of_a_store_that_is_lost_are_shown_and_an_admin_drops_them() {
    let mut sandbox = Sandbox::new();
    // Any repeat that waits is too much.
    sandbox.env("EDGEDYNO_AGENT_SPOOL", "1");
    let lab = Lab::with(sandbox);
    lab.pair(&lab.ticket("run"), "x").ok();
    let model = small_model(&lab.sandbox);
    let plan = ["--backend", "fake", "--repeat", "3", "--warmup", "2"];
    let plan = [&plan[..], &["--duration", "0.4s"]].concat();
    let relay = lab.through(Weather::default(), 1);
    let mut running = lab.sandbox.start_edgedyno(line(&model, &plan));
    running.wait_until("a worker", |_| lab.has_worker());
    relay.cut(true);
    running.wait_until("a repeat in the spool", |_| lab.spooled() > 0);
    running.signal(nix::sys::signal::Signal::SIGKILL);
    running.wait();
    relay.cut(false);
    std::fs::remove_dir_all(lab.sandbox.store()).unwrap();

    let info = lab.sandbox.edgedyno(["board", "info", "x", "--json"]);
    let info = info.ok().json();
    edgedyno_tests::schema::assert_matches_schema(&info, "board");
    assert!(info["dropped"].is_null(), "{info:#}");
    let waiting = info["waiting"].as_array().unwrap();
    assert_eq!(waiting.len(), 1, "{info:#}");
    assert_eq!(waiting[0]["repeats_count"], 1);
    assert!(waiting[0]["size_bytes"].as_u64().unwrap() > 0);
    let store = waiting[0]["store"].as_str().unwrap().to_owned();
    let shown = lab.sandbox.edgedyno(["board", "info", "x"]).ok();
    assert!(shown.stdout.contains(&store), "{}", shown.stdout);

    // They may be another's: not for everybody who measures.
    let drop = |board: &str, store: &str| {
        let words = ["board", "info", board, "--drop-results", store, "--json"];
        lab.sandbox.edgedyno(words)
    };
    let refused = drop("x", &store).expect_code(4);
    assert!(
        refused.stderr.contains("needs the role admin"),
        "{}",
        refused.stderr
    );
    assert_eq!(lab.spooled(), 1);
    lab.pair(&lab.ticket("admin"), "y").ok();
    drop("y", "nothing").expect_code(2);
    let left = drop("y", &store[..8]).ok();
    assert!(left.stderr.contains(&store), "{}", left.stderr);
    let left = left.json();
    edgedyno_tests::schema::assert_matches_schema(&left, "board");
    assert_eq!(left["waiting"], serde_json::json!([]));
    assert_eq!(left["dropped"], waiting[0]);
    assert_eq!(lab.spooled(), 0);
    // Its orders went too: the board is free once its session is over for good, and has room.
    let own = ["--backend", "fake", "--store", "own", "--wait"];
    lab.run(&model, &[&QUICK[..], &own].concat()).ok();
    assert_eq!(lab.spooled(), 0);
}

#[test]
fn one_host_measures_at_a_time_and_others_hear_who_it_is() {
    let lab = Lab::paired("run");
    let model = small_model(&lab.sandbox);
    let long = [
        "--backend",
        "fake",
        "--repeat",
        "1",
        "--warmup",
        "2",
        "--duration",
        "2s",
    ];
    let mut first = lab.sandbox.start_edgedyno(line(&model, &long));
    first.wait_until("a worker", |_| {
        lab.sandbox
            .processes()
            .iter()
            .any(|(_, line)| line.contains("worker --control"))
    });
    let other = ["--store", "other", "--backend", "fake"];
    let quick = [&QUICK[..], &other].concat();
    let refused = lab.run(&model, &quick).expect_code(4);
    assert!(
        refused.stderr.contains("board x is in use"),
        "{}",
        refused.stderr
    );
    assert!(
        refused.stderr.contains("has measured on it since 20"),
        "{}",
        refused.stderr
    );
    let stolen = lab
        .run(&model, &[&quick[..], &["--steal"]].concat())
        .expect_code(4);
    assert!(
        stolen.stderr.contains("needs the role admin"),
        "{}",
        stolen.stderr
    );
    let info = lab
        .sandbox
        .edgedyno(["board", "info", "x", "--json"])
        .ok()
        .json();
    assert!(
        info["holder"]["name"]
            .as_str()
            .is_some_and(|name| !name.is_empty()),
        "{info}"
    );
    let waited = lab.run(&model, &[&quick[..], &["--wait"]].concat()).ok();
    assert!(
        waited.stderr.contains("measures on the board"),
        "{}",
        waited.stderr
    );
    first.wait().ok();
    assert_whole(&lab.sandbox, 1);
    let info = lab
        .sandbox
        .edgedyno(["board", "info", "x", "--json"])
        .ok()
        .json();
    assert!(
        info["holder"].is_null() && info["lease_epoch"] == 2,
        "{info}"
    );
}

#[test]
fn a_board_that_is_stolen_ends_the_run_before_and_keeps_what_it_measured() {
    let lab = Lab::paired("admin");
    let model = small_model(&lab.sandbox);
    let long = [
        "--backend",
        "fake",
        "--repeat",
        "9",
        "--warmup",
        "2",
        "--duration",
        "1s",
    ];
    let mut first = lab.sandbox.start_edgedyno(line(&model, &long));
    first.wait_until("a worker", |_| {
        lab.sandbox
            .processes()
            .iter()
            .any(|(_, line)| line.contains("worker --control"))
    });
    let other = ["--store", "other", "--backend", "fake", "--steal"];
    lab.run(&model, &[&QUICK[..], &other].concat()).ok();
    let ended = first.wait().expect_code(4);
    assert!(
        ended.stderr.contains("board x was taken by"),
        "{}",
        ended.stderr
    );
    // The repeat that ran was finished, and comes with the rest of the plan.
    lab.sandbox.edgedyno(["run", "--resume", "last"]).ok();
    assert_whole(&lab.sandbox, 9);
}

#[test]
fn nothing_is_lost_or_doubled_on_a_bad_line() {
    let lab = Lab::paired("run");
    let weather = Weather {
        lost: 100,
        doubled: 50,
        corrupted: 20,
        delayed: 200,
        delay: Duration::from_millis(20),
        // A megabit a second.
        rate: Some(125_000),
    };
    let relay = lab.through(weather, 20_261_129);
    let model = small_model(&lab.sandbox);
    let plan = [
        "--backend",
        "fake",
        "--repeat",
        "5",
        "--warmup",
        "2",
        "--duration",
        "0.2s",
    ];
    lab.run(&model, &plan).ok();
    assert_whole(&lab.sandbox, 5);
    let counts = relay.counts();
    assert!(counts.dropped > 0 && counts.overtaken > 0, "{counts:?}");
}

#[test]
fn results_are_for_the_host_that_ordered_them() {
    let mut lab = Lab::paired("run");
    let model = small_model(&lab.sandbox);
    let quick = [&QUICK[..], &["--backend", "fake"]].concat();
    lab.run(&model, &quick).ok();
    // Another host, with a key of its own and a copy of the store.
    let other = lab.sandbox.work().join("other");
    lab.sandbox.env("EDGEDYNO_CONFIG", &other);
    lab.pair(&lab.ticket("run"), "x").ok();
    let refused = lab.run(&model, &quick).expect_code(4);
    assert!(
        refused
            .stderr
            .contains("first used on the board by another host"),
        "{}",
        refused.stderr
    );
    assert!(refused.stderr.contains("--store"), "{}", refused.stderr);
    lab.run(&model, &[&quick[..], &["--store", "own"]].concat())
        .ok();
    // Also after the agent came back, and not for who administers the board.
    lab.kill_agent();
    lab.start();
    lab.run(&model, &quick).expect_code(4);
    lab.pair(&lab.ticket("admin"), "y").ok();
    let as_admin = line(&model, &quick).into_iter();
    let as_admin = as_admin.map(|word| if word == "x" { "y".into() } else { word });
    lab.sandbox.edgedyno(as_admin.collect::<Vec<String>>()).ok();
}

#[test]
fn a_library_on_the_board_is_looked_at_there() {
    let lab = Lab::paired("admin");
    let model = small_model(&lab.sandbox);
    let with = |path: &str| {
        let probe = ["--backend", "onnxruntime", "--runtime", path];
        lab.run(&model, &[&QUICK[..], &probe].concat())
    };
    // It exists on neither machine, and only the board says so.
    let missing = with("/opt/board/libonnxruntime.so").expect_code(2);
    assert!(
        missing
            .stderr
            .contains("cannot be used as a runtime of onnxruntime"),
        "{}",
        missing.stderr
    );
    let relative = with("lib/libonnxruntime.so").expect_code(2);
    assert!(
        relative.stderr.contains("whole path"),
        "{}",
        relative.stderr
    );
}

/// Effective user of a process.
fn user_of(pid: nix::unistd::Pid) -> u32 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status
        .lines()
        .find(|line| line.starts_with("Uid:"))
        .unwrap();
    line.split_whitespace().nth(2).unwrap().parse().unwrap()
}

#[test]
fn an_agent_that_root_starts_works_as_the_user_it_was_told() {
    let nobody = nix::unistd::User::from_name("nobody").unwrap();
    let Some(nobody) = nobody.filter(|_| nix::unistd::geteuid().is_root()) else {
        return skip(Need::Mount, "only root can become somebody else");
    };
    let sandbox = Sandbox::new();
    let state = sandbox.state();
    // As a board is set up: its state folder is the user's, and the way to it is open.
    let base = state.parent().unwrap();
    std::os::unix::fs::chown(&state, Some(nobody.uid.as_raw()), Some(nobody.gid.as_raw())).unwrap();
    std::fs::set_permissions(base, std::os::unix::fs::PermissionsExt::from_mode(0o711)).unwrap();
    // Nor need the folder of the build be open to everybody.
    let program = base.join("edgedyno-agent");
    std::fs::copy(&edgedyno_tests::binaries().agent, &program).unwrap();
    let serve = ["serve", "--listen", "127.0.0.1:0", "--run-as", "nobody"];
    let mut agent = sandbox.start(&program, serve);
    agent.wait_until("the listener", |agent| {
        agent.stderr_so_far().contains("listening on") && state.join("agent.sock").exists()
    });
    let log = agent.stderr_so_far();
    let (_, rest) = log.split_once("listening on ").unwrap();
    let address = rest.split_whitespace().next().unwrap().parse().unwrap();
    assert_eq!(user_of(agent.pid()), nobody.uid.as_raw());
    let lab = Lab {
        sandbox,
        agent: Some(agent),
        address,
    };
    lab.pair(&lab.ticket("run"), "x").ok();
    let model = small_model(&lab.sandbox);
    let plan = ["--backend", "fake", "--repeat", "1", "--warmup", "2"];
    let plan = [&plan[..], &["--duration", "1s"]].concat();
    let mut running = lab.sandbox.start_edgedyno(line(&model, &plan));
    let worker = |lab: &Lab| {
        let all = lab.sandbox.processes();
        let found = all
            .iter()
            .find(|(_, line)| line.contains("worker --control"));
        found.map(|(pid, _)| *pid)
    };
    running.wait_until("a worker", |_| worker(&lab).is_some());
    assert_eq!(user_of(worker(&lab).unwrap()), nobody.uid.as_raw());
    running.wait().ok();
    assert_whole(&lab.sandbox, 1);
    drop(lab);
    // Its arenas are not in the sandbox: whoever becomes another user leaves root's folders behind.
    let _ = std::fs::remove_dir_all(format!("/dev/shm/edgedyno-{}", nobody.uid));
}
