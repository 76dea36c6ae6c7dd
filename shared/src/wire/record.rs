//! A finished repeat as the spool holds it and the wire carries it: a segment of records.
//!
//! Headers are frozen and of fixed layout, so that a host of another schema can still tell what it
//! received. A chunk's own payload is frozen too; the other records are postcard.

use serde::{Deserialize, Serialize};

use crate::artifact::{Artifact, ArtifactPart};
use crate::clocks::{ClockExchange, ClockReading};
use crate::columns::{Chunk, TrialSchema};
use crate::ids::{BootId, RunId, Sha256, StoreId};
use crate::load::{StressUsed, TenantUsed};
use crate::order::{OrderKey, Pass};
use crate::repeat::{
    AgentCost, Effective, InputsUsed, Memory, ModelInfo, OutputCheck, Placement, RepeatEnd,
    RepeatStart, RuntimeUsed, StageSpan, TextEvent,
};
use crate::telemetry::{Channel, Samples};
use crate::wire::frame::{self, Frame, FrameError, kind};

/// One record of a repeat, in the order they were made; `End` is the last.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Record {
    Start(RepeatStart),
    Stage(StageSpan),
    Runtime(RuntimeUsed),
    Model(ModelInfo),
    Schema { lane: u16, schema: TrialSchema },
    Chunk(Chunk),
    Inputs(InputsUsed),
    Placement(Placement),
    Memory(Memory),
    Effective(Effective),
    Event(TextEvent),
    Output(OutputCheck),
    Channel(Channel),
    Samples(Samples),
    Artifact(Artifact),
    ArtifactPart(ArtifactPart),
    AgentCost(AgentCost),
    Stress(Box<StressUsed>),
    End(RepeatEnd),
    ClockExchange(ClockExchange),
    ClockReading(ClockReading),
    Tenant(Box<TenantUsed>),
}

/// First bytes of every segment.
const SEGMENT_MAGIC: [u8; 8] = *b"EDYNSEG1";

/// Names the repeat that follows. Layout, little-endian: magic 8, schema hash 32, store 16, boot 8,
/// segment 8, case 32, repeat 4, attempt 4, pass 1, length of run id 1, run id.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SegmentHeader {
    /// The schema that the records were written with.
    pub schema: [u8; 32],
    pub store: StoreId,
    pub boot: BootId,
    /// Sequence number of this segment for its store; grows, never repeats.
    pub segment: u64,
    pub key: OrderKey,
}

/// Says what a record is. Layout, little-endian: sequence 8, class 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RecordHeader {
    /// Counts the records of a segment from 0.
    pub sequence: u64,
    pub class: RecordClass,
}

/// What a host of another schema can still use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RecordClass {
    /// A record as postcard.
    Typed,
    /// A chunk of trials in its frozen layout.
    Chunk,
    /// The last record, as postcard.
    End,
}

/// A header that cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum HeaderError {
    #[error("header is cut short")]
    Truncated,
    #[error("not a segment of this format")]
    Magic,
    #[error("header field {0} has no meaning")]
    Field(&'static str),
}

impl SegmentHeader {
    pub fn to_frame(&self) -> Frame {
        let run = self.key.run.0.as_bytes();
        let mut out = SEGMENT_MAGIC.to_vec();
        out.extend(self.schema);
        out.extend(self.store.0);
        out.extend(self.boot.0.to_le_bytes());
        out.extend(self.segment.to_le_bytes());
        out.extend(self.key.case.0);
        out.extend(self.key.repeat.to_le_bytes());
        out.extend(self.key.attempt.to_le_bytes());
        out.push(match self.key.pass {
            Pass::Honest => 0,
            Pass::Attributed => 1,
        });
        out.push(run.len() as u8);
        out.extend(run);
        Frame {
            kind: kind::SEGMENT,
            payload: out,
        }
    }

    pub fn parse(payload: &[u8]) -> Result<Self, HeaderError> {
        let mut rest = payload;
        if take::<8>(&mut rest)? != SEGMENT_MAGIC {
            return Err(HeaderError::Magic);
        }
        let schema = take::<32>(&mut rest)?;
        let store = StoreId(take::<16>(&mut rest)?);
        let boot = BootId(u64::from_le_bytes(take(&mut rest)?));
        let segment = u64::from_le_bytes(take(&mut rest)?);
        let case = Sha256(take::<32>(&mut rest)?);
        let repeat = u32::from_le_bytes(take(&mut rest)?);
        let attempt = u32::from_le_bytes(take(&mut rest)?);
        let pass = match take::<1>(&mut rest)? {
            [0] => Pass::Honest,
            [1] => Pass::Attributed,
            _ => return Err(HeaderError::Field("pass")),
        };
        let [length] = take::<1>(&mut rest)?;
        if rest.len() != usize::from(length) {
            return Err(HeaderError::Truncated);
        }
        let run = String::from_utf8(rest.to_vec()).map_err(|_| HeaderError::Field("run"))?;
        let run = RunId(run);
        if !run.is_well_formed() {
            return Err(HeaderError::Field("run"));
        }
        let key = OrderKey {
            run,
            case,
            repeat,
            attempt,
            pass,
        };
        Ok(Self {
            schema,
            store,
            boot,
            segment,
            key,
        })
    }
}

fn take<const N: usize>(rest: &mut &[u8]) -> Result<[u8; N], HeaderError> {
    let (head, tail) = rest
        .split_first_chunk::<N>()
        .ok_or(HeaderError::Truncated)?;
    *rest = tail;
    Ok(*head)
}

impl RecordHeader {
    const BYTES: usize = 9;

    fn to_bytes(self) -> [u8; Self::BYTES] {
        let mut out = [0; Self::BYTES];
        out[..8].copy_from_slice(&self.sequence.to_le_bytes());
        out[8] = match self.class {
            RecordClass::Typed => 0,
            RecordClass::Chunk => 1,
            RecordClass::End => 2,
        };
        out
    }

    /// Splits a record frame's payload into its header and its body.
    pub fn parse(payload: &[u8]) -> Result<(Self, &[u8]), HeaderError> {
        let mut rest = payload;
        let sequence = u64::from_le_bytes(take(&mut rest)?);
        let class = match take::<1>(&mut rest)? {
            [0] => RecordClass::Typed,
            [1] => RecordClass::Chunk,
            [2] => RecordClass::End,
            _ => return Err(HeaderError::Field("class")),
        };
        Ok((Self { sequence, class }, rest))
    }
}

impl Record {
    fn class(&self) -> RecordClass {
        match self {
            Self::Chunk(_) => RecordClass::Chunk,
            Self::End(_) => RecordClass::End,
            _ => RecordClass::Typed,
        }
    }

    /// The frame of this record.
    ///
    /// # Errors
    /// When it is over the frame limit.
    pub fn to_frame(&self, sequence: u64) -> Result<Frame, FrameError> {
        let header = RecordHeader {
            sequence,
            class: self.class(),
        };
        let mut payload = header.to_bytes().to_vec();
        match self {
            Self::Chunk(chunk) => write_chunk(chunk, &mut payload),
            other => {
                payload =
                    postcard::to_extend(other, payload).map_err(|why| FrameError::Undecodable {
                        kind: kind::RECORD,
                        why,
                    })?;
            }
        }
        let length = payload.len() + 1;
        if length > frame::LIMIT {
            return Err(FrameError::TooLong {
                length,
                limit: frame::LIMIT,
            });
        }
        Ok(Frame {
            kind: kind::RECORD,
            payload,
        })
    }

    /// Reads a record frame's payload.
    pub fn parse(payload: &[u8]) -> Result<(u64, Self), RecordError> {
        let (header, body) = RecordHeader::parse(payload)?;
        let record = match header.class {
            RecordClass::Chunk => Self::Chunk(read_chunk(body)?),
            RecordClass::Typed | RecordClass::End => frame::decode(kind::RECORD, body)?,
        };
        if record.class() != header.class {
            return Err(HeaderError::Field("class").into());
        }
        Ok((header.sequence, record))
    }
}

/// A record that cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum RecordError {
    #[error(transparent)]
    Header(#[from] HeaderError),
    #[error(transparent)]
    Body(#[from] FrameError),
}

/// Layout, little-endian: lane 2, number 4, rows 4, columns 4, codec 1, cells.
fn write_chunk(chunk: &Chunk, out: &mut Vec<u8>) {
    out.extend(chunk.lane.to_le_bytes());
    out.extend(chunk.number.to_le_bytes());
    out.extend(chunk.rows.to_le_bytes());
    out.extend(chunk.columns.to_le_bytes());
    out.push(chunk.codec);
    out.extend(&chunk.bytes);
}

/// Reads the frozen layout of a chunk.
pub fn read_chunk(body: &[u8]) -> Result<Chunk, HeaderError> {
    let mut rest = body;
    let lane = u16::from_le_bytes(take(&mut rest)?);
    let number = u32::from_le_bytes(take(&mut rest)?);
    let rows = u32::from_le_bytes(take(&mut rest)?);
    let columns = u32::from_le_bytes(take(&mut rest)?);
    let [codec] = take(&mut rest)?;
    let bytes = rest.to_vec();
    Ok(Chunk {
        lane,
        number,
        rows,
        columns,
        codec,
        bytes,
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn header() -> SegmentHeader {
        SegmentHeader {
            schema: [1; 32],
            store: StoreId([2; 16]),
            boot: BootId(3),
            segment: 4,
            key: OrderKey {
                run: RunId("ab".into()),
                case: Sha256([5; 32]),
                repeat: 6,
                attempt: 7,
                pass: Pass::Attributed,
            },
        }
    }

    #[test]
    fn the_segment_header_is_frozen() {
        let mut expected = b"EDYNSEG1".to_vec();
        expected.extend([1; 32]);
        expected.extend([2; 16]);
        expected.extend([3, 0, 0, 0, 0, 0, 0, 0, 4, 0, 0, 0, 0, 0, 0, 0]);
        expected.extend([5; 32]);
        expected.extend([6, 0, 0, 0, 7, 0, 0, 0, 1, 2, b'a', b'b']);
        let frame = header().to_frame();
        assert_eq!(frame.payload, expected);
        assert_eq!(SegmentHeader::parse(&frame.payload), Ok(header()));
    }

    #[test]
    fn the_chunk_layout_is_frozen() {
        let chunk = Chunk {
            lane: 1,
            number: 2,
            rows: 3,
            columns: 4,
            codec: 1,
            bytes: vec![9],
        };
        let frame = Record::Chunk(chunk.clone()).to_frame(5).unwrap();
        let expected = [
            5, 0, 0, 0, 0, 0, 0, 0, 1, // header
            1, 0, 2, 0, 0, 0, 3, 0, 0, 0, 4, 0, 0, 0, 1, 9,
        ];
        assert_eq!(frame.payload, expected);
        assert_eq!(
            Record::parse(&frame.payload).unwrap(),
            (5, Record::Chunk(chunk))
        );
    }

    proptest! {
        #[test]
        fn hostile_headers_are_refused_without_panic(bytes: Vec<u8>) {
            let _ = SegmentHeader::parse(&bytes);
            let _ = Record::parse(&bytes);
        }

        #[test]
        fn a_cut_header_is_refused(cut in 0_usize..110) {
            let payload = header().to_frame().payload;
            prop_assert!(SegmentHeader::parse(&payload[..cut]).is_err());
        }
    }
}
