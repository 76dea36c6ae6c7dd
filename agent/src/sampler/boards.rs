//! Whole boards as text: `tests/boards/*.tree`, each with its time line and what is to come of it.
//!
//! A line that begins with `#` tells of the board; `== [MODE] PATH` begins a file, whose text follows;
//! `-> PATH TARGET` is a link, `!! ERRNO PATH` a file that answers so when it is opened, at first only;
//! `!> ERRNO PATH` one that answers so to each read until a later moment has it again, `-- PATH` one that goes;
//! `@@ MS` a later moment, whose files replace those before; `?? CHANNEL VALUE` what a read then
//! gives, a number or the name of a state. A file `counted/TYPE/CONFIG` (in base 16) is what the counter of
//! that event of that source shows.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use edgedyno_shared::telemetry::{ChannelKind, Fidelity, TelemetryMode};
use edgedyno_shared::units::Nanos;
use edgedyno_sys::kernel::perf::{Count, Event};
use nix::errno::Errno;
use proptest::prelude::*;
use proptest::sample::Index;

use super::files::{Counting, Files, Kept, Numbers, ReadAt, Root};
use super::testing::Turning;
use super::*;

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/boards")
}

/// A board at one moment.
#[derive(Default)]
struct Moment {
    at_ms: i64,
    files: Vec<(String, u32, String)>,
    links: Vec<(String, String)>,
    errors: BTreeMap<String, Errno>,
    at_read: Vec<(String, Errno)>,
    gone: Vec<String>,
    expected: Vec<(String, String)>,
}

fn parse(text: &str) -> Vec<Moment> {
    let mut moments = vec![Moment::default()];
    for line in text.lines() {
        let last = moments.last_mut().unwrap();
        let words: Vec<&str> = line.split(' ').collect();
        match words.as_slice() {
            ["#", ..] => {}
            ["==", path] => last.files.push(((*path).into(), 0o644, String::new())),
            ["==", mode, path] => {
                let mode = u32::from_str_radix(mode, 8).unwrap();
                last.files.push(((*path).into(), mode, String::new()));
            }
            ["->", path, target] => last.links.push(((*path).into(), (*target).into())),
            ["!!", name, path] => {
                assert_eq!(
                    last.at_ms, 0,
                    "files are opened at the first moment: {line}"
                );
                last.errors.insert((*path).into(), errno(name));
            }
            ["!>", name, path] => last.at_read.push(((*path).into(), errno(name))),
            ["--", path] => last.gone.push((*path).into()),
            ["??", channel, value] => last.expected.push(((*channel).into(), (*value).into())),
            ["@@", at] => moments.push(Moment {
                at_ms: at.parse().unwrap(),
                ..Moment::default()
            }),
            _ => {
                let (_, _, text) = last.files.last_mut().unwrap_or_else(|| panic!("{line}"));
                text.push_str(line);
                text.push('\n');
            }
        }
    }
    moments
}

fn errno(name: &str) -> Errno {
    let known = [
        Errno::EACCES,
        Errno::EAGAIN,
        Errno::EBUSY,
        Errno::EINVAL,
        Errno::EIO,
        Errno::ENODATA,
        Errno::ENODEV,
    ];
    let found = known.into_iter().find(|errno| format!("{errno:?}") == name);
    found.unwrap_or_else(|| panic!("no error of a board: {name}"))
}

/// What files answer to reads instead of their text.
#[derive(Clone, Default)]
struct AtRead(Arc<Mutex<BTreeMap<String, Errno>>>);

impl AtRead {
    /// Goes on to a moment.
    fn go(&self, to: &Moment) {
        let mut errors = self.0.lock().unwrap();
        for (path, ..) in &to.files {
            errors.remove(path);
        }
        errors.extend(to.at_read.iter().cloned());
    }

    fn of(&self, path: &str) -> Option<Errno> {
        self.0.lock().unwrap().get(path).copied()
    }
}

impl Moment {
    fn unpack(&self, root: &Path) {
        for (path, mode, text) in &self.files {
            let path = root.join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(&path, text).unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(*mode)).unwrap();
        }
        for (path, target) in &self.links {
            let path = root.join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            symlink(target, path).unwrap();
        }
        for path in &self.gone {
            fs::remove_file(root.join(path)).unwrap();
        }
    }
}

/// The files of a tree, some of which answer with an error: tests may run as root, whom no mode stops.
struct Closed {
    root: Root,
    errors: BTreeMap<String, Errno>,
    at_read: AtRead,
}

/// An open file of a tree.
struct Opened {
    file: Box<dyn ReadAt>,
    path: String,
    at_read: AtRead,
}

impl ReadAt for Opened {
    fn read_at(&mut self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        match self.at_read.of(&self.path) {
            Some(errno) => Err(errno.into()),
            None => self.file.read_at(buffer, offset),
        }
    }
}

impl Files for Closed {
    fn open(&self, path: &str) -> io::Result<Box<dyn ReadAt>> {
        match self.errors.get(path) {
            Some(errno) => Err((*errno).into()),
            None => Ok(Box::new(Opened {
                file: self.root.open(path)?,
                path: path.into(),
                at_read: self.at_read.clone(),
            })),
        }
    }

    fn list(&self, folder: &str) -> io::Result<Vec<String>> {
        self.root.list(folder)
    }

    fn numbers(&self, folder: &str) -> io::Result<Box<dyn Numbers>> {
        self.root.numbers(folder)
    }

    fn count(&self, event: Event, _: Option<i32>, _: Option<i32>) -> io::Result<Box<dyn Counting>> {
        let path = format!("counted/{}/{:x}", event.source, event.config[0]);
        self.root.open(&path)?;
        Ok(Box::new(Counted(Kept::open(&self.root, &path, 64))))
    }
}

/// A counter that had its turn all the time.
struct Counted(Kept);

impl Counting for Counted {
    fn read(&mut self) -> io::Result<Count> {
        let shown = self.0.text().and_then(text::integer);
        let shown = shown.map_err(|fault| io::Error::other(fault.text()))?;
        Ok(Count {
            value: shown as u64,
            enabled: 1,
            running: 1,
        })
    }
}

fn trees() -> Vec<(String, String)> {
    let entries = fs::read_dir(folder())
        .unwrap()
        .map(|entry| entry.unwrap().path());
    let mut trees: Vec<(String, String)> = entries
        .filter(|path| path.extension().is_some_and(|ending| ending == "tree"))
        .map(|path| {
            let name = path.file_stem().unwrap().to_string_lossy().into_owned();
            (name, fs::read_to_string(path).unwrap())
        })
        .collect();
    trees.sort();
    trees
}

/// A board that is watched from its first moment on.
struct Shown {
    root: tempfile::TempDir,
    clock: Turning,
    watch: Watch<Turning>,
    at_read: AtRead,
    now_ms: i64,
}

impl Shown {
    fn begin(first: &Moment) -> Self {
        let root = tempfile::tempdir().unwrap();
        first.unpack(root.path());
        let at_read = AtRead::default();
        at_read.go(first);
        let mut plan = Plan {
            mode: TelemetryMode::Normal,
            files: Arc::new(Closed {
                root: Root(root.path().into()),
                errors: first.errors.clone(),
                at_read: at_read.clone(),
            }),
            worker: None,
            exec: None,
            extra: Vec::new(),
        };
        let clock = Turning::default();
        let found = plan.find();
        let free = || Nanos::ZERO;
        Self {
            watch: Watch::new("s", found, plan.mode, clock.clone(), free),
            root,
            clock,
            at_read,
            now_ms: 0,
        }
    }

    /// Goes on to a later moment.
    fn go(&mut self, to: &Moment) {
        to.unpack(self.root.path());
        self.at_read.go(to);
        self.clock.by(Nanos::from_millis(to.at_ms - self.now_ms));
        self.now_ms = to.at_ms;
        self.watch.read_due();
    }
}

#[test]
fn every_board_gives_what_it_should_at_each_moment() {
    let trees = trees();
    assert!(trees.len() >= 15, "{} boards", trees.len());
    for (name, text) in trees {
        let moments = parse(&text);
        let mut shown = Shown::begin(&moments[0]);
        for (number, moment) in moments.iter().enumerate() {
            if number > 0 {
                shown.go(moment);
            }
            assert!(!moment.expected.is_empty(), "{name}: nothing is expected");
            for (channel, expected) in &moment.expected {
                let found = shown.watch.latest().find(|(c, _)| c.name == *channel);
                let (found, last) = found.unwrap_or_else(|| panic!("{name} has no {channel}"));
                let got = match last {
                    Some(Ok(value)) => value.to_string(),
                    Some(Err(fault)) => fault.quality.name().to_owned(),
                    None => found.probe.state().to_owned(),
                };
                assert_eq!(&got, expected, "{name}, {} ms: {channel}", moment.at_ms);
            }
        }
    }
}

#[test]
fn a_worker_on_big_and_little_cores_is_counted_on_both() {
    let text = fs::read_to_string(folder().join("rk3588.tree")).unwrap();
    let root = tempfile::tempdir().unwrap();
    parse(&text)[0].unpack(root.path());
    let counted = [("8/11", 300), ("9/11", 4000), ("8/8", 100), ("9/8", 5000)];
    for (event, count) in counted {
        let path = root.path().join("counted").join(event);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, format!("{count}\n")).unwrap();
    }
    let mut plan = Plan {
        mode: TelemetryMode::Fast,
        files: Arc::new(Closed {
            root: Root(root.path().into()),
            errors: BTreeMap::new(),
            at_read: AtRead::default(),
        }),
        worker: Some(42),
        exec: None,
        extra: Vec::new(),
    };
    let found = plan.find();
    let watch = Watch::new("s", found, plan.mode, Turning::default(), || Nanos::ZERO);
    let of = |name: &str| {
        let found = watch.latest().find(|(channel, _)| channel.name == name);
        found
            .unwrap()
            .1
            .unwrap()
            .map_err(|fault| fault.quality.name())
    };
    assert_eq!(of("worker.cycles"), Ok(4300));
    assert_eq!(of("worker.instructions"), Ok(5100));
    assert_eq!(of("worker.cache_misses"), Err("absent"), "no counter of it");
}

#[test]
fn every_board_says_where_it_is_from() {
    for (name, text) in trees() {
        let head: Vec<&str> = text
            .lines()
            .take_while(|line| line.starts_with('#'))
            .collect();
        let is_told = |line: &&&str| line.contains("constructed:") || line.contains("recorded:");
        assert_eq!(head.iter().filter(is_told).count(), 1, "{name}");
    }
}

/// A board of which some files cannot be read as they should be.
struct Spoilt {
    root: Root,
    files: BTreeMap<String, Spoiling>,
}

#[derive(Debug, Clone)]
enum Spoiling {
    Errno(Errno),
    Holds(Vec<u8>),
}

impl Files for Spoilt {
    fn open(&self, path: &str) -> io::Result<Box<dyn ReadAt>> {
        let opened = self.root.open(path)?;
        Ok(match self.files.get(path) {
            Some(spoiling) => Box::new(spoiling.clone()),
            None => opened,
        })
    }

    fn list(&self, folder: &str) -> io::Result<Vec<String>> {
        self.root.list(folder)
    }

    fn numbers(&self, folder: &str) -> io::Result<Box<dyn Numbers>> {
        self.root.numbers(folder)
    }
}

impl ReadAt for Spoiling {
    fn read_at(&mut self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        match self {
            Self::Errno(errno) => Err((*errno).into()),
            Self::Holds(bytes) => {
                let rest = &bytes[(offset as usize).min(bytes.len())..];
                let count = rest.len().min(buffer.len());
                buffer[..count].copy_from_slice(&rest[..count]);
                Ok(count)
            }
        }
    }
}

/// Unit and value of every channel of a board with these files spoilt.
fn spoilt(moment: &Moment, files: BTreeMap<String, Spoiling>) -> BTreeMap<String, (String, i64)> {
    let root = tempfile::tempdir().unwrap();
    moment.unpack(root.path());
    let mut plan = Plan {
        mode: TelemetryMode::Normal,
        files: Arc::new(Spoilt {
            root: Root(root.path().into()),
            files,
        }),
        worker: None,
        exec: None,
        extra: Vec::new(),
    };
    let found = plan.find();
    let watch = Watch::new("s", found, plan.mode, Turning::default(), || Nanos::ZERO);
    let read = watch.latest().filter_map(|(channel, last)| {
        let value = last?.ok()?;
        Some((channel.name.clone(), (channel.unit.clone(), value)))
    });
    read.collect()
}

/// Some files of a board; those that name things stay as they are, since channels are known by them.
fn victims(moment: &Moment, picks: &[Index]) -> BTreeSet<String> {
    let names = ["type", "name", "label"];
    let paths: Vec<&String> = moment
        .files
        .iter()
        .map(|(path, ..)| path)
        .filter(|path| !names.iter().any(|end| path.ends_with(end)) && !path.contains("rail_name"))
        .collect();
    picks
        .iter()
        .map(|pick| (*pick.get(&paths)).clone())
        .collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    #[test]
    fn what_cannot_be_read_becomes_no_other_value(
        board: Index,
        picks in proptest::collection::vec(any::<Index>(), 1..12),
        how in 0_usize..6,
    ) {
        let trees = trees();
        let (name, text) = board.get(&trees);
        let first = &parse(text)[0];
        let spoiling = [
            Spoiling::Errno(Errno::EACCES),
            Spoiling::Errno(Errno::EAGAIN),
            Spoiling::Errno(Errno::EINVAL),
            Spoiling::Errno(Errno::EBUSY),
            Spoiling::Holds(Vec::new()),
            Spoiling::Holds(b"\n".to_vec()),
        ][how].clone();
        let files = victims(first, &picks).into_iter().map(|path| (path, spoiling.clone()));
        let whole = spoilt(first, BTreeMap::new());
        for (channel, read) in spoilt(first, files.collect()) {
            prop_assert_eq!(Some(&read), whole.get(&channel), "{}: {}", name, channel);
        }
    }

    #[test]
    fn whatever_files_hold_shares_are_shares(
        board: Index,
        picks in proptest::collection::vec(any::<Index>(), 1..12),
        held in prop_oneof![
            any::<Vec<u8>>(),
            "[-+]?[0-9]{1,25}\n".prop_map(String::into_bytes),
            "[0-9 @%:.HzCoreuskB\t\n-]{0,80}".prop_map(String::into_bytes),
        ],
    ) {
        let trees = trees();
        let (name, text) = board.get(&trees);
        let first = &parse(text)[0];
        let spoiling = Spoiling::Holds(held);
        let files = victims(first, &picks).into_iter().map(|path| (path, spoiling.clone()));
        for (channel, (unit, value)) in spoilt(first, files.collect()) {
            let is_share = unit != "ppm" || (0..=1_000_000).contains(&value);
            prop_assert!(is_share, "{}: {} is {}", name, channel, value);
        }
    }
}

/// Numbers as `N`, so that a family is one name.
fn family(name: &str) -> String {
    let mut out = String::new();
    for c in name.chars() {
        match c.is_ascii_digit() {
            false => out.push(c),
            true if out.ends_with('N') => {}
            true => out.push('N'),
        }
    }
    out
}

fn page() -> String {
    let mut out = String::from(PAGE_HEAD);
    let kind = |kind| match kind {
        ChannelKind::Gauge => "gauge",
        ChannelKind::Counter => "counter",
        ChannelKind::State => "state",
    };
    let fidelity = |fidelity| match fidelity {
        Fidelity::Measured => "measured",
        Fidelity::DriverAveraged => "mean of the driver",
        Fidelity::Derived => "derived",
        Fidelity::Estimated => "estimated",
    };
    let own = ("sampler", watch::OWN_COST);
    let samplers = SAMPLERS
        .iter()
        .map(|sampler| (sampler.name(), sampler.offers()));
    for (name, offers) in samplers.chain([own]) {
        out.extend([format!("\n### {name}\n\n| channel | unit | kind | source | who may read it | changes every | boards | meaning |\n|---|---|---|---|---|---|---|---|\n")]);
        for offer in offers {
            let period = offer.native_period.map_or_else(
                || "not known".to_owned(),
                |period| format!("{} ms", period.0 / 1_000_000),
            );
            out.extend([format!(
                "| `{}` | {} | {}, {} | `{}` | {} | {period} | {} | {} |\n",
                offer.name,
                offer.unit,
                kind(offer.kind),
                fidelity(offer.fidelity),
                offer.source.replace('|', "\\|"),
                offer.rights,
                offer.boards,
                offer.meaning
            )]);
        }
    }
    out.push_str(BOARDS_HEAD);
    for (name, text) in trees() {
        let (with, without) = channels_of(&text);
        let head = text.lines().next().unwrap().trim_start_matches("# ");
        let list = |names: &BTreeSet<String>| {
            let names: Vec<String> = names.iter().map(|name| format!("`{name}`")).collect();
            names.join(", ")
        };
        out.extend([format!("\n### {name}\n\n{head}\n\n{}\n", list(&with))]);
        if !without.is_empty() {
            out.extend([format!("\nNot there: {}\n", list(&without))]);
        }
    }
    out
}

/// Families of channels that a board gives at one moment or another, and those it names and cannot give.
fn channels_of(text: &str) -> (BTreeSet<String>, BTreeSet<String>) {
    let moments = parse(text);
    let mut shown = Shown::begin(&moments[0]);
    moments[1..].iter().for_each(|moment| shown.go(moment));
    let all: Vec<(String, bool)> = shown
        .watch
        .snapshot(0)
        .into_iter()
        .map(|now| now.channel)
        .filter(|channel| !channel.name.starts_with("s.") && !channel.name.starts_with("worker."))
        .map(|channel| (family(&channel.name), channel.probe.value().is_some()))
        .collect();
    let with: BTreeSet<String> = all
        .iter()
        .filter(|(_, good)| *good)
        .map(|(n, _)| n.clone())
        .collect();
    let without = all
        .into_iter()
        .map(|(n, _)| n)
        .filter(|name| !with.contains(name));
    let without = without.collect();
    (with, without)
}

const PAGE_HEAD: &str = "\
# Telemetry

This page is made from the agent's own list of channels.

While a repeat runs, a thread of the agent watches the board, from the start of the worker's process to its
end, on CPUs that the worker does not have. `edgedyno samples RUN` shows what it saw, `edgedyno summary`
what that means, and [findings](findings.md) fire where it spoilt a figure. `--telemetry off` leaves it out,
`--telemetry fast` reads what moves fast a hundred times a second instead of ten.

* **The worker is not touched.** The kernel's own books are read. One of them, `worker.pss`, makes the
  kernel walk the worker's page tables: once a second at most, and a thousandth of the time.
* **What is not known is not zero.** A channel that cannot be read is `absent`, `denied`, `busy` or
  `parse_error`, with its reason, and so is each sample.
* **Samples carry the middle of their read**, by the clock of the trials. A late read is a gap, never a
  moved sample.
* **Faster than the source is no better.** Where it is known how often a source changes, it is told below;
  reading a mean of one second ten times gives a staircase.
* **The cost is bounded.** Files stay open, nothing is allocated after the first read, and both threads
  measure their own CPU time: where that is above 0.5 % of a core together (fast: 1 %), the one that takes most
  reads half as often, which is a finding, until a minute was calm. Files that are dear to read
  (`/proc/meminfo`, `/proc/pressure/cpu`) are read once a second, and ten times in the fast mode.
* **What is asked costs too.** A vendor's tool or library is a process of its own. What it uses is in
  `sensor.NAME.cpu`, and in `sampler_cpu_share` with the threads.
* **What is read once a second is read once more at the end**, so that counters cover the whole window.
* **Counters travel as they are** and shares are made from them afterwards, over any span. A counter that
  wraps at a known value goes on; one that falls for no known reason has no figures.

Samples stay in memory until the window is over, and are kept with the repeat. Meanwhile they go to a file
on tmpfs once a second, so that a daemon that is killed hands over what it had watched up to then; that file
ends at 64 MiB, some three hours of a hundred channels.

Libraries of vendors are not loaded in the agent's daemon: where one is needed (NVML, HailoRT), a process of
the same program opens it and tells what it reads. One that crashes or hangs is the state of its channels.

## What is made of it

* **Energy**: `energy_per_trial_j` is all that the rail named by `power_rail` took in the window.
  `--idle-power 10s` watches the idle board before each repeat; `energy_above_idle_per_trial_j` is what is
  left above that, with half the width of its 95 % interval. All windows of a case are one: energy is summed
  over them and divided by their seconds or by their trials, so a longer window counts for more. Both say nothing of errors of the sensor, and a
  window of a few native periods of the source says little.
* **Memory traffic**: bytes by counters of the memory controller are everybody's. They are held against the
  data sheet (`host/src/telemetry/ddr_peaks.toml`; boards that are not in it have no share, and neither have
  those of a chip that comes with memory of several speeds), against the
  memory's clock where that is watched, and against the most that a stressor moved on this board
  (`edgedyno stress` keeps that).
* **How busy a Jetson's memory is**: `emc.activity` has no documented unit. tegrastats tells the load in
  percent, to root; from an `edgedyno stress` in which it did, the unit is learned by regression over all
  repeats and kept for that board and release, with how well it explains the tool. `emc_load_share` goes by it
  from then on, and by the tool until then.
* **A quiet board**: `--require quiet` is kept where nothing disturbed the window and everything that would
  have shown it was seen: the load before, what others used, waiting and steal on the measured CPUs, their
  governors and clocks, those of an accelerator in use as far as the board shows them, memory left, a CPU for the
  agent, and, of a case on an accelerator, who else has it open, which only root may see of other users. What was not
  seen is named, and the exit code is 5: a virtual machine that shows no clocks is never known to be quiet.
* **Long runs**: `edgedyno run MODEL --soak 30m` is one window, and after it the board is watched for a tenth
  of that, two minutes at most. The first minute stands beside the last quarter, the first sign that the
  board was held back and when it was gone are told, and p50 of sixty slices is held against the hottest
  sensor. Being held back is a warning there (`soak_throttled`); in other runs it makes a result invalid.
* **Now**: `edgedyno top` shows all channels as they are, with reasons for those that are not. At a terminal
  `r` begins and ends a recording in the store, which `edgedyno samples` reads.

## Channels

Parts in capitals are filled in by the board.
";

const BOARDS_HEAD: &str = "
## Boards

What each of the boards that tests are made with gives. They are put together from the sources of drivers
and public listings; on a board of yours `edgedyno samples` tells what is there.
";

#[test]
fn the_page_of_telemetry_is_made_from_the_list() {
    let path = folder().join("../../docs/telemetry.md");
    let made = page();
    if std::env::var_os("EDGEDYNO_REWRITE").is_some() {
        fs::write(&path, &made).unwrap();
    }
    let kept = fs::read_to_string(&path).unwrap_or_default();
    assert!(
        kept == made,
        "docs/telemetry.md is not what the agent's list makes: run this test with EDGEDYNO_REWRITE=1"
    );
}
