//! What telemetry of a repeat comes to: each channel over the window, and around the slowest trials.
//!
//! Pure functions over samples as they were stored. A channel without good samples has no figures.

mod digest;
pub mod emc;
pub mod engines;
mod moment;
mod peaks;
mod policies;
pub(crate) mod series;
pub mod traffic;

#[cfg(test)]
pub(crate) use digest::tests;
pub use digest::{Digest, Figures, Growth, digest};
pub use moment::{Moment, Seen};
pub use peaks::DdrPeak;
pub use policies::Policies;

use crate::source::{Source, SourceError};
use crate::store::RepeatRow;
use crate::store::rows::SamplesRow;
use crate::view::{Span, Trials};

/// What sensors of heat showed. One that stood still while others moved, such as the 100 °C of a power chip, is
/// none.
pub(crate) fn heat(channels: &[Digest]) -> impl Iterator<Item = &Digest> {
    let is_sensor = |digest: &&Digest| {
        digest.channel.unit == "millicelsius" && digest.channel.name.ends_with(".temp")
    };
    let any_moves = channels.iter().filter(is_sensor).any(|of| of.ever_changed);
    let sensors = channels.iter().filter(is_sensor);
    sensors.filter(move |digest| digest.ever_changed || !any_moves)
}

/// Digests of all channels of a repeat over its window, in the order of channels, and the moments of its
/// slowest trials.
pub(crate) fn of_repeat<E>(
    row: &RepeatRow,
    trials: &Trials,
    samples: impl Fn(u16) -> Result<SamplesRow, E>,
) -> Result<(Vec<Digest>, Vec<Moment>), E> {
    let mut digests = Vec::with_capacity(row.channels.len());
    let mut moments = moment::of(&trials.slowest, trials.window);
    for channel in &row.channels {
        let samples = samples(channel.id)?;
        let mut digest = digest(channel, &samples, trials.window);
        if let Some(window) = trials.window {
            digest.parts = digest::power_parts(channel, &samples, window);
        }
        let began = row.start.as_ref().map(|start| start.mono_ns);
        if let (Some(end_ns), Some(start_ns)) = (began, samples.at_ns.first().copied())
            && start_ns < end_ns
        {
            // What was watched before the worker's process was made.
            let idle = Span { start_ns, end_ns };
            digest.idle_parts = digest::power_parts(channel, &samples, idle);
        }
        moments
            .iter_mut()
            .for_each(|moment| moment.look(&digest, &samples));
        digests.push(digest);
    }
    moments.iter_mut().for_each(Moment::settle);
    Ok((digests, moments))
}

/// Digests over any span and from any source.
pub fn over(
    source: &Source,
    row: &RepeatRow,
    span: Option<Span>,
) -> Result<Vec<Digest>, SourceError> {
    let each = row.channels.iter().map(|channel| {
        let samples = source.samples(row, channel.id)?;
        Ok(digest(channel, &samples, span))
    });
    each.collect()
}
