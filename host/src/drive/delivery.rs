//! Taking one finished repeat from the link into the store.

use std::collections::VecDeque;

use edgedyno_shared::order::OrderKey;
use edgedyno_shared::repeat::{Outcome, RepeatEnd, Stage};
use edgedyno_shared::wire::failure::Failure;
use edgedyno_shared::wire::record::{Record, RecordClass, RecordHeader, SegmentHeader};

use super::session::Stop;
use crate::board::link::{Link, LinkEvent};
use crate::plan::Ended;
use crate::store::{Store, StoreError};

/// A repeat that arrived whole.
pub(super) struct Delivery {
    pub(super) key: OrderKey,
    pub(super) how: Ended,
    pub(super) failure: Option<(Stage, Failure)>,
    /// False when the store has no such run any more.
    pub(super) wanted: bool,
}

/// Reads records up to the last and commits them; anything else that comes meanwhile is put aside.
pub(super) async fn take(
    link: &mut Link,
    store: &mut Store,
    header: &SegmentHeader,
    aside: &mut VecDeque<LinkEvent>,
) -> Result<Delivery, Stop> {
    let mut segment = match store.segment(header) {
        Ok(segment) => Some(segment),
        // Removed with `runs rm` while the board was measuring.
        Err(StoreError::NoSuchRun { .. } | StoreError::NoSuchCase { .. }) => None,
        Err(other) => return Err(other.into()),
    };
    let last = loop {
        let payload = match link.next().await? {
            LinkEvent::Record(payload) => payload,
            other => {
                aside.push_back(other);
                continue;
            }
        };
        if let Some(segment) = &mut segment {
            segment.record(&payload)?;
        }
        if let Some(last) = last_record(&payload) {
            break last;
        }
    };
    let wanted = segment.is_some();
    if let Some(segment) = segment {
        segment.commit()?;
    }
    let (how, failure) = last.map_or((Ended::Complete, None), ending);
    Ok(Delivery {
        key: header.key.clone(),
        how,
        failure,
        wanted,
    })
}

/// Whether this is the last record, and what it says where it can be decoded.
fn last_record(payload: &[u8]) -> Option<Option<RepeatEnd>> {
    let (header, _) = RecordHeader::parse(payload).ok()?;
    match (header.class, Record::parse(payload)) {
        (RecordClass::End, Ok((_, Record::End(end)))) => Some(Some(end)),
        (RecordClass::End, _) => Some(None),
        _ => None,
    }
}

fn ending(end: RepeatEnd) -> (Ended, Option<(Stage, Failure)>) {
    match end.outcome {
        Outcome::Complete => (Ended::Complete, None),
        Outcome::Cancelled { .. } => (Ended::Cancelled, None),
        Outcome::Failed { stage, failure } => {
            (Ended::from_failure(failure.code), Some((stage, failure)))
        }
    }
}
