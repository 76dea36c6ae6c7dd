//! Figures: SVG drawn from what is stored, each a pure function of its data.
//!
//! The same drawing stands in a file, in the report and, drawn once more as dots, in a PNG.

mod chart;
mod cold;
mod contention;
mod decimate;
mod distribution;
pub mod forest;
mod memory;
mod palette;
pub mod phases;
mod png;
mod scale;
mod stack;
pub mod steps;
mod svg;
pub mod sweep;
pub mod timeline;
pub mod warmup;

#[cfg(test)]
mod tests;

pub use cold::cold;
pub use contention::contention;
pub use distribution::distribution;
pub use forest::forest;
pub use memory::memory;
pub use phases::phases;
pub use png::{PngError, png};
pub use steps::steps;
pub use svg::escape;
pub use sweep::sweep;
pub use timeline::timeline;
pub use warmup::warmup;

/// A finished drawing.
#[derive(Debug, Clone, PartialEq)]
pub struct Figure {
    /// A file name without its ending, and the begin of ids: lower case, digits, `-`.
    pub name: String,
    pub title: String,
    /// What can be seen and how it was drawn, in words: for readers who do not see it, and below it.
    pub about: String,
    pub svg: String,
}

impl Figure {
    /// The drawing as a file of its own, on white paper: what shows it may be dark behind it.
    pub fn file(&self) -> String {
        let paper = "</desc>\n<rect width=\"100%\" height=\"100%\" fill=\"#ffffff\"/>\n";
        self.svg.replacen("</desc>\n", paper, 1)
    }
}

/// One case by the name it has among the others of its run.
#[derive(Debug, Clone, PartialEq)]
pub struct Labelled<T> {
    pub label: String,
    pub of: T,
}

/// A name for files and ids: what is no letter or digit becomes `-`.
pub fn name_of(parts: &[&str]) -> String {
    let joined = parts.join("-").to_lowercase();
    let plain = joined
        .chars()
        .map(|c| if c.is_ascii_alphanumeric() { c } else { '-' });
    let plain: String = plain.collect();
    plain.trim_end_matches('-').to_owned()
}
