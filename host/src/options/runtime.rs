//! Backend, runtime and their options.

use clap::{Args, ValueEnum};
use edgedyno_shared::case::Io;

use super::parse;
use crate::exit::CommandError;

#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Runtime")]
pub struct RuntimeOptions {
    /// Way to run the model; without it ONNX Runtime where one is found, else the built-in rten
    #[arg(long, value_name = "NAME")]
    pub backend: Option<String>,
    /// Library to load: its file, or a version among those that `runtime list` shows
    #[arg(long, value_name = "PATH|VERSION")]
    pub runtime: Option<String>,
    /// Graph optimisation before the first run
    #[arg(long, value_name = "LEVEL")]
    pub opt_level: Option<OptLevel>,
    /// Whether idle threads spin
    #[arg(long, value_name = "WHETHER")]
    pub spinning: Option<Switch>,
    /// An option of the session or provider, in the runtime's own words; may be repeated
    #[arg(long = "option", value_name = "KEY=VALUE", value_parser = parse::pair)]
    pub options: Vec<(String, String)>,
    /// Whether copies of inputs and outputs are timed [default: resident on the CPU, transfer with a provider]
    #[arg(long, value_name = "WHERE")]
    pub io: Option<IoChoice>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum OptLevel {
    Disable,
    Basic,
    Extended,
    All,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Switch {
    On,
    Off,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum IoChoice {
    /// Inputs and outputs stay where the runtime uses them
    Resident,
    /// Inputs are copied in and outputs out inside the timed region
    Transfer,
}

impl From<IoChoice> for Io {
    fn from(choice: IoChoice) -> Self {
        match choice {
            IoChoice::Resident => Self::Resident,
            IoChoice::Transfer => Self::Transfer,
        }
    }
}

impl RuntimeOptions {
    /// What is timed: as asked, else what a user of that device waits for.
    pub fn io(&self) -> Io {
        let on_device = self.options.iter().any(|(key, value)| {
            key == "provider" && !matches!(value.to_ascii_lowercase().as_str(), "cpu" | "none")
        });
        match (self.io, on_device) {
            (Some(choice), _) => choice.into(),
            (None, true) => Io::Transfer,
            (None, false) => Io::Resident,
        }
    }

    /// All options by key, the typed ones under the names that backend onnxruntime has for them.
    pub fn sorted(&self) -> Result<Vec<(String, String)>, CommandError> {
        let typed = [
            ("graph_optimization_level", self.opt_level.map(name)),
            ("allow_spinning", self.spinning.map(name)),
        ];
        let typed = typed.into_iter();
        let typed = typed.filter_map(|(key, value)| Some((key.to_owned(), value?)));
        let mut all: Vec<(String, String)> = self.options.iter().cloned().chain(typed).collect();
        all.sort();
        match all.windows(2).find(|pair| pair[0].0 == pair[1].0) {
            Some(pair) => Err(CommandError::usage(format!(
                "option `{}` is given twice: `{}` and `{}`",
                pair[0].0, pair[0].1, pair[1].1
            ))),
            None => Ok(all),
        }
    }
}

fn name(value: impl ValueEnum) -> String {
    let name = value.to_possible_value();
    name.map(|value| value.get_name().to_owned())
        .unwrap_or_default()
}
