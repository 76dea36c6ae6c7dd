//! Finding what a test left running.

use std::fs;
use std::path::{Path, PathBuf};

use nix::unistd::Pid;

/// Every live process that belongs to the sandbox in `folder`: its environment names the folder, or
/// it works inside. A daemon is in neither our group nor our session, so /proc is what is left to ask.
pub fn living_in(folder: &Path) -> Vec<(Pid, String)> {
    let Ok(entries) = fs::read_dir("/proc") else {
        return Vec::new();
    };
    let me = Pid::this();
    entries
        .flatten()
        .filter_map(|entry| Some((entry.file_name().to_str()?.parse().ok()?, entry.path())))
        .map(|(pid, path): (i32, PathBuf)| (Pid::from_raw(pid), path))
        .filter(|(pid, path)| *pid != me && belongs_to(path, folder))
        .map(|(pid, path)| (pid, command_line(&path)))
        .collect()
}

fn belongs_to(process: &Path, folder: &Path) -> bool {
    // A process may end between the listing and the reading: then it belongs to nobody. The
    // environment of a zombie reads as empty, so the dead do not count.
    let environ = fs::read(process.join("environ")).unwrap_or_default();
    let wanted = folder.as_os_str().as_encoded_bytes();
    environ.windows(wanted.len()).any(|part| part == wanted)
        || fs::read_link(process.join("cwd")).is_ok_and(|cwd| cwd.starts_with(folder))
}

fn command_line(process: &Path) -> String {
    let bytes = fs::read(process.join("cmdline")).unwrap_or_default();
    String::from_utf8_lossy(&bytes)
        .replace('\0', " ")
        .trim_end()
        .to_owned()
}

#[cfg(test)]
mod tests {
    use std::process::Command;
    use std::time::Duration;

    use super::*;
    use crate::clock::Deadline;

    #[test]
    fn who_works_in_a_folder_or_knows_its_name_is_found() {
        let folder = tempfile::tempdir().unwrap();
        let mut inside = Command::new("sleep")
            .arg("63")
            .current_dir(&folder)
            .spawn()
            .unwrap();
        let mut knowing = Command::new("sleep")
            .arg("63")
            .env("A", folder.path())
            .spawn()
            .unwrap();
        // What a new program knows is there a moment after it has begun.
        let children = [inside.id(), knowing.id()].map(u32::cast_signed);
        let both_are_found = || {
            let found = living_in(folder.path()).into_iter();
            let found: Vec<i32> = found.map(|(pid, _)| pid.as_raw()).collect();
            children
                .iter()
                .all(|child| found.contains(child))
                .then_some(())
        };
        let found = Deadline::after(Duration::from_secs(10)).poll(both_are_found);
        assert_eq!(found, Some(()));
        for child in [&mut inside, &mut knowing] {
            child.kill().unwrap();
            child.wait().unwrap();
        }
        assert!(living_in(folder.path()).is_empty());
    }
}
