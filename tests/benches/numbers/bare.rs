//! `bare`: does measuring with all of ours around it change what is measured?
//!
//! Three arms, each a fresh process on the same CPU: a bare loop over the same C interface, `edgedyno
//! run`, and the bare loop again as the control. Every round has all three, in another order.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use edgedyno::stats::quantile;
use edgedyno_tests::Sandbox;
use edgedyno_tests::bench::{Beside, Figure, Goal, Interval};
use edgedyno_tests::clock::Deadline;
use edgedyno_tests::runtime;

use crate::Effort;
use crate::measured::{run, sandbox};

const MODELS: [&str; 2] = ["squeezenet", "shufflenet"];

/// The input of every light model.
const INPUT_VALUES: usize = 3 * 224 * 224;

/// The precision at which a round more would tell nothing: an interval this wide around 1 is inside
/// the limits. Stopping on the width alone, and not on the verdict, keeps the interval honest.
const HALF_WIDTH: f64 = 0.0025;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Arm {
    Bare,
    Ours,
    Control,
}

/// Every order once in six rounds, so that a drift of the machine meets all arms alike.
const ORDERS: [[Arm; 3]; 6] = [
    [Arm::Bare, Arm::Ours, Arm::Control],
    [Arm::Control, Arm::Ours, Arm::Bare],
    [Arm::Ours, Arm::Bare, Arm::Control],
    [Arm::Control, Arm::Bare, Arm::Ours],
    [Arm::Bare, Arm::Control, Arm::Ours],
    [Arm::Ours, Arm::Control, Arm::Bare],
];

pub(crate) fn measure(effort: Effort) -> Result<Vec<Figure>> {
    let library = runtime::onnxruntime().context("there is no ONNX Runtime here")?;
    let models = &MODELS[..effort.choose(1, 2)];
    let figures = models.iter().map(|name| {
        let model = runtime::light_model(name).context("there are no models here")?;
        Campaign::new(&library, &model, effort)?.figure(name, effort)
    });
    figures.collect()
}

struct Campaign {
    sandbox: Sandbox,
    library: String,
    model: String,
    input: String,
    cpu: String,
    warmup_ms: u32,
    window_ms: u32,
}

impl Campaign {
    fn new(library: &Path, model: &Path, effort: Effort) -> Result<Self> {
        let sandbox = sandbox();
        let input = sandbox.write("input.raw", normal_values());
        let text = |path: PathBuf| path.into_os_string().into_string();
        let text = |path: &Path| text(path.to_owned()).ok().context("a path is text");
        // The last one: interrupts like the first.
        let cpus = std::thread::available_parallelism()?.get();
        Ok(Self {
            library: text(library)?,
            model: text(model)?,
            input: text(&input)?,
            sandbox,
            cpu: (cpus - 1).to_string(),
            warmup_ms: effort.choose(100, 500),
            window_ms: effort.choose(300, 2000),
        })
    }

    fn figure(&self, name: &str, effort: Effort) -> Result<Figure> {
        let limit = Deadline::after(Duration::from_secs_f64(effort.minutes * 60.0));
        let (mut ratios, mut control) = (Vec::new(), Vec::new());
        let (mut bare, mut ours) = (Vec::new(), Vec::new());
        for order in ORDERS.iter().cycle().take(effort.choose(2, usize::MAX)) {
            let mut p50 = [0.0; 3];
            for arm in order {
                p50[*arm as usize] = self.p50(*arm)?;
            }
            ratios.push(p50[Arm::Ours as usize] / p50[Arm::Bare as usize]);
            control.push(p50[Arm::Control as usize] / p50[Arm::Bare as usize]);
            bare.push(p50[Arm::Bare as usize] / 1e6);
            ours.push(p50[Arm::Ours as usize] / 1e6);
            let is_narrow = Interval::over(&ratios).is_some_and(|i| i.half_width() <= HALF_WIDTH);
            if ratios.len() >= ORDERS.len() && is_narrow || limit.is_over() {
                break;
            }
        }
        Ok(Figure {
            name: "bare",
            what: format!("p50 of light_{name} by `edgedyno run`, as a ratio to the bare loop"),
            unit: "",
            samples: ratios,
            goal: Goal::Between(0.995, 1.005),
            control,
            beside: vec![
                Beside::new("p50 of the bare loop", "ms", bare),
                Beside::new("p50 of `edgedyno run`", "ms", ours),
            ],
        })
    }

    /// In nanoseconds, from one fresh process.
    fn p50(&self, arm: Arm) -> Result<f64> {
        let durations = match arm {
            Arm::Bare | Arm::Control => self.bare()?,
            Arm::Ours => self.ours()?,
        };
        quantile::of(&durations, 0.5).context("the window has trials")
    }

    fn bare(&self) -> Result<Vec<i64>> {
        let (warmup, window) = (self.warmup_ms.to_string(), self.window_ms.to_string());
        // In a session of its own, as the agent and its workers are: the kernel shares a busy CPU among
        // sessions first, and only then among their processes.
        let words = [
            "--wait",
            env!("CARGO_BIN_EXE_bare_loop"),
            &self.library,
            &self.model,
            &self.input,
            &self.cpu,
            &warmup,
            &window,
        ];
        let output = self.sandbox.start("setsid", words).wait();
        let lines = output.ok().stdout;
        let durations = lines.lines().map(str::parse);
        Ok(durations.collect::<Result<_, _>>()?)
    }

    fn ours(&self) -> Result<Vec<i64>> {
        let (warmup, window) = (
            format!("{}ms", self.warmup_ms),
            format!("{}ms", self.window_ms),
        );
        let words = [
            &self.model,
            "--backend",
            "onnxruntime",
            "--runtime",
            &self.library,
            "--input",
            &self.input,
            "--cpus",
            &self.cpu,
            "--threads",
            "1",
            "--warmup",
            &warmup,
            "--duration",
            &window,
            "--repeat",
            "1",
        ];
        let view = run(&self.sandbox, &words)?.view;
        let repeat = view.repeats.into_iter().next().context("a repeat")?;
        ensure!(
            repeat.row.counts,
            "the repeat failed: {:?}",
            repeat.row.failure
        );
        Ok(repeat.trials.measured)
    }
}

/// Values with mean 0 and deviation 1 as f32, the same each time: sums of uniform draws.
fn normal_values() -> Vec<u8> {
    let mut random = 1_u64;
    let mut uniform = || {
        random = random
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        (random >> 40) as f32 / (1 << 24) as f32
    };
    let values = (0..INPUT_VALUES).map(|_| (0..12).map(|_| uniform()).sum::<f32>() - 6.0);
    values.flat_map(f32::to_le_bytes).collect()
}
