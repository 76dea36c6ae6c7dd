//! Kind and width of the board's memory, where somebody tells.

use std::fs;
use std::io;
use std::path::Path;

use edgedyno_shared::device::Reading;

/// D-Robotics S series: the kind in words.
const BOARD_INFO: &str = "sys/class/boardinfo/ddr_type";
/// D-Robotics X3: the kind as a number of its own.
const SOC_INFO: &str = "sys/class/socinfo/ddr_type";
const TREE: &str = "proc/device-tree";
const DMI: &str = "sys/firmware/dmi/entries";

/// `LPDDR4, 2 x 32 bit`: the first of device tree, vendor's file and firmware table that tells.
pub(crate) fn kind(root: &Path) -> Reading {
    if let Some(text) = of_tree(root).or_else(|| of_vendor(root)) {
        return Reading::Ok(text);
    }
    match of_firmware(root) {
        Ok(Some(text)) => Reading::Ok(text),
        Err(why) if why.kind() == io::ErrorKind::PermissionDenied => {
            Reading::Denied(format!("/{DMI}/17-*/raw: {why}; root may read it"))
        }
        _ => Reading::Absent(
            "neither device tree nor firmware (DMI) nor a vendor's file tells of it".into(),
        ),
    }
}

/// Channels of LPDDR: Linux, Documentation/devicetree/bindings/memory-controllers/ddr/
/// jedec,lpddr-channel.yaml.
fn of_tree(root: &Path) -> Option<String> {
    let tree = root.join(TREE);
    let mut modules = Vec::new();
    for name in names(&tree, "lpddr").ok()? {
        let node = tree.join(name);
        let Ok(compatible) = fs::read_to_string(node.join("compatible")) else {
            continue;
        };
        let kind = compatible
            .split(['\0', '\n'])
            .find_map(|word| word.strip_prefix("jedec,")?.strip_suffix("-channel"));
        let Some(kind) = kind else { continue };
        let width = fs::read(node.join("io-width")).ok();
        let width = width.and_then(|bytes| Some(u32::from_be_bytes(bytes.try_into().ok()?)));
        modules.push(Module {
            kind: kind.to_uppercase(),
            bits: width,
            transfers: None,
        });
    }
    told(&modules)
}

fn of_vendor(root: &Path) -> Option<String> {
    let line = |path: &str| {
        let text = fs::read_to_string(root.join(path)).ok()?;
        Some(text.trim().to_owned()).filter(|text| !text.is_empty())
    };
    if let Some(text) = line(BOARD_INFO) {
        return Some(text.to_uppercase());
    }
    match line(SOC_INFO)?.as_str() {
        "1" => Some("LPDDR4".into()),
        "3" => Some("DDR4".into()),
        _ => None,
    }
}

/// Tables of memory devices: SMBIOS (DMTF DSP0134), 7.18, type 17. They hold serial numbers, so the kernel
/// shows them to root only.
fn of_firmware(root: &Path) -> io::Result<Option<String>> {
    let folder = root.join(DMI);
    let mut modules = Vec::new();
    for name in names(&folder, "17-")? {
        modules.extend(module(&fs::read(folder.join(name).join("raw"))?));
    }
    Ok(told(&modules))
}

/// A module or a chip's channel.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Module {
    kind: String,
    bits: Option<u32>,
    /// Millions a second.
    transfers: Option<u16>,
}

/// One table; none for a slot without a module.
fn module(table: &[u8]) -> Option<Module> {
    let word = |at: usize| {
        let bytes = table.get(at..at + 2)?;
        Some(u16::from_le_bytes([bytes[0], bytes[1]]))
    };
    let size = word(0x0c)?;
    let kind = match table.get(0x12)? {
        0x12 => "DDR",
        0x13 => "DDR2",
        0x18 => "DDR3",
        0x1a => "DDR4",
        0x1b => "LPDDR",
        0x1c => "LPDDR2",
        0x1d => "LPDDR3",
        0x1e => "LPDDR4",
        0x20 => "HBM",
        0x21 => "HBM2",
        0x22 => "DDR5",
        0x23 => "LPDDR5",
        0x24 => "HBM3",
        _ => return None,
    };
    let is_known = |value: &u16| !matches!(value, 0 | 0xffff);
    // What it runs at stands behind what it could, in tables that are long enough.
    let is_long = usize::from(*table.get(1)?) >= 0x22;
    let speed = if is_long { word(0x20) } else { word(0x15) };
    (size != 0).then(|| Module {
        kind: kind.into(),
        bits: word(0x0a).filter(is_known).map(u32::from),
        transfers: speed.filter(is_known),
    })
}

/// Modules of one sort are counted; of several sorts each is named.
fn told(modules: &[Module]) -> Option<String> {
    let mut sorts: Vec<(&Module, usize)> = Vec::new();
    for module in modules {
        match sorts.iter_mut().find(|(known, _)| *known == module) {
            Some((_, count)) => *count += 1,
            None => sorts.push((module, 1)),
        }
    }
    let texts = sorts.iter().map(|(module, count)| {
        let width = match module.bits {
            Some(bits) => format!(", {count} x {bits} bit"),
            None => ", width unknown".into(),
        };
        let speed = module.transfers.map(|mega| format!(" at {mega} MT/s"));
        format!("{}{width}{}", module.kind, speed.unwrap_or_default())
    });
    let text = texts.collect::<Vec<_>>().join("; ");
    Some(text).filter(|text| !text.is_empty())
}

fn names(folder: &Path, prefix: &str) -> io::Result<Vec<String>> {
    let entries = fs::read_dir(folder)?.flatten();
    let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
    let mut names: Vec<String> = names.filter(|name| name.starts_with(prefix)).collect();
    names.sort();
    Ok(names)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn board(files: &[(&str, &[u8])]) -> Reading {
        let root = tempfile::tempdir().unwrap();
        for (path, bytes) in files {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, bytes).unwrap();
        }
        kind(root.path())
    }

    /// A table of type 17 as a 2.8 firmware writes it, from the offsets of the standard.
    fn table(size: u16, bits: u16, kind: u8, could: u16, runs: u16) -> Vec<u8> {
        let mut table = vec![0; 0x28];
        (table[0], table[1]) = (17, 0x28);
        for (at, value) in [
            (0x08, bits),
            (0x0a, bits),
            (0x0c, size),
            (0x15, could),
            (0x20, runs),
        ] {
            table[at..at + 2].copy_from_slice(&value.to_le_bytes());
        }
        table[0x12] = kind;
        table
    }

    #[test]
    fn channels_of_the_device_tree_are_counted() {
        let width = 16_u32.to_be_bytes();
        let read = board(&[
            (
                "proc/device-tree/lpddr-channel0/compatible",
                b"jedec,lpddr5-channel\0",
            ),
            ("proc/device-tree/lpddr-channel0/io-width", &width),
            (
                "proc/device-tree/lpddr-channel1/compatible",
                b"jedec,lpddr5-channel\0",
            ),
            ("proc/device-tree/lpddr-channel1/io-width", &width),
            ("proc/device-tree/lpddr-other/compatible", b"vendor,thing\0"),
        ]);
        assert_eq!(read.value(), Some("LPDDR5, 2 x 16 bit"));
    }

    #[test]
    fn firmware_tells_of_modules_and_not_of_empty_slots() {
        let module = table(16_384, 64, 0x1a, 3_200, 2_933);
        let empty = table(0, 0, 0x02, 0, 0);
        let unknown = table(8_192, 0xffff, 0x23, 6_400, 0);
        let read = board(&[
            ("sys/firmware/dmi/entries/17-0/raw", &module),
            ("sys/firmware/dmi/entries/17-1/raw", &empty),
            ("sys/firmware/dmi/entries/17-2/raw", &module),
            ("sys/firmware/dmi/entries/17-3/raw", &unknown),
            ("sys/firmware/dmi/entries/16-0/raw", b"other"),
        ]);
        assert_eq!(
            read.value(),
            Some("DDR4, 2 x 64 bit at 2933 MT/s; LPDDR5, width unknown")
        );
    }

    #[test]
    fn a_short_table_is_no_module() {
        for len in 0..0x13 {
            assert_eq!(module(&table(1, 64, 0x22, 0, 0)[..len]), None, "{len}");
        }
    }

    #[test]
    fn vendors_files_are_understood_and_silence_has_a_reason() {
        let kinds = [
            ("sys/class/socinfo/ddr_type", "1\n"),
            ("sys/class/boardinfo/ddr_type", "lpddr5\n"),
        ];
        let read = kinds.map(|(path, text)| board(&[(path, text.as_bytes())]));
        assert_eq!(read[0].value(), Some("LPDDR4"));
        assert_eq!(read[1].value(), Some("LPDDR5"));
        assert!(
            board(&[("sys/class/socinfo/ddr_type", b"7")])
                .value()
                .is_none()
        );
        assert!(board(&[]).reason().unwrap().contains("device tree"));
    }
}
