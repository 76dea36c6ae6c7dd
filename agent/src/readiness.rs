//! What a measurement here needs beside a runtime: room for results, a clock that is right, and device files
//! that may be opened. Read anew each time that somebody asks.

use std::fs;
use std::path::Path;

use edgedyno_shared::device::{DeviceFile, Readiness};
use edgedyno_shared::units::Bytes;
use nix::sys::statvfs::statvfs;
use nix::unistd::{AccessFlags, eaccess};

use crate::{clock, disk};

/// Folders of device files, and how those of accelerators begin: D-Robotics' BPU, Rockchip's NPU and Arm's
/// GPUs, Hailo's, NVIDIA's, and what the kernel lists for all.
const DEVICES: [(&str, &[&str]); 3] = [
    (
        "dev",
        &["bpu", "rknpu", "mali", "hailo", "nvhost-ctrl", "nvidia0"],
    ),
    ("dev/dri", &["renderD"]),
    ("dev/accel", &["accel"]),
];

/// Reads it now, below `root` what is a device.
pub(crate) fn read(root: &Path, state: &Path) -> Readiness {
    Readiness {
        state_free: free(state),
        unix_seconds: Some(clock::wall_unix_ns() / 1_000_000_000),
        device_files: device_files(root),
    }
}

/// A file system of no size, such as the kernel's first one, does not tell of room.
fn free(folder: &Path) -> Option<Bytes> {
    let found = statvfs(folder).ok()?;
    if found.blocks() == 0 {
        return None;
    }
    disk::free_bytes(folder).ok().map(Bytes)
}

fn device_files(root: &Path) -> Vec<DeviceFile> {
    let mut files = Vec::new();
    for (folder, beginnings) in DEVICES {
        let entries = fs::read_dir(root.join(folder)).into_iter().flatten();
        let names = entries
            .flatten()
            .filter_map(|entry| entry.file_name().into_string().ok());
        let is_one = |name: &String| beginnings.iter().any(|begin| name.starts_with(begin));
        let mut names: Vec<String> = names.filter(is_one).collect();
        names.sort();
        files.extend(names.iter().map(|name| {
            let path = root.join(folder).join(name);
            DeviceFile {
                path: format!("/{folder}/{name}"),
                usable: eaccess(&path, AccessFlags::R_OK | AccessFlags::W_OK).is_ok(),
            }
        }));
    }
    files
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn device_files_of_accelerators_are_found_with_what_may_be_done_with_them() {
        let root = tempfile::tempdir().unwrap();
        for (file, mode) in [
            ("dev/bpu_core0", 0o600),
            ("dev/null", 0o600),
            ("dev/dri/card0", 0o600),
            ("dev/dri/renderD128", 0o400),
            ("dev/accel/accel0", 0o600),
        ] {
            let path = root.path().join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(&path, "").unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        }
        let found = device_files(root.path());
        let paths: Vec<&str> = found.iter().map(|file| file.path.as_str()).collect();
        assert_eq!(
            paths,
            ["/dev/bpu_core0", "/dev/dri/renderD128", "/dev/accel/accel0"]
        );
        assert!(found[0].usable && found[2].usable);
        // Root may write what nobody may.
        let is_root = nix::unistd::geteuid().is_root();
        assert_eq!(found[1].usable, is_root);
    }

    #[test]
    fn a_board_without_any_has_room_and_a_clock_all_the_same() {
        let folder = tempfile::tempdir().unwrap();
        let found = read(folder.path(), folder.path());
        assert!(found.device_files.is_empty());
        // A clock that was never set says 1970, and this machine's was.
        assert!(found.unix_seconds.unwrap() > 1_700_000_000);
        let there = disk::free_bytes(folder.path()).unwrap();
        let told = found.state_free.unwrap().0;
        assert!(told.abs_diff(there) < 1 << 30, "{told} of {there}");
        assert_eq!(free(&folder.path().join("nowhere")), None);
    }
}
