//! Questions in SQL, over views whose columns are documented and stay.
//!
//! The tables behind them may change with any version. A question reads and changes nothing: the
//! connection is told so before it is asked, and a statement that is no SELECT is refused.

use rusqlite::types::ValueRef;
use rusqlite::{Connection, params};

use super::{Result, Store, StoreError};

/// A view, and what its columns mean.
#[derive(Debug, Clone, Copy)]
pub struct View {
    pub name: &'static str,
    pub about: &'static str,
    pub columns: &'static [(&'static str, &'static str)],
    sql: &'static str,
}

/// The views, and `figures` beside them.
pub const VIEWS: &[View] = &[
    View {
        name: "runs",
        about: "One row a run.",
        columns: &[
            ("run", "its id"),
            ("created_unix_ns", "when it began"),
            ("command", "`run`, `sweep`, `rerun`, `compare` ..."),
            ("status", "`running`, `complete`, `interrupted` or `failed`"),
            ("tool_version", "of the edgedyno that made it"),
            ("tags", "its names, with commas between; null without any"),
        ],
        sql: "SELECT r.id, r.created_unix_ns, r.command, r.status, r.tool_version,
                  (SELECT group_concat(t.tag, ',') FROM main.tags t WHERE t.run_id = r.id)
              FROM main.runs r",
    },
    View {
        name: "cases",
        about: "One row a case of a run. What an axis was left open for is null.",
        columns: &[
            ("run", "the run"),
            ("case_key", "its key"),
            ("match_key", "the same for what `compare` takes for the same case"),
            ("position", "its place in the plan, from 0"),
            ("board", "where"),
            ("model", "name of the model"),
            ("backend", "what ran it"),
            ("runtime", "version of the library that was asked for"),
            ("threads", "asked for"),
            ("batch", "asked for"),
            ("cpus", "asked for, as a JSON list"),
            ("io", "`resident` or `transfer`"),
            ("condition", "what else the board did meanwhile"),
            ("options", "of the backend, as JSON"),
            ("shapes", "asked for, as JSON"),
        ],
        sql: "SELECT c.run_id, c.case_key, c.match_key, c.position,
                  json_extract(c.definition, '$.board'), json_extract(c.definition, '$.model.name'),
                  json_extract(c.definition, '$.backend'), json_extract(c.definition, '$.runtime.version'),
                  json_extract(c.definition, '$.threads.intra'), json_extract(c.definition, '$.batch'),
                  json_extract(c.definition, '$.cpus'), json_extract(c.definition, '$.io'),
                  json_extract(c.definition, '$.condition'), json_extract(c.definition, '$.options'),
                  json_extract(c.definition, '$.shapes')
              FROM main.cases c",
    },
    View {
        name: "repeats",
        about: "One row an attempt of a repeat, failures included.",
        columns: &[
            ("run", "the run"),
            ("case_key", "the case"),
            ("repeat", "its number, from 0"),
            ("attempt", "from 0; the highest complete one counts"),
            ("pass", "`honest`, or `attributed` where a profiler looked on"),
            ("outcome", "`complete`, `failed`, `cancelled` or `raw`"),
            ("stage", "where it failed"),
            ("failure_code", "how it failed"),
            ("failure_detail", "what was said about it"),
            ("trials", "stored trials of all roles, in lane 0"),
        ],
        sql: "SELECT p.run_id, p.case_key, p.repeat, p.attempt, p.pass, p.outcome, p.stage,
                  json_extract(p.failure, '$.code'), json_extract(p.failure, '$.detail'),
                  (SELECT COALESCE(SUM(k.row_count), 0) FROM main.chunks k
                   WHERE k.repeat_id = p.id AND k.lane = 0)
              FROM main.repeats p",
    },
    View {
        name: "findings",
        about: "One row a finding. Those that are worked out from trials are there for the runs that `--run` \
                names (the\nnewest without it) when a question names the view; of other runs only those that were \
                stored.",
        columns: &[
            ("run", "the run"),
            ("case_key", "the case; null for the run as a whole"),
            ("code", "which rule"),
            ("level", "`note`, `warning` or `invalid`"),
            ("text", "what it says"),
        ],
        sql: "SELECT f.run_id, f.case_key, json_extract(f.body, '$.code'),
                  json_extract(f.body, '$.level'), json_extract(f.body, '$.text')
              FROM main.findings f
              WHERE f.case_key IS NULL OR f.run_id NOT IN (SELECT run FROM temp.told)
              UNION ALL SELECT run, case_key, code, level, text FROM temp.told",
    },
];

/// Columns of `figures`, which is filled when a question names it.
pub const FIGURES: &[(&str, &str)] = &[
    ("run", "the run"),
    ("case_key", "the case"),
    ("field", "name of a field, see [fields.md](fields.md)"),
    ("value", "in the field's unit; null where it is not known"),
];

/// What came of a question.
#[derive(Debug, Clone, PartialEq)]
pub struct Answer {
    pub columns: Vec<String>,
    pub rows: Vec<Vec<Cell>>,
}

/// One value of an answer.
#[derive(Debug, Clone, PartialEq)]
pub enum Cell {
    Null,
    Integer(i64),
    Real(f64),
    Text(String),
    /// Bytes of this length, which nobody wants to see.
    Bytes(usize),
}

/// A figure to ask for: run, case, field, and its value as JSON.
pub type Figure = (String, String, &'static str, serde_json::Value);

/// A finding to ask for: run, case, code, level and text.
pub type Told = (String, String, &'static str, &'static str, String);

/// What is worked out from trials, for the questions that want it.
#[derive(Debug, Clone, Default)]
pub struct WorkedOut {
    /// What the table `figures` holds.
    pub figures: Vec<Figure>,
    /// Findings of cases; for their runs they stand in for the stored ones, which are among them.
    pub findings: Vec<Told>,
}

impl Store {
    /// Answers one SELECT, over what is stored and what was worked out beside it.
    pub fn query(&self, question: &str, beside: &WorkedOut) -> Result<Answer> {
        let explain = self.explain("answer a question");
        prepare(&self.sql, beside).map_err(&explain)?;
        let asked = |why: String| StoreError::Question(why);
        let words = question.trim_start().to_ascii_lowercase();
        if !["select", "with", "values"]
            .iter()
            .any(|word| words.starts_with(word))
        {
            return Err(asked("only SELECT is answered".into()));
        }
        let mut statement = self
            .sql
            .prepare(question)
            .map_err(|why| asked(why.to_string()))?;
        if !statement.readonly() {
            return Err(asked("it would change the store".into()));
        }
        let columns: Vec<String> = statement.column_names().map(str::to_owned).collect();
        let width = columns.len();
        let rows = statement.query_map([], |row| {
            (0..width).map(|at| Ok(cell(row.get_ref(at)?))).collect()
        });
        let rows = rows.map_err(|why| asked(why.to_string()))?;
        let rows = rows.collect::<rusqlite::Result<_>>();
        Ok(Answer {
            columns,
            rows: rows.map_err(|why| asked(why.to_string()))?,
        })
    }
}

/// Makes the views in a room of their own beside the store's file, and forbids writing.
fn prepare(sql: &Connection, beside: &WorkedOut) -> rusqlite::Result<()> {
    sql.execute_batch(
        "PRAGMA query_only = OFF; PRAGMA temp_store = MEMORY;
         DROP TABLE IF EXISTS temp.told;
         CREATE TEMP TABLE told (run TEXT, case_key TEXT, code TEXT, level TEXT, text TEXT);",
    )?;
    for view in VIEWS {
        let names: Vec<&str> = view.columns.iter().map(|(name, _)| *name).collect();
        sql.execute_batch(&format!(
            "DROP VIEW IF EXISTS temp.{0}; CREATE TEMP VIEW {0} ({1}) AS {2};",
            view.name,
            names.join(", "),
            view.sql
        ))?;
    }
    sql.execute_batch(
        "DROP TABLE IF EXISTS temp.figures;
         CREATE TEMP TABLE figures (run TEXT, case_key TEXT, field TEXT, value);",
    )?;
    let mut insert = sql.prepare("INSERT INTO temp.figures VALUES ($1, $2, $3, $4)")?;
    for (run, case, field, value) in &beside.figures {
        insert.execute(params![run, case, field, stored(value)])?;
    }
    let mut insert = sql.prepare("INSERT INTO temp.told VALUES ($1, $2, $3, $4, $5)")?;
    for (run, case, code, level, text) in &beside.findings {
        insert.execute(params![run, case, code, level, text])?;
    }
    sql.execute_batch("PRAGMA query_only = ON;")
}

fn stored(value: &serde_json::Value) -> rusqlite::types::Value {
    use rusqlite::types::Value;
    match value {
        serde_json::Value::Null => Value::Null,
        serde_json::Value::Bool(flag) => Value::Integer(i64::from(*flag)),
        serde_json::Value::Number(number) => match number.as_i64() {
            Some(whole) => Value::Integer(whole),
            None => number.as_f64().map_or(Value::Null, Value::Real),
        },
        serde_json::Value::String(text) => Value::Text(text.clone()),
        other => Value::Text(other.to_string()),
    }
}

fn cell(value: ValueRef<'_>) -> Cell {
    match value {
        ValueRef::Null => Cell::Null,
        ValueRef::Integer(number) => Cell::Integer(number),
        ValueRef::Real(number) => Cell::Real(number),
        ValueRef::Text(text) => Cell::Text(String::from_utf8_lossy(text).into_owned()),
        ValueRef::Blob(bytes) => Cell::Bytes(bytes.len()),
    }
}

/// `docs/query.md`.
pub fn page() -> String {
    let table = |columns: &[(&str, &str)]| -> String {
        let rows = columns
            .iter()
            .map(|(name, what)| format!("| `{name}` | {what} |\n"));
        format!(
            "| column | meaning |\n|---|---|\n{}",
            rows.collect::<String>()
        )
    };
    let mut out = String::from(HEAD);
    for view in VIEWS {
        out.extend([format!(
            "\n## `{}`\n\n{}\n\n{}",
            view.name,
            view.about,
            table(view.columns)
        )]);
    }
    out.extend([format!(
        "\n## `figures`\n\nOne row for each field of each case, worked out from the trials of the runs that \
         `--run` names (the\nnewest without it) when a question names the table.\n\n{}",
        table(FIGURES)
    )]);
    out
}

const HEAD: &str = "\
# Questions in SQL

<!-- Generated from host/src/store/query.rs by `EDGEDYNO_REWRITE=1 cargo test -p edgedyno`. -->

`edgedyno query \"select ...\"` answers one SELECT over the views below, as a table, with `--csv` or with
`--json`. [Its page](commands/query.md#example) shows answers. It reads and never writes. The store is an SQLite
file; its tables can be read by any tool, and may change with any version. These views stay.

```text
edgedyno query \"select run, command, tags from runs where status = 'complete'\"
edgedyno query \"select case_key, outcome, count(*) from repeats group by 1, 2\"
edgedyno query --run last \"select case_key, value from figures where field = 'latency_p50_ms'\"
```
";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::golden;
    use crate::store::sample::CASE;
    use crate::summary::tests::hand_worked;

    fn ask(store: &Store, question: &str) -> Vec<Vec<Cell>> {
        let nothing = WorkedOut::default();
        store.query(question, &nothing).unwrap().rows
    }

    #[test]
    fn every_view_has_the_columns_that_are_documented() {
        let (_dir, store) = hand_worked();
        for view in VIEWS {
            let answer = store
                .query(
                    &format!("select * from {}", view.name),
                    &WorkedOut::default(),
                )
                .unwrap();
            let names: Vec<&str> = view.columns.iter().map(|(name, _)| *name).collect();
            assert_eq!(answer.columns, names);
        }
        golden::check("docs/query.md", &page());
    }

    #[test]
    fn what_is_stored_is_answered() {
        let (_dir, store) = hand_worked();
        let found = ask(&store, "select board, threads, backend from cases");
        assert_eq!(found.len(), 1);
        assert_eq!(found[0][1], Cell::Integer(2));
        let found = ask(
            &store,
            "select outcome, count(*), sum(trials) > 0 from repeats group by outcome",
        );
        let expected = [
            Cell::Text("complete".into()),
            Cell::Integer(3),
            Cell::Integer(1),
        ];
        assert_eq!(found, [expected]);
        let figures = [
            ("a".to_owned(), CASE.to_string(), "rate_hz", 1.5.into()),
            (
                "a".to_owned(),
                CASE.to_string(),
                "p",
                serde_json::Value::Null,
            ),
        ];
        let beside = WorkedOut {
            figures: figures.into(),
            ..WorkedOut::default()
        };
        let answer = store.query("select value from figures order by field desc", &beside);
        let rows = answer.unwrap().rows;
        assert_eq!(rows, [[Cell::Real(1.5)], [Cell::Null]]);
    }

    #[test]
    fn findings_that_were_worked_out_stand_beside_the_stored_ones() {
        let (_dir, store) = hand_worked();
        let told = |code| {
            let text = "it happened".to_owned();
            ("a".to_owned(), CASE.to_string(), code, "note", text)
        };
        let beside = WorkedOut {
            findings: vec![told("outliers"), told("bimodal")],
            ..WorkedOut::default()
        };
        let answer = store.query("select code from findings order by code", &beside);
        let codes = ["bimodal", "outliers"].map(|code| vec![Cell::Text(code.into())]);
        assert_eq!(answer.unwrap().rows, codes);
        assert!(ask(&store, "select code from findings").is_empty());
    }

    #[test]
    fn nothing_is_ever_changed() {
        let (_dir, store) = hand_worked();
        for wrong in [
            "delete from main.runs",
            "insert into main.meta values ('a', 'b')",
            "drop table main.runs",
            "attach database 'other.db' as other",
            "pragma user_version = 7",
            "select 1; delete from main.runs",
            "with gone as (select 1) delete from main.runs",
            "",
            "selec 1",
        ] {
            let refused = store.query(wrong, &WorkedOut::default());
            assert!(
                matches!(refused, Err(StoreError::Question(_))),
                "{wrong}: {refused:?}"
            );
        }
        assert_eq!(
            ask(&store, "select count(*) from runs"),
            [[Cell::Integer(1)]]
        );
    }
}
