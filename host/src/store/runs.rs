//! Runs: beginning, naming, finding and removing them.

use std::collections::BTreeMap;

use edgedyno_shared::case::Case;
use edgedyno_shared::device::DeviceInfo;
use edgedyno_shared::ids::{RunId, Sha256};
use edgedyno_shared::order::OrderKey;
use edgedyno_shared::repeat::Stage;
use edgedyno_shared::wire::failure::Failure;
use rusqlite::{OptionalExtension, Row, params};

use super::rows::{
    CaseRow, DeviceRow, FailureRow, FindingRow, OutcomeKind, RulesRow, RunRow, RunStatus,
};
use super::{Result, Store, StoreError};

/// A run about to begin.
#[derive(Debug, Clone)]
pub struct NewRun {
    pub id: RunId,
    pub command: String,
    pub argv: Vec<String>,
    pub plan_json: serde_json::Value,
    pub tags: Vec<String>,
    pub tool_version: String,
    pub created_unix_ns: i64,
}

/// A case of a run, added before its first order leaves.
#[derive(Debug)]
pub struct NewCase<'a> {
    pub key: Sha256,
    pub match_key: Sha256,
    pub case: &'a Case,
    pub rules: RulesRow,
}

/// What a run has from its first moment on.
#[derive(Debug, Default)]
pub struct FirstRows<'a> {
    pub cases: Vec<NewCase<'a>>,
    /// Boards, and what they say of themselves.
    pub devices: Vec<(&'a str, &'a DeviceInfo)>,
    pub findings: Vec<(Option<Sha256>, FindingRow)>,
}

impl Store {
    /// Begins a run that has nothing yet.
    pub fn begin_run(&self, run: &NewRun) -> Result<()> {
        self.begin_run_with(run, &FirstRows::default())
    }

    /// Begins a run with all of this or not at all: what a killed host leaves behind can be resumed, or was
    /// never begun.
    pub fn begin_run_with(&self, run: &NewRun, first: &FirstRows<'_>) -> Result<()> {
        run.tags.iter().try_for_each(|tag| check_tag(tag))?;
        let change = self.begin()?;
        self.insert_run(run)?;
        self.insert_cases(&run.id, &first.cases)?;
        for (board, info) in &first.devices {
            self.put_device(&run.id, board, info)?;
        }
        self.insert_findings(&run.id, &first.findings)?;
        change.commit().map_err(self.explain("begin a run"))
    }

    fn insert_run(&self, run: &NewRun) -> Result<()> {
        let explain = self.explain("begin a run");
        self.sql
            .execute(
                "INSERT INTO runs (id, created_unix_ns, command, argv, plan, tool_version, status)
                 VALUES ($1, $2, $3, $4, $5, $6, $7)",
                params![
                    run.id.0,
                    run.created_unix_ns,
                    run.command,
                    json(&run.argv),
                    run.plan_json.to_string(),
                    run.tool_version,
                    RunStatus::Running.name(),
                ],
            )
            .map_err(&explain)?;
        for tag in &run.tags {
            self.sql
                .execute(INSERT_TAG, params![tag, run.id.0])
                .map_err(&explain)?;
        }
        Ok(())
    }

    /// Adds a case; one that is there already keeps its place.
    pub fn add_case(&self, run: &RunId, new: &NewCase<'_>) -> Result<()> {
        let change = self.begin()?;
        self.insert_cases(run, std::slice::from_ref(new))?;
        change.commit().map_err(self.explain("add a case"))
    }

    /// Adds cases behind those that are there; inside a transaction.
    fn insert_cases(&self, run: &RunId, all: &[NewCase<'_>]) -> Result<()> {
        let explain = self.explain("add cases");
        let mut position: i64 = self
            .sql
            .query_row(
                "SELECT COUNT(*) FROM cases WHERE run_id = $1",
                [&run.0],
                |row| row.get(0),
            )
            .map_err(&explain)?;
        let mut insert = self
            .sql
            .prepare(
                "INSERT INTO cases (run_id, case_key, match_key, position, definition, rules)
                 VALUES ($1, $2, $3, $4, $5, $6) ON CONFLICT (run_id, case_key) DO NOTHING",
            )
            .map_err(&explain)?;
        for new in all {
            let added = insert
                .execute(params![
                    run.0,
                    new.key.to_string(),
                    new.match_key.to_string(),
                    position,
                    json(&CaseRow::from(new.case)),
                    json(&new.rules),
                ])
                .map_err(&explain)?;
            position += added as i64;
        }
        Ok(())
    }

    pub fn set_run_status(&self, run: &RunId, status: RunStatus) -> Result<()> {
        let changed = self
            .sql
            .execute(
                "UPDATE runs SET status = $1 WHERE id = $2",
                params![status.name(), run.0],
            )
            .map_err(self.explain("change a run"))?;
        match changed {
            0 => self.run(run).map(drop),
            _ => Ok(()),
        }
    }

    /// Keeps what a board said of itself; a later answer replaces it.
    pub fn put_device(&self, run: &RunId, board: &str, info: &DeviceInfo) -> Result<()> {
        self.sql
            .execute(
                "INSERT INTO devices (run_id, board, info) VALUES ($1, $2, $3)
                 ON CONFLICT (run_id, board) DO UPDATE SET info = excluded.info",
                params![run.0, board, json(&DeviceRow::from(info))],
            )
            .map(drop)
            .map_err(self.explain("keep a board's description"))
    }

    /// Keeps a finding that cannot be worked out from what is stored.
    pub fn put_finding(
        &self,
        run: &RunId,
        case: Option<Sha256>,
        finding: &FindingRow,
    ) -> Result<()> {
        self.put_findings(run, &[(case, finding.clone())])
    }

    /// Keeps findings behind those that are there, all or none.
    pub fn put_findings(
        &self,
        run: &RunId,
        findings: &[(Option<Sha256>, FindingRow)],
    ) -> Result<()> {
        let change = self.begin()?;
        self.insert_findings(run, findings)?;
        change.commit().map_err(self.explain("keep findings"))
    }

    /// [`Self::put_findings`] inside a transaction.
    fn insert_findings(
        &self,
        run: &RunId,
        findings: &[(Option<Sha256>, FindingRow)],
    ) -> Result<()> {
        let explain = self.explain("keep findings");
        let first: i64 = self
            .sql
            .query_row(
                "SELECT COALESCE(MAX(number) + 1, 0) FROM findings WHERE run_id = $1",
                [&run.0],
                |row| row.get(0),
            )
            .map_err(&explain)?;
        let mut insert = self
            .sql
            .prepare(
                "INSERT INTO findings (run_id, number, case_key, body) VALUES ($1, $2, $3, $4)",
            )
            .map_err(&explain)?;
        for (number, (case, finding)) in (first..).zip(findings) {
            let case = case.map(|key| key.to_string());
            insert
                .execute(params![run.0, number, case, json(finding)])
                .map_err(&explain)?;
        }
        Ok(())
    }

    /// Takes away findings of these codes, which the end of a resumed run makes anew.
    pub fn drop_findings(&self, run: &RunId, codes: &[&str]) -> Result<()> {
        let explain = self.explain("drop findings");
        let change = self.begin()?;
        for code in codes {
            // The body is JSON of our own writing that begins with the code.
            change
                .execute(
                    "DELETE FROM findings WHERE run_id = $1 AND body LIKE $2",
                    params![run.0, format!("{{\"code\":\"{code}\"%")],
                )
                .map_err(&explain)?;
        }
        change.commit().map_err(&explain)
    }

    /// A row for a repeat that never reached a worker. What an agent delivered stays as it is.
    pub fn put_failure(&self, key: &OrderKey, stage: Stage, failure: &Failure) -> Result<()> {
        self.check_case(&key.run, key.case)?;
        self.sql
            .execute(
                "INSERT INTO repeats
                     (id, run_id, case_key, repeat, attempt, pass, origin, outcome, stage, failure)
                 SELECT COALESCE(MAX(id), 0) + 1, $1, $2, $3, $4, $5, 'host', $6, $7, $8
                 FROM repeats WHERE id > 0
                 ON CONFLICT (run_id, case_key, repeat, attempt, pass) DO NOTHING",
                params![
                    key.run.0,
                    key.case.to_string(),
                    key.repeat,
                    key.attempt,
                    key.pass.name(),
                    OutcomeKind::Failed.name(),
                    stage.name(),
                    json(&FailureRow::from(failure)),
                ],
            )
            .map(drop)
            .map_err(self.explain("record a failure"))
    }

    /// All runs, newest first.
    pub fn runs(&self) -> Result<Vec<RunRow>> {
        let explain = self.explain("read the runs");
        let mut tags = self.tags()?;
        let mut query = self
            .sql
            .prepare(
                "SELECT id, created_unix_ns, command, argv, plan, tool_version, status
                 FROM runs ORDER BY created_unix_ns DESC, id DESC",
            )
            .map_err(&explain)?;
        let rows = query.query_map([], run_row).map_err(&explain)?;
        let mut runs = rows
            .collect::<rusqlite::Result<Vec<_>>>()
            .map_err(&explain)?;
        for run in &mut runs {
            run.tags = tags.remove(&run.id.0).unwrap_or_default();
        }
        Ok(runs)
    }

    /// One run by its exact id.
    pub fn run(&self, id: &RunId) -> Result<RunRow> {
        let explain = self.explain("read a run");
        let found = self.sql.query_row(
            "SELECT id, created_unix_ns, command, argv, plan, tool_version, status
             FROM runs WHERE id = $1",
            [&id.0],
            run_row,
        );
        let mut run = found
            .optional()
            .map_err(&explain)?
            .ok_or_else(|| StoreError::NoSuchRun {
                wanted: id.0.clone(),
                near: Vec::new(),
            })?;
        let mut query = self
            .sql
            .prepare_cached("SELECT tag FROM tags WHERE run_id = $1 ORDER BY tag")
            .map_err(&explain)?;
        let tags = query
            .query_map([&id.0], |row| row.get(0))
            .map_err(&explain)?;
        run.tags = tags.collect::<rusqlite::Result<_>>().map_err(&explain)?;
        Ok(run)
    }

    /// The run that `name` means: `last`, an id, a tag, or the beginning of one id.
    pub fn resolve(&self, name: &str) -> Result<RunId> {
        let runs = self.runs()?;
        let ids = || runs.iter().map(|run| &run.id);
        let tagged = |tag: &String| tag == name;
        if let Some(newest) = ids().next().filter(|_| name == "last") {
            return Ok(newest.clone());
        }
        if let Some(exact) = ids().find(|id| id.0 == name) {
            return Ok(exact.clone());
        }
        let by_tag = runs.iter().filter(|run| run.tags.iter().any(tagged));
        let mut found: Vec<&RunId> = by_tag.map(|run| &run.id).collect();
        if found.is_empty() && !name.is_empty() {
            found = ids().filter(|id| id.0.starts_with(name)).collect();
        }
        match found.as_slice() {
            [one] => Ok((*one).clone()),
            [] => Err(StoreError::NoSuchRun {
                wanted: name.into(),
                near: near(name, &runs),
            }),
            several => Err(StoreError::AmbiguousRun {
                wanted: name.into(),
                candidates: several.iter().map(|id| id.0.clone()).collect(),
            }),
        }
    }

    pub fn tag(&self, run: &RunId, tag: &str) -> Result<()> {
        check_tag(tag)?;
        self.run(run)?;
        self.sql
            .execute(INSERT_TAG, params![tag, run.0])
            .map(drop)
            .map_err(self.explain("tag a run"))
    }

    /// Takes a tag off; false when the run did not have it.
    pub fn untag(&self, run: &RunId, tag: &str) -> Result<bool> {
        self.sql
            .execute(
                "DELETE FROM tags WHERE run_id = $1 AND tag = $2",
                params![run.0, tag],
            )
            .map(|changed| changed > 0)
            .map_err(self.explain("take off a tag"))
    }

    /// Removes a run with all it measured, and contents that no other run uses.
    pub fn remove_run(&self, run: &RunId) -> Result<()> {
        self.run(run)?;
        let explain = self.explain("remove a run");
        let change = self.begin()?;
        change
            .execute("DELETE FROM runs WHERE id = $1", [&run.0])
            .map_err(&explain)?;
        change
            .execute(
                "DELETE FROM contents WHERE sha256 NOT IN (SELECT sha256 FROM artifacts)",
                [],
            )
            .map_err(&explain)?;
        change.commit().map_err(&explain)
    }

    /// An error unless the run has this case.
    pub(super) fn check_case(&self, run: &RunId, case: Sha256) -> Result<()> {
        let known: bool = self
            .sql
            .query_row(
                "SELECT EXISTS (SELECT 1 FROM cases WHERE run_id = $1 AND case_key = $2)",
                params![run.0, case.to_string()],
                |row| row.get(0),
            )
            .map_err(self.explain("look up a case"))?;
        if known {
            return Ok(());
        }
        self.run(run)?;
        Err(StoreError::NoSuchCase {
            run: run.0.clone(),
            case: case.to_string(),
        })
    }

    fn tags(&self) -> Result<BTreeMap<String, Vec<String>>> {
        let explain = self.explain("read the tags");
        let mut query = self
            .sql
            .prepare("SELECT run_id, tag FROM tags ORDER BY run_id, tag")
            .map_err(&explain)?;
        let pairs = query
            .query_map([], |row| Ok((row.get(0)?, row.get(1)?)))
            .map_err(&explain)?;
        let mut tags: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for pair in pairs {
            let (run, tag): (String, String) = pair.map_err(&explain)?;
            tags.entry(run).or_default().push(tag);
        }
        Ok(tags)
    }
}

const INSERT_TAG: &str =
    "INSERT INTO tags (tag, run_id) VALUES ($1, $2) ON CONFLICT (tag, run_id) DO NOTHING";

/// A stored row as JSON text.
pub(super) fn json<T: serde::Serialize>(row: &T) -> String {
    // Rows are structs, strings and numbers with text keys: nothing that JSON cannot say.
    serde_json::to_string(row).expect("a stored row is always JSON")
}

fn run_row(row: &Row<'_>) -> rusqlite::Result<RunRow> {
    let status: String = row.get(6)?;
    Ok(RunRow {
        id: RunId(row.get(0)?),
        created_unix_ns: row.get(1)?,
        command: row.get(2)?,
        argv: super::reader::from_json(row, 3)?,
        plan: super::reader::from_json(row, 4)?,
        tool_version: row.get(5)?,
        status: super::reader::named(6, &status, RunStatus::from_name)?,
        tags: Vec::new(),
    })
}

pub(super) fn check_tag(tag: &str) -> Result<()> {
    let fits = |c: char| c.is_alphanumeric() || matches!(c, '-' | '_' | '.');
    match tag {
        "" | "last" => Err(StoreError::BadTag(tag.into())),
        tag if tag.chars().all(fits) => Ok(()),
        tag => Err(StoreError::BadTag(tag.into())),
    }
}

/// Ids and tags that look like what was asked for.
fn near(name: &str, runs: &[RunRow]) -> Vec<String> {
    let names = runs
        .iter()
        .flat_map(|run| std::iter::once(&run.id.0).chain(&run.tags));
    crate::near::matches(name, names.map(String::as_str))
}
