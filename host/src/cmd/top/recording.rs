//! What `top` sees, kept as a run without trials: one repeat for every few minutes, so that a host that dies
//! loses no more than that.

use std::time::Duration;

use edgedyno_shared::case::ModelRef;
use edgedyno_shared::device::{DeviceInfo, Reading};
use edgedyno_shared::ids::{RunId, Sha256};
use edgedyno_shared::order::{OrderKey, Pass};
use edgedyno_shared::repeat::{Outcome, RepeatEnd, RepeatStart, TextEvent};
use edgedyno_shared::telemetry::{Channel, ChannelNow, NOT_READ, Quality, Samples, Watched};
use edgedyno_shared::units::Nanos;
use edgedyno_shared::wire::hello::schema_hash;
use edgedyno_shared::wire::record::{Record, SegmentHeader};
use serde_json::json;

use crate::cli::Global;
use crate::clock;
use crate::cmd::open_for_writing;
use crate::cmd::run::execute::new_run;
use crate::exit::CommandError;
use crate::options::rules;
use crate::plan::axes::{case_key, match_key};
use crate::plan::plain;
use crate::store::rows::{RulesRow, RunStatus};
use crate::store::{FirstRows, NewCase, Store};

/// Rounds of one repeat.
const ROUNDS: usize = 300;

/// The backend of a case that measures nothing.
const BACKEND: &str = "watch";

/// A recording that goes on.
pub(super) struct Recording {
    store: Store,
    run: RunId,
    case: Sha256,
    device: DeviceInfo,
    repeat: u32,
    began_unix_ns: i64,
    rounds: usize,
    all_rounds: usize,
    every: Nanos,
    channels: Vec<Recorded>,
}

/// A channel of the repeat that is being taken in.
struct Recorded {
    channel: Channel,
    samples: Samples,
    /// When it first stopped giving values, why, and how often it did.
    lost: Option<(Nanos, Reading, u32)>,
}

impl Recording {
    /// Begins a run in the store.
    pub(super) fn begin(
        board: &str,
        device: &DeviceInfo,
        every: Duration,
        global: &Global,
    ) -> Result<Self, CommandError> {
        let store = open_for_writing(global)?;
        let model = ModelRef {
            name: "the board".into(),
            sha256: Sha256([0; 32]),
        };
        let case = plain::case(board, &model, BACKEND);
        let conduct = plain::conduct(1, rules::RuleOptions::usual().rules(), 1);
        let (limits, cold) = (&conduct.limits, conduct.cold);
        let rules = RulesRow::new(None, &conduct.rules, limits, cold, &conduct.outputs);
        let new = NewCase {
            key: case_key(&case),
            match_key: match_key(&case),
            case: &case,
            rules: rules.watched(conduct.telemetry),
        };
        let key = new.key;
        let first = FirstRows {
            cases: vec![new],
            devices: vec![(board, device)],
            findings: Vec::new(),
        };
        let run = new_run(&store, "top", &[], json!({ "board": board }), &first)?;
        Ok(Self {
            store,
            run,
            case: key,
            device: device.clone(),
            repeat: 0,
            began_unix_ns: clock::unix_ns(),
            rounds: 0,
            all_rounds: 0,
            every: Nanos(every.as_nanos().try_into().unwrap_or(i64::MAX)),
            channels: Vec::new(),
        })
    }

    /// The run, and rounds taken so far.
    pub(super) fn state(&self) -> (String, usize) {
        (self.run.0.clone(), self.all_rounds)
    }

    /// Takes in what the board does now.
    pub(super) fn take(&mut self, watched: &Watched) -> Result<(), CommandError> {
        watched.channels.iter().for_each(|now| self.push(now));
        self.rounds += 1;
        self.all_rounds += 1;
        match self.rounds >= ROUNDS {
            true => self.flush(),
            false => Ok(()),
        }
    }

    fn push(&mut self, now: &ChannelNow) {
        let known = self.channels.iter();
        let mut known = known.map(|one| &one.channel.name);
        let place = match known.position(|name| *name == now.channel.name) {
            Some(place) => place,
            None => {
                let id = self.channels.len() as u16;
                self.channels.push(Recorded::begin(id, now, self.every));
                self.channels.len() - 1
            }
        };
        self.channels[place].take(now);
    }

    /// Writes what was taken as a repeat.
    fn flush(&mut self) -> Result<(), CommandError> {
        let channels = std::mem::take(&mut self.channels);
        let header = SegmentHeader {
            schema: schema_hash(),
            store: self.store.id(),
            boot: self.device.boot,
            segment: u64::from(self.repeat),
            key: OrderKey {
                run: self.run.clone(),
                case: self.case,
                repeat: self.repeat,
                attempt: 0,
                pass: Pass::Honest,
            },
        };
        let stamps = channels.iter().flat_map(|one| &one.samples.at_ns);
        let (first, last) = (stamps.clone().min(), stamps.max());
        let moment = |at: Option<&i64>| Nanos(at.copied().unwrap_or_default());
        let (first, last) = (moment(first), moment(last));
        let start = Record::Start(RepeatStart {
            build: self.device.build.clone(),
            wall_unix_ns: self.began_unix_ns,
            mono: first,
            environment: self.device.facts.clone(),
        });
        let end = Record::End(RepeatEnd {
            outcome: Outcome::Complete,
            wall_unix_ns: clock::unix_ns(),
            mono: last,
            environment: self.device.facts.clone(),
            trials: 0,
            chunks: 0,
        });
        let watched = channels.into_iter().flat_map(Recorded::records);
        let records = std::iter::once(start).chain(watched).chain([end]);
        let mut segment = self.store.segment(&header)?;
        for (record, sequence) in records.zip(0..) {
            let frame = record.to_frame(sequence).map_err(anyhow::Error::from)?;
            segment.record(&frame.payload)?;
        }
        segment.commit()?;
        self.repeat += 1;
        self.rounds = 0;
        self.began_unix_ns = clock::unix_ns();
        Ok(())
    }

    /// Ends it; the run can be read then.
    pub(super) fn finish(mut self) -> Result<String, CommandError> {
        if self.rounds > 0 {
            self.flush()?;
        }
        self.store.set_run_status(&self.run, RunStatus::Complete)?;
        Ok(self.run.0)
    }
}

impl Recorded {
    /// A channel as it is seen by rounds that are so far apart: no more often than that, whatever its board does.
    fn begin(id: u16, now: &ChannelNow, every: Nanos) -> Self {
        let channel = Channel {
            id,
            period: now.channel.period.map(|period| period.max(every)),
            ..now.channel.clone()
        };
        let samples = Samples {
            channel: id,
            at_ns: Vec::new(),
            value: Vec::new(),
            quality: Vec::new(),
        };
        Self {
            channel,
            samples,
            lost: None,
        }
    }

    fn take(&mut self, now: &ChannelNow) {
        let samples = &mut self.samples;
        // A channel that is read more seldom than this looks is the same sample again.
        let Some(at) = now.at.filter(|at| samples.at_ns.last() != Some(&at.0)) else {
            return;
        };
        let had_value = samples.quality.last() == Some(&Quality::Ok.code());
        let quality = match (now.value, now.missing()) {
            (Some(_), _) => Quality::Ok,
            (None, Some(fault)) => {
                if had_value {
                    let (_, _, times) = self.lost.get_or_insert((at, fault.clone(), 0));
                    *times += 1;
                }
                Quality::of(fault)
            }
            (None, None) => Quality::Absent,
        };
        samples.at_ns.push(at.0);
        samples.value.push(now.value.unwrap_or(NOT_READ));
        samples.quality.push(quality.code());
    }

    /// As an agent tells it of a repeat.
    fn records(self) -> impl Iterator<Item = Record> {
        let name = &self.channel.name;
        let lost = self.lost.map(|(at, fault, times)| {
            let text = format!(
                "{name} gave no value from {} ns on ({}: {}), {times} times in all",
                at.0,
                fault.state(),
                fault.reason().unwrap_or_default()
            );
            Record::Event(TextEvent {
                lane: 0,
                trial: None,
                code: "channel_lost".into(),
                text,
            })
        });
        let own = [Record::Channel(self.channel), Record::Samples(self.samples)];
        own.into_iter().chain(lost)
    }
}

#[cfg(test)]
mod tests {
    use edgedyno_shared::telemetry::{ChannelKind, Fidelity};

    use super::*;

    fn now(at_ms: i64, read: Result<i64, Reading>) -> ChannelNow {
        ChannelNow {
            channel: Channel {
                id: 7,
                name: "npu.0.load".into(),
                unit: "ppm".into(),
                kind: ChannelKind::Gauge,
                source: "/a/file".into(),
                native_period: None,
                fidelity: Fidelity::DriverAveraged,
                period: Some(Nanos::from_millis(100)),
                probe: Reading::Ok("1".into()),
            },
            at: Some(Nanos::from_millis(at_ms)),
            value: read.clone().ok(),
            fault: read.err(),
        }
    }

    #[test]
    fn what_is_lost_keeps_its_state_and_its_reason() {
        let busy = || Reading::Busy("/a/file: another has it".into());
        let denied = || Reading::Denied("/a/file: refused".into());
        let reads = [
            (0, Ok(5)),
            (100, Err(busy())),
            (200, Err(denied())),
            (200, Err(denied())),
            (300, Ok(6)),
            (400, Err(denied())),
        ];
        let mut recorded = Recorded::begin(3, &now(0, Ok(5)), Nanos::from_millis(500));
        reads
            .into_iter()
            .for_each(|(at, read)| recorded.take(&now(at, read)));
        let records: Vec<Record> = recorded.records().collect();
        let [
            Record::Channel(channel),
            Record::Samples(samples),
            Record::Event(event),
        ] = records.as_slice()
        else {
            panic!("a channel, its samples, and what was lost: {records:?}");
        };
        assert_eq!((channel.id, samples.channel), (3, 3));
        assert_eq!(
            channel.period,
            Some(Nanos::from_millis(500)),
            "that of the rounds"
        );
        assert_eq!(samples.value, [5, NOT_READ, NOT_READ, 6, NOT_READ]);
        let states = samples
            .quality
            .iter()
            .filter_map(|code| Quality::from_code(*code));
        let states: Vec<&str> = states.map(Quality::name).collect();
        assert_eq!(states, ["ok", "busy", "denied", "ok", "denied"]);
        assert_eq!(event.code, "channel_lost");
        let expected = "npu.0.load gave no value from 100000000 ns on (busy: /a/file: another has it), 2 times in all";
        assert_eq!(event.text, expected);
    }

    #[test]
    fn a_channel_that_is_read_more_seldom_than_the_rounds_keeps_its_own_period() {
        let mut slow = now(0, Ok(1));
        slow.channel.period = Some(Nanos::from_secs(1));
        let recorded = Recorded::begin(0, &slow, Nanos::from_millis(300));
        assert_eq!(recorded.channel.period, Some(Nanos::from_secs(1)));
        slow.channel.period = None;
        let once = Recorded::begin(0, &slow, Nanos::from_millis(300));
        assert_eq!(once.channel.period, None, "read once is read once");
    }
}
