//! Jobs for tests.

use std::path::PathBuf;

use edgedyno_shared::case::{
    Case, Condition, Generator, InputFile, InputPolicy, InputSource, InputSpec, Io, ModelRef,
    Scenario, Threads,
};
use edgedyno_shared::ids::{RunId, Sha256};
use edgedyno_shared::load::Load;
use edgedyno_shared::order::{
    ColdStart, Limits, OrderKey, OutputWish, Pass, Preparation, RepeatOrder, Rules, StopRule,
    WarmupRule,
};
use edgedyno_shared::telemetry::TelemetryMode;
use edgedyno_shared::units::Nanos;
use sha2::Digest;

use crate::worker::job::Job;

/// A job for generated inputs that no test's values depend on.
pub(crate) fn job() -> Job {
    let source = InputSource::Generated {
        generator: Generator::Normal,
        seed: 1,
    };
    job_with_inputs(InputSpec {
        source,
        policy: InputPolicy::Fixed,
    })
}

pub(crate) fn job_with_inputs(inputs: InputSpec) -> Job {
    let zero = Sha256([0; 32]);
    let case = Case {
        board: "local".into(),
        model: ModelRef {
            name: "m.onnx".into(),
            sha256: zero,
        },
        backend: "rten".into(),
        runtime: None,
        options: Vec::new(),
        parameters: Vec::new(),
        shapes: Vec::new(),
        batch: None,
        threads: Threads { intra: 1, inter: 1 },
        cpus: None,
        precision: None,
        scenario: Scenario::Single,
        io: Io::Resident,
        condition: Condition::idle(),
        tenants: Vec::new(),
        inputs,
    };
    let key = OrderKey {
        run: RunId("r".into()),
        case: zero,
        repeat: 0,
        attempt: 1,
        pass: Pass::Honest,
    };
    let second = Nanos(1_000_000_000);
    let order = RepeatOrder {
        key,
        case,
        rules: Rules {
            warmup: WarmupRule {
                min_trials: 1,
                min_time: second,
                max_time: second,
                until_steady: false,
            },
            measure: StopRule {
                duration: second,
                min_trials: 1,
                max_trials: 10,
            },
        },
        limits: Limits {
            load: second,
            compile: second,
            trial: second,
            trial_factor: 50,
            memory: None,
        },
        cold: ColdStart::FreshProcess,
        outputs: OutputWish {
            save: false,
            reference: Vec::new(),
        },
        load: Load::default(),
        telemetry: TelemetryMode::Off,
        preparation: Preparation::default(),
    };
    Job {
        model_files: Vec::new(),
        order,
        model: None,
        library: None,
        files: Vec::new(),
        cpus: vec![0],
    }
}

/// Files of a job, in a folder that lives as long as this.
pub(crate) struct Files {
    folder: tempfile::TempDir,
    files: Vec<(Sha256, PathBuf)>,
}

impl Default for Files {
    fn default() -> Self {
        Self {
            folder: tempfile::tempdir().unwrap(),
            files: Vec::new(),
        }
    }
}

impl Files {
    pub(crate) fn add(&mut self, input: &str, content: &[u8]) -> InputFile {
        let sha256 = Sha256(sha2::Sha256::digest(content).into());
        let path = self.folder.path().join(sha256.to_string());
        std::fs::write(&path, content).unwrap();
        self.files.push((sha256, path));
        InputFile {
            input: input.into(),
            sha256,
        }
    }

    pub(crate) fn job(&self) -> Job {
        Job {
            files: self.files.clone(),
            ..job()
        }
    }

    pub(crate) fn job_with_sets(&self, sets: Vec<Vec<InputFile>>) -> Job {
        let mut job = self.job();
        job.order.case.inputs.source = InputSource::Files { sets };
        job
    }
}
