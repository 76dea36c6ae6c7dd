//! What samplers look around with when they search a board.

use std::collections::BTreeMap;
use std::sync::Arc;

use edgedyno_shared::telemetry::TelemetryMode;

use super::files::{Files, Kept};
use crate::worker::spawn::SelfExec;

/// The board that is searched, and the worker that is watched.
pub struct Board {
    pub files: Arc<dyn Files>,
    /// Process number of the worker; none where none runs.
    pub worker: Option<u32>,
    /// How much is asked for.
    pub mode: TelemetryMode,
    /// How this program starts another of itself; none where it cannot.
    pub exec: Option<SelfExec>,
}

impl Board {
    pub fn keep(&self, path: &str, room: usize) -> Kept {
        Kept::open(&*self.files, path, room)
    }

    /// A file's text without the white space around it; none where it cannot be read.
    pub fn line(&self, path: &str) -> Option<String> {
        let mut kept = self.keep(path, 4096);
        let text = kept.text().ok()?;
        let text = String::from_utf8_lossy(text);
        Some(
            text.trim_matches(|c: char| c.is_whitespace() || c == '\0')
                .to_owned(),
        )
    }

    /// Whether a file can be opened.
    pub fn has(&self, path: &str) -> bool {
        self.files.open(path).is_ok()
    }

    /// Names in a folder that begin so, `x9` before `x10`; why there are none.
    pub fn entries(&self, folder: &str, prefix: &str) -> Result<Vec<String>, String> {
        let names = self.files.list(folder);
        let names = names.map_err(|why| format!("/{folder}: {why}"))?;
        let mut names: Vec<String> = names
            .into_iter()
            .filter(|name| name.starts_with(prefix))
            .collect();
        names.sort_by_key(|name| (name.len(), name.clone()));
        match names.is_empty() {
            true => Err(format!("/{folder} is empty of {prefix}")),
            false => Ok(names),
        }
    }
}

/// Makes names unique: a second `cpu` becomes `cpu_2`.
#[derive(Debug, Default)]
pub(super) struct Names(BTreeMap<String, u32>);

impl Names {
    /// `text` as part of a channel's name: lower case, digits, underscores.
    pub(super) fn of(&mut self, text: &str) -> String {
        let plain = plain(text);
        let count = self.0.entry(plain.clone()).or_default();
        *count += 1;
        match *count {
            1 => plain,
            n => format!("{plain}_{n}"),
        }
    }
}

/// Lower case letters and digits, everything else an underscore, none at the ends.
pub(super) fn plain(text: &str) -> String {
    let text: String = text
        .chars()
        .map(|c| match c.is_ascii_alphanumeric() {
            true => c.to_ascii_lowercase(),
            false => '_',
        })
        .collect();
    match text.trim_matches('_') {
        "" => "unnamed".into(),
        text => text.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_plain_and_unique() {
        let mut names = Names::default();
        let made = ["CPU-therm", "soc:ddrc-freq", "cpu_therm", "\u{e9}", ""].map(|n| names.of(n));
        assert_eq!(
            made,
            [
                "cpu_therm",
                "soc_ddrc_freq",
                "cpu_therm_2",
                "unnamed",
                "unnamed_2"
            ]
        );
    }
}
