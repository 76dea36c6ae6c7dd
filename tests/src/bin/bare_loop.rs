//! The loop that `bare` compares with: the same calls of ONNX Runtime, and nothing of ours around
//! them. Prints the nanoseconds of each run of its window, one a line.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context as _, Result, bail, ensure};
use edgedyno_agent::clock::{Clock as _, Monotonic};
use edgedyno_shared::units::Nanos;
use edgedyno_sys::kernel::process::set_affinity;
use edgedyno_sys::vendor::onnxruntime::{OnnxRuntime, OutputChoice, SessionConfig};
use edgedyno_sys::vendor::tensor::Tensor;
use edgedyno_sys::vendor::value::{Dim, ValueInfo, ValueKind};

/// More runs than any window holds.
const CAPACITY: usize = 1 << 20;

const USAGE: &str = "usage: bare_loop LIBRARY MODEL INPUT CPU WARMUP_MS WINDOW_MS";

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            let _ = writeln!(std::io::stderr(), "error: {why:#}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<()> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [library, model, input, cpu, warmup, window] = words.as_slice() else {
        bail!(USAGE);
    };
    let [library, model, input] = [library, model, input].map(PathBuf::from);
    let [warmup, window] = [warmup.parse()?, window.parse()?].map(Nanos::from_millis);

    // As a worker does: placed before the library is opened, the model read before it is loaded.
    set_affinity(0, &[cpu.parse()?])?;
    std::fs::read(&model)?;
    let runtime = OnnxRuntime::open(&library)?;
    let config = SessionConfig {
        inter_threads: Some(1),
        ..SessionConfig::default()
    };
    let session = runtime.session(&config, &model)?;
    let [only] = session.inputs() else {
        bail!("a model with one input is needed");
    };
    let bound = (only.name.clone(), tensor(only, &input)?);
    let mut binding = session.bind(vec![bound], OutputChoice::All)?;

    let mut durations = vec![0; CAPACITY];
    let begin = Monotonic.now();
    while Monotonic.now() - begin < warmup {
        binding.run()?;
    }
    let mut runs = 0;
    let begin = Monotonic.now();
    loop {
        let start = Monotonic.now();
        binding.run()?;
        let end = Monotonic.now();
        durations[runs] = (end - start).0;
        runs += 1;
        if end - begin >= window || runs == CAPACITY {
            break;
        }
    }

    let lines = durations[..runs].iter().map(|took| format!("{took}\n"));
    Ok(std::io::stdout().write_all(lines.collect::<String>().as_bytes())?)
}

/// The file's bytes as a tensor of the shape that the model fixes.
fn tensor(input: &ValueInfo, file: &Path) -> Result<Tensor> {
    let ValueKind::Tensor { element, dims } = &input.kind else {
        bail!("{} is no tensor", input.name);
    };
    let shape = dims.iter().map(|dim| match dim {
        Dim::Fixed(size) => Some(*size),
        Dim::Named(_) | Dim::Unknown => None,
    });
    let shape: Vec<u64> = shape.collect::<Option<_>>().context("the shape is open")?;
    let bytes = std::fs::read(file)?;
    ensure!(!bytes.is_empty(), "{} is empty", file.display());
    Ok(Tensor::from_bytes(*element, &shape, &bytes)?)
}
