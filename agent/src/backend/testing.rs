//! Runs a backend in a test the way a worker does.

use std::path::PathBuf;

use edgedyno_shared::case::InputSource;
use edgedyno_shared::wire::failure::Failure;

use super::{Backend, Runner};
use crate::inputs::testing::{Files, job};
use crate::inputs::{InputSets, Tensor};
use crate::worker::job::Job;

/// A model file and a job for it.
pub(crate) struct Setup {
    pub(crate) job: Job,
    files: Files,
    _folder: tempfile::TempDir,
}

impl Setup {
    /// The file has no ending, as a model named by its hash.
    pub(crate) fn new(model: &[u8]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path: PathBuf = folder.path().join("0123abcd");
        std::fs::write(&path, model).unwrap();
        let job = Job {
            model: Some(path),
            ..job()
        };
        Self {
            job,
            files: Files::default(),
            _folder: folder,
        }
    }

    /// Makes these bytes the one set of inputs.
    pub(crate) fn set(&mut self, inputs: &[(&str, &[u8])]) {
        let set = inputs
            .iter()
            .map(|(name, bytes)| self.files.add(name, bytes))
            .collect();
        self.job.order.case.inputs.source = InputSource::Files { sets: vec![set] };
        self.job.files = self.files.job().files;
    }

    pub(crate) fn raw_input(&mut self, name: &str, values: &[f32]) {
        let bytes: Vec<u8> = values.iter().flat_map(|v| v.to_le_bytes()).collect();
        self.set(&[(name, &bytes)]);
    }
}

/// From the backend to a runner with everything bound.
pub(crate) fn bind(backend: &dyn Backend, job: &Job) -> Result<Box<dyn Runner>, Failure> {
    let mut model = backend.open(job.library.as_deref())?.load(job)?;
    model.compile()?;
    let inputs = InputSets::for_job(&model.info().inputs, job)?;
    model.bind(inputs, job)
}

/// Two trials, and the outputs of the second.
pub(crate) fn run_once(backend: &dyn Backend, job: &Job) -> Result<Vec<Tensor>, Failure> {
    let mut runner = bind(backend, job)?;
    for trial in 0..2 {
        runner.prepare(trial)?;
        let mut extra = vec![0; runner.columns().len()];
        runner.run(&mut extra)?;
    }
    runner.outputs()
}

pub(crate) fn floats(tensor: &Tensor) -> Vec<f32> {
    tensor
        .bytes
        .as_chunks()
        .0
        .iter()
        .map(|c| f32::from_le_bytes(*c))
        .collect()
}
