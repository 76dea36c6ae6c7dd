//! Bad input gets an error, a hint and its exit code, and costs nothing that is stored.

use std::fs;

use edgedyno_tests::commands::{QUICK, run, run_line, small_model};
use edgedyno_tests::skip::{Need, has, skip};
use edgedyno_tests::{Output, Sandbox, binaries};

/// Says what is wrong, in words that name it, and what to do.
#[track_caller]
fn assert_told(output: &Output, words: &[&str]) {
    // What else goes on on this machine may be noted before it.
    let lines = output.stderr.lines();
    let told: Vec<&str> = lines
        .skip_while(|line| line.starts_with("note: "))
        .collect();
    let stderr = &told.join("\n");
    assert!(stderr.starts_with("error: "), "{stderr}");
    assert!(stderr.contains("\n  hint: "), "no hint:\n{stderr}");
    for word in words {
        assert!(stderr.contains(word), "no {word:?} in\n{stderr}");
    }
    assert!(output.stdout.is_empty(), "a result: {}", output.stdout);
}

/// Runs with one more argument or another model; must be refused with exit code 2 before anything is
/// measured.
#[track_caller]
fn refuse(sandbox: &Sandbox, model: &str, backend: &str, args: &[&str], words: &[&str]) {
    let line = ["run", model, "--backend", backend];
    let output = sandbox
        .edgedyno(line.iter().chain(&QUICK).chain(args))
        .expect_code(2);
    assert_told(&output, words);
    assert!(!sandbox.store().exists(), "a store was made for nothing");
}

#[test]
fn a_file_that_is_no_model_is_refused() {
    let sandbox = Sandbox::new();
    let model = fs::read(small_model(&sandbox)).unwrap();
    sandbox.write("text.onnx", "hello\n");
    sandbox.write("empty.onnx", "");
    sandbox.write("short.onnx", &model[..model.len() / 2]);
    fs::create_dir(sandbox.work().join("folder.onnx")).unwrap();
    for (name, words) in [
        ("missing.onnx", "does not exist"),
        ("text.onnx", "not an ONNX model"),
        ("empty.onnx", "empty"),
        ("short.onnx", "cut short"),
        ("folder.onnx", "folder"),
    ] {
        refuse(&sandbox, name, "rten", &[], &[name, words]);
        let info = sandbox.edgedyno(["model", "info", name]).expect_code(2);
        assert_told(&info, &[name]);
    }
}

#[test]
fn a_value_that_cannot_be_is_refused() {
    let sandbox = Sandbox::new();
    small_model(&sandbox);
    for (args, words) in [
        (["--threads", "0"], &["--threads"][..]),
        (["--cpus", "999"], &["CPU 999"]),
        (["--cpus", "x"], &["--cpus"]),
        (["--repeat", "0"], &["--repeat"]),
        (["--trials", "0"], &["--trials"]),
        (["--warmup", "soon"], &["--warmup"]),
        (["--shape", "input"], &["--shape"]),
        (["--option", "novalue"], &["--option"]),
        (["--memory-limit", "lots"], &["--memory-limit"]),
        (["--io", "residnt"], &["did you mean resident"]),
        (["--generator", "norml"], &["--generator"]),
        (["--scenario", "rate"], &["rate", "single"]),
        (["--board", "nano"], &["nano", "local"]),
        (["--batch", "7"], &["batch"]),
        (["--input", "missing.npy"], &["missing.npy"]),
        (["--reference", "missing"], &["missing"]),
    ] {
        refuse(&sandbox, "small.onnx", "rten", &args, words);
    }
}

#[test]
fn a_name_that_is_nearly_right_is_answered_with_the_right_one() {
    let sandbox = Sandbox::new();
    let model = small_model(&sandbox);
    refuse(&sandbox, "small.onnx", "rtem", &[], &["did you mean rten"]);
    let unknown = sandbox
        .edgedyno(["run", "small.onnx", "--thread", "1"])
        .expect_code(2);
    assert_told(&unknown, &["--threads"]);
    let command = sandbox.edgedyno(["sumary", "last"]).expect_code(2);
    assert_told(&command, &["summary"]);

    run(&sandbox, &model, "fake", &QUICK).ok();
    let field = sandbox
        .edgedyno(["get", "last", "latency_p5_ms"])
        .expect_code(2);
    assert_told(&field, &["latency_p50_ms"]);
    let explain = sandbox.edgedyno(["explain", "rate_hertz"]).expect_code(2);
    assert_told(&explain, &["rate_hz"]);
    let format = sandbox
        .edgedyno(["export", "last", "--format", "cvs"])
        .expect_code(2);
    assert_told(&format, &["csv"]);
    let name = sandbox.edgedyno(["summary", "nosuchrun"]).expect_code(2);
    assert_told(&name, &["nosuchrun", "runs list"]);
}

/// The start of a shared library for another machine: 64 bit, little endian, ET_DYN, EM_AARCH64 (or
/// EM_X86_64 where the tests run on aarch64).
fn foreign_library() -> Vec<u8> {
    let machine: u16 = if cfg!(target_arch = "aarch64") {
        62
    } else {
        183
    };
    let mut header = vec![0; 4096];
    header[..7].copy_from_slice(b"\x7fELF\x02\x01\x01");
    header[16..18].copy_from_slice(&3_u16.to_le_bytes());
    header[18..20].copy_from_slice(&machine.to_le_bytes());
    header[20..24].copy_from_slice(&1_u32.to_le_bytes());
    header[52..54].copy_from_slice(&64_u16.to_le_bytes());
    header
}

#[test]
fn a_library_that_cannot_be_used_is_refused_with_the_reason() {
    let sandbox = Sandbox::new();
    small_model(&sandbox);
    sandbox.write("foreign.so", foreign_library());
    sandbox.write("text.so", "not a library\n");
    sandbox.write("empty.so", "");
    for (library, words) in [
        ("foreign.so", &["built for", "aarch64"][..]),
        ("text.so", &["not a shared library", "text"]),
        ("empty.so", &["empty.so"]),
        ("./missing.so", &["missing.so", "runtime list"]),
        ("9.9", &["9.9", "runtime install"]),
    ] {
        let args = ["--runtime", library];
        refuse(&sandbox, "small.onnx", "onnxruntime", &args, words);
    }
}

#[test]
fn an_output_folder_that_cannot_be_written_is_found_before_measuring() {
    let sandbox = Sandbox::new();
    let model = small_model(&sandbox);
    // Root may write everywhere but below a file.
    sandbox.write("file", "");
    let args = ["--save-outputs", "file/out"];
    refuse(
        &sandbox,
        "small.onnx",
        "rten",
        &args,
        &["file/out", "--save-outputs"],
    );

    run(&sandbox, &model, "fake", &QUICK).ok();
    let line = ["export", "last", "--format", "dir", "-o", "file/out"];
    assert_told(&sandbox.edgedyno(line).expect_code(2), &["file/out"]);
}

#[test]
fn an_export_never_goes_into_a_folder_that_holds_something() {
    let sandbox = Sandbox::new();
    let model = small_model(&sandbox);
    run(&sandbox, &model, "fake", &QUICK).ok();
    let kept = sandbox.write("full/records.csv", "mine\n");
    let line = ["export", "last", "--format", "dir", "-o", "full"];
    assert_told(
        &sandbox.edgedyno(line).expect_code(2),
        &["full", "not empty"],
    );
    assert_eq!(fs::read_to_string(kept).unwrap(), "mine\n");
}

#[test]
fn a_made_model_never_replaces_a_file_unasked() {
    let sandbox = Sandbox::new();
    let model = small_model(&sandbox);
    let before = fs::read(&model).unwrap();
    let line = ["model", "make", "conv", "--out", "small.onnx"];
    assert_told(&sandbox.edgedyno(line).expect_code(2), &["small.onnx"]);
    assert_eq!(fs::read(&model).unwrap(), before);
}

#[test]
fn a_store_that_cannot_be_written_is_found_before_measuring() {
    let mut sandbox = Sandbox::new();
    let model = small_model(&sandbox);
    let file = sandbox.write("file", "");
    for place in [file.clone(), file.join("store")] {
        sandbox.env("EDGEDYNO_STORE", &place);
        let output = run(&sandbox, &model, "fake", &QUICK).expect_code(2);
        assert_told(&output, &[place.to_str().unwrap(), "--store"]);
    }
}

#[test]
fn reading_never_makes_a_store() {
    let sandbox = Sandbox::new();
    for line in [
        &["summary", "last"][..],
        &["get", "last", "latency_p50_ms"],
        &["records", "last"],
        &["runs", "list"],
        &["run", "--resume", "last"],
    ] {
        let output = sandbox.edgedyno(line).expect_code(2);
        assert_told(&output, &[]);
        assert!(!sandbox.store().exists(), "{line:?}");
    }
}

#[test]
fn a_store_of_a_newer_layout_is_left_alone() {
    if !has(&[Need::Program("python3")]) {
        return;
    }
    let sandbox = Sandbox::new();
    let model = small_model(&sandbox);
    run(&sandbox, &model, "fake", &QUICK).ok();
    let before = sandbox.edgedyno(["summary", "last"]).ok().stdout;
    // Says which layout it was.
    let set = |version: &str| {
        let script = format!(
            "import sqlite3; c = sqlite3.connect({:?}); print(*c.execute('PRAGMA user_version').fetchone()); c.execute('PRAGMA user_version = {version}'); c.commit()",
            sandbox.store().join("store.db")
        );
        let output = sandbox.start("python3", ["-c", &script]).wait().ok();
        output.stdout.trim().to_owned()
    };
    let own = set("99");
    let read = sandbox.edgedyno(["summary", "last"]).expect_code(7);
    assert_told(&read, &["layout 99"]);
    let written = run(&sandbox, &model, "fake", &QUICK).expect_code(7);
    assert_told(&written, &["layout 99"]);
    set(&own);
    assert_eq!(sandbox.edgedyno(["summary", "last"]).ok().stdout, before);
}

#[test]
fn a_damaged_store_is_said_and_not_replaced() {
    let sandbox = Sandbox::new();
    let model = small_model(&sandbox);
    fs::create_dir(sandbox.store()).unwrap();
    let file = sandbox.store().join("store.db");
    fs::write(&file, "no database\n").unwrap();
    assert_told(
        &run(&sandbox, &model, "fake", &QUICK).expect_code(1),
        &["damaged"],
    );
    assert_eq!(fs::read_to_string(&file).unwrap(), "no database\n");
}

#[test]
fn a_second_daemon_on_one_state_folder_is_refused() {
    let sandbox = Sandbox::new();
    let model = small_model(&sandbox);
    let mut first = sandbox.start_agent(["serve"]);
    let socket = sandbox.state().join("agent.sock");
    first.wait_until("the socket", |_| socket.exists());
    let second = sandbox.agent(["serve"]).expect_code(4);
    assert!(
        second.stderr.contains("another daemon"),
        "{}",
        second.stderr
    );
    // The first one is none the worse for it.
    run(&sandbox, &model, "fake", &QUICK).ok();
}

#[test]
fn a_state_folder_that_cannot_be_written_is_said() {
    let mut sandbox = Sandbox::new();
    let model = small_model(&sandbox);
    let file = sandbox.write("file", "");
    sandbox.env("EDGEDYNO_AGENT_STATE", file.join("state"));
    let output = run(&sandbox, &model, "fake", &QUICK).expect_code(4);
    assert_told(&output, &["local", "Not a directory"]);
}

/// With --json the error is a document too.
#[test]
fn an_error_is_json_when_asked_for() {
    let sandbox = Sandbox::new();
    let output = sandbox
        .edgedyno(["run", "missing.onnx", "--json"])
        .expect_code(2);
    let error = &output.json()["error"];
    assert_eq!(error["exit"], 2);
    assert!(
        error["what"].is_string() && error["hint"].is_string(),
        "{error}"
    );
    assert!(output.stderr.contains("hint: "), "{}", output.stderr);
}

/// The disk fills up in the middle: said, with what is stored kept; room made, the run goes on.
#[test]
fn a_full_disk_loses_nothing() {
    const SCRIPT: &str = r#"
        mkdir -p "$EDGEDYNO_STORE" && mount -t tmpfs -o size=300k tmpfs "$EDGEDYNO_STORE" || exit 99
        "$0" "$@"; first=$?
        mount -o remount,size=16m "$EDGEDYNO_STORE"
        "$0" run --resume last >&2; second=$?
        "$0" get last repeats_count
        echo $first $second"#;
    let sandbox = Sandbox::new();
    let model = small_model(&sandbox);
    let script = ["--option", "latency_us=10", "--option", "phases=12"];
    let rules = ["--repeat", "3", "--warmup", "2", "--duration", "0.5s"];
    let line = run_line(&model, "fake", &[&script[..], &rules].concat());
    let host = binaries().host.to_str().unwrap();
    let mut args = vec!["--mount", "sh", "-c", SCRIPT, host];
    args.extend(line.iter().map(String::as_str));
    let output = sandbox.start("unshare", args).wait();
    if output.code == 99 || output.stderr.contains("unshare failed") {
        skip(Need::NetworkNamespace, "file systems cannot be mounted");
        return;
    }
    assert!(output.stderr.contains("no room left"), "{}", output.stderr);
    assert_eq!(
        output.stdout.lines().collect::<Vec<_>>(),
        ["3", "1 0"],
        "{}",
        output.stderr
    );
}

/// The board's disk fills up: a finished repeat waits for room, the user need not, and nothing is lost.
#[test]
fn a_board_without_room_keeps_what_it_measured() {
    const SCRIPT: &str = r#"
        mount -t tmpfs -o size=40k tmpfs "$EDGEDYNO_AGENT_STATE" || exit 99
        "$0" "$@" >/dev/null 2>"$TMPDIR/said" & run=$!
        until grep -q "waiting: " "$TMPDIR/said"; do kill -0 $run || break; sleep 0.1; done
        kill -INT $run; wait $run; first=$?
        cat "$TMPDIR/said" >&2
        mount -o remount,size=16m "$EDGEDYNO_AGENT_STATE"
        "$0" run --resume last >&2; second=$?
        "$0" get last repeats_count
        "$0" get last attempts_count
        echo $first $second"#;
    let sandbox = Sandbox::new();
    let model = small_model(&sandbox);
    let rules = ["--repeat", "2", "--warmup", "2", "--duration", "0.5s"];
    let line = run_line(
        &model,
        "fake",
        &[&["--option", "latency_us=10"], &rules[..]].concat(),
    );
    let host = binaries().host.to_str().unwrap();
    let mut args = vec!["--mount", "sh", "-c", SCRIPT, host];
    args.extend(line.iter().map(String::as_str));
    let output = sandbox.start("unshare", args).wait();
    if output.code == 99 || output.stderr.contains("unshare failed") {
        skip(Need::NetworkNamespace, "file systems cannot be mounted");
        return;
    }
    assert!(output.stderr.contains("No space left"), "{}", output.stderr);
    assert_eq!(
        output.stdout.lines().collect::<Vec<_>>(),
        ["2", "2", "130 0"],
        "{}",
        output.stderr
    );
}
