//! What telemetry of a repeat comes to: each channel over the window.
//!
//! Pure functions over samples as they were stored. A channel without good samples has no figures.

mod digest;

pub use digest::{Digest, Figures, Growth, digest};

use crate::source::{Source, SourceError};
use crate::store::{RepeatRow, Result, Store};
use crate::view::Span;

/// Digests of all channels of a repeat over its window, in the order of channels.
pub(crate) fn of_store(
    store: &Store,
    row: &RepeatRow,
    window: Option<Span>,
) -> Result<Vec<Digest>> {
    let each = row.channels.iter().map(|channel| {
        let samples = store.samples(row, channel.id)?;
        Ok(digest(channel, &samples, window))
    });
    each.collect()
}

/// The same over any span and from any source.
pub fn over(
    source: &Source,
    row: &RepeatRow,
    span: Option<Span>,
) -> std::result::Result<Vec<Digest>, SourceError> {
    let each = row.channels.iter().map(|channel| {
        let samples = source.samples(row, channel.id)?;
        Ok(digest(channel, &samples, span))
    });
    each.collect()
}
