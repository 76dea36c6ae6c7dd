//! What ONNX Runtime or its owner refuses, and whether the reason is told.

mod model;
mod support;

use std::fs;
use std::path::Path;

use edgedyno_sys::vendor::loader::LoadError;
use edgedyno_sys::vendor::onnxruntime::{
    OnnxRuntime, OrtError, OutputChoice, Provider, SessionConfig,
};
use edgedyno_sys::vendor::tensor::Tensor;
use edgedyno_sys::vendor::value::ElementType;
use model::write;
use support::{packaged_model, runtime};

#[test]
fn a_library_that_is_not_onnxruntime_is_refused() {
    let error = OnnxRuntime::open(&library_of_another_name()).err().unwrap();

    assert!(
        matches!(
            &error,
            OrtError::Load(LoadError::MissingSymbol {
                name: "OrtGetApiBase",
                ..
            })
        ),
        "{error}"
    );
}

#[test]
fn tensors_that_do_not_fit_are_named() {
    let Some(runtime) = runtime() else { return };
    let folder = tempfile::tempdir().unwrap();
    let dims = &["N", "2"];
    let path = write(
        folder.path(),
        "Add",
        &[("A", "float", dims), ("B", "float", dims)],
        &[("C", "float", dims)],
    );
    let session = runtime.session(&SessionConfig::default(), &path).unwrap();
    let tensor = |element, shape: &[u64]| Tensor::zeroed(element, shape).unwrap();
    let bind = |inputs: Vec<(&str, Tensor)>| {
        let inputs = inputs
            .into_iter()
            .map(|(name, tensor)| (name.to_owned(), tensor))
            .collect();
        session
            .bind(inputs, OutputChoice::All)
            .err()
            .unwrap()
            .to_string()
    };
    let fitting = || tensor(ElementType::F32, &[1, 2]);

    assert_eq!(bind(vec![("A", fitting())]), r#"input "B" is not given"#);
    assert_eq!(
        bind(vec![("A", fitting()), ("A", fitting())]),
        r#"input "A" is given twice"#
    );
    assert_eq!(
        bind(vec![("a", fitting())]),
        r#"the model has no input "a"; it has "A", "B""#
    );
    assert_eq!(
        bind(vec![("A", tensor(ElementType::I8, &[1, 2]))]),
        r#"input "A" wants f32, a tensor of i8 is given"#
    );
    assert_eq!(
        bind(vec![("A", tensor(ElementType::F32, &[2]))]),
        r#"input "A" wants shape Nx2, 2 is given"#
    );
    assert_eq!(
        bind(vec![("A", tensor(ElementType::F32, &[1, 3]))]),
        r#"input "A" wants shape Nx2, 1x3 is given"#
    );
    let inputs = vec![("A".into(), fitting()), ("B".into(), fitting())];
    let error = session
        .bind(inputs, OutputChoice::Only(&["D"]))
        .err()
        .unwrap();
    assert_eq!(
        error.to_string(),
        r#"the model has no output "D"; it has "C""#
    );
}

#[test]
fn a_sequence_output_is_named_and_can_be_left_out() {
    let Some(runtime) = runtime() else { return };
    let session = runtime
        .session(
            &SessionConfig::default(),
            &packaged_model(&runtime, "logreg_iris.onnx"),
        )
        .unwrap();
    let flower = || {
        vec![(
            "float_input".into(),
            Tensor::from_values(&[3, 2], &[5.0_f32; 6]).unwrap(),
        )]
    };

    let error = session.bind(flower(), OutputChoice::All).err().unwrap();
    let mut labels = session
        .bind(flower(), OutputChoice::Only(&["label", "label"]))
        .unwrap();
    labels.run().unwrap();

    let expected = OrtError::UnsupportedType {
        role: "output",
        name: "probabilities".into(),
        type_name: "sequence".into(),
    };
    assert_eq!(error, expected);
    let outputs = labels.outputs().unwrap();
    assert_eq!(
        (outputs[0].element, outputs[0].shape.as_slice()),
        (ElementType::I64, &[3][..])
    );
    // All three rows are the same flower, and the classes are 0, 1 and 2.
    let labels: Vec<i64> = outputs[0]
        .bytes
        .as_chunks()
        .0
        .iter()
        .map(|bytes| i64::from_ne_bytes(*bytes))
        .collect();
    assert!((0..3).contains(&labels[0]));
    assert_eq!(labels, [labels[0]; 3]);
}

#[test]
fn a_text_input_is_named_by_its_type() {
    let Some(runtime) = runtime() else { return };
    let folder = tempfile::tempdir().unwrap();
    let path = write(
        folder.path(),
        "Identity",
        &[("T", "string", &["1"])],
        &[("U", "string", &["1"])],
    );
    let session = runtime.session(&SessionConfig::default(), &path).unwrap();

    let error = session.bind(Vec::new(), OutputChoice::All).err().unwrap();

    assert_eq!(
        error.to_string(),
        r#"input "T" is of type tensor(string), which cannot be bound"#
    );
}

#[test]
fn a_model_that_cannot_be_loaded_keeps_the_code_of_the_runtime() {
    let Some(runtime) = runtime() else { return };
    let folder = tempfile::tempdir().unwrap();
    let noise = folder.path().join("noise.onnx");
    fs::write(&noise, b"this is no model").unwrap();
    let unknown = write(
        folder.path(),
        "NoSuchOperator",
        &[("X", "int64", &["1"])],
        &[("Y", "int64", &["1"])],
    );

    assert_eq!(load_error(&runtime, Path::new("/nowhere/model.onnx")).0, 3);
    assert_eq!(load_error(&runtime, &noise).0, 7);
    let error = runtime
        .session(&SessionConfig::default(), &noise)
        .err()
        .unwrap();
    assert_eq!(
        error.hint().as_deref(),
        Some("the file is no ONNX model, or a broken copy of one")
    );
    let (_, message) = load_error(&runtime, &unknown);
    assert!(message.contains("NoSuchOperator"), "{message}");
}

#[test]
fn options_that_the_runtime_refuses_are_errors() {
    let Some(runtime) = runtime() else { return };
    let model = packaged_model(&runtime, "mul_1.onnx");
    let refused = |config: SessionConfig| runtime.session(&config, &model).err().unwrap();
    let provider = Provider {
        name: "NoSuchProvider".into(),
        options: vec![("a".into(), "b".into())],
    };

    let error = refused(SessionConfig {
        providers: vec![provider],
        ..SessionConfig::default()
    });
    assert!(
        matches!(
            &error,
            OrtError::Status {
                call: "SessionOptionsAppendExecutionProvider",
                ..
            }
        ),
        "{error}"
    );
    let error = refused(SessionConfig {
        entries: vec![("a\0".into(), "b".into())],
        ..SessionConfig::default()
    });
    assert_eq!(error, OrtError::ZeroByte { text: "a\0".into() });
    let error = refused(SessionConfig {
        intra_threads: Some(u32::MAX),
        ..SessionConfig::default()
    });
    assert_eq!(
        error,
        OrtError::OutOfRange {
            what: "intra_threads",
            value: u32::MAX.into()
        }
    );
}

fn load_error(runtime: &OnnxRuntime, model: &Path) -> (i32, String) {
    match runtime.session(&SessionConfig::default(), model).err() {
        Some(OrtError::Status {
            call: "CreateSession",
            code,
            message,
        }) => (code, message),
        other => panic!("{other:?}"),
    }
}

/// The C library, which is certainly here and certainly not ONNX Runtime.
fn library_of_another_name() -> std::path::PathBuf {
    let maps = fs::read_to_string("/proc/self/maps").expect("proc is mounted");
    let path = maps
        .lines()
        .filter_map(|line| line.split_whitespace().last())
        .find(|path| path.ends_with("libc.so.6"));
    path.expect("the tests run with glibc").into()
}
