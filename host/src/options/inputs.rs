//! Where inputs come from.

use clap::{Args, ValueEnum};
use edgedyno_shared::case::{Generator, InputPolicy};

use super::parse;

#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Inputs")]
pub struct InputOptions {
    /// A tensor file (.npy, .npz or raw), or a folder whose files are used in turn; once for each input,
    /// behind its NAME= where the model has several. An .npz file names its inputs itself
    #[arg(
        long = "input",
        value_name = "[NAME=]FILE|DIR",
        conflicts_with = "generator"
    )]
    pub inputs: Vec<String>,
    /// Which inputs each trial gets; a folder is cycled, anything else fixed
    #[arg(long, value_name = "POLICY")]
    pub input_policy: Option<PolicyChoice>,
    /// How values are drawn: normal, uniform, zeros, int:LOW..HIGH [default: normal]
    #[arg(long, value_name = "HOW", value_parser = parse::generator)]
    pub generator: Option<Generator>,
    /// Seed of the values
    #[arg(long, value_name = "N", default_value = "1")]
    pub seed: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum PolicyChoice {
    /// Every trial gets the first set
    Fixed,
    /// Trials go through the sets in turn
    Cycle,
    /// Every trial gets values never used before
    Fresh,
}

impl From<PolicyChoice> for InputPolicy {
    fn from(choice: PolicyChoice) -> Self {
        match choice {
            PolicyChoice::Fixed => Self::Fixed,
            PolicyChoice::Cycle => Self::Cycle,
            PolicyChoice::Fresh => Self::Fresh,
        }
    }
}
