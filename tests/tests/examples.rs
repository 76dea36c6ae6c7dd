//! The recorded examples: two small experiments, really measured once, that pages and a sample report are made of.

use std::fs;
use std::path::PathBuf;

use edgedyno_tests::{Sandbox, workspace};
use serde_json::Value;

/// Most bytes of one bundle.
const LARGEST: u64 = 300 * 1024;

fn folder() -> PathBuf {
    workspace::root().join("examples")
}

/// Measures both experiments anew, on this machine, and writes `examples/` with what was printed meanwhile.
#[test]
#[ignore = "measures for some minutes and writes examples/ anew"]
fn record_the_examples() {
    let sandbox = Sandbox::new();
    fs::create_dir_all(folder()).unwrap();
    let make = [
        "model",
        "make",
        "conv",
        "--channels",
        "8",
        "--depth",
        "3",
        "--image",
        "64",
        "--out",
        "net.onnx",
    ];
    sandbox.edgedyno(make).ok();
    let record = |file: &str, line: &str| {
        let output = sandbox.edgedyno(line.split_whitespace());
        assert!([0, 6].contains(&output.code), "{line}: {}", output.stderr);
        let text = sandbox.redact(&output.stdout);
        fs::write(
            folder().join(file),
            format!("$ edgedyno {line}\n{}\n", text.trim_end()),
        )
        .unwrap();
    };
    record(
        "run.txt",
        "run net.onnx --backend rten --threads 1 --warmup 20 --duration 0.3s --repeat 2",
    );
    record(
        "sweep.txt",
        "sweep net.onnx --backend rten --axis threads=1,2 --axis io=resident,transfer --warmup 20 --duration 0.2s --repeat 3 --tag sweep",
    );
    record(
        "stress.txt",
        "stress net.onnx --backend rten --stressor mem_copy --levels 25,50,100 --working-set 16MiB --warmup 20 --duration 0.3s --settle 200ms --repeat 3 --tag contention",
    );
    for run in ["sweep", "contention"] {
        let bundle = folder().join(format!("{run}.tar.gz"));
        let line = [
            "export",
            run,
            "--no-report",
            "--bundle",
            bundle.to_str().unwrap(),
        ];
        sandbox.edgedyno(line).ok();
    }
}

fn taken_in() -> Sandbox {
    let sandbox = Sandbox::new();
    for run in ["sweep", "contention"] {
        let bundle = folder().join(format!("{run}.tar.gz"));
        sandbox.edgedyno(["import", bundle.to_str().unwrap()]).ok();
    }
    sandbox
}

#[test]
fn the_bundles_are_small_and_hold_what_was_measured() {
    for run in ["sweep", "contention"] {
        let bytes = fs::metadata(folder().join(format!("{run}.tar.gz")))
            .unwrap()
            .len();
        assert!(bytes < LARGEST, "{run}: {bytes} bytes");
    }
    let sandbox = taken_in();
    let sweep = sandbox.edgedyno(["get", "sweep", "--json"]).ok().json();
    let cases = sweep["cases"].as_array().unwrap();
    assert_eq!(cases.len(), 4);
    for case in cases {
        assert!(case.to_string().contains("\"simulated\":false"), "{case:#}");
    }
    let contention = sandbox
        .edgedyno(["stress", "--show", "contention", "--json"])
        .json();
    let points: Vec<&Value> = contention["experiments"][0]["points"]
        .as_array()
        .unwrap()
        .iter()
        .collect();
    assert!(points.len() >= 4, "{points:#?}");
}

/// The report and the drawings of the sweep, made again from its bundle.
#[test]
fn the_sample_report_and_its_drawings_are_made_of_the_bundle() {
    let sandbox = taken_in();
    let line = [
        "report",
        "sweep",
        "--output",
        "report.html",
        "--figures",
        "figures",
    ];
    sandbox.edgedyno(line).ok();
    let mut made = vec![(
        "report.html".to_owned(),
        fs::read_to_string(sandbox.work().join("report.html")).unwrap(),
    )];
    for entry in fs::read_dir(sandbox.work().join("figures")).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap().to_owned();
        // Those of the whole run; a case's are in the report.
        if name.ends_with(".svg") && !name.starts_with("case") {
            made.push((
                format!("figures/{name}"),
                fs::read_to_string(&path).unwrap(),
            ));
        }
    }
    assert!(made.len() > 3, "{} files", made.len());
    let rewrite = std::env::var_os("EDGEDYNO_REWRITE").is_some();
    let mut wrong = Vec::new();
    for (name, text) in &made {
        let path = folder().join(name);
        if rewrite {
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(&path, text).unwrap();
        } else if fs::read_to_string(&path).unwrap_or_default() != *text {
            wrong.push(name.clone());
        }
    }
    assert!(
        wrong.is_empty(),
        "run with EDGEDYNO_REWRITE=1 and look at the change: {wrong:?}"
    );
}
