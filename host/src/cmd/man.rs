//! `man`: manual pages of all commands.

use std::path::PathBuf;

use clap::Args;
use serde_json::{Value, json};

use crate::cli::{self, Global};
use crate::exit::{CommandError, CommandResult, Exit};
use crate::export::ExportError;
use crate::ui::print;

const EXAMPLES: &str = "\
examples:
  edgedyno man ~/.local/share/man/man1
  edgedyno man pages && man pages/edgedyno-run.1";

#[derive(Debug, Clone, Args)]
#[command(after_help = EXAMPLES)]
pub struct ManArgs {
    /// The folder to write them to; it is made when it is not there
    #[arg(value_name = "DIR")]
    pub dir: PathBuf,
}

pub fn run(args: &ManArgs, global: &Global) -> CommandResult {
    let mut written = Vec::new();
    for (name, page) in pages()? {
        std::fs::create_dir_all(&args.dir).map_err(|why| not_writable(&args.dir, why))?;
        let path = args.dir.join(&name);
        std::fs::write(&path, &page).map_err(|why| not_writable(&path, why))?;
        written.push((name, page.len()));
    }
    if global.json {
        let files = written
            .iter()
            .map(|(name, bytes)| json!({ "name": name, "bytes": bytes }));
        print::json(&json!({
            "document": "edgedyno/man/1",
            "folder": args.dir,
            "files": files.collect::<Vec<Value>>(),
        }));
        return Ok(Exit::GOOD);
    }
    for (name, bytes) in written {
        print::result(format_args!("{name}\t{bytes} bytes"));
    }
    Ok(Exit::GOOD)
}

/// Every page with its name: the program, then each command under its own.
fn pages() -> Result<Vec<(String, Vec<u8>)>, CommandError> {
    let mut root = cli::command().disable_help_subcommand(true);
    root.build();
    let mut pages = Vec::new();
    add(&root, cli::NAME, &mut pages)?;
    Ok(pages)
}

fn add(
    command: &clap::Command,
    name: &str,
    pages: &mut Vec<(String, Vec<u8>)>,
) -> Result<(), CommandError> {
    let mut page = Vec::new();
    // Its name as a word of the manual, and as it is typed in the text.
    let titled = command.clone().display_name(name.to_owned());
    clap_mangen::Man::new(titled)
        .title(name.to_uppercase())
        .source(concat!("edgedyno ", env!("CARGO_PKG_VERSION")))
        .manual("EdgeDyno")
        .render(&mut page)
        .map_err(anyhow::Error::from)?;
    pages.push((format!("{name}.1"), page));
    let below = command
        .get_subcommands()
        .filter(|below| !below.is_hide_set() && below.get_name() != "help");
    for below in below {
        add(below, &format!("{name}-{}", below.get_name()), pages)?;
    }
    Ok(())
}

fn not_writable(path: &std::path::Path, source: std::io::Error) -> CommandError {
    let path = path.to_owned();
    ExportError::NotWritable { path, source }.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_command_has_a_page_that_says_what_it_does_and_how_to_begin() {
        let pages = pages().unwrap();
        let names: Vec<&str> = pages.iter().map(|(name, _)| name.as_str()).collect();
        for name in [
            "edgedyno.1",
            "edgedyno-run.1",
            "edgedyno-board-add.1",
            "edgedyno-runs-push.1",
        ] {
            assert!(names.contains(&name), "no {name} in {names:?}");
        }
        for (name, page) in &pages {
            let text = String::from_utf8(page.clone()).unwrap();
            assert!(
                text.contains(".SH NAME") && text.contains(".SH SYNOPSIS"),
                "{name}"
            );
            assert!(text.contains("example"), "{name} without an example");
            let line = text
                .lines()
                .skip_while(|line| *line != ".SH NAME")
                .nth(1)
                .unwrap_or_default();
            assert!(line.contains("\\-"), "{name}: {line}");
        }
    }
}
