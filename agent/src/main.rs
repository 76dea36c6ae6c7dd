//! `edgedyno-agent`: the daemon, its relay and its workers, in one binary.

use std::process::ExitCode;

use edgedyno_agent::allocations::CountingAllocator;

/// Workers say what their windows asked of it.
#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;

fn main() -> ExitCode {
    edgedyno_agent::entry::run(Vec::new(), std::env::args_os().skip(1))
}
