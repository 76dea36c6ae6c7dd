//! The host side of EdgeDyno: plan, drive, store, analyse, explain.

pub mod fields;
pub mod findings;
#[cfg(test)]
mod golden;
pub mod near;
pub mod stats;
pub mod store;
pub mod summary;
pub mod ui;
pub mod view;
