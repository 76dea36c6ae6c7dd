//! Boards behind ssh: the system's own `ssh` carries everything, so that its configuration, agents, jump
//! hosts and known hosts hold.
//!
//! [`shell`] runs scripts, [`probe`] says what a board is, [`deploy`] brings the agent there, [`start`] starts
//! it, [`clear`] takes it away again, [`put`] brings runtimes, and [`carrier`] joins a session to its relay.

pub mod carrier;
pub mod clear;
pub mod deploy;
pub mod destination;
pub mod fault;
pub mod probe;
pub mod put;
pub mod shell;
pub mod start;
#[cfg(test)]
mod testing;

pub use carrier::Ssh;
pub use destination::Destination;
pub use fault::{Fault, SshError};
pub use shell::Shell;
