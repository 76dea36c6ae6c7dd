//! The host side of EdgeDyno: plan, drive, store, analyse, explain.

pub mod near;
pub mod stats;
pub mod store;
pub mod ui;
