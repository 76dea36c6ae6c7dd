//! Trials of the fake backend: spins for the scripted time, and reports it exactly as `device_ns`.

use std::io::Write;

use edgedyno_shared::columns::ColumnSpec;
use edgedyno_shared::units::{Bytes, Nanos};
use edgedyno_shared::wire::failure::Failure;

use super::faults;
use super::script::{Script, When};
use crate::backend::Runner;
use crate::clock::{Clock, Monotonic};
use crate::inputs::{DType, Tensor};

pub(super) struct FakeRunner {
    script: Script,
    memory_limit: Option<Bytes>,
    trial: u64,
    random: u64,
    leaked: Vec<Vec<u8>>,
    /// Memory that the batch takes for as long as it runs.
    _held: Vec<u8>,
}

impl FakeRunner {
    pub(super) fn new(script: Script, memory_limit: Option<Bytes>, held: Vec<u8>) -> Self {
        let random = script.seed;
        Self {
            script,
            memory_limit,
            trial: 0,
            random,
            leaked: Vec::new(),
            _held: held,
        }
    }

    /// The latency the script has for the current trial.
    fn latency(&mut self) -> Nanos {
        let base = self.script.latency.0 as f64;
        let drift = self.script.drift_percent / 100.0 * self.trial as f64 / 1000.0;
        let cold = self.script.cold_percent / 100.0 * (1.0 - self.trial as f64 / 10.0).max(0.0);
        // Twelve uniform draws less six: mean 0, variance 1, no tail beyond six.
        let normal = (0..12).map(|_| self.uniform()).sum::<f64>() - 6.0;
        let jitter = self.script.jitter_percent / 100.0 * normal;
        Nanos((base * (1.0 + drift + cold + jitter)).max(0.0) as i64)
    }

    /// splitmix64 (Steele, Lea, Flood 2014), as a number from 0 up to 1.
    fn uniform(&mut self) -> f64 {
        self.random = self.random.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.random;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) >> 11) as f64 / (1_u64 << 53) as f64
    }

    fn flood(&self) {
        let line = [b'~'; 1023];
        for _ in 0..self.script.flood.div_ceil(2 * 1024) {
            for stream in [
                &mut std::io::stdout() as &mut dyn Write,
                &mut std::io::stderr(),
            ] {
                let _ = stream
                    .write_all(&line)
                    .and_then(|()| stream.write_all(b"\n"));
            }
        }
    }
}

impl Runner for FakeRunner {
    fn columns(&self) -> Vec<ColumnSpec> {
        let mut columns = vec![ColumnSpec::new("device_ns", "ns")];
        let phases = ["preprocess_ns", "forward_ns", "postprocess_ns"];
        for i in 0..self.script.phases as usize {
            let name = phases[i % phases.len()];
            let occurrence = (i / phases.len() > 0).then_some((i / phases.len()) as u32);
            columns.push(ColumnSpec {
                occurrence,
                ..ColumnSpec::new(name, "ns")
            });
        }
        for i in 0..self.script.steps {
            columns.push(ColumnSpec {
                occurrence: Some(i),
                ..ColumnSpec::new("step_ns", "ns")
            });
        }
        columns
    }

    fn run(&mut self, extra: &mut [i64]) -> Result<(), Failure> {
        let begin = Monotonic.now();
        if self.trial == 0 {
            self.flood();
        }
        if let Some((fault, When::Trial(at))) = self.script.fault
            && at == self.trial
        {
            faults::commit(fault, self.memory_limit)?;
        }
        let latency = self.latency();
        while Monotonic.now() - begin < latency {
            std::hint::spin_loop();
        }
        extra[0] = latency.0;
        let parts = extra.len() as i64 - 1;
        extra[1..].fill(latency.0 / parts.max(1));
        if self.script.leak > 0 {
            self.leaked.push(vec![1; self.script.leak as usize]);
        }
        self.trial += 1;
        Ok(())
    }

    fn outputs(&mut self) -> Result<Vec<Tensor>, Failure> {
        let value = if self.script.wrong_output {
            f32::NAN
        } else {
            1.0
        };
        Ok(vec![Tensor {
            name: "output".into(),
            dtype: DType::F32,
            shape: vec![2],
            bytes: [value, 2.0]
                .iter()
                .flat_map(|v: &f32| v.to_le_bytes())
                .collect(),
        }])
    }
}
