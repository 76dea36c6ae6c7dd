//! Skipping out loud. A test that quietly passes where it cannot run says nothing.

use std::fmt::Display;
use std::io::Write as _;
use std::path::Path;

/// What a test needs and a machine may lack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Need {
    /// A GPU, NPU or BPU with its driver.
    Accelerator,
    /// The unified control group hierarchy.
    CgroupV2,
    /// Clock governors and frequencies in sysfs.
    CpuFreq,
    /// Hardware counters of the CPU through perf.
    HardwareCounters,
    /// Energy counters or power rails.
    Power,
    /// Thermal zones in sysfs.
    ThermalZones,
    /// Network namespaces: root, or unprivileged user namespaces.
    NetworkNamespace,
    /// A file system of its own: root.
    Mount,
    /// Mounts of one's own: root, or unprivileged user namespaces.
    MountNamespace,
    /// At least this many CPUs in the affinity mask.
    Cpus(usize),
    /// A package from a registry: network and pip.
    Package,
    /// A program that is looked for in PATH.
    Program(&'static str),
}

/// What the kind of machine that CI runs on (a virtual machine with two CPUs) cannot do. Only these
/// may be skipped there; everything else must run.
pub const CANNOT_HERE: &[Need] = &[
    Need::Accelerator,
    Need::CgroupV2,
    Need::CpuFreq,
    Need::HardwareCounters,
    Need::Power,
    Need::ThermalZones,
    Need::Cpus(3),
    Need::Cpus(4),
];

impl Need {
    /// Whether this machine has it, as far as looking at it tells.
    pub fn is_met(self) -> bool {
        match self {
            Self::Accelerator => any_exists(&[
                "/dev/nvidia0",
                "/dev/dri/renderD128",
                "/dev/bpu",
                "/dev/accel/accel0",
            ]),
            Self::CgroupV2 => any_exists(&["/sys/fs/cgroup/cgroup.controllers"]),
            Self::CpuFreq => any_exists(&["/sys/devices/system/cpu/cpu0/cpufreq/scaling_cur_freq"]),
            Self::HardwareCounters => any_exists(&[
                "/sys/bus/event_source/devices/cpu",
                "/sys/bus/event_source/devices/cpu_core",
                "/sys/bus/event_source/devices/armv8_pmuv3_0",
            ]),
            Self::Power => any_exists(&["/sys/class/powercap/intel-rapl:0/energy_uj"]),
            Self::ThermalZones => any_exists(&["/sys/class/thermal/thermal_zone0/temp"]),
            Self::NetworkNamespace => succeeds("unshare", &["--net", "true"]),
            Self::Mount => {
                nix::unistd::geteuid().is_root() && succeeds("unshare", &["--mount", "true"])
            }
            Self::MountNamespace => succeeds("unshare", &["--mount", "true"]),
            Self::Cpus(count) => {
                std::thread::available_parallelism().is_ok_and(|n| n.get() >= count)
            }
            // Only trying tells; the getter of the package skips by itself.
            Self::Package => true,
            Self::Program(name) => std::env::var_os("PATH").is_some_and(|path| {
                // Daemons lie in a folder that not every user has in PATH.
                let folders = std::env::split_paths(&path).chain([Path::new("/usr/sbin").into()]);
                folders
                    .into_iter()
                    .any(|folder| folder.join(name).is_file())
            }),
        }
    }
}

/// Whether the machine has all of it; says what is missing when not:
/// `if !skip::has(&[Need::CgroupV2]) { return; }`
pub fn has(needs: &[Need]) -> bool {
    let missing = needs.iter().find(|need| !need.is_met());
    if let Some(need) = missing {
        skip(*need, "not on this machine");
    }
    missing.is_none()
}

/// Says on stderr that the calling test is skipped and why; the test returns then.
///
/// # Panics
/// With `EDGEDYNO_TEST_STRICT=1`, when the need is not one of [`CANNOT_HERE`].
#[track_caller]
pub fn skip(need: Need, reason: impl Display) {
    let is_strict = std::env::var_os("EDGEDYNO_TEST_STRICT").is_some_and(|value| value == "1");
    if is_strict && !CANNOT_HERE.contains(&need) {
        panic!("skipped: {need:?}: {reason}; a strict run skips only {CANNOT_HERE:?}");
    }
    // Around the capture of the test runner, which hides what a passing test prints.
    let _ = writeln!(std::io::stderr(), "skipped: {need:?}: {reason}");
}

fn any_exists(paths: &[&str]) -> bool {
    paths.iter().any(|path| Path::new(path).exists())
}

fn succeeds(program: &str, args: &[&str]) -> bool {
    std::process::Command::new(program)
        .args(args)
        .stdin(std::process::Stdio::null())
        .output()
        .is_ok_and(|output| output.status.success())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_met_is_not_skipped() {
        assert!(has(&[Need::Cpus(1), Need::Program("sh")]));
        assert!(!Need::Program("no-such-program").is_met());
    }

    #[test]
    fn what_no_machine_of_ours_has_may_be_skipped_even_when_strict() {
        skip(Need::Accelerator, "a test of the harness");
    }
}
