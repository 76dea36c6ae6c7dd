//! `model`, `runtime`, `demo` and the offer of `run`, end to end.

use std::fs;
use std::io::Write as _;
use std::path::Path;
use std::time::Duration;

use anyhow::Result;
use edgedyno_tests::schema::assert_matches_schema;
use edgedyno_tests::skip::{has, skip};
use edgedyno_tests::{Need, Output, Sandbox, runtime};
use serde_json::Value;

/// A short measurement: the numbers are not looked at.
const SHORT: [&str; 6] = ["--duration", "100ms", "--warmup", "3", "--repeat", "1"];

/// The error of a command as JSON, after its exit code was held against the expected one.
#[track_caller]
fn error(output: Output, code: i32) -> (String, Option<String>) {
    let value = output.expect_code(code).json();
    let error = &value["error"];
    assert_eq!(error["exit"], code);
    let what = error["what"].as_str().expect("an error says what");
    let causes = error["causes"].as_array().expect("causes are a list");
    let causes: Vec<&str> = causes.iter().filter_map(Value::as_str).collect();
    let hint = error["hint"].as_str().map(str::to_owned);
    (format!("{what} / {}", causes.join(" / ")), hint)
}

fn make(sandbox: &Sandbox, words: &[&str]) -> Value {
    let output = sandbox.edgedyno([&["model", "make", "--json"], words].concat());
    output.ok().json()
}

// --- model

#[test]
fn every_kind_is_made_as_its_figures_say() {
    let sandbox = Sandbox::new();
    let kinds = make(&sandbox, &[]);
    assert_matches_schema(&kinds, "model");
    let kinds = kinds["kinds"].as_array().unwrap();
    assert_eq!(kinds.len(), 4);
    for kind in kinds {
        let kind = kind["kind"].as_str().unwrap();
        let made = make(&sandbox, &[kind]);
        assert_matches_schema(&made, "model");
        let path = sandbox.work().join(format!("{kind}.onnx"));
        assert_eq!(made["bytes"], fs::metadata(path).unwrap().len());

        let file = format!("{kind}.onnx");
        let info = sandbox
            .edgedyno(["model", "info", &file, "--json"])
            .ok()
            .json();
        assert_matches_schema(&info, "model");
        assert_eq!(info["parameters"], made["parameters"], "{kind}");
        assert_eq!(info["inputs"][0]["dims"], made["input_dims"], "{kind}");
        assert_eq!(info["producer"]["name"], "edgedyno");
    }
}

#[test]
fn sizes_are_those_asked_for() {
    let sandbox = Sandbox::new();
    let words = [
        "matmul", "--width", "24", "--depth", "3", "--batch", "2", "--out", "m.onnx",
    ];
    let made = make(&sandbox, &words);
    // Each layer: a square matrix and a bias; one multiply-accumulate for each weight and row.
    assert_eq!(made["parameters"], 3 * (24 * 24 + 24));
    assert_eq!(made["macs"], 2 * 3 * 24 * 24);
    assert_eq!(made["input_dims"], serde_json::json!([2, 24]));
    let same = make(&sandbox, &[&words[..], &["--force"]].concat());
    assert_eq!(same, made);
    let hash = |name: &str| {
        let info = sandbox
            .edgedyno(["model", "info", name, "--json"])
            .ok()
            .json();
        info["sha256"].clone()
    };
    let first = hash("m.onnx");
    make(
        &sandbox,
        &[&words[..], &["--force", "--seed", "2"]].concat(),
    );
    assert_ne!(hash("m.onnx"), first);
}

#[test]
fn named_dimensions_and_weight_files_are_told() {
    let sandbox = Sandbox::new();
    let words = ["conv", "--channels", "8", "--depth", "2", "--image", "16"];
    make(
        &sandbox,
        &[&words[..], &["--dynamic", "--external"]].concat(),
    );
    let text = sandbox.edgedyno(["model", "info", "conv.onnx"]).ok().stdout;
    assert!(text.contains("Nx3xHxW"), "{text}");
    assert!(text.contains("conv.onnx.data"), "{text}");
    assert!(
        text.contains("edgedyno run conv.onnx --shape input=Nx3xHxW"),
        "{text}"
    );
    fs::remove_file(sandbox.work().join("conv.onnx.data")).unwrap();
    let info = sandbox
        .edgedyno(["model", "info", "conv.onnx", "--json"])
        .ok()
        .json();
    assert_matches_schema(&info, "model");
    assert_eq!(info["sha256"], Value::Null);
    assert_eq!(info["weight_files"][0]["bytes"], Value::Null);
}

#[test]
fn a_file_that_is_there_is_replaced_only_when_forced() {
    let sandbox = Sandbox::new();
    let path = sandbox.write("kept.onnx", "mine");
    let words = [
        "model",
        "make",
        "matmul",
        "--width",
        "8",
        "--out",
        "kept.onnx",
        "--json",
    ];
    let (what, hint) = error(sandbox.edgedyno(words), 2);
    assert!(what.contains("kept.onnx"), "{what}");
    assert!(hint.unwrap().contains("--force"));
    assert_eq!(fs::read(&path).unwrap(), b"mine");
    sandbox.edgedyno([&words[..], &["--force"]].concat()).ok();
    assert_ne!(fs::read(&path).unwrap(), b"mine");
}

#[test]
fn what_cannot_be_made_or_read_says_why() {
    let sandbox = Sandbox::new();
    sandbox.write("text.onnx", "just words\n");
    make(&sandbox, &["conv", "--image", "8"]);
    let whole = fs::read(sandbox.work().join("conv.onnx")).unwrap();
    sandbox.write("cut.onnx", &whole[..whole.len() / 2]);
    for (words, what, hint) in [
        (&["info", "gone.onnx"][..], "does not exist", "model make"),
        (&["info", "text.onnx"], "looks like text", ".onnx"),
        (&["info", "cut.onnx"], "cut short", "again"),
        (&["info", "."], "not a plain file", "model file"),
        (&["make", "convv"], "no network", "did you mean conv?"),
        (
            &["make", "conv", "--width", "9", "--force"],
            "no width",
            "leave it out",
        ),
        (
            &["make", "conv", "--depth", "0", "--force"],
            "out of range",
            "range",
        ),
        (
            &["make", "conv", "--out", "no/such.onnx"],
            "cannot write into folder",
            "create",
        ),
    ] {
        let words = [&["model", "--json"], words].concat();
        let (said, hinted) = error(sandbox.edgedyno(&words), 2);
        assert!(said.contains(what), "{words:?}: {said}");
        assert!(
            hinted.as_ref().is_some_and(|h| h.contains(hint)),
            "{words:?}: {hinted:?}"
        );
    }
}

#[test]
fn a_real_model_is_described() {
    let Some(model) = runtime::light_model("squeezenet") else {
        return;
    };
    let sandbox = Sandbox::new();
    let info = sandbox.edgedyno([
        "model".as_ref(),
        "info".as_ref(),
        model.as_os_str(),
        "--json".as_ref(),
    ]);
    let info = info.ok().json();
    assert_matches_schema(&info, "model");
    // Counted with the onnx package.
    assert_eq!(info["ops"]["Conv"], 26);
    assert_eq!(info["inputs"].as_array().unwrap().len(), 1);
    assert_eq!(
        info["inputs"][0]["dims"],
        serde_json::json!([1, 3, 224, 224])
    );
}

// --- runtime

/// A sandbox in which no package of this machine's Python is found.
fn sandbox_without_runtime() -> Sandbox {
    let mut sandbox = Sandbox::new();
    sandbox
        .env_remove("ORT_DYLIB_PATH")
        .env_remove("LD_LIBRARY_PATH");
    sandbox
}

fn list(sandbox: &Sandbox) -> Value {
    let listing = sandbox.edgedyno(["runtime", "list", "--json"]).ok().json();
    assert_matches_schema(&listing, "runtime");
    listing
}

fn libraries<'a>(listing: &'a Value, backend: &str) -> &'a [Value] {
    let backends = listing["backends"].as_array().expect("a list of backends");
    let backend = backends.iter().find(|b| b["name"] == backend);
    let backend = backend.expect("the agent has this backend");
    backend["libraries"]
        .as_array()
        .expect("a list of libraries")
}

fn install(sandbox: &Sandbox, words: &[&str]) -> Output {
    sandbox.edgedyno([&["runtime", "install", "--json"], words].concat())
}

fn text_of(path: &Path) -> &str {
    path.to_str().expect("the path is text")
}

#[test]
fn what_is_built_in_is_listed_with_its_version() {
    let sandbox = sandbox_without_runtime();
    let listing = list(&sandbox);
    let backends = listing["backends"].as_array().unwrap();
    let rten = backends.iter().find(|b| b["name"] == "rten").unwrap();
    assert_eq!(rten["built_in"], true);
    assert!(
        rten["version"].as_str().unwrap().starts_with("0."),
        "{rten}"
    );
    let fake = backends.iter().find(|b| b["name"] == "fake").unwrap();
    assert_eq!(fake["simulated"], true);
    let text = sandbox.edgedyno(["runtime", "list"]).ok().stdout;
    assert!(text.contains("built in"), "{text}");
    assert!(
        text.lines()
            .all(|line| line.chars().count() <= 100 || line.contains('/')),
        "{text}"
    );
}

#[test]
fn an_installed_library_is_known_listed_and_used() {
    let Some(library) = runtime::onnxruntime() else {
        return;
    };
    let sandbox = sandbox_without_runtime();
    let words = ["onnxruntime", "--from", text_of(&library)];
    let installed = install(&sandbox, &words).ok().json();
    assert_matches_schema(&installed, "runtime");
    assert_eq!(installed["version"], runtime::ONNXRUNTIME);
    assert_eq!(installed["known"], true);
    assert_eq!(installed["here"]["state"], "usable");
    let path = installed["path"].as_str().unwrap();
    assert_eq!(fs::read(path).unwrap(), fs::read(&library).unwrap());

    let listing = list(&sandbox);
    let first = &libraries(&listing, "onnxruntime")[0];
    assert_eq!(first["path"], path);
    assert_eq!(first["origin"], "installed by edgedyno");
    assert_eq!(first["sha256"], installed["sha256"]);
    assert_eq!(listing["default"]["backend"], "onnxruntime");
    assert_eq!(listing["default"]["library"], path);

    let again = install(&sandbox, &["onnxruntime", "--offline"]).ok().json();
    assert_eq!(again["newly_installed"], false);
    let text = sandbox
        .edgedyno(["runtime", "install", "onnxruntime", "--offline"])
        .ok()
        .stdout;
    for part in [
        runtime::ONNXRUNTIME,
        path,
        "known: the published file",
        "MiB",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }

    make(&sandbox, &["conv", "--image", "16", "--depth", "2"]);
    let run = sandbox
        .edgedyno([&["run", "conv.onnx", "--json"], &SHORT[..]].concat())
        .ok();
    assert_eq!(
        run.json()["cases"][0]["runtime"]["version"],
        runtime::ONNXRUNTIME
    );
}

#[test]
fn an_installation_that_was_damaged_is_shown_and_not_used() {
    let Some(library) = runtime::onnxruntime() else {
        return;
    };
    let sandbox = sandbox_without_runtime();
    let words = ["onnxruntime", "--from", text_of(&library)];
    let installed = install(&sandbox, &words).ok().json();
    let path = installed["path"].as_str().unwrap();
    fs::write(path, b"short").unwrap();
    let listing = list(&sandbox);
    assert!(
        listing["broken"][0]["reason"]
            .as_str()
            .unwrap()
            .contains("5 bytes"),
        "{listing:#}"
    );
    let own = libraries(&listing, "onnxruntime")
        .iter()
        .find(|l| l["path"] == path)
        .unwrap();
    assert_eq!(own["state"], "refused");
}

#[test]
fn what_cannot_be_installed_says_why_and_leaves_nothing() {
    let Some(library) = runtime::onnxruntime() else {
        return;
    };
    let sandbox = sandbox_without_runtime();
    let text = sandbox.write("libonnxruntime.so.1.2.3", "INPUT(libm.so.6)\n");
    let mut other = fs::read(&library).unwrap();
    // e_machine of the ELF header: aarch64.
    other[18] = 183;
    let other = sandbox.write("other/libonnxruntime.so.1.2.3", other);
    for (words, what, hint) in [
        (&["tensorrt"][..], "no runtime", "runtime list"),
        (&["onnxruntime>=1.2"], "no runtime", "runtime list"),
        (&["onnxruntime", "--offline"], "--offline", "--from FILE"),
        (
            &["onnxruntime", "--from", "gone.whl"],
            "does not exist",
            "path",
        ),
        (
            &["onnxruntime", "--from", text_of(&text)],
            "no ELF header",
            "libonnxruntime.so",
        ),
        (
            &["onnxruntime", "--from", text_of(&other)],
            "is needed",
            "that processor",
        ),
        (
            &["onnxruntime==1.2.3", "--from", text_of(&library)],
            "not 1.2.3",
            "==VERSION",
        ),
    ] {
        let (said, hinted) = error(install(&sandbox, words), 2);
        assert!(said.contains(what), "{words:?}: {said}");
        assert!(
            hinted.as_ref().is_some_and(|h| h.contains(hint)),
            "{words:?}: {hinted:?}"
        );
    }
    let own = list(&sandbox)["backends"].to_string();
    assert!(!own.contains("installed by edgedyno"), "{own}");
}

#[test]
fn a_library_that_is_refused_is_listed_with_reason_and_hint() {
    let mut sandbox = sandbox_without_runtime();
    let text = sandbox.write("libonnxruntime.so", "INPUT(libm.so.6)\n");
    sandbox.env("ORT_DYLIB_PATH", &text);
    let listing = list(&sandbox);
    let found = &libraries(&listing, "onnxruntime");
    let refused = found
        .iter()
        .find(|l| l["origin"] == "$ORT_DYLIB_PATH")
        .unwrap();
    assert_eq!(refused["state"], "refused");
    assert!(!refused["reason"].as_str().unwrap().is_empty());
    let shown = sandbox.edgedyno(["runtime", "list"]).ok().stdout;
    assert!(
        shown.contains("onnxruntime refused: ") && shown.contains("cause: "),
        "{shown}"
    );
}

#[test]
fn an_unknown_board_is_an_error() {
    let sandbox = Sandbox::new();
    let (what, hint) = error(
        sandbox.edgedyno(["runtime", "list", "--board", "s100", "--json"]),
        2,
    );
    assert!(what.contains("s100"), "{what}");
    assert!(hint.unwrap().contains("local"));
}

#[test]
fn pip_fetches_the_version_asked_for() {
    // Tells whether the package can be had at all.
    if runtime::onnxruntime_older().is_none() {
        return;
    }
    let mut sandbox = sandbox_without_runtime();
    let settings =
        |name: &str| name.starts_with("PIP_") || name.contains("proxy") || name.contains("PROXY");
    for (name, value) in std::env::vars().filter(|(name, _)| settings(name)) {
        sandbox.env(name, value);
    }
    let spec = format!("onnxruntime=={}", runtime::ONNXRUNTIME_OLDER);
    let output = install(&sandbox, &[&spec]).ok();
    assert!(output.stderr.contains("with pip"), "{}", output.stderr);
    let installed = output.json();
    assert_matches_schema(&installed, "runtime");
    assert_eq!(installed["version"], runtime::ONNXRUNTIME_OLDER);
    assert_eq!(
        (&installed["known"], &installed["newly_installed"]),
        (&true.into(), &true.into())
    );
    let (what, hint) = error(install(&sandbox, &["onnxruntime==0.0.1"]), 2);
    assert!(what.contains("onnxruntime==0.0.1"), "{what}");
    assert!(hint.unwrap().contains("--from"));
}

/// A directory with a `python3` that does what `script` says, put before all others.
fn with_python(sandbox: &mut Sandbox, script: &str) {
    let path = sandbox.write("bin/python3", format!("#!/bin/sh\n{script}\n"));
    // By another process: a descriptor open for writing here would make the script busy.
    sandbox.start("chmod", ["755", text_of(&path)]).wait().ok();
    let rest = std::env::var_os("PATH").unwrap_or_default();
    let first = sandbox.work().join("bin");
    let all = std::iter::once(first).chain(std::env::split_paths(&rest));
    let all = std::env::join_paths(all).expect("no folder has a colon in its name");
    sandbox.env("PATH", all);
}

/// A pip that has one package: the library, under the name of a wheel.
fn with_offline_pip(sandbox: &mut Sandbox, library: &Path) -> Result<()> {
    let wheel = sandbox.work().join("o.whl");
    let mut zip = zip::ZipWriter::new(fs::File::create(&wheel)?);
    let stored =
        zip::write::SimpleFileOptions::default().compression_method(zip::CompressionMethod::Stored);
    let version = runtime::ONNXRUNTIME;
    zip.start_file(
        format!("onnxruntime/capi/libonnxruntime.so.{version}"),
        stored,
    )?;
    zip.write_all(&fs::read(library)?)?;
    zip.start_file("onnxruntime.dist-info/METADATA", stored)?;
    write!(zip, "Name: onnxruntime\nVersion: {version}\n\n")?;
    zip.finish()?;
    with_python(
        sandbox,
        &format!(
            "case \"$*\" in *--version*) exit 0;; esac\n\
             while [ \"$1\" != --dest ]; do shift; done\n\
             echo \"Downloading o.whl (34.8 MB)\"; cp {} \"$2\"",
            wheel.display()
        ),
    );
    Ok(())
}

#[test]
fn without_pip_the_package_to_install_is_the_hint() {
    let mut sandbox = sandbox_without_runtime();
    with_python(&mut sandbox, "echo \"$0: No module named pip\" >&2; exit 1");
    let (what, hint) = error(install(&sandbox, &["onnxruntime"]), 2);
    assert!(what.contains("pip"), "{what}");
    assert!(hint.unwrap().contains("apt install python3-pip"));
}

// --- the offer of run

/// Whether this machine has an ONNX Runtime outside of any sandbox, in `/usr/lib` or the like.
fn has_runtime_of_its_own(sandbox: &Sandbox) -> bool {
    let listing = list(sandbox);
    let found = libraries(&listing, "onnxruntime");
    let usable = found.iter().any(|library| library["state"] == "usable");
    if usable {
        let why = "this machine has an ONNX Runtime of its own, which every sandbox finds";
        skip(Need::Package, why);
    }
    usable
}

fn run(sandbox: &Sandbox, words: &[&str]) -> Output {
    sandbox.edgedyno([&["run", "conv.onnx", "--json"], &SHORT[..], words].concat())
}

fn backend_of(output: &Output) -> Value {
    output.json()["cases"][0]["case"]["backend"].clone()
}

#[test]
fn a_run_without_a_runtime_says_so_and_fetches_only_with_consent() {
    let Some(library) = runtime::onnxruntime() else {
        return;
    };
    let mut sandbox = sandbox_without_runtime();
    if has_runtime_of_its_own(&sandbox) {
        return;
    }
    with_offline_pip(&mut sandbox, &library).unwrap();
    make(&sandbox, &["conv", "--image", "16", "--depth", "2"]);
    for words in [&[][..], &["--offline", "--yes"], &["--offline"]] {
        let output = run(&sandbox, words).ok();
        assert_eq!(backend_of(&output), "rten", "{words:?}");
        let said = &output.stderr;
        assert!(said.contains("no ONNX Runtime found"), "{words:?}: {said}");
        assert!(
            said.contains("edgedyno runtime install onnxruntime"),
            "{words:?}: {said}"
        );
        assert!(!said.contains("with pip"), "{words:?}: {said}");
    }
    let chosen = run(&sandbox, &["--yes", "--backend", "rten"]).ok();
    assert!(!chosen.stderr.contains("ONNX Runtime"), "{}", chosen.stderr);
    let fetched = run(&sandbox, &["--yes"]).ok();
    assert_eq!(backend_of(&fetched), "onnxruntime");
    assert!(
        fetched.stderr.contains("o.whl (34.8 MB)"),
        "{}",
        fetched.stderr
    );
    let after = run(&sandbox, &[]).ok();
    assert_eq!(backend_of(&after), "onnxruntime");
}

#[test]
fn on_a_terminal_the_question_is_asked_once() {
    if !has(&[Need::Program("script")]) {
        return;
    }
    let Some(library) = runtime::onnxruntime() else {
        return;
    };
    let mut sandbox = sandbox_without_runtime();
    if has_runtime_of_its_own(&sandbox) {
        return;
    }
    with_offline_pip(&mut sandbox, &library).unwrap();
    make(&sandbox, &["conv", "--image", "16", "--depth", "2"]);
    let program = &edgedyno_tests::binaries().host;
    let command = format!("{} run conv.onnx {}", program.display(), SHORT.join(" "));
    let on_terminal = |answer: &str| {
        let line =
            format!("{{ sleep 2; echo {answer}; sleep 4; }} | script -qec '{command}' /dev/null");
        sandbox.start("sh", ["-c", &line]).wait().ok().stdout
    };
    let first = on_terminal("n");
    assert!(first.contains("Fetch onnxruntime (about"), "{first}");
    assert!(first.contains("rten"), "{first}");
    let second = on_terminal("y");
    assert!(!second.contains("Fetch onnxruntime"), "{second}");
}

// --- demo

#[test]
fn a_demo_measures_both_runtimes_side_by_side() {
    let Some(library) = runtime::onnxruntime() else {
        return;
    };
    let mut sandbox = sandbox_without_runtime();
    sandbox.limit(Duration::from_secs(300));
    install(&sandbox, &["onnxruntime", "--from", text_of(&library)]).ok();
    let output = sandbox.edgedyno(["demo", "--offline"]).ok();
    let text = &output.stdout;
    let version = runtime::ONNXRUNTIME;
    for part in [
        "conv",
        "matmul",
        "rten 0.",
        version,
        "cold first",
        "p99",
        "memory",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    for next in ["edgedyno summary last", "edgedyno get ", "docs/"] {
        assert!(text.contains(next), "{next}: {text}");
    }
    assert!(
        text.lines().all(|line| line.chars().count() <= 100),
        "{text}"
    );
    let summary = sandbox
        .edgedyno(["summary", "last", "--json", "--force"])
        .ok()
        .json();
    assert_eq!(summary["cases"].as_array().unwrap().len(), 8);
}

#[test]
fn a_demo_without_pip_says_what_it_left_out() {
    let mut sandbox = sandbox_without_runtime();
    if has_runtime_of_its_own(&sandbox) {
        return;
    }
    sandbox.limit(Duration::from_secs(300));
    with_python(&mut sandbox, "echo \"$0: No module named pip\" >&2; exit 1");
    let demo = sandbox.edgedyno(["demo", "--json"]).ok().json();
    assert_matches_schema(&demo, "demo");
    let hint = demo["left_out"][0]["hint"].as_str().unwrap();
    assert!(hint.contains("python3-pip"), "{hint}");
    let cases = demo["cases"].as_array().unwrap();
    assert!(cases.iter().all(|case| case["case"]["backend"] == "rten"));
    let threads = |case: &Value| case["case"]["threads"]["intra"].as_u64().unwrap();
    let mut all: Vec<u64> = cases.iter().map(threads).collect();
    all.sort_unstable();
    assert_eq!(all, [1, 1, 2, 2]);
}
