//! Backends: each is one way to run a model. The list below is the only place of the agent
//! that knows them all; the host knows by name only `onnxruntime`, which it prefers and can install.
//!
//! A worker goes through the traits in order: [`Backend::open`] loads the library, [`Runtime::load`]
//! the model, [`Model::bind`] fixes inputs and outputs, and then the timed loop calls [`Runner::run`].
//! Vendor code runs nowhere else.

use std::path::{Path, PathBuf};

use edgedyno_shared::columns::ColumnSpec;
use edgedyno_shared::device::{BackendInfo, RuntimeFacts};
use edgedyno_shared::repeat::{Effective, ModelInfo};
use edgedyno_shared::wire::failure::Failure;

use crate::inputs::{InputSets, Tensor};
use crate::worker::job::Job;

pub mod fake;
pub mod null;
pub mod onnx_graph;
#[cfg(test)]
mod onnx_writer;
pub mod onnxruntime;
pub(crate) mod options;
#[cfg(feature = "builtin")]
pub mod rten;
#[cfg(test)]
pub(crate) mod testing;

/// All backends, in the order they are listed to a user.
pub static BACKENDS: &[&dyn Backend] = &[
    &onnxruntime::OnnxRuntimeBackend,
    #[cfg(feature = "builtin")]
    &rten::Rten,
    &null::Null,
    &fake::Fake,
];

/// The backend of that name.
pub fn find(name: &str) -> Option<&'static dyn Backend> {
    BACKENDS.iter().copied().find(|b| b.name() == name)
}

/// One way to run a model.
pub trait Backend: Sync {
    fn name(&self) -> &'static str;

    /// One line for lists.
    fn summary(&self) -> &'static str;

    /// True when its results are not measurements of a model.
    fn simulated(&self) -> bool {
        false
    }

    /// True when it needs no library.
    fn built_in(&self) -> bool {
        false
    }

    /// Endings of the files it reads; empty when it reads none.
    fn formats(&self) -> &'static [&'static str];

    /// Version of a built-in runtime.
    fn version(&self) -> Option<String> {
        None
    }

    /// Whether an option can make a runtime open or write no file and no library: only such a one may come from
    /// a host that does not administer the board. What is not known is none, unless [`Runtime::load`]
    /// refuses it.
    fn names_no_file(&self, key: &str, value: &str) -> bool;

    /// Places where its library may be, in the order of preference, with the reason for each.
    fn candidates(&self, _extra: &[PathBuf]) -> Vec<Candidate> {
        Vec::new()
    }

    /// Opens the runtime: the library given, or what is built in. Runs vendor code.
    fn open(&self, library: Option<&Path>) -> Result<Box<dyn Runtime>, Failure>;

    /// What it says of itself in a board's inventory, without the libraries found for it.
    fn info(&self) -> BackendInfo {
        BackendInfo {
            name: self.name().into(),
            summary: self.summary().into(),
            simulated: self.simulated(),
            built_in: self.built_in(),
            formats: self.formats().iter().map(|f| (*f).into()).collect(),
            version: self.version(),
            runtimes: Vec::new(),
        }
    }
}

/// A place where a library may be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Candidate {
    pub path: PathBuf,
    /// Why it was looked at: `ORT_DYLIB_PATH`, `python package`.
    pub origin: String,
}

/// An opened runtime.
pub trait Runtime {
    /// Version, build and providers; the file's hash is the daemon's to know and left as given.
    fn facts(&self) -> RuntimeFacts;

    /// Reads and prepares the model. Where a runtime compiles while loading, that is part of it.
    fn load(self: Box<Self>, job: &Job) -> Result<Box<dyn Model>, Failure>;
}

/// A loaded model.
pub trait Model {
    /// Inputs and outputs, with the dimensions this job gives them.
    fn info(&self) -> &ModelInfo;

    /// Settings as the runtime reports them back, beside what was asked.
    fn effective(&self) -> Vec<Effective> {
        Vec::new()
    }

    /// Compiles, where that is a step of its own; false where it is not.
    fn compile(&mut self) -> Result<bool, Failure> {
        Ok(false)
    }

    /// Places the inputs, and the outputs where their size is known.
    fn bind(self: Box<Self>, inputs: InputSets, job: &Job) -> Result<Box<dyn Runner>, Failure>;
}

/// A model with everything bound.
pub trait Runner {
    /// Columns after the fixed ones, in the order [`Runner::run`] fills them.
    fn columns(&self) -> Vec<ColumnSpec> {
        Vec::new()
    }

    /// Makes the inputs of a trial ready, outside the region.
    fn prepare(&mut self, _trial: u64) -> Result<(), Failure> {
        Ok(())
    }

    /// One call into the backend: the region. `extra` has one cell for each own column, all null.
    ///
    /// # Errors
    /// What the backend reports; the trial is then a row with status error. Only an error allocates.
    fn run(&mut self, extra: &mut [i64]) -> Result<(), Failure>;

    /// Outputs of the last trial, copied.
    fn outputs(&mut self) -> Result<Vec<Tensor>, Failure>;
}
