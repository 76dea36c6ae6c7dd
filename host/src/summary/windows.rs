//! A case at its beginning, middle and end, repeat by repeat.

use crate::stats::windows::{Windows, windows};
use crate::view::{CaseView, RepeatView};

/// One case by the name it is shown under, and its windows, one for each repeat that counts.
#[derive(Debug, Clone, PartialEq)]
pub struct Variant {
    pub name: String,
    pub repeats: Vec<(u32, Windows)>,
}

impl Variant {
    pub fn of(name: String, view: &CaseView) -> Self {
        let of_repeat = |repeat: &RepeatView| {
            let ms = repeat.trials.measured.iter().map(|ns| *ns as f64 / 1e6);
            let found = windows(&ms.collect::<Vec<_>>(), None)?;
            Some((repeat.row.key.repeat, found))
        };
        Self {
            name,
            repeats: view.counting().filter_map(of_repeat).collect(),
        }
    }
}
