//! The host side of EdgeDyno: plan, drive, store, analyse, explain.

pub mod board;
pub mod drive;
pub mod exit;
pub mod fields;
pub mod findings;
pub mod model;
#[cfg(test)]
mod golden;
pub mod near;
pub mod options;
pub mod plan;
pub mod stats;
pub mod store;
pub mod summary;
pub mod ui;
pub mod view;
