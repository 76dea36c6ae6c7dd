//! What the documentation shows of the recorded runs in `examples/` is what the program makes of them: the
//! output of commands, figures, and the sample report. `EDGEDYNO_REWRITE=1` writes all of it anew.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use edgedyno_tests::example::{RUNS, empty, imported, said};
use edgedyno_tests::{Sandbox, book, console, golden, workspace};
use serde_json::Value;

const SAMPLE: &str = "docs/sample-report.html";
const FIGURES: &str = "docs/figures";
/// What is held against each other in the report and the figures of the sweep.
const BETWEEN: &str = "backend=onnxruntime,rten";

/// Pages of the book and of the examples, by their paths in the sources.
fn pages() -> Vec<(String, String)> {
    let root = workspace::root();
    let (mut files, mut open) = (Vec::new(), vec![root.join("docs"), root.join("examples")]);
    while let Some(folder) = open.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            match path.is_dir() {
                true => open.push(path),
                false if path.extension().is_some_and(|ending| ending == "md") => files.push(path),
                false => {}
            }
        }
    }
    files.sort();
    let page = |path: PathBuf| {
        let text = fs::read_to_string(&path).unwrap();
        let name = path.strip_prefix(root).unwrap();
        (name.to_str().unwrap().to_owned(), text)
    };
    files.into_iter().map(page).collect()
}

#[test]
fn every_output_in_the_book_is_what_the_program_prints() {
    let mut shown = 0;
    for (name, text) in pages() {
        let commands = console::commands(&text);
        if commands.is_empty() {
            continue;
        }
        shown += commands.len();
        // A page that takes the runs in itself begins without them.
        let sandbox = match commands[0].starts_with("edgedyno import") {
            true => empty(),
            false => imported(),
        };
        let made = console::shown(&text, |command| said(&sandbox, command));
        golden::check(&name, &made);
    }
    assert!(shown >= 30, "only {shown} commands");
}

/// Every command that reads what is stored shows on its page what that looks like.
#[test]
fn every_command_that_reads_a_run_has_an_example() {
    for name in [
        "compare",
        "explain",
        "export",
        "get",
        "import",
        "query",
        "records",
        "report",
        "runs-list",
        "runs-show",
        "samples",
        "summary",
        "trace",
        "windows",
    ] {
        let page = format!("docs/commands/{name}.md");
        let text = fs::read_to_string(workspace::root().join(&page)).unwrap();
        let words = format!("edgedyno {}", name.replace('-', " "));
        let commands = console::commands(&text);
        assert!(
            commands.iter().any(|command| command.starts_with(&words)),
            "{page} does not show `{words}`"
        );
    }
}

/// Figures that pages show, as paths below the folder of figures: `RUN/NAME.svg`.
fn figures_shown() -> BTreeSet<PathBuf> {
    let mut shown = BTreeSet::new();
    for (name, text) in pages() {
        for link in book::links(&text) {
            let target = book::target(Path::new(&name), &link.path);
            let figure = target.and_then(|to| to.strip_prefix(FIGURES).ok().map(Path::to_owned));
            shown.extend(figure);
        }
    }
    shown
}

/// Makes the figures of a recorded run.
fn draw(sandbox: &Sandbox, run: &str) {
    let mut line = vec!["report", run, "--figures", run];
    if run == RUNS[0] {
        line.extend(["--between", BETWEEN]);
    }
    sandbox.edgedyno(line).ok();
}

#[test]
fn every_figure_in_the_book_is_what_the_program_draws() {
    let sandbox = imported();
    for run in RUNS {
        draw(&sandbox, run);
    }
    let shown = figures_shown();
    assert!(shown.len() >= 4, "{shown:?}");
    for figure in &shown {
        let made = fs::read_to_string(sandbox.work().join(figure))
            .unwrap_or_else(|why| panic!("{}: {why}", figure.display()));
        golden::check(&format!("{FIGURES}/{}", figure.display()), &made);
    }
    for run in RUNS {
        let folder = workspace::root().join(FIGURES).join(run);
        for entry in fs::read_dir(folder).into_iter().flatten() {
            let figure = Path::new(run).join(entry.unwrap().file_name());
            assert!(
                shown.contains(&figure),
                "no page shows {}",
                figure.display()
            );
        }
    }
}

#[test]
fn the_sample_report_is_what_the_program_makes() {
    let sandbox = imported();
    let line = [
        "report",
        RUNS[0],
        "--between",
        BETWEEN,
        "--output",
        "sample.html",
    ];
    sandbox.edgedyno(line).ok();
    let page = fs::read_to_string(sandbox.work().join("sample.html")).unwrap();
    assert!(page.len() < 1_000_000, "{} bytes", page.len());
    golden::check(SAMPLE, &page);
}

/// The examples are small, real, and say nothing of people and machines.
#[test]
fn the_recorded_runs_are_measurements_without_private_facts() {
    let sandbox = empty();
    let mut bytes = 0;
    for run in RUNS {
        let bundle = format!("examples/{run}.tar.gz");
        bytes += workspace::root().join(&bundle).metadata().unwrap().len();
        sandbox.edgedyno(["import", &bundle]).ok();
        let unpacked = sandbox.start("tar", ["-xzOf", &bundle, "manifest.json"]);
        let manifest = unpacked.wait().ok().json();
        assert_eq!(manifest["private"], Value::Bool(false), "{run}");
        let shown = sandbox
            .edgedyno(["runs", "show", run, "--json"])
            .ok()
            .json();
        assert_eq!(shown["run"]["status"], "complete", "{run}");
        let cases = sandbox.edgedyno(["summary", run, "--json"]).json();
        for case in cases["cases"].as_array().unwrap() {
            let backend = case["case"]["backend"].as_str().unwrap();
            assert!(
                ["onnxruntime", "rten"].contains(&backend),
                "{run}: {backend}"
            );
        }
    }
    assert!(bytes < 500_000, "{bytes} bytes");
}

/// The plan file beside the sweep is the plan that was measured.
#[test]
fn the_plan_file_is_that_of_the_recorded_sweep() {
    let root = workspace::root();
    let plan = fs::read_to_string(root.join("examples/runtimes.toml")).unwrap();
    let plan: Value = toml::from_str(&plan).unwrap();
    let sandbox = imported();
    let cases = sandbox.edgedyno(["summary", RUNS[0], "--json"]).json();
    let cases = cases["cases"].as_array().unwrap().clone();
    let of = |axis: &str| plan["axes"][axis].as_array().unwrap().clone();
    assert_eq!(cases.len(), of("backend").len() * of("threads").len());
    for case in &cases {
        assert!(of("backend").contains(&case["case"]["backend"]), "{case}");
        assert_eq!(case["case"]["model"]["name"], plan["axes"]["model"]);
        let complete = case["repeats"].as_array().unwrap().len() as u64;
        assert_eq!(Some(complete), plan["repeats"].as_u64());
    }
}

/// A new reader's first commands do what the introduction says.
#[test]
fn every_command_of_the_introduction_runs() {
    let page = fs::read_to_string(workspace::root().join("docs/introduction.md")).unwrap();
    let sandbox = Sandbox::new();
    let mut inside = false;
    let mut ran = 0;
    for line in page.lines() {
        match line.strip_prefix("edgedyno ") {
            Some(words) if inside => {
                let output = sandbox.edgedyno(words.split(' '));
                // Findings of a busy machine are no fault of the page.
                assert!([0, 6].contains(&output.code), "{line}: {}", output.stderr);
                ran += 1;
            }
            _ => inside = line == "```sh" || (inside && line != "```"),
        }
    }
    assert_eq!(ran, 6);
    assert!(sandbox.work().join("report.html").exists());
}
