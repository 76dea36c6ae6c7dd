//! Facts of the board that a result depends on, read from the kernel's files.
//!
//! Every path is joined to a root, so that recorded trees can be read in tests. What cannot be read
//! keeps its reason.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use edgedyno_shared::cpus;
use edgedyno_shared::device::{Cpu, Fact, Reading};
use edgedyno_shared::units::Bytes;

/// Reads files below a root folder.
#[derive(Debug, Clone)]
pub struct Kernel {
    root: PathBuf,
}

impl Default for Kernel {
    fn default() -> Self {
        Self::at("/")
    }
}

impl Kernel {
    pub fn at(root: impl Into<PathBuf>) -> Self {
        Self { root: root.into() }
    }

    /// The folder that all is read below.
    pub(crate) fn root(&self) -> &Path {
        &self.root
    }

    /// The environment of a measurement: kernel, CPU, governors, clocks, load, memory, switches.
    pub fn environment(&self) -> Vec<Fact> {
        let mut facts = vec![
            self.line_fact("kernel_release", "proc/sys/kernel/osrelease"),
            self.line_fact("kernel_version", "proc/sys/kernel/version"),
            fact("cpu_model", self.cpu_model()),
            self.line_fact("board_model", "proc/device-tree/model"),
            self.line_fact("load_average", "proc/loadavg"),
            fact("memory_available_bytes", self.meminfo("MemAvailable:")),
            fact("swap_free_bytes", self.meminfo("SwapFree:")),
            self.line_fact(
                "transparent_hugepage",
                "sys/kernel/mm/transparent_hugepage/enabled",
            ),
            self.line_fact("randomize_va_space", "proc/sys/kernel/randomize_va_space"),
            self.line_fact("smt_active", "sys/devices/system/cpu/smt/active"),
            fact("steal_ticks", self.steal()),
        ];
        facts.extend(self.clocks());
        facts.extend(self.temperatures());
        facts
    }

    /// Governors and clocks: those of the environment that holding clocks changes.
    pub fn clocks(&self) -> Vec<Fact> {
        let mut facts = self.policies();
        facts.extend(self.devices());
        facts
    }

    /// CPUs the kernel knows.
    pub fn cpus(&self) -> Vec<Cpu> {
        let present = self
            .line("sys/devices/system/cpu/present")
            .unwrap_or_default();
        let online = self.line("sys/devices/system/cpu/online").ok();
        let online = online.and_then(|text| parse_list(&text));
        let cpu = |id: u16| Cpu {
            id,
            online: online.as_ref().map(|list| list.contains(&id)),
            max_khz: self
                .line(&format!(
                    "sys/devices/system/cpu/cpu{id}/cpufreq/cpuinfo_max_freq"
                ))
                .ok()
                .and_then(|text| text.parse().ok()),
        };
        parse_list(&present)
            .unwrap_or_default()
            .into_iter()
            .map(cpu)
            .collect()
    }

    pub fn memory_total(&self) -> Option<Bytes> {
        self.meminfo("MemTotal:").value()?.parse().ok().map(Bytes)
    }

    /// Processes killed for lack of memory so far: in the control group of this process where it counts
    /// them (v2 `memory.events`, v1 `memory.oom_control`, both since Linux 4.13), else on the machine.
    pub fn oom_kills(&self) -> Option<u64> {
        let groups = self.text("proc/self/cgroup").unwrap_or_default();
        let in_group = groups.lines().find_map(|line| {
            let mut parts = line.splitn(3, ':').skip(1);
            let (controllers, path) = (parts.next()?, parts.next()?);
            let file = match controllers {
                "" => format!("sys/fs/cgroup{path}/memory.events"),
                "memory" => format!("sys/fs/cgroup/memory{path}/memory.oom_control"),
                _ => return None,
            };
            figure_after(&self.text(&file).ok()?, "oom_kill ")
        });
        in_group.or_else(|| figure_after(&self.text("proc/vmstat").ok()?, "oom_kill "))
    }

    fn policies(&self) -> Vec<Fact> {
        let folder = "sys/devices/system/cpu/cpufreq";
        let mut facts = Vec::new();
        for name in self.entries(folder, "policy") {
            for (fact_name, file) in [
                ("governor", "scaling_governor"),
                ("clock_khz", "scaling_cur_freq"),
                ("clock_min_khz", "scaling_min_freq"),
                ("clock_max_khz", "scaling_max_freq"),
            ] {
                facts.push(self.line_fact(
                    &format!("{fact_name}.{name}"),
                    &format!("{folder}/{name}/{file}"),
                ));
            }
            facts.push(self.policy_cpus(folder, &name));
            facts.extend(self.base_frequency(folder, &name));
        }
        if facts.is_empty() {
            let reason = format!("/{folder} has no policies: this kernel does not show CPU clocks");
            facts.push(fact("governor", Reading::Absent(reason.clone())));
            facts.push(fact("clock_khz", Reading::Absent(reason)));
        }
        facts
    }

    /// CPUs whose clock a policy sets, those that are off too: `0-3,5`.
    fn policy_cpus(&self, folder: &str, policy: &str) -> Fact {
        let path = format!("{folder}/{policy}/related_cpus");
        let value = match self.line(&path) {
            Err(why) => unreadable(&path, &why),
            Ok(line) => match parse_list(&line.replace(' ', ",")) {
                Some(cpus) if !cpus.is_empty() => Reading::Ok(cpus::ranges(&cpus)),
                _ => Reading::ParseError(format!("/{path} is no list of CPUs")),
            },
        };
        fact(&format!("policy_cpus.{policy}"), value)
    }

    /// The clock that a processor keeps up without its boost, in Hz, where its driver tells it (intel_pstate).
    fn base_frequency(&self, folder: &str, policy: &str) -> Option<Fact> {
        let path = format!("{folder}/{policy}/base_frequency");
        let value = match self.line(&path) {
            Err(why) if why.kind() == io::ErrorKind::NotFound => return None,
            Err(why) => unreadable(&path, &why),
            // The file is in kHz.
            Ok(line) => match line
                .parse::<u64>()
                .ok()
                .and_then(|khz| khz.checked_mul(1000))
            {
                Some(hertz) => Reading::Ok(hertz.to_string()),
                None => Reading::ParseError(format!("/{path} is no clock: {line}")),
            },
        };
        Some(fact(&format!("base_frequency.{policy}"), value))
    }

    /// Governors of what is no CPU: memory, GPU, NPU.
    fn devices(&self) -> Vec<Fact> {
        let folder = "sys/class/devfreq";
        let devices = self.entries(folder, "").into_iter();
        let governors = devices.map(|device| {
            let path = format!("{folder}/{device}/governor");
            self.line_fact(&format!("governor.devfreq.{device}"), &path)
        });
        governors.collect()
    }

    fn temperatures(&self) -> Vec<Fact> {
        let folder = "sys/class/thermal";
        let zones = self.entries(folder, "thermal_zone");
        let mut facts: Vec<Fact> = Vec::new();
        for zone in &zones {
            let kind = self
                .line(&format!("{folder}/{zone}/type"))
                .unwrap_or_else(|_| zone.clone());
            facts.push(self.line_fact(
                &format!("temperature_millicelsius.{kind}"),
                &format!("{folder}/{zone}/temp"),
            ));
        }
        if facts.is_empty() {
            let reason = format!("/{folder} has no zones");
            facts.push(fact("temperature_millicelsius", Reading::Absent(reason)));
        }
        facts
    }

    fn cpu_model(&self) -> Reading {
        let text = match self.text("proc/cpuinfo") {
            Ok(text) => text,
            Err(why) => return unreadable("proc/cpuinfo", &why),
        };
        let field = |name: &str| {
            text.lines()
                .find(|line| line.split(':').next().is_some_and(|key| key.trim() == name))
                .and_then(|line| line.split(':').nth(1))
                .map(|value| value.trim().to_owned())
        };
        // Arm kernels give no name, only the part number of each core.
        let arm = || {
            Some(format!(
                "implementer {} part {}",
                field("CPU implementer")?,
                field("CPU part")?
            ))
        };
        field("model name").or_else(arm).map_or_else(
            || Reading::Absent("/proc/cpuinfo names no model".into()),
            Reading::Ok,
        )
    }

    /// Ticks that a hypervisor took, since boot (proc_stat(5), eighth figure of `cpu`).
    fn steal(&self) -> Reading {
        match self.text("proc/stat") {
            Err(why) => unreadable("proc/stat", &why),
            Ok(text) => text
                .lines()
                .find(|line| line.starts_with("cpu "))
                .and_then(|line| line.split_whitespace().nth(8))
                .map_or_else(
                    || Reading::ParseError("/proc/stat has no steal figure".into()),
                    |ticks| Reading::Ok(ticks.into()),
                ),
        }
    }

    pub(crate) fn meminfo(&self, field: &str) -> Reading {
        match self.text("proc/meminfo") {
            Err(why) => unreadable("proc/meminfo", &why),
            Ok(text) => crate::worker::memory::kibibytes(&text, field).map_or_else(
                || Reading::Absent(format!("/proc/meminfo has no {field}")),
                |bytes| Reading::Ok(bytes.to_string()),
            ),
        }
    }

    fn line_fact(&self, name: &str, path: &str) -> Fact {
        let value = match self.line(path) {
            Ok(line) => Reading::Ok(line),
            Err(why) => unreadable(path, &why),
        };
        fact(name, value)
    }

    pub(crate) fn entries(&self, folder: &str, prefix: &str) -> Vec<String> {
        let Ok(entries) = fs::read_dir(self.root.join(folder)) else {
            return Vec::new();
        };
        let names = entries
            .flatten()
            .filter_map(|e| e.file_name().into_string().ok());
        let mut names: Vec<String> = names.filter(|name| name.starts_with(prefix)).collect();
        names.sort_by_key(|name| (name.len(), name.clone()));
        names
    }

    pub(crate) fn line(&self, path: &str) -> io::Result<String> {
        let text = self.text(path)?;
        Ok(text
            .trim_matches(|c: char| c.is_whitespace() || c == '\0')
            .to_owned())
    }

    fn text(&self, path: &str) -> io::Result<String> {
        let bytes = fs::read(self.root.join(Path::new(path)))?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }
}

fn fact(name: &str, value: Reading) -> Fact {
    Fact {
        name: name.into(),
        value,
    }
}

fn unreadable(path: &str, why: &io::Error) -> Reading {
    let reason = format!("/{path}: {why}");
    match why.kind() {
        io::ErrorKind::NotFound => Reading::Absent(reason),
        io::ErrorKind::PermissionDenied => Reading::Denied(reason),
        io::ErrorKind::ResourceBusy => Reading::Busy(reason),
        _ => Reading::Absent(reason),
    }
}

/// The figure on the line that begins with `name`.
fn figure_after(text: &str, name: &str) -> Option<u64> {
    text.lines()
        .find_map(|line| line.strip_prefix(name))?
        .trim()
        .parse()
        .ok()
}

/// Reads the kernel's list form: `0-3,5`.
pub fn parse_list(text: &str) -> Option<Vec<u16>> {
    let mut out = Vec::new();
    for part in text.trim().split(',').filter(|part| !part.is_empty()) {
        let (low, high) = part.split_once('-').unwrap_or((part, part));
        let (low, high): (u16, u16) = (low.trim().parse().ok()?, high.trim().parse().ok()?);
        if high < low || high - low > 4096 {
            return None;
        }
        out.extend(low..=high);
    }
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tree(files: &[(&str, &str)]) -> (tempfile::TempDir, Kernel) {
        let folder = tempfile::tempdir().unwrap();
        for (path, text) in files {
            let path = folder.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        let kernel = Kernel::at(folder.path());
        (folder, kernel)
    }

    fn value<'a>(facts: &'a [Fact], name: &str) -> &'a Reading {
        &facts.iter().find(|f| f.name == name).unwrap().value
    }

    #[test]
    fn an_empty_board_has_reasons_and_no_values() {
        let (_folder, kernel) = tree(&[]);
        for fact in kernel.environment() {
            assert!(fact.value.value().is_none(), "{fact:?}");
            assert!(!fact.value.reason().unwrap().is_empty(), "{fact:?}");
        }
        assert!(kernel.cpus().is_empty());
    }

    #[test]
    fn an_arm_board_is_read() {
        let policy = "sys/devices/system/cpu/cpufreq/policy4";
        let (_folder, kernel) = tree(&[
            (
                "proc/cpuinfo",
                "processor : 0\nCPU implementer\t: 0x41\nCPU part\t: 0xd0b\n",
            ),
            ("proc/device-tree/model", "Some Board\0"),
            (&format!("{policy}/scaling_governor"), "performance\n"),
            ("sys/class/thermal/thermal_zone0/type", "soc-thermal\n"),
            ("sys/class/thermal/thermal_zone0/temp", "41000\n"),
            ("sys/devices/system/cpu/present", "0-1\n"),
            ("sys/devices/system/cpu/online", "0\n"),
            ("proc/meminfo", "MemTotal: 10 kB\nMemAvailable: 4 kB\n"),
        ]);
        let facts = kernel.environment();
        let ok = |text: &str| Reading::Ok(text.into());
        assert_eq!(
            value(&facts, "cpu_model"),
            &ok("implementer 0x41 part 0xd0b")
        );
        assert_eq!(value(&facts, "board_model"), &ok("Some Board"));
        assert_eq!(value(&facts, "governor.policy4"), &ok("performance"));
        assert_eq!(value(&facts, "clock_khz.policy4").state(), "absent");
        assert_eq!(
            value(&facts, "temperature_millicelsius.soc-thermal"),
            &ok("41000")
        );
        assert_eq!(value(&facts, "memory_available_bytes"), &ok("4096"));
        let online: Vec<Option<bool>> = kernel.cpus().iter().map(|c| c.online).collect();
        assert_eq!(online, [Some(true), Some(false)]);
    }

    #[test]
    fn policies_say_which_cpus_they_are_for_and_devices_what_governs_them() {
        let policy = |file: &str| format!("sys/devices/system/cpu/cpufreq/policy4/{file}");
        let (_folder, kernel) = tree(&[
            (&policy("related_cpus"), "4 5 7\n"),
            (&policy("base_frequency"), "2400000\n"),
            ("sys/devices/system/cpu/cpufreq/policy0/related_cpus", "x\n"),
            ("sys/class/devfreq/dmc/governor", "dmc_ondemand\n"),
            ("sys/class/devfreq/fb000000.gpu/cur_freq", "1\n"),
        ]);
        let facts = kernel.environment();
        let ok = |text: &str| Reading::Ok(text.into());
        assert_eq!(value(&facts, "policy_cpus.policy4"), &ok("4-5,7"));
        assert_eq!(value(&facts, "policy_cpus.policy0").state(), "parse_error");
        assert_eq!(value(&facts, "base_frequency.policy4"), &ok("2400000000"));
        let without = |fact: &&Fact| fact.name == "base_frequency.policy0";
        assert!(
            !facts.iter().any(|fact| without(&fact)),
            "most drivers have none"
        );
        assert_eq!(value(&facts, "governor.devfreq.dmc"), &ok("dmc_ondemand"));
        let gpu = value(&facts, "governor.devfreq.fb000000.gpu");
        assert_eq!(gpu.state(), "absent");
    }

    #[test]
    fn kills_are_counted_in_the_group_first() {
        let vmstat = ("proc/vmstat", "oom_kill 9\n");
        let (_folder, kernel) = tree(&[vmstat]);
        assert_eq!(kernel.oom_kills(), Some(9));
        let group = ("proc/self/cgroup", "4:memory:/a\n1:name=systemd:/\n");
        let counted = (
            "sys/fs/cgroup/memory/a/memory.oom_control",
            "under_oom 0\noom_kill 2\n",
        );
        let (_folder, kernel) = tree(&[vmstat, group, counted]);
        assert_eq!(kernel.oom_kills(), Some(2));
    }

    #[test]
    fn lists_of_cpus_are_read() {
        assert_eq!(parse_list("0-2,5"), Some(vec![0, 1, 2, 5]));
        assert_eq!(parse_list(""), Some(vec![]));
        for text in ["x", "3-1", "1-", "0-9999"] {
            assert_eq!(parse_list(text), None, "{text}");
        }
    }
}
