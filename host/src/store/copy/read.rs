//! Taking a run out of a store, piece by piece.

use edgedyno_shared::ids::RunId;
use rusqlite::types::Type;
use rusqlite::{OptionalExtension, Row as SqlRow, Transaction, TransactionBehavior};
use serde_json::Value;

use super::tables::{self, Column, Kind, Table};
use super::{Piece, PieceKind, Row};
use crate::store::reader::unreadable;
use crate::store::{Result, Store};

/// Cases of one piece.
const CASES: i64 = 500;

/// A run that is read for a copy. As long as it lives the store looks as it did when it was made.
#[derive(Debug)]
pub struct Copied<'a> {
    store: &'a Store,
    run: RunId,
    /// Ended by being dropped: nothing is written.
    _still: Transaction<'a>,
}

impl Store {
    /// Begins to read a run for a copy.
    pub fn copy_out(&self, run: &RunId) -> Result<Copied<'_>> {
        let still = Transaction::new_unchecked(&self.sql, TransactionBehavior::Deferred)
            .map_err(self.explain("begin to read"))?;
        self.run(run)?;
        Ok(Copied {
            store: self,
            run: run.clone(),
            _still: still,
        })
    }
}

impl Copied<'_> {
    pub fn run(&self) -> &RunId {
        &self.run
    }

    /// The run, its tags, boards and stored findings.
    pub fn head(&self) -> Result<Piece> {
        self.read(PieceKind::Head, "", &self.run.0, "run_id")
    }

    /// Its cases, hundreds at a time, in order.
    pub fn cases(&self) -> Result<Vec<Piece>> {
        let (count, _) = self.store.counts(&self.run)?;
        let pages = (0..count as i64).step_by(CASES as usize);
        pages
            .map(|from| {
                let page = format!("LIMIT {CASES} OFFSET {from}");
                self.read(PieceKind::Cases, &page, &self.run.0, "run_id")
            })
            .collect()
    }

    /// Attempts of its repeats in the order in which they came, by their number in this store.
    pub fn repeats(&self) -> Result<Vec<i64>> {
        self.store.list(
            "read the repeats",
            "SELECT id FROM repeats WHERE run_id = $1 ORDER BY id",
            [&self.run.0],
            |row| row.get(0),
        )
    }

    /// One attempt with all that it told.
    pub fn repeat(&self, id: i64) -> Result<Piece> {
        repeat(self.store, id)
    }

    /// Hashes of the contents of its artifacts that the store has, with the kinds of those artifacts.
    pub fn contents(&self) -> Result<Vec<(String, Vec<String>)>> {
        let pairs: Vec<(String, String)> = self.store.list(
            "read the artifacts",
            "SELECT DISTINCT a.sha256, a.kind FROM artifacts a JOIN repeats r ON r.id = a.repeat_id
             WHERE r.run_id = $1 AND a.state = 'stored'
               AND EXISTS (SELECT 1 FROM contents c WHERE c.sha256 = a.sha256)
             ORDER BY a.sha256, a.kind",
            [&self.run.0],
            |row| Ok((row.get(0)?, row.get(1)?)),
        )?;
        let mut contents: Vec<(String, Vec<String>)> = Vec::new();
        for (sha256, kind) in pairs {
            match contents.last_mut() {
                Some((last, kinds)) if *last == sha256 => kinds.push(kind),
                _ => contents.push((sha256, vec![kind])),
            }
        }
        Ok(contents)
    }

    /// The bytes of a content.
    pub fn content(&self, sha256: &str) -> Result<Piece> {
        self.read(PieceKind::Content, "", sha256, "sha256")
    }

    fn read(&self, kind: PieceKind, page: &str, owner: &str, column: &str) -> Result<Piece> {
        let mut piece = Piece::default();
        for table in tables::of_piece(kind) {
            let by = table.owner.map_or("id", |_| column);
            read_table(
                self.store,
                table,
                &format!("{by} = $1"),
                owner,
                page,
                &mut piece,
            )?;
        }
        Ok(piece)
    }
}

/// All rows of one attempt.
pub(super) fn repeat(store: &Store, id: i64) -> Result<Piece> {
    let mut piece = Piece::default();
    for table in tables::of_piece(PieceKind::Repeat) {
        let owner = table.owner.unwrap_or("id");
        read_table(store, table, &format!("{owner} = $1"), id, "", &mut piece)?;
    }
    Ok(piece)
}

/// The rows of a head that belong to a run, if the store has it.
pub(super) fn head(store: &Store, run: &str) -> Result<Option<Piece>> {
    let found = store
        .sql
        .query_row("SELECT 1 FROM runs WHERE id = $1", [run], |_| Ok(()))
        .optional()
        .map_err(store.explain("look up a run"))?;
    if found.is_none() {
        return Ok(None);
    }
    let mut piece = Piece::default();
    for table in tables::of_piece(PieceKind::Head) {
        let owner = table.owner.unwrap_or("id");
        read_table(store, table, &format!("{owner} = $1"), run, "", &mut piece)?;
    }
    Ok(Some(piece))
}

fn read_table(
    store: &Store,
    table: &Table,
    condition: &str,
    value: impl rusqlite::ToSql,
    page: &str,
    piece: &mut Piece,
) -> Result<()> {
    let sql = format!(
        "SELECT {} FROM {} WHERE {condition} ORDER BY {} {page}",
        table.column_names(),
        table.name,
        table.order
    );
    let Piece { rows, blobs } = piece;
    let found = store.list("read rows to copy", &sql, [value], |row| {
        read_row(row, table, blobs)
    })?;
    if !found.is_empty() {
        rows.insert(table.name.to_owned(), found);
    }
    Ok(())
}

fn read_row(row: &SqlRow<'_>, table: &Table, blobs: &mut Vec<Vec<u8>>) -> rusqlite::Result<Row> {
    let mut out = Row::new();
    for (at, column) in table.columns.iter().enumerate() {
        let value = read_value(row, at, column, blobs)?;
        out.insert(column.name.to_owned(), value);
    }
    Ok(out)
}

fn read_value(
    row: &SqlRow<'_>,
    at: usize,
    column: &Column,
    blobs: &mut Vec<Vec<u8>>,
) -> rusqlite::Result<Value> {
    if row.get_ref(at)?.data_type() == Type::Null {
        return Ok(Value::Null);
    }
    Ok(match column.kind {
        Kind::Integer => row.get::<_, i64>(at)?.into(),
        Kind::Text => row.get::<_, String>(at)?.into(),
        Kind::Json => {
            let text: String = row.get(at)?;
            serde_json::from_str(&text).map_err(|why| unreadable(at, why))?
        }
        Kind::Blob => {
            let bytes: Vec<u8> = row.get(at)?;
            let length = bytes.len();
            blobs.push(bytes);
            length.into()
        }
    })
}
