//! Sources and series of one thread: what is due is read, what it costs is counted and bounded.
//!
//! No thread and no waiting in here; see [`Sampling`](super::Sampling).

use std::io;
use std::path::Path;
use std::sync::Arc;

use edgedyno_shared::device::Reading;
use edgedyno_shared::repeat::TextEvent;
use edgedyno_shared::telemetry::{
    Channel, ChannelKind, ChannelNow, Fidelity, Quality, TelemetryMode,
};
use edgedyno_shared::units::Nanos;
use edgedyno_shared::wire::record::Record;

use super::board::Board;
use super::fault::Fault;
use super::files::Files;
use super::journal::Journal;
use super::offer::{Found, Offer, Spec};
use super::pace::{Costs, Pace};
use super::series::{ROW_BYTES, Series};
use super::{SAMPLERS, Source};
use crate::clock::Clock;
use crate::worker::spawn::SelfExec;

/// What to watch during a repeat.
pub struct Plan {
    pub mode: TelemetryMode,
    pub files: Arc<dyn Files>,
    pub worker: Option<u32>,
    /// How this program starts another of itself, for what only a vendor's library gives.
    pub exec: Option<SelfExec>,
    /// Sources of the daemon's own, such as what stressors publish.
    pub extra: Vec<Found>,
}

impl Plan {
    /// Looks around on the board.
    pub fn find(&mut self) -> Vec<Found> {
        let board = Board {
            files: Arc::clone(&self.files),
            worker: self.worker,
            mode: self.mode,
            exec: self.exec.clone(),
        };
        let found = SAMPLERS.iter().flat_map(|sampler| sampler.find(&board));
        found.chain(std::mem::take(&mut self.extra)).collect()
    }
}

/// Room for the samples of a thread; pages of it are used only when a repeat gets that long.
const ROOM_BYTES: usize = 32 << 20;

/// There is room for no more than this.
const LONGEST: Nanos = Nanos::from_secs(4 * 3600);

/// The cost is looked at this often.
const COST_PERIOD: Nanos = Nanos::from_secs(2);

/// What is read so seldom, or more seldom, is read once more at the end.
const SELDOM: Nanos = Nanos::from_secs(1);

pub(super) static OWN_COST: &[Offer] = &[
    Offer {
        name: "sampler.cpu",
        unit: "ns",
        kind: ChannelKind::Counter,
        fidelity: Fidelity::Measured,
        native_period: None,
        source: "clock_gettime(CLOCK_THREAD_CPUTIME_ID)",
        rights: "any user",
        boards: "every board",
        meaning: "CPU time of the thread that reads all this; `sampler_slow.cpu` of the second, for what may wait. Above 0.5 % of a core together (fast: 1 %) whichever takes more than half of that reads half as often, until a minute was calm. What processes cost that are asked is in `sensor.NAME.cpu`.",
    },
    Offer {
        name: "sampler.late",
        unit: "ns",
        kind: ChannelKind::Gauge,
        fidelity: Fidelity::Measured,
        native_period: None,
        source: "clock_gettime(CLOCK_MONOTONIC)",
        rights: "any user",
        boards: "every board",
        meaning: "How much later than planned the latest round of reads began. Samples carry the time of their read, so lateness costs coverage, not truth.",
    },
];

struct Entry {
    source: Box<dyn Source>,
    first: usize,
    count: usize,
    period: Nanos,
    due: Nanos,
}

/// Sources with their samples.
pub struct Watch<C> {
    clock: C,
    cpu_time: fn() -> Nanos,
    entries: Vec<Entry>,
    channels: Vec<Channel>,
    series: Series,
    pace: Pace,
    /// CPU time and moment at the latest look at the cost, and CPU time of processes that are asked.
    looked: (Nanos, Nanos),
    asked: i64,
    /// Places of what processes cost that are asked, among the series.
    processes: Vec<usize>,
    /// Places of the own cost among the series.
    own: usize,
    /// Where samples go besides, while a repeat runs.
    journal: Option<Journal>,
    /// A channel got its name since that was asked last.
    has_new_names: bool,
    /// Why each channel had no value at the latest refresh.
    told: Vec<Option<Fault>>,
}

impl<C: Clock> Watch<C> {
    /// Makes all room and reads every source once. `cpu_time` is that of the thread that will read.
    /// `name` is what its own cost is called by.
    pub fn new(
        name: &str,
        found: Vec<Found>,
        mode: TelemetryMode,
        clock: C,
        cpu_time: fn() -> Nanos,
    ) -> Self {
        let now = clock.now();
        let channels = found.iter().map(Found::count).sum::<usize>() + OWN_COST.len();
        let mut watch = Self {
            cpu_time,
            entries: Vec::new(),
            channels: Vec::new(),
            series: Series::with_room(room_of(&found, mode), channels),
            pace: Pace::new(mode),
            looked: (Nanos::ZERO, Nanos::ZERO),
            asked: 0,
            processes: Vec::new(),
            own: 0,
            journal: None,
            has_new_names: false,
            told: Vec::new(),
            clock,
        };
        for found in found {
            watch.add(found, mode, now);
        }
        watch.own = watch.channels.len();
        for offer in OWN_COST {
            let own = offer.name.replacen("sampler", name, 1);
            let spec = offer.spec(own, offer.source);
            watch.put_channel(spec, Some(COST_PERIOD), Reading::Ok("0".into()));
        }
        let names = watch.channels.iter().map(|channel| &channel.name);
        let costs = names.enumerate().filter(|(_, name)| is_process_cost(name));
        watch.processes = costs.map(|(slot, _)| slot).collect();
        watch.looked = ((watch.cpu_time)(), watch.clock.now());
        watch
    }

    /// Has one budget with the other threads of a watch.
    pub(super) fn share(&mut self, costs: Arc<Costs>, place: usize) {
        self.pace.share(costs, place);
    }

    fn add(&mut self, found: Found, mode: TelemetryMode, now: Nanos) {
        let (tier, specs, source) = match found {
            Found::Missing(spec, why) => return self.put_channel(spec, None, why),
            Found::Source {
                tier,
                channels,
                source,
                ..
            } => (tier, channels, source),
        };
        let first = self.channels.len();
        let count = specs.len();
        let period = tier.period(mode);
        for spec in specs {
            let probe = Reading::Absent("not read".into());
            self.put_channel(spec, period, probe);
        }
        let mut entry = Entry {
            source,
            first,
            count,
            period: period.unwrap_or(Nanos::ZERO),
            due: now,
        };
        read(&self.clock, &mut self.series, None, &mut entry, true);
        self.has_new_names |= rename(&mut self.channels, &mut entry);
        let all = first..first + count;
        // What gives something when it likes has given nothing yet.
        let known = self.series.channels();
        let mut is_worth_it = all.clone().all(|at| known[at].last.is_none());
        for at in all {
            let last = known[at].last;
            let reading = last.map_or(Err(NOT_PUT), |(_, reading)| reading);
            let channel = &mut self.channels[at];
            is_worth_it |= last.is_some()
                && !matches!(
                    reading,
                    Err(Fault {
                        quality: Quality::Absent | Quality::Denied,
                        ..
                    })
                );
            channel.probe = match reading {
                Ok(value) => Reading::Ok(value.to_string()),
                Err(fault) => fault.reading(&channel.source),
            };
        }
        match period {
            Some(period) if is_worth_it => {
                entry.due = now + period;
                self.entries.push(entry);
            }
            _ => {
                let unread = &mut self.channels[first..];
                unread.iter_mut().for_each(|channel| channel.period = None);
            }
        }
    }

    fn put_channel(&mut self, spec: Spec, period: Option<Nanos>, probe: Reading) {
        self.channels.push(Channel {
            id: 0,
            name: spec.name,
            unit: spec.unit.into(),
            kind: spec.kind,
            source: spec.source,
            native_period: spec.native_period,
            fidelity: spec.fidelity,
            period,
            probe,
        });
        self.series.add();
    }

    /// When the next source is to be read; none when there is none.
    pub fn next_due(&self) -> Option<Nanos> {
        self.entries.iter().map(|entry| entry.due).min()
    }

    /// Reads all sources that are due. Allocates nothing.
    pub fn read_due(&mut self) {
        let now = self.clock.now();
        let mut late = Nanos::ZERO;
        for entry in self.entries.iter_mut().filter(|entry| entry.due <= now) {
            late = late.max(now - entry.due);
            let journal = self.journal.as_mut();
            read(&self.clock, &mut self.series, journal, entry, true);
            self.has_new_names |= rename(&mut self.channels, entry);
            let step = entry.period.0 * self.pace.stretch();
            // On the grid of its period; moments that were missed are left out, not caught up with.
            let missed = (now - entry.due).0 / step;
            entry.due = entry.due + Nanos(step * (missed + 1));
        }
        if now - self.looked.1 >= COST_PERIOD {
            self.look_at_cost(late);
        }
        if let Some(journal) = &mut self.journal {
            journal.flush_due(now);
        }
    }

    /// Reads what counts for the worker, off the grid of its periods: the window of its trials is over, and its
    /// figures end with it. A sum over a window that no read follows is not known to its end.
    pub fn read_worker(&mut self) {
        let channels = &self.channels;
        let of_worker = |entry: &&mut Entry| channels[entry.first].name.starts_with("worker.");
        for entry in self.entries.iter_mut().filter(of_worker) {
            let journal = self.journal.as_mut();
            read(&self.clock, &mut self.series, journal, entry, false);
        }
    }

    /// Reads once more what is read seldom: its counters would miss up to a period of what came last. What ended
    /// with the worker is no fault then.
    pub fn read_last(&mut self) {
        let stretch = self.pace.stretch();
        let seldom = |entry: &&mut Entry| entry.period.0 * stretch >= SELDOM.0;
        for entry in self.entries.iter_mut().filter(seldom) {
            let journal = self.journal.as_mut();
            read(&self.clock, &mut self.series, journal, entry, false);
            self.has_new_names |= rename(&mut self.channels, entry);
        }
    }

    /// Keeps all samples in a folder too, from those of the first read on: what is there when this process
    /// is killed can be read by the next.
    ///
    /// # Errors
    /// When the folder cannot be written.
    pub fn keep_in(&mut self, folder: &Path, place: usize, first: u16) -> io::Result<()> {
        let mut journal = Journal::begin(folder, place, self.channels.len())?;
        journal.tell(self.numbered(first))?;
        for (slot, known) in self.series.channels().iter().enumerate() {
            if let Some((at, reading)) = known.last {
                journal.push(slot, at, reading);
            }
        }
        self.journal = Some(journal);
        Ok(())
    }

    /// Whether a channel got its name since that was asked last. The journal, if any, is told.
    pub fn take_new_names(&mut self, first: u16) -> bool {
        let has = std::mem::take(&mut self.has_new_names);
        if let Some(journal) = self.journal.as_ref().filter(|_| has)
            && let Err(why) = journal.tell(self.numbered(first))
        {
            tracing::warn!("names of channels cannot be kept: {why}");
        }
        has
    }

    fn numbered(&self, first: u16) -> impl Iterator<Item = Channel> + '_ {
        let ids = (first..=u16::MAX).zip(self.channels.iter().zip(self.series.channels()));
        ids.map(|(id, (channel, known))| Channel {
            id,
            // What came later than the first read is a value all the same.
            probe: match (&channel.probe, known.first_good) {
                (Reading::Ok(_), _) | (_, None) => channel.probe.clone(),
                (_, Some(value)) => Reading::Ok(value.to_string()),
            },
            ..channel.clone()
        })
    }

    /// Notes what reading has cost so far: also at its beginning and its end, so that a repeat shorter than
    /// the period of the looks has a cost too.
    pub fn note_cost(&mut self) -> (Nanos, Nanos) {
        let (spent, now) = ((self.cpu_time)(), self.clock.now());
        self.note(self.own, now, spent.0);
        (spent, now)
    }

    /// Notes a figure of its own.
    fn note(&mut self, slot: usize, now: Nanos, value: i64) {
        self.series.push(slot, now, Ok(value));
        if let Some(journal) = &mut self.journal {
            journal.push(slot, now, Ok(value));
        }
    }

    fn look_at_cost(&mut self, late: Nanos) {
        let (spent, now) = self.note_cost();
        self.note(self.own + 1, now, late.0);
        let wall = (now - self.looked.1).0.max(1);
        let share = |spent: i64| spent.saturating_mul(1_000_000) / wall;
        let own = share((spent - self.looked.0).0);
        let asked = self.asked_so_far();
        let of_asked = share((asked - self.asked).max(0));
        self.looked = (spent, now);
        self.asked = asked;
        self.pace.look(now, own, of_asked);
    }

    /// CPU time that processes which are asked have used, as far as it is known.
    fn asked_so_far(&self) -> i64 {
        let known = self.series.channels();
        let last = |slot: &usize| known[*slot].last?.1.ok();
        self.processes.iter().filter_map(last).sum()
    }

    /// Channels and samples, numbered from `first`, and what is to be told of them.
    pub fn records(&self, first: u16) -> Vec<Record> {
        let mut records = Vec::new();
        let room = usize::from(u16::MAX - first);
        let left_out = self.channels.len().saturating_sub(room);
        let columns = self.series.by_channel();
        let kept_one_in = self.series.kept_one_in();
        let told = self.numbered(first).zip(self.series.channels());
        let told = told.zip(columns).take(room);
        for ((channel, known), column) in told.filter(|((channel, _), _)| is_named(channel)) {
            let id = channel.id;
            // Behind the channel's own record, so that a reader knows what it is given.
            let lost = known.lost.filter(|(_, fault, _)| !fault.is_gone());
            let told = lost.map(|(at, fault, times)| {
                let text = format!(
                    "{} gave no value from {} ns on ({}: {}), {times} times in all",
                    channel.name,
                    at.0,
                    fault.quality.name(),
                    fault.text()
                );
                event("channel_lost", text)
            });
            records.push(Record::Channel(channel));
            records.extend(column.pieces(id).map(Record::Samples));
            records.extend(told);
        }
        if kept_one_in > 1 {
            let text = format!("one in {kept_one_in} samples of each channel kept");
            records.push(event("telemetry_thinned", text));
        }
        records.extend(self.pace.told().map(|(code, text)| event(code, text)));
        if left_out > 0 {
            let text = format!("{left_out} channels beyond what can be numbered");
            records.push(event("channels_left_out", text));
        }
        records
    }

    /// Channels with what the newest read of each gave.
    pub fn latest(&self) -> impl Iterator<Item = (&Channel, Option<Result<i64, Fault>>)> {
        let known = self.series.channels().iter();
        let last = known.map(|known| Some(known.last?.1));
        let all = self.channels.iter().zip(last);
        all.filter(|(channel, _)| is_named(channel))
    }

    /// The same, to be kept.
    pub fn snapshot(&self, first: u16) -> Vec<ChannelNow> {
        let all = self.numbered(first).zip(self.series.channels());
        let now = all.filter(|(channel, _)| is_named(channel));
        let now = now.map(|(channel, known)| ChannelNow {
            at: known.last.map(|(at, _)| at),
            value: known.last.and_then(|(_, reading)| reading.ok()),
            fault: fault_of(known.last).map(|fault| fault.reading(&channel.source)),
            channel,
        });
        now.collect()
    }

    /// Brings a snapshot of this watch up to date. Allocates only where a channel has another reason than before
    /// to have no value.
    pub fn refresh(&mut self, snapshot: &mut [ChannelNow]) {
        self.told.resize(self.channels.len(), None);
        let all = self.channels.iter().zip(self.series.channels());
        let all = all.zip(&mut self.told);
        let named = all.filter(|((channel, _), _)| is_named(channel));
        for (now, ((channel, known), told)) in snapshot.iter_mut().zip(named) {
            now.at = known.last.map(|(at, _)| at);
            now.value = known.last.and_then(|(_, reading)| reading.ok());
            let fault = fault_of(known.last);
            if fault != *told || fault.is_some() != now.fault.is_some() {
                now.fault = fault.map(|fault| fault.reading(&channel.source));
                *told = fault;
            }
        }
    }

    /// How many channels there are.
    pub fn channels(&self) -> usize {
        self.channels.len()
    }
}

const NOT_PUT: Fault = Fault::absent("nothing came yet");

/// Why the newest read gave nothing.
fn fault_of(last: Option<(Nanos, Result<i64, Fault>)>) -> Option<Fault> {
    last.and_then(|(_, reading)| reading.err())
}

fn read(
    clock: &dyn Clock,
    series: &mut Series,
    journal: Option<&mut Journal>,
    entry: &mut Entry,
    takes_faults: bool,
) {
    let mut readings = Readings {
        clock,
        series,
        first: entry.first,
        count: entry.count,
        journal,
        takes_faults,
        at: Nanos::ZERO,
    };
    entry.source.read(&mut readings);
}

/// Gives channels the names that their source found out.
fn rename(channels: &mut [Channel], entry: &mut Entry) -> bool {
    let mut has = false;
    while let Some((slot, name)) = entry.source.new_name() {
        if let Some(channel) = channels.get_mut(entry.first + slot) {
            channel.name = name.into();
            has = true;
        }
    }
    has
}

/// `sensor.NAME.cpu`: CPU time of a process of its own that tells something.
fn is_process_cost(name: &str) -> bool {
    name.starts_with("sensor.") && name.ends_with(".cpu")
}

/// A channel without a name is room for one that may come.
fn is_named(channel: &Channel) -> bool {
    !channel.name.is_empty()
}

/// Where a source puts what it read.
pub struct Readings<'a> {
    clock: &'a dyn Clock,
    series: &'a mut Series,
    first: usize,
    count: usize,
    journal: Option<&'a mut Journal>,
    takes_faults: bool,
    at: Nanos,
}

impl Readings<'_> {
    pub fn now(&self) -> Nanos {
        self.clock.now()
    }

    /// Does a read; values put afterwards carry the middle of its time.
    pub fn timed<T>(&mut self, read: impl FnOnce() -> T) -> T {
        let before = self.clock.now();
        let got = read();
        let after = self.clock.now();
        self.at = Nanos(before.0 + (after - before).0 / 2);
        got
    }

    /// The same of a value that was read at another moment, by somebody else.
    pub fn at(&mut self, at: Nanos) {
        self.at = at;
    }

    /// The value of a source's channel, counted from 0.
    pub fn put(&mut self, slot: usize, value: Result<i64, Fault>) {
        if slot < self.count && (self.takes_faults || value.is_ok()) {
            self.series.push(self.first + slot, self.at, value);
            if let Some(journal) = &mut self.journal {
                journal.push(self.first + slot, self.at, value);
            }
        }
    }

    /// No channel of the source has a value.
    pub fn put_all(&mut self, fault: Fault) {
        for slot in 0..self.count {
            self.put(slot, Err(fault));
        }
    }
}

/// Samples that there is room for.
fn room_of(found: &[Found], mode: TelemetryMode) -> usize {
    let samples = |found: &Found| match found {
        Found::Missing(..) => 0,
        Found::Source { tier, channels, .. } => tier
            .period(mode)
            .map_or(0, |period| channels.len() * (LONGEST.0 / period.0) as usize),
    };
    let own = OWN_COST.len() * (LONGEST.0 / COST_PERIOD.0) as usize;
    let all = found.iter().map(samples).sum::<usize>() + own;
    all.min(ROOM_BYTES / ROW_BYTES)
}

fn event(code: &str, text: String) -> Record {
    Record::Event(TextEvent {
        lane: 0,
        trial: None,
        code: code.into(),
        text,
    })
}
