//! `idle`: what a daemon that waits for orders keeps in memory.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use edgedyno_tests::bench::{Beside, Figure, Goal, neighbours};
use edgedyno_tests::clock::Deadline;
use edgedyno_tests::workspace;
use nix::unistd::Pid;

use crate::Effort;
use crate::measured::{run, sandbox};

/// Long enough for whatever a daemon does at its start.
const SETTLE: Duration = Duration::from_secs(1);

pub(crate) fn measure(effort: Effort) -> Result<Vec<Figure>> {
    let agent = build()?;
    let (mut fresh, mut used) = (Vec::new(), Vec::new());
    for _ in 0..effort.choose(2, 6) {
        let sandbox = sandbox();
        let daemon = sandbox.start(&agent, ["serve"]);
        Deadline::after(Duration::from_secs(30))
            .poll(|| sandbox.state().join("agent.sock").exists().then_some(()))
            .context("the daemon listens")?;
        std::thread::sleep(SETTLE);
        fresh.push(resident_mb(daemon.pid())?);
        run(
            &sandbox,
            &[
                "no.model",
                "--backend",
                "null",
                "--warmup",
                "20",
                "--repeat",
                "1",
            ],
        )?;
        std::thread::sleep(SETTLE);
        used.push(resident_mb(daemon.pid())?);
    }
    Ok(vec![Figure {
        name: "idle",
        what: "resident memory of an idle agent with the built-in runtime, just started".into(),
        unit: "MB",
        control: neighbours(&fresh),
        samples: fresh,
        goal: Goal::AtMost(12.0),
        beside: vec![Beside::new("after a repeat of 200 000 trials", "MB", used)],
    }])
}

/// The agent as boards get it, with the built-in runtime.
pub(crate) fn build() -> Result<PathBuf> {
    let target = &workspace::build().target;
    let status = workspace::cargo()
        .args(["build", "--locked", "--quiet", "--profile", "agent"])
        .args([
            "-p",
            "edgedyno-agent",
            "--bins",
            "--no-default-features",
            "--features",
            "builtin",
        ])
        .arg("--target-dir")
        .arg(target)
        .status()?;
    ensure!(status.success(), "cargo cannot build the agent");
    Ok(target.join("agent/edgedyno-agent"))
}

fn resident_mb(pid: Pid) -> Result<f64> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status"))?;
    let bytes = edgedyno_agent::worker::memory::kibibytes(&status, "VmRSS:");
    Ok(bytes.context("the kernel tells VmRSS")? as f64 / 1e6)
}
