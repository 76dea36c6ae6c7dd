//! The part of EdgeDyno that runs on the board.
//!
//! A trial's way through this crate: [`daemon`] takes an order from its queue and starts a [`worker`],
//! which opens a [`backend`] and runs the [`trial`] loop; trials go into the [`arena`], from there to
//! the spool, and on to the host. Meanwhile the [`sampler`] watches the board, and [`stressor`]s keep it
//! busy where a case asks for it. What only root may open a [`privileged`] helper opens.

pub mod arena;
mod args;
pub mod backend;
pub mod clock;
mod crc32c;
pub mod daemon;
mod disk;
mod dram;
pub mod entry;
pub mod facts;
pub mod hardware;
pub mod inputs;
mod neighbours;
pub mod privileged;
mod readiness;
pub mod sampler;
mod sensor;
pub mod stressor;
pub mod trial;
pub mod worker;

pub use edgedyno_sys::kernel::allocations;

/// Names this build: a digest of the sources that run on the board, the target and the features.
pub const BUILD_ID: &str = env!("EDGEDYNO_BUILD_ID");
