//! `loop`: from the start of one trial to the start of the next, with a backend that does nothing.

use anyhow::{Context as _, Result};
use edgedyno::stats::quantile;
use edgedyno_agent::clock::{Clock as _, Monotonic};
use edgedyno_shared::columns::Role;
use edgedyno_tests::bench::{Beside, Figure, Goal, neighbours};

use crate::Effort;
use crate::measured::{run, sandbox};

/// Pairs of clock reads that are timed together; one pair is too short to time.
const BLOCK: usize = 1000;

pub(crate) fn measure(effort: Effort) -> Result<Vec<Figure>> {
    let trials = effort.choose("100000", "1000000");
    let sandbox = sandbox();
    let (mut periods, mut reads) = (Vec::new(), Vec::new());
    for _ in 0..effort.choose(4, 12) {
        let words = [
            "no.model",
            "--backend",
            "null",
            "--warmup",
            "1000",
            "--repeat",
            "1",
        ];
        let measured = run(&sandbox, &[&words[..], &["--trials", trials]].concat())?;
        let columns = measured.columns()?;
        let starts = columns.column("start_ns").context("start_ns is a column")?;
        let window: Vec<i64> = columns
            .trials_of(Role::Measure)
            .map(|at| starts[at])
            .collect();
        let steps: Vec<i64> = window.windows(2).map(|pair| pair[1] - pair[0]).collect();
        periods.push(quantile::of(&steps, 0.5).context("the window has trials")?);
        reads.push(two_clock_reads().context("blocks were timed")?);
    }
    Ok(vec![Figure {
        name: "loop",
        what: format!(
            "median period of the timed loop with null over {trials} trials, each n one process"
        ),
        unit: "ns",
        control: neighbours(&periods),
        samples: periods,
        goal: Goal::AtMost(100.0),
        beside: vec![Beside::new("two clock reads", "ns", reads)],
    }])
}

/// Median over blocks of what two reads of the agent's clock cost.
fn two_clock_reads() -> Option<f64> {
    let block = |_| {
        let begin = Monotonic.now();
        for _ in 0..BLOCK {
            std::hint::black_box((Monotonic.now(), Monotonic.now()));
        }
        (Monotonic.now() - begin).0
    };
    let blocks: Vec<i64> = (0..1000).map(block).collect();
    Some(quantile::of(&blocks, 0.5)? / BLOCK as f64)
}
