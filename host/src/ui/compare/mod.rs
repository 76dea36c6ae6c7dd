//! A comparison as text: a table for the terminal, Markdown for a pull request, JUnit for a server.

mod junit;
mod label;
mod markdown;
mod notes;
mod table;

pub use junit::junit;
pub use markdown::markdown;
pub use table::table;
