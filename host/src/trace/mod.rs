//! What happened when, as trace viewers show it: stages and trials as slices, telemetry as counters,
//! findings and outliers as marks, all on the board's monotonic clock.

mod chrome;
mod gather;
mod perfetto;

#[cfg(test)]
mod tests;

pub use chrome::chrome;
pub use gather::gather;
pub use perfetto::perfetto;

/// A trace: one group for each attempt of a repeat.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Trace {
    pub groups: Vec<Group>,
}

/// Tracks of one worker process.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Group {
    pub name: String,
    pub tracks: Vec<Track>,
}

/// One line in the viewer.
#[derive(Debug, Clone, PartialEq)]
pub struct Track {
    pub name: String,
    pub content: Content,
}

#[derive(Debug, Clone, PartialEq)]
pub enum Content {
    /// In order of time, none within another.
    Slices(Vec<Slice>),
    Marks(Vec<Mark>),
    Counter {
        unit: String,
        /// Time and value, in order of time.
        points: Vec<(i64, i64)>,
    },
}

/// Something that lasted.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Slice {
    pub name: String,
    pub start_ns: i64,
    pub end_ns: i64,
    pub notes: Vec<(&'static str, String)>,
}

/// A moment that somebody must know of.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Mark {
    pub name: String,
    pub at_ns: i64,
    pub notes: Vec<(&'static str, String)>,
}
