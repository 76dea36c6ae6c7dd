//! The files that the helper opens, and no others.

use std::path::{Path, PathBuf};

/// Below the board's root. `*` stands for a part of a name.
const FILES: &[&str] = &[
    // Rockchip's driver: https://github.com/rockchip-linux/kernel, drivers/rknpu/rknpu_debugger.c.
    "sys/kernel/debug/rknpu/load",
    "proc/rknpu/load",
    // NVIDIA's activity monitor and memory clock, by the age of the kernel.
    "sys/kernel/debug/cactmon/mc_all",
    "sys/kernel/debug/bpmp/debug/actmon/mc_all_avg_activity",
    "sys/kernel/debug/bpmp/debug/clk/emc/rate",
    "sys/kernel/debug/clk/override.emc/clk_rate",
    "sys/kernel/debug/clk/emc/clk_rate",
    // Root's alone since Linux 5.10, CVE-2020-8694.
    "sys/class/powercap/intel-rapl:*/energy_uj",
    // Any user's on most kernels; some vendors close them.
    "sys/class/thermal/thermal_zone*/temp",
];

/// Longer than any name of the kernel's.
const LONGEST_NAME: usize = 64;

/// One of [`FILES`], with what stands for its `*`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Grant {
    pub(super) row: u8,
    pub(super) name: String,
}

impl Grant {
    /// The grant for a path below the board's root, when there is one.
    pub(super) fn of(path: &str) -> Option<Self> {
        (0_u8..).zip(FILES).find_map(|(row, pattern)| {
            let name = match pattern.split_once('*') {
                None => (path == *pattern).then_some("")?,
                Some((before, after)) => path.strip_prefix(before)?.strip_suffix(after)?,
            };
            let name = name.to_owned();
            Some(Self { row, name }).filter(|grant| grant.path(Path::new("")).is_some())
        })
    }

    /// The file, when it is one of the list: made from the list's own text, never from what was sent.
    pub(super) fn path(&self, root: &Path) -> Option<PathBuf> {
        let pattern = FILES.get(usize::from(self.row))?;
        let path = match pattern.split_once('*') {
            None => self.name.is_empty().then(|| (*pattern).to_owned())?,
            Some((before, after)) => {
                is_part_of_name(&self.name).then(|| format!("{before}{}{after}", self.name))?
            }
        };
        Some(root.join(path))
    }
}

/// No slash and no dot: nothing leads anywhere else.
fn is_part_of_name(text: &str) -> bool {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, ':' | '_' | '-');
    (1..=LONGEST_NAME).contains(&text.len()) && text.chars().all(is_plain)
}

/// What lets the agent read a source that is denied to it, when the helper could: the words for a channel's
/// reason.
pub(crate) fn remedy(source: &str) -> Option<&'static str> {
    const REMEDY: &str =
        "started by root as `edgedyno-agent serve --run-as USER` the agent can read it";
    let is_file = || Grant::of(source.strip_prefix('/')?);
    let is_counter = source.starts_with("perf ") || source.starts_with("perf_event_open");
    (is_counter || is_file().is_some()).then_some(REMEDY)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_path_of_the_list_has_its_grant_and_comes_back() {
        for (path, name) in [
            ("sys/kernel/debug/rknpu/load", ""),
            ("sys/class/powercap/intel-rapl:0:1/energy_uj", "0:1"),
            ("sys/class/thermal/thermal_zone12/temp", "12"),
        ] {
            let grant = Grant::of(path).unwrap();
            assert_eq!(grant.name, name, "{path}");
            assert_eq!(grant.path(Path::new("/")), Some(Path::new("/").join(path)));
        }
    }

    #[test]
    fn every_other_path_has_none() {
        for path in [
            "etc/shadow",
            "sys/kernel/debug/rknpu/load/../../../../../etc/shadow",
            "sys/class/thermal/thermal_zone0/../../../etc/shadow/temp",
            "sys/class/thermal/thermal_zone/temp",
            "sys/class/thermal/thermal_zone0/mode",
            "/sys/kernel/debug/rknpu/load",
            "",
        ] {
            assert_eq!(Grant::of(path), None, "{path}");
        }
    }

    proptest! {
        /// Whatever is asked for, what is opened is a file of the list with a plain name in it.
        #[test]
        fn nothing_leads_out_of_the_list(row: u8, name in ".{0,80}|[.a/]{0,8}") {
            let grant = Grant { row, name: name.clone() };
            if let Some(path) = grant.path(Path::new("/")) {
                let path = path.to_str().unwrap();
                prop_assert!(!path.contains("..") && !path.contains("//"));
                let pattern = FILES[usize::from(row)];
                prop_assert_eq!(path.matches('/').count(), pattern.matches('/').count() + 1);
                prop_assert_eq!(path, format!("/{}", pattern.replace('*', &name)));
            }
        }
    }

    /// A file of debugfs that a sampler reads and the list lacks would be denied for ever.
    #[test]
    fn samplers_read_nothing_of_debugfs_that_the_list_lacks() {
        let sources = include_str!("../sampler/accelerators.rs");
        let (code, _) = sources.split_once("#[cfg(test)]").unwrap();
        // Folders that are only looked for have one part less.
        let is_file =
            |text: &&str| text.starts_with("sys/kernel/debug/") && text.matches('/').count() > 3;
        let paths = code.split('"').filter(is_file);
        let paths: Vec<&str> = paths.collect();
        assert!(paths.len() >= 6, "{paths:?}");
        for path in paths {
            assert!(Grant::of(path).is_some(), "{path}");
        }
    }

    #[test]
    fn a_denied_source_has_a_remedy_where_the_helper_has_one() {
        assert!(
            remedy("/sys/kernel/debug/rknpu/load")
                .unwrap()
                .contains("--run-as")
        );
        assert!(remedy("perf rockchip_ddr/read-bytes/").is_some());
        assert_eq!(remedy("/proc/7/smaps_rollup"), None);
    }
}
