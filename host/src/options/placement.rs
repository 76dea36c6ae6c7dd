//! Threads and CPUs.

use clap::Args;
use edgedyno_shared::case::Threads;

use super::parse::{self, CpuList};

/// More threads than this are a slip of the finger.
const MOST_THREADS: u32 = 4096;

#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Placement")]
pub struct PlacementOptions {
    /// Threads inside one operator
    #[arg(long, value_name = "N", default_value = "1", value_parser = threads)]
    pub threads: u32,
    /// Threads between operators
    #[arg(long, value_name = "N", default_value = "1", value_parser = threads)]
    pub inter_threads: u32,
    /// CPUs the worker may use, such as 0-3,7; without it the agent chooses and says which
    #[arg(long, value_name = "LIST", value_parser = parse::cpus)]
    pub cpus: Option<CpuList>,
}

impl PlacementOptions {
    pub fn threads(&self) -> Threads {
        Threads {
            intra: self.threads,
            inter: self.inter_threads,
        }
    }
}

fn threads(text: &str) -> Result<u32, String> {
    match text.parse() {
        Ok(0) => Err("at least 1 thread is needed to run anything".into()),
        Ok(n) if n <= MOST_THREADS => Ok(n),
        _ => Err(format!(
            "a number of threads from 1 to {MOST_THREADS} is needed"
        )),
    }
}
