//! A comparison as text: a table for the terminal, Markdown for a pull request, JUnit for a server.

mod junit;
pub(crate) mod label;
mod markdown;
pub(crate) mod notes;
mod table;

pub use junit::junit;
pub use markdown::markdown;
pub use table::table;
