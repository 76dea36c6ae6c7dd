//! What ends a repeat by force.

use clap::Args;
use edgedyno_shared::order::Limits;
use edgedyno_shared::units::{Bytes, Nanos};

use super::parse;

/// A trial may take this many medians when that is longer than its time-out.
const TRIAL_FACTOR: u32 = 50;

#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Limits")]
pub struct LimitOptions {
    /// Longest time for loading the model
    #[arg(long, value_name = "TIME", default_value = "120s", value_parser = parse::positive_span)]
    pub timeout_load: Nanos,
    /// Longest time for compiling, for a cold trial and for the first warm-up trial
    #[arg(long, value_name = "TIME", default_value = "600s", value_parser = parse::positive_span)]
    pub timeout_compile: Nanos,
    /// Longest time for a later trial, unless 50 medians are longer
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = parse::positive_span)]
    pub timeout_trial: Nanos,
    /// Most data the worker may have (RLIMIT_DATA: heap and private memory, not mapped files), as 512MiB
    #[arg(long, value_name = "BYTES", value_parser = parse::bytes)]
    pub memory_limit: Option<Bytes>,
}

impl LimitOptions {
    /// What holds where nothing is asked for.
    pub fn usual() -> Self {
        Self {
            timeout_load: Nanos::from_secs(120),
            timeout_compile: Nanos::from_secs(600),
            timeout_trial: Nanos::from_secs(10),
            memory_limit: None,
        }
    }

    pub fn limits(&self) -> Limits {
        Limits {
            load: self.timeout_load,
            compile: self.timeout_compile,
            trial: self.timeout_trial,
            trial_factor: TRIAL_FACTOR,
            memory: self.memory_limit,
        }
    }
}
