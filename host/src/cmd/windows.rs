//! `windows`: a run at its beginning, middle and end, case by case.

use clap::Args;
use edgedyno_shared::ids::RunId;

use super::read::{self, ReadOptions};
use crate::cli::Global;
use crate::documents;
use crate::exit::{CommandError, CommandResult, Exit};
use crate::summary::windows::Variant;
use crate::ui::{print, windows as text};

const EXAMPLES: &str = "\
examples:
  edgedyno windows last
  edgedyno windows last --case threads=2
  edgedyno windows before-upgrade --json";

#[derive(Debug, Clone, Args)]
#[command(after_help = EXAMPLES)]
pub struct WindowsArgs {
    #[command(flatten)]
    pub read: ReadOptions,
}

pub fn run(args: &WindowsArgs, global: &Global) -> CommandResult {
    let picked = args.read.open(global)?;
    let labels = read::labels(&picked.cases);
    let mut variants = Vec::new();
    for case in &picked.cases {
        let view = picked.source.view(case.key)?;
        let short = &case.key.to_string()[..8];
        let name = labels
            .get(short)
            .cloned()
            .unwrap_or_else(|| short.to_owned());
        variants.push(Variant::of(name, &view));
    }
    variants.sort_by(|a, b| a.name.cmp(&b.name));
    if variants.iter().all(|variant| variant.repeats.is_empty()) {
        let run = picked.source.run()?.id;
        return Err(CommandError::new(Exit::NOTHING_MEASURED, nothing(&run))
            .hint(format!("`edgedyno summary {run}` tells why")));
    }
    match global.json {
        true => print::json(&documents::windows(&picked.source.run()?.id, &variants)),
        false => print::result(text::text(&variants)),
    }
    Ok(Exit::GOOD)
}

fn nothing(run: &RunId) -> String {
    format!("run {run} has no measured trial")
}
