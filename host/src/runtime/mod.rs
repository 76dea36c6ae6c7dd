//! Runtimes on this machine: where they are kept, and how they get there.

mod archive;
pub mod cache;
pub mod error;
pub mod install;
mod known;
mod library;
pub mod listing;
pub mod offer;
mod pip;
mod spec;
mod wheel;

pub use known::usual_download;
pub use library::architecture_of;
pub use spec::{PACKAGES, Spec};
