//! What a load may take of a board: memory, room on disk, and warmth. Read from the kernel's files below
//! a root, so that recorded trees can be asked.

use std::path::Path;

use edgedyno_shared::load::{Effort, Load, StressOrder};
use edgedyno_shared::units::{Bytes, Nanos};
use edgedyno_shared::wire::failure::{Failure, FailureCode};

use super::{Room, Stressor, find};
use crate::disk;
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
    let (wanted, rule) = match stressor.room_for(order) {
        Room::None => return Ok(unused("it goes through no memory")),
        Room::Disk(bytes) => {
            let threads = order.cpus.len().max(1) as u64;
            check_disk(scratch, bytes * threads)?;
            let rule = format!("{threads} × a file of {}", Bytes(bytes));
            return Ok(unused(&rule));
        }
        _ if order.working_set.is_some() => {
            let asked = order.working_set.map_or(0, |bytes| bytes.0);
            refuse_beyond(asked, most)?;
            (asked, "as asked for".to_owned())
        }
        Room::BeyondCaches => beyond_caches(kernel, u64::MAX),
        Room::BeyondCachesUpTo(most) => beyond_caches(kernel, most),
        Room::OwnCache => match own_caches(kernel, &order.cpus) {
            None => (
                USUAL_CACHE * order.cpus.len() as u64,
                "the kernel names no cache; 512 KiB a CPU".to_owned(),
            ),
            Some(bytes) => (
                bytes,
                "the second-level caches of its own CPUs, each once".to_owned(),
            ),
        },
    };
    let (bytes, rule) = match most.filter(|most| *most < wanted) {
        Some(most) => (most, format!("{rule}, cut to half of the memory available")),
        None => (wanted, rule),
    };
    refuse_below(stressor, bytes)?;
    Ok(Share {
        bytes: Some(Bytes(bytes)),
        rule,
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
            format!(
                "four times the {} of last-level caches, 64 MiB at least",
                Bytes(caches)
            )
        }
        Some(caches) => format!("four times the {} of last-level caches", Bytes(caches)),
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
            let detail = format!(
                "a working set of {} is more than half of the memory available",
                Bytes(asked)
            );
            Err(Failure::new(FailureCode::LoadRefused, detail)
                .hint(format!("at most {} MiB at this moment", most >> 20)))
        }
    }
}

/// A tool that takes more than it is given would take it from everybody.
fn refuse_below(stressor: &dyn Stressor, bytes: u64) -> Result<(), Failure> {
    let least = stressor.least();
    if bytes >= least {
        return Ok(());
    }
    let name = stressor.name();
    let detail = format!("{name} goes through {least} bytes at least, and may take {bytes} here");
    Err(Failure::new(FailureCode::LoadRefused, detail)
        .hint("give it a larger working set, or free memory on the board"))
}

fn check_disk(scratch: &Path, bytes: u64) -> Result<(), Failure> {
    let Ok(free) = disk::free_bytes(scratch) else {
        return Ok(());
    };
    if free >= 4 * bytes {
        return Ok(());
    }
    let detail = format!(
        "{} are free on the disk that would be written to",
        Bytes(free)
    );
    Err(Failure::new(FailureCode::LoadRefused, detail).hint(format!(
        "free {} in the agent's state folder, or give the load fewer CPUs",
        Bytes(4 * bytes)
    )))
}

/// Refuses a load that would do more than its stressors may, as far as that is known before: what wears
/// something out has a bound for each second and for each repeat.
///
/// # Errors
/// `LoadRefused`, with the rate that would be borne.
pub fn check_wear(load: &Load, window: Nanos) -> Result<(), Failure> {
    let span = (load.settle + window).as_secs_f64();
    let bounded = load.stressors.iter().filter_map(|order| {
        let most = find(&order.name)?.most()?;
        Some((order, most))
    });
    let mut names: Vec<&str> = Vec::new();
    for (order, most) in bounded {
        let refuse = |detail: String, hint: String| {
            Err(Failure::new(FailureCode::LoadRefused, detail).hint(hint))
        };
        let name = order.name.as_str();
        if names.contains(&name) {
            let detail = format!("{name} is twice in one load, and its bounds are for all of it");
            return refuse(detail, format!("name all its CPUs in one: {name}:cpu1-2"));
        }
        names.push(name);
        let per_second = match order.effort {
            // It is held to its bound, and ends when it has done all it may.
            Effort::Full => continue,
            // How much that is nobody knows before.
            Effort::Duty { .. } => {
                let detail = format!(
                    "{name} works by bytes a second, and not for a share of the time: {}",
                    most.why
                );
                return refuse(detail, format!("name a rate, such as {name}:cpu1@2MB/s"));
            }
            Effort::Rate { per_second } => per_second,
        };
        let per_second = per_second as f64;
        let borne = (most.in_all as f64 / span).min(most.per_second as f64);
        if per_second > borne {
            let detail = format!(
                "{name} is to write {:.1} MB/s for {span:.1} s or longer; a repeat bears {:.1} MB/s and {} MiB in all: {}",
                per_second / 1e6,
                most.per_second as f64 / 1e6,
                most.in_all >> 20,
                most.why
            );
            let hint = format!("at most {:.1} MB/s here, or a shorter window", borne / 1e6);
            return refuse(detail, hint);
        }
    }
    Ok(())
}

/// Bytes of all caches of the highest level, each once though many CPUs share it.
fn last_level(kernel: &Kernel) -> Option<u64> {
    let all = kernel.cpus().into_iter();
    let all: Vec<Cache> = all.flat_map(|cpu| caches(kernel, cpu.id)).collect();
    let highest = all.iter().map(|cache| cache.level).max()?;
    of_level(&all, highest)
}

/// Bytes of the second-level caches of some CPUs, each once.
fn own_caches(kernel: &Kernel, cpus: &[u16]) -> Option<u64> {
    let all = cpus.iter().flat_map(|cpu| caches(kernel, *cpu));
    of_level(&all.collect::<Vec<Cache>>(), 2)
}

/// Two CPUs that share a cache both name it, with the same list of those that share it.
fn of_level(all: &[Cache], level: i64) -> Option<u64> {
    let mut seen: Vec<&str> = Vec::new();
    let mut bytes = 0;
    for cache in all.iter().filter(|cache| cache.level == level) {
        if !seen.contains(&cache.shared.as_str()) {
            seen.push(&cache.shared);
            bytes += cache.bytes;
        }
    }
    (bytes > 0).then_some(bytes)
}

/// A cache that holds data, as one of its CPUs sees it.
struct Cache {
    level: i64,
    /// The CPUs that share it.
    shared: String,
    bytes: u64,
}

fn caches(kernel: &Kernel, cpu: u16) -> Vec<Cache> {
    let folder = format!("sys/devices/system/cpu/cpu{cpu}/cache");
    let one = |index: String| {
        let file = |name: &str| kernel.line(&format!("{folder}/{index}/{name}")).ok();
        let level = file("level")?.parse().ok()?;
        let holds_data = file("type").as_deref() != Some("Instruction");
        let kibibytes: u64 = file("size")?.strip_suffix('K')?.parse().ok()?;
        let shared = file("shared_cpu_list").unwrap_or_else(|| cpu.to_string());
        holds_data.then_some(Cache {
            level,
            shared,
            bytes: kibibytes << 10,
        })
    };
    let indices = kernel.entries(&folder, "index").into_iter();
    indices.filter_map(one).collect()
}

#[cfg(test)]
mod tests {
    use std::fs;

    use edgedyno_shared::load::{Effort, Throttle};

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

    fn order(name: &str, effort: Effort) -> StressOrder {
        StressOrder {
            name: name.into(),
            method: None,
            cpus: vec![2, 3],
            effort,
            throttle: Throttle::Spin,
            working_set: None,
        }
    }

    fn share_of(kernel: &Kernel, name: &str, working_set: Option<u64>) -> Result<Share, Failure> {
        let order = StressOrder {
            working_set: working_set.map(Bytes),
            ..order(name, Effort::Full)
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
    fn a_second_level_cache_that_cpus_share_is_gone_through_once() {
        // Two clusters of two: 1 MiB for both of the first, 256 KiB for each of the second.
        let mut files = vec![(
            "proc/meminfo".to_owned(),
            "MemAvailable: 8000000 kB".to_owned(),
        )];
        for cpu in 0..2 {
            files.extend(cache(cpu, 0, 1, "Data", "64K", &cpu.to_string()));
            files.extend(cache(cpu, 2, 2, "Unified", "1024K", "0-1"));
        }
        for cpu in 2..4 {
            files.extend(cache(cpu, 2, 2, "Unified", "256K", &cpu.to_string()));
        }
        let files: Vec<(&str, &str)> = files
            .iter()
            .map(|(a, b)| (a.as_str(), b.as_str()))
            .collect();
        let (_root, kernel) = tree(&files);
        for (cpus, kibibytes) in [
            (&[0_u16][..], 1024),
            (&[0, 1], 1024),
            (&[2, 3], 512),
            (&[0, 1, 2, 3], 1536),
        ] {
            let order = StressOrder {
                cpus: cpus.to_vec(),
                ..order("cache_thrash", Effort::Full)
            };
            let kind = find("cache_thrash").unwrap();
            let share = share(&kernel, kind, &order, 1, Path::new("/"));
            assert_eq!(bytes(share), Some(kibibytes << 10), "{cpus:?}");
        }
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
        assert!(refused.hint.unwrap().contains("100 MiB"));
    }

    #[test]
    fn a_tool_that_goes_through_memory_is_under_the_cap_too() {
        // 40 MiB are available, and half of that may be taken.
        let (_root, kernel) = board(40 << 10);
        let ng = |method: Option<&str>, working_set: Option<u64>| {
            let order = StressOrder {
                method: method.map(str::to_owned),
                working_set: working_set.map(Bytes),
                ..order("stress-ng", Effort::Full)
            };
            share(
                &kernel,
                find("stress-ng").unwrap(),
                &order,
                1,
                Path::new("/"),
            )
        };
        for method in [None, Some("stream"), Some("vm"), Some("memrate")] {
            assert_eq!(bytes(ng(method, None)), Some(20 << 20), "{method:?}");
            assert_eq!(bytes(ng(method, Some(9 << 20))), Some(9 << 20));
            let refused = ng(method, Some(21 << 20)).unwrap_err();
            assert_eq!(refused.code, FailureCode::LoadRefused);
        }
        assert_eq!(bytes(ng(Some("memcpy"), None)), None);
    }

    #[test]
    fn a_tool_is_not_started_with_less_than_it_takes() {
        let (_root, kernel) = board(40 << 10);
        assert_eq!(
            bytes(share_of(&kernel, "stressapptest", None)),
            Some(20 << 20)
        );
        // Half of 30 MiB is less than its 16.
        let (_root, kernel) = board(30 << 10);
        for asked in [None, Some(1 << 20)] {
            let refused = share_of(&kernel, "stressapptest", asked).unwrap_err();
            assert_eq!(refused.code, FailureCode::LoadRefused);
            assert!(
                refused.detail.contains("16777216 bytes at least"),
                "{refused:?}"
            );
        }
    }

    #[test]
    fn no_load_writes_to_a_disk_that_is_nearly_full() {
        let folder = tempfile::tempdir().unwrap();
        assert!(check_disk(folder.path(), 1).is_ok());
        let free = disk::free_bytes(folder.path()).unwrap();
        // Others write there too; no disk gains a quarter of itself meanwhile.
        let refused = check_disk(folder.path(), free / 2).unwrap_err();
        assert_eq!(refused.code, FailureCode::LoadRefused);
        assert!(refused.hint.unwrap().contains("state folder"));
    }

    #[test]
    fn a_disk_has_room_for_the_file_of_every_thread() {
        let folder = tempfile::tempdir().unwrap();
        let (_root, kernel) = board(8 << 20);
        let share_of = |threads: u64| {
            let order = StressOrder {
                cpus: vec![0; usize::try_from(threads).unwrap()],
                ..order("io", Effort::Full)
            };
            share(&kernel, find("io").unwrap(), &order, 1, folder.path())
        };
        // 64 MiB for each, four times as much kept free.
        let free = disk::free_bytes(folder.path()).unwrap();
        let too_many = 2 * free / (4 * (64 << 20)) + 1;
        let refused = share_of(too_many).unwrap_err();
        assert_eq!(refused.code, FailureCode::LoadRefused);
        if free > 4 << 30 {
            let rule = share_of(2).unwrap().rule;
            assert_eq!(rule, "2 × a file of 64 MiB");
        }
    }

    #[test]
    fn no_load_wears_a_disk_out() {
        // 8 GiB in a repeat and 200 MB/s; settling takes a second of the 80 here.
        let load = |orders: &[StressOrder]| Load {
            stressors: orders.to_vec(),
            settle: Nanos::from_secs(1),
        };
        let window = Nanos::from_secs(79);
        let check = |orders: &[StressOrder]| check_wear(&load(orders), window);
        let rate = |name, per_second| order(name, Effort::Rate { per_second });
        // 8589934592 / 80 is 107.4 MB/s.
        assert!(check(&[rate("io", 107_000_000)]).is_ok());
        let refused = check(&[rate("io", 108_000_000)]).unwrap_err();
        assert_eq!(refused.code, FailureCode::LoadRefused);
        assert!(refused.detail.contains("80.0 s"), "{}", refused.detail);
        assert!(
            refused.hint.as_deref().unwrap().contains("107.4 MB/s"),
            "{refused:?}"
        );
        let short = check_wear(&load(&[rate("io", 200_000_001)]), Nanos::from_millis(100));
        let hint = short.unwrap_err().hint.unwrap();
        assert!(hint.contains("200.0 MB/s"), "{hint}");
        // At full effort it is held to its bound; memory has none.
        let full = order("io", Effort::Full);
        assert!(check(std::slice::from_ref(&full)).is_ok());
        assert!(check(&[rate("mem_read", 40_000_000_000)]).is_ok());
        // However small a share of the time: it has no bound for a second.
        let share = order("io", Effort::Duty { ppm: 1 });
        let refused = check(&[share]).unwrap_err();
        assert_eq!(refused.code, FailureCode::LoadRefused);
        assert!(refused.hint.unwrap().contains("rate"));
        assert!(check(&[order("cpu_int", Effort::Duty { ppm: 500_000 })]).is_ok());
        let twice = check(&[full.clone(), full]).unwrap_err();
        assert!(twice.hint.unwrap().contains("io:cpu1-2"));
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
