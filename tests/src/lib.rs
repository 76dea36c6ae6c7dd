//! The harness of the end-to-end tests: real binaries in a sandbox, real runtimes, real models.
//!
//! A test makes a [`Sandbox`], runs `edgedyno` in it as a user would, and looks at the exit code, at
//! stdout (often JSON, held against a schema by [`schema`]) and at what is left on disk. What this
//! machine cannot do is skipped out loud by [`skip()`]; with `EDGEDYNO_TEST_STRICT=1` (as in CI) only
//! what is listed as impossible here may be.

pub mod assets;
pub mod bench;
pub mod binaries;
pub mod boards;
pub mod book;
pub mod clock;
pub mod commands;
pub mod console;
pub mod deny;
pub mod emulated;
pub mod example;
pub mod golden;
pub mod lab;
pub mod leftovers;
pub mod ports;
pub mod process;
pub mod proof;
pub mod redact;
pub mod runtime;
pub mod sandbox;
pub mod schema;
pub mod skip;
pub mod small_disk;
pub mod source;
pub mod spdx;
pub mod sshd;
pub mod tcp_relay;
pub mod terminal;
pub mod udp_relay;
pub mod webdriver;
pub mod workspace;

pub use binaries::binaries;
pub use lab::Lab;
pub use process::{Output, Running};
pub use sandbox::Sandbox;
pub use skip::{Need, skip};
pub use terminal::Terminal;
