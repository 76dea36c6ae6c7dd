//! The watch itself: its grid, its budget, its records, and every sampler on a board that has nothing.

use std::cell::Cell;
use std::collections::BTreeSet;
use std::io;
use std::sync::Arc;

use edgedyno_shared::device::Reading;
use edgedyno_shared::telemetry::{NOT_READ, Quality, TelemetryMode};
use edgedyno_shared::units::Nanos;
use edgedyno_shared::wire::record::Record;
use nix::errno::Errno;

use super::files::{Files, Numbers, ReadAt, Root};
use super::testing::{Tree, Turning};
use super::*;

/// A counter that rises by one at each read.
struct Rising(i64);

impl Source for Rising {
    fn read(&mut self, out: &mut Readings<'_>) {
        self.0 += 1;
        let value = out.timed(|| self.0);
        out.put(0, Ok(value));
    }
}

fn rising(tier: Tier) -> Found {
    let offer = &cpu::Cpu.offers()[0];
    Found::new(tier, vec![offer.spec("test.count", "nowhere")], Rising(0))
}

fn samples(records: &[Record], name: &str) -> Vec<(i64, i64)> {
    let id = records.iter().find_map(|record| match record {
        Record::Channel(channel) if channel.name == name => Some(channel.id),
        _ => None,
    });
    let pieces = records.iter().filter_map(|record| match record {
        Record::Samples(samples) if Some(samples.channel) == id => Some(samples),
        _ => None,
    });
    pieces
        .flat_map(|piece| piece.at_ns.iter().copied().zip(piece.value.iter().copied()))
        .collect()
}

fn events(records: &[Record], code: &str) -> usize {
    let of_code = |record: &&Record| matches!(record, Record::Event(event) if event.code == code);
    records.iter().filter(of_code).count()
}

#[test]
fn each_tier_is_read_on_its_own_grid_and_missed_moments_are_not_made_up() {
    let clock = Turning::default();
    let found = vec![rising(Tier::Normal)];
    let free = || Nanos::ZERO;
    let mut watch = Watch::new("sampler", found, TelemetryMode::Normal, clock.clone(), free);
    assert_eq!(watch.next_due(), Some(Nanos::from_millis(100)));
    for wait in [100, 130, 20, 270, 80] {
        clock.by(Nanos::from_millis(wait));
        watch.read_due();
    }
    let at: Vec<i64> = samples(&watch.records(0), "test.count")
        .iter()
        .map(|(at, _)| at / 1_000_000)
        .collect();
    // 250 ms is no moment of its own: the read of 200 came at 230.
    assert_eq!(at, [0, 100, 230, 520, 600]);
}

#[test]
fn files_that_are_dear_to_read_are_read_once_a_second_but_in_the_fast_mode() {
    let tree = Tree::with(&[
        ("proc/meminfo", "MemAvailable: 1 kB\n"),
        ("proc/pressure/cpu", "some total=1\n"),
    ]);
    for (mode, period) in [(TelemetryMode::Normal, 1000), (TelemetryMode::Fast, 100)] {
        for sampler in [&memory::Memory as &dyn Sampler, &pressure::Pressure] {
            let found = sampler.find(&tree.board());
            let watch = Watch::new("s", found, mode, Turning::default(), || Nanos::ZERO);
            let due = watch.next_due();
            assert_eq!(due, Some(Nanos::from_millis(period)), "{}", sampler.name());
        }
    }
}

#[test]
fn a_mode_decides_how_often_what_moves_fast_is_read() {
    for (mode, period) in [(TelemetryMode::Normal, 100), (TelemetryMode::Fast, 10)] {
        let found = vec![rising(Tier::Fast)];
        let watch = Watch::new("s", found, mode, Turning::default(), || Nanos::ZERO);
        assert_eq!(watch.next_due(), Some(Nanos::from_millis(period)));
    }
}

thread_local! {
    static SPENT: Cell<i64> = const { Cell::new(0) };
}

#[test]
fn a_sampler_over_its_budget_reads_half_as_often_and_says_so() {
    let clock = Turning::default();
    let spent = || Nanos(SPENT.get());
    let found = vec![rising(Tier::Normal)];
    let mut watch = Watch::new(
        "sampler",
        found,
        TelemetryMode::Normal,
        clock.clone(),
        spent,
    );
    // 1 % of a core, twice what is allowed.
    for _ in 0..25 {
        clock.by(Nanos::from_millis(100));
        SPENT.set(SPENT.get() + 1_000_000);
        watch.read_due();
    }
    let records = watch.records(0);
    assert_eq!(events(&records, "sampler_slowed"), 1);
    let at: Vec<i64> = samples(&records, "test.count")
        .iter()
        .map(|(at, _)| at / 1_000_000)
        .collect();
    assert_eq!(at[at.len() - 3..], [2100, 2300, 2500]);
    let own = samples(&records, "sampler.cpu");
    assert_eq!(own, [(2_000_000_000, 20_000_000)]);
}

/// A counter of a process that ends after its second read.
struct Ending(i64);

impl Source for Ending {
    fn read(&mut self, out: &mut Readings<'_>) {
        self.0 += 1;
        let value = out.timed(|| self.0);
        let gone = Fault::absent("gone");
        out.put(0, if value > 2 { Err(gone) } else { Ok(value) });
    }
}

#[test]
fn what_is_read_seldom_is_read_once_more_at_the_end_if_it_is_there_still() {
    let clock = Turning::default();
    let offer = &cpu::Cpu.offers()[0];
    let named = |name: &str| vec![offer.spec(name, "nowhere")];
    let found = vec![
        Found::new(Tier::Slow, named("slow"), Rising(0)),
        Found::new(Tier::Slow, named("ending"), Ending(0)),
        Found::new(Tier::Normal, named("normal"), Rising(0)),
    ];
    let free = || Nanos::ZERO;
    let mut watch = Watch::new("s", found, TelemetryMode::Normal, clock.clone(), free);
    clock.by(Nanos::from_millis(1500));
    watch.read_due();
    clock.by(Nanos::from_millis(30));
    watch.read_last();
    let records = watch.records(0);
    let at = |name: &str| -> Vec<i64> {
        let samples = samples(&records, name);
        samples.iter().map(|(at, _)| at / 1_000_000).collect()
    };
    assert_eq!(at("slow"), [0, 1500, 1530]);
    assert_eq!(at("ending"), [0, 1500]);
    assert_eq!(at("normal"), [0, 1500]);
    assert_eq!(events(&records, "channel_lost"), 0);
}

#[test]
fn what_processes_cost_that_are_asked_is_told_where_it_is_more_than_all_reading_may() {
    // A millisecond each tenth of a second is 1 % of a core.
    struct Dear(i64);
    impl Source for Dear {
        fn read(&mut self, out: &mut Readings<'_>) {
            self.0 += 1_000_000;
            let value = out.timed(|| self.0);
            out.put(0, Ok(value));
        }
    }
    let clock = Turning::default();
    let offer = &cpu::Cpu.offers()[0];
    let specs = vec![offer.spec("sensor.tool.cpu", "nowhere")];
    let found = vec![Found::new(Tier::Normal, specs, Dear(0))];
    let free = || Nanos::ZERO;
    let mut watch = Watch::new("s", found, TelemetryMode::Normal, clock.clone(), free);
    for _ in 0..100 {
        clock.by(Nanos::from_millis(100));
        watch.read_due();
    }
    let records = watch.records(0);
    assert_eq!(events(&records, "sensor_dear"), 1);
    assert_eq!(events(&records, "sampler_slowed"), 0);
}

#[test]
fn a_snapshot_says_why_a_channel_has_no_value_now() {
    struct Scripted(Vec<Result<i64, Fault>>);
    impl Source for Scripted {
        fn read(&mut self, out: &mut Readings<'_>) {
            let value = out.timed(|| self.0.remove(0));
            out.put(0, value);
        }
    }
    let denied = Fault::new(Quality::Denied, "refused");
    let busy = Fault::new(Quality::Busy, "another has it");
    let script = vec![Ok(1), Err(busy), Err(busy), Err(denied), Ok(2), Err(busy)];
    let specs = vec![cpu::Cpu.offers()[0].spec("test.count", "/a/file")];
    let found = vec![Found::new(Tier::Normal, specs, Scripted(script))];
    let clock = Turning::default();
    let free = || Nanos::ZERO;
    let mut watch = Watch::new("s", found, TelemetryMode::Normal, clock.clone(), free);
    let mut kept = watch.snapshot(0);
    let mut seen = vec![(kept[0].value, kept[0].missing().cloned())];
    for _ in 0..5 {
        clock.by(Nanos::from_millis(100));
        watch.read_due();
        watch.refresh(&mut kept);
        // A new snapshot and one that is kept up to date say the same.
        assert_eq!(kept[0], watch.snapshot(0)[0]);
        seen.push((kept[0].value, kept[0].missing().cloned()));
    }
    let busy = Some(Reading::Busy("/a/file: another has it".into()));
    let denied = Some(Reading::Denied("/a/file: refused".into()));
    let expected = [
        (Some(1), None),
        (None, busy.clone()),
        (None, busy.clone()),
        (None, denied),
        (Some(2), None),
        (None, busy),
    ];
    assert_eq!(seen, expected);
}

#[test]
fn channels_are_numbered_from_where_they_are_told() {
    let found = vec![rising(Tier::Once), rising(Tier::Normal)];
    let watch = Watch::new(
        "s",
        found,
        TelemetryMode::Normal,
        Turning::default(),
        || Nanos::ZERO,
    );
    let ids: Vec<u16> = watch
        .records(40)
        .iter()
        .filter_map(|record| match record {
            Record::Channel(channel) => Some(channel.id),
            _ => None,
        })
        .collect();
    assert_eq!(ids, [40, 41, 42, 43]);
    assert_eq!(
        samples(&watch.records(0), "test.count").len(),
        1,
        "once is once"
    );
}

/// A board all of whose files fail alike.
struct Failing {
    tree: Root,
    at_open: Option<Errno>,
    at_read: Answer,
}

#[derive(Clone, Copy)]
enum Answer {
    Errno(Errno),
    Text(&'static str),
    /// A byte at a time.
    Short(&'static str),
}

impl Files for Failing {
    fn open(&self, path: &str) -> io::Result<Box<dyn ReadAt>> {
        // What is not there stays so.
        self.tree.open(path)?;
        match self.at_open {
            Some(errno) => Err(errno.into()),
            None => Ok(Box::new(self.at_read)),
        }
    }

    fn list(&self, folder: &str) -> io::Result<Vec<String>> {
        self.tree.list(folder)
    }

    fn numbers(&self, folder: &str) -> io::Result<Box<dyn Numbers>> {
        self.tree.numbers(folder)
    }
}

impl ReadAt for Answer {
    fn read_at(&mut self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        let (text, most) = match *self {
            Self::Errno(errno) => return Err(errno.into()),
            Self::Text(text) => (text, usize::MAX),
            Self::Short(text) => (text, 1),
        };
        let rest = &text.as_bytes()[(offset as usize).min(text.len())..];
        let count = rest.len().min(buffer.len()).min(most);
        buffer[..count].copy_from_slice(&rest[..count]);
        Ok(count)
    }
}

/// A little of everything.
fn rich() -> Tree {
    Tree::with(&[
        ("proc/stat", "cpu0 1 2 3 4 5 6 7 8\n"),
        ("proc/meminfo", "MemAvailable: 1 kB\n"),
        ("proc/vmstat", "pswpin 1\n"),
        ("proc/pressure/cpu", "some total=1\n"),
        ("proc/42/stat", "42 (x) R\n"),
        ("proc/42/status", "x\n"),
        ("proc/42/task/42/schedstat", "1 2 3\n"),
        (
            "sys/devices/system/cpu/cpufreq/policy0/scaling_cur_freq",
            "1\n",
        ),
        (
            "sys/devices/system/cpu/cpu0/thermal_throttle/core_throttle_count",
            "1\n",
        ),
        ("sys/class/thermal/thermal_zone0/temp", "1\n"),
        ("sys/class/thermal/cooling_device0/cur_state", "1\n"),
        ("sys/class/hwmon/hwmon0/name", "ina3221\n"),
        ("sys/class/hwmon/hwmon0/temp1_input", "1\n"),
        ("sys/class/hwmon/hwmon0/curr1_input", "1\n"),
        ("sys/class/powercap/intel-rapl:0/energy_uj", "1\n"),
        ("sys/class/devfreq/dmc/cur_freq", "1\n"),
        ("sys/class/devfreq/dmc/load", "1@1Hz\n"),
        ("sys/class/devfreq/dmc/trans_stat", "Total transition : 1\n"),
        ("proc/pressure/irq", "full total=1\n"),
        ("proc/rknpu/load", "NPU load:  1%\n"),
        ("sys/devices/system/bpu/bpu0/ratio", "1\n"),
        ("sys/devices/system/bpu/bpu0/fc_time", "index\n"),
        ("sys/class/apex/apex_0/temp", "1\n"),
        ("sys/class/accel/accel0/device/npu_busy_time_us", "1\n"),
        ("sys/kernel/actmon_avg_activity/mc_all", "1\n"),
        ("sys/devices/gpu.0/load", "1\n"),
        (
            "sys/devices/platform/soc/soc:firmware/get_throttled",
            "zz\n",
        ),
        ("sys/bus/iio/devices/iio:device0/rail_name_0", "VDD\n"),
        ("sys/bus/iio/devices/iio:device0/in_voltage0_input", "1\n"),
        ("sys/bus/iio/devices/iio:device0/in_current0_input", "1\n"),
        ("sys/fs/resctrl/mon_data/mon_L3_00/mbm_total_bytes", "1\n"),
    ])
}

/// Probes of all channels of the rich board when its files answer so.
fn probes(at_open: Option<Errno>, at_read: Answer) -> Vec<(String, Reading)> {
    let tree = rich();
    let files = Failing {
        tree: tree.root(),
        at_open,
        at_read,
    };
    let mut plan = Plan {
        mode: TelemetryMode::Normal,
        files: Arc::new(files),
        worker: Some(42),
        exec: None,
        extra: Vec::new(),
    };
    let found = plan.find();
    let watch = Watch::new("s", found, plan.mode, Turning::default(), || Nanos::ZERO);
    let records = watch.records(0).into_iter();
    records
        .filter_map(|record| match record {
            Record::Channel(channel) if !channel.name.starts_with("s.") => {
                Some((channel.name, channel.probe))
            }
            _ => None,
        })
        .collect()
}

#[test]
fn what_a_file_answers_is_the_state_of_its_channels() {
    for (errno, state) in [
        (Errno::EACCES, "denied"),
        (Errno::EPERM, "denied"),
        (Errno::EBUSY, "busy"),
        (Errno::EAGAIN, "busy"),
        (Errno::EINVAL, "absent"),
        (Errno::EIO, "absent"),
    ] {
        let all = probes(None, Answer::Errno(errno));
        let of_state = all.iter().filter(|(_, probe)| probe.state() == state);
        assert!(of_state.count() > 5, "{errno}: {all:?}");
        for (name, probe) in all {
            assert_eq!(probe.value(), None, "{errno}: {name}");
            assert!(!probe.reason().unwrap().is_empty(), "{errno}: {name}");
        }
    }
    let denied = probes(Some(Errno::EACCES), Answer::Text(""));
    let thermal = denied.iter().find(|(name, _)| name.starts_with("therm"));
    assert_eq!(thermal.unwrap().1.state(), "denied");
}

#[test]
fn blank_absurd_and_endless_files_give_no_value() {
    let endless: &'static str = Box::leak("x".repeat(1 << 20).into_boxed_str());
    for text in [
        "",
        "\n",
        "nonsense\n",
        "99999999999999999999999\n",
        "\0\0\0",
        endless,
    ] {
        for (name, probe) in probes(None, Answer::Text(text)) {
            assert_eq!(probe.value(), None, "{text:.20}: {name}");
        }
    }
}

#[test]
fn a_file_that_comes_in_pieces_is_read_whole() {
    let all = probes(None, Answer::Short("41000\n"));
    let thermal = all
        .iter()
        .find(|(name, _)| name.starts_with("therm"))
        .unwrap();
    assert_eq!(thermal.1, Reading::Ok("41000".into()));
}

/// A text handed out as the kernel does it: whole lines, nearly a page at a time.
struct Paged(String);

impl ReadAt for Paged {
    fn read_at(&mut self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        let rest = &self.0.as_bytes()[offset as usize..];
        let page = &rest[..rest.len().min(4096)];
        let whole = page
            .iter()
            .rposition(|byte| *byte == b'\n')
            .map_or(0, |at| at + 1);
        buffer[..whole].copy_from_slice(&page[..whole]);
        Ok(whole)
    }
}

#[test]
fn a_long_file_is_read_to_its_end() {
    struct One;
    impl Files for One {
        fn open(&self, _: &str) -> io::Result<Box<dyn ReadAt>> {
            let lines = (0..500).map(|i| format!("counter_{i} {i}\n"));
            Ok(Box::new(Paged(lines.collect())))
        }
        fn list(&self, _: &str) -> io::Result<Vec<String>> {
            Ok(Vec::new())
        }
        fn numbers(&self, _: &str) -> io::Result<Box<dyn Numbers>> {
            Err(Errno::ENOENT.into())
        }
    }
    let mut kept = files::Kept::open(&One, "any", 32 << 10);
    let text = kept.text().unwrap();
    assert_eq!(text::figure(text, b"counter_499 "), Ok(499));
}

#[test]
fn a_board_with_nothing_names_what_is_missing() {
    let tree = Tree::with(&[]);
    for sampler in SAMPLERS {
        let found = sampler.find(&tree.board());
        assert!(!found.is_empty(), "{} says nothing", sampler.name());
        let watch = Watch::new("s", found, TelemetryMode::Fast, Turning::default(), || {
            Nanos::ZERO
        });
        assert_eq!(
            watch.next_due(),
            None,
            "{}: nothing to read",
            sampler.name()
        );
        for (channel, last) in watch.latest().filter(|(c, _)| !c.name.starts_with("s.")) {
            assert!(channel.probe.reason().is_some(), "{}", channel.name);
            assert!(last.is_none_or(|last| last.is_err()), "{}", channel.name);
        }
    }
}

#[test]
fn samplers_and_their_offers_have_names_of_their_own() {
    let mut samplers = BTreeSet::new();
    let mut offers = BTreeSet::new();
    for sampler in SAMPLERS {
        assert!(samplers.insert(sampler.name()), "{}", sampler.name());
        for offer in sampler.offers() {
            assert!(offers.insert(offer.name), "{}", offer.name);
            for text in [
                offer.unit,
                offer.source,
                offer.rights,
                offer.boards,
                offer.meaning,
            ] {
                assert!(!text.is_empty(), "{}", offer.name);
            }
        }
    }
}

#[test]
fn names_on_this_machine_are_unique_and_values_are_never_made_up() {
    let mut plan = Plan {
        mode: TelemetryMode::Normal,
        files: Arc::new(Root("/".into())),
        worker: Some(std::process::id()),
        exec: None,
        extra: Vec::new(),
    };
    let found = plan.find();
    let watch = Watch::new("s", found, plan.mode, crate::clock::Monotonic, || {
        Nanos::ZERO
    });
    let mut names = BTreeSet::new();
    for (channel, _) in watch.latest() {
        assert!(names.insert(channel.name.clone()), "{} twice", channel.name);
    }
    let all: Vec<_> = watch
        .latest()
        .map(|(c, last)| (c.name.clone(), last))
        .collect();
    let available = all
        .iter()
        .find(|(name, _)| name == "mem.available")
        .unwrap();
    assert!(available.1.unwrap().unwrap() > 0);
    for record in watch.records(0) {
        if let Record::Samples(samples) = record {
            for (value, quality) in samples.value.iter().zip(&samples.quality) {
                let is_good = *quality == Quality::Ok.code();
                assert_eq!(*value != NOT_READ, is_good);
            }
        }
    }
}
