//! The host side of EdgeDyno: plan, drive, store, analyse, explain.

pub mod board;
pub mod drive;
pub mod exit;
pub mod model;
pub mod near;
pub mod plan;
pub mod runtime;
pub mod stats;
pub mod store;
pub mod ui;
