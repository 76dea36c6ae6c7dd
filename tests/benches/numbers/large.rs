//! `large`: the summary of ten million trials, and the memory it takes.

use anyhow::{Context as _, Result};
use edgedyno::store::Store;
use edgedyno_shared::ids::Sha256;
use edgedyno_tests::Sandbox;
use edgedyno_tests::bench::{Figure, Goal, neighbours};

use crate::Effort;
use crate::ingest::{begin, header, payloads};

const CASE: Sha256 = Sha256([2; 32]);
const TRIALS: u32 = 200_000;

/// A run of one case with ten million trials.
pub(crate) struct Large {
    pub(crate) sandbox: Sandbox,
    pub(crate) trials: u32,
}

impl Large {
    pub(crate) fn make(effort: Effort) -> Result<Self> {
        let sandbox = Sandbox::new();
        let repeats = effort.choose(5, 50);
        let mut store = Store::open_writing(&sandbox.store())?;
        begin(&store, "bench", &[CASE])?;
        let payloads = payloads(TRIALS)?;
        for repeat in 0..repeats {
            let header = header(&store, "bench", CASE, repeat)?;
            let mut segment = store.segment(&header)?;
            payloads
                .iter()
                .try_for_each(|payload| segment.record(payload).map(drop))?;
            segment.commit()?;
        }
        Ok(Self {
            sandbox,
            trials: repeats * TRIALS,
        })
    }

    /// Seconds from start to end of a command, and the megabytes it takes, again and again.
    pub(crate) fn run(&self, effort: Effort, line: &[&str]) -> Result<(Vec<f64>, Vec<f64>)> {
        let (mut seconds, mut megabytes) = (Vec::new(), Vec::new());
        for _ in 0..effort.choose(2, 10) {
            seconds.push(self.sandbox.edgedyno(line).ok().elapsed.as_secs_f64());
            megabytes.push(peak(&self.sandbox, line)?);
        }
        Ok((seconds, megabytes))
    }
}

pub(crate) fn measure(effort: Effort) -> Result<Vec<Figure>> {
    let large = Large::make(effort)?;
    let (seconds, megabytes) = large.run(effort, &["summary", "last", "--json", "--force"])?;
    let what = format!("`edgedyno summary` of {} stored trials", large.trials);
    Ok(vec![
        figure("large", format!("{what}, start to end"), "s", seconds, 2.0),
        figure(
            "large (memory)",
            format!("{what}, largest resident set"),
            "MB",
            megabytes,
            500.0,
        ),
    ])
}

pub(crate) fn figure(
    name: &'static str,
    what: String,
    unit: &'static str,
    samples: Vec<f64>,
    most: f64,
) -> Figure {
    Figure {
        name,
        what,
        unit,
        control: neighbours(&samples),
        samples,
        goal: Goal::AtMost(most),
        beside: Vec::new(),
    }
}

/// Largest resident set of a command in megabytes, as the kernel tells its parent.
pub(crate) fn peak(sandbox: &Sandbox, line: &[&str]) -> Result<f64> {
    let script = "import resource, subprocess, sys\n\
                  subprocess.run(sys.argv[1:], stdout=subprocess.DEVNULL)\n\
                  print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)";
    let program = edgedyno_tests::binaries()
        .host
        .to_string_lossy()
        .into_owned();
    let words = ["-c", script, &program]
        .into_iter()
        .chain(line.iter().copied());
    let output = sandbox.start("python3", words).wait().ok().stdout;
    let kib: f64 = output.trim().parse().context("a number of KiB")?;
    Ok(kib * 1024.0 / 1e6)
}
