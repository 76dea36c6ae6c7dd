//! `plan` and `list`: planning very many cases, and a store that many repeats lie in.

use anyhow::Result;
use edgedyno::plan::sweep::expand::expand;
use edgedyno::plan::sweep::file;
use edgedyno::store::Store;
use edgedyno_agent::clock::{Clock as _, Monotonic};
use edgedyno_tests::bench::{Beside, Figure, Goal, neighbours};

use crate::Effort;
use crate::ingest::{CASE, RUN, begin, header, payloads};
use crate::measured::sandbox;

/// 100 threads by 1 000 batches.
const AXES: (u32, u32) = (100, 1000);

/// The whole command that shows a plan: file read, board asked, cases keyed, order laid out.
pub(crate) fn measure_plan(effort: Effort) -> Result<Vec<Figure>> {
    let sandbox = sandbox();
    let list = |last: u32| {
        let numbers: Vec<String> = (1..=last).map(|n| n.to_string()).collect();
        numbers.join(", ")
    };
    let text = format!(
        "[axes]\nmodel = 'no.model'\nbackend = 'fake'\nthreads = [{}]\nbatch = [{}]\n",
        list(AXES.0),
        list(AXES.1)
    );
    sandbox.write("no.model", "nothing");
    let path = sandbox.write("plan.toml", &text);
    let (mut commands, mut expanded) = (Vec::new(), Vec::new());
    for _ in 0..effort.choose(3, 12) {
        let output = sandbox.edgedyno(["sweep", "plan.toml", "--dry-run"]);
        commands.push(output.ok().elapsed.as_secs_f64());
        let begin = Monotonic.now();
        let points = expand(&file::parse(&path, &text)?)?;
        std::hint::black_box(points);
        expanded.push((Monotonic.now() - begin).as_secs_f64());
    }
    Ok(vec![Figure {
        name: "plan",
        what: format!(
            "`edgedyno sweep --dry-run` of {} cases, start to end",
            AXES.0 * AXES.1
        ),
        unit: "s",
        control: neighbours(&commands),
        samples: commands,
        goal: Goal::AtMost(1.0),
        beside: vec![Beside::new("reading and expanding alone", "s", expanded)],
    }])
}

/// The list of runs, where one of them has ten thousand repeats.
pub(crate) fn measure_list(effort: Effort) -> Result<Vec<Figure>> {
    let sandbox = sandbox();
    let repeats = effort.choose(1_000, 10_000);
    let payloads = payloads(50)?;
    let mut store = Store::open_writing(&sandbox.store())?;
    begin(&store, RUN, &[CASE])?;
    for repeat in 0..repeats {
        let header = header(&store, RUN, CASE, repeat)?;
        let mut segment = store.segment(&header)?;
        for payload in &payloads {
            segment.record(payload)?;
        }
        segment.commit()?;
    }
    drop(store);
    let list = |_| {
        let output = sandbox.edgedyno(["runs", "list", "--json"]);
        output.ok().elapsed.as_secs_f64()
    };
    let commands: Vec<f64> = (0..effort.choose(3, 20)).map(list).collect();
    Ok(vec![Figure {
        name: "list",
        what: format!("`edgedyno runs list` of a store with {repeats} repeats, start to end"),
        unit: "s",
        control: neighbours(&commands),
        samples: commands,
        goal: Goal::AtMost(0.3),
        beside: Vec::new(),
    }])
}
