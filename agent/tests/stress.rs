//! Loads beside a repeat: when they begin and end, what they achieve, and what becomes of them.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

#[expect(dead_code, reason = "each file of tests uses a part of it")]
mod client;

use std::fs;

use client::{Daemon, Segment, order, wait_for};
use edgedyno_shared::case::Condition;
use edgedyno_shared::columns::{END, ROLE, Role, START};
use edgedyno_shared::load::{
    Effort, FIRST_CHANNEL, Load, StressOrder, StressUsed, StressWindow, Throttle,
};
use edgedyno_shared::order::RepeatOrder;
use edgedyno_shared::repeat::{Outcome, Stage};
use edgedyno_shared::units::{Bytes, Nanos};
use edgedyno_shared::wire::failure::FailureCode;
use edgedyno_shared::wire::record::Record;
use nix::sched::{CpuSet, sched_getaffinity};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

/// A CPU that this process may use.
fn cpu() -> u16 {
    let set = sched_getaffinity(Pid::from_raw(0)).unwrap();
    (0..CpuSet::count())
        .find(|cpu| set.is_set(*cpu).unwrap())
        .unwrap() as u16
}

fn stressor(name: &str, effort: Effort) -> StressOrder {
    StressOrder {
        name: name.into(),
        method: None,
        cpus: vec![cpu()],
        effort,
        throttle: Throttle::Spin,
        // Enough to be no register, and soon touched.
        working_set: (name.starts_with("mem") || name == "chase").then_some(Bytes(8 << 20)),
    }
}

fn loaded(repeat: u32, stressors: Vec<StressOrder>) -> RepeatOrder {
    let mut order = order(repeat, &[("latency_us", "500")]);
    order.case.condition = Condition("as the test says".into());
    order.rules.measure.duration = Nanos::from_millis(300);
    order.load = Load {
        stressors,
        settle: Nanos::from_millis(200),
    };
    order
}

fn used(segment: &Segment) -> Vec<&StressUsed> {
    let stress = segment.records.iter().map(|record| match record {
        Record::Stress(used) => Some(used.as_ref()),
        _ => None,
    });
    stress.flatten().collect()
}

fn run(orders: Vec<RepeatOrder>) -> Vec<Segment> {
    let daemon = Daemon::start(&["serve"]);
    let mut host = daemon.connect();
    let count = orders.len();
    host.submit(orders);
    let mut segments = Vec::new();
    for _ in 0..count {
        let segment = host.segment();
        host.acknowledge(&segment);
        segments.push(segment);
    }
    segments
}

fn window(used: &StressUsed) -> StressWindow {
    used.threads[0]
        .window
        .unwrap_or_else(|| panic!("no window: {used:#?}"))
}

/// Work of the window for each second of its own CPU time.
fn per_cpu_second(used: &StressUsed) -> f64 {
    let window = window(used);
    window.work as f64 / window.cpu_time.as_secs_f64()
}

#[test]
fn a_load_begins_after_the_cold_trials_settles_and_ends_with_the_window() {
    let segments = run(vec![loaded(0, vec![stressor("mem_read", Effort::Full)])]);
    let segment = &segments[0];
    assert_eq!(segment.end().outcome, Outcome::Complete);
    let used = used(segment);
    assert_eq!(used.len(), 1);
    let used = used[0];
    let thread = &used.threads[0];
    assert_eq!(thread.cpus_at_start, Some(vec![cpu()]));
    assert_eq!(thread.cpus_at_end, Some(vec![cpu()]));
    assert_eq!(used.working_set, Some(Bytes(8 << 20)));
    assert!(used.notes[0].contains("as asked for"), "{:?}", used.notes);
    // The kind of its pages, as far as the kernel tells.
    if let Some(huge) = used.huge_pages {
        let thp = fs::read_to_string("/sys/kernel/mm/transparent_hugepage/enabled");
        let is_never = thp.unwrap_or_default().contains("[never]");
        assert!(huge.0 <= 8 << 20 && (huge.0 == 0 || !is_never), "{huge:?}");
    } else {
        assert!(
            fs::metadata("/proc/self/smaps").is_err(),
            "the kernel tells"
        );
    }

    let columns = segment.columns();
    let of_role = |role: Role| {
        let rows = (0..columns[ROLE].len()).filter(|row| columns[ROLE][*row] == role.code());
        rows.collect::<Vec<usize>>()
    };
    let (started, stopped) = (used.started.unwrap(), used.stopped.unwrap());
    let (cold, warmup, measured) = (
        of_role(Role::Cold),
        of_role(Role::Warmup),
        of_role(Role::Measure),
    );
    assert!(columns[END][*cold.last().unwrap()] < used.ready.unwrap().0);
    assert!(
        columns[START][warmup[0]] >= started.0 + 200_000_000,
        "it settles first"
    );
    let (first, last) = (measured[0], *measured.last().unwrap());
    assert!(columns[END][last] < stopped.0);
    let window = window(used);
    // The agent looks when it hears of begin and end, a little after each.
    assert!(window.start.0 <= columns[END][last] && window.end.0 > columns[START][first]);
    assert!(
        window.work > 0 && window.cpu_time > Nanos::ZERO && window.cpu_time < window.end - started
    );

    let samples = |channel: u16| {
        let of_channel = |record: &Record| match record {
            Record::Samples(samples) if samples.channel == channel => Some(samples.clone()),
            _ => None,
        };
        segment.records.iter().find_map(of_channel).unwrap()
    };
    let names = segment.records.iter().filter_map(|record| match record {
        Record::Channel(channel) => Some((channel.id, channel.name.as_str())),
        _ => None,
    });
    let names: Vec<(u16, &str)> = names.collect();
    assert!(names[0].1.starts_with("stress.0.mem_read.cpu") && names[0].1.ends_with(".work"));
    for channel in [FIRST_CHANNEL, FIRST_CHANNEL + 1] {
        let samples = samples(channel);
        assert!(
            samples.at_ns.len() >= 4,
            "ten a second: {}",
            samples.at_ns.len()
        );
        assert!(samples.at_ns.is_sorted() && samples.value.is_sorted());
        assert_eq!(samples.quality, vec![0; samples.at_ns.len()]);
    }
}

/// How far each share of the full rate was missed, with the full rate of the same moment.
fn misses(shares: &[f64]) -> Vec<f64> {
    let full = run(vec![loaded(0, vec![stressor("mem_copy", Effort::Full)])]);
    let most = per_cpu_second(used(&full[0])[0]);
    let rate = |percent: f64| (most * percent / 100.0) as u64;
    let orders = shares.iter().zip(1..).map(|(percent, repeat)| {
        let effort = Effort::Rate {
            per_second: rate(*percent),
        };
        loaded(repeat, vec![stressor("mem_copy", effort)])
    });
    let segments = run(orders.collect());
    let each = shares.iter().zip(&segments);
    each.map(|(percent, segment)| per_cpu_second(used(segment)[0]) / rate(*percent) as f64 - 1.0)
        .collect()
}

/// Tries of each share at the most.
const TRIES: usize = 12;

/// Memory is shared with whatever else runs here, so three quarters of what it gave a moment ago may be
/// more than it gives now, in some tries. A pace is kept once two tries or more, and more than half, are
/// within 3 %; one that is off in most of them never comes there.
#[test]
fn a_rate_is_kept_within_three_percent_by_cpu_time() {
    let mut left: Vec<(f64, Vec<f64>)> = [10.0, 25.0, 50.0, 75.0]
        .map(|percent| (percent, Vec::new()))
        .into();
    for _ in 0..TRIES {
        if left.is_empty() {
            return;
        }
        let shares: Vec<f64> = left.iter().map(|(percent, _)| *percent).collect();
        for ((_, tries), miss) in left.iter_mut().zip(misses(&shares)) {
            tries.push(miss);
        }
        let kept = |tries: &[f64]| tries.iter().filter(|miss| miss.abs() <= 0.03).count();
        left.retain(|(_, tries)| kept(tries) < 2 || 2 * kept(tries) <= tries.len());
    }
    assert!(left.is_empty(), "off by {left:?}");
}

#[test]
fn two_on_one_cpu_starve_each_other_and_it_shows() {
    let both = vec![
        stressor("cpu_int", Effort::Full),
        stressor("cpu_branchy", Effort::Full),
    ];
    let segments = run(vec![loaded(0, both)]);
    let used = used(&segments[0]);
    assert_eq!(used.len(), 2);
    let share = |used: &&StressUsed| {
        let window = window(used);
        window.cpu_time.as_secs_f64() / (window.end - window.start).as_secs_f64()
    };
    let shares: f64 = used.iter().map(share).sum();
    assert!(shares < 1.1, "one CPU cannot give {shares} of itself");
    let delays = used.iter().filter_map(|used| window(used).run_delay);
    let delays: i64 = delays.map(|delay| delay.0).sum();
    assert!(delays > 100_000_000, "they waited for each other: {delays}");
}

/// Judged as a point is: where it stood ready and did not run for 5 % of the window nothing can be said, and
/// another window is looked at.
#[test]
fn a_stressor_that_sleeps_keeps_its_rate_by_the_wall_and_leaves_the_cpu() {
    let mut starved = Vec::new();
    for repeat in 0..6 {
        let mut order = stressor(
            "mem_read",
            Effort::Rate {
                per_second: 100_000_000,
            },
        );
        order.throttle = Throttle::Sleep;
        let mut order = loaded(repeat, vec![order]);
        order.rules.measure.duration = Nanos::from_secs(2);
        let segments = run(vec![order]);
        let window = window(used(&segments[0])[0]);
        let wall = (window.end - window.start).as_secs_f64();
        let ready = window
            .run_delay
            .map_or(0.0, |delay| delay.as_secs_f64() / wall);
        let rate = window.work as f64 / wall;
        if ready > 0.05 {
            starved.push(format!("{rate:.0} bytes a second, ready {ready:.3}"));
            continue;
        }
        assert!((rate / 1e8 - 1.0).abs() <= 0.03, "{rate}, ready {ready}");
        assert!(window.cpu_time.as_secs_f64() < 0.8 * wall, "it slept");
        return;
    }
    eprintln!("skipped: it was kept from running in every window: {starved:?}");
}

/// The share of the time that a stressor worked, of the time that paces it.
fn duty(window: StressWindow, throttle: Throttle) -> f64 {
    let of = match throttle {
        Throttle::Spin => window.cpu_time,
        Throttle::Sleep => window.end - window.start,
    };
    window.worked.unwrap().as_secs_f64() / of.as_secs_f64()
}

/// The edges of a window of 2 s may lie within turns of 10 ms, which is 0.4 % of a quarter.
#[test]
fn a_share_of_the_time_is_worked_told_and_a_channel() {
    let kinds = [("cpu_int", Throttle::Spin), ("cpu_simd", Throttle::Sleep)];
    for (name, throttle) in kinds {
        let mut starved = Vec::new();
        let mut is_kept = false;
        for repeat in 0..6 {
            let mut order = stressor(name, Effort::Duty { ppm: 250_000 });
            order.throttle = throttle;
            let mut order = loaded(repeat, vec![order]);
            order.rules.measure.duration = Nanos::from_secs(2);
            let segments = run(vec![order]);
            let window = window(used(&segments[0])[0]);
            let wall = (window.end - window.start).as_secs_f64();
            let ready = window.run_delay.map_or(0.0, |d| d.as_secs_f64() / wall);
            if throttle == Throttle::Sleep && ready > 0.05 {
                starved.push(ready);
                continue;
            }
            let duty = duty(window, throttle);
            assert!((duty / 0.25 - 1.0).abs() <= 0.03, "{name}: {duty}");
            let worked = segments[0].records.iter().find_map(|record| match record {
                Record::Channel(channel) if channel.name.ends_with(".worked") => Some(channel.id),
                _ => None,
            });
            assert_eq!(worked, Some(FIRST_CHANNEL + 2), "{name}");
            is_kept = true;
            break;
        }
        if !is_kept {
            eprintln!("skipped: {name} was kept from running in every window: {starved:?}");
        }
    }
    // What has no share of the time to keep has none to tell of.
    let segments = run(vec![loaded(0, vec![stressor("cpu_int", Effort::Full)])]);
    assert_eq!(window(used(&segments[0])[0]).worked, None);
}

/// The more a disk may be written to, the sooner it is worn out: what is known to be too much is refused.
#[test]
fn a_disk_is_written_to_at_the_rate_asked_and_no_more_than_it_bears() {
    let rate = Effort::Rate {
        per_second: 2_000_000,
    };
    let mut hour = loaded(1, vec![stressor("io", rate)]);
    // 2 MB/s for 2 hours is more than 8 GiB.
    hour.rules.measure.duration = Nanos::from_secs(7_200);
    let mut short = loaded(0, vec![stressor("io", rate)]);
    short.rules.measure.duration = Nanos::from_secs(2);
    let segments = run(vec![short, hour]);
    assert_eq!(segments[0].end().outcome, Outcome::Complete);
    let done = used(&segments[0])[0];
    let window = window(done);
    let rate = window.work as f64 / (window.end - window.start).as_secs_f64();
    // Two pieces of 1 MiB a second, of which one more or less may lie in the window. A disk that is slower
    // than this is none to test on.
    assert!((1.0e6..=3.2e6).contains(&rate), "{rate}");
    let (_, failure) = segments[1].failure();
    assert_eq!(failure.code, FailureCode::LoadRefused);
    let hint = failure.hint.as_deref().unwrap();
    assert!(hint.contains("1.2 MB/s"), "{hint}");
    assert_eq!(used(&segments[1])[0].failure.as_ref(), Some(failure));
}

#[test]
fn what_a_board_does_not_have_is_a_row() {
    let mut elsewhere = stressor("spin", Effort::Full);
    elsewhere.cpus = vec![1023];
    let mut large = stressor("mem_read", Effort::Full);
    large.working_set = Some(Bytes(1 << 50));
    let orders = vec![
        loaded(0, vec![stressor("mem_dance", Effort::Full)]),
        loaded(1, vec![elsewhere]),
        loaded(2, vec![large]),
        loaded(3, Vec::new()),
    ];
    let segments = run(orders);
    let failures: Vec<FailureCode> = segments.iter().map(|s| s.failure().1.code).collect();
    let expected = [
        FailureCode::Unsupported,
        FailureCode::StressorFailed,
        FailureCode::LoadRefused,
        FailureCode::Unsupported,
    ];
    assert_eq!(failures, expected);
    assert!(segments[1].failure().1.detail.contains("CPU 1023"));
    // A load that was refused is a row too, with the reason; one that the agent does not know is none.
    let reasons = segments.iter().map(|segment| {
        let used = used(segment);
        let failure = used.first().and_then(|used| used.failure.as_ref());
        failure.map(|failure| failure.code)
    });
    let reasons: Vec<Option<FailureCode>> = reasons.collect();
    let expected = [
        None,
        Some(FailureCode::StressorFailed),
        Some(FailureCode::LoadRefused),
        None,
    ];
    assert_eq!(reasons, expected);
}

/// Whatever a host asks for: what a tool could do without a bound is not started.
#[test]
fn a_tool_does_only_what_is_known_to_be_bounded() {
    let ordered = |repeat: u32, name: &str, method: &str| {
        let mut wanted = stressor(name, Effort::Full);
        wanted.method = Some(method.into());
        loaded(repeat, vec![wanted])
    };
    let mut twice = stressor("spin", Effort::Full);
    twice.cpus = vec![cpu(), cpu()];
    let segments = run(vec![
        ordered(0, "stress-ng", "hdd"),
        ordered(1, "stress-ng", "bigheap"),
        ordered(2, "stress-ng", "class"),
        ordered(3, "stress-ng", "stream=4"),
        ordered(4, "stressapptest", "f"),
        loaded(5, vec![twice]),
    ]);
    let failures = segments.iter().map(|segment| segment.failure().1);
    let failures: Vec<(FailureCode, &str)> = failures
        .map(|why| (why.code, why.detail.as_str()))
        .collect();
    for (code, detail) in &failures[..4] {
        assert_eq!(*code, FailureCode::LoadRefused);
        assert!(detail.contains("there are stream, vm, memrate"), "{detail}");
    }
    let one_way = "stressapptest has one way only";
    assert_eq!(failures[4], (FailureCode::LoadRefused, one_way));
    assert_eq!(failures[5].0, FailureCode::Protocol);
}

/// Stressors that this daemon has started.
fn stressors(daemon: u32) -> Vec<Pid> {
    let processes = fs::read_dir("/proc").unwrap().flatten();
    let numbers = processes.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    let is_ours = |process: &i32| {
        let stat = fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
        let words = fs::read(format!("/proc/{process}/cmdline")).unwrap_or_default();
        let after_name = stat.rsplit(')').next().unwrap_or_default();
        let mut fields = after_name.split_whitespace();
        let (state, parent) = (fields.next(), fields.next());
        let words = String::from_utf8_lossy(&words).into_owned();
        let is_stressor = words.split('\0').any(|word| word == "stressor");
        state != Some("Z") && parent == Some(&daemon.to_string()) && is_stressor
    };
    numbers.filter(is_ours).map(Pid::from_raw).collect()
}

fn long(repeat: u32) -> RepeatOrder {
    let mut order = loaded(repeat, vec![stressor("spin", Effort::Full)]);
    order.rules.measure.duration = Nanos::from_secs(60);
    order.rules.measure.max_trials = 200_000;
    order
}

#[test]
fn a_stressor_dies_with_its_agent() {
    let mut daemon = Daemon::start(&["serve"]);
    daemon.connect().submit(vec![long(0)]);
    wait_for("the stressor", || stressors(daemon.id()).len() == 1);
    let stressor = stressors(daemon.id())[0];
    daemon.kill();
    wait_for("its end", || {
        let stat = fs::read_to_string(format!("/proc/{stressor}/stat"));
        stat.is_err() || stat.is_ok_and(|stat| stat.contains(") Z "))
    });
}

#[test]
fn a_stressor_that_is_lost_fails_the_repeat_with_what_was_measured() {
    let daemon = Daemon::start(&["serve"]);
    let mut host = daemon.connect();
    host.submit(vec![long(0)]);
    wait_for("the stressor", || stressors(daemon.id()).len() == 1);
    // Past settling and warm-up.
    std::thread::sleep(std::time::Duration::from_millis(1500));
    kill(stressors(daemon.id())[0], Signal::SIGKILL).unwrap();
    let segment = host.segment();
    let Outcome::Failed { stage, failure } = &segment.end().outcome else {
        panic!("{:?}", segment.end().outcome);
    };
    assert_eq!(failure.code, FailureCode::StressorFailed);
    assert!(
        failure.detail.contains("spin ended before"),
        "{}",
        failure.detail
    );
    assert!(*stage >= Stage::Cold);
    assert!(segment.end().trials >= 2);
    // What it had done until then, why it stopped and how its process ended is kept.
    let used = used(&segment)[0];
    assert_eq!(used.failure.as_ref(), Some(failure));
    let exit = used.exit.as_deref().unwrap();
    assert!(exit.contains("signal: 9"), "{exit}");
    assert!(window(used).cpu_time > Nanos::ZERO);
    assert_eq!(used.stopped, None);
}
