//! What a user reads: help of every command, the table of a run, and JSON from every command.

use edgedyno_tests::commands::{QUICK, run, small_model, text};
use edgedyno_tests::schema::assert_matches_schema;
use edgedyno_tests::{Sandbox, redact};
use regex::Regex;

/// The names under "Commands:" of a help text.
fn commands_of(help: &str) -> Vec<String> {
    help.lines()
        .skip_while(|line| *line != "Commands:")
        .skip(1)
        .take_while(|line| !line.is_empty())
        .filter(|line| line.starts_with("  ") && !line.starts_with("   "))
        .filter_map(|line| line.split_whitespace().next())
        .filter(|name| *name != "help")
        .map(str::to_owned)
        .collect()
}

/// Every command with its help, the program itself first.
fn every_help(sandbox: &Sandbox) -> Vec<(Vec<String>, String)> {
    let mut all = Vec::new();
    let mut open = vec![Vec::new()];
    while let Some(line) = open.pop() {
        let help = sandbox
            .edgedyno(line.iter().map(String::as_str).chain(["--help"]))
            .ok()
            .stdout;
        open.extend(
            commands_of(&help)
                .into_iter()
                .map(|name| [&line[..], &[name]].concat()),
        );
        all.push((line, help));
    }
    all
}

#[test]
fn help_of_every_command() {
    let sandbox = Sandbox::new();
    for (line, help) in every_help(&sandbox) {
        let name = if line.is_empty() {
            "edgedyno".to_owned()
        } else {
            line.join("-")
        };
        insta::with_settings!({ omit_expression => true, prepend_module_to_snapshot => false }, {
            insta::assert_snapshot!(format!("help-{name}"), sandbox.redact(&help));
        });
    }
}

#[test]
fn every_help_fits_and_says_how_to_begin() {
    let sandbox = Sandbox::new();
    for (line, help) in every_help(&sandbox) {
        for row in help.lines() {
            assert!(row.chars().count() <= 100, "{line:?}: {row}");
        }
        assert!(help.contains("--json"), "{line:?} without --json");
        assert!(
            help.contains("\nexamples:\n") || help.contains("\nexample:"),
            "{line:?} without an example"
        );
    }
}

/// A table without what differs from run to run and from machine to machine.
fn plain(table: &str, machine: &[String]) -> String {
    let table = machine.iter().fold(table.to_owned(), |table, name| {
        table.replace(name, "[machine]")
    });
    // Findings of the moment and marks of too few samples come and go with the load.
    let (body, _) = table
        .split_once("\nfinding\n")
        .expect("a made-up run has findings");
    let mut text = redact::redact_table(body);
    for (pattern, to) in [
        (r"\[n\] (?:ns|µs|ms|s)\b", "[time]"),
        (r"\[n\] (?:B|KiB|MiB|GiB)\b", "[size]"),
        (r"\[n\] [kM]?Hz", "[rate]"),
        (r"\[time\]\*", "[time]"),
        // Which columns there are, and whether there is any, depends on what the board shows and how often it was
        // looked at in so short a window.
        (r"(?m)^board  .*\n───\n.*\n", ""),
        (
            r"(?m)^not watched: (?s:.*?)tells why$",
            "not watched: [machine]",
        ),
        (
            r"(?m)^(governor|highest clock|clock before|host's clock|tool's own cost)  .*$",
            "$1  [machine]",
        ),
        (r"(?m)^\* too few.*\n", ""),
        (r"(?m)^bounds at .*\n", ""),
        (r"1x\d+", "1x[n]"),
        (r"run [a-z0-9]{10}\b", "run [run]"),
        (r"(case|fingerprint|sha256)( +)[0-9a-f]+", "$1$2[hash]"),
    ] {
        text = Regex::new(pattern)
            .unwrap()
            .replace_all(&text, to)
            .into_owned();
    }
    text
}

#[test]
fn the_table_of_a_run() {
    let sandbox = Sandbox::new();
    let model = small_model(&sandbox);
    let args = [
        "--repeat", "1", "--warmup", "2", "--trials", "200", "--cpus", "0",
    ];
    let document = run(&sandbox, &model, "fake", &[&args[..], &["--json"]].concat())
        .ok()
        .json();
    let fields = &document["cases"][0]["fields"];
    let machine = ["cpu_model", "kernel_release"].map(|name| text(&fields[name]));
    let table = sandbox.edgedyno(["summary", "last"]).ok().stdout;
    for row in table.lines().filter(|row| !row.starts_with("cite: ")) {
        assert!(row.chars().count() <= 100, "{row}");
    }
    assert_eq!(
        table
            .lines()
            .filter(|row| row.starts_with("cite: "))
            .count(),
        1
    );
    insta::with_settings!({ omit_expression => true, prepend_module_to_snapshot => false }, {
        insta::assert_snapshot!("summary-table", plain(&table, &machine));
    });
}

/// Every command answers one JSON value (records: one a line) where it has a result.
#[test]
fn every_command_answers_in_json() {
    let sandbox = Sandbox::new();
    let model = small_model(&sandbox);
    run(
        &sandbox,
        &model,
        "fake",
        &[&QUICK[..], &["--tag", "first"]].concat(),
    )
    .ok();
    for (line, schema) in [
        (&["summary", "last"][..], Some("summary")),
        (&["get", "last"], None),
        (&["get", "last", "latency_p50_ms"], Some("get")),
        (&["explain"], Some("explain")),
        (&["explain", "rate_hz"], Some("explain")),
        (
            &["export", "last", "--format", "dir", "-o", "all"],
            Some("export"),
        ),
        (
            &["export", "last", "--format", "csv", "-o", "one.csv"],
            Some("export"),
        ),
        (&["runs", "list"], Some("runs")),
        (&["runs", "show", "last"], None),
        (&["runs", "tag", "last", "second"], None),
        (
            &["run", "small.onnx", "--backend", "fake", "--dry-run"],
            None,
        ),
        (&["report", "last"], Some("report")),
        (&["trace", "last"], Some("trace")),
        (&["query", "select * from figures"], Some("query")),
        (&["model", "info", "small.onnx"], None),
        (&["model", "make"], None),
        (
            &["model", "make", "matmul", "--width", "8", "--out", "m.onnx"],
            None,
        ),
        (&["runtime", "list"], None),
        (&["runs", "rm", "last", "--yes"], None),
    ] {
        let output = sandbox.edgedyno(line.iter().chain(&["--json"])).ok();
        let value = output.json();
        assert!(value.is_object(), "{line:?}: {value}");
        if let Some(schema) = schema {
            assert_matches_schema(&value, schema);
        }
    }
}
