//! What a disk, a user or a bug did to files: said, never in the way for ever, never taken for a result.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use edgedyno_tests::clock::Deadline;
use edgedyno_tests::commands::{number, run_line, small_model, summary, text};
use edgedyno_tests::{Running, Sandbox};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

/// Starts a run, and kills host and daemon once the first repeat waits in the spool.
fn leave_a_segment(sandbox: &Sandbox, model: &Path) -> PathBuf {
    let rules = ["--repeat", "1", "--warmup", "2", "--trials", "3000"];
    let mut running = sandbox.start_edgedyno(run_line(model, "fake", &rules));
    let queue = sandbox.state().join("queue");
    running.wait_until("an order", |_| has_file(&queue, "order").is_some());
    running.signal(Signal::SIGKILL);
    let spool = sandbox.state().join("spool");
    let segment = Deadline::after(Duration::from_secs(60)).poll(|| {
        let mut stores = fs::read_dir(&spool).into_iter().flatten().flatten();
        stores.find_map(|store| has_file(&store.path(), "seg"))
    });
    kill_daemon(sandbox);
    segment.expect("the daemon goes on without its host")
}

fn has_file(folder: &Path, extension: &str) -> Option<PathBuf> {
    let files = fs::read_dir(folder).into_iter().flatten().flatten();
    files
        .map(|file| file.path())
        .find(|path| path.extension().is_some_and(|e| e == extension))
}

fn kill_daemon(sandbox: &Sandbox) {
    let process = fs::read_to_string(sandbox.state().join("agent.lock")).unwrap();
    let process = Pid::from_raw(process.trim().parse().unwrap());
    kill(process, Signal::SIGKILL).unwrap();
}

#[test]
fn a_segment_cut_short_is_set_aside_and_measured_again() {
    let sandbox = Sandbox::new();
    let model = small_model(&sandbox);
    let segment = leave_a_segment(&sandbox, &model);
    let bytes = fs::read(&segment).unwrap();
    fs::write(&segment, &bytes[..bytes.len() - 20]).unwrap();
    sandbox.edgedyno(["run", "--resume", "last"]).ok();
    let document = summary(&sandbox, "last");
    let fields = &document["cases"][0]["fields"];
    assert_eq!(number(&fields["repeats_count"]), 1.0);
    assert_eq!(number(&fields["trials_count"]), 3000.0);
}

#[test]
fn a_left_over_that_nobody_can_read_does_not_block_the_queue() {
    let sandbox = Sandbox::new();
    let model = small_model(&sandbox);
    let rules = ["--repeat", "1", "--warmup", "2", "--duration", "20s"];
    let mut running = sandbox.start_edgedyno(run_line(&model, "fake", &rules));
    let mut log = None;
    running.wait_until("a repeat's log", |_| {
        log = find_log(sandbox.runtime());
        log.is_some()
    });
    running.signal(Signal::SIGKILL);
    kill_daemon(&sandbox);
    fs::write(log.unwrap(), b"").unwrap();
    // Another run behind the order that was left.
    let rules = ["--repeat", "1", "--warmup", "2", "--trials", "11"];
    let line = run_line(&model, "fake", &rules);
    let mut running: Running = sandbox.start_edgedyno(line);
    running.wait_until("the order before it", |running| {
        running.stderr_so_far().contains("first")
    });
    assert!(
        running.stderr_so_far().contains("measures a repeat of run"),
        "{}",
        running.stderr_so_far()
    );
    running.signal(Signal::SIGINT);
    running.signal(Signal::SIGINT);
    std::thread::sleep(Duration::from_millis(100));
    running.signal(Signal::SIGINT);
    running.wait().expect_code(130);
}

fn find_log(folder: &Path) -> Option<PathBuf> {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() {
            if let Some(found) = find_log(&path) {
                return Some(found);
            }
        } else if path.file_name().is_some_and(|name| name == "log") {
            return Some(path);
        }
    }
    None
}

#[test]
fn a_run_that_is_removed_under_its_hands_ends_and_says_so() {
    let sandbox = Sandbox::new();
    let model = small_model(&sandbox);
    let rules = ["--repeat", "3", "--warmup", "2", "--duration", "1s"];
    let mut running = sandbox.start_edgedyno(run_line(&model, "fake", &rules));
    let spool = sandbox.runtime().to_owned();
    running.wait_until("a repeat", |_| find_log(&spool).is_some());
    sandbox.edgedyno(["runs", "rm", "last", "--yes"]).ok();
    let output = running.wait().expect_code(2);
    assert!(output.stderr.contains("no run"), "{}", output.stderr);
}

#[test]
fn a_store_that_is_removed_under_its_hands_is_not_acknowledged() {
    let sandbox = Sandbox::new();
    let model = small_model(&sandbox);
    let rules = ["--repeat", "2", "--warmup", "2", "--duration", "1s"];
    let mut running = sandbox.start_edgedyno(run_line(&model, "fake", &rules));
    let runtime = sandbox.runtime().to_owned();
    running.wait_until("a repeat", |_| find_log(&runtime).is_some());
    fs::remove_dir_all(sandbox.store()).unwrap();
    let output = running.wait().expect_code(2);
    assert!(
        output.stderr.contains("cannot be written"),
        "{}",
        output.stderr
    );
    let spool = sandbox.state().join("spool");
    let stores = fs::read_dir(spool).unwrap().flatten();
    let kept = stores
        .into_iter()
        .find_map(|store| has_file(&store.path(), "seg"));
    assert!(kept.is_some(), "the board keeps what nobody stored");
}

#[test]
fn a_result_that_cannot_be_written_is_no_success() {
    let sandbox = Sandbox::new();
    let model = small_model(&sandbox);
    let rules = ["--repeat", "1", "--warmup", "2", "--trials", "3000"];
    sandbox
        .start_edgedyno(run_line(&model, "fake", &rules))
        .wait()
        .ok();
    let host = edgedyno_tests::binaries().host.to_str().unwrap();
    for command in [
        "records last",
        "get last latency_p50_ms",
        "runs list --json",
        "summary last",
    ] {
        let line = format!("{host} {command} > /dev/full");
        let output = sandbox.start("sh", ["-c", &line]).wait().expect_code(2);
        assert!(
            output.stderr.contains("standard output"),
            "{command}: {}",
            output.stderr
        );
        let line = format!("{host} {command} | head -c 1 >/dev/null; true");
        let output = sandbox.start("sh", ["-c", &line]).wait().ok();
        assert_eq!(
            output.stderr, "",
            "{command}: a reader that has enough is no fault"
        );
    }
}

#[test]
fn a_model_changed_in_place_is_not_measured_under_its_old_name() {
    let sandbox = Sandbox::new();
    let model = small_model(&sandbox);
    let rules = ["--repeat", "2", "--warmup", "2", "--duration", "1.5s"];
    let mut running = sandbox.start_edgedyno(run_line(&model, "rten", &rules));
    let runtime = sandbox.runtime().to_owned();
    running.wait_until("a repeat", |_| find_log(&runtime).is_some());
    std::thread::sleep(Duration::from_millis(500));
    let modified = fs::metadata(&model).unwrap().modified().unwrap();
    let mut bytes = fs::read(&model).unwrap();
    let last = bytes.len() - 1;
    bytes[last] ^= 1;
    fs::write(&model, bytes).unwrap();
    let file = fs::File::options().write(true).open(&model).unwrap();
    file.set_modified(modified).unwrap();
    drop(running.wait());
    let document = summary(&sandbox, "last");
    let case = &document["cases"][0];
    assert_eq!(number(&case["fields"]["repeats_failed_count"]), 1.0);
    assert!(text(&case["failures"][0]["detail"]).contains("changed since its hash was taken"));
}
