//! The documentation page of the field table.

use super::{Field, SUBJECTS, Subject};

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
    out
}

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
