//! Files made from what is stored. Each format is one exporter of one list.

mod contention;
mod csv;
mod dir;
mod jsonl;
mod memory;
mod monitor;
mod openmetrics;
mod output;
#[cfg(feature = "parquet")]
mod parquet;
mod profile;

#[cfg(test)]
mod tests;

use crate::source::{Source, SourceError};
use crate::store::rows::CaseEntry;

pub use output::{ExportError, Output};

/// Writes some cases of a run in one format.
pub trait Exporter: Sync {
    /// What `--format` calls it.
    fn name(&self) -> &'static str;

    /// One line for `--help` and the documentation.
    fn about(&self) -> &'static str;

    /// Whether it makes a folder when the output does not say which.
    fn makes_folder(&self) -> bool;

    fn write(
        &self,
        source: &Source,
        cases: &[&CaseEntry],
        output: &mut Output,
    ) -> Result<(), ExportError>;
}

/// Every format there is.
pub const EXPORTERS: &[&dyn Exporter] = &[
    &dir::Dir,
    &profile::Profiles,
    &csv::Csv,
    &jsonl::Jsonl,
    &memory::Memory,
    &contention::Contention,
    &monitor::Monitor,
    &openmetrics::OpenMetrics,
    #[cfg(feature = "parquet")]
    &parquet::Parquet,
];

pub fn find(name: &str) -> Option<&'static dyn Exporter> {
    EXPORTERS
        .iter()
        .copied()
        .find(|exporter| exporter.name() == name)
}

impl From<SourceError> for ExportError {
    fn from(error: SourceError) -> Self {
        Self::Source(error)
    }
}
