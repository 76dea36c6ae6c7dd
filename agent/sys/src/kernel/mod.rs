//! Kernel interfaces: shared mappings, and processes that end with their parent.

pub mod mapping;
pub mod pages;
pub mod process;
