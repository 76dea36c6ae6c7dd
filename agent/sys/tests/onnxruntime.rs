//! ONNX Runtime through its C interface, with the real library where there is one.

mod model;
mod support;

use std::fs;
use std::path::Path;

use edgedyno_sys::vendor::onnxruntime::{
    Binding, ExecutionMode, GraphOptimization, OnnxRuntime, OrtError, OutputChoice, Session,
    SessionConfig,
};
use edgedyno_sys::vendor::tensor::Tensor;
use edgedyno_sys::vendor::value::{Dim, ElementType, ValueInfo, ValueKind};
use model::write;
use support::{packaged_model, runtime};

#[test]
fn the_runtime_says_what_it_is() {
    let Some(runtime) = runtime() else { return };

    let (major, minor) = runtime.version().split_once('.').unwrap();
    assert_eq!(major, "1");
    assert!(minor.split('.').next().unwrap().parse::<u32>().unwrap() >= 17);
    assert!(
        runtime
            .providers()
            .unwrap()
            .contains(&"CPUExecutionProvider".into())
    );
    assert!(
        runtime.build_info().contains("build type"),
        "{}",
        runtime.build_info()
    );
    assert!(runtime.library().facts().build_id.is_some());
}

#[test]
fn the_packaged_model_multiplies_by_one_to_six() {
    let Some(runtime) = runtime() else { return };
    let session = runtime
        .session(
            &SessionConfig::default(),
            &packaged_model(&runtime, "mul_1.onnx"),
        )
        .unwrap();
    let fixed = |name: &str| ValueInfo {
        name: name.into(),
        kind: ValueKind::Tensor {
            element: ElementType::F32,
            dims: vec![Dim::Fixed(3), Dim::Fixed(2)],
        },
    };
    assert_eq!(session.inputs(), [fixed("X")]);
    assert_eq!(session.outputs(), [fixed("Y")]);
    let x = Tensor::from_values(&[3, 2], &[10_f32, 20.0, -30.0, 0.5, 0.0, 1e6]).unwrap();

    let mut binding = session
        .bind(vec![("X".into(), x)], OutputChoice::All)
        .unwrap();
    binding.run().unwrap();

    assert!(binding.has_fixed_outputs());
    let outputs = binding.outputs().unwrap();
    assert_eq!(outputs.len(), 1);
    assert_eq!(
        (outputs[0].name, outputs[0].element, &outputs[0].shape[..]),
        ("Y", ElementType::F32, &[3, 2][..])
    );
    // The file holds W = 1, 2, 3, 4, 5, 6.
    assert_eq!(
        floats(&outputs[0].bytes),
        [10.0, 40.0, -90.0, 2.0, 0.0, 6e6]
    );
}

#[test]
fn a_changed_input_is_seen_by_the_next_run() {
    let Some(runtime) = runtime() else { return };
    let folder = tempfile::tempdir().unwrap();
    let mut binding = add_binding(&runtime, folder.path(), [1.0, 2.0], [10.0, 20.0]);
    binding.run().unwrap();
    assert_eq!(floats(&binding.outputs().unwrap()[0].bytes), [11.0, 22.0]);

    binding.input_bytes_mut("A").unwrap()[4..].copy_from_slice(&5_f32.to_ne_bytes());
    binding.upload_inputs().unwrap();
    binding.run().unwrap();

    assert_eq!(floats(&binding.outputs().unwrap()[0].bytes), [11.0, 25.0]);
    assert_eq!(
        binding.input("A").unwrap().values::<f32>().unwrap(),
        [1.0, 5.0]
    );
    assert!(binding.input_bytes_mut("C").is_none());
}

#[test]
fn a_named_dimension_is_fixed_before_loading() {
    let Some(runtime) = runtime() else { return };
    let folder = tempfile::tempdir().unwrap();
    let dims = &["N", "2"];
    let path = write(
        folder.path(),
        "Relu",
        &[("X", "float", dims)],
        &[("Y", "float", dims)],
    );

    let free = runtime.session(&SessionConfig::default(), &path).unwrap();
    let config = SessionConfig {
        dimensions: vec![("N".into(), 3)],
        ..SessionConfig::default()
    };
    let fixed = runtime.session(&config, &path).unwrap();

    assert_eq!(
        dims_of(&free.inputs()[0]),
        [Dim::Named("N".into()), Dim::Fixed(2)]
    );
    assert_eq!(dims_of(&fixed.inputs()[0]), [Dim::Fixed(3), Dim::Fixed(2)]);
    assert_eq!(dims_of(&fixed.outputs()[0]), [Dim::Fixed(3), Dim::Fixed(2)]);
    let x = Tensor::from_values(&[3, 2], &[-1_f32, 2.0, -3.0, 4.0, -5.0, 6.0]).unwrap();
    let mut binding = fixed
        .bind(vec![("X".into(), x)], OutputChoice::All)
        .unwrap();
    binding.run().unwrap();
    assert!(binding.has_fixed_outputs());
    assert_eq!(
        floats(&binding.outputs().unwrap()[0].bytes),
        [0.0, 2.0, 0.0, 4.0, 0.0, 6.0]
    );
}

#[test]
fn dimensions_without_a_name_are_given_by_the_input() {
    let Some(runtime) = runtime() else { return };
    let folder = tempfile::tempdir().unwrap();
    let path = write(
        folder.path(),
        "Relu",
        &[("X", "float", &["?"])],
        &[("Y", "float", &["?"])],
    );
    let session = runtime.session(&SessionConfig::default(), &path).unwrap();
    assert_eq!(dims_of(&session.inputs()[0]), [Dim::Unknown]);

    for length in [1, 5, 3] {
        let x = Tensor::from_values(&[length], &vec![2.5_f32; length as usize]).unwrap();
        let mut binding = session
            .bind(vec![("X".into(), x)], OutputChoice::All)
            .unwrap();
        binding.run().unwrap();
        binding.run().unwrap();

        assert!(!binding.has_fixed_outputs());
        let outputs = binding.outputs().unwrap();
        assert_eq!(outputs[0].shape, [length]);
        assert_eq!(floats(&outputs[0].bytes), vec![2.5; length as usize]);
    }
}

#[test]
fn shapes_that_depend_on_the_data_need_the_outputs_forgotten() {
    let Some(runtime) = runtime() else { return };
    let folder = tempfile::tempdir().unwrap();
    let path = write(
        folder.path(),
        "NonZero",
        &[("X", "float", &["4"])],
        &[("Y", "int64", &["1", "K"])],
    );
    let session = runtime.session(&SessionConfig::default(), &path).unwrap();
    let x = Tensor::from_values(&[4], &[0_f32, 1.0, 0.0, 1.0]).unwrap();
    let mut binding = session
        .bind(vec![("X".into(), x)], OutputChoice::All)
        .unwrap();
    assert_eq!(binding.outputs().unwrap_err(), OrtError::NotRun);
    binding.run().unwrap();
    assert_eq!(integers(&binding.outputs().unwrap()[0].bytes), [1, 3]);

    binding.input_bytes_mut("X").unwrap().fill(0);
    let kept = binding.run();
    assert!(
        matches!(
            kept,
            Err(OrtError::Status {
                call: "RunWithBinding",
                ..
            })
        ),
        "{kept:?}"
    );
    binding.forget_outputs().unwrap();
    assert_eq!(binding.outputs().unwrap_err(), OrtError::NotRun);
    binding.run().unwrap();

    let outputs = binding.outputs().unwrap();
    assert_eq!(outputs[0].shape, [1, 0]);
    assert_eq!(outputs[0].bytes.len(), 0);
}

#[test]
fn the_profile_names_the_operators_that_ran() {
    let Some(runtime) = runtime() else { return };
    let folder = tempfile::tempdir().unwrap();
    let config = SessionConfig {
        profile_prefix: Some(folder.path().join("profile")),
        ..SessionConfig::default()
    };
    let session = runtime
        .session(&config, &packaged_model(&runtime, "mul_1.onnx"))
        .unwrap();
    let x = Tensor::zeroed(ElementType::F32, &[3, 2]).unwrap();
    let mut binding = session
        .bind(vec![("X".into(), x)], OutputChoice::All)
        .unwrap();
    binding.run().unwrap();

    assert!(session.profiling_start_ns().unwrap() > 0);
    let file = session.end_profiling().unwrap();

    assert!(file.starts_with(folder.path()), "{}", file.display());
    assert!(
        fs::read_to_string(file)
            .unwrap()
            .contains(r#""op_name" : "Mul""#)
    );
}

#[test]
fn without_profiling_no_file_is_named() {
    let Some(runtime) = runtime() else { return };
    let session = runtime
        .session(
            &SessionConfig::default(),
            &packaged_model(&runtime, "mul_1.onnx"),
        )
        .unwrap();

    assert_eq!(session.end_profiling().unwrap(), Path::new(""));
}

#[test]
fn a_binding_keeps_alive_what_it_was_made_from() {
    let Some(runtime) = runtime() else { return };
    let folder = tempfile::tempdir().unwrap();
    let mut binding = add_binding(&runtime, folder.path(), [1.0, 2.0], [3.0, 4.0]);
    drop(runtime);

    binding.run().unwrap();

    assert_eq!(floats(&binding.outputs().unwrap()[0].bytes), [4.0, 6.0]);
}

#[test]
fn a_fixed_output_is_read_in_place() {
    let Some(runtime) = runtime() else { return };
    let folder = tempfile::tempdir().unwrap();
    let mut binding = add_binding(&runtime, folder.path(), [1.0, 2.0], [3.0, 4.0]);

    // Also from another thread: a binding belongs to none.
    let binding = std::thread::spawn(move || binding.run().map(|()| binding))
        .join()
        .unwrap()
        .unwrap();

    assert_eq!(
        binding.fixed_output("C").unwrap().values::<f32>().unwrap(),
        [4.0, 6.0]
    );
    assert!(binding.fixed_output("A").is_none());
}

#[test]
fn bindings_of_one_session_run_on_several_threads() {
    let Some(runtime) = runtime() else { return };
    let session = runtime
        .session(
            &SessionConfig::default(),
            &packaged_model(&runtime, "mul_1.onnx"),
        )
        .unwrap();
    let run = |session: Session, factor: f32| {
        let x = Tensor::from_values(&[3, 2], &[factor; 6]).unwrap();
        let mut binding = session
            .bind(vec![("X".into(), x)], OutputChoice::All)
            .unwrap();
        (0..500).for_each(|_| binding.run().unwrap());
        floats(&binding.outputs().unwrap()[0].bytes)
    };

    let threads: Vec<_> = [2.0, 3.0]
        .map(|factor| (factor, session.clone()))
        .into_iter()
        .collect();
    std::thread::scope(|scope| {
        let running: Vec<_> = threads
            .into_iter()
            .map(|(factor, session)| (factor, scope.spawn(move || run(session, factor))))
            .collect();
        for (factor, thread) in running {
            assert_eq!(
                thread.join().unwrap(),
                [1.0, 2.0, 3.0, 4.0, 5.0, 6.0].map(|weight| weight * factor)
            );
        }
    });
}

#[test]
fn every_option_is_accepted() {
    let Some(runtime) = runtime() else { return };
    let folder = tempfile::tempdir().unwrap();
    let optimized = folder.path().join("optimized.onnx");
    let config = SessionConfig {
        intra_threads: Some(2),
        inter_threads: Some(2),
        optimization: GraphOptimization::Extended,
        execution: ExecutionMode::Parallel,
        cpu_arena: false,
        memory_pattern: false,
        entries: vec![("session.intra_op.allow_spinning".into(), "0".into())],
        optimized_model: Some(optimized.clone()),
        ..SessionConfig::default()
    };

    let session = runtime
        .session(&config, &packaged_model(&runtime, "sigmoid.onnx"))
        .unwrap();
    let x = Tensor::zeroed(ElementType::F32, &[3, 4, 5]).unwrap();
    let mut binding = session
        .bind(vec![("x".into(), x)], OutputChoice::All)
        .unwrap();
    binding
        .set_run_entry("memory.enable_memory_arena_shrinkage", "")
        .unwrap();
    binding.run().unwrap();

    assert_eq!(floats(&binding.outputs().unwrap()[0].bytes), [0.5; 60]);
    assert!(optimized.exists());
}

fn add_binding(runtime: &OnnxRuntime, folder: &Path, a: [f32; 2], b: [f32; 2]) -> Binding {
    let path = write(
        folder,
        "Add",
        &[("A", "float", &["2"]), ("B", "float", &["2"])],
        &[("C", "float", &["2"])],
    );
    let session = runtime
        .session(&SessionConfig::default(), &path)
        .expect("the model is sound");
    let tensor = |values: [f32; 2]| Tensor::from_values(&[2], &values).expect("two values");
    let inputs = vec![("B".into(), tensor(b)), ("A".into(), tensor(a))];
    session
        .bind(inputs, OutputChoice::All)
        .expect("the inputs fit")
}

fn dims_of(value: &ValueInfo) -> &[Dim] {
    match &value.kind {
        ValueKind::Tensor { dims, .. } => dims,
        ValueKind::Unsupported(name) => panic!("{name}"),
    }
}

fn floats(bytes: &[u8]) -> Vec<f32> {
    bytes
        .chunks_exact(4)
        .map(|b| f32::from_ne_bytes([b[0], b[1], b[2], b[3]]))
        .collect()
}

fn integers(bytes: &[u8]) -> Vec<i64> {
    bytes
        .as_chunks()
        .0
        .iter()
        .map(|chunk| i64::from_ne_bytes(*chunk))
        .collect()
}
