//! `edgedyno-agent`: the daemon, its relay and its workers, in one binary.

use std::process::ExitCode;

fn main() -> ExitCode {
    edgedyno_agent::entry::run(Vec::new(), std::env::args_os().skip(1))
}
