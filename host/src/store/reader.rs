//! Reading runs back: cases, repeats with all they told, and their trials.

use std::collections::{BTreeMap, BTreeSet};

use edgedyno_shared::columns::Chunk;
use edgedyno_shared::ids::{RunId, Sha256};
use edgedyno_shared::order::{OrderKey, Pass};
use rusqlite::{Row, params, types::Type};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::rows::{
    ArtifactRow, CaseEntry, ChannelRow, ClockExchangeRow, ClockReadingRow, CostRow, DeviceRow,
    EffectiveRow, EndRow, EventRow, FailureRow, FindingRow, InputsUsedRow, MemoryRow, ModelRow,
    OutcomeKind, OutputRow, PlacementRow, RecordRow, RuntimeRow, SamplesRow, SchemaRow, StageName,
    StageRow, StartRow, StressRow, TenantRow,
};
use super::samples::{self, Coded};
use super::{Columns, Result, Store, StoreError};

/// One attempt of one repeat, with all it told beside its trials.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RepeatRow {
    /// Its number in this store; nothing outside refers to it.
    #[serde(skip)]
    pub(super) id: i64,
    #[serde(with = "super::rows::stored_key")]
    pub key: OrderKey,
    /// False for a failure the host recorded before any worker began.
    pub reached_worker: bool,
    /// It is the highest complete attempt of its repeat.
    pub counts: bool,
    pub outcome: OutcomeKind,
    pub stage: Option<StageName>,
    pub failure: Option<FailureRow>,
    /// One life of the agent, in hex.
    pub boot: Option<String>,
    pub start: Option<StartRow>,
    pub end: Option<EndRow>,
    pub stages: Vec<StageRow>,
    pub runtime: Option<RuntimeRow>,
    pub model: Option<ModelRow>,
    pub schemas: Vec<SchemaRow>,
    pub inputs: Option<InputsUsedRow>,
    pub placements: Vec<PlacementRow>,
    pub memory: Vec<MemoryRow>,
    pub effective: Vec<EffectiveRow>,
    pub outputs: Vec<OutputRow>,
    pub channels: Vec<ChannelRow>,
    pub cost: Option<CostRow>,
    /// Stressors that ran beside it.
    #[serde(default)]
    pub stress: Vec<StressRow>,
    /// Other models that ran beside it; the trials of each have a lane of their own.
    #[serde(default)]
    pub tenants: Vec<TenantRow>,
    pub events: Vec<EventRow>,
    pub artifacts: Vec<ArtifactRow>,
    #[serde(default)]
    pub clock_exchanges: Vec<ClockExchangeRow>,
    #[serde(default)]
    pub clock_readings: Vec<ClockReadingRow>,
    /// Records that this version cannot decode.
    pub raw_records: u64,
}

impl Store {
    /// Cases of a run in the order they were planned.
    pub fn cases(&self, run: &RunId) -> Result<Vec<CaseEntry>> {
        self.list(
            "read the cases",
            "SELECT case_key, match_key, definition, rules FROM cases WHERE run_id = $1 ORDER BY position",
            [&run.0],
            case_entry,
        )
    }

    /// Runs that have a case of each key, the newest first.
    pub fn runs_by_case(&self) -> Result<BTreeMap<Sha256, Vec<(RunId, i64)>>> {
        let pairs = self.list(
            "read which run has which case",
            "SELECT cases.case_key, cases.run_id, runs.created_unix_ns
             FROM cases JOIN runs ON runs.id = cases.run_id
             ORDER BY runs.created_unix_ns DESC, runs.id DESC",
            [],
            |row| {
                Ok((
                    parsed::<Sha256, _>(row, 0)?,
                    (RunId(row.get(1)?), row.get(2)?),
                ))
            },
        )?;
        let mut by_case: BTreeMap<Sha256, Vec<(RunId, i64)>> = BTreeMap::new();
        for (key, run) in pairs {
            by_case.entry(key).or_default().push(run);
        }
        Ok(by_case)
    }

    /// Cases of a run and attempts that have a row, by number.
    pub fn counts(&self, run: &RunId) -> Result<(u64, u64)> {
        let count = |doing, sql| {
            let of = |row: &Row<'_>| row.get::<_, i64>(0);
            self.sql
                .query_row(sql, [&run.0], of)
                .map(|n| n as u64)
                .map_err(self.explain(doing))
        };
        Ok((
            count(
                "count the cases",
                "SELECT COUNT(*) FROM cases WHERE run_id = $1",
            )?,
            count(
                "count the attempts",
                "SELECT COUNT(*) FROM repeats WHERE run_id = $1",
            )?,
        ))
    }

    /// Boards of a run and what each said of itself.
    pub fn devices(&self, run: &RunId) -> Result<Vec<(String, DeviceRow)>> {
        self.list(
            "read the boards",
            "SELECT board, info FROM devices WHERE run_id = $1 ORDER BY board",
            [&run.0],
            |row| Ok((row.get(0)?, from_json(row, 1)?)),
        )
    }

    /// Findings stored with a run, each for one case or for all.
    pub fn findings(&self, run: &RunId) -> Result<Vec<(Option<Sha256>, FindingRow)>> {
        self.list(
            "read the findings",
            "SELECT case_key, body FROM findings WHERE run_id = $1 ORDER BY number",
            [&run.0],
            |row| {
                let case: Option<String> = row.get(0)?;
                let case = case.map(|_| parsed(row, 0)).transpose()?;
                Ok((case, from_json(row, 1)?))
            },
        )
    }

    /// Of these, the ones of one case and those of the run as a whole.
    pub fn findings_of(&self, run: &RunId, case: Sha256) -> Result<Vec<FindingRow>> {
        self.list(
            "read the findings",
            // Two look-ups in an index; with OR it would be one walk over all findings of the run.
            "SELECT body FROM
                 (SELECT number, body FROM findings WHERE run_id = $1 AND case_key = $2
                  UNION ALL
                  SELECT number, body FROM findings WHERE run_id = $1 AND case_key IS NULL)
             ORDER BY number",
            params![run.0, case.to_string()],
            |row| from_json(row, 0),
        )
    }

    /// Keys of a run that have a row, and how each ended; a planner leaves these out.
    pub fn done_keys(&self, run: &RunId) -> Result<Vec<(OrderKey, OutcomeKind)>> {
        self.list(
            "read what is done",
            "SELECT run_id, case_key, repeat, attempt, pass, outcome FROM repeats
             WHERE run_id = $1 ORDER BY id",
            [&run.0],
            |row| Ok((order_key(row)?, outcome(row, 5)?)),
        )
    }

    /// As [`Self::done_keys`], with the failure of those that failed.
    pub fn endings(&self, run: &RunId) -> Result<Vec<(OrderKey, OutcomeKind, Option<FailureRow>)>> {
        self.list(
            "read what is done",
            "SELECT run_id, case_key, repeat, attempt, pass, outcome, failure FROM repeats
             WHERE run_id = $1 ORDER BY id",
            [&run.0],
            |row| Ok((order_key(row)?, outcome(row, 5)?, optional_json(row, 6)?)),
        )
    }

    /// One case of a run.
    pub fn case(&self, run: &RunId, key: Sha256) -> Result<CaseEntry> {
        let found = self.list(
            "read a case",
            "SELECT case_key, match_key, definition, rules FROM cases
             WHERE run_id = $1 AND case_key = $2",
            params![run.0, key.to_string()],
            case_entry,
        )?;
        found
            .into_iter()
            .next()
            .ok_or_else(|| StoreError::NoSuchCase {
                run: run.0.clone(),
                case: key.to_string(),
            })
    }

    /// All attempts of a case's repeats, by pass, repeat and attempt.
    pub fn repeats(&self, run: &RunId, case: Sha256) -> Result<Vec<RepeatRow>> {
        let mut repeats = self.brief_repeats(run, case)?;
        for repeat in &mut repeats {
            self.fill_texts(repeat)?;
        }
        Ok(repeats)
    }

    /// The same without their events, artifacts and clocks, which no comparison looks at.
    pub fn brief_repeats(&self, run: &RunId, case: Sha256) -> Result<Vec<RepeatRow>> {
        let mut repeats = self.list(
            "read the repeats",
            "SELECT run_id, case_key, repeat, attempt, pass, outcome, id, origin, stage, failure, boot
             FROM repeats WHERE run_id = $1 AND case_key = $2
             ORDER BY pass DESC, repeat, attempt",
            params![run.0, case.to_string()],
            repeat_row,
        )?;
        mark_those_that_count(&mut repeats);
        for repeat in &mut repeats {
            self.fill(repeat)?;
        }
        Ok(repeats)
    }

    /// Trials of one lane, decoded.
    pub fn columns(&self, repeat: &RepeatRow, lane: u16) -> Result<Columns> {
        let chunks = self.chunks(repeat.id, lane)?;
        let declared = repeat.schemas.iter().find(|schema| schema.lane == lane);
        let width = chunks.first().map_or(0, |chunk| chunk.columns as usize);
        let specs = match declared {
            Some(schema) => schema.columns.clone(),
            None => Columns::unnamed(width),
        };
        let mut cells = vec![Vec::new(); specs.len()];
        for chunk in &chunks {
            self.decode(repeat, chunk, &mut cells)?;
        }
        Ok(Columns { specs, cells })
    }

    /// Trials of one lane a chunk at a time, so that no more than one is ever decoded.
    pub fn each_chunk(
        &self,
        repeat: &RepeatRow,
        lane: u16,
        mut look: impl FnMut(&[Vec<i64>]),
    ) -> Result<()> {
        let mut cells: Vec<Vec<i64>> = Vec::new();
        for chunk in self.chunks(repeat.id, lane)? {
            cells.resize_with(chunk.columns as usize, Vec::new);
            cells.iter_mut().for_each(Vec::clear);
            self.decode(repeat, &chunk, &mut cells)?;
            look(&cells);
        }
        Ok(())
    }

    fn decode(&self, repeat: &RepeatRow, chunk: &Chunk, cells: &mut [Vec<i64>]) -> Result<()> {
        let damaged = |why: String| StoreError::Damaged {
            dir: self.dir().to_owned(),
            why: format!(
                "chunk {} of {}: {why}",
                chunk.number,
                repeat.key.file_stem()
            ),
        };
        let (found, expected) = (chunk.columns as usize, cells.len());
        if found != expected {
            return Err(damaged(format!(
                "{found} columns where {expected} were declared"
            )));
        }
        chunk.append_to(cells).map_err(|e| damaged(e.to_string()))
    }

    /// Lanes that a repeat has trials of.
    pub fn lanes(&self, repeat: &RepeatRow) -> Result<Vec<u16>> {
        self.list(
            "read the lanes",
            "SELECT DISTINCT lane FROM chunks WHERE repeat_id = $1 ORDER BY lane",
            [repeat.id],
            |row| row.get(0),
        )
    }

    /// Telemetry of one channel.
    pub fn samples(&self, repeat: &RepeatRow, channel: u16) -> Result<SamplesRow> {
        let pieces: Vec<(u32, Coded)> = self.list(
            "read telemetry",
            "SELECT row_count, codec, at_ns, value, quality FROM samples
             WHERE repeat_id = $1 AND channel = $2 ORDER BY sequence",
            params![repeat.id, channel],
            |row| {
                let coded = Coded {
                    codec: row.get(1)?,
                    at_ns: row.get(2)?,
                    value: row.get(3)?,
                    quality: row.get(4)?,
                };
                Ok((row.get(0)?, coded))
            },
        )?;
        let mut all = SamplesRow::default();
        for (rows, coded) in pieces {
            let piece = samples::decode(coded, rows).map_err(|why| StoreError::Damaged {
                dir: self.dir().to_owned(),
                why: format!(
                    "samples of channel {channel} of {}: {why}",
                    repeat.key.file_stem()
                ),
            })?;
            all.at_ns.extend(piece.at_ns);
            all.value.extend(piece.value);
            all.quality.extend(piece.quality);
        }
        Ok(all)
    }

    /// The bytes of an artifact; none when they were damaged on the way or left out of a bundle.
    pub fn content(&self, artifact: &ArtifactRow) -> Result<Option<Vec<u8>>> {
        if artifact.damaged {
            return Ok(None);
        }
        let parts: Vec<Vec<u8>> = self.list(
            "read an artifact",
            "SELECT bytes FROM contents WHERE sha256 = $1 ORDER BY part",
            [artifact.sha256.to_string()],
            |row| row.get(0),
        )?;
        // A bundle may leave contents out.
        let is_here = !parts.is_empty() || artifact.bytes == 0;
        Ok(is_here.then(|| parts.concat()))
    }

    fn chunks(&self, repeat: i64, lane: u16) -> Result<Vec<Chunk>> {
        self.list(
            "read trials",
            "SELECT number, row_count, column_count, codec, bytes FROM chunks
             WHERE repeat_id = $1 AND lane = $2 ORDER BY number",
            params![repeat, lane],
            |row| {
                Ok(Chunk {
                    lane,
                    number: row.get(0)?,
                    rows: row.get(1)?,
                    columns: row.get(2)?,
                    codec: row.get(3)?,
                    bytes: row.get(4)?,
                })
            },
        )
    }

    fn fill(&self, repeat: &mut RepeatRow) -> Result<()> {
        let records = self.list(
            "read records",
            "SELECT kind, body FROM records WHERE repeat_id = $1 ORDER BY sequence",
            [repeat.id],
            record_row,
        )?;
        records.into_iter().for_each(|record| repeat.take(record));
        Ok(())
    }

    fn fill_texts(&self, repeat: &mut RepeatRow) -> Result<()> {
        repeat.events = self.list(
            "read events",
            "SELECT lane, trial, code, text FROM events WHERE repeat_id = $1 ORDER BY sequence",
            [repeat.id],
            |row| {
                Ok(EventRow {
                    lane: row.get(0)?,
                    trial: row.get::<_, Option<i64>>(1)?.map(|trial| trial as u64),
                    code: row.get(2)?,
                    text: row.get(3)?,
                })
            },
        )?;
        repeat.artifacts = self.list(
            "read artifacts",
            "SELECT number, name, kind, sha256, bytes, state FROM artifacts
             WHERE repeat_id = $1 ORDER BY number",
            [repeat.id],
            artifact_row,
        )?;
        self.fill_clocks(repeat)
    }

    fn fill_clocks(&self, repeat: &mut RepeatRow) -> Result<()> {
        repeat.clock_exchanges = self.list(
            "read what the host's clock said",
            "SELECT moment, state, rounds, asked_ns, received_ns, answered_ns, heard_ns, host_clock,
                    host_unix_ns, offset_ns, bound_ns, drift_ppb, drift_bound_ppb
             FROM clock_exchanges WHERE repeat_id = $1 ORDER BY sequence",
            [repeat.id],
            clock_exchange_row,
        )?;
        repeat.clock_readings = self.list(
            "read the board's clocks",
            "SELECT monotonic_ns, boottime_ns, realtime_ns, raw_ns, took_ns
             FROM clock_readings WHERE repeat_id = $1 ORDER BY sequence",
            [repeat.id],
            |row| {
                Ok(ClockReadingRow {
                    monotonic_ns: row.get(0)?,
                    boottime_ns: row.get(1)?,
                    realtime_ns: row.get(2)?,
                    raw_ns: row.get(3)?,
                    took_ns: row.get(4)?,
                })
            },
        )?;
        Ok(())
    }

    pub(super) fn list<T>(
        &self,
        doing: &'static str,
        sql: &str,
        values: impl rusqlite::Params,
        read: impl FnMut(&Row<'_>) -> rusqlite::Result<T>,
    ) -> Result<Vec<T>> {
        let explain = self.explain(doing);
        let mut query = self.sql.prepare_cached(sql).map_err(&explain)?;
        let rows = query.query_map(values, read).map_err(&explain)?;
        rows.collect::<rusqlite::Result<_>>().map_err(explain)
    }
}

impl RepeatRow {
    fn take(&mut self, record: Option<RecordRow>) {
        match record {
            None => self.raw_records += 1,
            Some(RecordRow::Start(start)) => self.start = Some(start),
            Some(RecordRow::Stage(stage)) => self.stages.push(stage),
            Some(RecordRow::Runtime(runtime)) => self.runtime = Some(runtime),
            Some(RecordRow::Model(model)) => self.model = Some(model),
            Some(RecordRow::Schema(schema)) => self.schemas.push(schema),
            Some(RecordRow::Inputs(inputs)) => self.inputs = Some(inputs),
            Some(RecordRow::Placement(placement)) => self.placements.push(placement),
            Some(RecordRow::Memory(memory)) => self.memory.push(memory),
            Some(RecordRow::Effective(effective)) => self.effective.push(effective),
            Some(RecordRow::Output(output)) => self.outputs.push(output),
            Some(RecordRow::Channel(channel)) => self.channels.push(channel),
            Some(RecordRow::AgentCost(cost)) => self.cost = Some(cost),
            Some(RecordRow::Stress(stress)) => self.stress.push(*stress),
            Some(RecordRow::Tenant(tenant)) => self.tenants.push(*tenant),
            Some(RecordRow::End(end)) => self.end = Some(end),
        }
    }
}

/// The highest complete attempt of each repeat counts; the others stay visible.
fn mark_those_that_count(repeats: &mut [RepeatRow]) {
    let mut seen = BTreeSet::new();
    for repeat in repeats.iter_mut().rev() {
        let complete = repeat.outcome == OutcomeKind::Complete;
        repeat.counts = complete && seen.insert((repeat.key.pass, repeat.key.repeat));
    }
}

fn case_entry(row: &Row<'_>) -> rusqlite::Result<CaseEntry> {
    Ok(CaseEntry {
        key: parsed(row, 0)?,
        match_key: parsed(row, 1)?,
        case: from_json(row, 2)?,
        rules: from_json(row, 3)?,
    })
}

fn repeat_row(row: &Row<'_>) -> rusqlite::Result<RepeatRow> {
    Ok(RepeatRow {
        id: row.get(6)?,
        key: order_key(row)?,
        reached_worker: row.get::<_, String>(7)? == "agent",
        counts: false,
        outcome: outcome(row, 5)?,
        stage: stage(row, 8)?,
        failure: optional_json(row, 9)?,
        boot: row.get(10)?,
        start: None,
        end: None,
        stages: Vec::new(),
        runtime: None,
        model: None,
        schemas: Vec::new(),
        inputs: None,
        placements: Vec::new(),
        memory: Vec::new(),
        effective: Vec::new(),
        outputs: Vec::new(),
        channels: Vec::new(),
        cost: None,
        stress: Vec::new(),
        tenants: Vec::new(),
        events: Vec::new(),
        artifacts: Vec::new(),
        clock_exchanges: Vec::new(),
        clock_readings: Vec::new(),
        raw_records: 0,
    })
}

fn order_key(row: &Row<'_>) -> rusqlite::Result<OrderKey> {
    let pass: String = row.get(4)?;
    Ok(OrderKey {
        run: RunId(row.get(0)?),
        case: parsed(row, 1)?,
        repeat: row.get(2)?,
        attempt: row.get(3)?,
        pass: named(4, &pass, |name| {
            [Pass::Honest, Pass::Attributed]
                .into_iter()
                .find(|pass| pass.name() == name)
        })?,
    })
}

fn outcome(row: &Row<'_>, column: usize) -> rusqlite::Result<OutcomeKind> {
    let name: String = row.get(column)?;
    named(column, &name, OutcomeKind::from_name)
}

fn stage(row: &Row<'_>, column: usize) -> rusqlite::Result<Option<StageName>> {
    let name: Option<String> = row.get(column)?;
    let parse = |name: &str| serde_json::from_value(name.into()).ok();
    name.map(|name| named(column, &name, parse)).transpose()
}

fn clock_exchange_row(row: &Row<'_>) -> rusqlite::Result<ClockExchangeRow> {
    let moment: String = row.get(0)?;
    let parse = |name: &str| serde_json::from_value(name.into()).ok();
    Ok(ClockExchangeRow {
        moment: named(0, &moment, parse)?,
        state: row.get(1)?,
        rounds: row.get(2)?,
        asked_ns: row.get(3)?,
        received_ns: row.get(4)?,
        answered_ns: row.get(5)?,
        heard_ns: row.get(6)?,
        host_clock: row.get(7)?,
        host_unix_ns: row.get(8)?,
        offset_ns: row.get(9)?,
        bound_ns: row.get(10)?,
        drift_ppb: row.get(11)?,
        drift_bound_ppb: row.get(12)?,
    })
}

fn artifact_row(row: &Row<'_>) -> rusqlite::Result<ArtifactRow> {
    Ok(ArtifactRow {
        number: row.get(0)?,
        name: row.get(1)?,
        kind: row.get(2)?,
        sha256: parsed::<Sha256, _>(row, 3)?.into(),
        bytes: row.get::<_, i64>(4)? as u64,
        damaged: row.get::<_, String>(5)? == "damaged",
    })
}

/// A typed record, or none where only its bytes are kept.
fn record_row(row: &Row<'_>) -> rusqlite::Result<Option<RecordRow>> {
    let kind: String = row.get(0)?;
    let body: Option<String> = row.get(1)?;
    let Some(body) = body else { return Ok(None) };
    let tagged = format!("{{\"kind\":\"{kind}\",\"body\":{body}}}");
    serde_json::from_str(&tagged)
        .map(Some)
        .map_err(|e| unreadable(1, e))
}

/// A column of JSON text.
pub(super) fn from_json<T: DeserializeOwned>(row: &Row<'_>, column: usize) -> rusqlite::Result<T> {
    let text: String = row.get(column)?;
    serde_json::from_str(&text).map_err(|e| unreadable(column, e))
}

fn optional_json<T: DeserializeOwned>(row: &Row<'_>, column: usize) -> rusqlite::Result<Option<T>> {
    let text: Option<String> = row.get(column)?;
    text.map(|text| serde_json::from_str(&text).map_err(|e| unreadable(column, e)))
        .transpose()
}

/// A column that holds the name of one of a few states.
pub(super) fn named<T>(
    column: usize,
    name: &str,
    parse: impl Fn(&str) -> Option<T>,
) -> rusqlite::Result<T> {
    parse(name).ok_or_else(|| unreadable(column, UnknownName(name.into())))
}

/// A column of text in a type's own form, such as a hash.
fn parsed<T, E>(row: &Row<'_>, column: usize) -> rusqlite::Result<T>
where
    T: std::str::FromStr<Err = E>,
    E: std::error::Error + Send + Sync + 'static,
{
    let text: String = row.get(column)?;
    text.parse().map_err(|e: E| unreadable(column, e))
}

/// A name that this version gives no meaning.
#[derive(Debug, thiserror::Error)]
#[error("`{0}` has no meaning here")]
struct UnknownName(String);

pub(super) fn unreadable(
    column: usize,
    why: impl std::error::Error + Send + Sync + 'static,
) -> rusqlite::Error {
    rusqlite::Error::FromSqlConversionFailure(column, Type::Text, Box::new(why))
}
