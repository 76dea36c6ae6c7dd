//! Commands that many tests give.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;
use sha2::{Digest as _, Sha256};

use crate::{Output, Sandbox};

/// The shortest rules that still measure: one process, two warm-up trials, a tenth of a second.
pub const QUICK: [&str; 6] = ["--repeat", "1", "--warmup", "2", "--duration", "0.1s"];

/// Makes a network so small that a run of it takes a fraction of a millisecond.
pub fn small_model(sandbox: &Sandbox) -> PathBuf {
    make(sandbox, "small.onnx", &[])
}

/// Makes the network of [`small_model`] with further options of `model make`.
pub fn make(sandbox: &Sandbox, name: &str, options: &[&str]) -> PathBuf {
    let sizes = ["--channels", "4", "--depth", "2", "--image", "32"];
    let args = ["model", "make", "conv", "--force", "--out", name];
    sandbox
        .edgedyno(args.iter().chain(&sizes).chain(options))
        .ok();
    sandbox.work().join(name)
}

/// `edgedyno run MODEL --backend BACKEND` with further arguments.
pub fn run(sandbox: &Sandbox, model: &Path, backend: &str, args: &[&str]) -> Output {
    sandbox.edgedyno(run_line(model, backend, args))
}

/// The arguments of [`run`].
pub fn run_line(model: &Path, backend: &str, args: &[&str]) -> Vec<String> {
    let model = model.to_str().expect("our paths are text");
    ["run", model, "--backend", backend]
        .iter()
        .chain(args)
        .map(|&arg| arg.to_owned())
        .collect()
}

/// `edgedyno run` of [`small_model`] with `fake` on CPU 1 beside a condition, after two trials of warm-up.
pub fn run_beside(sandbox: &Sandbox, condition: &str, more: &[&str]) -> Output {
    let line = ["run", "small.onnx", "--backend", "fake", "--cpus", "1"];
    let rest = ["--condition", condition, "--warmup", "2"];
    sandbox.edgedyno(line.iter().chain(&rest).chain(more))
}

/// `edgedyno sweep` of the same over conditions, in the words of that axis.
pub fn sweep_beside(sandbox: &Sandbox, conditions: &str, more: &[&str]) -> Output {
    let conditions = format!("condition={conditions}");
    let line = ["sweep", "small.onnx", "--axis", "backend=fake"];
    let rest = ["--axis", "cpus=1", "--axis", &conditions, "--warmup", "2"];
    sandbox.edgedyno(line.iter().chain(&rest).chain(more))
}

/// `edgedyno summary RUN --json`, whatever its exit code.
pub fn summary(sandbox: &Sandbox, run: &str) -> Value {
    sandbox.edgedyno(["summary", run, "--json"]).json()
}

/// The codes of a case's findings, sorted and each once.
pub fn finding_codes(case: &Value) -> Vec<String> {
    let findings = case["findings"].as_array().expect("a list of findings");
    let mut codes: Vec<String> = findings
        .iter()
        .map(|finding| text(&finding["code"]))
        .collect();
    codes.sort();
    codes.dedup();
    codes
}

/// A text in a document.
///
/// # Panics
/// When it is something else.
#[track_caller]
pub fn text(value: &Value) -> String {
    match value.as_str() {
        Some(text) => text.to_owned(),
        None => panic!("not a text: {value}"),
    }
}

/// A number in a document.
///
/// # Panics
/// When it is something else.
#[track_caller]
pub fn number(value: &Value) -> f64 {
    match value.as_f64() {
        Some(number) => number,
        None => panic!("not a number: {value}"),
    }
}

/// The sha256 of a file, in hexadecimal.
pub fn sha256(path: &Path) -> String {
    let bytes = fs::read(path).expect("the file can be read");
    Sha256::digest(bytes)
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect()
}
