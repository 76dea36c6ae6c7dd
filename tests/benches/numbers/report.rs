//! `report`: the page of ten million trials, what it takes to make, and its size.

use anyhow::Result;
use edgedyno_tests::bench::Figure;

use crate::Effort;
use crate::large::{Large, figure};

const PAGE: &str = "report.html";

pub(crate) fn measure(effort: Effort) -> Result<Vec<Figure>> {
    let large = Large::make(effort)?;
    let (seconds, megabytes) = large.run(effort, &["report", "last", "--output", PAGE])?;
    let size = large.sandbox.work().join(PAGE).metadata()?.len() as f64 / 1e6;
    let what = format!("`edgedyno report` of {} stored trials", large.trials);
    Ok(vec![
        figure("report", format!("{what}, start to end"), "s", seconds, 5.0),
        figure(
            "report (memory)",
            format!("{what}, largest resident set"),
            "MB",
            megabytes,
            500.0,
        ),
        figure(
            "report (size)",
            format!("{what}, the page"),
            "MB",
            // The same store makes the same page: there is nothing to repeat.
            vec![size, size],
            5.0,
        ),
    ])
}
