//! With a real library. Expected values are worked out by hand.

#[path = "../../../sys/tests/support/library.rs"]
mod library;

use edgedyno_shared::case::{Generator, InputPolicy, InputSource, Io, NamedShape};
use edgedyno_shared::repeat::TensorInfo;

use super::*;
use crate::backend::onnx_writer::{self, D, Graph, floats, node, value};
use crate::backend::testing::{self, Setup, bind, run_once};
use crate::inputs::Tensor;

const ORT: OnnxRuntimeBackend = OnnxRuntimeBackend;

/// A setup for the library under test; none, and said so, where there is none.
fn setup(model: &[u8]) -> Option<Setup> {
    let library = library::path()?;
    let mut setup = Setup::new(model);
    setup.job.library = Some(library);
    Some(setup)
}

fn info(setup: &Setup) -> ModelInfo {
    let runtime = ORT.open(setup.job.library.as_deref()).unwrap();
    runtime.load(&setup.job).unwrap().info().clone()
}

fn observed(setup: &Setup, name: &str) -> Option<String> {
    let runtime = ORT.open(setup.job.library.as_deref()).unwrap();
    let lines = runtime.load(&setup.job).unwrap().effective();
    lines.into_iter().find(|l| l.name == name).unwrap().observed
}

/// `y = |x|` with dimensions that have no names.
fn nameless() -> Vec<u8> {
    Graph {
        nodes: vec![node("absolute", "Abs", &["x"], &["y"])],
        inputs: vec![value("x", 1, Some(&[D::Nothing, D::Nothing]))],
        outputs: vec![value("y", 1, Some(&[D::Nothing, D::Nothing]))],
        ..Graph::default()
    }
    .file()
}

#[test]
fn the_library_says_what_it_is() {
    let Some(setup) = setup(&[]) else { return };
    let facts = ORT.open(setup.job.library.as_deref()).unwrap().facts();
    assert!(facts.version.starts_with("1."), "{}", facts.version);
    assert!(facts.providers.contains(&"CPUExecutionProvider".into()));
    assert!(facts.build.is_some() && facts.build_id.is_some());
}

#[test]
fn a_linear_layer_gives_the_values_worked_out_by_hand() {
    for io in [Io::Resident, Io::Transfer] {
        let Some(mut setup) = setup(&onnx_writer::linear()) else {
            return;
        };
        setup.job.order.case.io = io;
        setup.job.order.case.batch = Some(2);
        setup.raw_input("x", &[1.0, 2.0, 3.0, 0.0, 1.0, -1.0]);
        let outputs = run_once(&ORT, &setup.job).unwrap();
        assert_eq!(outputs[0].shape, [2, 2]);
        assert_eq!(testing::floats(&outputs[0]), [22.5, 27.5, -1.5, -2.5]);
    }
}

#[test]
fn a_named_dimension_is_fixed_before_loading_so_that_outputs_are_known() {
    let Some(mut setup) = setup(&onnx_writer::linear()) else {
        return;
    };
    setup.job.order.case.batch = Some(5);
    let info = info(&setup);
    assert_eq!(info.inputs[0].effective, Some(vec![5, 3]));
    assert_eq!(info.outputs[0].effective, Some(vec![5, 2]));
    assert_eq!(
        info.outputs[0].declared[0],
        edgedyno_shared::repeat::Dim::Symbol("batch".into())
    );
}

#[test]
fn dimensions_without_a_name_are_given_by_the_inputs_at_run_time() {
    for io in [Io::Resident, Io::Transfer] {
        let Some(mut setup) = setup(&nameless()) else {
            return;
        };
        setup.job.order.case.io = io;
        setup.job.order.case.shapes = vec![NamedShape {
            input: "x".into(),
            dims: vec![1, 3],
        }];
        setup.raw_input("x", &[-1.0, 2.0, -3.5]);
        assert_eq!(info(&setup).outputs[0].effective, None);
        let outputs = run_once(&ORT, &setup.job).unwrap();
        assert_eq!(outputs[0].shape, [1, 3]);
        assert_eq!(testing::floats(&outputs[0]), [1.0, 2.0, 3.5]);
    }
}

#[test]
fn both_runtimes_give_the_same_outputs_for_the_same_inputs() {
    let graph = Graph {
        nodes: vec![
            node("first", "MatMul", &["x", "w"], &["t"]),
            node("bend", "Tanh", &["t"], &["u"]),
            node("second", "Add", &["u", "b"], &["v"]),
            node("share", "Softmax", &["v"], &["y"]),
        ],
        initializers: vec![
            floats(
                "w",
                &[4, 5],
                &(0_u8..20)
                    .map(|i| f32::from(i) / 10.0 - 1.0)
                    .collect::<Vec<_>>(),
            ),
            floats("b", &[5], &[0.1, -0.2, 0.3, -0.4, 0.5]),
        ],
        inputs: vec![value("x", 1, Some(&[D::Param("N"), D::Value(4)]))],
        outputs: vec![value("y", 1, Some(&[D::Param("N"), D::Value(5)]))],
    };
    for policy in [InputPolicy::Fixed, InputPolicy::Cycle, InputPolicy::Fresh] {
        let Some(mut setup) = setup(&graph.file()) else {
            return;
        };
        setup.job.order.case.batch = Some(16);
        setup.job.order.case.inputs.policy = policy;
        let ort = run_once(&ORT, &setup.job).unwrap();
        assert_row_sums_are_one(&ort[0]);
        #[cfg(feature = "builtin")]
        {
            let rten = run_once(&crate::backend::rten::Rten, &setup.job).unwrap();
            let difference = f64::from_bits(
                crate::inputs::check::compare(&ort[0], &rten[0])
                    .unwrap()
                    .max_abs_error_bits,
            );
            assert!(difference < 1e-6, "{policy:?}: {difference:e}");
        }
    }
}

fn assert_row_sums_are_one(tensor: &Tensor) {
    for row in testing::floats(tensor).chunks(5) {
        assert!((row.iter().sum::<f32>() - 1.0).abs() < 1e-5, "{row:?}");
    }
}

#[test]
fn cycle_and_fresh_depend_on_the_trial_number_only() {
    for io in [Io::Resident, Io::Transfer] {
        for policy in [InputPolicy::Cycle, InputPolicy::Fresh] {
            let Some(mut setup) = setup(&onnx_writer::linear()) else {
                return;
            };
            setup.job.order.case.batch = Some(1);
            setup.job.order.case.io = io;
            setup.job.order.case.inputs.policy = policy;
            let mut runner = bind(&ORT, &setup.job).unwrap();
            let mut trial = |n| {
                runner.prepare(n).unwrap();
                runner.run(&mut []).unwrap();
                runner.outputs().unwrap()
            };
            let (first, second, again) = (trial(0), trial(1), trial(0));
            assert_ne!(first, second, "{policy:?} {io:?}");
            assert_eq!(first, again, "{policy:?} {io:?}");
        }
    }
}

#[test]
fn outputs_may_change_their_size_with_fresh_values() {
    // The positions of what is not zero: as many columns as there are such elements.
    let graph = Graph {
        nodes: vec![node("positions", "NonZero", &["x"], &["y"])],
        inputs: vec![value("x", 7, Some(&[D::Value(64)]))],
        outputs: vec![value("y", 7, Some(&[D::Value(1), D::Nothing]))],
        ..Graph::default()
    };
    for io in [Io::Resident, Io::Transfer] {
        let Some(mut setup) = setup(&graph.file()) else {
            return;
        };
        setup.job.order.case.io = io;
        setup.job.order.case.inputs.policy = InputPolicy::Fresh;
        let mut runner = bind(&ORT, &setup.job).unwrap();
        let mut sizes = std::collections::BTreeSet::new();
        for trial in 0..8 {
            runner.prepare(trial).unwrap();
            runner.run(&mut []).unwrap();
            sizes.insert(runner.outputs().unwrap()[0].shape[1]);
        }
        assert!(sizes.len() > 1, "{sizes:?}");
    }
}

#[test]
fn integers_and_flags_are_given_and_returned_as_they_are() {
    let graph = Graph {
        nodes: vec![
            node("sum", "Add", &["i", "i"], &["twice"]),
            node("flip", "Not", &["b"], &["flipped"]),
        ],
        inputs: vec![
            value("i", 7, Some(&[D::Value(1)])),
            value("b", 9, Some(&[D::Value(2)])),
        ],
        outputs: vec![
            value("twice", 7, Some(&[D::Value(1)])),
            value("flipped", 9, Some(&[D::Value(2)])),
        ],
        ..Graph::default()
    };
    let Some(mut setup) = setup(&graph.file()) else {
        return;
    };
    setup.set(&[("i", &(1_i64 << 40).to_le_bytes()), ("b", &[1, 0])]);
    let outputs = run_once(&ORT, &setup.job).unwrap();
    assert_eq!(outputs[0].bytes, (1_i64 << 41).to_le_bytes());
    assert_eq!(outputs[1].bytes, [0, 1]);
}

#[test]
fn an_unknown_operator_is_named_with_its_node() {
    let graph = Graph {
        nodes: vec![node("odd one", "Frobnicate", &["x"], &["y"])],
        inputs: vec![value("x", 1, Some(&[D::Value(1)]))],
        outputs: vec![value("y", 1, Some(&[D::Value(1)]))],
        ..Graph::default()
    };
    let Some(setup) = setup(&graph.file()) else {
        return;
    };
    let failure = run_once(&ORT, &setup.job).unwrap_err();
    assert_eq!(failure.code, FailureCode::UnsupportedOperator, "{failure}");
    assert!(
        failure.detail.contains("odd one") && failure.detail.contains("Frobnicate"),
        "{failure}"
    );
}

#[test]
fn a_provider_that_is_not_there_is_refused_with_those_that_are() {
    let Some(mut setup) = setup(&onnx_writer::linear()) else {
        return;
    };
    setup.job.order.case.batch = Some(1);
    setup.job.order.case.options = vec![("provider".into(), "QNN".into())];
    let failure = run_once(&ORT, &setup.job).unwrap_err();
    assert_eq!(failure.code, FailureCode::OptionRefused, "{failure}");
    assert!(failure.hint.unwrap().contains("CPUExecutionProvider"));
}

#[test]
fn an_input_that_is_too_large_for_the_machine_is_a_failure_of_memory() {
    let Some(mut setup) = setup(&nameless()) else {
        return;
    };
    setup.job.order.case.inputs.source = InputSource::Generated {
        generator: Generator::Zeros,
        seed: 0,
    };
    setup.job.order.case.shapes = vec![NamedShape {
        input: "x".into(),
        dims: vec![1 << 30, 1 << 20],
    }];
    assert_eq!(
        run_once(&ORT, &setup.job).unwrap_err().code,
        FailureCode::OutOfMemory
    );
}

#[test]
fn threads_that_the_session_started_are_counted() {
    let Some(mut setup) = setup(&onnx_writer::linear()) else {
        return;
    };
    // Other tests start threads too: the count is right in a process of its own.
    if std::env::var_os("EDGEDYNO_TEST_ALONE").is_none() {
        let name = "backend::onnxruntime::tests::threads_that_the_session_started_are_counted";
        let program = std::env::current_exe().unwrap();
        let mut alone = std::process::Command::new(program);
        alone
            .args([name, "--exact", "--test-threads=1"])
            .env("EDGEDYNO_TEST_ALONE", "1");
        let output = alone.output().unwrap();
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(
            output.status.success() && text.contains("1 passed"),
            "{text}"
        );
        return;
    }
    setup.job.order.case.batch = Some(1);
    for threads in [1, 2, 3] {
        setup.job.order.case.threads.intra = threads;
        assert_eq!(observed(&setup, "threads"), Some(threads.to_string()));
    }
}

#[test]
fn no_library_and_a_file_that_is_none_are_unavailable_with_a_hint() {
    let folder = tempfile::tempdir().unwrap();
    let text = folder.path().join("libonnxruntime.so");
    std::fs::write(&text, "not a library").unwrap();
    for library in [None, Some(text.as_path())] {
        let failure = ORT.open(library).err().unwrap();
        assert_eq!(failure.code, FailureCode::RuntimeUnavailable);
        assert!(failure.hint.is_some());
    }
}

#[test]
fn inputs_that_are_no_tensors_of_numbers_are_refused_by_name() {
    let graph = Graph {
        nodes: vec![node("same", "Identity", &["words"], &["y"])],
        inputs: vec![value("words", 8, Some(&[D::Value(1)]))],
        outputs: vec![value("y", 8, Some(&[D::Value(1)]))],
        ..Graph::default()
    };
    let Some(setup) = setup(&graph.file()) else {
        return;
    };
    let TensorInfo { dtype, .. } = &info(&setup).inputs[0];
    assert_eq!(dtype, "string");
    let failure = run_once(&ORT, &setup.job).unwrap_err();
    assert_eq!(failure.code, FailureCode::InputInvalid);
    assert!(failure.detail.contains("`words` holds string"), "{failure}");
}
