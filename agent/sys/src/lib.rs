//! The only crate of EdgeDyno with `unsafe` code; everything it exports is safe.
//!
//! [`kernel`] holds what the Linux kernel offers and safe crates do not, [`stress`] keeps memory and
//! processors busy, [`vendor`] opens the runtimes' libraries and calls their C interfaces. Vendor code
//! runs only in a worker process: a crash there is a row in the results, not the end of the daemon.

#![cfg(target_os = "linux")]

pub mod kernel;
pub mod stress;
pub mod vendor;
