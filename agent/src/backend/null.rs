//! `null`: does nothing. What a trial of it takes is the loop's own cost.

use std::path::Path;

use edgedyno_shared::device::RuntimeFacts;
use edgedyno_shared::repeat::ModelInfo;
use edgedyno_shared::wire::failure::Failure;

use super::{Backend, Model, Runner, Runtime};
use crate::inputs::{InputSets, Tensor};
use crate::worker::job::Job;

/// The backend that does nothing.
pub struct Null;

impl Backend for Null {
    fn name(&self) -> &'static str {
        "null"
    }

    fn summary(&self) -> &'static str {
        "does nothing: shows the cost of the loop itself"
    }

    fn simulated(&self) -> bool {
        true
    }

    fn built_in(&self) -> bool {
        true
    }

    fn names_no_file(&self, _key: &str, _value: &str) -> bool {
        true
    }

    fn formats(&self) -> &'static [&'static str] {
        &[]
    }

    fn open(&self, _library: Option<&Path>) -> Result<Box<dyn Runtime>, Failure> {
        Ok(Box::new(Nothing { info: no_tensors() }))
    }
}

struct Nothing {
    info: ModelInfo,
}

/// A model without inputs and outputs.
pub(super) fn no_tensors() -> ModelInfo {
    ModelInfo {
        inputs: Vec::new(),
        outputs: Vec::new(),
        facts: Vec::new(),
    }
}

/// Facts of a runtime that is part of the agent.
pub(super) fn own_facts() -> RuntimeFacts {
    RuntimeFacts {
        version: edgedyno_shared::VERSION.into(),
        sha256: None,
        build: Some(crate::BUILD_ID.into()),
        build_id: None,
        providers: Vec::new(),
    }
}

impl Runtime for Nothing {
    fn facts(&self) -> RuntimeFacts {
        own_facts()
    }

    fn load(self: Box<Self>, _job: &Job) -> Result<Box<dyn Model>, Failure> {
        Ok(self)
    }
}

impl Model for Nothing {
    fn info(&self) -> &ModelInfo {
        &self.info
    }

    fn bind(self: Box<Self>, _inputs: InputSets, _job: &Job) -> Result<Box<dyn Runner>, Failure> {
        Ok(self)
    }
}

impl Runner for Nothing {
    #[inline]
    fn run(&mut self, _extra: &mut [i64]) -> Result<(), Failure> {
        Ok(())
    }

    fn outputs(&mut self) -> Result<Vec<Tensor>, Failure> {
        Ok(Vec::new())
    }
}
