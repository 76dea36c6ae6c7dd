//! `cargo board`: builds, checks and packages the agent for board targets.

mod size;

use std::process::ExitCode;

const USAGE: &str = "\
usage: cargo board COMMAND

commands:
  check-size   build the agent as a board gets it, slim and with the built-in runtime, and hold both
               against their limits; exit 1 when one is over";

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = args.iter().map(String::as_str).collect();
    match words.as_slice() {
        ["check-size"] => report(size::check()),
        ["--help" | "-h" | "help"] => {
            print(USAGE);
            ExitCode::SUCCESS
        }
        _ => {
            complain(USAGE);
            ExitCode::from(2)
        }
    }
}

/// Turns a check's findings into lines and an exit code: 1 when something is wrong.
fn report(check: anyhow::Result<size::Report>) -> ExitCode {
    match check {
        Ok(report) => {
            print(&report.to_string());
            ExitCode::from(u8::from(!report.is_good()))
        }
        Err(error) => {
            complain(&format!("error: {error:#}"));
            ExitCode::from(1)
        }
    }
}

#[expect(clippy::print_stdout, reason = "a tool's result")]
fn print(text: &str) {
    println!("{text}");
}

#[expect(clippy::print_stderr, reason = "a tool's complaint")]
fn complain(text: &str) {
    eprintln!("{text}");
}
