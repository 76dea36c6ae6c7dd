//! What crosses between EdgeDyno's host and its agents.
//!
//! The host sends a [`wire::hello`], then [`wire::request`]s; the agent answers each, sends
//! [`wire::event`]s while a repeat runs, and afterwards its [`wire::record`]s, which the host commits to
//! its store and acknowledges. Everything here is plain data: fixed-width fields, no serde
//! attributes, no I/O beyond `AsyncRead` and `AsyncWrite`. [`link`] is how the two know each other over a
//! network.

pub mod artifact;
pub mod case;
pub mod clocks;
pub mod columns;
pub mod content;
pub mod cpus;
pub mod device;
pub mod file_mark;
pub mod folders;
pub mod ids;
pub mod link;
pub mod load;
pub mod methods;
pub mod near;
pub mod order;
pub mod printable;
pub mod repeat;
pub mod telemetry;
pub mod units;
pub mod wire;

/// SHA-256 over this crate's sources, in hex: host and agent must agree on it until 1.0.
pub const SCHEMA_HASH_HEX: &str = env!("EDGEDYNO_SCHEMA_HASH");

/// The version that host and agent are released under.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");
