//! The command line: parse, dispatch, and turn what went wrong into an exit code.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use clap::error::{ContextKind, ErrorKind};
use clap::{Args, Parser, Subcommand};

use crate::cmd;
use crate::exit::{CommandError, CommandResult, Exit};
use crate::ui::{error, print};

/// A dynamometer for neural networks on edge boards
#[derive(Debug, Parser)]
#[command(name = "edgedyno", version, max_term_width = 100, after_help = EXAMPLES)]
struct Cli {
    #[command(flatten)]
    global: Global,
    #[command(subcommand)]
    command: Command,
}

const EXAMPLES: &str = "\
examples:
  edgedyno demo                     measure two networks on this machine, nothing to prepare
  edgedyno run model.onnx           measure a model
  edgedyno sweep plan.toml          measure many cases
  edgedyno summary last             show the newest run again
  edgedyno get last latency_p50_ms  one figure, for scripts";

/// What every command understands.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Everywhere")]
pub struct Global {
    /// Print the result as JSON
    #[arg(long, global = true)]
    pub json: bool,
    /// Folder of the store; without it the nearest .edgedyno upward
    #[arg(
        long,
        global = true,
        value_name = "DIR",
        env = "EDGEDYNO_STORE",
        hide_env_values = true
    )]
    pub store: Option<PathBuf>,
    /// Say more on stderr; twice for even more
    #[arg(short, long, global = true, action = clap::ArgAction::Count)]
    pub verbose: u8,
}

impl Global {
    /// The store named, if any.
    pub fn store(&self) -> Option<&Path> {
        self.store.as_deref()
    }
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Measure two networks on this machine, nothing to prepare
    Demo(cmd::demo::DemoArgs),
    /// Measure a model
    Run(Box<cmd::run::RunArgs>),
    /// Measure many cases: a plan file, or a model over axes
    Sweep(Box<cmd::sweep::SweepArgs>),
    /// Say how much other work on the board slows a model down
    Stress(Box<cmd::stress::StressArgs>),
    /// Measure the plan of a stored run again
    Rerun(cmd::rerun::RerunArgs),
    /// Boards on the network: come to know them, list them
    Board(cmd::board::BoardArgs),
    /// Look into a model file, or make one
    Model(cmd::model::ModelArgs),
    /// Show what a run came to
    Summary(cmd::summary::SummaryArgs),
    /// List what a board can run models with, or install more
    Runtime(cmd::runtime::RuntimeArgs),
    /// Say which of two runs is better, by how much and how sure that is
    Compare(Box<cmd::compare::Args>),
    /// Print one figure of a run
    Get(cmd::get::GetArgs),
    /// Say what a field means
    Explain(cmd::explain::ExplainArgs),
    /// Print trials one by one
    Records(cmd::records::RecordsArgs),
    /// Show what the board did meanwhile: telemetry
    Samples(cmd::samples::SamplesArgs),
    /// Show a run at its beginning, middle and end
    Windows(cmd::windows::WindowsArgs),
    /// Make a page or figures to look at
    Report(cmd::report::ReportArgs),
    /// Write what happened when, for trace viewers
    Trace(cmd::trace::TraceArgs),
    /// Answer a question in SQL
    Query(cmd::query::QueryArgs),
    /// Make files from a run
    Export(cmd::export::ExportArgs),
    /// Take a run in that was bundled elsewhere
    Import(cmd::import::ImportArgs),
    /// Show what a board does now
    Top(cmd::top::TopArgs),
    /// Say what the tool costs on a board, and how small a difference can be seen there
    Selfcheck(cmd::selfcheck::SelfcheckArgs),
    /// List, show, name and remove runs, and copy them between stores
    Runs(cmd::runs::RunsArgs),
    /// Print what a shell needs to complete commands
    Completions(cmd::completions::CompletionsArgs),
    /// Write manual pages
    Man(cmd::man::ManArgs),
}

/// What the program is called.
pub const NAME: &str = "edgedyno";

/// The command line as clap knows it, to make pages and completions of.
pub fn command() -> clap::Command {
    use clap::CommandFactory;
    Cli::command()
}

/// Runs the command of this process's arguments.
pub fn main() -> Exit {
    let words: Vec<OsString> = std::env::args_os().collect();
    let cli = match Cli::try_parse_from(&words) {
        Ok(cli) => cli,
        Err(refused) => return refuse(&refused, words.iter().any(|word| word == "--json")),
    };
    log(cli.global.verbose);
    let exit = match dispatch(&cli) {
        Ok(exit) => exit,
        Err(failed) => {
            error::show(&failed, cli.global.json);
            failed.exit
        }
    };
    match print::fault() {
        Some(why) => Exit::of_all([exit, unwritten(why)]),
        None => exit,
    }
}

/// Half a result looks like a whole one to whoever reads the file.
fn unwritten(why: std::io::Error) -> Exit {
    let failed = CommandError::usage("the result could not be written to standard output")
        .because(why)
        .hint("what was measured is stored: print it again with `edgedyno summary last`");
    error::show(&failed, false);
    failed.exit
}

fn dispatch(cli: &Cli) -> CommandResult {
    match &cli.command {
        Command::Demo(args) => cmd::demo::run(args, &cli.global),
        Command::Run(args) => cmd::run::run(args, &cli.global),
        Command::Sweep(args) => cmd::sweep::run(args, &cli.global),
        Command::Stress(args) => cmd::stress::run(args, &cli.global),
        Command::Rerun(args) => cmd::rerun::run(args, &cli.global),
        Command::Board(args) => cmd::board::run(args, &cli.global),
        Command::Model(args) => cmd::model::run(args, &cli.global),
        Command::Summary(args) => cmd::summary::run(args, &cli.global),
        Command::Runtime(args) => cmd::runtime::run(args, &cli.global),
        Command::Compare(args) => cmd::compare::run(args, &cli.global),
        Command::Get(args) => cmd::get::run(args, &cli.global),
        Command::Explain(args) => cmd::explain::run(args, &cli.global),
        Command::Records(args) => cmd::records::run(args, &cli.global),
        Command::Samples(args) => cmd::samples::run(args, &cli.global),
        Command::Windows(args) => cmd::windows::run(args, &cli.global),
        Command::Report(args) => cmd::report::run(args, &cli.global),
        Command::Trace(args) => cmd::trace::run(args, &cli.global),
        Command::Query(args) => cmd::query::run(args, &cli.global),
        Command::Export(args) => cmd::export::run(args, &cli.global),
        Command::Import(args) => cmd::import::run(args, &cli.global),
        Command::Top(args) => cmd::top::run(args, &cli.global),
        Command::Selfcheck(args) => cmd::selfcheck::run(args, &cli.global),
        Command::Runs(args) => cmd::runs::run(args, &cli.global),
        Command::Completions(args) => cmd::completions::run(args, &cli.global),
        Command::Man(args) => cmd::man::run(args, &cli.global),
    }
}

fn log(verbose: u8) {
    let level = match verbose {
        0 => tracing::Level::WARN,
        1 => tracing::Level::INFO,
        _ => tracing::Level::DEBUG,
    };
    let log = tracing_subscriber::fmt().with_max_level(level);
    // A second logger is an error only where this is a library under test.
    let _ = log.with_writer(std::io::stderr).without_time().try_init();
}

/// Shows help where it was asked for, and an error of ours where the arguments make no command.
fn refuse(refused: &clap::Error, json: bool) -> Exit {
    match refused.kind() {
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => {
            print::raw(refused.render().to_string().as_bytes());
            Exit::GOOD
        }
        ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => {
            print::note(refused.render());
            Exit::USAGE
        }
        _ => {
            error::show(&usage_error(refused), json);
            Exit::USAGE
        }
    }
}

/// clap's message in our form: its first paragraph, its suggestion as the hint.
fn usage_error(refused: &clap::Error) -> CommandError {
    let text = refused.render().to_string();
    let first = text.split("\n\n").next().unwrap_or_default();
    let what = first.trim().trim_start_matches("error: ");
    let suggested = [
        ContextKind::SuggestedArg,
        ContextKind::SuggestedSubcommand,
        ContextKind::SuggestedValue,
    ];
    let suggested = suggested.iter().find_map(|kind| refused.get(*kind));
    let hint = match suggested {
        Some(known) => format!("did you mean {known}?"),
        None => "`--help` after the command shows what it takes".into(),
    };
    CommandError::usage(what).hint(hint)
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_command_line_is_sound() {
        Cli::command().debug_assert();
    }

    #[test]
    fn every_command_shows_an_example() {
        fn check(command: &clap::Command) {
            let help = command.get_after_help().map(ToString::to_string);
            let name = command.get_name();
            assert!(help.is_some_and(|h| h.contains("example")), "{name}");
            command.get_subcommands().for_each(check);
        }
        check(&Cli::command());
    }

    #[test]
    fn the_page_of_the_command_line_is_what_help_says() {
        crate::golden::check("docs/cli.md", &page());
    }

    fn page() -> String {
        let mut out = String::from(PAGE_HEAD);
        for (exit, meaning) in crate::exit::MEANINGS {
            out.extend([format!("| {} | {meaning} |\n", exit.code())]);
        }
        out.push_str("\n## Commands\n\nEach has a page with its help.\n\n| command | what it does |\n|---|---|\n");
        let mut root = Cli::command();
        root.build();
        for command in root
            .get_subcommands()
            .filter(|c| !c.is_hide_set() && c.get_name() != "help")
        {
            row(command, "", &mut out);
        }
        out
    }

    const PAGE_HEAD: &str = "\
# The command line

This page and those of the commands are made from the program's own help; `edgedyno COMMAND --help` says the
same, and so do the manual pages that `edgedyno man DIR` writes. `edgedyno completions SHELL` helps to type. Results go to
stdout, everything else to stderr; `--json` works with every command and prints one of the
[JSON documents](documents.md). `--store DIR` or `EDGEDYNO_STORE` names the store, else it is the nearest `.edgedyno/`
upward, made here by the first measurement.

## Exit codes

When several hold, the first of 130, 7, 4, 2, 1, 3, 5, 6, 8 counts.

| code | meaning |
|---|---|
";

    /// A row of the table; a command of commands has one for each.
    fn row(command: &clap::Command, above: &str, out: &mut String) {
        for (name, command) in leaves(command, above) {
            let about = command.get_about().map(ToString::to_string);
            let about = about.unwrap_or_default();
            let file = name.replace(' ', "-");
            out.extend([format!(
                "| [`edgedyno {name}`](commands/{file}.md) | {about} |\n"
            )]);
        }
    }

    /// Commands that have none below them, by all their words.
    fn leaves<'a>(command: &'a clap::Command, above: &str) -> Vec<(String, &'a clap::Command)> {
        let name = format!("{above}{}", command.get_name());
        let below: Vec<&clap::Command> = command
            .get_subcommands()
            .filter(|c| !c.is_hide_set() && c.get_name() != "help")
            .collect();
        match below.is_empty() {
            true => vec![(name, command)],
            false => {
                let above = format!("{name} ");
                let below = below.into_iter();
                below.flat_map(|command| leaves(command, &above)).collect()
            }
        }
    }

    /// A page for each command, and their list in the table of contents of the book.
    #[test]
    fn every_command_has_a_page_and_every_page_a_command() {
        let mut root = Cli::command().term_width(100);
        root.build();
        let all: Vec<(String, &clap::Command)> = root
            .get_subcommands()
            .filter(|c| !c.is_hide_set() && c.get_name() != "help")
            .flat_map(|command| leaves(command, ""))
            .collect();
        let mut list = String::new();
        for (name, command) in &all {
            let file = format!("commands/{}.md", name.replace(' ', "-"));
            let path = format!("docs/{file}");
            let kept = std::fs::read_to_string(crate::golden::path(&path)).unwrap_or_default();
            // Below the help a page may say more, an example for instance.
            let (_, more) = kept.split_once("\n```\n").unwrap_or_default();
            crate::golden::check(&path, &(command_page(name, command) + more));
            list.extend([format!("  - [{name}]({file})\n")]);
        }
        let contents = std::fs::read_to_string(crate::golden::path("docs/SUMMARY.md")).unwrap();
        let (begin, end) = ("<!-- commands -->\n", "<!-- end of commands -->");
        let (head, rest) = contents.split_once(begin).unwrap();
        let (_, tail) = rest.split_once(end).unwrap();
        let made = format!("{head}{begin}{list}{end}{tail}");
        crate::golden::check("docs/SUMMARY.md", &made);
        let there = std::fs::read_dir(crate::golden::path("docs/commands")).unwrap();
        assert_eq!(
            there.count(),
            all.len(),
            "docs/commands has pages of no command"
        );
    }

    fn command_page(name: &str, command: &clap::Command) -> String {
        let help = command
            .clone()
            .term_width(100)
            .bin_name(format!("{NAME} {name}"))
            .render_long_help()
            .to_string();
        let help: Vec<&str> = help.trim_end().lines().map(str::trim_end).collect();
        format!(
            "# `edgedyno {name}`\n\n<!-- Made by `EDGEDYNO_REWRITE=1 cargo test -p edgedyno --lib`. -->\n\n\
             ```text\n{}\n```\n",
            help.join("\n")
        )
    }

    #[test]
    fn a_wrong_argument_is_an_error_of_ours() {
        let refused = Cli::try_parse_from(["edgedyno", "run", "m.onnx", "--threads", "0"]);
        let error = usage_error(&refused.unwrap_err());
        assert_eq!(error.exit, Exit::USAGE);
        assert!(error.what.contains("at least 1 thread"), "{}", error.what);
        let refused = Cli::try_parse_from(["edgedyno", "run", "m.onnx", "--thread", "1"]);
        let error = usage_error(&refused.unwrap_err());
        assert!(error.hint.unwrap().contains("--threads"));
    }
}
