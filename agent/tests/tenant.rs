//! Another model beside a repeat: a worker, an arena and a lane of its own, from its start to its end.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

#[expect(dead_code, reason = "each file of tests uses a part of it")]
mod client;

use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::time::Duration;

use client::{Daemon, Segment, order, wait_for};
use edgedyno_agent::arena::reader;
use edgedyno_agent::clock::{Clock, Monotonic};
use edgedyno_agent::worker::job::Job;
use edgedyno_agent::worker::message::{GO, MESSAGE, Message, TASK, Task};
use edgedyno_agent::worker::spawn::SelfExec;
use edgedyno_shared::case::{Condition, ModelRef, Tenant};
use edgedyno_shared::columns::{END, ROLE, Role, START};
use edgedyno_shared::ids::Sha256;
use edgedyno_shared::load::TenantUsed;
use edgedyno_shared::order::RepeatOrder;
use edgedyno_shared::repeat::{Moment, Outcome, Stage};
use edgedyno_shared::units::Nanos;
use edgedyno_shared::wire::failure::FailureCode;
use edgedyno_shared::wire::frame::{self, Frame};
use edgedyno_shared::wire::record::Record;
use nix::sched::{CpuSet, sched_getaffinity};
use nix::unistd::Pid;

/// A CPU that this process may use.
fn cpu() -> u16 {
    let set = sched_getaffinity(Pid::from_raw(0)).unwrap();
    (0..CpuSet::count())
        .find(|cpu| set.is_set(*cpu).unwrap())
        .unwrap() as u16
}

/// The fake model with these options, on one CPU.
fn tenant(name: &str, millihertz: Option<u64>, options: &[(&str, &str)]) -> Tenant {
    Tenant {
        model: ModelRef {
            name: name.into(),
            sha256: Sha256([7; 32]),
        },
        backend: "fake".into(),
        runtime: None,
        options: options
            .iter()
            .map(|(key, value)| ((*key).into(), (*value).into()))
            .collect(),
        threads: 1,
        cpus: vec![cpu()],
        millihertz,
    }
}

fn beside(repeat: u32, tenants: Vec<Tenant>) -> RepeatOrder {
    let mut order = order(repeat, &[("latency_us", "500")]);
    order.case.condition = Condition("as the test says".into());
    order.case.tenants = tenants;
    order.rules.measure.duration = Nanos::from_millis(600);
    order.load.settle = Nanos::from_millis(100);
    order
}

fn run(order: RepeatOrder) -> Segment {
    let daemon = Daemon::start(&["serve"]);
    let mut host = daemon.connect();
    host.submit(vec![order]);
    let segment = host.segment();
    host.acknowledge(&segment);
    segment
}

fn used(segment: &Segment) -> Vec<&TenantUsed> {
    let tenants = segment.records.iter().map(|record| match record {
        Record::Tenant(used) => Some(used.as_ref()),
        _ => None,
    });
    tenants.flatten().collect()
}

/// Rows of a role, by number.
fn of_role(columns: &[Vec<i64>], role: Role) -> Vec<usize> {
    let rows = 0..columns[ROLE].len();
    rows.filter(|row| columns[ROLE][*row] == role.code())
        .collect()
}

#[test]
fn a_tenant_runs_in_a_lane_of_its_own_from_before_warm_up_to_the_end_of_the_window() {
    let quick = [("latency_us", "200")];
    let tenants = vec![
        tenant("paced", Some(50_000), &quick),
        tenant("flat-out", None, &[("latency_us", "3000")]),
    ];
    let segment = run(beside(0, tenants));
    assert_eq!(segment.end().outcome, Outcome::Complete);
    let own = segment.columns();
    assert_eq!(segment.end().trials, own[ROLE].len() as u64);
    let (cold, warmup) = (of_role(&own, Role::Cold), of_role(&own, Role::Warmup));
    let measured = of_role(&own, Role::Measure);
    let window = own[START][measured[0]]..=own[END][*measured.last().unwrap()];

    let used = used(&segment);
    assert_eq!(
        used.iter().map(|used| used.lane).collect::<Vec<_>>(),
        [1, 2]
    );
    for used in &used {
        assert_eq!(used.failure, None);
        assert_eq!(used.exit.as_deref(), Some("exit status: 0"));
        let (ready, started) = (used.ready.unwrap().0, used.started.unwrap().0);
        assert!(own[END][*cold.last().unwrap()] < ready && ready <= started);
        assert!(
            started + 100_000_000 <= own[START][warmup[0]],
            "it settles first"
        );
        assert!(used.stopped.unwrap().0 >= *window.end());
        let moments: Vec<Moment> = used.placements.iter().map(|p| p.moment).collect();
        assert!(moments.contains(&Moment::BeforeWindow) && moments.contains(&Moment::AfterWindow));
        let last = used.placements.last().unwrap();
        assert!(last.threads.iter().all(|thread| thread.cpus == [cpu()]));
        assert_eq!(used.runtime.as_ref().map(|r| r.path.is_none()), Some(true));
    }

    for lane in [1, 2] {
        let trials = segment.columns_of(lane);
        assert_eq!(of_role(&trials, Role::Cold).len(), 2);
        assert!(
            !of_role(&trials, Role::Warmup).is_empty(),
            "it runs before the window"
        );
        let inside = of_role(&trials, Role::Measure);
        assert!(inside.len() > 5, "{}", inside.len());
        // The word that the window is open comes a little after it opened.
        assert!(
            inside
                .iter()
                .all(|row| trials[START][*row] >= *window.start())
        );
        let last = trials[START][*inside.last().unwrap()];
        assert!(
            last <= window.end() + 200_000_000,
            "it ends with the window"
        );
    }
}

#[test]
fn a_rate_is_a_grid_of_absolute_points() {
    let segment = run(beside(
        0,
        vec![tenant("b", Some(100_000), &[("latency_us", "300")])],
    ));
    let trials = segment.columns_of(1);
    let scheduled = trials.last().unwrap();
    let rows = [
        of_role(&trials, Role::Warmup),
        of_role(&trials, Role::Measure),
    ]
    .concat();
    let first = scheduled[rows[0]];
    let mut points: Vec<i64> = Vec::new();
    for row in rows {
        let (due, start) = (scheduled[row], trials[START][row]);
        assert_eq!((due - first) % 10_000_000, 0, "every point is on the grid");
        assert!(start >= due, "no trial begins before it is due");
        points.push(due);
    }
    assert!(points.is_sorted() && points.windows(2).all(|pair| pair[0] < pair[1]));
    // Cold trials are not on it.
    let cold = of_role(&trials, Role::Cold);
    assert!(cold.iter().all(|row| scheduled[*row] == i64::MIN));
}

#[test]
fn a_tenant_that_cannot_begin_is_a_row_and_fails_the_repeat() {
    let bad = [("no_such_option", "1")];
    let segment = run(beside(0, vec![tenant("bad", None, &bad)]));
    let (_, failure) = segment.failure();
    assert_eq!(failure.code, FailureCode::TenantFailed);
    assert!(
        failure.detail.contains("tenant bad failed in stage load"),
        "{failure}"
    );
    let used = used(&segment)[0];
    let (stage, why) = used.failure.as_ref().unwrap();
    assert_eq!(
        (*stage, why.code),
        (Stage::Load, FailureCode::OptionRefused)
    );
    assert!(used.exit.is_some());
    // What the case itself had done is kept.
    assert_eq!(segment.end().trials, 2);
}

#[test]
fn a_tenant_that_dies_in_the_window_is_a_row_and_the_repeat_goes_on() {
    // Not before it has settled, by when it cannot have done more than a hundred and two.
    let crash = [("latency_us", "1000"), ("fault", "crash"), ("at", "110")];
    let mut order = beside(0, vec![tenant("dies", None, &crash)]);
    order.rules.measure.duration = Nanos::from_secs(3);
    let segment = run(order);
    assert_eq!(segment.end().outcome, Outcome::Complete);
    let used = used(&segment)[0];
    let (stage, why) = used.failure.as_ref().unwrap();
    assert_eq!((*stage, why.code), (Stage::Measure, FailureCode::Crash));
    let exit = used.exit.as_deref().unwrap();
    assert!(exit.contains("signal: 11"), "{exit}");
    assert!(
        segment.columns_of(1)[ROLE].len() >= 102,
        "its trials are kept"
    );
}

/// Workers of tenants and cases that this daemon has started.
fn workers(daemon: u32) -> usize {
    let processes = fs::read_dir("/proc").unwrap().flatten();
    let numbers = processes.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let is_ours = |process: &u32| {
        let stat = fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
        let after_name = stat.rsplit(')').next().unwrap_or_default();
        let mut fields = after_name.split_whitespace();
        let (state, parent) = (fields.next(), fields.next());
        state != Some("Z") && parent == Some(&daemon.to_string())
    };
    numbers.filter(is_ours).count()
}

/// Processes of this session that still run a worker of the daemon that is gone.
fn alive(process: u32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{process}/stat"));
    stat.is_ok_and(|stat| !stat.contains(") Z "))
}

#[test]
fn a_tenant_dies_with_its_agent_and_its_trials_are_recovered() {
    let mut daemon = Daemon::start(&["serve"]);
    let mut order = beside(0, vec![tenant("b", None, &[("latency_us", "1000")])]);
    order.rules.measure.duration = Nanos::from_secs(60);
    order.rules.measure.max_trials = 1_000_000;
    daemon.connect().submit(vec![order]);
    wait_for("both workers", || workers(daemon.id()) == 2);
    let children: Vec<u32> =
        fs::read_to_string(format!("/proc/{0}/task/{0}/children", daemon.id()))
            .unwrap_or_default()
            .split_whitespace()
            .filter_map(|child| child.parse().ok())
            .collect();
    // Past settling, so that there are trials to lose.
    std::thread::sleep(Duration::from_millis(800));
    daemon.kill();
    wait_for("their end", || !children.iter().any(|child| alive(*child)));
    daemon.restart(&["serve"]);
    let segment = daemon.connect().segment();
    assert_eq!(segment.failure().1.code, FailureCode::AgentRestarted);
    assert!(
        segment.columns_of(1)[ROLE].len() > 2,
        "its lane came back too"
    );
}

#[test]
fn a_tenant_ends_at_its_deadline_whatever_the_daemon_does() {
    let folder = tempfile::tempdir().unwrap();
    let arena = reader::create(&folder.path().join("arena")).unwrap();
    let exec = SelfExec {
        prefix: Vec::new(),
        program: env!("CARGO_BIN_EXE_edgedyno-agent").into(),
        leading: Vec::new(),
    };
    let (mut command, mut line) = exec.worker(Some(arena)).unwrap();
    let mut child = command.spawn().unwrap();
    line.set_read_timeout(Some(Duration::from_secs(30)))
        .unwrap();
    let first = frame::read_blocking(&mut line, frame::LIMIT)
        .unwrap()
        .unwrap();
    assert_eq!(first.kind, MESSAGE);
    assert!(matches!(first.decode().unwrap(), Message::Build(_)));
    let job = Job {
        order: order(0, &[("latency_us", "500")]),
        model: None,
        model_files: Vec::new(),
        library: None,
        files: Vec::new(),
        cpus: vec![cpu()],
    };
    let began = Monotonic.now();
    let task = Task::Beside {
        job: Box::new(job),
        deadline: began + Nanos::from_secs(1),
    };
    for frame in [Frame::encode(TASK, &task), Frame::encode(GO, &())] {
        frame::write_blocking(&mut line, &frame.unwrap()).unwrap();
    }
    // The line stays open and nobody says stop.
    let status = child.wait().unwrap();
    assert_eq!(status.signal(), Some(nix::libc::SIGALRM));
    assert!(Monotonic.now() - began >= Nanos::from_millis(900));
}
