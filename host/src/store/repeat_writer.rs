//! Writing one repeat: the transaction that takes in what a segment holds.

use std::collections::BTreeMap;

use edgedyno_shared::artifact::{Artifact, ArtifactPart};
use edgedyno_shared::clocks::{ClockExchange, ClockReading};
use edgedyno_shared::columns::Chunk;
use edgedyno_shared::ids::Sha256;
use edgedyno_shared::order::OrderKey;
use edgedyno_shared::repeat::TextEvent;
use edgedyno_shared::telemetry::Samples;
use edgedyno_shared::wire::record::{Record, SegmentHeader};
use rusqlite::{OptionalExtension, Transaction, params};
use sha2::Digest;

use super::rows::{ClockExchangeRow, ClockReadingRow, OutcomeKind, RecordRow};
use super::runs::json;
use super::{Result, Store, samples};

/// A record on its way into the transaction.
#[derive(Debug)]
pub(super) enum Gathered {
    Record(u64, Record),
    Raw(u64, Vec<u8>),
}

/// How the repeat ended, as columns.
#[derive(Debug, Default)]
pub(super) struct Ending {
    pub(super) outcome: Option<OutcomeKind>,
    stage: Option<&'static str>,
    failure: Option<String>,
}

impl Ending {
    pub(super) fn of(decoded: Option<&(u64, Record)>) -> Self {
        let Some((_, Record::End(end))) = decoded else {
            return Self::default();
        };
        let row = super::rows::EndRow::from(end);
        Self {
            outcome: Some(row.outcome),
            stage: row.stage.map(super::rows::StageName::name),
            failure: row.failure.as_ref().map(json),
        }
    }
}

/// A repeat that is written, or was before.
#[derive(Debug)]
pub(super) enum Writing<'a> {
    New(Box<Writer<'a>>),
    /// The repeat is in the store already.
    Known(OutcomeKind),
}

impl<'a> Writing<'a> {
    pub(super) fn begin(store: &'a Store, header: &SegmentHeader) -> Result<Self> {
        let writer = Writer {
            change: store.begin()?,
            store,
            repeat: 0,
            artifacts: BTreeMap::new(),
            exchange: None,
        };
        match writer.stored_before(&header.key)? {
            Some(outcome) => Ok(Self::Known(outcome)),
            None => writer.begin_repeat(header).map(Box::new).map(Self::New),
        }
    }
}

/// The transaction of one repeat.
#[derive(Debug)]
pub(super) struct Writer<'a> {
    change: Transaction<'a>,
    store: &'a Store,
    repeat: i64,
    artifacts: BTreeMap<u32, Incoming>,
    /// The last exchange of clocks, which the next one's drift is counted from.
    exchange: Option<ClockExchangeRow>,
}

/// An artifact whose bytes are arriving.
#[derive(Debug)]
struct Incoming {
    promised: Sha256,
    part: u32,
    hash: sha2::Sha256,
    /// The content is in the store from before.
    there: bool,
}

impl Writer<'_> {
    /// How this repeat ended, if an agent delivered it before; a host's own failure row makes way.
    fn stored_before(&self, key: &OrderKey) -> Result<Option<OutcomeKind>> {
        let outcome: Option<String> = self
            .change
            .query_row(
                "SELECT outcome FROM repeats
                 WHERE run_id = $1 AND case_key = $2 AND repeat = $3 AND attempt = $4 AND pass = $5
                   AND origin = 'agent'",
                key_params(key),
                |row| row.get(0),
            )
            .optional()
            .map_err(self.store.explain("look up a repeat"))?;
        Ok(outcome.map(|name| OutcomeKind::from_name(&name).unwrap_or(OutcomeKind::Raw)))
    }

    fn begin_repeat(mut self, header: &SegmentHeader) -> Result<Self> {
        let explain = self.store.explain("begin a repeat");
        self.change
            .execute(
                "DELETE FROM repeats
                 WHERE run_id = $1 AND case_key = $2 AND repeat = $3 AND attempt = $4 AND pass = $5",
                key_params(&header.key),
            )
            .map_err(&explain)?;
        let key = &header.key;
        self.repeat = self
            .change
            .query_row(
                "INSERT INTO repeats
                     (id, run_id, case_key, repeat, attempt, pass, origin, outcome, boot, segment, wire_schema)
                 SELECT COALESCE(MAX(id), 0) + 1, $1, $2, $3, $4, $5, 'agent', 'raw', $6, $7, $8 FROM repeats
                 RETURNING id",
                params![
                    key.run.0,
                    key.case.to_string(),
                    key.repeat,
                    key.attempt,
                    key.pass.name(),
                    format!("{:016x}", header.boot.0),
                    header.segment as i64,
                    hex(&header.schema),
                ],
                |row| row.get(0),
            )
            .map_err(&explain)?;
        Ok(self)
    }

    pub(super) fn put(&mut self, item: &Gathered) -> Result<()> {
        let explain = self.store.explain("record a repeat");
        match item {
            Gathered::Raw(sequence, body) => self.put_raw(*sequence, body),
            Gathered::Record(_, Record::Chunk(chunk)) => self.put_chunk(chunk),
            Gathered::Record(sequence, Record::Event(event)) => self.put_event(*sequence, event),
            Gathered::Record(sequence, Record::Samples(samples)) => {
                self.put_samples(*sequence, samples)
            }
            Gathered::Record(sequence, Record::ClockExchange(exchange)) => {
                self.put_clock_exchange(*sequence, exchange)
            }
            Gathered::Record(sequence, Record::ClockReading(reading)) => {
                self.put_clock_reading(*sequence, reading)
            }
            Gathered::Record(_, Record::Artifact(artifact)) => self.put_artifact(artifact),
            Gathered::Record(_, Record::ArtifactPart(part)) => self.put_part(part),
            Gathered::Record(sequence, other) => match RecordRow::of(other) {
                Some(row) => self.put_row(*sequence, &row),
                None => Ok(()),
            },
        }
        .map_err(explain)
    }

    fn put_row(&self, sequence: u64, row: &RecordRow) -> rusqlite::Result<()> {
        let tagged = serde_json::to_value(row).expect("a stored row is always JSON");
        let (kind, body) = (&tagged["kind"], &tagged["body"]);
        self.change
            .prepare_cached(
                "INSERT INTO records (repeat_id, sequence, kind, body) VALUES ($1, $2, $3, $4)",
            )?
            .execute(params![
                self.repeat,
                sequence as i64,
                kind.as_str(),
                body.to_string()
            ])
            .map(drop)
    }

    fn put_raw(&self, sequence: u64, body: &[u8]) -> rusqlite::Result<()> {
        self.change
            .prepare_cached(
                "INSERT INTO records (repeat_id, sequence, kind, raw) VALUES ($1, $2, 'raw', $3)",
            )?
            .execute(params![self.repeat, sequence as i64, body])
            .map(drop)
    }

    fn put_chunk(&self, chunk: &Chunk) -> rusqlite::Result<()> {
        self.change
            .prepare_cached(
                "INSERT INTO chunks (repeat_id, lane, number, row_count, column_count, codec, bytes)
                 VALUES ($1, $2, $3, $4, $5, $6, $7)",
            )?
            .execute(params![
                self.repeat,
                chunk.lane,
                chunk.number,
                chunk.rows,
                chunk.columns,
                chunk.codec,
                chunk.bytes,
            ])
            .map(drop)
    }

    fn put_event(&self, sequence: u64, event: &TextEvent) -> rusqlite::Result<()> {
        self.change
            .prepare_cached(
                "INSERT INTO events (repeat_id, sequence, lane, trial, code, text)
                 VALUES ($1, $2, $3, $4, $5, $6)",
            )?
            .execute(params![
                self.repeat,
                sequence as i64,
                event.lane,
                event.trial.map(|trial| trial as i64),
                event.code,
                event.text,
            ])
            .map(drop)
    }

    fn put_samples(&self, sequence: u64, samples: &Samples) -> rusqlite::Result<()> {
        let coded = samples::code(samples);
        self.change
            .prepare_cached(
                "INSERT INTO samples
                     (repeat_id, sequence, channel, row_count, codec, at_ns, value, quality)
                 VALUES ($1, $2, $3, $4, $5, $6, $7, $8)",
            )?
            .execute(params![
                self.repeat,
                sequence as i64,
                samples.channel,
                samples.at_ns.len() as i64,
                coded.codec,
                coded.at_ns,
                coded.value,
                coded.quality,
            ])
            .map(drop)
    }

    fn put_clock_exchange(
        &mut self,
        sequence: u64,
        exchange: &ClockExchange,
    ) -> rusqlite::Result<()> {
        let row = ClockExchangeRow::of(exchange, self.exchange.as_ref());
        self.change
            .prepare_cached(
                "INSERT INTO clock_exchanges
                     (repeat_id, sequence, moment, state, rounds, asked_ns, received_ns, answered_ns,
                      heard_ns, host_clock, host_unix_ns, offset_ns, bound_ns, drift_ppb, drift_bound_ppb)
                 VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15)",
            )?
            .execute(params![
                self.repeat,
                sequence as i64,
                row.moment.name(),
                row.state,
                row.rounds,
                row.asked_ns,
                row.received_ns,
                row.answered_ns,
                row.heard_ns,
                row.host_clock,
                row.host_unix_ns,
                row.offset_ns,
                row.bound_ns,
                row.drift_ppb,
                row.drift_bound_ppb,
            ])?;
        self.exchange = Some(row);
        Ok(())
    }

    fn put_clock_reading(&self, sequence: u64, reading: &ClockReading) -> rusqlite::Result<()> {
        let row = ClockReadingRow::from(reading);
        self.change
            .prepare_cached(
                "INSERT INTO clock_readings
                     (repeat_id, sequence, monotonic_ns, boottime_ns, realtime_ns, raw_ns, took_ns)
                 VALUES ($1, $2, $3, $4, $5, $6, $7)",
            )?
            .execute(params![
                self.repeat,
                sequence as i64,
                row.monotonic_ns,
                row.boottime_ns,
                row.realtime_ns,
                row.raw_ns,
                row.took_ns,
            ])
            .map(drop)
    }

    fn put_artifact(&mut self, artifact: &Artifact) -> rusqlite::Result<()> {
        let sha256 = artifact.sha256.to_string();
        let there = self.change.query_row(
            "SELECT EXISTS (SELECT 1 FROM contents WHERE sha256 = $1)",
            [&sha256],
            |row| row.get(0),
        )?;
        let incoming = Incoming {
            promised: artifact.sha256,
            part: 0,
            hash: sha2::Sha256::new(),
            there,
        };
        self.artifacts.insert(artifact.number, incoming);
        self.change
            .execute(
                "INSERT INTO artifacts (repeat_id, number, name, kind, sha256, bytes, state)
                 VALUES ($1, $2, $3, $4, $5, $6, 'stored')",
                params![
                    self.repeat,
                    artifact.number,
                    artifact.name,
                    artifact.kind,
                    sha256,
                    artifact.bytes as i64,
                ],
            )
            .map(drop)
    }

    fn put_part(&mut self, part: &ArtifactPart) -> rusqlite::Result<()> {
        // A part of nothing announced belongs to nothing; it changes no figure.
        let Some(incoming) = self.artifacts.get_mut(&part.number) else {
            return Ok(());
        };
        incoming.hash.update(&part.bytes);
        incoming.part += 1;
        if incoming.there {
            return Ok(());
        }
        self.change
            .prepare_cached(
                "INSERT INTO contents (sha256, part, bytes) VALUES ($1, $2, $3)
                 ON CONFLICT (sha256, part) DO NOTHING",
            )?
            .execute(params![
                incoming.promised.to_string(),
                incoming.part,
                part.bytes
            ])
            .map(drop)
    }

    pub(super) fn finish(mut self, end: &Ending, outcome: OutcomeKind) -> Result<()> {
        let explain = self.store.explain("finish a repeat");
        self.check_artifacts().map_err(&explain)?;
        self.change
            .execute(
                "UPDATE repeats SET outcome = $1, stage = $2, failure = $3 WHERE id = $4",
                params![outcome.name(), end.stage, end.failure, self.repeat],
            )
            .map_err(&explain)?;
        self.change.commit().map_err(&explain)
    }

    /// Marks artifacts whose bytes are not those promised, and drops the bytes.
    fn check_artifacts(&mut self) -> rusqlite::Result<()> {
        for (number, incoming) in std::mem::take(&mut self.artifacts) {
            if incoming.hash.finalize()[..] == incoming.promised.0 {
                continue;
            }
            self.change.execute(
                "UPDATE artifacts SET state = 'damaged' WHERE repeat_id = $1 AND number = $2",
                params![self.repeat, number],
            )?;
            if !incoming.there {
                self.change.execute(
                    "DELETE FROM contents WHERE sha256 = $1",
                    [incoming.promised.to_string()],
                )?;
            }
        }
        Ok(())
    }
}

fn key_params(key: &OrderKey) -> impl rusqlite::Params {
    (
        key.run.0.clone(),
        key.case.to_string(),
        key.repeat,
        key.attempt,
        key.pass.name(),
    )
}

fn hex(bytes: &[u8; 32]) -> String {
    Sha256(*bytes).to_string()
}
