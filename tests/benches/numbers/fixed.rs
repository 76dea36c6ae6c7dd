//! `fixed`: what `run` and each repeat cost beyond loading and measuring.

use std::time::Duration;

use anyhow::{Context as _, Result};
use edgedyno::store::RepeatRow;
use edgedyno::store::rows::StageName;
use edgedyno_tests::Sandbox;
use edgedyno_tests::bench::{Beside, Figure, Goal, neighbours};
use edgedyno_tests::clock::Deadline;

use crate::Effort;
use crate::measured::{run, sandbox};

const WORDS: [&str; 7] = [
    "no.model",
    "--backend",
    "null",
    "--warmup",
    "20",
    "--trials",
    "1000",
];

pub(crate) fn measure(effort: Effort) -> Result<Vec<Figure>> {
    let sandbox = sandbox();
    let once = [&WORDS[..], &["--repeat", "1"]].concat();
    // The first use makes store, state folder and caches.
    run(&sandbox, &once)?;
    let (mut started, mut found, mut walls) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..effort.choose(2, 12) {
        wait_until_daemon_left(&sandbox)?;
        for costs in [&mut started, &mut found] {
            let measured = run(&sandbox, &once)?;
            let repeat = measured.view.repeats.first().context("a repeat")?;
            let wall = measured.wall.as_secs_f64() * 1e3;
            costs.push(wall - worked_ms(&repeat.row));
            walls.push(wall);
        }
    }
    let several = [&WORDS[..], &["--repeat", effort.choose("5", "21")]].concat();
    let repeats = run(&sandbox, &several)?.view.repeats;
    let costs: Vec<f64> = repeats
        .windows(2)
        .map(|pair| {
            let [begin, next] = [&pair[0], &pair[1]].map(|repeat| began_ms(&repeat.row));
            Ok(next? - begin? - worked_ms(&pair[0].row))
        })
        .collect::<Result<_>>()?;
    Ok(vec![
        Figure {
            name: "fixed",
            what: "`run` on local beyond load and measurement, the daemon started by it".into(),
            unit: "ms",
            control: neighbours(&started),
            samples: started,
            goal: Goal::AtMost(150.0),
            beside: vec![Beside::new(
                "the same with the daemon there already",
                "ms",
                found,
            )],
        },
        Figure {
            name: "fixed",
            what: "each further repeat of a run beyond load and measurement".into(),
            unit: "ms",
            control: neighbours(&costs),
            samples: costs,
            goal: Goal::AtMost(30.0),
            beside: Vec::new(),
        },
    ])
}

/// A daemon started on demand leaves by itself some seconds after the last run.
fn wait_until_daemon_left(sandbox: &Sandbox) -> Result<()> {
    Deadline::after(Duration::from_secs(30))
        .poll(|| sandbox.processes().is_empty().then_some(()))
        .context("the daemon left by itself")
}

/// Time in stages that the user asked for; taking down is on us.
fn worked_ms(repeat: &RepeatRow) -> f64 {
    let asked = repeat
        .stages
        .iter()
        .filter(|span| span.stage != StageName::Teardown);
    asked
        .map(|span| (span.end_ns - span.start_ns) as f64 / 1e6)
        .sum()
}

fn began_ms(repeat: &RepeatRow) -> Result<f64> {
    let start = repeat
        .start
        .as_ref()
        .context("a repeat says when it began")?;
    Ok(start.mono_ns as f64 / 1e6)
}
