//! The host side of EdgeDyno: plan, drive, store, analyse, explain.

pub mod stats;
pub mod ui;
