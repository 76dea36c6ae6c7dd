//! Boards as text (`tests/boards`), for an agent that is a process of its own. The agent's own tests read the
//! same files and tell their form (`agent/src/sampler/boards.rs`, `agent/src/hardware.rs`).

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::Path;

use crate::workspace;

/// A board at its first moment.
#[derive(Debug, Default)]
pub struct Board {
    /// Path, mode, text.
    files: Vec<(String, u32, String)>,
    links: Vec<(String, String)>,
    /// What is read of it then: a channel or a fact, and its value.
    expected: Vec<(String, String)>,
}

impl Board {
    /// Reads `NAME.tree` or `NAME.facts`.
    ///
    /// # Panics
    /// When the file is not there, or some file of the board is closed: that takes more than files.
    pub fn read(file: &str) -> Self {
        let path = workspace::root().join("tests/boards").join(file);
        let text = fs::read_to_string(&path).unwrap_or_else(|why| panic!("{file}: {why}"));
        Self::parse(&text)
    }

    fn parse(text: &str) -> Self {
        let mut board = Self::default();
        let first = text.lines().take_while(|line| !line.starts_with("@@ "));
        for line in first {
            match line.split(' ').collect::<Vec<_>>().as_slice() {
                // Emulators make /proc/cpuinfo up.
                ["#" | "cpus", ..] => {}
                ["==", path] => board.begin(path, 0o644),
                ["==", mode, path] => board.begin(path, u32::from_str_radix(mode, 8).unwrap()),
                ["->", path, target] => board.links.push(((*path).into(), (*target).into())),
                ["??", name, ..] => {
                    let value = line.splitn(3, ' ').nth(2).unwrap_or_default();
                    board.expected.push(((*name).into(), value.into()));
                }
                ["!!" | "!>", ..] => panic!("only files can be put in an agent's way: {line}"),
                _ => {
                    let (_, _, text) = board.files.last_mut().expect("a file has a path first");
                    text.push_str(line);
                    text.push('\n');
                }
            }
        }
        board
    }

    fn begin(&mut self, path: &str, mode: u32) {
        self.files.push((path.into(), mode, String::new()));
    }

    /// Makes its files below a folder, in the place of those that are there.
    pub fn unpack(&self, root: &Path) {
        for (path, mode, text) in &self.files {
            let path = root.join(path);
            fs::create_dir_all(path.parent().expect("it lies below the root")).unwrap();
            // One that only its owner may read may not be written either.
            let _ = fs::remove_file(&path);
            fs::write(&path, text).unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(*mode)).unwrap();
        }
        for (path, target) in &self.links {
            let path = root.join(path);
            fs::create_dir_all(path.parent().expect("it lies below the root")).unwrap();
            symlink(target, path).unwrap();
        }
    }

    /// What is read of it, but for what it has not: where a file is missing, a process finds this machine's.
    pub fn expected(&self) -> impl Iterator<Item = (&str, &str)> {
        let all = self.expected.iter();
        let all = all.map(|(name, value)| (name.as_str(), value.as_str()));
        // Of one core that the emulator made up.
        all.filter(|(name, value)| *value != "absent" && *name != "cores")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_board_is_its_first_moment() {
        let board = Board::parse(
            "# A board.\ncpus 0-1 0x41 0xd05\n== a/b\none\ntwo\n== 0400 a/c\n3\n-> a/d b\n?? x.load 7\n?? model Board of two words\n?? cores 0-1 Cortex-A55\n?? y absent\n@@ 1000\n== a/b\nlater\n?? x.load 8\n",
        );
        let root = tempfile::tempdir().unwrap();
        board.unpack(root.path());
        board.unpack(root.path().join("again").as_path());
        let read = |path: &str| fs::read_to_string(root.path().join(path)).unwrap();
        assert_eq!(
            (read("a/b"), read("a/d")),
            ("one\ntwo\n".into(), read("a/b"))
        );
        let mode = fs::metadata(root.path().join("a/c")).unwrap().permissions();
        assert_eq!(mode.mode() & 0o777, 0o400);
        let expected: Vec<(&str, &str)> = board.expected().collect();
        assert_eq!(expected, [("x.load", "7"), ("model", "Board of two words")]);
    }
}
