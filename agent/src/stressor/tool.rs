//! Tools of somebody else's as stressors: found on this board or not, started on their CPUs, ended, and
//! asked what they say they did.
//!
//! Their figures are their own: over all of their life, and in a currency of their own. They are kept as
//! printed, and never taken for bytes of ours.

use std::ffi::OsStr;
use std::io;
use std::path::{Path, PathBuf};

use edgedyno_shared::device::{Fact, Reading};
use edgedyno_shared::load::{StressOrder, ToolFigure};
use edgedyno_shared::methods::{self, Takes};
use edgedyno_shared::units::Bytes;

use super::{Room, Settings, Stressor, Work};

/// Where tools lie that no variable names.
const USUAL: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// One of them.
#[derive(Debug, Clone, Copy)]
pub struct Tool {
    pub name: &'static str,
    /// How to get it.
    package: &'static str,
    /// Words after its name.
    pub arguments: fn(&Ask<'_>) -> Vec<String>,
    /// What it printed of its version and of what it did.
    pub read: fn(&Told) -> Report,
    /// Less memory than this it does not go through.
    least: u64,
}

/// What a tool is started for.
#[derive(Debug)]
pub struct Ask<'a> {
    pub order: &'a StressOrder,
    pub working_set: Option<Bytes>,
    /// It ends by itself then, whatever happens to us.
    pub seconds: u64,
    /// A file for its figures.
    pub report: &'a Path,
}

/// What a tool left behind.
#[derive(Debug, Default)]
pub struct Told {
    pub output: String,
    /// The file for its figures; empty where it wrote none.
    pub report: String,
}

/// What that comes to.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Report {
    pub version: Option<String>,
    pub figures: Vec<ToolFigure>,
}

pub static STRESS_NG: Tool = Tool {
    name: "stress-ng",
    package: "the Debian package stress-ng",
    arguments: stress_ng_arguments,
    read: stress_ng_report,
    least: 0,
};

pub static STRESSAPPTEST: Tool = Tool {
    name: "stressapptest",
    package: "the Debian package stressapptest",
    arguments: stressapptest_arguments,
    read: stressapptest_report,
    least: LEAST_OF_STRESSAPPTEST,
};

static TOOLS: [&Tool; 2] = [&STRESS_NG, &STRESSAPPTEST];

/// stressapptest gives each of its threads pages of 1 MiB, and needs some.
const LEAST_OF_STRESSAPPTEST: u64 = 16 << 20;

impl Tool {
    /// Its file on this board.
    pub fn find(&self) -> Option<PathBuf> {
        find_in(self.name, std::env::var_os("PATH").as_deref())
    }

    fn lack(&self) -> String {
        format!("it is not on this board; {} has it", self.package)
    }
}

fn find_in(name: &str, path: Option<&OsStr>) -> Option<PathBuf> {
    let named = path.into_iter().flat_map(std::env::split_paths);
    let usual = USUAL.split(':').map(PathBuf::from);
    named
        .chain(usual)
        // A relative entry would mean another file in every folder.
        .filter(|folder| folder.is_absolute())
        .map(|folder| folder.join(name))
        .find(|file| {
            nix::unistd::access(file, nix::unistd::AccessFlags::X_OK).is_ok() && file.is_file()
        })
}

/// Which of them are on this board, for lists.
pub fn facts() -> Vec<Fact> {
    let fact = |tool: &&Tool| Fact {
        name: format!("stressor.{}", tool.name),
        value: match tool.find() {
            Some(path) => Reading::Ok(path.display().to_string()),
            None => Reading::Absent(tool.lack()),
        },
    };
    TOOLS.iter().map(fact).collect()
}

impl Stressor for Tool {
    fn name(&self) -> &'static str {
        self.name
    }

    fn obstacle(&self) -> Option<String> {
        self.find().is_none().then(|| self.lack())
    }

    fn room(&self) -> Room {
        Room::BeyondCaches
    }

    fn room_for(&self, order: &StressOrder) -> Room {
        match methods::method_of(self.name, order.method.as_deref()) {
            Ok(Some(method)) if method.takes == Takes::Little => Room::None,
            // What it has no way for is not started.
            _ => self.room(),
        }
    }

    fn least(&self) -> u64 {
        self.least
    }

    fn prepare(&self, _settings: &Settings<'_>) -> io::Result<Box<dyn Work>> {
        Err(io::Error::other("a tool works in a process of its own"))
    }

    fn tool(&self) -> Option<&Tool> {
        Some(self)
    }
}

fn stress_ng_arguments(ask: &Ask<'_>) -> Vec<String> {
    let method = ask.order.method.as_deref().unwrap_or(methods::USUAL);
    let workers = ask.order.cpus.len().max(1) as u64;
    let start = [format!("--{method}"), workers.to_string()];
    let memory = ask.working_set.and_then(|all| {
        let (option, bytes) = memory_option(method, all.0, workers)?;
        Some([option.to_owned(), bytes.to_string()])
    });
    let report = [
        "--timeout",
        &format!("{}s", ask.seconds),
        "--metrics",
        "--yaml",
        &ask.report.display().to_string(),
    ]
    .map(ToOwned::to_owned);
    let memory = memory.into_iter().flatten();
    start.into_iter().chain(memory).chain(report).collect()
}

/// How stress-ng is told what all of its workers go through together. Its `stream` has three arrays of four
/// times the cache that it is told of, and, as `vm` does, shares that out to its workers; `memrate` gives as
/// much to each (stress-stream.c, stress-vm.c, stress-memrate.c; seen with 0.15.06).
fn memory_option(method: &str, all: u64, workers: u64) -> Option<(&'static str, u64)> {
    match method {
        "stream" => Some(("--stream-l3-size", all / 12)),
        "vm" => Some(("--vm-bytes", all)),
        "memrate" => Some(("--memrate-bytes", all / workers)),
        _ => None,
    }
}

/// The lines of its YAML report that stand below `metrics`: pairs of name and number, one list entry for
/// each stressor. Its stream tells there what it read and what it wrote (0.15 and later), where it ran long
/// enough to say; its MB is 2^20 bytes (stress-ng.h).
fn stress_ng_report(told: &Told) -> Report {
    let lines = told.report.lines().map(str::trim);
    let pairs = lines.filter_map(|line| line.split_once(':'));
    let pairs = pairs.map(|(name, value)| (name.trim_start_matches("- ").trim(), value.trim()));
    let mut report = Report::default();
    for (name, value) in pairs {
        if name == "stress-ng-version" {
            report.version = Some(value.to_owned());
        }
        let unit = match name {
            "bogo-ops-per-second-real-time" => "bogo operations a second",
            _ if name.contains("mb-per-sec") => "MiB/s",
            _ => continue,
        };
        report.figures.extend(figure(name, value, unit));
    }
    if report.figures.iter().all(|figure| figure.unit != "MiB/s") {
        report.figures.extend(memory_rate(&told.output));
    }
    report
}

/// `stream: memory rate: 9853.38 MB/sec, 3941.35 Mflop/sec`, from the output of those before 0.15, which have
/// one rate for both.
fn memory_rate(output: &str) -> Option<ToolFigure> {
    let (_, rest) = output.split_once("memory rate:")?;
    let mut words = rest.split_whitespace();
    let value = words.next()?;
    words.next().filter(|unit| *unit == "MB/sec,")?;
    figure("memory-rate", value, "MiB/s")
}

fn stressapptest_arguments(ask: &Ask<'_>) -> Vec<String> {
    // Its own unit is the mebibyte.
    let memory = ask
        .working_set
        .map_or(LEAST_OF_STRESSAPPTEST, |bytes| bytes.0)
        >> 20;
    [
        "-M",
        &memory.to_string(),
        "-m",
        &ask.order.cpus.len().to_string(),
        "-s",
        &ask.seconds.to_string(),
    ]
    .map(ToOwned::to_owned)
    .to_vec()
}

/// `Stats: SAT revision 1.0.6_autoconf, 64 bit binary` and `Stats: Memory Copy: 43412.00M at 17640.28MB/s`,
/// which counts both ways; its MB is 2^20 bytes (sattypes.h).
fn stressapptest_report(told: &Told) -> Report {
    let after = |mark: &str| {
        let (_, rest) = told.output.split_once(mark)?;
        rest.lines().next()
    };
    let version = after("SAT revision ").and_then(|rest| rest.split(',').next());
    let rate = after("Memory Copy:").and_then(|rest| {
        let (_, rate) = rest.split_once(" at ")?;
        figure("memory-copy", rate.trim().strip_suffix("MB/s")?, "MiB/s")
    });
    Report {
        version: version.map(str::to_owned),
        figures: rate.into_iter().collect(),
    }
}

/// A number as it was printed; anything else is no figure.
fn figure(name: &str, value: &str, unit: &str) -> Option<ToolFigure> {
    let number: f64 = value.parse().ok()?;
    number.is_finite().then(|| ToolFigure {
        name: name.to_owned(),
        value: value.to_owned(),
        unit: unit.to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    use edgedyno_shared::load::{Effort, Throttle};
    use proptest::prelude::*;

    use super::*;

    fn order(name: &str, method: Option<&str>) -> StressOrder {
        StressOrder {
            name: name.into(),
            method: method.map(str::to_owned),
            cpus: vec![2, 3],
            effort: Effort::Full,
            throttle: Throttle::Spin,
            working_set: None,
        }
    }

    fn words(tool: &Tool, order: &StressOrder, working_set: Option<Bytes>) -> String {
        let ask = Ask {
            order,
            working_set,
            seconds: 70,
            report: Path::new("/tmp/r.yaml"),
        };
        (tool.arguments)(&ask).join(" ")
    }

    #[test]
    fn tools_are_started_with_a_worker_for_each_cpu_and_an_end() {
        let memory = Some(Bytes(96 << 20));
        // 96 MiB in all, for two workers: of `stream` 3 x 4 x 8 MiB.
        for (method, begins) in [
            (None, "--stream 2 --stream-l3-size 8388608"),
            (Some("vm"), "--vm 2 --vm-bytes 100663296"),
            (Some("memrate"), "--memrate 2 --memrate-bytes 50331648"),
        ] {
            let found = words(&STRESS_NG, &order("stress-ng", method), memory);
            let rest = "--timeout 70s --metrics --yaml /tmp/r.yaml";
            assert_eq!(found, format!("{begins} {rest}"));
        }
        let other = words(&STRESS_NG, &order("stress-ng", Some("memcpy")), None);
        assert!(other.starts_with("--memcpy 2 --timeout "), "{other}");
        let memory = Some(Bytes(128 << 20));
        let found = words(&STRESSAPPTEST, &order("stressapptest", None), memory);
        assert_eq!(found, "-M 128 -m 2 -s 70");
    }

    #[test]
    fn who_goes_through_memory_is_told_how_much() {
        for method in methods::METHODS {
            let is_told = memory_option(method.name, 1 << 30, 2).is_some();
            assert_eq!(is_told, method.takes == Takes::Memory, "{}", method.name);
        }
    }

    fn figures(report: &Report) -> Vec<(&str, &str)> {
        let figures = report.figures.iter();
        figures
            .map(|figure| (figure.value.as_str(), figure.unit.as_str()))
            .collect()
    }

    /// As stress-ng 0.15.06 wrote it.
    #[test]
    fn what_stress_ng_prints_is_read() {
        let report = "---\nsystem-info:\n      stress-ng-version: 0.15.06\n      run-by: root\n      bufferram: 14942208\n\nmetrics:\n    - stressor: stream\n      bogo-ops: 113713\n      bogo-ops-per-second-usr-sys-time: 18977.207091\n      bogo-ops-per-second-real-time: 18951.465564\n      wall-clock-time: 6.000222\n      user-time: 5.992083\n      memory-read-rate-mb-per-sec: 28431.594119\n      memory-write-rate-mb-per-sec: 18954.396080\n      memory-rate-mflop-per-sec: 2484.390603\n\n...\n";
        let output = "stress-ng: info:  [10761] stream: memory rate: 28431.59 MB read/sec, 18954.40 MB write/sec, 2484.39 Mflop/sec (instance 0)\n";
        let mut told = Told {
            output: output.into(),
            report: report.into(),
        };
        let found = stress_ng_report(&told);
        assert_eq!(found.version.as_deref(), Some("0.15.06"));
        let expected = [
            ("18951.465564", "bogo operations a second"),
            ("28431.594119", "MiB/s"),
            ("18954.396080", "MiB/s"),
        ];
        assert_eq!(figures(&found), expected);
        // What it did not print is unknown, not zero, and what it read is not all that it moved.
        told.report.clear();
        assert_eq!(stress_ng_report(&told), Report::default());
        told.output = "stream: run duration too short to determine memory rate".into();
        assert_eq!(stress_ng_report(&told), Report::default());
        // Later releases turn the words round.
        told.report = "      mb-per-sec-memory-read-rate: 7.5\n".into();
        assert_eq!(figures(&stress_ng_report(&told)), [("7.5", "MiB/s")]);
    }

    /// As its source before 0.15 prints it.
    #[test]
    fn what_an_old_stress_ng_prints_is_read() {
        let output = "stress-ng: info:  [7] stream: memory rate: 9853.38 MB/sec, 3941.35 Mflop/sec (instance 0)\n";
        let report =
            "metrics:\n    - stressor: stream\n      bogo-ops-per-second-real-time: 7.429110\n";
        let found = stress_ng_report(&Told {
            output: output.into(),
            report: report.into(),
        });
        let expected = [
            ("7.429110", "bogo operations a second"),
            ("9853.38", "MiB/s"),
        ];
        assert_eq!(figures(&found), expected);
    }

    /// As stressapptest 1.0.6 writes it.
    #[test]
    fn what_stressapptest_prints_is_read() {
        let output = "Stats: SAT revision 1.0.6_autoconf, 64 bit binary\nStats: Memory Copy: 43412.00M at 17640.28MB/s\nStats: File Copy: 0.00M at 0.00MB/s\n";
        let found = stressapptest_report(&Told {
            output: output.into(),
            report: String::new(),
        });
        assert_eq!(found.version.as_deref(), Some("1.0.6_autoconf"));
        assert_eq!(figures(&found), [("17640.28", "MiB/s")]);
        assert_eq!(stressapptest_report(&Told::default()), Report::default());
    }

    #[test]
    fn a_tool_is_what_can_be_run_in_a_folder_of_the_path() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("a-tool-nobody-has");
        let path = Some(folder.path().as_os_str());
        assert_eq!(find_in("a-tool-nobody-has", path), None);
        fs::write(&file, "#!/bin/sh\n").unwrap();
        assert_eq!(
            find_in("a-tool-nobody-has", path),
            None,
            "no right to run it"
        );
        fs::set_permissions(&file, fs::Permissions::from_mode(0o755)).unwrap();
        assert_eq!(find_in("a-tool-nobody-has", path), Some(file));
        assert!(find_in("sh", None).is_some());
        let tool = Tool {
            name: "a-tool-nobody-has",
            ..STRESS_NG
        };
        let why = tool.obstacle().unwrap();
        assert!(
            why.contains("not on this board") && why.contains("Debian package"),
            "{why}"
        );
        let names: Vec<String> = facts().into_iter().map(|fact| fact.name).collect();
        assert_eq!(names, ["stressor.stress-ng", "stressor.stressapptest"]);
    }

    proptest! {
        #[test]
        fn nothing_printed_makes_a_reader_panic(output in "\\PC*", report in "[a-zA-Z0-9:\\n -.]*") {
            let told = Told { output, report };
            for tool in TOOLS {
                let _ = (tool.read)(&told);
            }
        }
    }
}
