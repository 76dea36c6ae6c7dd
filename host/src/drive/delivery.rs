//! Taking one finished repeat from the link into the store.

use std::collections::VecDeque;
use std::time::Duration;

use edgedyno_shared::order::OrderKey;
use edgedyno_shared::repeat::{Outcome, RepeatEnd, Stage};
use edgedyno_shared::wire::failure::{Failure, FailureCode};
use edgedyno_shared::wire::record::{Record, RecordClass, RecordHeader, SegmentHeader};
use tokio::time::{Instant, timeout};

use super::DriveEvent;
use super::arrival::Arrival;
use super::session::Stop;
use crate::board::link::{Link, LinkError, LinkEvent};
use crate::plan::Ended;
use crate::store::{Segment, Store, StoreError};

/// An agent that stops in the middle of a repeat for this long is taken for lost.
const PATIENCE: Duration = Duration::from_secs(30);

/// A repeat that arrived whole.
pub(super) struct Delivery {
    pub(super) key: OrderKey,
    pub(super) how: Ended,
    pub(super) failure: Option<(Stage, Failure)>,
    /// False when the store has no such run any more.
    pub(super) wanted: bool,
    /// The store had a repeat of that key before, and this one is not what counts.
    pub(super) was_stored: bool,
}

/// Reads records up to the last and commits them; anything else that comes meanwhile is put aside.
pub(super) async fn take(
    link: &mut Link,
    store: &mut Store,
    header: &SegmentHeader,
    aside: &mut VecDeque<LinkEvent>,
    tell: &mut dyn FnMut(DriveEvent),
) -> Result<Delivery, Stop> {
    let mut unusable = None;
    let mut segment = match store.segment(header) {
        Ok(segment) => Some(segment),
        // Removed with `runs rm` while the board was measuring.
        Err(StoreError::NoSuchRun { .. } | StoreError::NoSuchCase { .. }) => None,
        Err(why) => {
            unusable = refusal(why)?;
            None
        }
    };
    let wanted = segment.is_some();
    let (begun, mut arrival) = (Instant::now(), Arrival::default());
    let last = loop {
        let event = timeout(PATIENCE, link.next()).await;
        let payload = match event.map_err(|_| LinkError::Silent)?? {
            LinkEvent::Record(payload) => payload,
            next @ LinkEvent::Segment(_) => {
                aside.push_back(next);
                segment = None;
                unusable.get_or_insert_with(|| "its last record did not come".into());
                break None;
            }
            other => {
                aside.push_back(other);
                continue;
            }
        };
        match segment.as_mut().map(|segment| segment.record(&payload)) {
            Some(Ok(received)) => {
                if let Some(event) = arrival.note(received, payload.len(), begun.elapsed()) {
                    tell(event);
                }
            }
            Some(Err(why)) => {
                segment = None;
                unusable = refusal(why)?;
            }
            None => {}
        }
        if let Some(last) = last_record(&payload) {
            break last;
        }
    };
    let mut was_stored = false;
    match segment.map(Segment::commit) {
        Some(Ok(committed)) => was_stored = !committed.stored,
        Some(Err(why)) => unusable = refusal(why)?,
        None => {}
    }
    if let Some(why) = unusable {
        return not_stored(store, header, &why);
    }
    let (how, failure) = last.map_or((Ended::Complete, None), ending);
    Ok(Delivery {
        key: header.key.clone(),
        how,
        failure,
        wanted,
        was_stored,
    })
}

/// What is wrong with the segment itself, which would come back for ever if it ended the session.
fn refusal(why: StoreError) -> Result<Option<String>, StoreError> {
    match why {
        StoreError::Segment { why, .. } => Ok(Some(why)),
        other => Err(other),
    }
}

/// A row in place of a repeat that the store cannot take.
fn not_stored(store: &Store, header: &SegmentHeader, why: &str) -> Result<Delivery, Stop> {
    let detail = format!("what the agent delivered cannot be stored: {why}");
    let failure = Failure::new(FailureCode::Protocol, detail);
    let wanted = match store.put_failure(&header.key, Stage::Teardown, &failure) {
        Ok(()) => true,
        // Not even its name can be believed.
        Err(StoreError::NoSuchRun { .. } | StoreError::NoSuchCase { .. }) => false,
        Err(other) => return Err(other.into()),
    };
    Ok(Delivery {
        key: header.key.clone(),
        how: Ended::Failed,
        failure: Some((Stage::Teardown, failure)),
        wanted,
        was_stored: false,
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
