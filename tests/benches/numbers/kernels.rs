//! `kernels`: do the memory kernels reach what a compiler makes of STREAM's own loops and what stress-ng
//! reaches, and is a rate kept?
//!
//! Each round has our kernel, the C loop, stress-ng's stream, and our kernel again as the control, in the same
//! currency, each on the same CPU and for each second of its own CPU time, so that a busy machine takes from
//! all alike. Held against is the better of the two others in that round.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, ensure};
use edgedyno_agent::stressor::{self, Settings};
use edgedyno_agent::{clock, clock::Clock as _};
use edgedyno_shared::units::Nanos;
use edgedyno_tests::bench::{Beside, Figure, Goal};
use serde_json::Value;

use crate::Effort;
use crate::measured::sandbox;

/// Beyond every cache that tells its size truly.
const BYTES: u64 = 768 << 20;

/// STREAM's triad and a sum, until so many milliseconds of CPU time are over; prints bytes a CPU second.
const LOOPS: &str = r#"
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
static double cpu(void) {
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return t.tv_sec + t.tv_nsec * 1e-9;
}
static double *array(size_t bytes) {
    double *a = aligned_alloc(2 << 20, bytes);
    madvise(a, bytes, MADV_HUGEPAGE);
    for (size_t i = 0; i < bytes / 8; i++) a[i] = 1.0;
    return a;
}
__attribute__((noinline)) static void triad(double *restrict a, const double *restrict b, const double *restrict c, size_t n) {
    for (size_t i = 0; i < n; i++) a[i] = b[i] + 3.0 * c[i];
}
__attribute__((noinline)) static uint64_t sum(const uint64_t *a, size_t n) {
    uint64_t s = 0;
    for (size_t i = 0; i < n; i++) s += a[i];
    return s;
}
int main(int argc, char **argv) {
    size_t all = strtoull(argv[2], 0, 10);
    double limit = atof(argv[3]) / 1e3, moved = 0;
    uint64_t keep = 0;
    if (!strcmp(argv[1], "triad")) {
        size_t n = all / 3 / (2 << 20) * (2 << 20) / 8;
        double *a = array(n * 8), *b = array(n * 8), *c = array(n * 8);
        double from = cpu();
        do { triad(a, b, c, n); moved += 24.0 * n; } while (cpu() - from < limit);
        printf("%.0f\n", moved / (cpu() - from));
        keep = a[n / 2];
    } else {
        size_t n = all / 8;
        uint64_t *a = (uint64_t *)array(n * 8);
        double from = cpu();
        do { keep += sum(a, n); moved += 8.0 * n; } while (cpu() - from < limit);
        printf("%.0f\n", moved / (cpu() - from));
    }
    return keep == 42;
}
"#;

pub(crate) fn measure(effort: Effort) -> Result<Vec<Figure>> {
    let sandbox = sandbox();
    let program = compile(&sandbox.write("loops.c", LOOPS))?;
    let mut figures = vec![
        against_c("mem_read", "read", &program, effort)?,
        against_c("mem_triad", "triad", &program, effort)?,
    ];
    figures.push(rates(effort)?);
    Ok(figures)
}

fn compile(source: &Path) -> Result<PathBuf> {
    let program = source.with_extension("");
    let status = Command::new("cc")
        .args(["-O3", "-march=native", "-o"])
        .args([&program, source])
        .status()
        .context("there is no C compiler here")?;
    ensure!(status.success(), "the C loops do not compile");
    Ok(program)
}

fn against_c(
    stressor: &'static str,
    loop_name: &str,
    program: &Path,
    effort: Effort,
) -> Result<Figure> {
    let (mut ratios, mut control) = (Vec::new(), Vec::new());
    let (mut ours, mut c_loop, mut tool) = (Vec::new(), Vec::new(), Vec::new());
    let millis = effort.choose(100, 500);
    for round in 0..effort.choose(2, 12) {
        // Another order each round.
        let (mut own, mut others) = ([0.0; 2], Vec::new());
        for arm in (0..4).map(|arm| (arm + round) % 4) {
            match arm {
                1 => {
                    let rate = of_c(program, loop_name, millis)?;
                    c_loop.push(rate / 1e9);
                    others.push(rate);
                }
                // Its stream is all four loops of STREAM: what a triad can be held against, and a sum not.
                2 if loop_name == "triad" => {
                    let rate = of_stress_ng(program)?;
                    tool.extend(rate.map(|rate| rate / 1e9));
                    others.extend(rate);
                }
                2 => {}
                _ => own[arm / 3] = of_ours(stressor, millis)?,
            }
        }
        let best = others.into_iter().fold(0.0, f64::max);
        ratios.push(own[0] / best);
        control.push(own[1] / own[0]);
        ours.push(own[0] / 1e9);
    }
    let mut beside = vec![
        Beside::new(stressor, "GB/s", ours),
        Beside::new("the C loop", "GB/s", c_loop),
    ];
    if !tool.is_empty() {
        beside.push(Beside::new("stress-ng's stream", "GB/s", tool));
    }
    Ok(Figure {
        name: "kernels",
        what: format!(
            "{stressor} as a ratio to the better of the same loop in C, -O3 -march=native, and stress-ng's \
             stream, by CPU time"
        ),
        unit: "",
        samples: ratios,
        goal: Goal::AtLeast(0.95),
        control,
        beside,
    })
}

/// Seconds after which it says a rate at all.
const STRESS_NG_SECONDS: u32 = 8;

/// It takes three arrays of four times the cache: with this, [`BYTES`] in all. By itself it believes caches
/// of virtual machines that are not all its own, and only touches its gigabytes in that time.
const STRESS_NG_CACHE: &str = "64M";

/// Bytes a CPU second of stress-ng's stream on the first CPU, by its own word; none where there is no
/// stress-ng, or it says no rate. It says what it read and what it wrote (0.15 and later) for each second of
/// the wall, in MB of 2^20 bytes (stress-stream.c, stress-ng.h); its own times turn that into CPU time.
fn of_stress_ng(beside: &Path) -> Result<Option<f64>> {
    let report = beside.with_extension("yaml");
    let seconds = format!("{STRESS_NG_SECONDS}s");
    Command::new("taskset")
        .args(["-c", "0", "stress-ng", "--stream", "1", "--metrics"])
        .args(["--stream-l3-size", STRESS_NG_CACHE])
        .args(["--timeout", &seconds, "--yaml"])
        .arg(&report)
        .output()?;
    let report = std::fs::read_to_string(&report).unwrap_or_default();
    Ok(stream_rate(&report))
}

fn stream_rate(report: &str) -> Option<f64> {
    let pairs = report.lines().filter_map(|line| line.split_once(':'));
    let figures: Vec<(&str, f64)> = pairs
        .filter_map(|(name, value)| Some((name.trim(), value.trim().parse().ok()?)))
        .collect();
    let of = |name: &str| {
        let found = figures.iter().find(|(known, _)| *known == name);
        found.map(|(_, value)| *value)
    };
    let rates = figures
        .iter()
        .filter(|(name, _)| name.contains("mb-per-sec"))
        .map(|(_, rate)| *rate);
    let rates: Vec<f64> = rates.collect();
    let cpu = of("user-time")? + of("system-time")?;
    // One alone is not all that was moved.
    let [read, written] = rates[..] else {
        return None;
    };
    Some((read + written) * 1_048_576.0 * of("wall-clock-time")? / cpu)
}

/// Bytes a CPU second on the first CPU, in a thread of its own.
fn of_ours(name: &'static str, millis: i64) -> Result<f64> {
    let work = move || -> Result<f64> {
        edgedyno_sys::kernel::process::set_affinity(0, &[0])?;
        let stressor = stressor::find(name).context("it is in the list")?;
        let settings = Settings {
            bytes: BYTES,
            seed: 1,
            scratch: Path::new("/"),
        };
        let mut work = stressor.prepare(&settings)?;
        let (from, mut moved) = (clock::thread_cpu_time(), 0);
        while clock::thread_cpu_time() - from < Nanos::from_millis(millis) {
            for _ in 0..64 {
                moved += work.step()?;
            }
        }
        let took = (clock::thread_cpu_time() - from).as_secs_f64();
        Ok(moved as f64 / took)
    };
    let thread = std::thread::spawn(work).join();
    thread.map_err(|_| anyhow::anyhow!("the kernel panicked"))?
}

fn of_c(program: &Path, name: &str, millis: i64) -> Result<f64> {
    let output = Command::new("taskset")
        .args(["-c", "0"])
        .arg(program)
        .args([name, &BYTES.to_string(), &millis.to_string()])
        .output()?;
    Ok(String::from_utf8_lossy(&output.stdout).trim().parse()?)
}

/// How far rates of 10, 25, 50 and 75 % were from their targets, the worst of each round.
fn rates(effort: Effort) -> Result<Figure> {
    let sandbox = sandbox();
    let rounds = effort.choose("2", "10");
    let line = [
        "stress",
        "no.model",
        "--backend",
        "fake",
        "--levels",
        "10,25,50,75",
        "--stressor",
        "mem_read,mem_copy",
        "--working-set",
        "64MiB",
        "--warmup",
        "2",
        "--duration",
        "500ms",
        "--settle",
        "200ms",
        "--repeat",
        rounds,
        "--force",
        "--json",
    ];
    let began = clock::Monotonic.now();
    let document = sandbox.edgedyno(line).json();
    let wall = (clock::Monotonic.now() - began).as_secs_f64();
    let points = document["experiments"][0]["points"]
        .as_array()
        .context("points")?
        .clone();
    let error = |point: &Value| {
        let target = point["target_bps"].as_f64()?;
        let achieved = point["achieved_per_cpu_second_bps"].as_f64()?;
        Some((achieved / target - 1.0).abs())
    };
    let errors: Vec<f64> = points.iter().filter_map(error).collect();
    ensure!(errors.len() == 8, "every level has a target: {points:?}");
    Ok(Figure {
        name: "kernels",
        what: "distance of a rate from its target by CPU time, for each stressor and level".into(),
        unit: "",
        samples: errors,
        goal: Goal::AtMost(0.03),
        control: Vec::new(),
        beside: vec![Beside::new("the whole ladder", "s", vec![wall])],
    })
}
