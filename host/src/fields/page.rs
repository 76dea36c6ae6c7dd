//! The documentation page of the field table.

use super::{Field, SUBJECTS, Subject};
use crate::stats::bound::minimum_count;
use crate::stats::quantile::LEVELS;

/// `docs/fields.md`.
pub fn page() -> String {
    let mut out = String::from(
        "# Fields\n\n\
         <!-- Generated from host/src/fields by `EDGEDYNO_REWRITE=1 cargo test -p edgedyno`. -->\n\n\
         Every figure with a name. `edgedyno get RUN FIELD` prints one, `edgedyno explain FIELD` says what it\n\
         is, `edgedyno summary --json` has all of them under `fields`. A value that was not measured is null.\n\
         Unless a definition says otherwise, a figure is the geometric mean over the repeats that count.\n\
         In conditions `p50`, `p90`, `p95`, `p99`, `p99.9`, `p99.99`, `mean` and `rate` are short for\n\
         `latency_p50_ms` and so on, `latency_mean_ms` and `rate_hz`.\n",
    );
    out.extend(SUBJECTS.iter().map(section));
    out.push_str(RECORDS);
    out.push_str(
        "\n## Trials that a percentile needs\n\n| percentile | independent trials |\n|---|---|\n",
    );
    out.extend(LEVELS.iter().map(|&level| {
        let least = minimum_count(level).map_or_else(String::new, |n| n.to_string());
        format!("| p{} | {least} |\n", level * 100.0)
    }));
    out
}

/// What `records` and `export` give of each trial.
const RECORDS: &str = "
## Columns of a trial

`edgedyno records` and `edgedyno export` give one line for each trial. Columns that a backend adds follow
these; a cell that was not measured is empty, `–` or null.

| column | meaning |
|---|---|
| `case` | key of the case |
| `repeat`, `attempt` | counted from 0; a repeat that failed may be tried again |
| `pass` | `honest`: nothing but the clock was read; `attributed`: a profiler looked on, and latency does not count |
| `lane` | a stream of trials of its own; 0 where there is one |
| `trial` | counted from 0 through all roles of the attempt |
| `role` | `cold`: the first two of a process; `rehearsal`: a trial that only prepares another; `warmup`; `measure`: those that figures are made of |
| `status` | `ok`, `error` (the backend failed it), `corrupt` (its stamps make no sense) |
| `latency_ms` | end_ns - start_ns |
| `start_ns`, `end_ns` | the board's monotonic clock |
";

fn section(subject: &Subject) -> String {
    let rows: String = subject.fields.iter().map(row).collect();
    let heading = "| field | unit | meaning | from |\n|---|---|---|---|\n";
    format!("\n## {}\n\n{heading}{rows}", subject.title)
}

fn row(field: &Field) -> String {
    format!(
        "| `{}` | {} | {} | {} |\n",
        field.name,
        field.unit.name(),
        field.definition,
        field.source,
    )
}
