//! Bundles: one run as one file, to be sent to somebody and taken in elsewhere.
//!
//! `tar` packed by gzip, which every system can open. Its first member lists the others with their hashes. Rows
//! are those of the store, piece by piece ([`crate::store::copy`]); what is private is taken out first
//! ([`places`] says what that is). Taking in happens in one transaction, and believes nothing.

pub mod clean;
mod error;
mod known;
mod manifest;
pub mod places;
mod read;
mod scratch;
mod strip;
mod write;

#[cfg(test)]
mod tests;

pub use error::BundleError;
pub use known::words;
pub use manifest::{DOCUMENT, Manifest};
pub use read::{Taken, read};
pub use write::{Bundled, Wish, write};
