//! The wire: frames of a length, a kind and a payload, the same over every carrier.

pub mod event;
pub mod failure;
pub mod frame;
pub mod hello;
pub mod record;
pub mod request;
