//! `rten`: the built-in runtime, an ONNX interpreter in pure Rust.
//!
//! It needs no library and runs wherever the agent does. See `docs/backends/rten.md`.

mod failure;
mod runner;
mod values;

use std::path::Path;
use std::sync::Arc;

use edgedyno_shared::device::RuntimeFacts;
use edgedyno_shared::repeat::{Effective, ModelInfo};
use edgedyno_shared::wire::failure::{Failure, FailureCode};
use rten::{ModelOptions, NodeId, RunOptions, ThreadPool};

use self::failure::{from_load, guarded};
use self::runner::{OutputSlot, RtenRunner};
use super::onnx_graph::{self, GraphFacts};
use super::options::{Options, refused};
use super::{Backend, Model, Runner, Runtime};
use crate::inputs::{InputSets, resolve};
use crate::worker::job::Job;

/// The version of the crate that is built in; a test compares it with the lock file.
const VERSION: &str = "0.27.0";

/// The built-in runtime.
pub struct Rten;

impl Backend for Rten {
    fn name(&self) -> &'static str {
        "rten"
    }

    fn summary(&self) -> &'static str {
        "built-in ONNX runtime in pure Rust, needs no library"
    }

    fn built_in(&self) -> bool {
        true
    }

    fn names_no_file(&self, _key: &str, _value: &str) -> bool {
        true
    }

    fn formats(&self) -> &'static [&'static str] {
        &["onnx"]
    }

    fn version(&self) -> Option<String> {
        Some(VERSION.into())
    }

    fn open(&self, _library: Option<&Path>) -> Result<Box<dyn Runtime>, Failure> {
        Ok(Box::new(BuiltIn))
    }
}

struct BuiltIn;

impl Runtime for BuiltIn {
    fn facts(&self) -> RuntimeFacts {
        RuntimeFacts {
            version: VERSION.into(),
            sha256: None,
            build: None,
            build_id: None,
            providers: vec!["cpu".into()],
        }
    }

    fn load(self: Box<Self>, job: &Job) -> Result<Box<dyn Model>, Failure> {
        let case = &job.order.case;
        let settings = Settings::of(job)?;
        let path = job.model.as_deref().ok_or_else(|| {
            Failure::new(
                FailureCode::ModelUnreadable,
                "rten runs a model, and none was given",
            )
        })?;
        let facts = onnx_graph::read(path)?;
        let resolved = resolve::for_job(&facts.declared(), job)?;
        check_types(&facts)?;
        let model = guarded(|| load(path, &settings))?;
        check_inputs(&model, &facts)?;
        let pool = Arc::new(ThreadPool::with_num_threads(case.threads.intra as usize));
        let observed = pool.run(rayon::current_num_threads);
        Ok(Box::new(Loaded {
            slots: output_slots(&model, &facts),
            model,
            info: facts.describe(&resolved),
            effective: settings.effective(job, observed, &facts),
            options: RunOptions::default().with_thread_pool(Some(pool)),
        }))
    }
}

/// What a case may set.
struct Settings {
    optimize: bool,
    prepack_weights: bool,
}

impl Settings {
    fn of(job: &Job) -> Result<Self, Failure> {
        let case = &job.order.case;
        if case.threads.intra == 0 {
            return Err(refused("rten: 0 threads cannot run anything".into()));
        }
        if let Some(precision) = &case.precision {
            return Err(refused(format!(
                "rten has no precision to choose (asked for {precision})"
            )));
        }
        let mut options = Options::new("rten", &case.options);
        let settings = Self {
            optimize: options.switch("optimize", true)?,
            prepack_weights: options.switch("prepack_weights", false)?,
        };
        options.finish(|_| false)?;
        Ok(settings)
    }

    fn effective(&self, job: &Job, pool_threads: usize, facts: &GraphFacts) -> Vec<Effective> {
        let threads = job.order.case.threads;
        let line = |name: &str, requested: String, observed: Option<String>| Effective {
            name: name.into(),
            requested: Some(requested),
            observed,
        };
        let word = |on: bool| if on { "on" } else { "off" }.to_owned();
        let mut lines = vec![
            line(
                "threads",
                threads.intra.to_string(),
                Some(pool_threads.to_string()),
            ),
            // Operators run one after the other, whatever was asked.
            line("inter_threads", threads.inter.to_string(), Some("1".into())),
            line("optimize", word(self.optimize), None),
            line("prepack_weights", word(self.prepack_weights), None),
        ];
        if let Some(opset) = facts.opset.filter(|_| has_old_softmax(facts)) {
            lines.push(line("softmax_opset", opset.to_string(), Some("13".into())));
        }
        lines
    }
}

/// Up to operator set 12 these work on all dimensions from `axis` on as one; rten 0.27 knows the
/// later meaning only and gives other values where a dimension follows (seen on squeezenet).
fn has_old_softmax(facts: &GraphFacts) -> bool {
    let old = facts.opset.is_some_and(|version| version < 13);
    old && ["Softmax", "LogSoftmax"]
        .iter()
        .any(|op| facts.operators.contains(*op))
}

struct Loaded {
    model: rten::Model,
    info: ModelInfo,
    effective: Vec<Effective>,
    slots: Vec<OutputSlot>,
    options: RunOptions,
}

impl Model for Loaded {
    fn info(&self) -> &ModelInfo {
        &self.info
    }

    fn effective(&self) -> Vec<Effective> {
        self.effective.clone()
    }

    fn bind(self: Box<Self>, inputs: InputSets, job: &Job) -> Result<Box<dyn Runner>, Failure> {
        let io = job.order.case.io;
        Ok(Box::new(RtenRunner::new(
            self.model,
            self.options,
            self.slots,
            inputs,
            io,
        )?))
    }
}

fn load(path: &Path, settings: &Settings) -> Result<rten::Model, Failure> {
    let mut options = ModelOptions::with_all_ops();
    options
        .enable_optimization(settings.optimize)
        .prepack_weights(settings.prepack_weights);
    // rten takes the format from the ending, which a model named by its hash has not; external
    // weights are found only beside a file.
    let loaded = match path
        .extension()
        .is_some_and(|e| e.eq_ignore_ascii_case("onnx"))
    {
        true => options.load_file(path),
        false => options.load(std::fs::read(path).map_err(|e| {
            let detail = format!("model {} cannot be read: {e}", path.display());
            Failure::new(FailureCode::ModelUnreadable, detail)
        })?),
    };
    loaded.map_err(|e| from_load(&e))
}

fn check_types(facts: &GraphFacts) -> Result<(), Failure> {
    match facts
        .inputs
        .iter()
        .find(|i| i.dtype().is_none_or(|d| !values::takes(d)))
    {
        None => Ok(()),
        Some(input) => Err(Failure::new(
            FailureCode::InputInvalid,
            format!(
                "rten does not take {} (input `{}`)",
                input.describe(None).dtype,
                input.name
            ),
        )
        .hint("try --backend onnxruntime")),
    }
}

/// Values are given in the order of the file: rten must list the same inputs in it.
fn check_inputs(model: &rten::Model, facts: &GraphFacts) -> Result<(), Failure> {
    let theirs: Vec<&str> = model
        .input_ids()
        .iter()
        .filter_map(|id| node_name(model, *id))
        .collect();
    let ours: Vec<&str> = facts.inputs.iter().map(|i| i.name.as_str()).collect();
    match theirs == ours {
        true => Ok(()),
        false => Err(Failure::new(
            FailureCode::LoadFailed,
            format!("rten lists the inputs {theirs:?}, the file has {ours:?}"),
        )),
    }
}

fn output_slots(model: &rten::Model, facts: &GraphFacts) -> Vec<OutputSlot> {
    let outputs = model.output_ids().iter().zip(&facts.outputs);
    let slot = |(node, output): (&NodeId, &onnx_graph::ValueInfo)| OutputSlot {
        node: *node,
        name: output.name.clone(),
        dtype: output.dtype(),
    };
    outputs.map(slot).collect()
}

fn node_name(model: &rten::Model, id: NodeId) -> Option<&str> {
    model.node_info(id).and_then(|node| node.name())
}

#[cfg(test)]
mod tests {
    use edgedyno_shared::case::{InputPolicy, InputSource, Io, NamedShape};

    use super::*;
    use crate::backend::onnx_writer::{self, D, Graph, node, value};
    use crate::backend::testing::{self, run_once};

    #[test]
    fn the_version_is_that_of_the_lock_file() {
        let lock = include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../Cargo.lock"));
        assert!(lock.contains(&format!("name = \"rten\"\nversion = \"{VERSION}\"")));
    }

    #[test]
    fn a_linear_layer_gives_the_values_worked_out_by_hand() {
        // x = (1, 2, 3), (0, 1, -1); w = (1 2; 3 4; 5 6); b = (0.5, -0.5).
        let inputs = [1_f32, 2.0, 3.0, 0.0, 1.0, -1.0];
        for io in [Io::Resident, Io::Transfer] {
            let mut setup = testing::Setup::new(&onnx_writer::linear());
            setup.job.order.case.io = io;
            setup.job.order.case.batch = Some(2);
            setup.raw_input("x", &inputs);
            let outputs = run_once(&Rten, &setup.job).unwrap();
            assert_eq!(outputs[0].shape, [2, 2]);
            assert_eq!(testing::floats(&outputs[0]), [22.5, 27.5, -1.5, -2.5]);
        }
    }

    #[test]
    fn threads_are_those_of_the_pool() {
        let mut setup = testing::Setup::new(&onnx_writer::linear());
        setup.job.order.case.batch = Some(1);
        setup.job.order.case.threads.intra = 3;
        let model = Rten.open(None).unwrap().load(&setup.job).unwrap();
        let threads = model
            .effective()
            .into_iter()
            .find(|e| e.name == "threads")
            .unwrap();
        assert_eq!(
            (threads.requested, threads.observed),
            (Some("3".into()), Some("3".into()))
        );
    }

    #[test]
    fn an_older_softmax_is_shown_as_a_difference() {
        let graph = Graph {
            nodes: vec![node("share", "Softmax", &["x"], &["y"])],
            inputs: vec![value("x", 1, Some(&[D::Value(1), D::Value(2)]))],
            outputs: vec![value("y", 1, Some(&[D::Value(1), D::Value(2)]))],
            ..Graph::default()
        };
        let observed = |opset| {
            let setup = testing::Setup::new(&graph.file_for(opset));
            let model = Rten.open(None).unwrap().load(&setup.job).unwrap();
            let mut lines = model.effective().into_iter();
            lines.find(|l| l.name == "softmax_opset")
        };
        assert_eq!(observed(13), None);
        let line = observed(12).unwrap();
        assert_eq!(line.requested.as_deref(), Some("12"));
        assert_eq!(line.observed.as_deref(), Some("13"));
    }

    #[test]
    fn an_unsupported_operator_is_named_with_its_node() {
        let graph = Graph {
            nodes: vec![node("odd one", "Frobnicate", &["x"], &["y"])],
            inputs: vec![value("x", 1, Some(&[D::Value(1)]))],
            outputs: vec![value("y", 1, Some(&[D::Value(1)]))],
            ..Graph::default()
        };
        let failure = run_once(&Rten, &testing::Setup::new(&graph.file()).job).unwrap_err();
        assert_eq!(failure.code, FailureCode::UnsupportedOperator);
        assert!(
            failure.detail.contains("odd one") && failure.detail.contains("Frobnicate"),
            "{failure}"
        );
        assert_eq!(failure.hint.as_deref(), Some("try --backend onnxruntime"));
    }

    #[test]
    fn wide_integers_and_flags_keep_the_types_of_the_model() {
        let graph = Graph {
            nodes: vec![
                node("sum", "Add", &["i", "i"], &["twice"]),
                node("flip", "Not", &["b"], &["flipped"]),
            ],
            inputs: vec![
                value("i", 7, Some(&[D::Value(2)])),
                value("b", 9, Some(&[D::Value(2)])),
            ],
            outputs: vec![
                value("twice", 7, Some(&[D::Value(2)])),
                value("flipped", 9, Some(&[D::Value(2)])),
            ],
            ..Graph::default()
        };
        let mut setup = testing::Setup::new(&graph.file());
        let longs: Vec<u8> = [21_i64, -4].iter().flat_map(|v| v.to_le_bytes()).collect();
        setup.set(&[("i", &longs), ("b", &[1, 0])]);
        let outputs = run_once(&Rten, &setup.job).unwrap();
        let twice: Vec<u8> = [42_i64, -8].iter().flat_map(|v| v.to_le_bytes()).collect();
        assert_eq!(outputs[0].bytes, twice);
        assert_eq!(outputs[1].bytes, [0, 1]);
    }

    #[test]
    fn a_cycle_goes_through_its_sets_and_fresh_repeats_by_trial_number() {
        let mut setup = testing::Setup::new(&onnx_writer::linear());
        setup.job.order.case.batch = Some(1);
        for policy in [InputPolicy::Cycle, InputPolicy::Fresh] {
            setup.job.order.case.inputs.policy = policy;
            let mut runner = testing::bind(&Rten, &setup.job).unwrap();
            let mut trial = |n| {
                runner.prepare(n).unwrap();
                runner.run(&mut []).unwrap();
                runner.outputs().unwrap()
            };
            let (first, second, again) = (trial(0), trial(1), trial(0));
            assert_ne!(first, second, "{policy:?}");
            assert_eq!(first, again, "{policy:?}");
        }
    }

    #[test]
    fn wishes_that_do_not_fit_are_refused_before_loading() {
        let code = |change: &dyn Fn(&mut edgedyno_shared::case::Case)| {
            let mut setup = testing::Setup::new(&onnx_writer::linear());
            change(&mut setup.job.order.case);
            run_once(&Rten, &setup.job).unwrap_err().code
        };
        assert_eq!(code(&|_| {}), FailureCode::UnresolvedDims);
        assert_eq!(code(&|c| c.threads.intra = 0), FailureCode::OptionRefused);
        assert_eq!(
            code(&|c| c.options = vec![("speed".into(), "9".into())]),
            FailureCode::OptionRefused
        );
        let shape = |dims: &[u64]| {
            vec![NamedShape {
                input: "x".into(),
                dims: dims.into(),
            }]
        };
        assert_eq!(
            code(&|c| c.shapes = shape(&[2, 4])),
            FailureCode::InputInvalid
        );
        assert_eq!(
            code(&|c| {
                c.batch = Some(1);
                c.inputs.source = InputSource::Files { sets: vec![] };
            }),
            FailureCode::InputInvalid
        );
    }

    #[test]
    fn what_is_no_model_is_unreadable() {
        let code = |bytes: &[u8]| {
            run_once(&Rten, &testing::Setup::new(bytes).job)
                .unwrap_err()
                .code
        };
        assert_eq!(code(b"some text in a file"), FailureCode::ModelUnreadable);
        let whole = onnx_writer::linear();
        assert_eq!(
            code(&whole[..whole.len() / 2]),
            FailureCode::ModelUnreadable
        );
    }
}
