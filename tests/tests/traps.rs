//! Traps that other tools fell into (field notes, section 6): requested is not observed.

use edgedyno_tests::commands::{QUICK, finding_codes, number, run, small_model, text};
use edgedyno_tests::skip::{Need, has};
use edgedyno_tests::{Sandbox, runtime};
use serde_json::Value;

fn measure(sandbox: &Sandbox, backend: &str, args: &[&str]) -> Value {
    let model = small_model(sandbox);
    let args = [&QUICK[..], args, &["--json"]].concat();
    run(sandbox, &model, backend, &args).ok().json()["cases"][0].clone()
}

/// A runtime that starts another number of threads than it was told is found by counting them.
#[test]
fn another_number_of_threads_is_a_finding() {
    let sandbox = Sandbox::new();
    let case = measure(
        &sandbox,
        "fake",
        &["--threads", "1", "--option", "threads=3"],
    );
    assert_eq!(number(&case["fields"]["threads_requested_count"]), 1.0);
    assert_eq!(number(&case["fields"]["threads_observed_count"]), 3.0);
    let codes = finding_codes(&case);
    assert!(codes.contains(&"effective_differs".to_owned()), "{codes:?}");
}

/// Two threads asked for, one CPU to run them on: all of them stay on it.
#[test]
fn every_thread_stays_on_the_cpus_asked_for() {
    let mut backends = vec![("rten", vec![])];
    if let Some(library) = runtime::onnxruntime() {
        backends.push((
            "onnxruntime",
            vec!["--runtime".to_owned(), text(&library.to_str().into())],
        ));
    }
    for (backend, library) in backends {
        let sandbox = Sandbox::new();
        let mut args = vec!["--cpus", "0", "--threads", "2"];
        args.extend(library.iter().map(String::as_str));
        let case = measure(&sandbox, backend, &args);
        let fields = &case["fields"];
        assert_eq!(fields["cpus_requested"], "0", "{backend}");
        assert_eq!(fields["cpus_observed"], "0", "{backend}");
        assert_eq!(number(&fields["threads_requested_count"]), 2.0);
        assert!(
            number(&fields["threads_observed_count"]) >= 2.0,
            "{backend}"
        );
    }
}

/// The built-in runtime does what it is told, so it must not be found fault with.
#[test]
fn one_thread_of_the_built_in_runtime_is_one_thread() {
    let sandbox = Sandbox::new();
    let case = measure(&sandbox, "rten", &["--threads", "1"]);
    let codes = finding_codes(&case);
    assert!(!codes.contains(&"threads_more".to_owned()), "{codes:?}");
}

/// One thread of ONNX Runtime is the calling one: nothing to find.
#[test]
fn one_thread_of_onnx_runtime_is_one_thread() {
    let Some(library) = runtime::onnxruntime() else {
        return;
    };
    let sandbox = Sandbox::new();
    let case = measure(
        &sandbox,
        "onnxruntime",
        &["--threads", "1", "--runtime", library.to_str().unwrap()],
    );
    assert_eq!(number(&case["fields"]["threads_busy_count"]), 1.0);
    let codes = finding_codes(&case);
    assert!(
        !codes.iter().any(|code| code.starts_with("threads_")),
        "{codes:?}"
    );
}

/// With all CPUs measured there is none left for the agent itself, and that is said.
#[test]
fn an_agent_without_a_cpu_of_its_own_says_so() {
    if !has(&[Need::Cpus(2)]) {
        return;
    }
    let all = std::thread::available_parallelism().unwrap().get() - 1;
    let sandbox = Sandbox::new();
    let crowded = measure(&sandbox, "fake", &["--cpus", &format!("0-{all}")]);
    assert!(finding_codes(&crowded).contains(&"no_spare_cpu".to_owned()));
    let roomy = measure(&sandbox, "fake", &["--cpus", "0"]);
    assert!(!finding_codes(&roomy).contains(&"no_spare_cpu".to_owned()));
}

/// A rate is what the latencies allow: it never exceeds one over the shortest of them.
#[test]
fn rate_and_latency_agree() {
    let sandbox = Sandbox::new();
    let case = measure(&sandbox, "fake", &["--option", "latency_us=2000"]);
    let (rate, mean) = (
        number(&case["fields"]["rate_hz"]),
        number(&case["fields"]["latency_mean_ms"]),
    );
    assert!(mean >= 1.9, "{mean} ms");
    assert!(rate <= 1000.0 / mean * 1.001, "{rate} Hz at {mean} ms");
}

/// Made-up figures are marked wherever they show.
#[test]
fn simulated_figures_say_so() {
    let sandbox = Sandbox::new();
    let case = measure(&sandbox, "fake", &[]);
    assert_eq!(case["fields"]["simulated"], true);
    assert!(text(&case["fields"]["cite"]).contains("SIMULATED"));
    assert!(
        sandbox
            .edgedyno(["summary", "last"])
            .ok()
            .stdout
            .contains("SIMULATED")
    );
}
