//! The window is empty of us: no allocation by the timed loop, no system call by the worker.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

#[expect(dead_code, reason = "other tests use the rest")]
mod client;

use std::cell::Cell;
use std::fs;
use std::io::Write;
use std::os::fd::AsFd;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use client::{Daemon, Segment, order};
use edgedyno_agent::arena::reader::create;
use edgedyno_agent::arena::{ArenaReader, ArenaWriter};
use edgedyno_agent::backend;
use edgedyno_agent::clock::{Clock, Monotonic};
use edgedyno_agent::inputs::InputSets;
use edgedyno_agent::sampler::files::Root;
use edgedyno_agent::sampler::{Plan, Watch};
use edgedyno_agent::trial::TimedLoop;
use edgedyno_agent::worker::job::Job;
use edgedyno_agent::worker::message::{MESSAGE, Message};
use edgedyno_agent::worker::spawn::PREFIX_VARIABLE;
use edgedyno_shared::columns::{FIXED_COLUMNS, Role};
use edgedyno_shared::order::StopRule;
use edgedyno_shared::repeat::{Outcome, Stage, StageSpan, WindowCalls};
use edgedyno_shared::telemetry::TelemetryMode;
use edgedyno_shared::units::Nanos;
use edgedyno_shared::wire::frame;
use edgedyno_shared::wire::record::Record;
use edgedyno_sys::kernel::allocations::{CountingAllocator, calls_of_this_thread};

#[global_allocator]
static COUNTING: CountingAllocator = CountingAllocator;

/// More than a ring holds, so that slots are reused within the window.
const TRIALS: u64 = 300_000;

#[test]
fn the_window_allocates_nothing() {
    let scripts: [(&str, &[(&str, &str)]); 2] = [
        ("null", &[]),
        ("fake", &[("latency_us", "0"), ("phases", "2")]),
    ];
    for (backend, options) in scripts {
        let (trials, calls) = calls_in_window(backend, options);
        assert_eq!((trials, calls), (TRIALS, 0), "{backend}");
    }
}

/// Measures with that backend in this process; trials of the window, and calls of the allocator in it.
fn calls_in_window(backend: &str, options: &[(&str, &str)]) -> (u64, u64) {
    let job = Job {
        model_files: Vec::new(),
        order: order(0, options),
        model: None,
        library: None,
        files: Vec::new(),
        cpus: Vec::new(),
    };
    let runtime = backend::find(backend).unwrap().open(None).unwrap();
    let model = runtime.load(&job).unwrap();
    let inputs = InputSets::for_job(&model.info().inputs, &job).unwrap();
    let mut runner = model.bind(inputs, &job).unwrap();
    let own_columns = runner.columns().len();
    let columns = FIXED_COLUMNS.len() + own_columns;

    let folder = tempfile::tempdir().unwrap();
    let file = create(&folder.path().join("arena")).unwrap();
    let arena = ArenaWriter::open(file.as_fd(), columns).unwrap();
    let mut timed = TimedLoop::new(Monotonic, &mut *runner, arena, own_columns);
    let rule = StopRule {
        duration: Nanos::ZERO,
        min_trials: TRIALS,
        max_trials: TRIALS,
    };
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let reader = ArenaReader::new(file, columns, 0);
        scope.spawn(|| empty(reader, &over));
        timed.trial(Role::Cold).unwrap();
        let before = calls_of_this_thread();
        assert_ne!(before, 0, "binding allocates, so calls are counted");
        let measured = timed.measure(&rule);
        let calls = calls_of_this_thread() - before;
        over.store(true, Ordering::Release);
        (measured.unwrap(), calls)
    })
}

/// Takes trials out of the arena, as the daemon does, until the window is over.
fn empty(mut reader: ArenaReader, over: &AtomicBool) {
    let mut slots = Vec::new();
    while !over.load(Ordering::Acquire) {
        reader.take(&mut slots).unwrap();
        reader.release().unwrap();
        slots.clear();
        std::thread::yield_now();
    }
}

#[test]
fn watching_the_board_allocates_nothing_after_the_first_read() {
    let mut child = Command::new("sleep").arg("60").spawn().unwrap();
    let mut plan = Plan {
        mode: TelemetryMode::Normal,
        files: Arc::new(Root("/".into())),
        worker: Some(child.id()),
        exec: None,
        extra: Vec::new(),
    };
    let found = plan.find();
    // Time that jumps on at each look, so that every source is due at every round.
    let clock = Jumping(Cell::new(0));
    let before = calls_of_this_thread();
    let mut watch = Watch::new("sampler", found, plan.mode, clock, || Nanos::ZERO);
    assert_ne!(calls_of_this_thread(), before, "room is made beforehand");
    let before = calls_of_this_thread();
    for _ in 0..50 {
        watch.read_due();
    }
    let calls = calls_of_this_thread() - before;
    child.kill().unwrap();
    child.wait().unwrap();
    assert_eq!(calls, 0);
    assert!(watch.channels() > 10);
}

struct Jumping(Cell<i64>);

impl Clock for Jumping {
    fn now(&self) -> Nanos {
        self.0.set(self.0.get() + 1_000_000_000);
        Nanos(self.0.get())
    }
}

#[test]
fn the_window_makes_no_system_call() {
    if !can_trace() {
        skip("strace cannot trace a process here");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    // One file a thread, no line broken by another thread's; bytes in hexadecimal, messages whole.
    let trace = folder.path().join("trace");
    let strace = format!("strace -ff -xx -s 4096 -o {}", trace.display());
    let daemon = Daemon::start_with(&["serve"], &[(PREFIX_VARIABLE, &strace)]);
    let mut host = daemon.connect();
    let mut wanted = order(0, &[]);
    wanted.case.backend = "null".into();
    wanted.rules.measure = StopRule {
        duration: Nanos::ZERO,
        min_trials: 20_000,
        max_trials: 20_000,
    };
    host.submit(vec![wanted]);
    let segment = host.segment();
    assert_eq!(segment.end().outcome, Outcome::Complete);
    let measured = segment.columns()[0]
        .iter()
        .filter(|role| **role == Role::Measure.code())
        .count();
    assert!(measured >= 10_000, "{measured}");

    let calls = calls_of_worker(folder.path());
    let begins = |wanted| move |message: &Message| matches!(message, Message::StageBegins { stage, .. } if *stage == wanted);
    let ends = |message: &Message| matches!(message, Message::StageEnds(StageSpan { stage, .. }) if *stage == Stage::Measure);
    let after = calls_between(&calls, begins(Stage::Teardown), |m| *m == Message::Done);
    assert!(!after.is_empty(), "memory is read back after the window");
    let calls_told = calls_told(&segment);
    let mut window = calls_between(&calls, begins(Stage::Measure), ends);
    if calls_told.kernel.is_some() {
        // The worker's own count: it reads the counter before the first trial and after the last, and lets
        // it go. A debug build of the standard library looks at a descriptor before it closes it.
        assert!(window.remove(0).starts_with("read("));
        let last = window.iter().rposition(|call| call.starts_with("read("));
        let own = window.split_off(last.unwrap());
        for call in &own[1..] {
            let is_closing = call.starts_with("fcntl(") || call.starts_with("close(");
            assert!(is_closing, "{own:?}");
        }
    }
    if !window.is_empty() && window.iter().all(|call| call.starts_with("clock_gettime(")) {
        skip("the clock is not in the vDSO here");
        return;
    }
    assert!(window.is_empty(), "{window:#?}");
    assert_eq!(calls_told.allocator, Some(0));
    assert!(matches!(calls_told.kernel, None | Some(0)));
}

/// What a repeat says of its own window.
fn calls_told(segment: &Segment) -> WindowCalls {
    let told = segment.records.iter().find_map(|record| match record {
        Record::AgentCost(cost) => Some(cost.calls),
        _ => None,
    });
    told.unwrap()
}

#[test]
fn system_calls_of_a_model_are_unknown() {
    let daemon = Daemon::start(&["serve"]);
    let mut host = daemon.connect();
    host.submit(vec![order(0, &[])]);
    let told = calls_told(&host.segment());
    assert_eq!((told.allocator, told.kernel), (Some(0), None));
}

/// Whether strace is installed and this process may use ptrace.
fn can_trace() -> bool {
    let tried = Command::new("strace")
        .args(["-o", "/dev/null", "true"])
        .output();
    tried.is_ok_and(|output| output.status.success())
}

/// Says that a test is skipped, around the capture of the test runner; a strict run fails instead.
fn skip(reason: &str) {
    let strict = std::env::var("EDGEDYNO_TEST_STRICT").is_ok_and(|value| value == "1");
    assert!(!strict, "skipped: {reason}");
    let _ = writeln!(std::io::stderr(), "skipped: {reason}");
}

/// System calls of the worker's main thread, which is the one that measures, in order.
fn calls_of_worker(folder: &Path) -> Vec<String> {
    let texts = fs::read_dir(folder)
        .unwrap()
        .map(|entry| fs::read_to_string(entry.unwrap().path()).unwrap());
    let control = hex(b"--control");
    let workers: Vec<String> = texts
        .filter(|text| text.starts_with("execve(") && text.contains(&control))
        .collect();
    assert_eq!(workers.len(), 1, "one worker was traced");
    workers[0].lines().map(str::to_owned).collect()
}

/// The calls after the message that `begins` names was written and before the one that `ends` names.
fn calls_between(
    calls: &[String],
    begins: impl Fn(&Message) -> bool,
    ends: impl Fn(&Message) -> bool,
) -> Vec<&str> {
    let messages = messages(calls);
    let begin = messages.iter().find(|(_, _, message)| begins(message));
    let end = messages.iter().find(|(_, _, message)| ends(message));
    let ((_, last, _), (first, _, _)) = (begin.unwrap(), end.unwrap());
    let between = &calls[last + 1..*first];
    between.iter().map(String::as_str).collect()
}

/// Messages that the worker wrote, each with the places of its first and last call.
fn messages(calls: &[String]) -> Vec<(usize, usize, Message)> {
    let control = control_descriptor(&calls[0]);
    let start = format!("({control}, \"");
    let mut stream = Vec::new();
    let mut places = Vec::new();
    for (place, call) in calls.iter().enumerate() {
        let Some((name, rest)) = call.split_once(&start) else {
            continue;
        };
        if ["write", "sendto"].contains(&name) {
            let bytes = unhex(rest);
            places.extend(std::iter::repeat_n(place, bytes.len()));
            stream.extend(bytes);
        }
    }
    let mut left = stream.as_slice();
    let mut messages = Vec::new();
    while !left.is_empty() {
        let first = stream.len() - left.len();
        let read = frame::read_blocking(&mut left, frame::LIMIT).unwrap();
        let frame = read.filter(|frame| frame.kind == MESSAGE).unwrap();
        let last = stream.len() - left.len() - 1;
        messages.push((places[first], places[last], frame.decode().unwrap()));
    }
    messages
}

/// The number after `--control` in the call that started the worker.
fn control_descriptor(execve: &str) -> String {
    let words = execve.split(['[', ']']).nth(1).unwrap().split(", ");
    let words: Vec<String> = words
        .map(|word| String::from_utf8(unhex(word.trim_matches('"'))).unwrap())
        .collect();
    let at = words.iter().position(|word| word == "--control").unwrap();
    words[at + 1].clone()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("\\x{byte:02x}")).collect()
}

/// Bytes of strace's `\x2d\x2d...`, up to its closing quote.
fn unhex(text: &str) -> Vec<u8> {
    let inner = text.split('"').next().unwrap();
    inner
        .split("\\x")
        .skip(1)
        .map(|digits| u8::from_str_radix(digits, 16).unwrap())
        .collect()
}
