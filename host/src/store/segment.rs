//! Taking in what an agent delivers: one segment, one repeat, one transaction.

use edgedyno_shared::order::OrderKey;
use edgedyno_shared::wire::hello::schema_hash;
use edgedyno_shared::wire::record::{Record, RecordClass, RecordHeader, SegmentHeader, read_chunk};

use super::repeat_writer::{Ending, Gathered, Writing};
use super::rows::OutcomeKind;
use super::{Result, Store, StoreError};

/// Bytes gathered before the write lock is taken, so that a slow link does not hold it.
const GATHER: usize = 32 * 1024 * 1024;

/// A segment being taken in. Dropped without [`Segment::commit`] it leaves nothing behind.
#[derive(Debug)]
pub struct Segment<'a> {
    store: &'a Store,
    header: SegmentHeader,
    next: u64,
    gathered: Vec<Gathered>,
    bytes: usize,
    writing: Option<Writing<'a>>,
    end: Option<Ending>,
}

/// What one record frame held.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Received {
    Typed,
    Chunk {
        lane: u16,
        rows: u32,
    },
    /// A file made on the board follows.
    Announced {
        bytes: u64,
    },
    /// Bytes of such a file.
    Part {
        bytes: u64,
    },
    /// Kept as it came: another schema, or not decodable.
    Raw,
    /// The last one; commit may follow.
    End(OutcomeKind),
}

/// What became of a segment; the agent may be told to delete it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Committed {
    pub key: OrderKey,
    pub outcome: OutcomeKind,
    /// False when this repeat was stored before and nothing changed.
    pub stored: bool,
}

impl Store {
    /// Begins to take in one repeat.
    ///
    /// # Errors
    /// When it was made for another store, or for a run or case that this store does not have.
    pub fn segment(&mut self, header: &SegmentHeader) -> Result<Segment<'_>> {
        if header.store != self.id() {
            let why = format!("it was made for store {}", header.store);
            return Err(unusable(header, why));
        }
        self.check_case(&header.key.run, header.key.case)?;
        Ok(Segment {
            store: self,
            header: header.clone(),
            next: 0,
            gathered: Vec::new(),
            bytes: 0,
            writing: None,
            end: None,
        })
    }
}

impl Segment<'_> {
    pub fn key(&self) -> &OrderKey {
        &self.header.key
    }

    /// Takes one record frame's payload.
    pub fn record(&mut self, payload: &[u8]) -> Result<Received> {
        let (head, body) =
            RecordHeader::parse(payload).map_err(|e| unusable(&self.header, e.to_string()))?;
        self.check_order(head)?;
        let (item, received) = self.read(head, payload, body)?;
        self.gathered.push(item);
        self.bytes += payload.len();
        if self.bytes >= GATHER {
            self.write_gathered()?;
        }
        Ok(received)
    }

    /// Makes the repeat part of the store, for good.
    ///
    /// # Errors
    /// When its last record has not come, or when it cannot be written: then nothing of it is stored.
    pub fn commit(mut self) -> Result<Committed> {
        let Some(end) = self.end.take() else {
            return Err(unusable(
                &self.header,
                "its last record did not come".into(),
            ));
        };
        self.write_gathered()?;
        let key = self.header.key.clone();
        let outcome = end.outcome.unwrap_or(OutcomeKind::Raw);
        match self.writing.take() {
            Some(Writing::New(writer)) => {
                writer.finish(&end, outcome)?;
                Ok(Committed {
                    key,
                    outcome,
                    stored: true,
                })
            }
            Some(Writing::Known(outcome)) => Ok(Committed {
                key,
                outcome,
                stored: false,
            }),
            None => Err(unusable(&self.header, "it has no records".into())),
        }
    }

    fn check_order(&mut self, head: RecordHeader) -> Result<()> {
        if self.end.is_some() {
            return Err(unusable(&self.header, "a record after the last".into()));
        }
        if head.sequence != self.next {
            let why = format!("record {} came where {} was due", head.sequence, self.next);
            return Err(unusable(&self.header, why));
        }
        self.next += 1;
        Ok(())
    }

    /// Decodes where that is possible; keeps the body as it came where it is not.
    fn read(
        &mut self,
        head: RecordHeader,
        payload: &[u8],
        body: &[u8],
    ) -> Result<(Gathered, Received)> {
        let sequence = head.sequence;
        if head.class == RecordClass::Chunk {
            let chunk = read_chunk(body).map_err(|e| unusable(&self.header, e.to_string()))?;
            let (lane, rows) = (chunk.lane, chunk.rows);
            let item = Gathered::Record(sequence, Record::Chunk(chunk));
            return Ok((item, Received::Chunk { lane, rows }));
        }
        let decoded = (self.header.schema == schema_hash())
            .then(|| Record::parse(payload).ok())
            .flatten();
        let received = match (&decoded, head.class) {
            (_, RecordClass::End) => {
                let end = Ending::of(decoded.as_ref());
                let outcome = end.outcome.unwrap_or(OutcomeKind::Raw);
                self.end = Some(end);
                Received::End(outcome)
            }
            (Some((_, Record::Artifact(artifact))), _) => Received::Announced {
                bytes: artifact.bytes,
            },
            (Some((_, Record::ArtifactPart(part))), _) => Received::Part {
                bytes: part.bytes.len() as u64,
            },
            (Some(_), _) => Received::Typed,
            (None, _) => Received::Raw,
        };
        let item = match decoded {
            Some((_, record)) => Gathered::Record(sequence, record),
            None => Gathered::Raw(sequence, body.to_vec()),
        };
        Ok((item, received))
    }

    fn write_gathered(&mut self) -> Result<()> {
        if self.writing.is_none() {
            self.writing = Some(Writing::begin(self.store, &self.header)?);
        }
        self.bytes = 0;
        let gathered = std::mem::take(&mut self.gathered);
        match &mut self.writing {
            Some(Writing::New(writer)) => gathered.iter().try_for_each(|item| writer.put(item)),
            _ => Ok(()),
        }
    }
}

fn unusable(header: &SegmentHeader, why: String) -> StoreError {
    StoreError::Segment {
        key: header.key.file_stem(),
        why,
    }
}
