//! `edgedyno`: the host, and behind one hidden word the agent of its own machine.

use std::process::ExitCode;

use edgedyno::board::local::AGENT_ENTRY;
use edgedyno_agent::allocations::CountingAllocator;

/// Workers of this machine's agent say what their windows asked of it.
#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;

fn main() -> ExitCode {
    let mut words = std::env::args_os().skip(1);
    if words.next().is_some_and(|word| word == AGENT_ENTRY) {
        return edgedyno_agent::entry::run(vec![AGENT_ENTRY.into()], words);
    }
    edgedyno::cli::main().into()
}
