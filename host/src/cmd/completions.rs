//! `completions`: what a shell needs to complete words of the command line.

use clap::{Args, ValueEnum};
use clap_complete::Shell;
use serde_json::json;

use crate::cli::{self, Global};
use crate::exit::{CommandResult, Exit};
use crate::ui::print;

const EXAMPLES: &str = "\
examples:
  edgedyno completions bash > ~/.local/share/bash-completion/completions/edgedyno
  edgedyno completions zsh > ~/.zfunc/_edgedyno
  edgedyno completions fish > ~/.config/fish/completions/edgedyno.fish
  source <(edgedyno completions bash)       for this shell only";

#[derive(Debug, Clone, Args)]
#[command(after_help = EXAMPLES)]
pub struct CompletionsArgs {
    /// The shell
    #[arg(value_name = "SHELL", value_enum)]
    pub shell: Shell,
}

pub fn run(args: &CompletionsArgs, global: &Global) -> CommandResult {
    let mut command = cli::command();
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut command, cli::NAME, &mut script);
    if global.json {
        let shell = args.shell.to_possible_value();
        print::json(&json!({
            "document": "edgedyno/completions/1",
            "shell": shell.map(|shell| shell.get_name().to_owned()),
            "script": String::from_utf8_lossy(&script),
        }));
        return Ok(Exit::GOOD);
    }
    print::raw(&script);
    Ok(Exit::GOOD)
}
