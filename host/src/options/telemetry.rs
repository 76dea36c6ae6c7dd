//! How much of the board is watched meanwhile.

use clap::{Args, ValueEnum};
use edgedyno_shared::order::{CoolDown, Preparation};
use edgedyno_shared::telemetry::TelemetryMode;
use edgedyno_shared::units::Nanos;

use super::parse;
use crate::exit::CommandError;

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
    /// Before each repeat, wait until the board's hottest sensor shows less than so many degrees Celsius
    #[arg(long, value_name = "C", value_parser = celsius)]
    pub cool_down: Option<i64>,
    /// The sensor to wait for: a channel, or the first parts of its name, such as therm.cpu
    #[arg(long, value_name = "CHANNEL", requires = "cool_down")]
    pub cool_down_sensor: Option<String>,
    /// Longest time to wait; then it is measured all the same, which is a finding
    #[arg(long, value_name = "TIME", default_value = "10m", value_parser = parse::positive_span, requires = "cool_down")]
    pub cool_down_limit: Nanos,
    /// Hold clocks at the highest allowed while a repeat runs, and put them back: needs root on the board,
    /// and an admin of it
    #[arg(long)]
    pub fix_clocks: bool,
    /// Before each repeat, watch the idle board for so long: energy is then told above that too
    #[arg(long, value_name = "TIME", value_parser = parse::positive_span)]
    pub idle_power: Option<Nanos>,
    /// `quiet`: measure only where nothing else is at work, clocks are held and a CPU is spare, and exit
    /// with 5 when it was not so, or when that is not known
    #[arg(long, value_name = "WHAT")]
    pub require: Option<Requirement>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Requirement {
    /// Nothing else at work, clocks held, a CPU to spare
    Quiet,
}

/// A cool-down waits this long unless told otherwise.
pub const COOL_DOWN_LIMIT: Nanos = Nanos::from_secs(600);

impl TelemetryOptions {
    pub fn preparation(&self) -> Preparation {
        Preparation {
            cool_down: self.cool_down.map(|below_millicelsius| CoolDown {
                below_millicelsius,
                sensor: self.cool_down_sensor.clone(),
                at_most: self.cool_down_limit,
            }),
            fix_clocks: self.fix_clocks,
            watch_before: self.idle_power.unwrap_or(Nanos::ZERO),
            watch_after: Nanos::ZERO,
        }
    }

    /// Refuses a requirement of a board that is not watched.
    ///
    /// # Errors
    /// When there is one.
    pub fn check(&self) -> Result<(), CommandError> {
        if self.require.is_none() || self.mode() != TelemetryMode::Off {
            return Ok(());
        }
        let what =
            "--require is about what the board does meanwhile, and --telemetry off leaves that out";
        Err(CommandError::usage(what).hint("leave one of them out"))
    }

    pub fn mode(&self) -> TelemetryMode {
        match self.no_telemetry {
            true => TelemetryMode::Off,
            false => self.telemetry,
        }
    }
}

/// Degrees Celsius, as thousandths of them: `60`, `59.5`, `60C`.
pub fn celsius(text: &str) -> Result<i64, String> {
    let number = text.trim_end_matches(['C', '°']).trim();
    let degrees = number.parse::<f64>().ok();
    let sane = degrees.filter(|degrees| (-50.0..=200.0).contains(degrees));
    sane.map(|degrees| (degrees * 1e3).round() as i64)
        .ok_or_else(|| "a temperature in degrees Celsius such as 60 is needed".into())
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
    fn temperatures_are_in_degrees() {
        assert_eq!(celsius("60"), Ok(60_000));
        assert_eq!(celsius("59.5C"), Ok(59_500));
        for wrong in ["", "hot", "1000", "60F"] {
            assert!(celsius(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn modes_go_by_their_names() {
        for each in TelemetryMode::ALL {
            assert_eq!(mode(each.name()), Ok(each));
        }
        assert!(mode("on").unwrap_err().contains("normal"));
    }
}
