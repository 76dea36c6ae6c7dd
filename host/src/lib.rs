//! The host side of EdgeDyno: plan, drive, store, analyse, explain.

pub mod board;
pub mod bundle;
pub mod cli;
pub mod clock;
pub mod cmd;
pub mod compare;
pub mod contention;
pub mod doctor;
pub mod documents;
pub mod drive;
pub mod exit;
pub mod export;
pub mod fields;
pub mod figure;
pub mod findings;
#[cfg(test)]
mod golden;
pub mod guard;
pub mod model;
pub mod near;
pub mod options;
pub mod plan;
pub mod preflight;
pub mod records;
pub mod report;
pub mod runtime;
pub mod selfcheck;
pub mod soak;
pub mod source;
pub mod stats;
pub mod store;
pub mod summary;
pub mod telemetry;
pub mod trace;
pub mod ui;
pub mod view;
pub mod whole_file;
