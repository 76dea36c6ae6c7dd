//! What happened when, as trace viewers show it: repeats, stages and trials as slices, threads and CPUs as
//! tracks, telemetry as counters, findings, outliers and loads as marks, all on the board's monotonic clock.

mod chrome;
mod counters;
mod gather;
mod perfetto;
mod placed;
mod trials;

#[cfg(test)]
mod tests;

pub use chrome::chrome;
pub use gather::gather;
pub use perfetto::perfetto;

/// A trace: one group for all repeats of a board, and one for each attempt of a repeat.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Trace {
    pub groups: Vec<Group>,
}

/// Tracks that belong together, such as those of one worker process.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Group {
    pub name: String,
    pub tracks: Vec<Track>,
}

/// One line in the viewer.
#[derive(Debug, Clone, PartialEq)]
pub struct Track {
    pub name: String,
    /// Lines with the same one stand together under its name.
    pub shelf: Option<String>,
    pub content: Content,
}

#[derive(Debug, Clone, PartialEq)]
pub enum Content {
    /// In order of time, none within another.
    Slices(Vec<Slice>),
    Marks(Vec<Mark>),
    Counter {
        unit: String,
        /// Time and the value from then on, in order of time.
        points: Vec<(i64, f64)>,
    },
}

/// Something that lasted.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Slice {
    pub name: String,
    pub start_ns: i64,
    pub end_ns: i64,
    pub notes: Vec<(&'static str, String)>,
    pub flow: Option<Flow>,
}

/// An arrow from one slice to the one that came of it; the number is the same at both.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Flow {
    Begins(u64),
    Ends(u64),
}

/// A moment that somebody must know of.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Mark {
    pub name: String,
    pub at_ns: i64,
    pub notes: Vec<(&'static str, String)>,
}

impl Content {
    fn is_empty(&self) -> bool {
        match self {
            Self::Slices(slices) => slices.is_empty(),
            Self::Marks(marks) => marks.is_empty(),
            Self::Counter { points, .. } => points.is_empty(),
        }
    }
}

impl Group {
    /// Adds a line, unless nothing stands on it.
    fn put(&mut self, name: impl Into<String>, shelf: Option<&str>, content: Content) {
        if !content.is_empty() {
            self.tracks.push(Track {
                name: name.into(),
                shelf: shelf.map(str::to_owned),
                content,
            });
        }
    }

    fn named(name: String) -> Self {
        Self {
            name,
            tracks: Vec::new(),
        }
    }
}
