//! Runtimes on this machine: where they are kept, and how they get there.

pub mod cache;
pub mod error;
pub mod install;
mod known;
mod library;
mod pip;
mod spec;
mod wheel;

pub use spec::Spec;
