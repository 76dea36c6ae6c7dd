//! `fake`: a scripted stand-in, to test everything around a backend without one.
//!
//! [`script`] reads what it shall do from options; `runner` does it. All it measures is marked
//! simulated wherever it shows.

use std::path::Path;

use edgedyno_shared::device::RuntimeFacts;
use edgedyno_shared::repeat::{Effective, ModelInfo, Stage};
use edgedyno_shared::wire::failure::{Failure, FailureCode};

use super::null::{no_tensors, own_facts};
use super::{Backend, Model, Runner, Runtime};
use crate::inputs::InputSets;
use crate::worker::job::Job;

mod faults;
mod runner;
pub mod script;

use script::Script;

/// The scripted backend.
pub struct Fake;

impl Backend for Fake {
    fn name(&self) -> &'static str {
        "fake"
    }

    fn summary(&self) -> &'static str {
        "scripted latencies, phases and faults: for tests of the tool"
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
        Ok(Box::new(FakeRuntime))
    }
}

struct FakeRuntime;

impl Runtime for FakeRuntime {
    fn facts(&self) -> RuntimeFacts {
        own_facts()
    }

    fn load(self: Box<Self>, job: &Job) -> Result<Box<dyn Model>, Failure> {
        let script = Script::from_options(&job.order.case.options)?;
        script.fault_in(Stage::Load, job.order.limits.memory)?;
        let threads = script.threads.unwrap_or(job.order.case.threads.intra);
        for _ in 1..threads {
            std::thread::spawn(std::thread::park);
        }
        if let Some(seconds) = script.child_seconds {
            let child = std::process::Command::new("sleep")
                .arg(seconds.to_string())
                .spawn();
            child.map_err(|why| Failure::new(FailureCode::LoadFailed, why.to_string()))?;
        }
        let requested = job.order.case.threads.intra;
        Ok(Box::new(FakeModel {
            requested,
            info: no_tensors(),
            script,
            threads,
        }))
    }
}

struct FakeModel {
    info: ModelInfo,
    script: Script,
    threads: u32,
    requested: u32,
}

impl Model for FakeModel {
    fn info(&self) -> &ModelInfo {
        &self.info
    }

    fn effective(&self) -> Vec<Effective> {
        vec![Effective {
            name: "threads".into(),
            requested: Some(self.requested.to_string()),
            observed: Some(self.threads.to_string()),
        }]
    }

    fn compile(&mut self) -> Result<bool, Failure> {
        self.script.fault_in(Stage::Compile, None)?;
        Ok(self.script.compiles)
    }

    fn bind(self: Box<Self>, _inputs: InputSets, job: &Job) -> Result<Box<dyn Runner>, Failure> {
        self.script.fault_in(Stage::Bind, job.order.limits.memory)?;
        let items = u64::from(job.order.case.batch.unwrap_or(1));
        // Written and not only reserved, so that it counts as resident.
        let held = vec![1; (items * self.script.item_bytes) as usize];
        Ok(Box::new(runner::FakeRunner::new(
            self.script,
            job.order.limits.memory,
            held,
        )))
    }
}
