//! Reports of real runs: one file that is whole by itself, and figures as files.

use std::fs;

use edgedyno_tests::Sandbox;
use edgedyno_tests::commands::small_model;
use edgedyno_tests::schema::assert_matches_schema;
use edgedyno_tests::skip::{self, Need};
use edgedyno_tests::workspace;
use regex::Regex;
use serde_json::Value;

fn sweep(sandbox: &Sandbox, tag: &str) {
    small_model(sandbox);
    let line = [
        "sweep",
        "small.onnx",
        "--axis",
        "backend=fake",
        "--axis",
        "option.latency_us=300,400",
        "--axis",
        "threads=1,2",
        "--axis",
        "option.phases=4",
        "--axis",
        "option.steps=5",
        "--warmup",
        "5",
        "--trials",
        "80",
        "--repeat",
        "2",
        "--tag",
        tag,
    ];
    sandbox.edgedyno(line);
}

/// The data that a page carries.
fn data(page: &str) -> Value {
    let (_, data) = page.split_once("id=\"report-data\">").unwrap();
    let (data, _) = data.split_once("</script>").unwrap();
    serde_json::from_str(data).unwrap()
}

#[test]
fn a_sweep_becomes_one_page() {
    let sandbox = Sandbox::new();
    sweep(&sandbox, "first");
    let document = sandbox.edgedyno(["report", "first", "--json"]).ok().json();
    assert_matches_schema(&document, "report");
    assert_eq!(document["files"][0]["name"], "report.html");
    let page = fs::read_to_string(sandbox.work().join("report.html")).unwrap();
    let cases = data(&page)["runs"][0]["cases"].as_array().unwrap().clone();
    assert_eq!(cases.len(), 4);
    for case in &cases {
        let trials = case["trials"].as_array().unwrap();
        assert_eq!(trials.len(), 2);
        assert_eq!(trials[0]["latency_ns"].as_array().unwrap().len(), 80);
    }
    for words in [
        "simulated and measure no model",
        "p50 over option.latency_us and threads",
        "From nothing to the first result",
        "Memory of the measuring process",
        "Where the time of a run goes",
        "How long each step takes",
        "The best case by each metric",
    ] {
        assert!(page.contains(words), "no {words:?}");
    }
}

#[test]
fn a_comparison_stands_in_the_page_of_two_runs_or_of_one() {
    let sandbox = Sandbox::new();
    sweep(&sandbox, "first");
    sweep(&sandbox, "second");
    sandbox
        .edgedyno(["report", "first", "second", "--compare", "-o", "two.html"])
        .ok();
    let two = fs::read_to_string(sandbox.work().join("two.html")).unwrap();
    assert!(two.contains("second against first"), "the title");
    assert!(two.contains("separate: arms were measured at different times"));
    assert_eq!(data(&two)["runs"].as_array().unwrap().len(), 2);
    let across = "option.latency_us=300,400";
    sandbox
        .edgedyno(["report", "first", "--between", across, "-o", "one.html"])
        .ok();
    let one = fs::read_to_string(sandbox.work().join("one.html")).unwrap();
    assert!(one.contains("interleaved: arms took turns in one run"));

    let alone = sandbox.edgedyno(["report", "first", "--compare"]);
    assert!(alone.expect_code(2).stderr.contains("two runs"));
    let both = sandbox.edgedyno(["report", "first", "second", "--between", "threads"]);
    assert!(both.expect_code(2).stderr.contains("one run"));
    let nowhere = sandbox.edgedyno(["report", "first", "-o", "missing/report.html"]);
    assert_eq!(nowhere.code, 2, "{}", nowhere.stderr);
}

/// What stands on the first screen, as text.
fn at_a_glance(page: &str) -> String {
    let (_, rest) = page.split_once("<section id=\"what\"").unwrap();
    let (section, _) = rest.split_once("</section>").unwrap();
    let text = Regex::new("<[^>]*>").unwrap().replace_all(section, "");
    text.into_owned()
}

#[test]
fn a_load_is_answered_for_on_the_first_screen_and_drawn() {
    if !skip::has(&[Need::Cpus(2)]) {
        return;
    }
    let sandbox = Sandbox::new();
    small_model(&sandbox);
    let line = "stress small.onnx --backend fake --working-set 8MiB --warmup 2 --duration 200ms \
                --settle 100ms --force --levels 50,100 --stressor mem_copy --repeat 2 --tag load \
                --slo p99=900ms";
    sandbox.edgedyno(line.split_whitespace());
    let line = "report load --output load.html --figures figures --json";
    let document = sandbox.edgedyno(line.split(' ')).ok().json();
    let names: Vec<&str> = document["files"]
        .as_array()
        .unwrap()
        .iter()
        .map(|f| f["name"].as_str().unwrap())
        .collect();
    assert!(
        names.contains(&"contention.svg") && names.contains(&"conditions.png"),
        "{names:?}"
    );
    let page = fs::read_to_string(sandbox.work().join("load.html")).unwrap();
    let text = at_a_glance(&page);
    assert!(text.contains("Worst condition"), "{text}");
    for words in [
        "Under load",
        "Slowdown by condition",
        "Which load slows it most",
        "p50 × idle",
    ] {
        assert!(page.contains(words), "no {words:?}");
    }

    // What was asked is answered in the same words wherever the run is read.
    let shown = sandbox.edgedyno(["stress", "--show", "load", "--force"]);
    let asked = about_limit(&shown.ok().stdout);
    let limit = "asked: p99 ≤ 900 ms with its whole 95 % interval: ";
    assert!(asked.starts_with(limit), "{asked}");
    assert!(page.contains(&format!("<li>{asked}.</li>")), "no {asked:?}");
    assert!(text.contains("Limit asked for"), "{text}");
    for line in ["summary load --force", "runs show load"] {
        let output = sandbox.edgedyno(line.split(' ')).ok().stdout;
        assert_eq!(about_limit(&output), asked, "{line}");
    }
    let line = "stress --show load --force --json";
    let document = sandbox.edgedyno(line.split(' ')).ok().json();
    assert_matches_schema(&document, "contention");
    let slo = &document["experiments"][0]["slo"];
    assert_eq!(slo["limit_ms"], 900.0);
    assert_eq!(slo["conditions"][0]["condition"], "idle");
    assert_eq!(slo["conditions"].as_array().unwrap().len(), 4);

    // Another limit may be asked for later, and one that nothing keeps is said to be kept by none.
    let line = "stress --show load --force --slo p50=1us";
    let other = sandbox.edgedyno(line.split(' ')).ok().stdout;
    let other = about_limit(&other);
    assert!(other.starts_with("asked: p50 ≤ 0.001 ms"), "{other}");
    assert!(other.contains("shown to be kept by none"), "{other}");
}

/// The lines about a limit, as one.
fn about_limit(output: &str) -> String {
    let mut lines = output.lines();
    let first = lines.find(|line| line.starts_with("asked: "));
    let more = lines.take_while(|line| line.starts_with("  "));
    let all = first.into_iter().chain(more.map(str::trim_start));
    all.collect::<Vec<_>>().join(" ")
}

#[test]
fn figures_are_files_of_both_kinds() {
    let sandbox = Sandbox::new();
    sweep(&sandbox, "first");
    let document = sandbox
        .edgedyno(["report", "first", "--figures", "figures", "--json"])
        .ok()
        .json();
    assert_matches_schema(&document, "report");
    let names: Vec<&str> = document["files"]
        .as_array()
        .unwrap()
        .iter()
        .map(|file| file["name"].as_str().unwrap())
        .collect();
    for name in [
        "sweep-option-latency-us",
        "heat-option-latency-us-threads",
        "phases",
        "steps",
        "cold",
        "memory",
        "case0-latency-option-latency-us-300-threads-1",
    ] {
        for ending in ["svg", "png"] {
            let file = format!("{name}.{ending}");
            assert!(names.contains(&file.as_str()), "no {file} in {names:?}");
            let bytes = fs::read(sandbox.work().join("figures").join(&file)).unwrap();
            match ending {
                "svg" => assert!(bytes.starts_with(b"<svg xmlns")),
                _ => assert!(bytes.starts_with(b"\x89PNG") && bytes.len() > 2000),
            }
        }
    }
    assert!(!sandbox.work().join("report.html").exists());
}

#[test]
fn every_command_of_the_page_on_reports_runs() {
    let page = fs::read_to_string(workspace::root().join("docs/report.md")).unwrap();
    let sandbox = Sandbox::new();
    let make = "model make conv --image 32 --channels 4 --depth 2 --out net.onnx";
    sandbox.edgedyno(make.split(' ')).ok();
    let mut inside = false;
    let mut ran = 0;
    for line in page.lines() {
        match line {
            "```sh" => inside = true,
            "```" => inside = false,
            line if inside => {
                let words = line.strip_prefix("edgedyno ").unwrap().split(' ');
                let output = sandbox.edgedyno(words);
                assert!([0, 6].contains(&output.code), "{line}: {}", output.stderr);
                ran += 1;
            }
            _ => {}
        }
    }
    assert_eq!(ran, 4);
    assert!(sandbox.work().join("compared.html").exists());
}
