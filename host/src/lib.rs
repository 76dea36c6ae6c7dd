//! The host side of EdgeDyno: plan, drive, store, analyse, explain.

#[cfg(test)]
mod golden;
pub mod board;
pub mod cli;
pub mod clock;
pub mod cmd;
pub mod drive;
pub mod exit;
pub mod fields;
pub mod findings;
pub mod model;
pub mod near;
pub mod options;
pub mod plan;
pub mod runtime;
pub mod stats;
pub mod store;
pub mod summary;
pub mod ui;
pub mod view;
