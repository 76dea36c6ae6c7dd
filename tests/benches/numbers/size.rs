//! `size`: the agent's file as boards get it, as `cargo board check-size` weighs it.

use anyhow::{Context as _, Result};
use edgedyno_tests::bench::{Figure, Goal};
use edgedyno_tests::workspace;
use regex::Regex;

use crate::Effort;

/// Both are there in full or not at all, whatever the effort.
pub(crate) fn measure(_effort: Effort) -> Result<Vec<Figure>> {
    let output = workspace::cargo().args(["board", "check-size"]).output()?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let line = Regex::new(r"(?m)^(.+?) +([0-9.]+) MB of ([0-9.]+) MB")?;
    let figures = line.captures_iter(&text).map(|row| {
        let number = |at: usize| -> Result<f64> { Ok(row[at].parse()?) };
        let size = number(2)?;
        Ok(Figure {
            name: "size",
            what: format!("agent, stripped, {}", &row[1]),
            unit: "MB",
            // The same sources give the same file: there is nothing to repeat.
            samples: vec![size, size],
            goal: Goal::AtMost(number(3)?),
            control: vec![1.0, 1.0],
            beside: Vec::new(),
        })
    });
    let figures: Vec<Figure> = figures.collect::<Result<_>>()?;
    let told = String::from_utf8_lossy(&output.stderr);
    (!figures.is_empty())
        .then_some(figures)
        .with_context(|| format!("check-size: {text}{told}"))
}
