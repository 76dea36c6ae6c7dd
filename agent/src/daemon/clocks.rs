//! Clocks held where they are while a repeat runs, and put back afterwards, also after a crash.
//!
//! What stood in each file is written down, durably, before the first is changed.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use edgedyno_shared::repeat::Effective;

use crate::disk;
use crate::privileged::client::Helper;

const POLICIES: &str = "sys/devices/system/cpu/cpufreq";
const DEVICES: &str = "sys/class/devfreq";

/// The governor that stays at the highest clock allowed.
const HOLDING: &str = "performance";

/// Clocks that are held, and by whom.
#[derive(Debug)]
pub enum Hold {
    Own(Held),
    /// By the process that stayed root.
    Helped(Arc<Helper>),
}

impl Hold {
    /// Has the helper hold them when there is one, else tries it with this user's own rights; what stands there
    /// then says how far they reached.
    ///
    /// # Errors
    /// As [`Held::set`].
    pub fn set(
        helper: Option<&Arc<Helper>>,
        root: &Path,
        journal: &Path,
    ) -> io::Result<(Self, Vec<Effective>)> {
        if let Some(helper) = helper {
            match helper.hold_clocks() {
                Ok(effective) => return Ok((Self::Helped(Arc::clone(helper)), effective)),
                Err(why) => tracing::warn!("the privileged helper does not hold the clocks: {why}"),
            }
        }
        let (held, effective) = Held::set(root, journal)?;
        Ok((Self::Own(held), effective))
    }

    /// Puts back what stood there.
    ///
    /// # Errors
    /// When something could not be; whoever held it tries again when it starts the next time.
    pub fn restore(self) -> io::Result<()> {
        match self {
            Self::Own(held) => held.restore(),
            Self::Helped(helper) => helper.restore_clocks(),
        }
    }
}

/// Clocks that this process holds.
#[derive(Debug)]
pub struct Held {
    root: PathBuf,
    journal: PathBuf,
    /// Files and what stood in them, in the order they were changed.
    before: Vec<(String, String)>,
}

/// A file to change, what to, and what it is called in the result.
struct Change {
    file: String,
    to: String,
    name: String,
}

impl Held {
    /// Changes what can be changed, and says for each file what was asked for and what stands there now.
    ///
    /// # Errors
    /// When what stood there cannot be written down: then nothing is changed.
    pub fn set(root: &Path, journal: &Path) -> io::Result<(Self, Vec<Effective>)> {
        let changes = changes(root);
        let mut held = Self {
            root: root.into(),
            journal: journal.into(),
            before: Vec::new(),
        };
        for change in &changes {
            let stood = line(root, &change.file)?;
            held.before.push((change.file.clone(), stood));
        }
        let lines = held
            .before
            .iter()
            .map(|(file, was)| format!("{file}\t{was}\n"));
        disk::write_whole(journal, lines.collect::<String>().as_bytes())?;
        let effective = changes.iter().map(|change| {
            // What was refused is seen by what stands there.
            let _ = fs::write(root.join(&change.file), &change.to);
            Effective {
                name: change.name.clone(),
                requested: Some(change.to.clone()),
                observed: line(root, &change.file).ok(),
            }
        });
        let effective = effective.collect();
        Ok((held, effective))
    }

    /// Puts back what stood there, the last change first.
    ///
    /// # Errors
    /// When a file could not be written; the journal stays then, and the next start tries again.
    pub fn restore(self) -> io::Result<()> {
        put_back(&self.root, &self.before)?;
        disk::remove(&self.journal)
    }
}

/// Puts back what an earlier daemon left changed. True when there was something.
///
/// # Errors
/// When it could not be.
pub fn restore_left_over(root: &Path, journal: &Path) -> io::Result<bool> {
    let text = match fs::read_to_string(journal) {
        Ok(text) => text,
        Err(why) if why.kind() == io::ErrorKind::NotFound => return Ok(false),
        Err(why) => return Err(why),
    };
    // Half of a number is another clock.
    let lines = text.split_inclusive('\n');
    let lines = lines.filter_map(|line| line.strip_suffix('\n'));
    let before = lines.filter_map(|line| line.split_once('\t'));
    // Only files that this agent changes: a journal is no way to write anywhere else.
    let is_ours = |file: &str| {
        (file.starts_with(POLICIES) || file.starts_with(DEVICES)) && !file.contains("..")
    };
    let before: Vec<(String, String)> = before
        .filter(|(file, _)| is_ours(file))
        .map(|(file, was)| (file.into(), was.into()))
        .collect();
    put_back(root, &before)?;
    disk::remove(journal)?;
    Ok(true)
}

fn put_back(root: &Path, before: &[(String, String)]) -> io::Result<()> {
    let mut first = Ok(());
    for (file, was) in before.iter().rev() {
        let is_there = line(root, file).is_ok_and(|now| now == *was);
        if is_there {
            continue;
        }
        let written = fs::write(root.join(file), was);
        first = first.and(written.map_err(disk::at(&root.join(file))));
    }
    first
}

/// What is to be changed on this board: governors that can hold, and the lowest clock up to the highest
/// that is allowed.
fn changes(root: &Path) -> Vec<Change> {
    let mut changes = Vec::new();
    for policy in names(root, POLICIES, "policy") {
        let folder = format!("{POLICIES}/{policy}");
        let governors = line(root, &format!("{folder}/scaling_available_governors"));
        if governors.is_ok_and(|all| all.split(' ').any(|g| g == HOLDING)) {
            changes.push(Change {
                file: format!("{folder}/scaling_governor"),
                to: HOLDING.into(),
                name: format!("clocks.{policy}.governor"),
            });
        }
        if let Ok(highest) = line(root, &format!("{folder}/scaling_max_freq")) {
            changes.push(Change {
                file: format!("{folder}/scaling_min_freq"),
                to: highest,
                name: format!("clocks.{policy}.min_khz"),
            });
        }
    }
    for device in names(root, DEVICES, "") {
        let folder = format!("{DEVICES}/{device}");
        let governors = line(root, &format!("{folder}/available_governors"));
        if governors.is_ok_and(|all| all.split(' ').any(|g| g == HOLDING)) {
            changes.push(Change {
                file: format!("{folder}/governor"),
                to: HOLDING.into(),
                name: format!("clocks.{device}.governor"),
            });
        }
    }
    changes.retain(|change| root.join(&change.file).exists());
    changes
}

fn names(root: &Path, folder: &str, prefix: &str) -> Vec<String> {
    let entries = fs::read_dir(root.join(folder))
        .into_iter()
        .flatten()
        .flatten();
    let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
    let mut names: Vec<String> = names.filter(|name| name.starts_with(prefix)).collect();
    names.sort();
    names
}

fn line(root: &Path, file: &str) -> io::Result<String> {
    Ok(fs::read_to_string(root.join(file))?.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    const POLICY: &str = "sys/devices/system/cpu/cpufreq/policy0";

    fn board() -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        for (file, text) in [
            (
                format!("{POLICY}/scaling_available_governors"),
                "schedutil performance\n",
            ),
            (format!("{POLICY}/scaling_governor"), "schedutil\n"),
            (format!("{POLICY}/scaling_min_freq"), "408000\n"),
            (format!("{POLICY}/scaling_max_freq"), "1800000\n"),
            (
                "sys/class/devfreq/dmc/available_governors".into(),
                "dmc_ondemand performance\n",
            ),
            ("sys/class/devfreq/dmc/governor".into(), "dmc_ondemand\n"),
            (
                "sys/class/devfreq/fixed/available_governors".into(),
                "userspace\n",
            ),
            ("sys/class/devfreq/fixed/governor".into(), "userspace\n"),
        ] {
            let path = root.path().join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        root
    }

    fn state(root: &Path) -> [String; 4] {
        let policy = |file: &str| line(root, &format!("{POLICY}/{file}")).unwrap();
        let device = |name: &str| line(root, &format!("{DEVICES}/{name}/governor")).unwrap();
        [
            policy("scaling_governor"),
            policy("scaling_min_freq"),
            device("dmc"),
            device("fixed"),
        ]
    }

    #[test]
    fn clocks_are_held_read_back_and_put_back() {
        let root = board();
        let journal = root.path().join("journal");
        let before = state(root.path());
        let (held, effective) = Held::set(root.path(), &journal).unwrap();
        assert_eq!(
            state(root.path()),
            ["performance", "1800000", "performance", "userspace"]
        );
        assert_eq!(effective.len(), 3);
        for each in &effective {
            assert_eq!(each.requested, each.observed, "{}", each.name);
        }
        assert!(journal.exists());
        held.restore().unwrap();
        assert_eq!(state(root.path()), before);
        assert!(!journal.exists());
    }

    #[test]
    fn a_crash_leaves_a_journal_that_the_next_start_obeys_once() {
        let root = board();
        let journal = root.path().join("journal");
        let before = state(root.path());
        drop(Held::set(root.path(), &journal).unwrap());
        assert_ne!(state(root.path()), before);
        assert!(restore_left_over(root.path(), &journal).unwrap());
        assert_eq!(state(root.path()), before);
        assert!(!restore_left_over(root.path(), &journal).unwrap());
    }

    #[test]
    fn what_is_refused_is_seen() {
        let root = board();
        let governor = root.path().join(format!("{POLICY}/scaling_governor"));
        fs::remove_file(&governor).unwrap();
        // A folder in its place takes no text.
        fs::create_dir(&governor).unwrap();
        let journal = root.path().join("journal");
        assert!(Held::set(root.path(), &journal).is_err());
        assert!(!journal.exists(), "nothing was changed");
    }

    #[test]
    fn half_a_line_of_a_journal_sets_no_clock() {
        let root = board();
        let before = state(root.path());
        let journal = root.path().join("journal");
        fs::write(&journal, format!("{POLICY}/scaling_min_freq\t60")).unwrap();
        assert!(restore_left_over(root.path(), &journal).unwrap());
        assert_eq!(state(root.path()), before);
    }

    #[test]
    fn a_journal_writes_nowhere_else() {
        let root = board();
        let other = root.path().join("other");
        fs::write(&other, "mine").unwrap();
        let journal = root.path().join("journal");
        let line = format!("other\tyours\n{POLICIES}/../../../../other\tyours\n");
        fs::write(&journal, line).unwrap();
        restore_left_over(root.path(), &journal).unwrap();
        assert_eq!(fs::read_to_string(other).unwrap(), "mine");
    }
}
