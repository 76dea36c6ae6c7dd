//! One build of the agent after another on one state folder: between two repeats, with nothing lost.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

#[expect(dead_code, reason = "each file of tests uses a part of it")]
mod client;

use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::Command;

use client::{Daemon, Host, Relay, STORE, Segment, order, wait_for};
use edgedyno_agent::BUILD_ID;
use edgedyno_shared::ids::{BuildId, StoreId};
use edgedyno_shared::repeat::Outcome;
use edgedyno_shared::wire::frame::{self, Frame, kind};
use edgedyno_shared::wire::hello::{DaemonStatus, Hello, HelloReply};
use edgedyno_shared::wire::record::Record;
use edgedyno_shared::wire::request::{OrderAnswer, Reply, Request};

/// The same program by another name of its build: what a rebuilt agent is to a board.
struct Other {
    folder: tempfile::TempDir,
    build: String,
}

impl Other {
    fn make() -> Self {
        let digit = if BUILD_ID.ends_with('0') { "1" } else { "0" };
        let build = format!("{}{digit}", &BUILD_ID[..BUILD_ID.len() - 1]);
        let mut bytes = std::fs::read(env!("CARGO_BIN_EXE_edgedyno-agent")).unwrap();
        let own = BUILD_ID.as_bytes();
        let places = bytes.windows(own.len()).enumerate();
        let places = places.filter_map(|(at, window)| (window == own).then_some(at));
        for at in places.collect::<Vec<usize>>() {
            bytes[at..at + own.len()].copy_from_slice(build.as_bytes());
        }
        let folder = tempfile::tempdir().unwrap();
        let other = Self { folder, build };
        let program = other.program();
        std::fs::write(&program, bytes).unwrap();
        std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
        other
    }

    fn program(&self) -> PathBuf {
        self.folder.path().join("edgedyno-agent")
    }

    fn command(&self, daemon: &Daemon, words: &[&str]) -> Command {
        let like = daemon.command(words);
        let mut command = Command::new(self.program());
        command.args(words);
        for (name, value) in like.get_envs() {
            command.env(name, value.unwrap());
        }
        command
    }

    fn take_over(&self, daemon: &Daemon) -> String {
        said(self.command(daemon, &["take-over"]))
    }
}

fn said(mut command: Command) -> String {
    let output = command.output().unwrap();
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

/// Build and process of who answers; none when nobody does.
fn serving(daemon: &Daemon) -> Option<(String, u32)> {
    look(daemon).map(|(build, status)| (build, status.process))
}

fn look(daemon: &Daemon) -> Option<(String, DaemonStatus)> {
    let mut stream = UnixStream::connect(daemon.socket()).ok()?;
    let mut exchange = |frame: Frame| {
        stream.write_all(&frame.to_bytes()).ok()?;
        frame::read_blocking(&mut stream, frame::LIMIT).ok()?
    };
    let hello = Hello::new(BuildId("test".into()), StoreId::NONE);
    let reply = exchange(hello.to_frame())?;
    let reply = HelloReply::parse(&reply.payload).ok()?;
    let status = exchange(Frame::empty(kind::STATUS))?;
    let status = DaemonStatus::parse(&status.payload).ok()?;
    Some((reply.agent.build.0, status))
}

fn build_of(segment: &Segment) -> String {
    let start = segment.records.iter().find_map(|record| match record {
        Record::Start(start) => Some(start.build.0.clone()),
        _ => None,
    });
    start.unwrap()
}

fn cpus_of(host: &mut Host) -> Vec<u16> {
    match host.ask(Request::Info).unwrap() {
        Reply::Info(device) => device.allowed_cpus.clone(),
        other => panic!("{other:?}"),
    }
}

/// Three repeats of about a second are ordered, the first runs, and its host is away.
fn measuring(words: &[&str]) -> (Daemon, Vec<u16>) {
    let daemon = Daemon::start(words);
    let mut host = daemon.connect();
    let cpus = cpus_of(&mut host);
    let orders = (0..3).map(|repeat| {
        let mut order = order(repeat, &[("latency_us", "1000")]);
        order.rules.measure.min_trials = 1000;
        order
    });
    let answers = host.submit(orders.collect());
    assert!(answers.iter().all(|a| *a == OrderAnswer::Accepted));
    wait_for("a repeat", || {
        look(&daemon).is_some_and(|(_, status)| status.running)
    });
    (daemon, cpus)
}

#[test]
fn a_repeat_that_runs_ends_in_the_old_build_and_the_queue_goes_on_in_the_new_one_without_a_host() {
    for words in [&["serve", "--on-demand", "relay"][..], &["serve"]] {
        let other = Other::make();
        let (daemon, cpus) = measuring(words);
        assert_eq!(
            other.take_over(&daemon),
            "another",
            "it has a repeat to end"
        );

        let spool = daemon.state().join("spool").join(STORE.to_string());
        let waiting = || {
            let names = std::fs::read_dir(&spool).into_iter().flatten().flatten();
            let names = names.filter(|name| name.path().extension().is_some_and(|e| e == "seg"));
            names.count()
        };
        wait_for("three repeats", || waiting() == 3);
        let served = serving(&daemon);
        assert_eq!(
            served,
            Some((other.build.clone(), daemon.id())),
            "one process: for a service manager nothing happened"
        );

        let mut host = daemon.connect();
        let segments = [host.segment(), host.segment(), host.segment()];
        let repeats: Vec<u32> = segments.iter().map(|s| s.header.key.repeat).collect();
        assert_eq!(repeats, [0, 1, 2]);
        assert!(
            segments
                .iter()
                .all(|s| s.end().outcome == Outcome::Complete)
        );
        let builds: Vec<String> = segments.iter().map(build_of).collect();
        let own = BUILD_ID.to_owned();
        assert_eq!(builds, [own, other.build.clone(), other.build]);
        assert_eq!(cpus_of(&mut host), cpus, "it moved aside only for a while");
    }
}

#[test]
fn an_agent_that_measures_nothing_makes_way_at_once() {
    for words in [&["serve", "--on-demand", "relay"][..], &["serve"]] {
        let daemon = Daemon::start(words);
        let before = serving(&daemon).unwrap();
        assert_eq!(before, (BUILD_ID.to_owned(), daemon.id()));
        assert_eq!(said(daemon.command(&["take-over"])), "this");
        let other = Other::make();
        let answer = other.take_over(&daemon);
        // Between the two nobody may have been there to ask.
        assert!(["this", "nobody"].contains(&answer.as_str()), "{answer}");
        wait_for("the other build", || {
            serving(&daemon) == Some((other.build.clone(), daemon.id()))
        });
        // And back.
        said(daemon.command(&["take-over"]));
        wait_for("this build", || serving(&daemon) == Some(before.clone()));
    }
}

#[test]
fn a_host_s_own_daemon_is_told_to_leave() {
    let mut daemon = Daemon::start(&["serve", "--on-demand", "local"]);
    let other = Other::make();
    assert_eq!(other.take_over(&daemon), "nobody");
    assert_eq!(daemon.wait(), Some(0));
}

#[test]
fn a_relay_of_an_older_build_starts_the_one_that_was_brought_last() {
    let mut daemon = Daemon::start(&["serve"]);
    let other = Other::make();
    other.take_over(&daemon);
    wait_for("the other build", || {
        serving(&daemon).is_some_and(|(build, _)| build == other.build)
    });
    daemon.kill();
    let relay = Relay::start(daemon.command(&["serve", "--stdio"]), StoreId::NONE);
    assert_eq!(relay.reply.agent.build.0, other.build);
    relay.retire();
}
