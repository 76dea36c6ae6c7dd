//! Trials of one lane of one repeat, decoded.

use edgedyno_shared::columns::{FIXED_COLUMNS, ROLE, Role};

use serde::{Deserialize, Serialize};

use super::rows::ColumnRow;

/// Decoded trials, column after column, each of the same length.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Columns {
    pub specs: Vec<ColumnRow>,
    pub cells: Vec<Vec<i64>>,
}

impl Columns {
    pub fn rows(&self) -> usize {
        self.cells.first().map_or(0, Vec::len)
    }

    /// A column by its label, such as `end_ns` or `step[3]`.
    pub fn column(&self, label: &str) -> Option<&[i64]> {
        let at = self.specs.iter().position(|spec| spec.label() == label)?;
        self.cells.get(at).map(Vec::as_slice)
    }

    /// Indices of the trials of one role, in order.
    pub fn trials_of(&self, role: Role) -> impl Iterator<Item = usize> + '_ {
        let roles = self.cells.get(ROLE).map_or(&[][..], Vec::as_slice);
        let wanted = role.code();
        (0..roles.len()).filter(move |&i| roles[i] == wanted)
    }

    /// Names for columns whose declaration could not be read: the fixed ones, then by position.
    pub(super) fn unnamed(count: usize) -> Vec<ColumnRow> {
        let name = |i: usize| match FIXED_COLUMNS.get(i) {
            Some((name, unit)) => ((*name).to_owned(), (*unit).to_owned()),
            None => (format!("column_{i}"), "unknown".into()),
        };
        let spec = |(name, unit)| ColumnRow {
            name,
            unit,
            occurrence: None,
        };
        (0..count).map(name).map(spec).collect()
    }
}
