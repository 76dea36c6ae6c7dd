//! A vendor's library behind a process of its own: what it gives, and what it does to nobody when it
//! crashes, hangs or refuses. The library is made of C that holds its user to the vendor's rules.

use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use edgedyno_agent::clock::{self, Monotonic};
use edgedyno_agent::sampler::files::Root;
use edgedyno_agent::sampler::{Plan, Watch};
use edgedyno_agent::worker::spawn::SelfExec;
use edgedyno_shared::device::Reading;
use edgedyno_shared::telemetry::{ChannelNow, TelemetryMode};
use edgedyno_shared::units::Nanos;

/// Aborts where the rules of nvml.h are broken: nothing before init, only its own handles, no null pointer.
const NVML: &str = r#"
#include <stdlib.h>
#include <unistd.h>
static int ready = 0;
static int devices[2];
#define MUST(x) do { if (!(x)) abort(); } while (0)
#define OWN(d) MUST(ready && ((d) == &devices[0] || (d) == &devices[1]))
int nvmlInit_v2(void) { return INIT; }
int nvmlShutdown(void) { MUST(ready); ready = 0; return 0; }
int nvmlDeviceGetCount_v2(unsigned *n) { MUST(ready && n); *n = 2; return 0; }
int nvmlDeviceGetHandleByIndex_v2(unsigned i, void **d) { MUST(ready && d); if (i > 1) return 2; *d = &devices[i]; return 0; }
int nvmlDeviceGetUtilizationRates(void *d, unsigned *u) { OWN(d); MUST(u); u[0] = 47; u[1] = 12; return 0; }
int nvmlDeviceGetMemoryInfo(void *d, unsigned long long *m) { OWN(d); MUST(m); m[0] = 100; m[1] = 60; m[2] = 40; return 0; }
int nvmlDeviceGetClockInfo(void *d, unsigned t, unsigned *c) { OWN(d); MUST(c && t < 3); *c = 1000 + t; return 0; }
int nvmlDeviceGetTemperature(void *d, unsigned s, unsigned *t) { OWN(d); MUST(s == 0 && t); LATER; *t = 63; return 0; }
int nvmlDeviceGetPowerUsage(void *d, unsigned *p) { OWN(d); MUST(p); if (d == &devices[1]) return 4; *p = 215500; return 0; }
int nvmlDeviceGetTotalEnergyConsumption(void *d, unsigned long long *e) { OWN(d); MUST(e); return 3; }
"#;

/// A board with a library made of that C, where init and a later call do what is told.
fn board(init: &str, later: &str) -> tempfile::TempDir {
    let root = tempfile::tempdir().expect("a temporary folder takes files");
    let folder = root.path().join("usr/lib");
    std::fs::create_dir_all(&folder).expect("a temporary folder takes files");
    std::fs::create_dir_all(root.path().join("dev")).expect("a temporary folder takes files");
    std::fs::write(root.path().join("dev/nvidia0"), "").expect("a temporary folder takes files");
    let source = root.path().join("nvml.c");
    let text = NVML.replace("INIT;", init).replace("LATER;", later);
    std::fs::write(&source, text).expect("a temporary folder takes files");
    let made = Command::new("cc")
        .args(["-shared", "-fPIC", "-w", "-o"])
        .arg(folder.join("libnvidia-ml.so.1"))
        .arg(&source)
        .status();
    // What this program is built with needs one too.
    assert!(made.expect("a C compiler").success());
    root
}

/// What is seen of the channels of that beginning, once `enough` says so.
fn seen(root: &Path, begin: &str, enough: impl Fn(&[ChannelNow]) -> bool) -> Vec<ChannelNow> {
    let mut plan = Plan {
        mode: TelemetryMode::Normal,
        files: Arc::new(Root(root.into())),
        worker: None,
        exec: Some(SelfExec {
            prefix: Vec::new(),
            program: env!("CARGO_BIN_EXE_edgedyno-agent").into(),
            leading: Vec::new(),
        }),
        extra: Vec::new(),
    };
    let found = plan.find();
    let free = || Nanos::ZERO;
    let mut watch = Watch::new("s", found, plan.mode, Monotonic, free);
    for _ in 0..400 {
        watch.read_due();
        let all = watch.snapshot(0).into_iter();
        let channels: Vec<ChannelNow> = all
            .filter(|now| now.channel.name.starts_with(begin))
            .collect();
        if enough(&channels) {
            return channels;
        }
        clock::pause(Duration::from_millis(50));
    }
    panic!("it was never seen: {:?}", watch.snapshot(0));
}

fn value(channels: &[ChannelNow], name: &str) -> Option<i64> {
    let found = channels.iter().find(|now| now.channel.name == name);
    found
        .unwrap_or_else(|| panic!("no {name}: {channels:#?}"))
        .value
}

#[test]
fn figures_come_in_the_units_of_their_channels() {
    let root = board("(ready = 1, 0);", "");
    let channels = seen(root.path(), "nvml.", |all| all.len() == 20);
    let of = |name: &str| value(&channels, name);
    assert_eq!(of("nvml.0.load"), Some(470_000));
    assert_eq!(of("nvml.1.memory_load"), Some(120_000));
    assert_eq!(of("nvml.0.memory_used"), Some(40));
    assert_eq!(of("nvml.0.freq"), Some(1_000_000_000));
    assert_eq!(of("nvml.0.sm_freq"), Some(1_001_000_000));
    assert_eq!(of("nvml.0.memory_freq"), Some(1_002_000_000));
    assert_eq!(of("nvml.0.temp"), Some(63_000));
    assert_eq!(of("nvml.0.power"), Some(215_500_000));
    // Not permitted on the second, not supported on both, and a function that this version lacks.
    for missing in ["nvml.1.power", "nvml.0.energy", "nvml.0.clock_reasons"] {
        assert_eq!(of(missing), None, "{missing}");
    }
    let cpu = seen(root.path(), "sensor.nvml.cpu", |all| {
        all.iter().any(|now| now.value.is_some())
    });
    assert!(cpu[0].value.unwrap() > 0);
}

fn reason(channels: &[ChannelNow]) -> String {
    channels[0]
        .channel
        .probe
        .reason()
        .unwrap_or_default()
        .to_owned()
}

#[test]
fn a_library_that_crashes_hangs_or_refuses_is_the_state_of_its_channels() {
    for (init, later) in [
        ("(abort(), 0);", ""),
        ("(pause(), 0);", ""),
        ("999;", ""),
        ("(ready = 1, 0);", "abort();"),
    ] {
        let root = board(init, later);
        let channels = seen(root.path(), "sensor.nvml.cpu", |all| {
            // A hang is told by silence, after five seconds.
            all.iter()
                .any(|now| now.at.is_some() && now.value.is_none())
        });
        assert_eq!(channels[0].value, None, "{init}{later}");
    }
}

#[test]
fn a_board_without_the_device_starts_nothing() {
    let root = tempfile::tempdir().unwrap();
    let channels = seen(root.path(), "nvml.", |all| !all.is_empty());
    assert!(reason(&channels).contains("/dev/nvidia0"), "{channels:?}");
    assert!(matches!(channels[0].channel.probe, Reading::Absent(_)));
}

#[test]
fn the_process_ends_when_nobody_reads() {
    let root = board("(ready = 1, 0);", "");
    let mut child = Command::new(env!("CARGO_BIN_EXE_edgedyno-agent"))
        .args(["sensor", "nvml", "--root"])
        .arg(root.path())
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let status = child.wait().unwrap();
    assert!(status.success(), "{status}");
}
