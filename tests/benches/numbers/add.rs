//! `add`: from a place that ssh goes to, to a board that can be measured on.

use std::fs::OpenOptions;
use std::io::Write as _;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use edgedyno_tests::bench::{Figure, Goal, neighbours};
use edgedyno_tests::clock::Deadline;
use edgedyno_tests::sshd::{Login, Sshd};
use edgedyno_tests::tcp_relay::{self, LAN};

use crate::measured::sandbox;
use crate::{Effort, idle};

pub(crate) fn measure(effort: Effort) -> Result<Vec<Figure>> {
    ensure!(Sshd::is_there(), "an sshd is needed");
    let agent = idle::build()?;
    let agent = agent.to_str().context("the agent's path is text")?;
    let mut seconds = Vec::new();
    for _ in 0..effort.choose(2, 8) {
        let mut sandbox = sandbox();
        let sshd = Sshd::start(&mut sandbox, &Login::default());
        let port = tcp_relay::start(sshd.port(), LAN);
        let known = sshd.folder().join("known_hosts");
        let line =
            std::fs::read_to_string(&known)?.replace(&sshd.port().to_string(), &port.to_string());
        OpenOptions::new()
            .append(true)
            .open(&known)?
            .write_all(line.as_bytes())?;
        let place = sshd
            .place()
            .replace(&format!(":{}", sshd.port()), &format!(":{port}"));
        let began = Deadline::after(Duration::MAX);
        sandbox
            .edgedyno(["board", "add", &place, "--name", "x", "--agent", agent])
            .ok();
        seconds.push(began.elapsed().as_secs_f64());
    }
    Ok(vec![Figure {
        name: "add",
        what: "`board add` by ssh over a line of 100 Mbit/s and 1 ms, the agent sent".into(),
        unit: "s",
        control: neighbours(&seconds),
        samples: seconds,
        goal: Goal::AtMost(10.0),
        beside: Vec::new(),
    }])
}
