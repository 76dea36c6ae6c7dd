//! Kernel interfaces: shared mappings, processes that end with their parent, counted allocations.

pub mod allocations;
pub mod axi_monitor;
pub mod descriptors;
pub mod folder;
pub mod mapping;
pub mod pages;
pub mod perf;
pub mod process;
