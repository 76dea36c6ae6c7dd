//! How much of the board is watched meanwhile.

use clap::{Args, ValueEnum};
use edgedyno_shared::order::Preparation;
use edgedyno_shared::telemetry::TelemetryMode;

#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Telemetry")]
pub struct TelemetryOptions {
    /// What is watched while a repeat runs: `normal` reads all that the board has ten times a second or
    /// once a second, `fast` what moves fast a hundred times, `off` nothing
    #[arg(long, value_name = "MODE", default_value = "normal", value_parser = mode)]
    pub telemetry: TelemetryMode,
    /// The same as --telemetry off
    #[arg(long, conflicts_with = "telemetry")]
    pub no_telemetry: bool,
    /// Hold clocks at the highest allowed while a repeat runs, and put them back: needs root on the board,
    /// and an admin of it
    #[arg(long)]
    pub fix_clocks: bool,
    /// `quiet`: measure only where nothing else is at work, clocks are held and a CPU is spare, and exit
    /// with 5 when it was not so
    #[arg(long, value_name = "WHAT")]
    pub require: Option<Requirement>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Requirement {
    /// Nothing else at work, clocks held, a CPU to spare
    Quiet,
}

impl TelemetryOptions {
    pub fn preparation(&self) -> Preparation {
        Preparation {
            fix_clocks: self.fix_clocks,
        }
    }

    pub fn mode(&self) -> TelemetryMode {
        match self.no_telemetry {
            true => TelemetryMode::Off,
            false => self.telemetry,
        }
    }
}

/// A mode by its name.
pub fn mode(text: &str) -> Result<TelemetryMode, String> {
    let known = TelemetryMode::ALL.iter().find(|mode| mode.name() == text);
    let names = || TelemetryMode::ALL.map(TelemetryMode::name).join(", ");
    known
        .copied()
        .ok_or_else(|| format!("one of {} is needed", names()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modes_go_by_their_names() {
        for each in TelemetryMode::ALL {
            assert_eq!(mode(each.name()), Ok(each));
        }
        assert!(mode("on").unwrap_err().contains("normal"));
    }
}
