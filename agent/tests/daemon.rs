//! The daemon with real workers: every end a worker can have is a row, and nothing finished is lost.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod client;

use std::io::Write;
use std::os::unix::fs::DirBuilderExt;
use std::os::unix::net::UnixListener;
use std::process::Command;

use client::{Daemon, Host, Relay, STORE, Segment, order, wait_for};
use edgedyno_agent::clock::{Clock as _, Monotonic};
use edgedyno_shared::case::{Condition, Scenario};
use edgedyno_shared::clocks::{ClockExchange, ClockMoment, ExchangeResult};
use edgedyno_shared::ids::{BuildId, Sha256, StoreId};
use edgedyno_shared::order::{Pass, RepeatOrder};
use edgedyno_shared::repeat::{Moment, Outcome, Stage};
use edgedyno_shared::units::{Bytes, Nanos};
use edgedyno_shared::wire::failure::FailureCode;
use edgedyno_shared::wire::frame::{self, Frame, kind};
use edgedyno_shared::wire::hello::{DaemonStatus, Hello, Verdict};
use edgedyno_shared::wire::record::Record;
use edgedyno_shared::wire::request::{ContentMap, OrderAnswer, QueueState, Reply, Request};

#[test]
fn a_repeat_comes_back_whole_and_only_once() {
    let daemon = Daemon::start(&["serve"]);
    let mut host = daemon.connect();
    let wanted = order(0, &[("latency_us", "200"), ("phases", "2")]);
    assert_eq!(host.submit(vec![wanted.clone()]), [OrderAnswer::Accepted]);
    let segment = host.segment();
    assert_eq!(
        (&segment.header.key, segment.header.store),
        (&wanted.key, STORE)
    );
    assert_eq!(segment.end().outcome, Outcome::Complete);

    let columns = segment.columns();
    assert_eq!(columns.len(), 4 + 3);
    let count = |role| columns[0].iter().filter(|r| **r == role).count();
    assert_eq!(count(0), 2, "first and second run are cold");
    assert!(count(2) >= 5 && count(3) >= 11, "{:?}", columns[0]);
    assert!(
        columns[1].windows(2).all(|pair| pair[0] < pair[1]),
        "starts grow"
    );
    let regions = columns[1]
        .iter()
        .zip(&columns[2])
        .map(|(start, end)| end - start);
    let scripted = &columns[4];
    assert!(
        regions.zip(scripted).all(|(took, device)| took >= *device),
        "the region holds the work"
    );
    assert_eq!(segment.end().trials as usize, columns[0].len());

    let stages: Vec<Stage> = segment
        .records
        .iter()
        .filter_map(|r| {
            if let Record::Stage(span) = r {
                Some(span.stage)
            } else {
                None
            }
        })
        .collect();
    let expected = [
        Stage::Spawn,
        Stage::Load,
        Stage::Bind,
        Stage::Cold,
        Stage::Warmup,
        Stage::Measure,
        Stage::Teardown,
    ];
    assert_eq!(stages, expected);
    let moments: Vec<Moment> = segment
        .records
        .iter()
        .filter_map(|r| {
            if let Record::Memory(memory) = r {
                Some(memory.moment)
            } else {
                None
            }
        })
        .collect();
    let expected = [
        Moment::Spawned,
        Moment::Dlopened,
        Moment::Loaded,
        Moment::BeforeWindow,
        Moment::AfterWindow,
    ];
    assert_eq!(moments, expected);

    assert_eq!(host.submit(vec![wanted.clone()]), [OrderAnswer::Known]);
    host.acknowledge(&segment);
    assert_eq!(host.ask(Request::Queue), Ok(Reply::Queue(vec![])));
}

#[test]
fn what_is_not_acknowledged_is_sent_again_to_its_own_store_only() {
    let daemon = Daemon::start(&["serve"]);
    daemon.connect().submit(vec![order(0, &[])]);
    let first = daemon.connect().segment();
    let mut host = daemon.connect();
    assert_eq!(host.segment().header, first.header);
    let mut other = Host::raw(&daemon.socket());
    other.hello(&Hello::new(BuildId("test".into()), StoreId([1; 16])));
    assert_eq!(other.ask(Request::Queue), Ok(Reply::Queue(vec![])));
    host.acknowledge(&first);
    let mut host = daemon.connect();
    assert_eq!(host.ask(Request::Queue), Ok(Reply::Queue(vec![])));
}

/// Runs one scripted fault and gives stage, code and detail of the row it became.
fn row_of(
    options: &[(&str, &str)],
    change: impl FnOnce(&mut RepeatOrder),
) -> (String, FailureCode, String) {
    let daemon = Daemon::start(&["serve"]);
    let mut host = daemon.connect();
    let mut wanted = order(0, options);
    change(&mut wanted);
    let after = order(1, &[]);
    host.submit(vec![wanted, after]);
    let segment = host.segment();
    let (stage, failure) = segment.failure();
    assert_eq!(
        host.segment().end().outcome,
        Outcome::Complete,
        "the daemon goes on"
    );
    (stage.into(), failure.code, failure.detail.clone())
}

#[test]
fn every_fault_is_a_row_with_stage_and_code() {
    let cases = [
        (
            "error",
            "7",
            "measure",
            FailureCode::BackendError,
            "error 17",
        ),
        (
            "error",
            "load",
            "load",
            FailureCode::BackendError,
            "error 17",
        ),
        ("crash", "load", "load", FailureCode::Crash, "SIGSEGV"),
        ("crash", "7", "measure", FailureCode::Crash, "SIGSEGV"),
        (
            "abort",
            "0",
            "cold",
            FailureCode::Crash,
            "last words before the abort",
        ),
        ("kill", "3", "warmup", FailureCode::Killed, "cause unknown"),
        ("exit", "bind", "bind", FailureCode::Exit, "exit code 3"),
        (
            "quiet_exit",
            "compile",
            "compile",
            FailureCode::Exit,
            "exit code 0",
        ),
    ];
    for (fault, at, stage, code, words) in cases {
        let row = row_of(
            &[("fault", fault), ("at", at), ("latency_us", "100")],
            |_| {},
        );
        assert_eq!(
            (row.0.as_str(), row.1),
            (stage, code),
            "{fault} at {at}: {}",
            row.2
        );
        assert!(row.2.contains(words), "{fault} at {at}: {}", row.2);
    }
}

#[test]
fn a_hang_is_ended_by_the_limit_of_its_stage() {
    for (at, stage) in [
        ("load", "load"),
        ("1", "cold"),
        ("4", "warmup"),
        ("9", "measure"),
    ] {
        let row = row_of(
            &[("fault", "hang"), ("at", at), ("latency_us", "100")],
            |order| {
                order.limits.load = Nanos::from_millis(300);
                order.limits.compile = Nanos::from_millis(300);
                order.limits.trial = Nanos::from_millis(300);
            },
        );
        assert_eq!(
            (row.0.as_str(), row.1),
            (stage, FailureCode::Hang),
            "at {at}: {}",
            row.2
        );
    }
}

#[test]
fn running_out_of_memory_under_a_limit_is_said_to_be_that() {
    let row = row_of(&[("fault", "oom"), ("at", "3")], |order| {
        order.limits.memory = Some(Bytes(256 << 20));
    });
    assert_eq!(row.1, FailureCode::OutOfMemory, "{}", row.2);
    assert!(row.2.contains("268435456"), "{}", row.2);
}

#[test]
fn trials_before_a_fault_are_kept() {
    let daemon = Daemon::start(&["serve"]);
    let mut host = daemon.connect();
    host.submit(vec![order(
        0,
        &[("fault", "crash"), ("at", "12"), ("latency_us", "50")],
    )]);
    assert_eq!(host.segment().columns()[0].len(), 12);
}

#[test]
fn a_flood_on_the_streams_is_drained_and_its_end_kept() {
    let daemon = Daemon::start(&["serve"]);
    let mut host = daemon.connect();
    host.submit(vec![order(
        0,
        &[("flood_bytes", "8000000"), ("latency_us", "50")],
    )]);
    let segment = host.segment();
    assert_eq!(segment.end().outcome, Outcome::Complete);
    for code in ["stdout_tail", "stderr_tail"] {
        let text = segment.events(code)[0];
        assert!(
            text.len() < 70_000 && text.contains("bytes in all"),
            "{}",
            text.len()
        );
    }
}

/// Waits until trials of the first order are measured.
fn wait_for_window(host: &mut Host) {
    wait_for(
        "the window",
        || matches!(host.ask(Request::Queue), Ok(Reply::Queue(q)) if q[0].state == QueueState::Running(Stage::Measure)),
    );
}

#[test]
fn a_killed_daemon_hands_over_what_was_measured() {
    let mut daemon = Daemon::start(&["serve"]);
    let mut host = daemon.connect();
    let mut long = order(0, &[("latency_us", "1000")]);
    long.rules.measure.duration = Nanos::from_secs(60);
    long.rules.measure.max_trials = 1_000_000;
    host.submit(vec![long.clone(), order(1, &[])]);
    wait_for_window(&mut host);
    let worker = worker_of(daemon.id());
    daemon.kill();
    wait_for("the worker's end", || {
        !std::path::Path::new(&format!("/proc/{worker}")).exists()
    });
    daemon.restart(&["serve"]);
    let mut host = daemon.connect();
    let segment = host.segment();
    assert_eq!(segment.header.key, long.key);
    assert_eq!(segment.failure().1.code, FailureCode::AgentRestarted);
    assert!(
        segment.columns()[0].len() > 20,
        "{}",
        segment.columns()[0].len()
    );
    assert_eq!(
        host.segment().end().outcome,
        Outcome::Complete,
        "the queue goes on"
    );
}

/// A daemon can die when a repeat is in the spool already and its folder is not gone yet.
#[test]
fn what_is_in_the_spool_is_not_recovered_once_more() {
    let memory = tempfile::tempdir_in("/dev/shm").unwrap();
    let runtime = memory.path().to_str().unwrap();
    let mut daemon = Daemon::start_with(&["serve"], &[("XDG_RUNTIME_DIR", runtime)]);
    let mut host = daemon.connect();
    let mut long = order(0, &[("latency_us", "1000")]);
    long.rules.measure.duration = Nanos::from_secs(60);
    host.submit(vec![long.clone()]);
    wait_for_window(&mut host);
    daemon.kill();
    let folders = memory.path().join("edgedyno");
    let kept = memory.path().join("kept");
    let copy = |from: &std::path::Path, to: &std::path::Path| {
        let copied = Command::new("cp").arg("-a").arg(from).arg(to).status();
        assert!(copied.unwrap().success());
    };
    copy(&folders, &kept);
    daemon.restart(&["serve"]);
    assert_eq!(daemon.connect().segment().header.key, long.key);
    daemon.kill();
    std::fs::remove_dir_all(&folders).unwrap();
    copy(&kept, &folders);
    daemon.restart(&["serve"]);
    let mut host = daemon.connect();
    assert_eq!(host.segment().header.key, long.key);
    let next = order(1, &[]);
    host.submit(vec![next.clone()]);
    assert_eq!(
        host.segment().header.key,
        next.key,
        "and not the first again"
    );
}

#[test]
fn an_order_that_is_known_is_not_taken_again() {
    let daemon = Daemon::start(&["serve"]);
    let mut host = daemon.connect();
    let orders = vec![order(0, &[]), order(1, &[])];
    assert_eq!(host.submit(orders.clone()), vec![OrderAnswer::Accepted; 2]);
    assert_eq!(host.submit(orders.clone()), vec![OrderAnswer::Known; 2]);
    let segments = [host.segment(), host.segment()];
    // Measured, and waiting for the host's word that it has it.
    assert_eq!(host.submit(orders), vec![OrderAnswer::Known; 2]);
    for segment in &segments {
        host.acknowledge(segment);
    }
    let queue = host.ask(Request::Queue);
    assert!(
        matches!(&queue, Ok(Reply::Queue(q)) if q.is_empty()),
        "{queue:?}"
    );
}

#[test]
fn a_killed_daemon_hands_over_what_it_had_watched() {
    // On a disk nothing is kept while a window is open.
    let memory = tempfile::tempdir_in("/dev/shm").unwrap();
    let runtime = memory.path().to_str().unwrap();
    let mut daemon = Daemon::start_with(&["serve"], &[("XDG_RUNTIME_DIR", runtime)]);
    let mut host = daemon.connect();
    let mut long = order(0, &[("latency_us", "1000")]);
    long.rules.measure.duration = Nanos::from_secs(60);
    long.rules.measure.max_trials = 1_000_000;
    host.submit(vec![long]);
    let below = |folder: std::path::PathBuf| {
        let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
        entries.map(|entry| entry.path())
    };
    let journal = || {
        // One folder for each daemon, in it one for each repeat.
        let repeats = below(memory.path().join("edgedyno")).flat_map(below);
        let mut files = repeats.map(|repeat| repeat.join("telemetry.0"));
        files.find_map(|file| std::fs::metadata(file).ok().map(|found| found.len()))
    };
    wait_for("a first second of rows", || {
        journal().is_some_and(|len| len > 0)
    });
    let first = journal().unwrap();
    wait_for("more rows", || journal().is_some_and(|len| len > first));
    daemon.kill();
    let killed = Monotonic.now();
    daemon.restart(&["serve"]);
    let mut host = daemon.connect();
    let segment = host.segment();
    assert_eq!(segment.failure().1.code, FailureCode::AgentRestarted);
    let mut names = std::collections::BTreeSet::new();
    for record in &segment.records {
        if let Record::Channel(channel) = record {
            assert!(names.insert(channel.name.clone()), "{} twice", channel.name);
        }
    }
    assert!(
        names.contains("mem.available") && names.contains("sampler.cpu"),
        "{names:?}"
    );
    let samples = segment.samples("worker.cpu");
    assert!(samples.len() >= 5, "{}", samples.len());
    assert!(samples.is_sorted() && samples.last().unwrap().0 <= killed.0);
    assert!(samples.iter().any(|(_, value)| *value > 0), "{samples:?}");
}

fn worker_of(daemon: u32) -> u32 {
    let text = std::fs::read_to_string(format!("/proc/{daemon}/task/{daemon}/children")).unwrap();
    text.split_whitespace().next().unwrap().parse().unwrap()
}

#[test]
fn a_worker_lives_on_while_its_daemon_idles() {
    let daemon = Daemon::start(&["serve"]);
    let mut host = daemon.connect();
    let mut long = order(0, &[("latency_us", "500000"), ("jitter_percent", "0")]);
    long.rules.measure.duration = Nanos::from_secs(15);
    host.submit(vec![long]);
    assert_eq!(host.segment().end().outcome, Outcome::Complete);
}

#[test]
fn a_cancelled_repeat_keeps_its_trials_and_the_queue_forgets_the_run() {
    let daemon = Daemon::start(&["serve"]);
    let mut host = daemon.connect();
    let mut long = order(0, &[("latency_us", "1000")]);
    long.rules.measure.duration = Nanos::from_secs(60);
    let run = long.key.run.clone();
    host.submit(vec![long, order(1, &[])]);
    wait_for_window(&mut host);
    assert_eq!(
        host.ask(Request::Cancel { run, kill: true }),
        Ok(Reply::Done)
    );
    let segment = host.segment();
    assert_eq!(
        segment.end().outcome,
        Outcome::Cancelled {
            stage: Stage::Measure
        }
    );
    assert!(!segment.columns()[0].is_empty());
    host.acknowledge(&segment);
    assert_eq!(host.ask(Request::Queue), Ok(Reply::Queue(vec![])));
}

/// A store can lose the board to one that gives it back at once; who takes it next robs nobody.
#[test]
fn whoever_takes_a_free_board_finds_no_orders_of_others() {
    let daemon = Daemon::start(&["serve"]);
    let mut first = daemon.connect();
    let mut long = order(0, &[("latency_us", "1000")]);
    long.rules.measure.duration = Nanos::from_secs(60);
    let running = long.key.clone();
    first.submit(vec![long, order(1, &[]), order(2, &[])]);
    wait_for_window(&mut first);
    assert_eq!(first.ask(Request::GiveLease), Ok(Reply::Done));
    let mut second = Host::raw(&daemon.socket());
    second.hello(&Hello::new(BuildId("test".into()), StoreId([8; 16])));
    assert!(second.take_lease(false).is_own);
    // What runs is measured to its end.
    match first.ask(Request::Queue) {
        Ok(Reply::Queue(entries)) => {
            let keys: Vec<_> = entries.into_iter().map(|entry| entry.key).collect();
            assert_eq!(keys, [running]);
        }
        other => panic!("{other:?}"),
    }
}

/// A spool of gigabytes is read for damage, and a card takes minutes for that: hosts are answered meanwhile.
#[test]
fn what_waits_is_read_through_when_hosts_are_answered_already() {
    let mut daemon = Daemon::start(&["serve"]);
    daemon.kill();
    // Opening it for reading does not end, as if it were endless: nobody writes into that pipe.
    let other = daemon.state().join("spool").join("08".repeat(16));
    std::fs::create_dir_all(&other).unwrap();
    let made = Command::new("mkfifo")
        .arg(other.join("00000000000000000000.seg"))
        .status();
    assert!(made.unwrap().success());
    daemon.restart(&["serve"]);
    let mut host = daemon.connect();
    assert_eq!(host.ask(Request::Queue), Ok(Reply::Queue(vec![])));
}

#[test]
fn only_one_daemon_serves_a_state_folder() {
    let daemon = Daemon::start(&["serve"]);
    let second = daemon.command(&["serve"]).output().unwrap();
    assert_eq!(second.status.code(), Some(4));
    let words = String::from_utf8_lossy(&second.stderr).into_owned();
    assert!(words.contains(&daemon.id().to_string()), "{words}");
}

#[test]
fn a_daemon_on_demand_leaves_when_nobody_needs_it() {
    let mut daemon = Daemon::start(&["serve", "--on-demand", "local"]);
    drop(daemon.connect());
    assert_eq!(daemon.wait(), Some(0));
    assert!(!daemon.socket().exists());
}

#[test]
fn another_schema_may_ask_for_status_and_retire_and_nothing_else() {
    let mut daemon = Daemon::start(&["serve"]);
    let mut host = Host::raw(&daemon.socket());
    let strange = Hello {
        schema: [0; 32],
        ..Hello::new(BuildId("old".into()), STORE)
    };
    assert_eq!(host.hello(&strange).verdict, Verdict::Incompatible);
    host.send(&Frame::encode(kind::REQUEST, &(1_u64, Request::Info)).unwrap());
    assert_eq!(host.read().unwrap().kind, kind::UNSUPPORTED);
    host.send(&Frame::empty(kind::STATUS));
    let status = DaemonStatus::parse(&host.read().unwrap().payload).unwrap();
    assert_eq!((status.process, status.running), (daemon.id(), false));
    host.send(&Frame::empty(kind::RETIRE));
    assert_eq!(host.read().unwrap().kind, kind::RETIRE_REPLY);
    assert_eq!(daemon.wait(), Some(0));
}

/// What asking for the host's clock came to, before and after the repeat.
fn exchanges(segment: &Segment) -> Vec<ClockExchange> {
    let exchange = |record: &Record| match record {
        Record::ClockExchange(exchange) => Some(*exchange),
        _ => None,
    };
    segment.records.iter().filter_map(exchange).collect()
}

#[test]
fn the_host_s_clock_is_asked_for_around_a_repeat() {
    let daemon = Daemon::start(&["serve"]);
    let mut host = daemon.connect();
    host.submit(vec![order(0, &[("latency_us", "200")])]);
    let segment = host.segment();
    let window = segment.columns();
    let exchanges = exchanges(&segment);
    let moments: Vec<_> = exchanges.iter().map(|exchange| exchange.moment).collect();
    assert_eq!(moments, [ClockMoment::Before, ClockMoment::After]);
    for exchange in exchanges {
        let ExchangeResult::Answered {
            best,
            rounds,
            host_clock,
            ..
        } = exchange.result
        else {
            panic!("{exchange:?}");
        };
        // Both sides read the same clock here.
        assert!(best.offset().0.abs() <= best.bound().0, "{best:?}");
        assert!((1..=5).contains(&rounds) && host_clock == 7);
        let outside = match exchange.moment {
            ClockMoment::Before => best.heard.0 < window[1][0],
            ClockMoment::After => best.asked.0 > *window[2].last().unwrap(),
        };
        assert!(outside, "{best:?} lies among the trials");
    }
}

#[test]
fn a_host_that_keeps_its_time_to_itself_is_waited_for_only_so_long() {
    let daemon = Daemon::start(&["serve"]);
    let mut host = daemon.connect();
    host.is_silent_about_time = true;
    host.submit(vec![order(0, &[("latency_us", "200")])]);
    let segment = host.segment();
    assert_eq!(segment.end().outcome, Outcome::Complete);
    for exchange in exchanges(&segment) {
        assert_eq!(exchange.result, ExchangeResult::Silent);
    }
}

#[test]
fn a_host_that_was_silent_is_asked_for_its_clock_again_once_it_speaks() {
    let daemon = Daemon::start(&["serve"]);
    let mut host = daemon.connect();
    host.is_silent_about_time = true;
    host.submit(vec![order(0, &[("latency_us", "200")])]);
    let silent = host.segment();
    host.is_silent_about_time = false;
    host.submit(vec![order(1, &[("latency_us", "200")])]);
    let answered = host.segment();
    assert!(
        exchanges(&silent)
            .iter()
            .all(|exchange| exchange.result == ExchangeResult::Silent)
    );
    for exchange in exchanges(&answered) {
        assert!(
            matches!(exchange.result, ExchangeResult::Answered { .. }),
            "{exchange:?}"
        );
    }
}

#[test]
fn a_finished_repeat_whose_first_bytes_are_damaged_is_set_aside_and_measured_again() {
    let daemon = Daemon::start(&["serve"]);
    let mut host = daemon.connect();
    host.submit(vec![order(0, &[])]);
    host.segment();
    let store = std::fs::read_dir(daemon.state().join("spool"))
        .unwrap()
        .next();
    let segment = store
        .unwrap()
        .unwrap()
        .path()
        .join("00000000000000000000.seg");
    let mut bytes = std::fs::read(&segment).unwrap();
    // Behind the magic word and the head of the first frame: whose repeat it is.
    bytes[40] ^= 1;
    std::fs::write(&segment, bytes).unwrap();
    let mut refused = Host::raw(&daemon.socket());
    refused.hello(&Hello::new(BuildId("test".into()), STORE));
    while refused.read().is_some() {}
    assert!(segment.with_extension("bad").exists() && !segment.exists());
    let mut host = daemon.connect();
    assert_eq!(host.submit(vec![order(0, &[])]), [OrderAnswer::Accepted]);
    assert_eq!(host.segment().end().outcome, Outcome::Complete);
}

#[test]
fn a_relay_of_another_build_retires_the_daemon_and_starts_its_own() {
    // A daemon of another schema: it says so, and leaves when it is told to.
    let folder = tempfile::tempdir().unwrap();
    let state = folder.path().join("state");
    let run = folder.path().join("run");
    for folder in [&state, &run] {
        std::fs::DirBuilder::new()
            .mode(0o700)
            .create(folder)
            .unwrap();
    }
    let socket = state.join("agent.sock");
    let listener = UnixListener::bind(&socket).unwrap();
    let old = std::thread::spawn({
        let socket = socket.clone();
        move || {
            let (mut stream, _) = listener.accept().unwrap();
            let hello = frame::read_blocking(&mut stream, frame::LIMIT)
                .unwrap()
                .unwrap();
            let own = Hello {
                schema: [9; 32],
                ..Hello::new(BuildId("old".into()), StoreId::NONE)
            };
            let reply = own.answer(&Hello::parse(&hello.payload).unwrap());
            stream.write_all(&reply.to_frame().to_bytes()).unwrap();
            let asked = frame::read_blocking(&mut stream, frame::LIMIT)
                .unwrap()
                .unwrap();
            let status = DaemonStatus {
                process: 1,
                sessions: 1,
                queued: 0,
                spooled: 0,
                running: false,
            };
            let reply = status.to_frame(kind::RETIRE_REPLY);
            stream.write_all(&reply.to_bytes()).unwrap();
            std::fs::remove_file(socket).unwrap();
            asked.kind
        }
    });
    let mut command = Command::new(env!("CARGO_BIN_EXE_edgedyno-agent"));
    command
        .args(["serve", "--stdio"])
        .env("EDGEDYNO_AGENT_STATE", &state)
        .env("XDG_RUNTIME_DIR", &run);
    let relay = Relay::start(command, StoreId::NONE);
    assert_eq!(relay.reply.verdict, Verdict::Welcome);
    assert_eq!(old.join().unwrap(), kind::RETIRE);
    relay.retire();
}

#[test]
fn a_relay_may_not_name_paths() {
    let daemon = Daemon::start(&["serve"]);
    let mut host = Host::raw(&daemon.socket());
    host.send(&Frame::empty(kind::RELAY));
    host.hello(&Hello::new(BuildId("test".into()), STORE));
    let map = Request::MapContent(ContentMap {
        sha256: Sha256([1; 32]),
        files: Vec::new(),
    });
    assert_eq!(host.ask(map).unwrap_err().code, FailureCode::NotPermitted);
}

#[test]
fn an_unknown_frame_is_answered_and_the_session_goes_on() {
    let daemon = Daemon::start(&["serve"]);
    let mut host = daemon.connect();
    host.send(&Frame::empty(200));
    let frame = host.read().unwrap();
    assert_eq!((frame.kind, frame.payload), (kind::UNSUPPORTED, vec![200]));
    assert!(matches!(host.ask(Request::Info), Ok(Reply::Info(_))));
}

#[test]
fn what_a_worker_started_goes_with_it() {
    let daemon = Daemon::start(&["serve"]);
    let mut host = daemon.connect();
    for (repeat, fault) in [(0, "none"), (1, "crash")] {
        let seconds = (900_000_000 + u64::from(daemon.id()) * 2 + u64::from(repeat)).to_string();
        let mut options = vec![("child_seconds", seconds.as_str()), ("latency_us", "100")];
        if fault != "none" {
            options.push(("fault", fault));
        }
        host.submit(vec![order(repeat, &options)]);
        let complete = host.segment().end().outcome == Outcome::Complete;
        assert_eq!(complete, fault == "none");
        wait_for("the child's end", || {
            !somebody_runs(&format!("sleep\0{seconds}\0"))
        });
    }
}

fn somebody_runs(command_line: &str) -> bool {
    let processes = std::fs::read_dir("/proc").unwrap().flatten();
    let mut lines = processes.filter_map(|p| std::fs::read(p.path().join("cmdline")).ok());
    lines.any(|line| line == command_line.as_bytes())
}

#[test]
fn what_an_agent_cannot_do_is_refused_and_never_measured_as_something_else() {
    let daemon = Daemon::start(&["serve"]);
    let mut host = daemon.connect();
    let wishes: [fn(&mut RepeatOrder); 5] = [
        |o| o.case.scenario = Scenario::Concurrent { streams: 4 },
        |o| o.case.condition = Condition("spin:cpu1".into()),
        |o| o.key.pass = Pass::Attributed,
        |o| o.case.precision = Some("f16".into()),
        |o| o.case.backend = "abacus".into(),
    ];
    for (repeat, wish) in wishes.into_iter().enumerate() {
        let mut wanted = order(repeat as u32, &[]);
        wish(&mut wanted);
        host.submit(vec![wanted]);
        let segment = host.segment();
        assert_eq!(
            segment.failure().1.code,
            FailureCode::Unsupported,
            "wish {repeat}"
        );
        assert!(segment.columns().is_empty());
    }
}

#[test]
fn a_repeat_that_cannot_be_recovered_yet_is_not_thrown_away() {
    let mut daemon = Daemon::start(&["serve"]);
    let mut host = daemon.connect();
    let mut long = order(0, &[("latency_us", "1000")]);
    long.rules.measure.duration = Nanos::from_secs(60);
    host.submit(vec![long]);
    wait_for_window(&mut host);
    daemon.kill();
    // A file where the spool's folder should be: nothing can be sealed.
    let spool = daemon.state().join("spool");
    let _ = std::fs::remove_dir_all(&spool);
    std::fs::write(&spool, "in the way").unwrap();
    daemon.restart(&["serve"]);
    let mut host = daemon.connect();
    std::thread::sleep(std::time::Duration::from_secs(2));
    std::fs::remove_file(&spool).unwrap();
    let segment = host.segment();
    assert_eq!(segment.failure().1.code, FailureCode::AgentRestarted);
    assert!(segment.columns()[0].len() > 20);
}

#[test]
fn a_relay_ends_when_its_daemon_does() {
    let mut daemon = Daemon::start(&["serve"]);
    // Answered through it: a session of its own that looks whether a daemon is there is not the one meant,
    // and one that loses its daemon while it looks starts another.
    let mut relay = Relay::start(daemon.command(&["serve", "--stdio"]), STORE);
    daemon.kill();
    wait_for("the relay's end", || {
        relay.child.try_wait().unwrap().is_some()
    });
}

#[test]
fn memory_of_the_arena_is_not_the_models() {
    let daemon = Daemon::start(&["serve"]);
    let mut host = daemon.connect();
    host.submit(vec![order(0, &[("latency_us", "50")])]);
    let segment = host.segment();
    let at = |moment| {
        let memory = segment.records.iter().find_map(|record| match record {
            Record::Memory(memory) if memory.moment == moment => Some(memory.clone()),
            _ => None,
        });
        memory.unwrap()
    };
    let (loaded, after) = (at(Moment::Loaded), at(Moment::AfterWindow));
    assert_eq!(after.arena, Bytes(8 * 1024 * 1024 + 4096));
    let grown = after.rss.unwrap().0 as i64 - loaded.rss.unwrap().0 as i64;
    // It may shrink: kernels take back what nobody has used for a while.
    assert!(grown < 2 << 20, "the worker itself grew by {grown} bytes");
    assert!(after.rss_peak >= loaded.rss_peak);
}
