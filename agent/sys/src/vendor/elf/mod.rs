//! What an ELF file says about itself, read without running any of its code.
//!
//! The loader decides with these facts whether a library can work here at all, and the manifest of a
//! run keeps them. Only what that needs is read; layouts are from the System V ABI (gABI, "Object
//! Files" and "Dynamic Linking") and, for version needs and the GNU hash table, from the Linux
//! Standard Base core specification.

mod exports;
mod facts;
mod image;
mod platform;

pub use facts::{ElfError, ElfFacts};
pub use platform::{Architecture, GlibcVersion};
