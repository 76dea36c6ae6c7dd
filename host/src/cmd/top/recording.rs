//! What `top` sees, kept as a run without trials: one repeat for every few minutes, so that a host that dies
//! loses no more than that.

use edgedyno_shared::case::ModelRef;
use edgedyno_shared::device::DeviceInfo;
use edgedyno_shared::ids::{RunId, Sha256};
use edgedyno_shared::order::{OrderKey, Pass};
use edgedyno_shared::repeat::{Outcome, RepeatEnd, RepeatStart};
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
    channels: Vec<(Channel, Samples)>,
}

impl Recording {
    /// Begins a run in the store.
    pub(super) fn begin(
        board: &str,
        device: &DeviceInfo,
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
        let known = self.channels.iter_mut();
        let mut known = known.filter(|(channel, _)| channel.name == now.channel.name);
        let samples = match known.next() {
            Some((_, samples)) => samples,
            None => {
                let channel = Channel {
                    id: self.channels.len() as u16,
                    ..now.channel.clone()
                };
                let samples = Samples {
                    channel: channel.id,
                    at_ns: Vec::new(),
                    value: Vec::new(),
                    quality: Vec::new(),
                };
                self.channels.push((channel, samples));
                let (_, samples) = self.channels.last_mut().expect("one was pushed");
                samples
            }
        };
        // A channel that is read more seldom than this looks is the same sample again.
        let Some(at) = now.at.filter(|at| samples.at_ns.last() != Some(&at.0)) else {
            return;
        };
        samples.at_ns.push(at.0);
        samples.value.push(now.value.unwrap_or(NOT_READ));
        let quality = match now.value {
            Some(_) => Quality::Ok,
            None => Quality::Absent,
        };
        samples.quality.push(quality.code());
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
        let stamps = channels.iter().flat_map(|(_, samples)| &samples.at_ns);
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
        let watched = channels
            .into_iter()
            .flat_map(|(channel, samples)| [Record::Channel(channel), Record::Samples(samples)]);
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
