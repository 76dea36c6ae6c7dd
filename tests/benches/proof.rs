//! Proves what the statistics promise, on simulated series: `cargo bench -p edgedyno-tests --bench proof`
//! prints the table that `docs/statistics.md` keeps. A number is the count of experiments.

use std::process::ExitCode;

use edgedyno_tests::proof::{HEAD, Row, all};

fn main() -> ExitCode {
    let mut words = std::env::args().skip(1);
    let experiments = words.find_map(|word| word.parse().ok()).unwrap_or(1_000);
    let rows = all(experiments);
    let lines: Vec<String> = rows.iter().map(ToString::to_string).collect();
    print(&format!("{HEAD}\n{}\n", lines.join("\n")));
    match rows.iter().all(Row::is_kept) {
        true => ExitCode::SUCCESS,
        false => ExitCode::FAILURE,
    }
}

#[expect(clippy::print_stdout, reason = "the result of a benchmark")]
fn print(text: &str) {
    print!("{text}");
}
