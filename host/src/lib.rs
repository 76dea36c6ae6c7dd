//! The EdgeDyno host: plans, drives boards, stores, compares and explains.

pub mod model;
pub mod runtime;
