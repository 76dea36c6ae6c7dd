//! The arena: a ring of trial slots on tmpfs that the worker fills and the daemon reads.
//!
//! The worker maps it; the daemon never does, so that nothing the worker does to the file can hurt it.

pub mod layout;
pub mod reader;
pub mod sealed;
pub mod writer;

pub use layout::Layout;
pub use reader::ArenaReader;
pub use sealed::Sealed;
pub use writer::ArenaWriter;
