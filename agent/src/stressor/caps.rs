//! What a load may take of a board: memory, room on disk, and warmth. Read from the kernel's files below
//! a root, so that recorded trees can be asked.

use std::path::Path;

use edgedyno_shared::load::StressOrder;
use edgedyno_shared::units::Bytes;
use edgedyno_shared::wire::failure::{Failure, FailureCode};
use nix::sys::statvfs::statvfs;

use super::{Room, Stressor};
use crate::facts::Kernel;

/// A working set below this fits into the caches of a machine that hides them.
const LEAST: u64 = 64 << 20;

/// What goes beyond the caches is so many times as large as they are.
const TIMES_CACHES: u64 = 4;

/// A second-level cache where the kernel names none.
const USUAL_CACHE: u64 = 512 << 10;

/// How near to the temperature at which a board slows down a load may start.
const MARGIN_MILLICELSIUS: i64 = 5_000;

/// How much memory a stressor gets, and by what rule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Share {
    /// Of all its threads together; none for one that uses no memory.
    pub bytes: Option<Bytes>,
    pub rule: String,
}

/// Refuses a load on a board that is nearly too hot.
///
/// # Errors
/// `LoadRefused`, with zone and temperatures.
pub fn check_temperature(kernel: &Kernel) -> Result<(), Failure> {
    let folder = "sys/class/thermal";
    for zone in kernel.entries(folder, "thermal_zone") {
        let zone = format!("{folder}/{zone}");
        let (Some(now), Some(trip)) =
            (number(kernel, &format!("{zone}/temp")), trip(kernel, &zone))
        else {
            continue;
        };
        if now > trip - MARGIN_MILLICELSIUS {
            let kind = kernel.line(&format!("{zone}/type")).unwrap_or_default();
            let detail = format!(
                "the board is at {:.1} °C in zone {kind}, and slows down at {:.1} °C",
                now as f64 / 1e3,
                trip as f64 / 1e3
            );
            return Err(Failure::new(FailureCode::LoadRefused, detail)
                .hint("let it cool, or see to its fan; no load is started within 5 °C"));
        }
    }
    Ok(())
}

/// The lowest temperature at which the kernel slows a zone down or ends the machine
/// (Documentation/driver-api/thermal/sysfs-api.rst; `active` trips only start fans).
fn trip(kernel: &Kernel, zone: &str) -> Option<i64> {
    let files = kernel.entries(zone, "trip_point_");
    let of_type = files.iter().filter_map(|file| file.strip_suffix("_type"));
    let slows = of_type.filter(|point| {
        let kind = kernel.line(&format!("{zone}/{point}_type"));
        matches!(kind.as_deref(), Ok("passive" | "hot" | "critical"))
    });
    let trips = slows.filter_map(|point| number(kernel, &format!("{zone}/{point}_temp")));
    trips.filter(|trip| *trip > 0).min()
}

fn number(kernel: &Kernel, path: &str) -> Option<i64> {
    kernel.line(path).ok()?.parse().ok()
}

/// The memory of one stressor among `stressors` of a load.
///
/// # Errors
/// `LoadRefused` when what was asked for is more than half of what is available, or the disk is full.
pub fn share(
    kernel: &Kernel,
    stressor: &dyn Stressor,
    order: &StressOrder,
    stressors: usize,
    scratch: &Path,
) -> Result<Share, Failure> {
    let available = kernel.meminfo("MemAvailable:");
    let available = available.value().and_then(|text| text.parse::<u64>().ok());
    // Half of what is there, for all stressors together.
    let most = available.map(|bytes| bytes / 2 / stressors.max(1) as u64);
    let (wanted, rule) = match stressor.room() {
        Room::None => return Ok(unused("it goes through no memory")),
        Room::Disk(bytes) => {
            check_disk(scratch, bytes)?;
            return Ok(unused(&format!("a file of {bytes} bytes")));
        }
        _ if order.working_set.is_some() => {
            let asked = order.working_set.map_or(0, |bytes| bytes.0);
            refuse_beyond(asked, most)?;
            (asked, "as asked for".to_owned())
        }
        Room::BeyondCaches => beyond_caches(kernel, u64::MAX),
        Room::BeyondCachesUpTo(most) => beyond_caches(kernel, most),
        Room::OwnCache => {
            let cpus = order.cpus.iter();
            let found: Vec<u64> = cpus.filter_map(|cpu| own_cache(kernel, *cpu)).collect();
            match found.is_empty() {
                true => (
                    USUAL_CACHE * order.cpus.len() as u64,
                    "the kernel names no cache; 512 KiB a CPU".to_owned(),
                ),
                false => (found.iter().sum(), "the caches of its own CPUs".to_owned()),
            }
        }
    };
    Ok(match most.filter(|most| *most < wanted) {
        Some(most) => Share {
            bytes: Some(Bytes(most)),
            rule: format!("{rule}, cut to half of the memory available"),
        },
        None => Share {
            bytes: Some(Bytes(wanted)),
            rule,
        },
    })
}

fn unused(rule: &str) -> Share {
    Share {
        bytes: None,
        rule: rule.into(),
    }
}

fn beyond_caches(kernel: &Kernel, most: u64) -> (u64, String) {
    let caches = last_level(kernel);
    let bytes = caches.map_or(LEAST, |caches| (TIMES_CACHES * caches).max(LEAST));
    let rule = match caches {
        None => "the kernel names no cache; 64 MiB".to_owned(),
        Some(caches) if TIMES_CACHES * caches < LEAST => {
            format!("four times {caches} bytes of last-level caches, 64 MiB at least")
        }
        Some(caches) => format!("four times {caches} bytes of last-level caches"),
    };
    match bytes > most {
        true => (most, format!("{rule}, {} MiB at most", most >> 20)),
        false => (bytes, rule),
    }
}

fn refuse_beyond(asked: u64, most: Option<u64>) -> Result<(), Failure> {
    match most.filter(|most| asked > *most) {
        None => Ok(()),
        Some(most) => {
            let detail =
                format!("a working set of {asked} bytes is more than half of the memory available");
            Err(Failure::new(FailureCode::LoadRefused, detail)
                .hint(format!("at most {most} bytes at this moment")))
        }
    }
}

fn check_disk(scratch: &Path, bytes: u64) -> Result<(), Failure> {
    let Ok(disk) = statvfs(scratch) else {
        return Ok(());
    };
    let free = disk.blocks_available() * disk.fragment_size();
    if free >= 4 * bytes {
        return Ok(());
    }
    let detail = format!("{free} bytes are free on the disk that would be written to");
    Err(Failure::new(FailureCode::LoadRefused, detail).hint(format!(
        "free {} bytes in the agent's state folder",
        4 * bytes
    )))
}

/// Bytes of all caches of the highest level, each once though many CPUs share it.
fn last_level(kernel: &Kernel) -> Option<u64> {
    let mut highest = 0;
    let mut seen: Vec<(i64, String)> = Vec::new();
    let mut bytes = 0;
    for cpu in kernel.cpus() {
        for (level, shared, size) in caches(kernel, cpu.id) {
            if level > highest {
                highest = level;
                bytes = 0;
            }
            if level == highest && !seen.contains(&(level, shared.clone())) {
                seen.push((level, shared));
                bytes += size;
            }
        }
    }
    (bytes > 0).then_some(bytes)
}

/// The second-level cache of a CPU.
fn own_cache(kernel: &Kernel, cpu: u16) -> Option<u64> {
    let caches = caches(kernel, cpu);
    let second = caches.iter().find(|(level, ..)| *level == 2);
    second.map(|(_, _, size)| *size)
}

/// Level, sharing CPUs and bytes of each cache of a CPU that holds data.
fn caches(kernel: &Kernel, cpu: u16) -> Vec<(i64, String, u64)> {
    let folder = format!("sys/devices/system/cpu/cpu{cpu}/cache");
    let one = |index: String| {
        let file = |name: &str| kernel.line(&format!("{folder}/{index}/{name}")).ok();
        let level = file("level")?.parse().ok()?;
        let holds_data = file("type").as_deref() != Some("Instruction");
        let kibibytes: u64 = file("size")?.strip_suffix('K')?.parse().ok()?;
        let shared = file("shared_cpu_list").unwrap_or_else(|| cpu.to_string());
        holds_data.then_some((level, shared, kibibytes << 10))
    };
    let indices = kernel.entries(&folder, "index").into_iter();
    indices.filter_map(one).collect()
}

#[cfg(test)]
mod tests {
    use std::fs;

    use edgedyno_shared::load::{Effort, Throttle};

    use super::super::find;
    use super::*;

    /// A tree of kernel files.
    fn tree(files: &[(&str, &str)]) -> (tempfile::TempDir, Kernel) {
        let root = tempfile::tempdir().unwrap();
        for (path, text) in files {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, format!("{text}\n")).unwrap();
        }
        let kernel = Kernel::at(root.path());
        (root, kernel)
    }

    fn cache(
        cpu: u16,
        index: u16,
        level: u16,
        kind: &str,
        size: &str,
        shared: &str,
    ) -> Vec<(String, String)> {
        let at = |file: &str| format!("sys/devices/system/cpu/cpu{cpu}/cache/index{index}/{file}");
        [
            ("level", level.to_string().as_str()),
            ("type", kind),
            ("size", size),
            ("shared_cpu_list", shared),
        ]
        .map(|(file, text)| (at(file), text.to_owned()))
        .to_vec()
    }

    /// Four CPUs in two clusters: 512 KiB second level each, 2 MiB third level a cluster.
    fn board(available_kib: u64) -> (tempfile::TempDir, Kernel) {
        let mut files = vec![
            (
                "sys/devices/system/cpu/present".to_owned(),
                "0-3".to_owned(),
            ),
            (
                "proc/meminfo".to_owned(),
                format!("MemAvailable: {available_kib} kB"),
            ),
        ];
        for cpu in 0..4 {
            let cluster = if cpu < 2 { "0-1" } else { "2-3" };
            files.extend(cache(cpu, 0, 1, "Data", "64K", &cpu.to_string()));
            files.extend(cache(cpu, 1, 1, "Instruction", "64K", &cpu.to_string()));
            files.extend(cache(cpu, 2, 2, "Unified", "512K", &cpu.to_string()));
            files.extend(cache(cpu, 3, 3, "Unified", "20480K", cluster));
        }
        let files: Vec<(&str, &str)> = files
            .iter()
            .map(|(a, b)| (a.as_str(), b.as_str()))
            .collect();
        tree(&files)
    }

    fn share_of(kernel: &Kernel, name: &str, working_set: Option<u64>) -> Result<Share, Failure> {
        let order = StressOrder {
            name: name.into(),
            method: None,
            cpus: vec![2, 3],
            effort: Effort::Full,
            throttle: Throttle::Spin,
            working_set: working_set.map(Bytes),
        };
        share(kernel, find(name).unwrap(), &order, 1, Path::new("/"))
    }

    fn bytes(share: Result<Share, Failure>) -> Option<u64> {
        share.unwrap().bytes.map(|bytes| bytes.0)
    }

    #[test]
    fn a_working_set_is_four_times_the_caches_each_counted_once() {
        let (_root, kernel) = board(8 << 20);
        // 2 x 20 MiB.
        assert_eq!(bytes(share_of(&kernel, "mem_read", None)), Some(160 << 20));
        assert_eq!(
            bytes(share_of(&kernel, "cache_thrash", None)),
            Some(1 << 20)
        );
        assert_eq!(bytes(share_of(&kernel, "chase", None)), Some(160 << 20));
        assert_eq!(bytes(share_of(&kernel, "cpu_int", None)), None);
        assert_eq!(
            bytes(share_of(&kernel, "mem_read", Some(3 << 20))),
            Some(3 << 20)
        );
    }

    #[test]
    fn a_board_that_names_no_cache_gets_sixty_four_mebibytes() {
        let (_root, kernel) = tree(&[("proc/meminfo", "MemAvailable: 8000000 kB")]);
        let share = share_of(&kernel, "mem_read", None).unwrap();
        assert_eq!(share.bytes, Some(Bytes(64 << 20)));
        assert!(share.rule.contains("no cache"), "{}", share.rule);
    }

    #[test]
    fn no_load_takes_more_than_half_of_the_memory_available() {
        let (_root, kernel) = board(200 << 10);
        let share = share_of(&kernel, "mem_read", None).unwrap();
        assert_eq!(share.bytes, Some(Bytes(100 << 20)));
        assert!(share.rule.contains("cut to half"), "{}", share.rule);
        let refused = share_of(&kernel, "mem_read", Some(101 << 20)).unwrap_err();
        assert_eq!(refused.code, FailureCode::LoadRefused);
        assert!(refused.hint.unwrap().contains("104857600"));
    }

    #[test]
    fn no_load_writes_to_a_disk_that_is_nearly_full() {
        let folder = tempfile::tempdir().unwrap();
        assert!(check_disk(folder.path(), 1).is_ok());
        let free = crate::disk::free_bytes(folder.path()).unwrap();
        // Others write there too; no disk gains a quarter of itself meanwhile.
        let refused = check_disk(folder.path(), free / 2).unwrap_err();
        assert_eq!(refused.code, FailureCode::LoadRefused);
        assert!(refused.hint.unwrap().contains("state folder"));
    }

    #[test]
    fn no_load_starts_on_a_board_that_is_nearly_too_hot() {
        let zone = "sys/class/thermal/thermal_zone0";
        let at = |temperature: &str, kind: &str| {
            let files = [
                (format!("{zone}/type"), "soc"),
                (format!("{zone}/temp"), temperature),
                (format!("{zone}/trip_point_0_type"), kind),
                (format!("{zone}/trip_point_0_temp"), "85000"),
                (format!("{zone}/trip_point_1_type"), "critical"),
                (format!("{zone}/trip_point_1_temp"), "115000"),
            ];
            let files: Vec<(&str, &str)> = files.iter().map(|(a, b)| (a.as_str(), *b)).collect();
            let (_root, kernel) = tree(&files);
            check_temperature(&kernel)
        };
        assert!(at("80000", "passive").is_ok());
        let refused = at("80001", "passive").unwrap_err();
        assert_eq!(refused.code, FailureCode::LoadRefused);
        assert!(
            refused.detail.contains("80.0 °C in zone soc"),
            "{}",
            refused.detail
        );
        // A fan that starts is no reason to wait.
        assert!(at("90000", "active").is_ok());
        assert!(check_temperature(&tree(&[]).1).is_ok());
    }
}
