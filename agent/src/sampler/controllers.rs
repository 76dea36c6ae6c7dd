//! Event sources that count traffic of memory: one row for each, as the kernel names them and their events.
//!
//! Names, terms and bytes: drivers in the kernel (drivers/perf, arch/x86/events), Documentation/admin-guide/
//! perf, and the metrics of perf (tools/perf/pmu-events). Tried on none of these but by their descriptions.

use edgedyno_shared::telemetry::Fidelity;

use super::board::Board;

/// A source: how its name begins, which boards it means, and its events.
pub(super) struct Controller {
    pub(super) prefix: &'static str,
    only: Only,
    pub(super) sees: Sees,
    pub(super) fidelity: Fidelity,
    /// What names the event, what it counts, and bytes for one count where no scale file tells; a count that
    /// is in another one is taken off it. Events of one way are added up.
    ///
    /// An event is named as in the source's own list, with more terms behind where that needs them; a source
    /// that lists none gets the terms alone.
    pub(super) events: &'static [(&'static str, Way, Option<i64>)],
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Way {
    Read,
    Write,
    Both,
}

/// How much of a board's traffic a source sees. Only whole ones may be added up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Sees {
    /// All that goes to its memory.
    Whole,
    /// What some master moved, or what goes by a place before the memory.
    Part,
}

/// Where sources of one name count differently.
enum Only {
    Any,
    /// The source's `identifier` is one of these.
    Named(&'static [&'static str]),
    /// Family and model of the processor.
    Processor(fn(u32, u32) -> bool),
}

pub(super) const SOURCES: &str = "sys/bus/event_source/devices";

/// Rows that hold for fewer boards stand before those of the same name that hold for all others.
const CONTROLLERS: [Controller; 22] = [
    whole(
        "uncore_imc_free_running",
        &[
            ("data_read", Way::Read, None),
            ("data_write", Way::Write, None),
        ],
    ),
    whole(
        "uncore_imc",
        &[
            ("cas_count_read", Way::Read, Some(64)),
            ("cas_count_write", Way::Write, Some(64)),
            // Two subchannels a controller, on Granite Rapids and later.
            ("cas_count_read_sch0", Way::Read, Some(64)),
            ("cas_count_read_sch1", Way::Read, Some(64)),
            ("cas_count_write_sch0", Way::Write, Some(64)),
            ("cas_count_write_sch1", Way::Write, Some(64)),
            ("data_reads", Way::Read, None),
            ("data_writes", Way::Write, None),
        ],
    ),
    // Zen 4 and later, one a channel. The kernel lists no events of it: perf carries them along (umc_cas_cmd.rd
    // and .wr of its amdzen4/memory-controller.json).
    whole(
        "amd_umc",
        &[
            ("event=0x0a,rdwrmask=0x1", Way::Read, Some(64)),
            ("event=0x0a,rdwrmask=0x2", Way::Write, Some(64)),
        ],
    ),
    // Zen to Zen 3 list no events; perf's metric of their DRAM channels calls itself approximate. Servers
    // have eight channels a die; of the others only the first two are known to be channels.
    Controller {
        only: Only::Processor(is_eight_channel_zen),
        fidelity: Fidelity::Estimated,
        ..whole("amd_df", &DRAM_CHANNELS)
    },
    Controller {
        only: Only::Processor(is_two_channel_zen),
        fidelity: Fidelity::Estimated,
        ..whole("amd_df", &FIRST_CHANNELS)
    },
    whole(
        "rockchip_ddr",
        &[
            ("read-bytes", Way::Read, None),
            ("write-bytes", Way::Write, None),
        ],
    ),
    // 16 bits of memory instead of 32.
    Controller {
        only: Only::Named(&["i.MX8MN"]),
        ..whole(
            "imx8_ddr",
            &[
                ("read-cycles", Way::Read, Some(8)),
                ("write-cycles", Way::Write, Some(8)),
            ],
        )
    },
    whole(
        "imx8_ddr",
        &[
            ("read-cycles", Way::Read, Some(16)),
            ("write-cycles", Way::Write, Some(16)),
        ],
    ),
    // Its first driver puts an event without a counter of its own on the counter of cycles.
    Controller {
        only: Only::Named(&["imx93", "imx91"]),
        ..whole(
            "imx9_ddr",
            &[
                ("ddrc_pm_0,counter=1", Way::Read, Some(16)),
                ("ddrc_pm_3,counter=3", Way::Write, Some(32)),
                ("ddrc_pm_5,counter=5", Way::Write, Some(32)),
                ("ddrc_pm_7,counter=7", Way::Write, Some(32)),
                ("ddrc_pm_9,counter=9", Way::Write, Some(32)),
                ("ddrc_pm_2,counter=2", Way::Write, Some(-32)),
                ("ddrc_pm_4,counter=4", Way::Write, Some(-32)),
                ("ddrc_pm_6,counter=6", Way::Write, Some(-32)),
                ("ddrc_pm_8,counter=8", Way::Write, Some(-32)),
            ],
        )
    },
    // i.MX94 and i.MX95, of all masters where no mask is given.
    whole(
        "imx9_ddr",
        &[
            ("eddrtq_pm_rd_beat_filt0", Way::Read, Some(32)),
            ("eddrtq_pm_wr_beat_filt", Way::Write, Some(32)),
        ],
    ),
    whole("meson_ddr_bw", &[("total_rw_bytes", Way::Both, Some(1))]),
    whole(
        "hisi_sccl",
        &[
            ("flux_rd", Way::Read, Some(32)),
            ("flux_wr", Way::Write, Some(32)),
        ],
    ),
    whole(
        "mrvl_ddr_pmu",
        &[
            ("ddr_ddr_reads", Way::Read, Some(64)),
            ("ddr_ddr_writes", Way::Write, Some(64)),
        ],
    ),
    // A burst of eight on 64 bits.
    whole("arm_dmc620", &[("clkdiv2_rdwr", Way::Both, Some(64))]),
    whole(
        "ali_drw",
        &[
            ("hif_rd", Way::Read, Some(64)),
            ("hif_wr", Way::Write, Some(64)),
            ("hif_rmw", Way::Write, Some(64)),
        ],
    ),
    // A burst of sixteen on 32 bits.
    whole(
        "ampere_mcu_pmu",
        &[
            ("rd_rda_sent", Way::Read, Some(64)),
            ("wr_wra_sent", Way::Write, Some(64)),
        ],
    ),
    // A line for each request of the mesh's cache slices to their memory controllers.
    part("arm_cmn", &[("hnf_mc_reqs", Way::Both, Some(64))]),
    // What a cluster of cores fetched into its cache, and wrote back from it.
    part(
        "arm_dsu",
        &[
            ("l3d_cache_refill", Way::Read, Some(64)),
            ("l3d_cache_wb", Way::Write, Some(64)),
        ],
    ),
    // CPUs and their memory: a read is told in beats of 32 bytes, a write in bytes (NVIDIA's guide to measuring
    // Grace's performance).
    part(
        "nvidia_scf_pmu",
        &[
            ("cmem_rd_data", Way::Read, Some(32)),
            ("cmem_wr_total_bytes", Way::Write, Some(1)),
        ],
    ),
    part("nvidia_pcie_pmu", &FABRIC),
    part("nvidia_nvlink_c2c", &FABRIC),
    part("nvidia_cnvlink_pmu", &FABRIC),
];

const DRAM_CHANNELS: [(&str, Way, Option<i64>); 8] = [
    ("event=0x07,umask=0x38", Way::Both, Some(64)),
    ("event=0x47,umask=0x38", Way::Both, Some(64)),
    ("event=0x87,umask=0x38", Way::Both, Some(64)),
    ("event=0xc7,umask=0x38", Way::Both, Some(64)),
    ("event=0x107,umask=0x38", Way::Both, Some(64)),
    ("event=0x147,umask=0x38", Way::Both, Some(64)),
    ("event=0x187,umask=0x38", Way::Both, Some(64)),
    ("event=0x1c7,umask=0x38", Way::Both, Some(64)),
];

const FIRST_CHANNELS: [(&str, Way, Option<i64>); 2] = [DRAM_CHANNELS[0], DRAM_CHANNELS[1]];

const FABRIC: [(&str, Way, Option<i64>); 4] = [
    ("rd_bytes_loc", Way::Read, Some(1)),
    ("rd_bytes_rem", Way::Read, Some(1)),
    ("wr_bytes_loc", Way::Write, Some(1)),
    ("wr_bytes_rem", Way::Write, Some(1)),
];

const fn whole(
    prefix: &'static str,
    events: &'static [(&'static str, Way, Option<i64>)],
) -> Controller {
    Controller {
        prefix,
        only: Only::Any,
        sees: Sees::Whole,
        fidelity: Fidelity::Measured,
        events,
    }
}

const fn part(
    prefix: &'static str,
    events: &'static [(&'static str, Way, Option<i64>)],
) -> Controller {
    Controller {
        sees: Sees::Part,
        fidelity: Fidelity::Estimated,
        ..whole(prefix, events)
    }
}

/// The row of a source of this board; none for one that counts something else.
pub(super) fn row(board: &Board, source: &str) -> Option<&'static Controller> {
    static ROWS: [Controller; CONTROLLERS.len()] = CONTROLLERS;
    let mut named = ROWS.iter().filter(|row| source.starts_with(row.prefix));
    named.find(|row| match row.only {
        Only::Any => true,
        Only::Named(names) => {
            let own = board.line(&format!("{SOURCES}/{source}/identifier"));
            own.is_some_and(|own| names.contains(&own.as_str()))
        }
        Only::Processor(is_it) => {
            processor(board).is_some_and(|(family, model)| is_it(family, model))
        }
    })
}

/// How the names of all known sources begin.
#[cfg(test)]
pub(super) fn prefixes() -> [&'static str; CONTROLLERS.len()] {
    CONTROLLERS.map(|row| row.prefix)
}

/// Processors whose perf metrics name these events: tools/perf/pmu-events/arch/x86/mapfile.csv, up to Zen 3.
fn is_zen(family: u32, model: u32) -> bool {
    match family {
        0x17 => true,
        0x19 => matches!(model, 0x00..=0x0f | 0x20..=0x2f | 0x40..=0x5f),
        _ => false,
    }
}

/// EPYC 7002 and 7003, and what is built like them.
fn is_eight_channel_zen(family: u32, model: u32) -> bool {
    matches!((family, model), (0x17, 0x30..=0x3f) | (0x19, 0x00..=0x0f))
}

fn is_two_channel_zen(family: u32, model: u32) -> bool {
    is_zen(family, model) && !is_eight_channel_zen(family, model)
}

/// Family and model of the first processor.
fn processor(board: &Board) -> Option<(u32, u32)> {
    // Some 1.5 KiB for each of up to hundreds.
    let mut file = board.keep("proc/cpuinfo", 1 << 20);
    let text = String::from_utf8_lossy(file.text().ok()?).into_owned();
    let figure = |name: &str| {
        let mut lines = text.lines().filter_map(|line| line.split_once(':'));
        let (_, value) = lines.find(|(key, _)| key.trim() == name)?;
        value.trim().parse().ok()
    };
    Some((figure("cpu family")?, figure("model")?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sampler::testing::Tree;

    fn cpuinfo(family: u32, model: u32) -> String {
        format!(
            "processor\t: 0\nvendor_id\t: AuthenticAMD\ncpu family\t: {family}\nmodel\t\t: {model}\nmodel name\t: AMD\n\n"
        )
    }

    #[test]
    fn no_row_is_hidden_by_one_before_it() {
        for (at, row) in CONTROLLERS.iter().enumerate() {
            let hides = |before: &&Controller| {
                matches!(before.only, Only::Any) && row.prefix.starts_with(before.prefix)
            };
            let hidden_by = CONTROLLERS[..at].iter().find(hides);
            assert!(hidden_by.is_none(), "{}", row.prefix);
            assert!(!row.events.is_empty(), "{}", row.prefix);
        }
    }

    #[test]
    fn an_amd_fabric_is_read_on_processors_whose_events_are_known() {
        let events = |family, model| {
            let tree = Tree::with(&[("proc/cpuinfo", &cpuinfo(family, model))]);
            row(&tree.board(), "amd_df").map(|row| row.events.len())
        };
        // Rome, Milan; then Summit Ridge, Matisse, Cezanne; then Genoa, Phoenix and Zen 5.
        assert_eq!([events(0x17, 0x31), events(0x19, 0x01)], [Some(8); 2]);
        let clients = [(0x17, 0x01), (0x17, 0x71), (0x19, 0x50)];
        assert_eq!(clients.map(|(f, m)| events(f, m)), [Some(2); 3]);
        let later = [(0x19, 0x11), (0x19, 0x74), (0x1a, 0x44)];
        assert_eq!(later.map(|(f, m)| events(f, m)), [None; 3]);
        assert!(row(&Tree::with(&[]).board(), "amd_df").is_none());
    }

    #[test]
    fn boards_of_one_driver_differ_by_what_it_calls_itself() {
        let first = |source: &str, identifier: &str| {
            let path = format!("{SOURCES}/{source}/identifier");
            let tree = Tree::with(&[(&path, identifier)]);
            row(&tree.board(), source).unwrap().events[0]
        };
        let read = |name, bytes| (name, Way::Read, Some(bytes));
        assert_eq!(first("imx8_ddr0", "i.MX8MN\n"), read("read-cycles", 8));
        assert_eq!(first("imx8_ddr0", "i.MX8MP\n"), read("read-cycles", 16));
        assert_eq!(
            first("imx9_ddr0", "imx93\n"),
            read("ddrc_pm_0,counter=1", 16)
        );
        assert_eq!(
            first("imx9_ddr0", "imx95\n"),
            read("eddrtq_pm_rd_beat_filt0", 32)
        );
        // A kernel of before the file was there.
        let old = row(&Tree::with(&[]).board(), "imx8_ddr0").unwrap();
        assert_eq!(old.events[0], read("read-cycles", 16));
    }
}
