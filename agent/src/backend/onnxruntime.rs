//! `onnxruntime`: ONNX Runtime by its library. See `docs/backends/onnxruntime.md`.

mod failure;
mod keys;
mod runner;
mod search;
mod settings;
#[cfg(test)]
mod tests;

use std::path::{Path, PathBuf};

use edgedyno_shared::case::Case;
use edgedyno_shared::device::RuntimeFacts;
use edgedyno_shared::repeat::{Effective, ModelInfo};
use edgedyno_shared::wire::failure::{Failure, FailureCode};
use edgedyno_sys::vendor::onnxruntime::{ExecutionMode, OnnxRuntime, Session, SessionConfig};
use edgedyno_sys::vendor::search::Surroundings;
use edgedyno_sys::vendor::value::{Dim, ValueInfo, ValueKind};

use self::failure::from_ort;
use self::runner::OrtRunner;
use super::onnx_graph::{self, GraphFacts};
use super::{Backend, Candidate, Model, Runner, Runtime};
use crate::inputs::{InputSets, resolve};
use crate::worker::job::Job;

/// ONNX Runtime.
pub struct OnnxRuntimeBackend;

impl Backend for OnnxRuntimeBackend {
    fn name(&self) -> &'static str {
        "onnxruntime"
    }

    fn summary(&self) -> &'static str {
        "ONNX Runtime 1.17 or newer, by its library"
    }

    fn formats(&self) -> &'static [&'static str] {
        &["onnx"]
    }

    fn names_no_file(&self, key: &str, value: &str) -> bool {
        keys::names_no_file(key, value)
    }

    fn candidates(&self, extra: &[PathBuf]) -> Vec<Candidate> {
        search::candidates(extra, &Surroundings::of_this_process())
    }

    fn open(&self, library: Option<&Path>) -> Result<Box<dyn Runtime>, Failure> {
        let library = library.ok_or_else(|| {
            Failure::new(
                FailureCode::RuntimeUnavailable,
                "no ONNX Runtime library was found",
            )
            .hint("`edgedyno runtime install onnxruntime`, for a board with --board NAME")
        })?;
        let runtime = OnnxRuntime::open(library).map_err(from_ort)?;
        let providers = runtime.providers().map_err(from_ort)?;
        Ok(Box::new(Opened { runtime, providers }))
    }
}

struct Opened {
    runtime: OnnxRuntime,
    providers: Vec<String>,
}

impl Runtime for Opened {
    fn facts(&self) -> RuntimeFacts {
        RuntimeFacts {
            version: self.runtime.version().into(),
            sha256: None,
            build: Some(self.runtime.build_info()).filter(|text| !text.is_empty()),
            build_id: self.runtime.library().facts().build_id.clone(),
            providers: self.providers.clone(),
        }
    }

    fn load(self: Box<Self>, job: &Job) -> Result<Box<dyn Model>, Failure> {
        let case = &job.order.case;
        let path = job.model.as_deref().ok_or_else(|| {
            Failure::new(
                FailureCode::ModelUnreadable,
                "onnxruntime runs a model, and none was given",
            )
        })?;
        let facts = onnx_graph::read(path)?;
        let resolved = resolve::for_job(&facts.declared(), job)?;
        let config = settings::session_config(case, &resolved.symbols)?;
        let before = threads();
        let session = self
            .runtime
            .session(&config, path)
            .map_err(|e| self.explain(e))?;
        let started = threads()
            .zip(before)
            .map(|(after, before)| after.saturating_sub(before));
        check_inputs(&session, &facts)?;
        let mut info = facts.describe(&resolved);
        for (output, theirs) in info.outputs.iter_mut().zip(session.outputs()) {
            output.effective = fixed_shape(theirs);
        }
        let seen = started.filter(|_| is_countable(&config)).map(|n| n + 1);
        Ok(Box::new(Loaded {
            session,
            info,
            effective: effective(case, &config, seen),
            sends_inputs: !config.providers.is_empty(),
        }))
    }
}

impl Opened {
    /// A refused provider is told with those that the library has.
    fn explain(&self, error: edgedyno_sys::vendor::onnxruntime::OrtError) -> Failure {
        let failure = from_ort(error);
        match failure.code {
            FailureCode::OptionRefused => {
                let hint = format!("this library has {}", self.providers.join(", "));
                failure.hint(hint)
            }
            _ => failure,
        }
    }
}

struct Loaded {
    session: Session,
    info: ModelInfo,
    effective: Vec<Effective>,
    sends_inputs: bool,
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
        Ok(Box::new(OrtRunner::new(
            &self.session,
            inputs,
            io,
            self.sends_inputs,
        )?))
    }
}

fn effective(case: &Case, config: &SessionConfig, threads_seen: Option<usize>) -> Vec<Effective> {
    let mut lines = settings::effective(case, config, threads_seen);
    if !config.providers.is_empty() {
        // Outputs are bound to memory of the host: a provider with its own copies them in every run.
        lines.push(Effective {
            name: "io".into(),
            requested: Some(case.io.name().into()),
            observed: Some("outputs copied to the host".into()),
        });
    }
    lines
}

/// Threads of this process.
fn threads() -> Option<usize> {
    std::fs::read_dir("/proc/self/task")
        .ok()
        .map(Iterator::count)
}

/// Only then are the threads that a session starts those inside its operators, less the caller.
fn is_countable(config: &SessionConfig) -> bool {
    config.execution == ExecutionMode::Sequential && config.providers.is_empty()
}

/// The shapes were worked out from the file: the session must have the same inputs.
fn check_inputs(session: &Session, facts: &GraphFacts) -> Result<(), Failure> {
    let theirs: Vec<&str> = session.inputs().iter().map(|i| i.name.as_str()).collect();
    let ours: Vec<&str> = facts.inputs.iter().map(|i| i.name.as_str()).collect();
    match theirs == ours {
        true => Ok(()),
        false => Err(Failure::new(
            FailureCode::LoadFailed,
            format!("onnxruntime lists the inputs {theirs:?}, the file has {ours:?}"),
        )),
    }
}

/// The shape of an output that the session knows before a run.
fn fixed_shape(output: &ValueInfo) -> Option<Vec<u64>> {
    let ValueKind::Tensor { dims, .. } = &output.kind else {
        return None;
    };
    let size = |dim: &Dim| match dim {
        Dim::Fixed(size) => Some(*size),
        Dim::Named(_) | Dim::Unknown => None,
    };
    dims.iter().map(size).collect()
}
