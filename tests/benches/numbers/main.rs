//! The numbers to reach (design, section 6), measured and judged: `docs/numbers.md` says how to read
//! them. Names on the command line choose; without one they are listed.

mod add;
mod bare;
mod compare;
mod fixed;
mod idle;
mod ingest;
mod kernels;
mod large;
mod link;
mod measured;
mod period;
mod report;
mod sampler;
mod size;
mod summary;
mod sweep;

use std::process::ExitCode;

use anyhow::{Context as _, Result, bail};
use edgedyno_tests::bench::Figure;
use serde_json::{Value, json};

/// How a benchmark is to run.
#[derive(Debug, Clone, Copy)]
struct Effort {
    /// Seconds instead of minutes; enough to see that it works, seldom enough to judge.
    quick: bool,
    /// For benchmarks that go on until the interval is narrow.
    minutes: f64,
}

impl Effort {
    fn choose<T>(self, quick: T, full: T) -> T {
        if self.quick { quick } else { full }
    }
}

struct Bench {
    name: &'static str,
    summary: &'static str,
    measure: fn(Effort) -> Result<Vec<Figure>>,
}

const BENCHES: [Bench; 19] = [
    Bench {
        name: "loop",
        summary: "period of the timed loop with the null backend, beside two clock reads",
        measure: period::measure,
    },
    Bench {
        name: "bare",
        summary: "p50 of two real models against a bare loop over the same C interface",
        measure: bare::measure,
    },
    Bench {
        name: "sampler",
        summary: "what watching the board costs, and what it does to p50",
        measure: sampler::measure,
    },
    Bench {
        name: "fixed",
        summary: "what `run` and a repeat cost beyond load and measurement",
        measure: fixed::measure,
    },
    Bench {
        name: "idle",
        summary: "resident memory of an idle agent as boards get it",
        measure: idle::measure,
    },
    Bench {
        name: "size",
        summary: "size of the agent as boards get it (cargo board check-size)",
        measure: size::measure,
    },
    Bench {
        name: "ingest",
        summary: "trials of 8 columns that the store takes in a second",
        measure: ingest::measure,
    },
    Bench {
        name: "summary",
        summary: "time for the summary of a million stored trials",
        measure: summary::measure,
    },
    Bench {
        name: "large",
        summary: "time and memory for the summary of ten million stored trials",
        measure: large::measure,
    },
    Bench {
        name: "report",
        summary: "time, memory and size for the report of ten million stored trials",
        measure: report::measure,
    },
    Bench {
        name: "compare",
        summary: "time to compare two runs of 1000 cases, 10 repeats, 1000 trials",
        measure: compare::measure,
    },
    Bench {
        name: "plan",
        summary: "time to plan a sweep of 100 000 cases",
        measure: sweep::measure_plan,
    },
    Bench {
        name: "list",
        summary: "time to list a store with a run of 10 000 repeats",
        measure: sweep::measure_list,
    },
    Bench {
        name: "link",
        summary: "trials from agent to host over loopback QUIC: rate, CPU a side, handshake",
        measure: link::measure,
    },
    Bench {
        name: "resume",
        summary: "from a healed line to the last repeat stored",
        measure: link::measure_resume,
    },
    Bench {
        name: "boards",
        summary: "what a host spends on 100 idle boards",
        measure: link::measure_boards,
    },
    Bench {
        name: "traffic",
        summary: "whether the link's traffic shows in what the board measures",
        measure: link::measure_traffic,
    },
    Bench {
        name: "add",
        summary: "time to add a board by ssh over a line like a local network's",
        measure: add::measure,
    },
    Bench {
        name: "kernels",
        summary: "memory kernels against the same loops in C, and rates against their targets",
        measure: kernels::measure,
    },
];

const USAGE: &str = "\
usage: cargo bench -p edgedyno-tests --bench numbers -- NAME... [--quick] [--minutes N] [--json]

  NAME         one of the benchmarks below, or `all`
  --quick      a short form, in seconds
  --minutes N  for `bare`: give up after so long a model [default: 10]
  --json       print one JSON document
";

struct Wish {
    benches: Vec<&'static Bench>,
    effort: Effort,
    json: bool,
}

fn main() -> ExitCode {
    let wish = match parse(std::env::args().skip(1)) {
        Ok(wish) => wish,
        Err(why) => {
            complain(&format!("error: {why:#}\n\n{}", help()));
            return ExitCode::from(2);
        }
    };
    if wish.benches.is_empty() {
        print(&help());
        return ExitCode::SUCCESS;
    }
    match run(&wish) {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            complain(&format!("error: {why:#}"));
            ExitCode::FAILURE
        }
    }
}

fn parse(mut words: impl Iterator<Item = String>) -> Result<Wish> {
    let mut wish = Wish {
        benches: Vec::new(),
        effort: Effort {
            quick: false,
            minutes: 10.0,
        },
        json: false,
    };
    while let Some(word) = words.next() {
        match word.as_str() {
            // Cargo's own, to every benchmark.
            "--bench" => {}
            "--quick" => wish.effort.quick = true,
            "--json" => wish.json = true,
            "--minutes" => {
                let value = words.next().context("--minutes needs a number")?;
                wish.effort.minutes = value.parse().context("--minutes needs a number")?;
            }
            "--help" | "-h" => wish.benches.clear(),
            "all" => wish.benches = BENCHES.iter().collect(),
            name => match BENCHES.iter().find(|bench| bench.name == name) {
                Some(bench) => wish.benches.push(bench),
                None => bail!("there is no benchmark `{name}`"),
            },
        }
    }
    Ok(wish)
}

fn help() -> String {
    let line = |bench: &Bench| format!("  {:<12} {}\n", bench.name, bench.summary);
    let lines: String = BENCHES.iter().map(line).collect();
    format!("{USAGE}\n{lines}")
}

fn run(wish: &Wish) -> Result<()> {
    let mut figures = Vec::new();
    for bench in &wish.benches {
        let measured = (bench.measure)(wish.effort).with_context(|| bench.name)?;
        if !wish.json {
            for figure in &measured {
                print(&format!("{figure}\n"));
            }
        }
        figures.extend(measured.iter().map(Figure::to_json));
    }
    let machine = machine();
    if wish.json {
        let document =
            json!({ "machine": machine, "quick": wish.effort.quick, "figures": figures });
        print(&format!("{document:#}\n"));
    } else {
        print(&format!(
            "machine: {}\n",
            machine["text"].as_str().unwrap_or_default()
        ));
    }
    Ok(())
}

/// What the figures were measured on, and how busy it was at the end.
fn machine() -> Value {
    let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
    let cpus = std::thread::available_parallelism().map_or(0, usize::from);
    let info = read("/proc/cpuinfo");
    let model = info
        .lines()
        .find_map(|line| line.strip_prefix("model name")?.split_once(": "))
        .map_or("unknown CPU", |(_, name)| name);
    let kernel = read("/proc/sys/kernel/osrelease");
    let load = read("/proc/loadavg");
    let load = load.split(' ').next().unwrap_or_default();
    let text = format!(
        "{cpus} x {model}, Linux {}, load average {load}",
        kernel.trim()
    );
    json!({ "cpus": cpus, "cpu_model": model, "kernel": kernel.trim(), "load_average": load, "text": text })
}

#[expect(clippy::print_stdout, reason = "the result of a benchmark")]
fn print(text: &str) {
    print!("{text}");
}

#[expect(clippy::print_stderr, reason = "everything else")]
fn complain(text: &str) {
    eprintln!("{text}");
}
