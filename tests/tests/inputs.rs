//! Inputs from files: whatever the container, the same values give the same hash and the same outputs.

use std::fs;
use std::path::Path;

use edgedyno_tests::Sandbox;
use edgedyno_tests::commands::{finding_codes, make, number, run, text};
use serde_json::Value;

const SHAPE: [usize; 4] = [1, 3, 32, 32];

fn values(step: usize) -> Vec<u8> {
    let count = SHAPE.iter().product();
    let value = |i: usize| ((i * step) % 97) as f32 / 97.0 - 0.5;
    (0..count)
        .flat_map(|i: usize| value(i).to_le_bytes())
        .collect()
}

/// Version 1.0 of the format as NumPy documents it: header and data, the data at a multiple of 64 bytes.
fn npy(data: &[u8]) -> Vec<u8> {
    let mut header =
        String::from("{'descr': '<f4', 'fortran_order': False, 'shape': (1, 3, 32, 32), }");
    while (10 + header.len() + 1) % 64 != 0 {
        header.push(' ');
    }
    header.push('\n');
    let length = (header.len() as u16).to_le_bytes();
    [b"\x93NUMPY\x01\x00", &length[..], header.as_bytes(), data].concat()
}

/// An archive of one member, named after the input, made by Python's own zipfile.
fn npz(sandbox: &Sandbox, npy: &[u8]) {
    sandbox.write("input.npy", npy);
    let args = ["-m", "zipfile", "-c", "values.npz", "input.npy"];
    sandbox.start("python3", args).wait().ok();
}

fn case(sandbox: &Sandbox, model: &Path, args: &[&str]) -> Value {
    let rules = ["--repeat", "1", "--trials", "11", "--warmup", "2", "--json"];
    let args = [&rules[..], args].concat();
    run(sandbox, model, "rten", &args).ok().json()["cases"][0].clone()
}

#[test]
fn one_tensor_is_the_same_in_every_container() {
    let sandbox = Sandbox::new();
    let model = make(&sandbox, "small.onnx", &[]);
    let data = values(1);
    sandbox.write("values.npy", npy(&data));
    sandbox.write("values.raw", &data);
    npz(&sandbox, &npy(&data));
    let seen: Vec<(String, String)> = ["values.npy", "values.npz", "input=values.raw"]
        .map(|input| {
            let case = case(&sandbox, &model, &["--input", input]);
            let inputs = text(&case["fields"]["inputs_sha256"]);
            (inputs, text(&case["outputs"][0]["sha256"]))
        })
        .into();
    assert!(seen.iter().all(|pair| *pair == seen[0]), "{seen:?}");

    sandbox.write("other.raw", values(5));
    let other = case(&sandbox, &model, &["--input", "other.raw"]);
    assert_ne!(text(&other["fields"]["inputs_sha256"]), seen[0].0);
    assert_ne!(text(&other["outputs"][0]["sha256"]), seen[0].1);
}

#[test]
fn a_folder_is_cycled_through() {
    let sandbox = Sandbox::new();
    let model = make(&sandbox, "small.onnx", &[]);
    fs::create_dir(sandbox.work().join("sets")).unwrap();
    for step in [1, 5, 7] {
        let name = format!("sets/{step}.npy");
        sandbox.write(&name, npy(&values(step)));
    }
    let case = case(&sandbox, &model, &["--input", "input=sets/"]);
    assert_eq!(text(&case["fields"]["input_policy"]), "cycle");
    assert_eq!(number(&case["fields"]["input_sets_count"]), 3.0);
}

#[test]
fn a_page_cache_that_cannot_be_emptied_is_a_finding() {
    let sandbox = Sandbox::new();
    let model = make(&sandbox, "small.onnx", &[]);
    let setting = |case: &Value, side: &str| {
        let settings = case["settings"].as_array().unwrap();
        let found = settings
            .iter()
            .find(|s| s["name"] == "cached_bytes_before_load");
        text(&found.expect("it is read back")[side])
    };
    // A tmpfs is nothing but page cache.
    let held = sandbox.runtime().join("held.onnx");
    fs::copy(&model, &held).unwrap();
    let held = case(&sandbox, &held, &["--cold", "page-cache"]);
    assert_eq!(setting(&held, "requested"), "0");
    let bytes: u64 = setting(&held, "observed").parse().unwrap();
    assert!(
        bytes >= fs::metadata(&model).unwrap().len(),
        "{bytes} bytes"
    );
    assert!(
        finding_codes(&held).contains(&"effective_differs".to_owned()),
        "{:?}",
        finding_codes(&held)
    );
}
