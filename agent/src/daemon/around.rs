//! The board before and after the worker: watched while it is idle, so that what the worker costs can be
//! told apart from what the board costs anyway, and how it recovers can be seen.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use edgedyno_shared::telemetry::{Samples, TelemetryMode};
use edgedyno_shared::units::Nanos;
use edgedyno_shared::wire::event::Event;
use edgedyno_shared::wire::failure::{Failure, FailureCode};
use edgedyno_shared::wire::record::Record;
use tokio::sync::watch;
use tokio::time::timeout;

use super::queue::Queued;
use super::state::{Daemon, News};
use crate::sampler::{Plan, Sampling};
use crate::worker::supervise::Cancel;

/// Watches the board for as long as the order asks before its worker starts.
pub(super) async fn before(
    daemon: &Daemon,
    queued: &Queued,
    cancel: &watch::Receiver<Cancel>,
) -> Vec<Record> {
    let order = &queued.order;
    let span = order.preparation.watch_before;
    if span.0 <= 0 || order.telemetry == TelemetryMode::Off {
        return Vec::new();
    }
    let plan = Plan {
        mode: order.telemetry,
        files: Arc::clone(&daemon.files),
        worker: None,
        exec: Some(daemon.exec.clone()),
        extra: Vec::new(),
    };
    let sampling = match Sampling::start(plan, None) {
        Ok(sampling) => sampling,
        Err(why) => {
            tracing::warn!("the idle board is not watched: {why}");
            return Vec::new();
        }
    };
    daemon.live.begin_repeat(Some(sampling.latest()));
    tell(daemon, queued, "the idle board is watched", span);
    wait(span, cancel).await;
    daemon.live.end_repeat();
    sampling.finish().await
}

/// Lets the board recover for as long as the order asks, while it is watched.
pub(super) async fn after(daemon: &Daemon, queued: &Queued, cancel: &watch::Receiver<Cancel>) {
    let span = queued.order.preparation.watch_after;
    if span.0 > 0 {
        tell(
            daemon,
            queued,
            "the board is watched while it recovers",
            span,
        );
        wait(span, cancel).await;
    }
}

fn tell(daemon: &Daemon, queued: &Queued, what: &str, span: Nanos) {
    let text = format!("{what} for {:.0} s", span.as_secs_f64());
    let why = Failure::new(FailureCode::Busy, text);
    daemon.tell(queued.store, News::Event(Event::Waiting(why)));
}

/// Lets time pass, unless the repeat is cancelled meanwhile.
async fn wait(span: Nanos, cancel: &watch::Receiver<Cancel>) {
    let mut cancel = cancel.clone();
    let killed = cancel.wait_for(|cancel| *cancel == Cancel::Kill);
    let span = Duration::from_nanos(span.0.max(0) as u64);
    // An executor that is gone takes its repeat along.
    let _ = timeout(span, killed).await;
}

/// Samples of the idle board before those of the repeat, channel by channel. What the repeat does not
/// watch is left out.
pub(super) fn join(idle: Vec<Record>, repeat: Vec<Record>) -> Vec<Record> {
    let mut names = BTreeMap::new();
    let mut before: BTreeMap<String, Vec<Samples>> = BTreeMap::new();
    for record in idle {
        match record {
            Record::Channel(channel) => drop(names.insert(channel.id, channel.name)),
            Record::Samples(samples) => {
                if let Some(name) = names.get(&samples.channel) {
                    before.entry(name.clone()).or_default().push(samples);
                }
            }
            _ => {}
        }
    }
    let mut out = Vec::with_capacity(repeat.len());
    for record in repeat {
        let earlier = match &record {
            // The threads are others: what they used has no common beginning.
            Record::Channel(channel) if !channel.name.starts_with("sampler") => {
                let pieces = before.remove(&channel.name).unwrap_or_default();
                let renumbered = pieces.into_iter().map(|piece| Samples {
                    channel: channel.id,
                    ..piece
                });
                renumbered.collect()
            }
            _ => Vec::new(),
        };
        out.push(record);
        out.extend(earlier.into_iter().map(Record::Samples));
    }
    out
}

#[cfg(test)]
mod tests {
    use edgedyno_shared::device::Reading;
    use edgedyno_shared::telemetry::{Channel, ChannelKind, Fidelity};

    use super::*;

    fn channel(id: u16, name: &str) -> Record {
        Record::Channel(Channel {
            id,
            name: name.into(),
            unit: "microwatt".into(),
            kind: ChannelKind::Gauge,
            source: String::new(),
            native_period: None,
            fidelity: Fidelity::Measured,
            period: None,
            probe: Reading::Ok("1".into()),
        })
    }

    fn samples(channel: u16, at: i64) -> Record {
        Record::Samples(Samples {
            channel,
            at_ns: vec![at],
            value: vec![at],
            quality: vec![0],
        })
    }

    #[test]
    fn idle_samples_come_first_under_the_number_of_the_repeat() {
        let idle = vec![
            channel(0, "a"),
            samples(0, 1),
            channel(1, "sampler.cpu"),
            samples(1, 2),
            channel(2, "gone"),
            samples(2, 3),
        ];
        let repeat = vec![
            channel(0, "worker.cpu"),
            samples(0, 10),
            channel(1, "a"),
            samples(1, 11),
            channel(2, "sampler.cpu"),
        ];
        let joined = join(idle, repeat);
        assert_eq!(
            joined,
            [
                channel(0, "worker.cpu"),
                samples(0, 10),
                channel(1, "a"),
                samples(1, 1),
                samples(1, 11),
                channel(2, "sampler.cpu"),
            ]
        );
    }
}
