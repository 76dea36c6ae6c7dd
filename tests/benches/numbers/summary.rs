//! `summary`: from stored trials to the figures that are printed.

use anyhow::Result;
use edgedyno::store::Store;
use edgedyno::summary::{summarise, to_json};
use edgedyno::view::CaseView;
use edgedyno_agent::clock::{Clock as _, Monotonic};
use edgedyno_tests::bench::{Figure, Goal, neighbours};

use crate::Effort;
use crate::measured::{run, sandbox};

pub(crate) fn measure(effort: Effort) -> Result<Vec<Figure>> {
    let sandbox = sandbox();
    let measured = run(
        &sandbox,
        &[
            "no.model",
            "--backend",
            "fake",
            "--option",
            "latency_us=5",
            "--option",
            "jitter_percent=3",
            "--warmup",
            "20",
            "--trials",
            "200000",
            "--repeat",
            effort.choose("1", "5"),
        ],
    )?;
    let (run, case) = (&measured.view.run.id, measured.view.entry.key);
    let mut times = Vec::new();
    for _ in 0..effort.choose(2, 10) {
        let begin = Monotonic.now();
        let store = Store::open_reading(&sandbox.store())?;
        let summary = summarise(&CaseView::read(&store, run, case)?);
        std::hint::black_box(to_json(&[summary]).to_string());
        times.push((Monotonic.now() - begin).as_secs_f64());
    }
    let trials: u64 = measured
        .view
        .repeats
        .iter()
        .map(|repeat| repeat.trials.all)
        .sum();
    Ok(vec![Figure {
        name: "summary",
        what: format!("summary of {trials} stored trials: read, worked out and written as JSON"),
        unit: "s",
        control: neighbours(&times),
        samples: times,
        goal: Goal::AtMost(0.3),
        beside: Vec::new(),
    }])
}
