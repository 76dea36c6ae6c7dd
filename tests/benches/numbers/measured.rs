//! A run of the real program in a sandbox, read back from its store.

use std::time::Duration;

use anyhow::{Context as _, Result};
use edgedyno::store::{Columns, Store};
use edgedyno::view::CaseView;
use edgedyno_tests::Sandbox;

/// What one `edgedyno run` stored, and how long it took.
pub(crate) struct Measured {
    pub(crate) view: CaseView,
    pub(crate) wall: Duration,
    store: Store,
}

/// A sandbox with a file that simulating backends take for a model.
pub(crate) fn sandbox() -> Sandbox {
    let mut sandbox = Sandbox::new();
    sandbox.limit(Duration::from_secs(600));
    sandbox.write("no.model", "no backend reads this\n");
    sandbox
}

/// Runs `edgedyno run WORDS --json` to its end; findings about the machine are no reason to stop.
pub(crate) fn run(sandbox: &Sandbox, words: &[&str]) -> Result<Measured> {
    let words = ["run"].iter().chain(words).chain(&["--json", "--force"]);
    let output = sandbox.edgedyno(words).ok();
    Ok(Measured {
        view: newest(sandbox)?,
        wall: output.elapsed,
        store: Store::open_reading(&sandbox.store())?,
    })
}

/// The only case of the newest run.
pub(crate) fn newest(sandbox: &Sandbox) -> Result<CaseView> {
    let store = Store::open_reading(&sandbox.store())?;
    let runs = store.runs()?;
    let newest = runs.iter().max_by_key(|run| run.created_unix_ns);
    let run = &newest.context("the run is in the store")?.id;
    let cases = store.cases(run)?;
    let case = cases.first().context("the run has a case")?.key;
    Ok(CaseView::read(&store, run, case)?)
}

impl Measured {
    /// Trials of its first repeat, column by column.
    pub(crate) fn columns(&self) -> Result<Columns> {
        let repeat = self.view.repeats.first().context("the case has a repeat")?;
        Ok(self.store.columns(&repeat.row, 0)?)
    }
}
