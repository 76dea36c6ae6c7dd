//! What the board is made of, for whoever looks at it: system on chip, cores, memory, engines. Not part of a
//! measurement's environment, which [`crate::facts`] reads.
//!
//! Every path is joined to a root, so that trees of boards can be read in tests.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use edgedyno_shared::cpus;
use edgedyno_shared::device::{Fact, Reading};

use crate::dram;

/// Part numbers of Arm's MIDR_EL1 by implementer, as in util-linux, sys-utils/lscpu-arm.c.
const PARTS: &[(&str, &str, &str)] = &[
    ("0x41", "0xd03", "Cortex-A53"),
    ("0x41", "0xd04", "Cortex-A35"),
    ("0x41", "0xd05", "Cortex-A55"),
    ("0x41", "0xd07", "Cortex-A57"),
    ("0x41", "0xd08", "Cortex-A72"),
    ("0x41", "0xd09", "Cortex-A73"),
    ("0x41", "0xd0a", "Cortex-A75"),
    ("0x41", "0xd0b", "Cortex-A76"),
    ("0x41", "0xd0c", "Neoverse-N1"),
    ("0x41", "0xd0d", "Cortex-A77"),
    ("0x41", "0xd41", "Cortex-A78"),
    ("0x41", "0xd42", "Cortex-A78AE"),
    ("0x41", "0xd46", "Cortex-A510"),
    ("0x41", "0xd47", "Cortex-A710"),
    ("0x41", "0xd4d", "Cortex-A715"),
    ("0x41", "0xd80", "Cortex-A520"),
    ("0x41", "0xd81", "Cortex-A720"),
    ("0x41", "0xd83", "Neoverse-V3AE"),
    ("0x4e", "0x003", "Denver 2"),
    ("0x4e", "0x004", "Carmel"),
];

/// Folders whose entries of that beginning are engines, and what they are.
const ENGINES: &[(&str, &str, &str)] = &[
    ("sys/devices/system/bpu", "bpu", "BPU (D-Robotics)"),
    ("dev", "bpu", "BPU (D-Robotics)"),
    ("proc", "rknpu", "NPU (Rockchip)"),
    ("sys/kernel/debug", "rknpu", "NPU (Rockchip)"),
    ("sys/class/accel", "accel", "accelerator"),
    ("sys/class/drm", "renderD", "GPU or NPU with a DRM driver"),
    ("dev", "nvhost-ctrl", "GPU and DLA (Jetson)"),
    ("dev", "nvidia0", "GPU (NVIDIA)"),
];

/// Reads all of it now.
pub fn facts(root: &Path) -> Vec<Fact> {
    let fact = |name: &str, value| Fact {
        name: name.into(),
        value,
    };
    vec![
        fact("soc", soc(root)),
        fact("cores", cores(root)),
        fact("memory", dram::kind(root)),
        fact("engines", engines(root)),
        fact("vendor_release", vendor_release(root)),
        fact("power_mode", power_mode(root)),
    ]
}

/// The device tree's last word for what the board is compatible with is the chip; kernels with a driver for
/// it say it themselves, some (Tegra) by a bare number, which tells less.
fn soc(root: &Path) -> Reading {
    let line = |path: &str| {
        let text = fs::read_to_string(root.join(path)).ok()?;
        Some(text.trim().to_owned()).filter(|text| !text.is_empty())
    };
    let of_driver = || {
        let (family, id) = (
            line("sys/devices/soc0/family"),
            line("sys/devices/soc0/soc_id")?,
        );
        let is_name = !id.bytes().all(|byte| byte.is_ascii_digit());
        let named = family.map_or(id.clone(), |family| format!("{family} {id}"));
        Some((named, is_name))
    };
    let of_tree = || {
        let text = fs::read(root.join("proc/device-tree/compatible")).ok()?;
        let text = String::from_utf8_lossy(&text).into_owned();
        text.split(['\0', '\n'])
            .rfind(|word| !word.is_empty())
            .map(str::to_owned)
    };
    let of_driver = of_driver();
    let name = of_driver.clone().filter(|(_, is_name)| *is_name);
    let name = name.map(|(name, _)| name).or_else(of_tree);
    match name.or(of_driver.map(|(number, _)| number)) {
        Some(soc) => Reading::Ok(soc),
        None => Reading::Absent(
            "neither /sys/devices/soc0 nor /proc/device-tree/compatible says".into(),
        ),
    }
}

/// `L4T 36.4.3` of a Jetson, whose file begins `# R36 (release), REVISION: 4.3, GCID: ...`.
fn vendor_release(root: &Path) -> Reading {
    const FILE: &str = "etc/nv_tegra_release";
    let Ok(text) = fs::read_to_string(root.join(FILE)) else {
        return Reading::Absent(format!(
            "there is no /{FILE}, and no other vendor's is known"
        ));
    };
    let first = text.lines().next().unwrap_or_default();
    let after = |mark: &str| {
        let (_, rest) = first.split_once(mark)?;
        rest.split([' ', ','])
            .next()
            .filter(|word| !word.is_empty())
    };
    match (after("# R"), after("REVISION: ")) {
        (Some(release), Some(revision)) => Reading::Ok(format!("L4T {release}.{revision}")),
        _ => Reading::Absent(format!("/{FILE} does not begin as known")),
    }
}

/// The mode that caps a Jetson's clocks, by the number and name that `nvpmodel -q` gives: its own state file
/// has `pmode:0002`, and its configuration lines `< POWER_MODEL ID=2 NAME=15W >`.
fn power_mode(root: &Path) -> Reading {
    const STATE: &str = "var/lib/nvpmodel/status";
    let Ok(text) = fs::read_to_string(root.join(STATE)) else {
        return Reading::Absent(format!(
            "there is no /{STATE}: only Jetsons have such modes"
        ));
    };
    let digits = text.trim().strip_prefix("pmode:").unwrap_or_default();
    let Ok(number) = digits.parse::<u32>() else {
        return Reading::Absent(format!("/{STATE} does not begin as known"));
    };
    let modes = fs::read_to_string(root.join("etc/nvpmodel.conf")).unwrap_or_default();
    let name = modes.lines().find_map(|line| {
        let mut words = line.split_whitespace();
        let id = words.find_map(|word| word.strip_prefix("ID="))?;
        let name = words.find_map(|word| word.strip_prefix("NAME="))?;
        (line.contains("POWER_MODEL") && id.parse() == Ok(number)).then_some(name)
    });
    Reading::Ok(match name {
        Some(name) => format!("{number} {name}"),
        None => number.to_string(),
    })
}

/// `0-3 Cortex-A55, 4-7 Cortex-A76`: cores of one kind together, as /proc/cpuinfo has them.
fn cores(root: &Path) -> Reading {
    let text = match fs::read_to_string(root.join("proc/cpuinfo")) {
        Ok(text) => text,
        Err(why) => return Reading::Absent(format!("/proc/cpuinfo: {why}")),
    };
    let mut kinds: Vec<(String, Vec<u16>)> = Vec::new();
    for block in text.split("\n\n") {
        let fields: BTreeMap<&str, &str> = block
            .lines()
            .filter_map(|line| line.split_once(':'))
            .map(|(key, value)| (key.trim(), value.trim()))
            .collect();
        let (Some(cpu), Some(kind)) = (fields.get("processor"), kind(&fields)) else {
            continue;
        };
        let Ok(cpu) = cpu.parse() else { continue };
        match kinds.iter_mut().find(|(known, _)| *known == kind) {
            Some((_, cpus)) => cpus.push(cpu),
            None => kinds.push((kind, vec![cpu])),
        }
    }
    if kinds.is_empty() {
        return Reading::Absent("/proc/cpuinfo names no cores".into());
    }
    let texts = kinds
        .iter()
        .map(|(kind, cpus)| format!("{} {kind}", cpus::ranges(cpus)));
    Reading::Ok(texts.collect::<Vec<_>>().join(", "))
}

fn kind(fields: &BTreeMap<&str, &str>) -> Option<String> {
    if let (Some(implementer), Some(part)) = (fields.get("CPU implementer"), fields.get("CPU part"))
    {
        let known = PARTS
            .iter()
            .find(|row| row.0 == *implementer && row.1 == *part);
        return Some(match known {
            Some(row) => row.2.to_owned(),
            None => format!("implementer {implementer} part {part}"),
        });
    }
    let named = ["model name", "uarch", "isa"]
        .iter()
        .find_map(|field| fields.get(field));
    named.map(|name| (*name).to_owned())
}

fn engines(root: &Path) -> Reading {
    let mut found: BTreeMap<&str, Vec<PathBuf>> = BTreeMap::new();
    for (folder, beginning, what) in ENGINES {
        let entries = fs::read_dir(root.join(folder))
            .into_iter()
            .flatten()
            .flatten();
        let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
        for name in names.filter(|name| name.starts_with(beginning)) {
            found
                .entry(what)
                .or_default()
                .push(Path::new("/").join(folder).join(name));
        }
    }
    if found.is_empty() {
        return Reading::Absent("no driver of an engine that is known shows itself".into());
    }
    let texts = found.iter_mut().map(|(what, paths)| {
        paths.sort();
        let paths: Vec<String> = paths
            .iter()
            .map(|path| path.display().to_string())
            .collect();
        format!("{what}: {}", paths.join(" "))
    });
    Reading::Ok(texts.collect::<Vec<_>>().join("; "))
}

#[cfg(test)]
mod tests {
    use std::fmt::Write as _;

    use super::*;

    fn read(files: &[(&str, &str)]) -> BTreeMap<String, Reading> {
        let root = tempfile::tempdir().unwrap();
        for (path, text) in files {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        facts(root.path())
            .into_iter()
            .map(|fact| (fact.name, fact.value))
            .collect()
    }

    fn cpu(number: u16, part: &str) -> String {
        format!("processor\t: {number}\nCPU implementer\t: 0x41\nCPU part\t: {part}\n\n")
    }

    #[test]
    fn a_board_of_two_kinds_of_cores_is_described() {
        let cpus: String = (0..8)
            .map(|n| cpu(n, if n < 4 { "0xd05" } else { "0xd0b" }))
            .collect();
        let facts = read(&[
            ("proc/cpuinfo", &cpus),
            (
                "proc/device-tree/compatible",
                "radxa,rock-5b\0rockchip,rk3588\0",
            ),
            ("proc/rknpu/load", ""),
            ("sys/class/drm/renderD129/dev", ""),
        ]);
        assert_eq!(
            facts["cores"].value(),
            Some("0-3 Cortex-A55, 4-7 Cortex-A76")
        );
        assert_eq!(facts["soc"].value(), Some("rockchip,rk3588"));
        let engines = facts["engines"].value().unwrap();
        assert!(engines.contains("NPU (Rockchip): /proc/rknpu"), "{engines}");
        assert!(engines.contains("/sys/class/drm/renderD129"), "{engines}");
    }

    #[test]
    fn what_no_table_knows_keeps_its_number() {
        let facts = read(&[
            ("proc/cpuinfo", &cpu(0, "0xfff")),
            ("sys/devices/soc0/soc_id", "i.MX8MP\n"),
        ]);
        assert_eq!(
            facts["cores"].value(),
            Some("0 implementer 0x41 part 0xfff")
        );
        assert_eq!(facts["soc"].value(), Some("i.MX8MP"));
    }

    /// `tests/boards/*.facts`: `== PATH` begins a file, `cpus FIRST-LAST IMPLEMENTER PART` makes cores in
    /// /proc/cpuinfo, `?? FACT VALUE` is what is then said, a line with `#` tells of the board.
    #[test]
    fn boards_of_every_family_say_what_they_are() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/boards");
        let mut boards = 0;
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.extension().is_none_or(|ending| ending != "facts") {
                continue;
            }
            boards += 1;
            let board = path.display();
            let root = tempfile::tempdir().unwrap();
            let mut expected = Vec::new();
            let mut files: BTreeMap<String, String> = BTreeMap::new();
            let mut file = String::new();
            for line in fs::read_to_string(&path).unwrap().lines() {
                match line.split(' ').collect::<Vec<_>>().as_slice() {
                    ["#", ..] => {}
                    ["==", path] => file = (*path).into(),
                    ["??", fact, ..] => {
                        let value = line.splitn(3, ' ').nth(2).unwrap();
                        expected.push(((*fact).to_owned(), value.to_owned()));
                    }
                    ["cpus", range, implementer, part] => {
                        let (first, last) = range.split_once('-').unwrap();
                        let text = files.entry("proc/cpuinfo".into()).or_default();
                        for cpu in first.parse::<u16>().unwrap()..=last.parse().unwrap() {
                            let core =
                                format!("CPU implementer\t: {implementer}\nCPU part\t: {part}");
                            writeln!(text, "processor\t: {cpu}\n{core}\n").unwrap();
                        }
                    }
                    _ => writeln!(files.entry(file.clone()).or_default(), "{line}").unwrap(),
                }
            }
            for (path, text) in files {
                let path = root.path().join(path);
                fs::create_dir_all(path.parent().unwrap()).unwrap();
                fs::write(path, text).unwrap();
            }
            let mut said: BTreeMap<String, Reading> = facts(root.path())
                .into_iter()
                .map(|fact| (fact.name, fact.value))
                .collect();
            let environment = crate::facts::Kernel::at(root.path()).environment();
            said.extend(environment.into_iter().map(|fact| (fact.name, fact.value)));
            assert!(expected.len() >= 3, "{board}");
            for (fact, value) in expected {
                let reading = &said[&fact];
                let shown = reading.value().unwrap_or(reading.state());
                assert_eq!(shown, value, "{board}: {fact}");
            }
        }
        assert!(boards >= 10, "{boards} boards");
    }

    #[test]
    fn a_jetson_says_which_release_it_has() {
        let of = |text: &str| {
            let facts = read(&[("etc/nv_tegra_release", text)]);
            facts["vendor_release"].clone()
        };
        let first = "# R36 (release), REVISION: 4.3, GCID: 38968081, BOARD: generic, EABI: aarch64\n# KERNEL_VARIANT: oot\n";
        assert_eq!(of(first).value(), Some("L4T 36.4.3"));
        for other in ["", "# R36\n", "something else\n"] {
            assert!(
                of(other).reason().unwrap().contains("nv_tegra_release"),
                "{other}"
            );
        }
    }

    #[test]
    fn a_jetson_says_which_power_mode_it_is_in() {
        let state = ("var/lib/nvpmodel/status", "pmode:0002\n");
        let modes = "# modes\n< POWER_MODEL ID=0 NAME=MAXN >\n< POWER_MODEL ID=2 NAME=15W >\n< PM_CONFIG DEFAULT=2 >\n";
        let both = read(&[state, ("etc/nvpmodel.conf", modes)]);
        assert_eq!(both["power_mode"].value(), Some("2 15W"));
        assert_eq!(read(&[state])["power_mode"].value(), Some("2"));
        let other = read(&[("var/lib/nvpmodel/status", "maxn\n")]);
        assert!(other["power_mode"].reason().is_some());
    }

    #[test]
    fn an_empty_board_has_reasons() {
        for (name, value) in read(&[]) {
            assert!(
                value.value().is_none() && !value.reason().unwrap().is_empty(),
                "{name}"
            );
        }
    }
}
