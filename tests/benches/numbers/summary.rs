//! `summary`: the command on a million stored trials, and its inner part alone.

use anyhow::Result;
use edgedyno::store::Store;
use edgedyno::summary::{summarise, to_json};
use edgedyno::view::CaseView;
use edgedyno_agent::clock::{Clock as _, Monotonic};
use edgedyno_tests::bench::{Beside, Figure, Goal, neighbours};

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
    let (mut commands, mut library) = (Vec::new(), Vec::new());
    for _ in 0..effort.choose(3, 20) {
        let output = sandbox.edgedyno(["summary", "last", "--json", "--force"]);
        commands.push(output.ok().elapsed.as_secs_f64());
        let begin = Monotonic.now();
        let store = Store::open_reading(&sandbox.store())?;
        let summary = summarise(&CaseView::read(&store, run, case)?);
        std::hint::black_box(to_json(&[summary]).to_string());
        library.push((Monotonic.now() - begin).as_secs_f64());
    }
    let repeats = measured.view.repeats.iter();
    let trials: u64 = repeats.map(|repeat| repeat.trials.all).sum();
    Ok(vec![Figure {
        name: "summary",
        what: format!("`edgedyno summary` of {trials} stored trials, start to end"),
        unit: "s",
        control: neighbours(&commands),
        samples: commands,
        goal: Goal::AtMost(0.3),
        beside: vec![Beside::new("reading and statistics alone", "s", library)],
    }])
}
