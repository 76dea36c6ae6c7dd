//! Taking a run into a store: all of it in one transaction, or nothing.
//!
//! What the store has stays as it is. The same again changes nothing, in whatever order stores are merged; what
//! has the same name and another content is told and left out. Rows may come from a file that anybody wrote, so
//! that every column is looked at before it is written, and all that is new is read back before it is kept.

use std::collections::{BTreeMap, BTreeSet};

use edgedyno_shared::columns::{MAX_COLUMNS, codec};
use edgedyno_shared::ids::{RunId, Sha256};
use rusqlite::types::Value as Sql;
use rusqlite::{OptionalExtension, Transaction, params, params_from_iter};
use serde_json::Value;
use sha2::Digest as _;

use super::tables::{self, Column, Kind, Table};
use super::{Piece, PieceKind, Row, digest, read};
use crate::store::rows::RunStatus;
use crate::store::runs::check_tag;
use crate::store::{Result, Store, StoreError};

/// Where a run comes from.
#[derive(Debug, Clone, PartialEq)]
pub struct Origin {
    /// A file's name, or a folder.
    pub source: String,
    /// The store it was measured into, as it names itself.
    pub store: String,
    /// Of the bundle.
    pub sha256: Option<String>,
    /// What the bundle did not bring, as it says.
    pub left_out: Vec<Value>,
    pub tool_version: String,
    pub imported_unix_ns: i64,
}

impl Origin {
    /// More than the bytes of files was left out.
    pub fn lacks_texts(&self) -> bool {
        let is_file = |left: &Value| matches!(left["at"].as_str(), Some("outputs" | "models"));
        !self.left_out.iter().all(is_file)
    }
}

/// What came of it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Merged {
    pub run: String,
    /// The store did not have the run.
    pub is_new: bool,
    pub cases: u64,
    pub repeats: u64,
    pub tags: u64,
    pub findings: u64,
    pub contents: u64,
    /// Attempts that the store had.
    pub known: u64,
    /// Of the same name with another content; the store's own stay.
    pub conflicts: Vec<String>,
}

impl Merged {
    pub fn changed(&self) -> bool {
        self.is_new || self.cases + self.repeats + self.tags + self.findings + self.contents > 0
    }
}

/// A run on its way in. Dropped without [`Merge::finish`] it leaves nothing behind.
#[derive(Debug)]
pub struct Merge<'a> {
    store: &'a Store,
    change: Transaction<'a>,
    run: String,
    /// Texts may have been left out here or there, and say nothing of sameness.
    is_lenient: bool,
    /// The run is another one of the same name; nothing of it is taken.
    is_refused: bool,
    status_changed: bool,
    cases: BTreeSet<String>,
    repeats: Vec<i64>,
    done: Merged,
}

impl Store {
    /// Begins with the run itself. `is_whole` is false where texts were left out of what comes.
    pub fn merge(&self, head: &Piece, is_whole: bool) -> Result<Merge<'_>> {
        let row = head.only("runs").ok_or_else(|| unfit("it names no run"))?;
        let run = text(row, "id")?.to_owned();
        if !RunId(run.clone()).is_well_formed() {
            return Err(unfit(format!("`{run}` is no id of a run")));
        }
        let change = self.begin()?;
        let mut merge = Merge {
            store: self,
            change,
            is_lenient: !is_whole || self.lacks_texts(&run)?,
            is_refused: false,
            status_changed: false,
            cases: BTreeSet::new(),
            repeats: Vec::new(),
            done: Merged {
                run: run.clone(),
                ..Merged::default()
            },
            run,
        };
        merge.head(head, row)?;
        Ok(merge)
    }

    /// Whether a run came from a bundle that left texts out.
    fn lacks_texts(&self, run: &str) -> Result<bool> {
        let origin = self.origin(&RunId(run.to_owned()))?;
        Ok(origin.is_some_and(|origin| origin.lacks_texts()))
    }

    /// Where a run came from; none for one that was measured into this store.
    pub fn origin(&self, run: &RunId) -> Result<Option<Origin>> {
        let found = self.list(
            "read where a run came from",
            "SELECT source, store, sha256, left_out, tool_version, imported_unix_ns FROM imports
             WHERE run_id = $1",
            [&run.0],
            |row| {
                Ok(Origin {
                    source: row.get(0)?,
                    store: row.get(1)?,
                    sha256: row.get(2)?,
                    left_out: crate::store::reader::from_json(row, 3)?,
                    tool_version: row.get(4)?,
                    imported_unix_ns: row.get(5)?,
                })
            },
        )?;
        Ok(found.into_iter().next())
    }
}

impl Merge<'_> {
    fn head(&mut self, head: &Piece, row: &Row) -> Result<()> {
        match read::head(self.store, &self.run)? {
            None => {
                self.insert(&table("runs"), None, row, &mut [].iter())?;
                self.done.is_new = true;
            }
            Some(there) => {
                let own = there.only("runs").ok_or_else(|| unfit("it names no run"))?;
                if !self.is_same_run(own, row) {
                    self.is_refused = true;
                    let what = format!("run {}: the store has another of that id", self.run);
                    self.done.conflicts.push(what);
                    return Ok(());
                }
                self.raise_status(text(own, "status")?, text(row, "status")?)?;
            }
        }
        self.tags(head)?;
        self.devices(head)?;
        self.findings(head)
    }

    /// Its status may go on, its plan may lack names of files.
    fn is_same_run(&self, own: &Row, other: &Row) -> bool {
        let columns = match self.is_lenient {
            true => &["id", "created_unix_ns", "command", "tool_version"][..],
            false => &[
                "id",
                "created_unix_ns",
                "command",
                "tool_version",
                "argv",
                "plan",
            ],
        };
        columns
            .iter()
            .all(|name| own.get(*name) == other.get(*name))
    }

    /// Of two states the one that is further on counts.
    fn raise_status(&mut self, own: &str, other: &str) -> Result<()> {
        let rank = |name: &str| {
            let status = RunStatus::from_name(name);
            let status = status.ok_or_else(|| unfit(format!("`{name}` is no state of a run")))?;
            Ok::<u8, StoreError>(match status {
                RunStatus::Running => 0,
                RunStatus::Failed => 1,
                RunStatus::Interrupted => 2,
                RunStatus::Complete => 3,
            })
        };
        if rank(other)? > rank(own)? {
            self.change
                .execute(
                    "UPDATE runs SET status = $1 WHERE id = $2",
                    params![other, self.run],
                )
                .map_err(self.store.explain("change a run"))?;
            self.status_changed = true;
        }
        Ok(())
    }

    fn tags(&mut self, head: &Piece) -> Result<()> {
        for row in head.of("tags") {
            let tag = text(row, "tag")?;
            check_tag(tag)?;
            self.done.tags += self
                .change
                .execute(
                    "INSERT INTO tags (tag, run_id) VALUES ($1, $2)
                     ON CONFLICT (tag, run_id) DO NOTHING",
                    params![tag, self.run],
                )
                .map_err(self.store.explain("tag a run"))? as u64;
        }
        Ok(())
    }

    fn devices(&mut self, head: &Piece) -> Result<()> {
        // Boards may have other names in what came, and those that are here say more.
        if self.is_lenient && !self.done.is_new {
            return Ok(());
        }
        let own: BTreeMap<String, Value> = match read::head(self.store, &self.run)? {
            Some(there) => named(there.of("devices"), "board", "info"),
            None => BTreeMap::new(),
        };
        for row in head.of("devices") {
            let board = text(row, "board")?;
            match own.get(board) {
                None => {
                    let run = self.run.clone();
                    self.insert(&table("devices"), Some(run.into()), row, &mut [].iter())?;
                }
                Some(info) if row.get("info") == Some(info) => {}
                Some(_) => self.done.conflicts.push(format!(
                    "run {}: what board {board} said of itself differs",
                    self.run
                )),
            }
        }
        Ok(())
    }

    /// Findings have no name of their own: those that are not there yet are added behind the others.
    fn findings(&mut self, head: &Piece) -> Result<()> {
        let there = read::head(self.store, &self.run)?.unwrap_or_default();
        let mut own: Vec<Value> = there
            .of("findings")
            .iter()
            .map(|row| self.sameness(row))
            .collect();
        let numbers = there
            .of("findings")
            .iter()
            .filter_map(|row| row.get("number"));
        let mut next = numbers
            .filter_map(Value::as_i64)
            .max()
            .map_or(0, |last| last + 1);
        for row in head.of("findings") {
            let same = self.sameness(row);
            if let Some(at) = own.iter().position(|known| *known == same) {
                own.swap_remove(at);
                continue;
            }
            let mut row = row.clone();
            row.insert("number".into(), next.into());
            next += 1;
            self.insert(
                &table("findings"),
                Some(self.run.clone().into()),
                &row,
                &mut [].iter(),
            )?;
            self.done.findings += 1;
        }
        Ok(())
    }

    /// What makes two findings one.
    fn sameness(&self, row: &Row) -> Value {
        let body = row.get("body").cloned().unwrap_or_default();
        let case = row.get("case_key").cloned().unwrap_or_default();
        match self.is_lenient {
            true => serde_json::json!([case, body["code"], body["level"], body["repeat"]]),
            false => serde_json::json!([case, body]),
        }
    }

    /// Takes cases in; one that is there keeps its definition.
    pub fn cases(&mut self, piece: &Piece) -> Result<()> {
        if self.is_refused {
            return Ok(());
        }
        for row in piece.of("cases") {
            let key = hash(row, "case_key")?.to_string();
            hash(row, "match_key")?;
            let own = self.own_case(&key)?;
            match own {
                None => {
                    self.insert(
                        &table("cases"),
                        Some(self.run.clone().into()),
                        row,
                        &mut [].iter(),
                    )?;
                    self.done.cases += 1;
                    self.cases.insert(key);
                }
                // Its key is a digest of all that defines it; rules alone may differ.
                Some(rules) if row.get("rules") == Some(&rules) || self.is_lenient => {}
                Some(_) => {
                    let what = format!("run {}: the rules of case {} differ", self.run, &key[..8]);
                    self.done.conflicts.push(what);
                }
            }
        }
        Ok(())
    }

    fn own_case(&self, key: &str) -> Result<Option<Value>> {
        let rules: Option<String> = self
            .change
            .query_row(
                "SELECT rules FROM cases WHERE run_id = $1 AND case_key = $2",
                [&self.run, key],
                |row| row.get(0),
            )
            .optional()
            .map_err(self.store.explain("look up a case"))?;
        let parse = |text: String| serde_json::from_str(&text).map_err(|e| unfit(e.to_string()));
        rules.map(parse).transpose()
    }

    /// Takes one attempt of a repeat in.
    pub fn repeat(&mut self, piece: &Piece) -> Result<()> {
        if self.is_refused {
            return Ok(());
        }
        let row = piece
            .only("repeats")
            .ok_or_else(|| unfit("a repeat has no row"))?;
        let case = hash(row, "case_key")?.to_string();
        match self.own_repeat(row)? {
            Some((id, origin)) => {
                let comes_from = text(row, "origin")?;
                // What an agent delivered counts more than what the host noted in its stead.
                match (origin.as_str(), comes_from) {
                    ("host", "agent") => {
                        self.change
                            .execute("DELETE FROM repeats WHERE id = $1", [id])
                            .map_err(self.store.explain("replace a repeat"))?;
                        self.new_repeat(piece, row, case)
                    }
                    ("agent", "host") => {
                        self.done.known += 1;
                        Ok(())
                    }
                    _ => self.known_repeat(piece, row, id),
                }
            }
            None => self.new_repeat(piece, row, case),
        }
    }

    fn own_repeat(&self, row: &Row) -> Result<Option<(i64, String)>> {
        let values = ["case_key", "repeat", "attempt", "pass"];
        let values = values.map(|name| sql(&table("repeats"), name, row));
        let [case, repeat, attempt, pass] = values;
        self.change
            .query_row(
                "SELECT id, origin FROM repeats
                 WHERE run_id = $1 AND case_key = $2 AND repeat = $3 AND attempt = $4 AND pass = $5",
                params![self.run, case?, repeat?, attempt?, pass?],
                |row| Ok((row.get(0)?, row.get(1)?)),
            )
            .optional()
            .map_err(self.store.explain("look up a repeat"))
    }

    fn known_repeat(&mut self, piece: &Piece, row: &Row, id: i64) -> Result<()> {
        let own = read::repeat(self.store, id)?;
        let compared = match self.is_lenient {
            true => digest::bare,
            false => digest::full,
        };
        let kind = PieceKind::Repeat;
        match compared(&own, kind) == compared(piece, kind) {
            true => self.done.known += 1,
            false => self.done.conflicts.push(format!(
                "run {}: repeat {} of case {}, attempt {}, differs",
                self.run,
                row["repeat"],
                &text(row, "case_key")?[..8],
                row["attempt"],
            )),
        }
        Ok(())
    }

    fn new_repeat(&mut self, piece: &Piece, row: &Row, case: String) -> Result<()> {
        check_sizes(piece)?;
        let id: i64 = self
            .change
            .query_row("SELECT COALESCE(MAX(id), 0) + 1 FROM repeats", [], |row| {
                row.get(0)
            })
            .map_err(self.store.explain("begin a repeat"))?;
        let mut blobs = piece.blobs.iter();
        self.insert_repeat(id, row)?;
        for table in tables::of_piece(PieceKind::Repeat).filter(|table| table.name != "repeats") {
            for row in piece.of(table.name) {
                self.insert(table, Some(id.into()), row, &mut blobs)?;
            }
        }
        if blobs.next().is_some() {
            return Err(unfit("there are more bytes than rows of a repeat"));
        }
        self.cases.insert(case);
        self.repeats.push(id);
        self.done.repeats += 1;
        Ok(())
    }

    /// The one table whose rows belong to a run and have a number of their own.
    fn insert_repeat(&self, id: i64, row: &Row) -> Result<()> {
        let of = table("repeats");
        let mut values: Vec<Sql> = vec![id.into(), self.run.clone().into()];
        only_known_columns(&of, row)?;
        for column in of.columns {
            values.push(sql(&of, column.name, row)?);
        }
        let places: Vec<String> = (1..=values.len()).map(|n| format!("${n}")).collect();
        let statement = format!(
            "INSERT INTO repeats (id, run_id, {}) VALUES ({})",
            of.column_names(),
            places.join(", ")
        );
        self.change
            .prepare_cached(&statement)
            .and_then(|mut insert| insert.execute(params_from_iter(values)))
            .map(drop)
            .map_err(|why| self.refused(&of, why))
    }

    fn insert(
        &self,
        of: &Table,
        owner: Option<Sql>,
        row: &Row,
        blobs: &mut std::slice::Iter<'_, Vec<u8>>,
    ) -> Result<()> {
        only_known_columns(of, row)?;
        let mut values: Vec<Sql> = owner.into_iter().collect();
        for column in of.columns {
            values.push(match column.kind {
                Kind::Blob => blob(of, column, row, blobs)?,
                _ => sql(of, column.name, row)?,
            });
        }
        let places: Vec<String> = (1..=values.len()).map(|n| format!("${n}")).collect();
        let owner = of.owner.map(|name| format!("{name}, ")).unwrap_or_default();
        let statement = format!(
            "INSERT INTO {} ({owner}{}) VALUES ({})",
            of.name,
            of.column_names(),
            places.join(", ")
        );
        self.change
            .prepare_cached(&statement)
            .and_then(|mut insert| insert.execute(params_from_iter(values)))
            .map(drop)
            .map_err(|why| self.refused(of, why))
    }

    /// A row that the layout itself refuses (twice the same, of nothing that is there) is the fault of what came.
    fn refused(&self, of: &Table, why: rusqlite::Error) -> StoreError {
        match why.sqlite_error_code() {
            Some(rusqlite::ErrorCode::ConstraintViolation) => {
                unfit(format!("a row of {}: {why}", of.name))
            }
            _ => self.store.explain("take in a row")(why),
        }
    }

    /// Whether a repeat that has come names this content and the store lacks it.
    pub fn wants(&self, sha256: &str) -> Result<bool> {
        if self.is_refused {
            return Ok(false);
        }
        self.change
            .query_row(
                "SELECT EXISTS (SELECT 1 FROM artifacts WHERE sha256 = $1)
                    AND NOT EXISTS (SELECT 1 FROM contents WHERE sha256 = $1)",
                [sha256],
                |row| row.get(0),
            )
            .map_err(self.store.explain("look up a content"))
    }

    /// Takes the bytes of artifacts in.
    ///
    /// # Errors
    /// When they are not those that the name promises.
    pub fn content(&mut self, sha256: &str, piece: &Piece) -> Result<()> {
        if !self.wants(sha256)? {
            return Ok(());
        }
        let mut found = sha2::Sha256::new();
        piece.blobs.iter().for_each(|part| found.update(part));
        if Sha256(found.finalize().into()).to_string() != sha256 {
            return Err(unfit(format!("the bytes of content {sha256} are others")));
        }
        let mut blobs = piece.blobs.iter();
        for row in piece.of("contents") {
            self.insert(
                &table("contents"),
                Some(sha256.to_owned().into()),
                row,
                &mut blobs,
            )?;
        }
        if blobs.next().is_some() {
            return Err(unfit(format!(
                "there are more bytes than rows of content {sha256}"
            )));
        }
        self.change
            .execute(
                "UPDATE artifacts SET state = 'stored' WHERE sha256 = $1 AND state = 'left_out'",
                [sha256],
            )
            .map_err(self.store.explain("keep a content"))?;
        self.done.contents += 1;
        Ok(())
    }

    /// Makes all that came part of the store, for good; `marks` a new run as one that was taken in.
    ///
    /// # Errors
    /// When something that came cannot be read back: then nothing of it is stored.
    pub fn finish(mut self, origin: &Origin, marks: bool) -> Result<Merged> {
        self.mark_missing_contents()?;
        self.read_back()?;
        if self.done.is_new && marks {
            self.keep_origin(origin)?;
        }
        let explain = self.store.explain("finish a copy");
        let Self {
            change,
            done,
            status_changed,
            ..
        } = self;
        match done.changed() || status_changed {
            true => change.commit(),
            false => change.rollback(),
        }
        .map_err(explain)?;
        Ok(done)
    }

    /// An artifact is not `stored` whose bytes are not here.
    fn mark_missing_contents(&mut self) -> Result<()> {
        for id in &self.repeats {
            self.change
                .execute(
                    "UPDATE artifacts SET state = 'left_out' WHERE repeat_id = $1 AND state = 'stored'
                       AND NOT EXISTS (SELECT 1 FROM contents c WHERE c.sha256 = artifacts.sha256)",
                    [id],
                )
                .map_err(self.store.explain("mark an artifact"))?;
        }
        Ok(())
    }

    fn keep_origin(&self, origin: &Origin) -> Result<()> {
        self.change
            .execute(
                "INSERT INTO imports
                     (run_id, source, store, sha256, left_out, tool_version, imported_unix_ns)
                 VALUES ($1, $2, $3, $4, $5, $6, $7)",
                params![
                    self.run,
                    origin.source,
                    origin.store,
                    origin.sha256,
                    Value::from(origin.left_out.clone()).to_string(),
                    origin.tool_version,
                    origin.imported_unix_ns,
                ],
            )
            .map(drop)
            .map_err(self.store.explain("keep where a run came from"))
    }

    /// Reads what is new as any command would, so that nothing is kept that no command can read.
    fn read_back(&self) -> Result<()> {
        let unfit = |why: StoreError| unfit(why.to_string());
        let run = RunId(self.run.clone());
        self.store.run(&run).map_err(unfit)?;
        self.store.devices(&run).map_err(unfit)?;
        self.store.findings(&run).map_err(unfit)?;
        for key in &self.cases {
            let case: Sha256 = key
                .parse()
                .map_err(|_| StoreError::Foreign(format!("`{key}` is no key")))?;
            self.store.case(&run, case).map_err(unfit)?;
            for repeat in self.store.repeats(&run, case).map_err(unfit)? {
                if !self.repeats.contains(&repeat.id) {
                    continue;
                }
                for channel in &repeat.channels {
                    self.store.samples(&repeat, channel.id).map_err(unfit)?;
                }
                for lane in self.store.lanes(&repeat).map_err(unfit)? {
                    self.store
                        .each_chunk(&repeat, lane, |_| {})
                        .map_err(unfit)?;
                }
            }
        }
        Ok(())
    }
}

/// Sizes that a reader would believe.
fn check_sizes(piece: &Piece) -> Result<()> {
    let mut blobs = piece.blobs.iter();
    for table in tables::of_piece(PieceKind::Repeat) {
        for row in piece.of(table.name) {
            let of_row: Vec<usize> = table
                .columns
                .iter()
                .filter(|column| column.kind == Kind::Blob)
                .filter(|column| row.get(column.name).is_some_and(|value| !value.is_null()))
                .filter_map(|_| blobs.next().map(Vec::len))
                .collect();
            let count = |name: &str| row.get(name).and_then(Value::as_u64).unwrap_or(u64::MAX);
            let fits = match (table.name, of_row.as_slice()) {
                ("chunks", [bytes]) => {
                    let columns = count("column_count");
                    columns <= MAX_COLUMNS as u64
                        && count("row_count").saturating_mul(columns) <= *bytes as u64
                }
                ("samples", [at, value, quality]) => {
                    let [at, value, quality] = [at, value, quality].map(|bytes| *bytes as u64);
                    let rows = count("row_count");
                    let eight = rows.saturating_mul(8);
                    match count("codec") == u64::from(codec::PLAIN) {
                        true => [at, value] == [eight; 2] && quality == rows,
                        // Both columns are in the first, a byte a cell at least.
                        false => {
                            rows.saturating_mul(2) <= at
                                && value == 0
                                && [0, rows].contains(&quality)
                        }
                    }
                }
                ("chunks" | "samples", _) => false,
                _ => true,
            };
            if !fits {
                return Err(unfit(format!(
                    "the sizes of a row of {} contradict each other",
                    table.name
                )));
            }
        }
    }
    Ok(())
}

/// A column that nobody here knows would be lost.
fn only_known_columns(of: &Table, row: &Row) -> Result<()> {
    match row.keys().find(|name| of.find(name).is_none()) {
        None => Ok(()),
        Some(name) => Err(unfit(format!("{} has no column `{name}`", of.name))),
    }
}

/// The value of a column that is no bytes.
fn sql(of: &Table, name: &str, row: &Row) -> Result<Sql> {
    let wrong = || {
        unfit(format!(
            "column {name} of {} is not what it should be",
            of.name
        ))
    };
    let column = of.find(name).ok_or_else(wrong)?;
    match (row.get(name).unwrap_or(&Value::Null), column.kind) {
        (Value::Null, _) if column.nullable => Ok(Sql::Null),
        (Value::Number(number), Kind::Integer) => {
            number.as_i64().map(Sql::Integer).ok_or_else(wrong)
        }
        (Value::String(text), Kind::Text) => Ok(Sql::Text(text.clone())),
        (value, Kind::Json) if row.contains_key(name) => Ok(Sql::Text(value.to_string())),
        _ => Err(wrong()),
    }
}

fn blob(
    of: &Table,
    column: &Column,
    row: &Row,
    blobs: &mut std::slice::Iter<'_, Vec<u8>>,
) -> Result<Sql> {
    let wrong = || unfit(format!("the bytes of a row of {} are not there", of.name));
    match row.get(column.name) {
        None | Some(Value::Null) if column.nullable => Ok(Sql::Null),
        Some(length) => {
            let bytes = blobs.next().ok_or_else(wrong)?;
            match length.as_u64() == Some(bytes.len() as u64) {
                true => Ok(Sql::Blob(bytes.clone())),
                false => Err(wrong()),
            }
        }
        None => Err(wrong()),
    }
}

fn text<'a>(row: &'a Row, name: &str) -> Result<&'a str> {
    let found = row.get(name).and_then(Value::as_str);
    found.ok_or_else(|| unfit(format!("{name} is no text")))
}

fn hash(row: &Row, name: &str) -> Result<Sha256> {
    let found = text(row, name)?;
    found
        .parse()
        .map_err(|_| unfit(format!("{name} is `{found}`, which is no SHA-256")))
}

fn named(rows: &[Row], name: &str, value: &str) -> BTreeMap<String, Value> {
    let pair = |row: &Row| Some((row.get(name)?.as_str()?.to_owned(), row.get(value)?.clone()));
    rows.iter().filter_map(pair).collect()
}

fn table(name: &str) -> Table {
    let found = tables::TABLES.iter().find(|table| table.name == name);
    // Asked for by names that stand in this file; a test walks them all.
    *found.expect("a table of the list")
}

fn unfit(why: impl Into<String>) -> StoreError {
    StoreError::Foreign(why.into())
}
