//! A board's file system without the board: Debian's libraries for the target, for programs that run under
//! qemu's user emulation, and the parts of an emulated board.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::Write;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, ensure};
use flate2::Compression;
use flate2::write::GzEncoder;

use crate::debian::Apt;
use crate::place::{self, text};
use crate::targets::Target;

/// What the agent and the runtimes it opens need.
const LIBRARIES: [&str; 3] = ["libc6", "libgcc-s1", "libstdc++6"];

/// What the emulated board needs beside them: a shell, an ssh server without sftp, traffic control, and a
/// manager of services for those who ask for it.
const BOARD: [&str; 4] = ["busybox-static", "dropbear-bin", "iproute2", "systemd"];

const KERNEL: &str = "linux-image-cloud-arm64";

/// Modules of the emulated board; what they need is loaded before them.
const MODULES: [&str; 5] = [
    "virtio_pci",
    "virtio_blk",
    "virtio_net",
    "ext4",
    "sch_netem",
];

/// A runtime's own look at the processor reads /proc/cpuinfo, which under qemu's user emulation before 10 is
/// the x86 host's, and crashes the library. A file in the sysroot stands in for it.
const CPUINFO: &str = "processor\t: 0\nBogoMIPS\t: 100.00\n\
    Features\t: fp asimd evtstrm aes pmull sha1 sha2 crc32 atomics fphp asimdhp cpuid asimdrdm lrcpc dcpop asimddp\n\
    CPU implementer\t: 0x41\nCPU architecture: 8\nCPU variant\t: 0x4\nCPU part\t: 0xd0b\nCPU revision\t: 0\n\n";

/// Libraries of the target, for `qemu-ARCH -L`.
pub(crate) fn sysroot(target: &Target) -> Result<PathBuf> {
    let _one_at_a_time = place::lock("sysroot")?;
    let folder = place::folder(&format!("sysroot/{}", target.name))?;
    if folder.join("complete").exists() {
        return Ok(folder);
    }
    let apt = Apt::with(&target.debian)?;
    let packages = LIBRARIES.map(|package| format!("{package}:{}", target.debian));
    apt.unpack(&packages, &folder)?;
    if target.arch == "aarch64" {
        fs::create_dir_all(folder.join("proc"))?;
        fs::write(folder.join("proc/cpuinfo"), CPUINFO)?;
    }
    fs::write(folder.join("complete"), "")?;
    Ok(folder)
}

/// Kernel and first file system of an emulated board: `vmlinuz` and `initramfs.gz` in the folder returned.
/// The board's own disk, with home and keys, is whoever boots it's to make.
pub(crate) fn board(target: &Target) -> Result<PathBuf> {
    ensure!(
        target.arch == "aarch64",
        "only aarch64 is emulated as a whole board"
    );
    let _one_at_a_time = place::lock("board")?;
    let folder = place::folder(&format!("board/{}", target.name))?;
    let init = include_str!("../board/init");
    if fs::read_to_string(folder.join("init")).is_ok_and(|had| had == init) {
        return Ok(folder);
    }
    let root = fresh(&folder.join("root"))?;
    let apt = Apt::with(&target.debian)?;
    let wanted: Vec<&str> = LIBRARIES.iter().chain(&BOARD).copied().collect();
    apt.unpack(&apt.closure(&wanted, &target.debian)?, &root)?;
    let kernel = fresh(&folder.join("kernel"))?;
    let image = text(
        apt.command("apt-cache")
            .args(["depends", &format!("{KERNEL}:{}", target.debian)]),
    )?;
    let image = image
        .lines()
        .find_map(|line| line.trim().strip_prefix("Depends: "));
    let image = image.context("no kernel to be had")?.to_owned();
    apt.unpack(&[image], &kernel)?;
    let version = only_entry(&kernel.join("lib/modules"))?;
    fs::copy(
        kernel.join("boot").join(format!("vmlinuz-{version}")),
        folder.join("vmlinuz"),
    )?;
    let order = modules(&kernel, &version, &root)?;
    fs::write(root.join("modules"), order.join("\n") + "\n")?;
    finish(&root, init)?;
    let unfinished = folder.join("initramfs.new");
    let mut archive = Archive::create(&unfinished)?;
    archive.add_folder(&root, "")?;
    archive.finish()?;
    fs::rename(unfinished, folder.join("initramfs.gz"))?;
    fs::remove_dir_all(&root)?;
    fs::remove_dir_all(&kernel)?;
    // Last, so that half a board is made again.
    fs::write(folder.join("init"), init)?;
    Ok(folder)
}

/// What no package brings: the first program, a user, and folders to mount on.
fn finish(root: &Path, init: &str) -> Result<()> {
    for name in [
        "usr/share/doc",
        "usr/share/man",
        "usr/share/locale",
        "usr/lib/locale",
        "usr/share/bash-completion",
    ] {
        let _ = fs::remove_dir_all(root.join(name));
    }
    for name in ["proc", "sys", "dev", "run", "tmp", "data", "etc", "root"] {
        fs::create_dir_all(root.join(name))?;
    }
    fs::write(root.join("init"), init)?;
    fs::write(
        root.join("etc/passwd"),
        "root:x:0:0:root:/data/root:/bin/sh\n",
    )?;
    fs::write(root.join("etc/group"), "root:x:0:\n")?;
    fs::write(root.join("etc/shells"), "/bin/sh\n")?;
    // An empty one would make each boot of systemd the first, which sets up everything.
    fs::write(
        root.join("etc/machine-id"),
        "00112233445566778899aabbccddeeff\n",
    )?;
    let units = root.join("etc/systemd/system");
    fs::create_dir_all(&units)?;
    let target = units.join("default.target");
    let _ = fs::remove_file(&target);
    symlink("/lib/systemd/system/multi-user.target", target)?;
    // Nobody logs in at a console, and those that wait for udev would keep the start from its end.
    symlink("/dev/null", units.join("getty.target"))?;
    Ok(())
}

/// Copies the modules with all they need; their names in the order to load them.
fn modules(kernel: &Path, version: &str, root: &Path) -> Result<Vec<String>> {
    let mut files = BTreeMap::new();
    find_modules(&kernel.join("lib/modules").join(version), &mut files)?;
    let into = root.join("lib/modules");
    fs::create_dir_all(&into)?;
    let mut order = Vec::new();
    for wanted in MODULES {
        load(wanted, &files, &into, &mut order)?;
    }
    Ok(order)
}

/// Modules by the names that others call them: underscores stand for hyphens.
fn find_modules(folder: &Path, files: &mut BTreeMap<String, PathBuf>) -> Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() && !path.is_symlink() {
            find_modules(&path, files)?;
        } else if path.extension().is_some_and(|end| end == "ko") {
            let name = path
                .file_stem()
                .unwrap_or_default()
                .to_string_lossy()
                .replace('-', "_");
            files.insert(name, path);
        }
    }
    Ok(())
}

/// What a module needs stands in the module itself, so that no depmod is needed.
fn load(
    name: &str,
    files: &BTreeMap<String, PathBuf>,
    into: &Path,
    order: &mut Vec<String>,
) -> Result<()> {
    let file = format!("{name}.ko");
    // Built into this kernel, it needs no file.
    let Some(path) = files.get(name).filter(|_| !order.contains(&file)) else {
        return Ok(());
    };
    let bytes = fs::read(path)?;
    for needed in depends(&bytes) {
        load(&needed.replace('-', "_"), files, into, order)?;
    }
    fs::write(into.join(&file), &bytes)?;
    order.push(file);
    Ok(())
}

/// The entry `depends=a,b` of the section .modinfo, whose entries end with a zero.
fn depends(module: &[u8]) -> Vec<String> {
    const ENTRY: &[u8] = b"\0depends=";
    let Some(at) = module
        .windows(ENTRY.len())
        .position(|window| window == ENTRY)
    else {
        return Vec::new();
    };
    let rest = &module[at + ENTRY.len()..];
    let end = rest
        .iter()
        .position(|byte| *byte == 0)
        .unwrap_or(rest.len());
    let text = String::from_utf8_lossy(&rest[..end]);
    text.split(',')
        .filter(|name| !name.is_empty())
        .map(str::to_owned)
        .collect()
}

fn fresh(folder: &Path) -> Result<PathBuf> {
    let _ = fs::remove_dir_all(folder);
    fs::create_dir_all(folder)?;
    Ok(folder.to_owned())
}

fn only_entry(folder: &Path) -> Result<String> {
    let entry = fs::read_dir(folder)?
        .next()
        .context("the kernel's package has no modules")??;
    Ok(entry.file_name().to_string_lossy().into_owned())
}

/// A cpio archive in the form that the kernel unpacks ("newc", Documentation/driver-api/early-userspace/
/// buffer-format.rst), compressed.
struct Archive {
    out: GzEncoder<fs::File>,
    count: u32,
}

impl Archive {
    fn create(path: &Path) -> Result<Self> {
        let out = GzEncoder::new(fs::File::create(path)?, Compression::fast());
        Ok(Self { out, count: 0 })
    }

    fn add_folder(&mut self, folder: &Path, name: &str) -> Result<()> {
        let entries = fs::read_dir(folder)?.collect::<std::io::Result<Vec<_>>>()?;
        let names: BTreeSet<_> = entries.iter().map(fs::DirEntry::file_name).collect();
        for file in names {
            let path = folder.join(&file);
            let found = path.symlink_metadata()?;
            let inner = match name {
                "" => file.to_string_lossy().into_owned(),
                name => format!("{name}/{}", file.to_string_lossy()),
            };
            let mode = std::os::unix::fs::MetadataExt::mode(&found);
            if found.is_symlink() {
                let target = fs::read_link(&path)?;
                self.add(&inner, 0o120_777, target.as_os_str().as_encoded_bytes())?;
            } else if found.is_dir() {
                self.add(&inner, 0o040_755, b"")?;
                self.add_folder(&path, &inner)?;
            } else if found.is_file() {
                let runs = if inner == "init" { 0o111 } else { mode & 0o111 };
                self.add(&inner, 0o100_644 | runs, &fs::read(&path)?)?;
            }
        }
        Ok(())
    }

    fn add(&mut self, name: &str, mode: u32, content: &[u8]) -> Result<()> {
        self.count += 1;
        let size = u32::try_from(content.len()).context("too large a file for a cpio archive")?;
        let name_size = u32::try_from(name.len() + 1)?;
        // Inode, mode, owner, group, links, time, size, device twice, device of the file twice, name, sum.
        let fields = [self.count, mode, 0, 0, 1, 0, size, 0, 0, 0, 0, name_size, 0];
        let mut header = b"070701".to_vec();
        for field in fields {
            write!(header, "{field:08x}")?;
        }
        header.extend(name.as_bytes());
        header.push(0);
        pad(&mut header);
        self.out.write_all(&header)?;
        let mut content = content.to_vec();
        pad(&mut content);
        self.out.write_all(&content)?;
        Ok(())
    }

    fn finish(mut self) -> Result<()> {
        self.add("TRAILER!!!", 0, b"")?;
        self.out.finish()?.sync_all()?;
        Ok(())
    }
}

/// To a multiple of four bytes.
fn pad(bytes: &mut Vec<u8>) {
    bytes.resize(bytes.len().next_multiple_of(4), 0);
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;

    use super::*;

    #[test]
    fn a_module_says_what_it_needs() {
        let module = b"\x7fELF...\0license=GPL\0depends=virtio,virtio_ring\0retpoline=Y\0";
        assert_eq!(depends(module), ["virtio", "virtio_ring"]);
        assert!(depends(b"\0depends=\0name=x\0").is_empty() && depends(b"").is_empty());
    }

    #[test]
    fn an_archive_is_one_that_the_kernel_reads() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().join("root");
        fs::create_dir_all(root.join("bin")).unwrap();
        fs::write(root.join("init"), "abcde").unwrap();
        symlink("../init", root.join("bin/sh")).unwrap();
        let path = folder.path().join("x.gz");
        let mut archive = Archive::create(&path).unwrap();
        archive.add_folder(&root, "").unwrap();
        archive.finish().unwrap();
        let mut bytes = Vec::new();
        flate2::read::GzDecoder::new(fs::File::open(path).unwrap())
            .read_to_end(&mut bytes)
            .unwrap();
        let mut names = Vec::new();
        let mut at = 0;
        while at < bytes.len() {
            assert_eq!(&bytes[at..at + 6], b"070701");
            let field = |n: usize| {
                let text = std::str::from_utf8(&bytes[at + 6 + 8 * n..at + 14 + 8 * n]).unwrap();
                usize::from_str_radix(text, 16).unwrap()
            };
            let (mode, size, name_size) = (field(1), field(6), field(11));
            let name =
                String::from_utf8(bytes[at + 110..at + 110 + name_size - 1].to_vec()).unwrap();
            let content = (at + 110 + name_size).next_multiple_of(4);
            let text = String::from_utf8(bytes[content..content + size].to_vec()).unwrap();
            names.push((name, mode, text));
            at = (content + size).next_multiple_of(4);
        }
        let plain = |name: &str, mode, text: &str| (name.to_owned(), mode, text.to_owned());
        assert_eq!(
            names,
            [
                plain("bin", 0o040_755, ""),
                plain("bin/sh", 0o120_777, "../init"),
                plain("init", 0o100_755, "abcde"),
                plain("TRAILER!!!", 0, ""),
            ]
        );
    }
}
