//! Cases and conduct of the commands that choose both themselves: one stream of trials on generated inputs.

use edgedyno_shared::case::{
    Case, Condition, Generator, InputPolicy, InputSource, InputSpec, Io, ModelRef, Scenario,
    Threads,
};
use edgedyno_shared::order::{ColdStart, Limits, OutputWish, Preparation, Rules};
use edgedyno_shared::telemetry::TelemetryMode;
use edgedyno_shared::units::Nanos;

use super::fixed::Conduct;

/// A model on a backend that is built in, with one thread; everything else as nobody asked for it.
pub fn case(board: &str, model: &ModelRef, backend: &str) -> Case {
    Case {
        board: board.into(),
        model: model.clone(),
        backend: backend.into(),
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
        inputs: InputSpec {
            source: InputSource::Generated {
                generator: Generator::Normal,
                seed: 1,
            },
            policy: InputPolicy::Fixed,
        },
    }
}

/// Time-outs for small networks, fresh processes, and no outputs kept.
pub fn conduct(repeats: u32, rules: Rules, seed: u64) -> Conduct {
    Conduct {
        repeats,
        rules,
        limits: Limits {
            load: Nanos::from_secs(30),
            compile: Nanos::from_secs(30),
            trial: Nanos::from_secs(10),
            trial_factor: 50,
            memory: None,
        },
        cold: ColdStart::FreshProcess,
        outputs: OutputWish {
            save: false,
            reference: Vec::new(),
        },
        telemetry: TelemetryMode::Normal,
        preparation: Preparation::default(),
        seed,
    }
}
