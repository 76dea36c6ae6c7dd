//! `sampler`: what watching the board costs, by its own count and by what it does to p50.

use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, Result};
use edgedyno::view::{CaseView, RepeatView};
use edgedyno_tests::bench::{Beside, Figure, Goal, neighbours};
use edgedyno_tests::clock::Deadline;

use crate::Effort;
use crate::measured::{run, sandbox};

pub(crate) fn measure(effort: Effort) -> Result<Vec<Figure>> {
    let mut figures = Vec::new();
    for (mode, most, step_ms) in [("normal", 0.5, 100), ("fast", 1.0, 10)] {
        figures.push(cost(effort, mode, most, Duration::from_millis(step_ms))?);
    }
    figures.push(perturbation(effort)?);
    figures.push(live_view(effort)?);
    Ok(figures)
}

/// CPU time of the threads that watch in one mode. Beside it, in turn with it, what a thread costs that does
/// nothing but read one file as often as the fastest channel of that mode is read.
fn cost(effort: Effort, mode: &str, most: f64, step: Duration) -> Result<Figure> {
    let seconds = effort.choose("5s", "60s");
    let words = [
        "no.model",
        "--backend",
        "fake",
        "--warmup",
        "2",
        "--repeat",
        "1",
        "--duration",
        seconds,
        "--telemetry",
        mode,
    ];
    let sandbox = sandbox();
    let (mut costs, mut bare) = (Vec::new(), Vec::new());
    for _ in 0..effort.choose(2, 4) {
        bare.push(one_file(step, Duration::from_secs(effort.choose(2, 15)))?);
        let view = run(&sandbox, &words)?.view;
        costs.extend(view.counting().filter_map(cost_percent));
    }
    Ok(Figure {
        name: "sampler",
        what: format!("CPU of the threads that watch, by their own count over {seconds}, {mode}"),
        unit: "% of a core",
        control: neighbours(&costs),
        samples: costs,
        goal: Goal::AtMost(most),
        beside: vec![Beside::new(
            format!("/proc/stat alone, read every {} ms", step.as_millis()),
            "% of a core",
            bare,
        )],
    })
}

/// CPU time of this thread while it reads one open file in steps, in hundredths of a core.
fn one_file(step: Duration, span: Duration) -> Result<f64> {
    let file = std::fs::File::open("/proc/stat")?;
    let mut bytes = [0; 4096];
    let (spent, began) = (own_cpu_time_ns()?, Deadline::after(span));
    while !began.is_over() {
        std::thread::sleep(step);
        file.read_at(&mut bytes, 0)?;
    }
    Ok((own_cpu_time_ns()? - spent) as f64 / began.elapsed().as_nanos() as f64 * 100.0)
}

fn own_cpu_time_ns() -> Result<u64> {
    first_figure(Path::new("/proc/thread-self/schedstat"))
}

/// CPU time of the whole agent while `top` looks at it once a second, in hundredths of a core.
fn live_view(effort: Effort) -> Result<Figure> {
    let (seconds, times) = (effort.choose(3, 20), effort.choose(2, 3));
    let mut costs = Vec::new();
    for _ in 0..times {
        let sandbox = sandbox();
        let span = format!("{}s", seconds + 10);
        let mut top = sandbox.start_edgedyno(["top", "--for", &span]);
        top.wait_until("the first round", |top| {
            top.stdout_so_far().contains("channels watched")
        });
        let processes = sandbox.processes();
        let agent = processes.iter().find(|(_, line)| line.contains("serve"));
        let (agent, _) = agent.context("an agent is there")?;
        let before = cpu_time_ns(agent.as_raw())?;
        let began = Deadline::after(Duration::MAX);
        std::thread::sleep(Duration::from_secs(seconds));
        let spent = cpu_time_ns(agent.as_raw())? - before;
        costs.push(spent as f64 / began.elapsed().as_nanos() as f64 * 100.0);
    }
    Ok(Figure {
        name: "sampler",
        what: format!("CPU of the agent while `top` looks at it, over {seconds} s"),
        unit: "% of a core",
        control: neighbours(&costs),
        samples: costs,
        goal: Goal::AtMost(1.0),
        beside: Vec::new(),
    })
}

/// CPU time of all threads of a process, by the scheduler's own count.
fn cpu_time_ns(process: i32) -> Result<u64> {
    let mut sum = 0;
    for thread in std::fs::read_dir(format!("/proc/{process}/task"))?.flatten() {
        sum += first_figure(&thread.path().join("schedstat"))?;
    }
    Ok(sum)
}

/// What stands first in a `schedstat`: nanoseconds on a CPU.
fn first_figure(file: &Path) -> Result<u64> {
    let text = std::fs::read_to_string(file)?;
    let first = text.split_whitespace().next().context("a first figure")?;
    Ok(first.parse()?)
}

/// Growth of the threads' own CPU time over the window, in hundredths of a core.
fn cost_percent(repeat: &RepeatView) -> Option<f64> {
    let of = |name: &str| {
        let found = repeat.telemetry.iter().find(|d| d.channel.name == name)?;
        found.per_second()
    };
    // The second thread is there only where something may wait.
    Some((of("sampler.cpu")? + of("sampler_slow.cpu").unwrap_or(0.0)) / 1e7)
}

/// p50 with the board watched over p50 without, pair by pair, each arm first in every second pair.
fn perturbation(effort: Effort) -> Result<Figure> {
    let sandbox = sandbox();
    let p50 = |mode: &str| -> Result<f64> {
        let words = [
            "no.model",
            "--backend",
            "fake",
            "--warmup",
            "20",
            "--repeat",
            "1",
            "--duration",
            effort.choose("1s", "4s"),
            "--telemetry",
            mode,
        ];
        p50_of(&run(&sandbox, &words)?.view)
    };
    let (mut ratios, mut control) = (Vec::new(), Vec::new());
    for pair in 0..effort.choose(4, 20) {
        let (on, off) = match pair % 2 {
            0 => {
                let on = p50("normal")?;
                (on, p50("off")?)
            }
            _ => {
                let off = p50("off")?;
                (p50("normal")?, off)
            }
        };
        ratios.push(on / off);
        control.push(p50("off")? / off);
    }
    Ok(Figure {
        name: "sampler",
        what: "p50 of the fake backend, board watched over not watched, each n a pair of processes"
            .into(),
        unit: "",
        control,
        samples: ratios,
        goal: Goal::Between(0.995, 1.005),
        beside: Vec::<Beside>::new(),
    })
}

fn p50_of(view: &CaseView) -> Result<f64> {
    let repeat = view.counting().next().context("the run has a repeat")?;
    edgedyno::stats::quantile::of(&repeat.trials.measured, 0.5).context("the window has trials")
}
