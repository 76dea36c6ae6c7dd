//! Opening a store: for writing, which creates and migrates it, and for reading, which does neither.

use std::path::{Path, PathBuf};
use std::time::Duration;

use edgedyno_shared::file_mark::FileMark;
use edgedyno_shared::ids::StoreId;
use rusqlite::{Connection, ErrorCode, OpenFlags, Transaction, TransactionBehavior};

use super::place::FILE;
use super::{Result, StoreError};
use crate::whole_file::{free_bytes, sync_name};

/// Layouts in order; the number of the last is this program's.
const MIGRATIONS: &[&str] = &[
    include_str!("migrations/0001_initial.sql"),
    include_str!("migrations/0002_clocks.sql"),
    include_str!("migrations/0003_findings_by_case.sql"),
    include_str!("migrations/0005_calibrations.sql"),
    include_str!("migrations/0006_imports.sql"),
    include_str!("migrations/0007_sample_codec.sql"),
    include_str!("migrations/0008_emc_scales.sql"),
];

/// How often a store is opened again that could not be read, and how much longer each wait is.
const READ_TRIES: u32 = 5;
const READ_PAUSE: Duration = Duration::from_millis(20);

/// SQLite's index of a write-ahead log is at least so large (https://sqlite.org/walformat.html, section 2).
const LOG_INDEX_BYTES: u64 = 32 << 10;

/// How long to wait for another process's transaction.
const PATIENCE: Duration = Duration::from_secs(30);

/// An open store.
#[derive(Debug)]
pub struct Store {
    pub(super) sql: Connection,
    dir: PathBuf,
    id: StoreId,
    /// What its file was when it was opened.
    mark: FileMark,
}

impl Store {
    /// Opens for writing; makes the folder and the store when they are not there.
    pub fn open_writing(dir: &Path) -> Result<Self> {
        make_folder(dir)?;
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE;
        let sql =
            Connection::open_with_flags(dir.join(FILE), flags | OpenFlags::SQLITE_OPEN_NO_MUTEX)
                .map_err(|e| not_writable(dir, &e.to_string()))?;
        let explain = |e| StoreError::sql(dir, "open it", e);
        if sql.is_readonly("main").map_err(explain)? {
            return Err(not_writable(dir, "its file is read-only"));
        }
        sql.busy_timeout(PATIENCE).map_err(explain)?;
        // FULL: an agent deletes its copy as soon as we acknowledge, so a commit must survive a power cut.
        sql.execute_batch(
            "PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; PRAGMA foreign_keys = ON;",
        )
        .map_err(|e| writing_failed(dir, e))?;
        migrate(&sql, dir)?;
        Self::with(sql, dir)
    }

    /// Opens for reading; changes nothing.
    pub fn open_reading(dir: &Path) -> Result<Self> {
        let path = dir.join(FILE);
        if !path.is_file() {
            return Err(StoreError::NotReadable {
                dir: dir.to_owned(),
                why: format!("it holds no {FILE}"),
            });
        }
        let sql = open_read_only(&path).map_err(|e| reading_failed(dir, e))?;
        match version(&sql).map_err(|e| reading_failed(dir, e))? {
            found if found > known() => Err(newer(dir, found)),
            found if found < known() => {
                drop(sql);
                Self::open_writing(dir)
            }
            _ => Self::with(sql, dir),
        }
    }

    /// Sees that what is written is found again: the file may have been removed, or replaced by another,
    /// since it was opened.
    pub fn still_there(&self) -> Result<()> {
        let path = self.dir.join(FILE);
        match std::fs::metadata(&path) {
            Ok(found) if FileMark::of(&found).is_same_file(self.mark) => Ok(()),
            Ok(_) => Err(not_writable(&self.dir, "its file was replaced by another")),
            Err(why) => Err(not_writable(&self.dir, &why.to_string())),
        }
    }

    /// Names this store to agents; made with it.
    pub fn id(&self) -> StoreId {
        self.id
    }

    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// The number of the layout that this program writes.
    pub fn layout() -> i64 {
        known()
    }

    fn with(sql: Connection, dir: &Path) -> Result<Self> {
        let id: String = sql
            .query_row("SELECT value FROM meta WHERE name = 'store_id'", [], |r| {
                r.get(0)
            })
            .map_err(|e| StoreError::sql(dir, "read its id", e))?;
        let id = id.parse().map_err(|_| StoreError::Damaged {
            dir: dir.to_owned(),
            why: format!("its id is `{id}`"),
        })?;
        let dir = dir.to_owned();
        let found = std::fs::metadata(dir.join(FILE));
        let found = found.map_err(|why| not_writable(&dir, &why.to_string()))?;
        let mark = FileMark::of(&found);
        Ok(Self { sql, dir, id, mark })
    }

    /// Turns what SQLite reported while `doing` something into an error of this store.
    pub(super) fn explain(
        &self,
        doing: &'static str,
    ) -> impl Fn(rusqlite::Error) -> StoreError + '_ {
        move |e| StoreError::sql(&self.dir, doing, e)
    }

    /// A transaction that takes the write lock at once, so that it cannot fail half-way for it.
    pub(super) fn begin(&self) -> Result<Transaction<'_>> {
        Transaction::new_unchecked(&self.sql, TransactionBehavior::Immediate)
            .map_err(self.explain("begin to write"))
    }
}

fn make_folder(dir: &Path) -> Result<()> {
    if dir.is_dir() {
        return Ok(());
    }
    std::fs::create_dir_all(dir).map_err(|e| not_writable(dir, &e.to_string()))?;
    // SQLite syncs the names in it, and not its own.
    sync_name(dir);
    // Measurements are not sources: keep version control from picking them up.
    std::fs::write(dir.join(".gitignore"), "*\n").map_err(|e| not_writable(dir, &e.to_string()))
}

/// Who closes a store last takes the files of its log away; a reader that opens it at that moment is told of
/// a failed disk. It is not, if it works a moment later.
fn open_read_only(path: &Path) -> rusqlite::Result<Connection> {
    let mut opened = try_read_only(path);
    for wait in (1..=READ_TRIES).map(|times| READ_PAUSE * times) {
        let code = opened
            .as_ref()
            .err()
            .and_then(rusqlite::Error::sqlite_error_code);
        if code != Some(ErrorCode::SystemIoFailure) {
            break;
        }
        std::thread::sleep(wait);
        opened = try_read_only(path);
    }
    opened
}

fn try_read_only(path: &Path) -> rusqlite::Result<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let sql = Connection::open_with_flags(path, flags)?;
    sql.busy_timeout(PATIENCE)?;
    match version(&sql) {
        // A write-ahead log needs a file beside the database; on a read-only medium there can be
        // none, and without one there is nothing that could change under us either.
        Err(_) if !has_log(path) => {
            let uri = format!("file:{}?immutable=1", escaped(path));
            Connection::open_with_flags(uri, flags | OpenFlags::SQLITE_OPEN_URI)
        }
        known => known.map(|_| sql),
    }
}

/// An empty one counts where nobody could write to it: SQLite makes it before it finds that there is no room.
fn has_log(path: &Path) -> bool {
    let mut log = path.as_os_str().to_owned();
    log.push("-wal");
    match std::fs::metadata(log) {
        Ok(log) => log.len() > 0 || !path.parent().is_some_and(is_full),
        Err(_) => false,
    }
}

fn is_full(dir: &Path) -> bool {
    free_bytes(dir).is_some_and(|free| free < LOG_INDEX_BYTES)
}

/// A path as SQLite's URI file names want it.
fn escaped(path: &Path) -> String {
    let mut out = String::new();
    for c in path.to_string_lossy().chars() {
        match c {
            '%' => out.push_str("%25"),
            '?' => out.push_str("%3f"),
            '#' => out.push_str("%23"),
            other => out.push(other),
        }
    }
    out
}

fn known() -> i64 {
    MIGRATIONS.len() as i64
}

fn version(sql: &Connection) -> rusqlite::Result<i64> {
    sql.query_row("PRAGMA user_version", [], |row| row.get(0))
}

/// Brings the layout up to date in one transaction; two processes that start together wait for each other.
fn migrate(sql: &Connection, dir: &Path) -> Result<()> {
    let explain = |e| writing_failed(dir, e);
    let change =
        Transaction::new_unchecked(sql, TransactionBehavior::Immediate).map_err(explain)?;
    let found = version(&change).map_err(explain)?;
    if found > known() {
        return Err(newer(dir, found));
    }
    for migration in &MIGRATIONS[found as usize..] {
        change.execute_batch(migration).map_err(explain)?;
    }
    if found == 0 {
        let id = new_id(dir)?.to_string();
        change
            .execute(
                "INSERT INTO meta (name, value) VALUES ('store_id', $1)",
                [id],
            )
            .map_err(explain)?;
    }
    change
        .pragma_update(None, "user_version", known())
        .map_err(explain)?;
    change.commit().map_err(explain)
}

fn new_id(dir: &Path) -> Result<StoreId> {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes)
        .map_err(|e| not_writable(dir, &format!("no random numbers: {e}")))?;
    Ok(StoreId(bytes))
}

fn newer(dir: &Path, found: i64) -> StoreError {
    StoreError::Newer {
        dir: dir.to_owned(),
        found,
        known: known(),
    }
}

fn not_writable(dir: &Path, why: &str) -> StoreError {
    StoreError::NotWritable {
        dir: dir.to_owned(),
        why: why.into(),
    }
}

/// While opening for writing, a file that cannot be opened is one that cannot be written.
fn writing_failed(dir: &Path, e: rusqlite::Error) -> StoreError {
    match StoreError::sql(dir, "open it", e) {
        StoreError::Sql { source, .. } => not_writable(dir, &source.to_string()),
        other => other,
    }
}

fn reading_failed(dir: &Path, e: rusqlite::Error) -> StoreError {
    unread(dir, e, free_bytes(dir))
}

/// What reading needs to write is small, and only a full disk has no room for it.
fn unread(dir: &Path, e: rusqlite::Error, free: Option<u64>) -> StoreError {
    let dir_buf = dir.to_owned();
    match (StoreError::sql(dir, "open it", e), free) {
        (StoreError::Sql { .. } | StoreError::Full { .. }, Some(free))
            if free < LOG_INDEX_BYTES =>
        {
            StoreError::NoRoomToRead {
                dir: dir_buf,
                free,
                needed: LOG_INDEX_BYTES,
            }
        }
        (StoreError::Sql { source, .. }, _) => StoreError::NotReadable {
            dir: dir_buf,
            why: source.to_string(),
        },
        (other, _) => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn failure(code: i32) -> rusqlite::Error {
        rusqlite::Error::SqliteFailure(rusqlite::ffi::Error::new(code), None)
    }

    #[test]
    fn a_store_on_a_full_disk_says_that_it_is_full_and_what_helps() {
        // SQLITE_IOERR, _IOERR_SHMSIZE, _CANTOPEN, _FULL (https://sqlite.org/rescode.html).
        for code in [10, 4874, 14, 13] {
            let why = unread(Path::new("/lab"), failure(code), Some(4096));
            let text = why.to_string();
            assert!(
                text.starts_with("store /lab cannot be read: no room"),
                "{text}"
            );
            assert!(
                text.contains("4096 bytes are free, 32768 are needed"),
                "{text}"
            );
            assert!(why.hint().unwrap().contains("--store DIR"));
        }
        for (code, free) in [(10, Some(1 << 30)), (10, None)] {
            let why = unread(Path::new("/lab"), failure(code), free);
            assert!(matches!(why, StoreError::NotReadable { .. }), "{why}");
        }
        // What is wrong with the file itself is said of a full disk too.
        let why = unread(Path::new("/lab"), failure(11), Some(0));
        assert!(matches!(why, StoreError::Damaged { .. }), "{why}");
    }
}
